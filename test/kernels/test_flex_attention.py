"""Attention with score and mask functions, over the blocks that a mask leaves visible."""

import functools
import itertools
from typing import Any

import kiln
import kiln.language as kl
import numpy as np
import pytest
from covering import covering, parametrize
from harness import assert_close, random
from kiln.errors import CompilationError
from kiln.kernels.attention import create_block_mask, flex_attention, flex_attention_backward, mods, reference
from kiln.kernels.attention.configs import AttentionPlan
from test_attention import check
from test_attention_forms import ALL_LENGTHS, HEADS, TYPES, same


@kiln.jit
def causal(batch, head, q, kv):
    return kv <= q


@kiln.jit
def near(batch, head, q, kv, width):
    return (q - kv <= width) & (kv - q <= 3)


@kiln.jit
def same_document(batch, head, q, kv, document):
    return (kl.load(document + q) == kl.load(document + kv)) & (q >= kv)


@kiln.jit
def of_even_heads(batch, head, q, kv):
    return (head % 2 == 0) | (kv < 5 + batch)


@kiln.jit
def nothing(batch, head, q, kv):
    return kv < 0


@kiln.jit
def prefix(batch, head, q, kv):
    return kv < 100


@kiln.jit
def falling(score, batch, head, q, kv):
    return score - 0.05 * (head + 1) * kl.abs(q - kv).to(kl.float32)


@kiln.jit
def biased(score, batch, head, q, kv, bias, stride):
    return score * 0.5 + kl.load(bias + head * stride + kv)


MASKS: dict[str, tuple[Any, Any]] = {
    "causal": (causal, lambda b, h, q, k: k <= q),
    "near": (near, lambda b, h, q, k: (q - k <= 40) & (k - q <= 3)),
    "same_document": (same_document, None),
    "of_even_heads": (of_even_heads, lambda b, h, q, k: (h % 2 == 0) | (k < 5 + b)),
    "nothing": (nothing, lambda b, h, q, k: k < 0),
    "prefix": (prefix, lambda b, h, q, k: (k < 100) & (q >= 0)),
}


def indices(batch, heads, queries, tokens):
    return np.ogrid[:batch, :heads, :queries, :tokens]


def mask_of(name, shape):
    """The function, its arguments, and the mask as a numpy array."""
    function, exact = MASKS[name]
    b, h, q, k = indices(*shape)
    args = {"near": (40,)}.get(name, ())
    if name == "same_document":
        document = np.arange(max(shape[2:])) // 50
        args = (document.astype(np.int32),)
        return function, args, np.broadcast_to((document[q] == document[k]) & (q >= k), shape)
    return function, args, np.broadcast_to(exact(b, h, q, k), shape)


def operands(rng, shape, k_heads, size=32, dtype="float32"):
    batch, heads, queries, tokens = shape
    q = random(rng, (batch, heads, queries, size), dtype)
    k, v = (random(rng, (batch, k_heads, tokens, size), dtype) for _ in range(2))
    return q, k, v


def compare(q, k, v, mask, score=None, **options):
    out, lse = flex_attention(q, k, v, enable_gqa=True, return_lse=True, **options)
    assert same((out, lse), flex_attention(q, k, v, enable_gqa=True, return_lse=True, **options))
    arrays = (x.swapaxes(1, 2) for x in (q, k, v))
    exact, exact_lse = reference.attention(*arrays, mask=mask, score_mod=score, return_lse=True)
    check(out, exact.swapaxes(1, 2), v, k.shape[2])
    assert_close(lse, exact_lse, length=k.shape[2] + q.shape[3], scale=16.0)


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("tokens", [(65, 300), pytest.param((300, 65), marks=pytest.mark.fuzz), (1, 1)])
@pytest.mark.parametrize(
    "side", [pytest.param(16, marks=pytest.mark.fuzz), 64, pytest.param(128, marks=pytest.mark.fuzz)]
)
def test_masks(rng, name, tokens, side):
    shape = (2, 4, *tokens)
    function, args, exact = mask_of(name, shape)
    every = name == "of_even_heads"
    mask = create_block_mask(function, 2 if every else None, 4 if every else None, *tokens, BLOCK_SIZE=side, args=args)
    compare(*operands(rng, shape, 2), exact, block_mask=mask)


@pytest.mark.parametrize("name", MASKS)
def test_blocks_are_those_that_are_seen(name):
    shape, side = (2, 2, 200, 330), 64
    function, args, exact = mask_of(name, shape)
    mask = create_block_mask(function, 2, 2, 200, 330, BLOCK_SIZE=side, args=args)
    for b, h, row in np.ndindex(2, 2, 4):
        own = exact[b, h, row * side : (row + 1) * side]
        pieces = [own[:, i * side : (i + 1) * side] for i in range(6)]
        # The last block has keys that do not exist.
        whole = [i for i, piece in enumerate(pieces) if piece.all() and piece.shape[1] == side]
        partial = [i for i, piece in enumerate(pieces) if piece.any() and i not in whole]
        assert mask.full_kv_num_blocks[b, h, row] == len(whole) and mask.kv_num_blocks[b, h, row] == len(partial)
        assert list(mask.full_kv_indices[b, h, row, : len(whole)]) == whole
        assert list(mask.kv_indices[b, h, row, : len(partial)]) == partial
    seen = (mask.full_kv_num_blocks.sum() + mask.kv_num_blocks.sum()) / (2 * 2 * 4 * 6)
    assert mask.sparsity() == pytest.approx(100 * (1 - seen))


def test_hidden_blocks_are_not_read(rng):
    """NaN in keys and values of a block that is skipped reaches no result."""
    shape = (1, 2, 256, 256)
    q, k, v = operands(rng, shape, 2)
    k[:, :, 128:], v[:, :, 128:] = np.nan, np.nan
    mask = create_block_mask(prefix, None, None, 256, 256)
    assert mask.sparsity() == 50.0
    assert not np.isnan(flex_attention(q, k, v, block_mask=mask)).any()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_scores(rng, dtype, masked):
    shape = (2, 4, 70, 150)
    q, k, v = operands(rng, shape, 2, dtype=dtype)
    mask, options = np.ones(shape, bool), {}
    if masked:
        function, args, mask = mask_of("near", shape)
        options["block_mask"] = create_block_mask(function, None, None, 70, 150, args=args)
    _, h, i, j = indices(*shape)
    compare(q, k, v, mask, lambda s: s - 0.05 * (h + 1) * np.abs(i - j), score_mod=falling, **options)
    bias = random(rng, (4, 150))
    compare(q, k, v, mask, lambda s: s * 0.5 + bias[None, :, None, :], score_mod=biased, args=(bias, 150), **options)


# ---- gradients -------------------------------------------------------------------------------------------------------
@kiln.jit
def bent(score, batch, head, q, kv):
    return kl.where(kv % 3 == 0, kl.maximum(score * 0.5, score * score * 0.1), score - 0.05 * kl.abs(q - kv))


def bent_and_slope(score):
    _, _, _, key = indices(*score.shape)
    low, high = 0.5 * score, 0.1 * score * score
    _, _, i, j = indices(*score.shape)
    chosen = key % 3 == 0
    slope = np.where(chosen, np.where(low >= high, 0.5, 0.2 * score), 1.0)
    return np.where(chosen, np.maximum(low, high), score - 0.05 * np.abs(i - j)), slope


def compare_gradients(rng, q, k, v, mask, score=None, **options):
    out, lse = flex_attention(q, k, v, enable_gqa=True, return_lse=True, **options)
    dout = random(rng, out.shape, str(q.dtype))
    got = flex_attention_backward(q, k, v, out, lse, dout, enable_gqa=True, **options)
    assert same(got, flex_attention_backward(q, k, v, out, lse, dout, enable_gqa=True, **options))
    arrays = (x.swapaxes(1, 2) for x in (q, k, v, dout))
    exact = reference.attention_backward(*arrays, mask=mask, score_mod=score)
    unit = {"float32": 2.0**-22, "float16": 2.0**-11, "bfloat16": 2.0**-8}[str(q.dtype)]
    for one, other, like in zip(got, exact, (q, k, v), strict=True):
        assert one.dtype == like.dtype and one.shape == like.shape
        scale = max(np.sqrt(k.shape[2]), np.abs(other).max(initial=0.0))
        assert np.abs(np.asarray(one, np.float64) - other.swapaxes(1, 2)).max(initial=0.0) <= 12 * unit * scale


@pytest.mark.fuzz
@pytest.mark.parametrize("name", MASKS)
def test_gradients_through_masks(rng, name):
    """For blocks that are not square; the last block is partly filled by queries, and by keys."""
    shape = (2, 4, 200, 330)
    function, args, exact = mask_of(name, shape)
    every = name == "of_even_heads"
    sides = 2 if every else None, 4 if every else None
    mask = create_block_mask(function, *sides, *shape[2:], BLOCK_SIZE=(32, 64), args=args)
    compare_gradients(rng, *operands(rng, shape, 2), exact, block_mask=mask)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float16", marks=pytest.mark.fuzz)])
def test_gradients_through_scores(rng, dtype):
    shape = (2, 4, 70, 150)
    function, args, exact = mask_of("near", shape)
    mask = create_block_mask(function, None, None, 70, 150, args=args)
    compare_gradients(
        rng, *operands(rng, shape, 2, dtype=dtype), exact, bent_and_slope, score_mod=bent, block_mask=mask
    )


MODS: dict[str, Any] = {
    "no score_mod": None,
    "falling": lambda s: (s - 0.05 * (indices(*s.shape)[1] + 1) * np.abs(np.subtract(*indices(*s.shape)[2:])), 1.0),
    "bent": bent_and_slope,
    "biased": lambda s, bias: (s * 0.5 + bias[None, :, None, :], 0.5),
}
SIZES = (64, 96, 128, 256)
FACTORS = {"q": ALL_LENGTHS, "k": ALL_LENGTHS, "size": SIZES, "dtype": TYPES, "heads": HEADS, "mask": tuple(MASKS),
           "mod": tuple(MODS), "side": (64, 128, (64, 128))}  # fmt: skip
ON_TENSOR_CORES = [
    {"size": size, "mask": mask, "mod": tuple(MODS)[(i + j) % 4], "dtype": TYPES[1 + (i + j) % 2]}
    | {"q": (4097, 777, 127, 65)[(i + 2 * j) % 4]}
    for (i, size), (j, mask) in itertools.product(enumerate(SIZES), enumerate(MASKS))
]
ROWS = covering(FACTORS, ON_TENSOR_CORES, seed=2)
# On the CPU, where each form takes three seconds to compile.
HERE = [row for row in ROWS if row["q"] * row["k"] <= 777 * 777 or 1 < row["k"] < 127][::11]


def pytest_generate_tests(metafunc):
    parametrize(metafunc, "row", ROWS, HERE)


def test_pairs_of_features(rng, row):
    """Results and gradients."""
    heads, k_heads = row["heads"]
    shape = (2 if row["q"] * row["k"] < 1 << 20 else 1, heads, row["q"], row["k"])
    function, args, seen = mask_of(row["mask"], shape)
    every = row["mask"] == "of_even_heads"
    sides = shape[0] if every else None, heads if every else None
    mask = create_block_mask(function, *sides, *shape[2:], BLOCK_SIZE=row["side"], args=args)
    q, k, v = operands(rng, shape, k_heads, row["size"], row["dtype"])
    options, exact = {"block_mask": mask}, MODS[row["mod"]]
    if row["mod"] == "biased":
        bias = random(rng, (heads, row["k"]))
        options |= {"score_mod": biased, "args": (bias, row["k"])}
        exact = functools.partial(exact, bias=bias)
    elif exact is not None:
        options["score_mod"] = {"falling": falling, "bent": bent}[row["mod"]]
    compare(q, k, v, seen, exact and (lambda s: exact(s)[0]), **options)
    compare_gradients(rng, q, k, v, seen, exact, **options)


@pytest.mark.fuzz
def test_hidden_blocks_do_not_contribute_to_gradients(rng):
    """NaN in keys and values of a block that is skipped reaches no result, and their own gradients are zeros."""
    q, k, v = operands(rng, (1, 2, 256, 256), 2)
    k[:, :, 128:], v[:, :, 128:] = np.nan, np.nan
    mask = create_block_mask(prefix, None, None, 256, 256)
    out, lse = flex_attention(q, k, v, block_mask=mask, return_lse=True)
    dq, *others = flex_attention_backward(q, k, v, out, lse, q, block_mask=mask)
    assert np.isfinite(dq).all() and all((x[:, :, 128:] == 0).all() for x in others)


@kiln.jit
def summed(score, batch, head, q, kv):
    return score - kl.sum(score, axis=1)[:, None]


@kiln.jit
def looped(score, batch, head, q, kv):
    for _ in range(0, 3):
        score = score * 2.0
    return score


@pytest.mark.host
def test_gradcheck():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    kinds = {"dtype": torch.float64, "requires_grad": True}
    q = torch.randn(1, 4, 7, 3, **kinds)
    k, v = (torch.randn(1, 2, 6, 3, **kinds) for _ in range(2))
    mask = create_block_mask(mods.causal, None, None, 7, 6, device="cpu", BLOCK_SIZE=16)
    options = {"score_mod": mods.softcap, "args": (1.5,), "block_mask": mask, "enable_gqa": True}
    assert torch.autograd.gradcheck(lambda *x: flex_attention(*x, **options), (q, k, v))
    for function, message in ((summed, "got tile.reduce"), (looped, "got scf.for")):
        out = flex_attention(q, k, v, score_mod=function, enable_gqa=True)
        with pytest.raises(CompilationError, match=f"operations of single elements .*{message}"):
            out.sum().backward()
    with pytest.raises(ValueError, match="args: expected a tensor that requires no gradient"):
        flex_attention(q, k, v, mods.alibi, enable_gqa=True, args=(torch.ones(4, requires_grad=True),))


def test_ready_functions_are_what_attention_has(rng):
    shape = (2, 4, 70, 70)
    q, k, v = operands(rng, shape, 4)
    tokens_first = [x.swapaxes(1, 2) for x in (q, k, v)]
    slopes = np.abs(random(rng, (4,)))
    mask = create_block_mask(mods.window, None, None, 70, 70, args=(20, 3), BLOCK_SIZE=16)
    for options, expected in (
        ({"score_mod": mods.softcap, "args": (3.0,)}, {"softcap": 3.0}),
        ({"score_mod": mods.alibi, "args": (slopes,)}, {"alibi_slopes": slopes}),
        ({"block_mask": mask}, {"window": (20, 3)}),
    ):
        want = reference.attention(*tokens_first, **expected)
        check(flex_attention(q, k, v, **options).swapaxes(1, 2), want, v, 70)


def test_every_query_sees_the_prefix(rng):
    shape = (2, 2, 100, 100)
    lengths = np.asarray([30, 70], np.int32)
    b, _, i, j = indices(*shape)
    mask = create_block_mask(mods.prefix, 2, None, 100, 100, args=(lengths,), BLOCK_SIZE=32)
    exact = np.broadcast_to((j <= i) | (j < lengths[b]), shape)
    compare(*operands(rng, shape, 2), exact, block_mask=mask)


def test_a_plain_call(rng):
    shape = (2, 2, 70, 150)
    compare(*operands(rng, shape, 2), np.ones(shape, bool))


@kiln.jit
def constant(score, batch, head, q, kv):
    return 2


@kiln.jit
def of_heads(score, batch, head, q, kv):
    return head * 0.5


@kiln.jit
def of_keys(score, batch, head, q, kv):
    return kv * 0.125


@kiln.jit
def of_integers(score, batch, head, q, kv):
    return q - kv


@kiln.jit
def without_return(score, batch, head, q, kv):
    score + 1.0


@kiln.jit
def of_whole_rows(score, batch, head, q, kv):
    return kl.sum(score, 1)


@pytest.mark.parametrize(
    ("function", "scores"),
    [
        (constant, lambda h, i, j: 2.0),
        (of_heads, lambda h, i, j: h * 0.5), (of_keys, lambda h, i, j: j * 0.125),
        (of_integers, lambda h, i, j: i - j),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)  # fmt: skip
def test_numbers_rows_and_integers_are_scores(rng, function, scores):
    shape = (1, 2, 40, 70)
    q, k, v = operands(rng, shape, 2)
    _, h, i, j = indices(*shape)
    want = np.exp(np.broadcast_to(scores(h, i, j), shape).astype(np.float64))
    want = want / want.sum(-1, keepdims=True) @ v.astype(np.float64)
    out, lse = flex_attention(q, k, v, score_mod=function, return_lse=True)
    check(out, want, v, 70)
    # The scores do not depend on q k^T.
    dq, dk, _ = flex_attention_backward(q, k, v, out, lse, np.ones_like(out), score_mod=function)
    assert not dq.any()
    assert not dk.any()


@pytest.mark.parametrize(("function", "got"), [(without_return, "None"), (of_whole_rows, r"<\[\d+\], fp32>")])
def test_what_no_score_can_be_is_refused_by_name(rng, function, got):
    q, k, v = operands(rng, (1, 2, 40, 70), 2)
    name = function.fn.__name__
    message = f"(?s)expected {name}, as score_mod, to return a number for each score, got {got}.*{name} is defined here"
    with pytest.raises(CompilationError, match=message):
        flex_attention(q, k, v, score_mod=function)


def test_refusals(rng):
    q, k, v = operands(rng, (1, 4, 64, 64), 2)
    mask = create_block_mask(causal, None, None, 64, 65)
    fits = create_block_mask(causal, None, None, 64, 64, BLOCK_SIZE=64)
    for message, call in (
        ("enable_gqa", lambda: flex_attention(q, k, v)),
        ("score_mod: expected a function of .* under @kiln.jit", lambda: flex_attention(q, q, q, lambda s, *_: s)),
        ("block_mask: expected one of", lambda: flex_attention(q, q, q, block_mask=mask)),
        ("block_mask: expected what", lambda: flex_attention(q, q, q, block_mask=causal)),
        ("plan: expected tiles", lambda: flex_attention(q, q, q, block_mask=fits, plan=AttentionPlan(128, 128))),
        ("mask_mod: expected a function", lambda: create_block_mask(None, 1, 1, 4, 4)),
        ("BLOCK_SIZE: expected powers of two", lambda: create_block_mask(causal, 1, 1, 4, 4, BLOCK_SIZE=24)),
    ):
        with pytest.raises(ValueError, match=message):
            call()
