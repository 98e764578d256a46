"""What library functions accept and reject: the table in each docstring against actual calls, and messages that name
arguments."""

import re
from importlib import import_module

import kiln
import ml_dtypes
import numpy as np
import pytest
from kiln import errors
from kiln.kernels import FAMILIES
from kiln.kernels.activation import bias_gelu, swiglu
from kiln.kernels.attention import (
    append,
    append_quantized,
    attention,
    attention_backward,
    attention_varlen,
    attention_varlen_backward,
    create_block_mask,
    decode_attention,
    decode_quantized,
    flex_attention,
    flex_attention_backward,
    quantized_cache,
)
from kiln.kernels.elementwise import add
from kiln.kernels.embedding import embedding
from kiln.kernels.gemm import linear, matmul
from kiln.kernels.norm import layer_norm, residual_rms_norm, rms_norm
from kiln.kernels.operator import Operator
from kiln.kernels.optimizer import TensorLists, adamw, adamw_lists
from kiln.kernels.reduce import sum_all, topk
from kiln.kernels.rope import rope, rope_tables
from kiln.kernels.rows import RowPlan
from kiln.kernels.softmax import softmax

pytestmark = pytest.mark.host

TYPES = {
    name: getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else np.dtype(name)
    for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
                 "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "complex64", "int4")
}  # fmt: skip


def ones(*shape):
    return np.ones(shape, np.float32)


def whole(*shape):
    return np.zeros(shape, np.int32)


# A call of each function whose arguments and results are small integers (except for activation epilogues), so that they
# are the same in every type.
CALLS = {
    add: {"x": ones(3, 4), "y": ones(3, 4)},
    sum_all: {"x": ones(3, 4)},
    topk: {"x": ones(3, 4), "k": 2},
    softmax: {"x": ones(2, 4)},
    rms_norm: {"x": ones(3, 4), "weight": ones(4)},
    layer_norm: {"x": ones(3, 4), "weight": ones(4), "bias": ones(4)},
    residual_rms_norm: {"x": ones(3, 4), "residual": ones(3, 4), "weight": ones(4)},
    swiglu: {"gate": ones(3, 4), "up": ones(3, 4)},
    bias_gelu: {"x": ones(3, 4), "bias": ones(4)},
    rope: {"q": ones(1, 2, 2, 4), "k": ones(1, 2, 1, 4), "cos": ones(3, 2), "sin": ones(3, 2), "positions": whole(2)},
    embedding: {"ids": whole(3), "table": ones(5, 4)},
    matmul: {"a": ones(3, 4), "b": ones(4, 2), "bias": ones(2), "c": ones(3, 2), "beta": 1.0, "residual": ones(3, 2),
             "row_scale": ones(3)},
    linear: {"x": ones(3, 4), "w": ones(2, 4), "bias": ones(2), "c": ones(3, 2), "beta": 1.0, "residual": ones(3, 2),
             "row_scale": ones(3)},
    attention: {"q": ones(1, 3, 2, 4), "k": ones(1, 3, 1, 4), "v": ones(1, 3, 1, 4), "sinks": ones(2),
                "alibi_slopes": ones(2), "bias": ones(1, 1, 3, 3)},
    flex_attention_backward: {"query": ones(1, 2, 3, 4), "key": ones(1, 2, 3, 4), "value": ones(1, 2, 3, 4),
                              "out": ones(1, 2, 3, 4), "lse": ones(1, 2, 3), "dout": ones(1, 2, 3, 4)},
    flex_attention: {"query": ones(1, 2, 3, 4), "key": ones(1, 2, 3, 4), "value": ones(1, 2, 3, 4)},
    attention_backward: {"q": ones(1, 3, 2, 4), "k": ones(1, 3, 1, 4), "v": ones(1, 3, 1, 4), "out": ones(1, 3, 2, 4),
                         "lse": ones(1, 2, 3), "dout": ones(1, 3, 2, 4), "alibi_slopes": ones(2), "sinks": ones(2),
                         "bias": ones(1, 1, 3, 3)},
    attention_varlen_backward: {"q": ones(3, 2, 4), "k": ones(3, 1, 4), "v": ones(3, 1, 4), "out": ones(3, 2, 4),
                                "lse": ones(2, 3), "dout": ones(3, 2, 4), "cu_seqlens_q": 3 * whole(2),
                                "cu_seqlens_k": 3 * whole(2), "max_seqlen_q": 3, "max_seqlen_k": 3,
                                "alibi_slopes": ones(2), "sinks": ones(2)},
    attention_varlen: {"q": ones(3, 2, 4), "k": ones(3, 1, 4), "v": ones(3, 1, 4), "cu_seqlens_q": 3 * whole(2),
                       "cu_seqlens_k": 3 * whole(2), "max_seqlen_q": 3, "max_seqlen_k": 3, "sinks": ones(2),
                       "alibi_slopes": ones(2)},
    decode_attention: {"q": ones(2, 2, 4), "k": ones(2, 3, 1, 4), "v": ones(2, 3, 1, 4), "lengths": whole(2) + 1,
                       "block_table": None},
    append: {"q": ones(1, 2, 2, 4), "k": ones(1, 2, 1, 4), "v": ones(1, 2, 1, 4), "k_cache": ones(1, 3, 1, 4),
             "v_cache": ones(1, 3, 1, 4), "lengths": whole(1) + 2, "cos": ones(3, 2), "sin": ones(3, 2)},
    append_quantized: {"q": ones(1, 2, 2, 32), "k": ones(1, 2, 1, 32), "v": ones(1, 2, 1, 32),
                       "k_cache": np.zeros((1, 1, 8, 32, 16), np.uint8),
                       "v_cache": np.zeros((1, 1, 8, 32, 16), np.uint8), "k_ranges": np.ones((1, 1, 128), np.float16),
                       "v_ranges": np.ones((1, 1, 128), np.float16), "lengths": whole(1) + 2, "cos": ones(3, 2),
                       "sin": ones(3, 2)},
    decode_quantized: {"q": ones(1, 2, 32), "k": np.zeros((1, 1, 8, 32, 16), np.uint8),
                       "v": np.zeros((1, 1, 8, 32, 16), np.uint8), "k_ranges": np.ones((1, 1, 128), np.float16),
                       "v_ranges": np.ones((1, 1, 128), np.float16), "lengths": whole(1) + 1},
    adamw: {"parameter": ones(5), "gradient": ones(5), "moment": ones(5), "square": ones(5), "step": 1,
            "master": ones(5)},
}  # fmt: skip
NAMES = {function.__name__: function for function in CALLS}


def rows_of_table(function):
    """The table as documented: for each row, the types by argument (the name of another argument means its type)."""
    text = function.__doc__.split("others are refused::\n\n")[1]
    shapes, *rows = [block.splitlines() for block in text.rstrip().split("\n\n")]
    found = []
    for row in rows:
        types = {}
        for line in row:
            names, said = re.split(r"  +", line.strip(), maxsplit=1)
            types |= dict.fromkeys(names.split(", "), said)
        found.append(types)
    return {line.split()[0] for line in shapes}, found


def allowed(row, name, given):
    said = row.get(name, "")
    while said.startswith("as "):
        said = given[said[3:]] if said[3:] in given else row[said[3:]]
    return said.split(", ")


def fits(rows, given):
    """Whether the table admits these types together."""
    return any(all(type_ in allowed(row, name, given) for name, type_ in given.items()) for row in rows)


def test_every_function_of_the_library_is_here():
    functions = {f for family in FAMILIES for f in vars(import_module(f"kiln.kernels.{family}")).values()
                 if isinstance(f, Operator)}  # fmt: skip
    assert {f for f in functions if f.__name__ != "adamw_lists"} == set(CALLS)


@pytest.mark.parametrize("name", NAMES)
def test_the_table_says_what_is_taken(name):
    """Each type for each array alone, and for all floats together: accepted or refused as the table says."""
    function, call = NAMES[name], CALLS[NAMES[name]]
    arrays = {key: value for key, value in call.items() if isinstance(value, np.ndarray)}
    described, rows = rows_of_table(function)
    assert set(arrays) <= described
    floats = [key for key, value in arrays.items() if value.dtype == np.float32]
    changes = [{key: type_} for key in arrays for type_ in TYPES]
    changes += [dict.fromkeys([key for key in floats if key != spared], type_) for type_ in TYPES
                for spared in (None, "master")]  # fmt: skip
    taken = 0
    for change in changes:
        given = {**{key: str(value.dtype) for key, value in arrays.items()}, **change}
        made = {key: value.astype(TYPES[given[key]]) for key, value in arrays.items()}
        if fits(rows, given):
            function(**{**call, **made})
            taken += 1
        else:
            with pytest.raises(errors.ArgumentError) as refused:
                function(**{**call, **made})
            assert refused.value.argument in arrays, change
            assert f"{name}: {refused.value.argument}: expected type" in str(refused.value), change
            assert f"got {given[refused.value.argument]}" in str(refused.value)
    assert taken


@pytest.mark.parametrize("name", TYPES)
def test_sums_have_room(name):
    """Sums of narrow types are accumulated in wider ones, like numpy's, except that floats keep their type."""
    if name in ("complex64", "int4") or name.startswith("float8"):
        with pytest.raises(errors.ArgumentError, match=f"sum_all: x: expected type .*, got {name}"):
            sum_all(np.ones(4).astype(TYPES[name]))
        return
    x = (np.arange(3000) % 101).astype(TYPES[name])
    x[5:9] = 1
    exact = int(np.asarray(x, np.float64).sum())
    out = sum_all(x)
    kind = "uint64" if name == "uint64" else "int64" if "int" in name or name == "bool" else name
    assert out.dtype == TYPES[kind] and sum_all.output_specs(x)[0].dtype in (kind, x.dtype)
    assert out == np.asarray(exact).astype(out.dtype)


def test_sums_keep_every_digit():
    assert sum_all(np.array([2**62, 1, -1, 3], np.int64)) == 2**62 + 3
    assert sum_all(np.array([2**53, 1, -(2**53)], np.int64)) == 1
    assert sum_all(np.array([1.0, 2.0**-50], np.float64)) == 1 + 2.0**-50
    assert sum_all(np.full(1 << 20, -128, np.int8)) == -128 << 20
    assert sum_all(np.array([2**64 - 1], np.uint64)) == 2**64 - 1


def test_the_sum_of_bools_is_their_or():
    x, y = np.array([0, 1, 1, 0], bool), np.array([0, 0, 1, 1], bool)
    assert add(x, y).tolist() == (x + y).tolist() == [False, True, True, True]


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "uint8", "uint16"])
def test_topk_of_integers_keeps_every_digit(name):
    limits = np.iinfo(name)
    x = np.array([[1, limits.max - 1, limits.min, limits.max, limits.max - 1]], name)
    values, indices = topk(x, 5)
    assert indices.tolist() == [[3, 1, 4, 0, 2]]
    assert (values == x[0, indices[0]]).all()


@kiln.jit
def near(batch, head, q, kv):
    return q - kv <= 8


@kiln.jit
def lowered(score, batch, head, q, kv, least):
    return score - least


MESSAGES = [
    (lambda x: rms_norm([1.0, 2.0], x[0]), r"rms_norm: x: expected an array \(of numpy, torch or DeviceArray\), got "
                                           r"\[1.0, 2.0\]"),
    (lambda x: rms_norm(x, 1.0), r"rms_norm: weight: expected an array .*, got 1.0"),
    (lambda x: add(x, 1), r"add: y: expected an array .*, got 1\n(.*\n)*hint: numbers are not broadcast"),
    (lambda x: add(x, np.float32(1)), r"add: y: expected an array .*, got np.float32\(1.0\)"),
    (lambda x: softmax(None), r"softmax: x: expected an array .*, got None"),
    (lambda x: softmax("abc"), r"softmax: x: expected an array .*, got 'abc'"),
    (lambda x: softmax(np.zeros((), np.float32)), r"softmax: x: expected shape \(…, n\) \(because softmax takes x "
                                                   r"\(…, n\)\), got \(\)"),
    (lambda x: rms_norm(x[0], x), r"rms_norm: weight: expected shape \(n\) \(because rms_norm takes x \(…, n\), weight "
                                  r"\(n\)\), got \(4, 6\)\n(.*\n)*hint: x has the shape of weight: are the two in each "
                                  r"other's place\?"),
    (lambda x: embedding(x, np.zeros(3, int)), r"embedding: table: expected shape \(vocabulary, n\).*\n(.*\n)*hint: "),
    (lambda x: attention(x, x, x), r"attention: q: expected shape \(batch, queries, heads, size\)"),
    (lambda x: matmul(x[0], x), r"matmul: a: expected shape \(m, k\) or \(batch, m, k\)"),
    (lambda x: rms_norm(x, x[0], eps=x), r"rms_norm: eps: expected a number, got an array of shape \(4, 6\)"),
    (lambda x: rms_norm(x, x[0], eps="1"), r"rms_norm: eps: expected a number, got '1'"),
    (lambda x: rms_norm(x, x[0], cast=None), r"rms_norm: cast: expected a string, got None"),
    (lambda x: topk(x, 2.0), r"topk: k: expected an integer, got 2.0"),
    (lambda x: attention(x[None, None], x[None, None], x[None, None], causal=1), r"causal: expected True or False"),
    (lambda x: matmul(x, x.T, splits=True), r"matmul: splits: expected an integer or None, got True"),
    (lambda x: rms_norm(x.astype(">f4"), x[0]), r"x: expected type .*, got >f4\n(.*\n)*hint: bring it"),
    (lambda x: rms_norm(x.astype(np.float64), x[0]), r"\(because rms_norm computes in float32\), got float64\n(.*\n)*"
                                                     r"hint: convert it"),
    (lambda x: softmax(np.ma.masked_less(x, 0)), r"softmax: x: expected an array without a mask"),
    (lambda x: residual_rms_norm(x, x, x[0], out=x), r"out: expected 2 arrays \(out\[0\], out\[1\]\)"),
    (lambda x: matmul(x, x.T, out_dtype="float64"), r"out_dtype: expected .*a is float32\), got float64"),
    (lambda x: matmul(x.astype(np.int8), x.T.astype(np.int8), out=np.zeros((4, 4), np.uint8)), r"out: expected type "),
    (lambda x: rope(x[None, None], None, ones(2, 4), ones(2, 4)), r"cos: expected at most 3 columns"),
    (lambda x: rope(x[None, None], None, ones(2, 3), ones(2, 3), offset=2), r"offset: expected a number from 0 to 1 "),
    (lambda x: rope(x[None, None], None, ones(2, 3), ones(2, 3), offset=0.0), r"offset: expected an integer, or an"),
    (lambda x: rope(x[None, None], None, ones(2, 3), ones(2, 3), positions=whole(2)), r"positions: expected shape"),
    (lambda x: matmul(ones(2, 3, 4), ones(4, 5), residual=ones(3, 3, 5)), r"residual: expected 2 batches, or"),
    (lambda x: attention(*[ones(1, 2, 2, 0)] * 3), r"attention: q: expected heads of at least one element"),
    (lambda x: decode_attention(ones(2, 2, 0), *[ones(2, 3, 1, 0)] * 2, whole(2)), r"q: expected heads of at"),
    (lambda x: decode_attention(ones(2, 2, 4), *[ones(2, 3, 1, 4)] * 2, whole(2), max_length=-1), r"max_length: "),
    (lambda x: decode_attention(ones(2, 2, 4), ones(3, 3, 1, 4), ones(3, 3, 1, 4), whole(2)), r"k, v: expected 2 seq"),
    (lambda x: rms_norm(x, x[0], plan=3), r"rms_norm: plan: expected a RowPlan or None, got 3"),
    (lambda x: attention(*[ones(1, 2, 2, 4)] * 3, plan=RowPlan(64)), r"plan: expected an AttentionPlan or None"),
    (lambda x: layer_norm(x, (6,), x[0], x[0]), r"layer_norm: weight: expected an array .*, got \(6,\)"),
    *[(lambda x, w=w: attention(*[ones(1, 2, 2, 4)] * 3, window=w), r"window: expected a pair \(left, right\) of")
      for w in (3, "12", (1.5, 2), (float("inf"), 0), (1, 2, 3), (None, 0), (True, 0))],
    (lambda x: attention(*[ones(1, 2, 2, 4)] * 3, softcap=float("inf")), r"softcap: expected a positive finite"),
    (lambda x: flex_attention(*[ones(1, 2, 2, 4)] * 3, near), r"score_mod: expected a function of \(score, batch, "
                                                              r"head, q, kv\), got one of \(batch, head, q, kv\)"),
    (lambda x: flex_attention(*[ones(1, 2, 2, 4)] * 3, lowered, args=(1.0, 2)), r"q, kv\) and the 2 of args, got o"),
    (lambda x: flex_attention(*[ones(1, 2, 2, 4)] * 3, lowered), r"score_mod: expected .*\n(.*\n)*hint: pass what"),
    (lambda x: flex_attention(*[ones(1, 2, 2, 4)] * 3, lowered, args=x), r"flex_attention: args: expected a tuple"),
    (lambda x: create_block_mask(lowered, None, None, 4, 4), r"create_block_mask: mask_mod: expected a function of \("),
    (lambda x: rope_tables(-1, 4), r"rope_tables: positions: expected an integer, at least 0, got -1"),
    (lambda x: topk(ones(3, 0), 1), r"topk: x: expected rows of at least one element, got shape \(3, 0\)"),
    (lambda x: residual_rms_norm(x, x + 1, x[0].copy(), out=(x, x)), r"out\[0\] \(because both are written\)"),
]  # fmt: skip


@pytest.mark.parametrize("call, message", MESSAGES, ids=[m[:40] for _, m in MESSAGES])
def test_refused_by_name(rng, call, message):
    with pytest.raises(errors.ArgumentError) as refused:
        call(rng.standard_normal((4, 6)).astype(np.float32))
    assert re.search(message, str(refused.value)), str(refused.value)
    assert isinstance(refused.value, ValueError)


def test_a_refusal_names_the_caller():
    with pytest.raises(errors.ArgumentError) as refused:
        rms_norm(np.ones((2, 4), np.int32), ones(4))
    assert refused.value.caller.file == __file__
    assert str(refused.value).startswith(__file__) and "error: rms_norm: x: expected type float16, " in str(
        refused.value
    )
    assert (refused.value.function, refused.value.argument) == ("rms_norm", "x")


def test_python_says_what_python_checks():
    with pytest.raises(TypeError, match="weight"):
        rms_norm(ones(2, 4))
    with pytest.raises(TypeError, match="epsilon"):
        rms_norm(ones(2, 4), ones(4), epsilon=1.0)


def test_a_call_that_was_admitted_does_not_admit_another():
    rms_norm(ones(2, 4), ones(4))
    for wrong in (np.ones((2, 4)), np.ones((2, 4), np.int32), [[1.0]]):
        with pytest.raises(errors.ArgumentError):
            rms_norm(wrong, ones(4))
    with pytest.raises(errors.ArgumentError):
        rms_norm(ones(2, 4), ones(1, 4))


# ---- functions whose arguments are no arrays, or lists of them: every row of their tables ----------------------------
@kiln.jit
def distance(batch, head, q, kv):
    return q - kv


def prepared():
    return TensorLists(*([ones(4)] for _ in range(4)))


def block_mask(mask_mod=near, B=None, H=None, Q_LEN=64, KV_LEN=64, **more):
    return create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, **more)


def stepped(step=1, wrap=list, master=(), **more):
    """The parameter after a step from ones."""
    arrays = [ones(4) for _ in range(4)]
    adamw_lists(TensorLists(*(wrap([array]) for array in arrays), *master), step, **more)
    return arrays[0]


# What a call gives, and what it must be: the same as from the plain form of its arguments, or a shape.
TAKEN = {
    "a cache without sequences": lambda: (cache(batch=0).k.shape, (0, 2, 8, 32, 32)),
    "a cache of pages": lambda: (cache(pages=np.int64(3), bits=np.int32(4)).k.shape, cache(pages=3, bits=4).k.shape),
    "no positions": lambda: (rope_tables(0, 8), (np.zeros((0, 4), np.float32),) * 2),
    "numbers of numpy's": lambda: (
        rope_tables(np.int32(2), np.int64(8), np.float32(500000.0)), rope_tables(2, 8, 500000.0)),
    **{f"tables of {dtype}": lambda dtype=dtype: (
        rope_tables(2, 8, dtype=TYPES[dtype]),
        tuple(of([[0.0] * 4, [1, 0.1, 0.01, 0.001]]).astype(TYPES[dtype]) for of in (np.cos, np.sin)))
       for dtype in ("float16", "bfloat16", "float32", "float64")},
    "batches and heads": lambda: (block_mask(B=2, H=np.int32(3)).kv_num_blocks, np.ones((2, 3, 1), np.int32)),
    # A query sees keys up to `near` of it: one or two blocks of 32.
    "two sides": lambda: (block_mask(BLOCK_SIZE=(16, 32)).kv_num_blocks, np.array([[[1, 1, 2, 1]]], np.int32)),
    "a list of arguments": lambda: (block_mask(args=[]).args, ()),
    "a count in memory": lambda: (stepped(np.array([1], np.int8)), stepped(1)),
    "a rate in memory": lambda: (stepped(lr=np.array([1], np.float16)), stepped(lr=1.0)),
    "betas in a list": lambda: (stepped(betas=[0, 0.5]), stepped(betas=(0.0, 0.5))),
    "tuples": lambda: (stepped(wrap=tuple), stepped()),
    "no master": lambda: (stepped(master=[[None]]), stepped()),
}  # fmt: skip


def cache(batch=1, tokens=128, k_heads=2, size=64, bits=8, like=None, pages=None):
    return quantized_cache(batch, tokens, k_heads, size, bits, ones(1) if like is None else like, pages)


REFUSED = {
    "batch": [lambda x=x: cache(batch=x) for x in (-1, 1.0, None)],
    "tokens": [lambda x=x: cache(tokens=x) for x in (0, -128, 128.0)],
    "k_heads": [lambda x=x: cache(k_heads=x) for x in (0, "2")],
    "size": [lambda x=x: cache(size=x) for x in (0, 48, -32, 64.0)],
    "bits": [lambda x=x: cache(bits=x) for x in (2, 16, "8", 4.0)],
    "pages": [lambda x=x: cache(pages=x) for x in (0, 2.0)],
    "like": [lambda x=x: cache(like=x) for x in (1.0, np.float32, np.ones(1), whole(1))],
    "positions": [lambda x=x: rope_tables(x, 8) for x in (-1, 4.0, "4", True, np.arange(4))],
    "dim": [lambda x=x: rope_tables(4, x) for x in (7, 0, -2, 8.0, "8", None)],
    "base": [lambda x=x: rope_tables(4, 8, x) for x in (0.0, -1.0, float("inf"), float("nan"), "1", None)],
    "dtype": [lambda x=x: rope_tables(4, 8, dtype=x) for x in ("int32", "nope", ">f4", 3, "complex64", "float8_e5m2")],
    "mask_mod": [lambda x=x: block_mask(x) for x in (lambda b, h, q, kv: q >= kv, "near", None)],
    "B": [lambda x=x: block_mask(B=x) for x in (0, -1, 1.0, "1", True)],
    "H": [lambda x=x: block_mask(H=x) for x in (0, 2.0, [1])],
    "Q_LEN": [lambda x=x: block_mask(Q_LEN=x) for x in (0, -3, 64.0, "64", None)],
    "KV_LEN": [lambda x=x: block_mask(KV_LEN=x) for x in (0, True, ones(1))],
    "BLOCK_SIZE": [lambda x=x: block_mask(BLOCK_SIZE=x) for x in (8, 48, 16.0, "16", (16,), (16, 16, 16), (16, 8))],
    "args": [lambda x=x: block_mask(args=x) for x in (3, ones(3), None, "a")],
    "lists": [lambda x=x: adamw_lists(x, 1) for x in ([ones(4)], None, ones(4))],
    "step": [lambda x=x: adamw_lists(prepared(), x) for x in (0, 1.0, True, ones(1), whole(2), np.array([True]))],
    "lr": [lambda x=x: adamw_lists(prepared(), 1, lr=x) for x in ("x", True, ones(2), whole(1), None)],
    "betas": [lambda x=x: adamw_lists(prepared(), 1, betas=x) for x in (0.9, (0.9,), (0.9, 0.9, 0.9), ("a", "b"))],
    "eps": [lambda: adamw_lists(prepared(), 1, eps="s")],
    "weight_decay": [lambda: adamw_lists(prepared(), 1, weight_decay=None)],
    "parameter": [lambda x=x: TensorLists(x, [ones(4)], [ones(4)], [ones(4)]) for x in (None, ones(1, 4), iter([]))],
    "gradient": [lambda x=x: TensorLists([ones(4)], x, [ones(4)], [ones(4)]) for x in (None, ones(1, 4), [])],
    r"parameter\[0\]": [lambda x=x: TensorLists([x], [x], [x], [x]) for x in (None, 3.0, np.ones(4), whole(4))],
    r"master\[0\]": [lambda: TensorLists(*([ones(4)] for _ in range(4)), [np.ones(4, np.float16)])],
}  # fmt: skip


@pytest.mark.parametrize("what", TAKEN)
def test_types_in_the_tables_are_accepted(what):
    found, want = TAKEN[what]()
    for one, other in zip(found, want, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert one.dtype == other.dtype and one.shape == other.shape
        # Tables in float32 or wider are rounded from sines that may differ in the last place.
        np.testing.assert_allclose(
            one.astype(np.float64), other.astype(np.float64), rtol=0 if one.dtype.itemsize < 4 else 1e-6
        )


def test_a_step_changes_its_parameter():
    """Against which the calls above are compared."""
    first, second, third = stepped(), stepped(lr=1.0), stepped(lr=1.0, betas=(0.0, 0.5))
    assert (first < 1).all() and (second < first).all() and (third != second).all()


@pytest.mark.parametrize("name", REFUSED)
def test_types_missing_from_the_tables_are_rejected(name):
    for call in REFUSED[name]:
        with pytest.raises(errors.ArgumentError, match=rf"(: |^){name}: expected .*, got"):
            call()


def test_a_mask_function_of_integers_is_refused():
    with pytest.raises(errors.CompilationError, match="expected mask_mod to return booleans"):
        block_mask(distance)
