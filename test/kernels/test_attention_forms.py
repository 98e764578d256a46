"""Attention beyond the basic form: windows, softcap, sinks, ALiBi, bias, unequal heads, varying lengths."""

import itertools
import os

import numpy as np
import pytest
from covering import covering, parametrize
from harness import Refusing, assert_close, random, strided
from kiln import errors
from kiln.kernels.attention import attention, attention_varlen, attention_varlen_backward, kernel, reference
from kiln.kernels.attention.configs import AttentionPlan, packed
from kiln.kernels.case import blank, blank_like
from kiln.kernels.launches import launches_of
from kiln.kernels.machine import CPU, DEFAULT_GPU, of_target, planning_for
from test_attention import check

SEEDS = int(os.environ.get("KILN_FUZZ_ATTENTION", "24"))
LENGTHS = (1, 44, 63, 65, 127, 777)
ALL_LENGTHS = (*LENGTHS, 4097)
SIZES = ((64, 64), (96, 96), (128, 128), (192, 128), (256, 256))
TYPES = ("float32", "float16", "bfloat16")
VISIBLE = {"all": {}, "causal": {"causal": True}, "window": {"window": (40, 9)}}
VISIBLE["far"] = {"causal": True, "window": (1000, 0)}
TERMS = ("no term", "softcap", "sinks", "slopes", "bias", "scale")
LAYOUTS = ("tokens", "heads", "halves")
HEADS = ((2, 2), (4, 2), (3, 1))
FACTORS = {"q": ALL_LENGTHS, "k": ALL_LENGTHS, "sizes": SIZES, "dtype": TYPES, "heads": HEADS,
           "visible": tuple(VISIBLE), "terms": TERMS, "layout": LAYOUTS}  # fmt: skip


def on_tensor_cores(**others):
    """For each size of heads and each term: a row of 16 bits that is long enough for the schedules of an H100."""
    for (i, sizes), (j, terms) in itertools.product(enumerate(SIZES), enumerate(TERMS)):
        row = {"sizes": sizes, "terms": terms, "visible": tuple(VISIBLE)[(i + j) % 4], "dtype": TYPES[1 + (i + j) % 2]}
        yield row | {"q": (4097, 777, 127, 65)[(i + 2 * j) % 4]} | {n: x[i * j % len(x)] for n, x in others.items()}


ROWS = covering(FACTORS, on_tensor_cores())
# On the CPU, where each form takes most of a second to compile.
HERE = [row for row in ROWS if row["q"] * row["k"] <= 777 * 777 or 1 < row["k"] < 127][::3]
RAGGED = covering({"size": (64, 96, 128, 256), "dtype": TYPES[1:], "heads": HEADS, "visible": tuple(VISIBLE)})


def pytest_generate_tests(metafunc):
    parametrize(metafunc, "row", ROWS, HERE)
    parametrize(metafunc, "ragged_row", RAGGED, RAGGED[:1])


def same(one, other):
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in zip(one, other, strict=True))


def arranged(array, layout):
    """The same numbers: contiguous, with heads in front of tokens, or as halves of rows that are twice as long."""
    if layout == "heads":
        return np.ascontiguousarray(array.swapaxes(1, 2)).swapaxes(1, 2)
    if layout == "halves":
        return np.concatenate([array, array], axis=3)[..., : array.shape[3]]
    return array


def options_of(rng, row):
    heads, q_tokens, k_tokens = row["heads"][0], row["q"], row["k"]
    options = {
        "no term": lambda: {},
        "softcap": lambda: {"softcap": 3.0},
        "sinks": lambda: {"sinks": random(rng, (heads,))},
        "slopes": lambda: {"alibi_slopes": np.abs(random(rng, (heads,), scale=0.02))},
        "bias": lambda: {"bias": random(rng, (1, heads, q_tokens, k_tokens), row["dtype"])},
        "scale": lambda: {"softmax_scale": 0.3},
    }
    return VISIBLE[row["visible"]] | options[row["terms"]]()


def compare(rng, q, k, v, **options):
    out, lse = attention(q, k, v, return_lse=True, **options)
    assert same((out, lse), attention(q, k, v, return_lse=True, **options))
    exact, exact_lse = reference.attention(q, k, v, return_lse=True, **options)
    check(out, exact, v, k.shape[1])
    # Scores with large terms are rounded at their own magnitude.
    finite = np.abs(exact_lse[np.isfinite(exact_lse)])
    assert_close(lse, exact_lse, length=k.shape[1] + q.shape[3], scale=max(1.0, finite.max(initial=0.0)))


def operands(rng, q_tokens, k_tokens, heads=4, k_heads=2, size=32, v_size=None, dtype="float32", batch=2):
    q = random(rng, (batch, q_tokens, heads, size), dtype)
    k, v = (random(rng, (batch, k_tokens, k_heads, n), dtype) for n in (size, v_size or size))
    return q, k, v


@pytest.mark.parametrize("window", [(0, 0), (5, 3), (100, -1), (-1, 7), (-1, -1), (30, 0), (1 << 40, 1 << 40)])
@pytest.mark.parametrize("tokens", [(130, 130), (65, 200), pytest.param((200, 65), marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("causal", [False, pytest.param(True, marks=pytest.mark.fuzz)])
def test_window(rng, tokens, window, causal):
    compare(rng, *operands(rng, *tokens), window=window, causal=causal)


@pytest.mark.parametrize("softcap", [0.5, 30.0])
def test_softcap(rng, softcap):
    compare(rng, *operands(rng, 70, 130), softcap=softcap, softmax_scale=1.0)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("causal", [False, True])
def test_sinks(rng, causal, dtype):
    q, k, v = operands(rng, 70, 33)
    compare(rng, q, k, v, sinks=np.asarray([0.0, 2.0, -5.0, -np.inf], dtype), causal=causal)


def test_a_sink_is_all_that_a_query_sees(rng):
    q, k, v = operands(rng, 5, 2)
    out, lse = attention(q, k, v, causal=True, sinks=np.full(4, 1.5, np.float32), return_lse=True)
    assert (out[:, :3] == 0).all() and np.allclose(lse[..., :3], 1.5)


@pytest.mark.parametrize("shape", [(4,), (2, 4)])
def test_alibi(rng, shape):
    slopes = np.abs(random(rng, shape))
    compare(rng, *operands(rng, 70, 130), alibi_slopes=slopes, causal=True)
    compare(rng, *operands(rng, 70, 130), alibi_slopes=slopes)


def test_causal_slopes_drop_only_what_sinks_and_lse_restore(rng):
    """For steep slopes and long distances: measuring all distances of a block from one origin would cost precision for
    near keys."""
    q, k, v = operands(rng, 700, 1500)
    slopes = np.asarray([2.0, 0.5, -0.01, 0.0], np.float32)
    compare(rng, q, k, v, alibi_slopes=slopes, causal=True)
    compare(rng, q, k, v, alibi_slopes=slopes, causal=True, sinks=np.asarray([3.0, -2.0, 0.0, 1.0], np.float32))
    compare(rng, q[:, :3], k, v, alibi_slopes=slopes, window=(200, 0))


@pytest.mark.parametrize("shape", [(2, 4, 70, 130), (1, 4, 70, 130), (2, 1, 1, 130), (1, 1, 70, 1)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_bias(rng, shape, dtype):
    bias = random(rng, shape, dtype)
    compare(rng, *operands(rng, 70, 130), bias=bias)
    compare(rng, *operands(rng, 70, 130), bias=strided(bias), causal=True)


def test_a_bias_of_minus_infinity_hides_a_key(rng):
    q, k, v = operands(rng, 70, 130)
    bias = np.where(rng.random((1, 1, 70, 130)) < 0.5, -np.inf, 0.0).astype(np.float32)
    bias[:, :, 3] = -np.inf
    out, lse = attention(q, k, v, bias=bias, return_lse=True)
    exact, exact_lse = reference.attention(q, k, v, bias=bias, return_lse=True)
    check(out, exact, v, 130)
    assert (out[:, 3] == 0).all() and np.isneginf(lse[..., 3]).all() and np.isneginf(exact_lse[..., 3]).all()


@pytest.mark.parametrize("sizes", [(48, 32), (192, 128), (256, 256)])
def test_sizes_of_heads(rng, sizes):
    compare(rng, *operands(rng, 40, 70, size=sizes[0], v_size=sizes[1]), causal=True)


def test_heads_in_front_of_tokens(rng):
    q, k, v = (np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in operands(rng, 70, 70))
    compare(rng, q, k, v, window=(20, 0))


def test_nan_in_a_key_affects_only_queries_that_see_it(rng):
    q, k, v = operands(rng, 70, 70, k_heads=4)
    k[:, 60:] = np.nan
    for options in ({"causal": True}, {"window": (20, 0)}):
        out = attention(q, k, v, **options)
        assert not np.isnan(out[:, :60]).any() and np.isnan(out[:, 60:]).all()


@pytest.mark.parametrize("heads", [(8, 2), (16, 1), (6, 2)])
@pytest.mark.parametrize("tokens", [(3, 70), (8, 200), pytest.param((5, 2), marks=pytest.mark.fuzz)])
def test_heads_sharing_keys_are_rows_of_one_tile(rng, heads, tokens):
    assert packed(tokens[0], heads[0] // heads[1], CPU) == (heads[0] // heads[1] if heads != (6, 2) else 1)
    q, k, v = operands(rng, *tokens, *heads)
    slopes, sinks, bias = (np.abs(random(rng, s)) for s in ((heads[0],), (heads[0],), (2, heads[0], *tokens)))
    compare(rng, q, k, v, causal=True)
    compare(rng, q, k, v, window=(40, 3), alibi_slopes=slopes, sinks=sinks, bias=bias)
    views = (np.ascontiguousarray(x.swapaxes(1, 3)).swapaxes(1, 3) for x in (q, k, v))
    compare(rng, *views, alibi_slopes=slopes)


# ---- concatenated sequences ------------------------------------------------------------------------------------------
def ragged(rng, lengths, k_lengths, heads=4, k_heads=2, size=32, dtype="float32", spare=5):
    """Arrays with rows of NaN outside the sequences: before and after them."""
    starts, k_starts = (np.cumsum([2, *n]).astype(np.int32) for n in (lengths, k_lengths))
    q = random(rng, (starts[-1] + spare, heads, size), dtype)
    k, v = (random(rng, (k_starts[-1] + spare, k_heads, size), dtype) for _ in range(2))
    for array, at in ((q, starts), (k, k_starts), (v, k_starts)):
        array[: at[0]] = array[at[-1] :] = np.nan
    return q, k, v, starts, k_starts, max(lengths), max(k_lengths)


def compare_ragged(arguments, **options):
    q, _, v, starts, k_starts, *_ = arguments
    out, lse = np.full((*q.shape[:2], v.shape[2]), 7, q.dtype), None
    out, lse = attention_varlen(*arguments, out=out, return_lse=True, **options)
    exact, exact_lse = reference.attention_varlen(*arguments, return_lse=True, **options)
    mine, keys = slice(starts[0], starts[-1]), slice(k_starts[0], k_starts[-1])
    again, again_lse = attention_varlen(*arguments, return_lse=True, **options)
    assert same((out[mine], lse[:, mine]), (again[mine], again_lse[:, mine]))
    check(out[mine], exact[mine], v[keys], int(np.diff(k_starts).max()))
    assert_close(lse[:, mine], exact_lse[:, mine], length=int(np.diff(k_starts).max()) + q.shape[2])
    assert (out[: starts[0]] == 7).all() and (out[starts[-1] :] == 7).all()


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (20, 3)}, {"causal": True, "softcap": 5.0}])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_varlen(rng, dtype, options):
    compare_ragged(ragged(rng, (1, 44, 63, 130, 0), (7, 44, 0, 100, 3), dtype=dtype), **options)


def test_varlen_slopes_of_each_sequence(rng):
    slopes = np.abs(random(rng, (3, 4)))
    compare_ragged(ragged(rng, (44, 63, 20), (44, 63, 50)), causal=True, alibi_slopes=slopes)


@pytest.mark.host
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    "starts, k_starts, message",
    [
        ((0, 71), (0, 70), "outside"),
        ((0, 70), (0, 71), "outside"),
        ((-1, 70), (0, 70), "outside"),
        ((0, 50, 20, 70), (0, 20, 40, 70), "outside"),
        ((0, 70), (0, 30), "max_seqlen"),
        ((0, 30), (0, 70), "max_seqlen"),
    ],
)
def test_missing_sequences_stop_the_program(rng, starts, k_starts, message, dtype):
    """They used to be read and written, beyond the arrays or not at all."""
    q, k, v = random(rng, (70, 4, 32)), random(rng, (70, 2, 32)), random(rng, (70, 2, 32))
    longest = 60 if message == "max_seqlen" else 100
    cu = np.asarray(starts, dtype), np.asarray(k_starts, dtype)
    with pytest.raises(errors.DeviceAssertError, match=f"cu_seqlens: .*{message}"):
        attention_varlen(q, k, v, *cu, longest, longest)
    lse = np.zeros((4, 70), np.float32)
    with pytest.raises(errors.DeviceAssertError, match=f"cu_seqlens: .*{message}"):
        attention_varlen_backward(q, k, v, q, lse, q, *cu, longest, longest)


def test_other_lengths_compile_nothing(rng, monkeypatch):
    arguments = ragged(rng, (5, 70), (5, 70))
    attention_varlen(*arguments[:5], 75, 75)
    monkeypatch.setattr("kiln.runtime.jit.JITFunction._compile", None)
    for middle in (2, 40, 77):
        starts = np.asarray([2, middle, 77], np.int32)
        out = attention_varlen(*arguments[:3], starts, starts.copy(), 75, 75)
        exact = reference.attention_varlen(*arguments[:3], starts, starts)
        check(out[2:77], exact[2:77], arguments[2][2:77], 75)


# ---- all together ----------------------------------------------------------------------------------------------------
def test_pairs_of_features(rng, row):
    batch = 2 if row["q"] * row["k"] < 1 << 20 else 1
    arrays = operands(rng, row["q"], row["k"], *row["heads"], *row["sizes"], row["dtype"], batch)
    compare(rng, *(arranged(x, row["layout"]) for x in arrays), **options_of(rng, row))


def test_pairs_of_features_of_sequences(rng, ragged_row):
    """Sequences of every length, beside keys of another length: the longest, and none, among them."""
    heads, size, dtype = ragged_row["heads"], ragged_row["size"], ragged_row["dtype"]
    lengths, k_lengths = (*ALL_LENGTHS, 0, 65), (44, 1, 4097, 777, 63, 127, 65, 44, 0)
    arguments = ragged(rng, lengths, k_lengths, *heads, size, dtype)
    compare_ragged(arguments, **VISIBLE[ragged_row["visible"]])


def combination(rng):
    """A random choice of all features."""
    pick = lambda *values: values[rng.integers(len(values))]  # noqa: E731
    heads, k_heads = pick((4, 2), (3, 1), (2, 2))
    dtype = pick("float32", "float16", "bfloat16")
    q_tokens, k_tokens = pick(*LENGTHS), pick(*LENGTHS)
    size, v_size = pick((64, 64), (96, 96), (128, 128), (48, 16), (192, 128), (256, 256))
    options = {
        "causal": pick(False, True),
        "softcap": pick(0.0, 0.0, 3.0),
        "window": pick(None, None, (40, 9), (0, -1)),
    }
    options["sinks"] = pick(None, random(rng, (heads,)))
    options["alibi_slopes"] = pick(None, np.abs(random(rng, (heads,), scale=0.1)))
    options["bias"] = pick(None, random(rng, (pick(1, 2), pick(1, heads), pick(1, q_tokens), k_tokens)))
    return operands(rng, q_tokens, k_tokens, heads, k_heads, size, v_size, dtype), options


def test_some_combinations(rng):
    for _ in range(3):
        arrays, options = combination(rng)
        compare(rng, *arrays, **options)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(SEEDS))
def test_combinations(seed):
    rng = np.random.default_rng(seed)
    arrays, options = combination(rng)
    compare(rng, *arrays, **options)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(SEEDS // 3))
def test_combinations_of_sequences(seed):
    rng = np.random.default_rng(seed)
    pick = lambda *values: values[rng.integers(len(values))]  # noqa: E731
    lengths, k_lengths = (tuple(pick(0, *LENGTHS) for _ in range(4)) for _ in range(2))
    arguments = ragged(rng, lengths, k_lengths, *pick((4, 2), (3, 1)), pick(32, 64, 96), pick("float32", "bfloat16"))
    options = {"causal": pick(False, True), "window": pick(None, (40, 9), (0, -1)), "softcap": pick(0.0, 3.0)}
    compare_ragged(arguments, **options)


@pytest.mark.fuzz
@pytest.mark.parametrize("tokens", [(4097, 4097), (1, 4097), (4097, 63)])
def test_long_lengths(rng, tokens):
    q, k, v = operands(rng, *tokens, heads=2, k_heads=1, batch=1)
    compare(rng, q, k, v, causal=True)
    compare(rng, q, k, v, window=(1000, 5), alibi_slopes=np.asarray([0.01, 0.1], np.float32))


@pytest.mark.fuzz
@pytest.mark.parametrize("lengths", list(itertools.product(LENGTHS, LENGTHS)))
def test_lengths(rng, lengths):
    compare(rng, *operands(rng, *lengths, size=64), causal=True, window=(100, 0))
    compare(rng, *operands(rng, *lengths, size=64), window=(20, 30), softcap=4.0)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"window": 3}, "window: expected a pair"),
        ({"window": (-2, 0)}, "window: expected numbers of tokens"),
        ({"softcap": -1.0}, "softcap: expected a positive"),
        ({"sinks": np.zeros(3, np.float32)}, r"sinks: expected shape \(4,\)"),
        ({"alibi_slopes": np.zeros(2, np.float32)}, r"alibi_slopes: expected shape \(4,\) or \(2, 4\)"),
        ({"alibi_slopes": np.zeros(4, np.float16)}, "alibi_slopes: expected type float32"),
        ({"bias": np.zeros((1, 3, 5, 6), np.float32)}, r"bias: expected shape \(2, 4, 5, 6\), or 1"),
    ],
)
def test_refusals(rng, options, message):
    with pytest.raises(ValueError, match=message):
        attention(*operands(rng, 5, 6), **options)


def test_refusals_of_plans(rng):
    q, k, v = operands(rng, 5, 6)
    with pytest.raises(ValueError, match="plan: expected heads that share keys"):
        attention(q, k, v, plan=AttentionPlan(16, 16, pack=4))


@pytest.mark.parametrize("target", ["sm_80", "sm_120a"])
def test_heads_in_one_tile_compile_if_results_go_through_shared_memory(target):
    """Pointers to results pass through shared memory there, while keys may still be copied."""
    q, k = blank((1, 3, 8, 128), "float16"), blank((1, 512, 2, 128), "float16")
    plan = AttentionPlan(64, 32, pack=4)
    (launch,) = launches_of(lambda: attention(q, k, blank_like(k), causal=True, plan=plan), of_target(target))
    assert "mma.sync" in launch.compile(target, to="ptx").output


@pytest.mark.host
@pytest.mark.parametrize(
    ("sizes", "keys", "options", "most"),
    [
        ((64, 64), 128, {}, 2100),
        ((128, 128), 128, {}, 2500),
        ((128, 128), 128, {"causal": True}, 3250),
        ((128, 128), 128, {"window": (1024, 0)}, 3400),
        ((192, 128), 96, {"causal": True}, 2950),
        ((256, 256), 96, {"causal": True}, 2200),
    ],
)
def test_what_compiling_costs_before_the_assembler(sizes, keys, options, most):
    """The assembler's time follows from the number of instructions. There are three copies of each product and of the
    softmax: before the loops, in the steps without a mask and in those with one (the last product is after them).
    Without a causal mask or a window the first step has the mask, and there are two. Where steps guess, theirs is the
    copy that mends, with scores by single warps. Heads of 256 have one loop, and two copies. LLVM's back end takes less
    than half the time of all that precedes it (for windows it took 1.25 times as long)."""
    q, v = blank((4, 4096, 16, sizes[0]), "float16"), blank((4, 4096, 16, sizes[1]), "float16")
    (launch,) = launches_of(lambda: attention(q, blank_like(q), v, **options), DEFAULT_GPU)
    first = launch.compile("sm_90a", to="ptx")
    text = first.output
    assert text.count(";\n") <= most
    guesses = sizes[1] <= 128
    copies = 3 if guesses and options else 2
    # Of a thread's scores, and for its two rows.
    assert text.count("ex2.approx") == copies * (keys // 2 + 2) + guesses * keys // 2
    assert text.count("mma.sync") == guesses * keys // 8 * sizes[0] // 16
    assert text.count("wgmma.mma_async") == copies * (sizes[0] + keys) // 16
    # Other work may slow a stage down in several compiles, but not in all.
    least = dict(first.timings)
    for _ in range(12):
        if (share := least["ptx"] / (sum(least.values()) - least["ptx"])) < 0.8:
            break
        again = launch.compile("sm_90a", to="ptx").timings
        least = {stage: min(least[stage], again[stage]) for stage in least}
    assert share < 0.8


def test_refusals_of_sequences(rng):
    q, k, v, starts, k_starts, most, k_most = ragged(rng, (3, 4), (3, 4))
    with pytest.raises(ValueError, match="cu_seqlens_k: expected one number more"):
        attention_varlen(q, k, v, starts, k_starts[:-1], most, k_most)
    with pytest.raises(ValueError, match="max_seqlen_q: expected a number of tokens"):
        attention_varlen(q, k, v, starts, k_starts, -1, k_most)
    with pytest.raises(ValueError, match="cu_seqlens_k: expected type int64"):
        attention_varlen(q, k, v, starts.astype(np.int64), k_starts, most, k_most)


@pytest.mark.host
def test_plans_that_do_not_fit_have_no_roles(monkeypatch):
    """A plan chosen by default loses its guesses, its turns, then its roles; a plan passed in is rejected."""
    refusing = Refusing("bytes of shared memory per block", lambda grid, options: bool(options.get("schedule")))
    monkeypatch.setattr(kernel, "attention_kernel", refusing)
    monkeypatch.setattr(kernel, "_TOO_MUCH", set())
    q = blank((1, 4096, 4, 128), "float16")
    with planning_for(DEFAULT_GPU):
        attention(q, blank_like(q), blank_like(q))
        assert [options.get("schedule") for _, options in refusing.asked] == ["pingpong"] * 2 + ["attention", None]
        with pytest.raises(errors.ResourceError, match="out of bytes of shared memory"):
            attention(q, blank_like(q), blank_like(q), plan=AttentionPlan(128, 128, "attention"))


@pytest.mark.host
def test_tiles_that_take_too_many_registers_become_smaller_once(monkeypatch):
    """No guess, fewer keys per step, then fewer groups, then no roles; the next call begins with what worked."""
    asked, most = [], [0]

    class Kernel:
        def __getitem__(self, grid):
            def run(*args, PLAN=None, consumers=0, **options):
                asked.append((PLAN.N, consumers))
                if consumers and PLAN.N * consumers > most[0]:
                    raise errors.ResourceError("bytes per thread beyond the registers of its role", 2, 1)

            return run

    monkeypatch.setattr(kernel, "attention_kernel", Kernel())
    monkeypatch.setattr(kernel, "_TOO_MUCH", set())
    q, slopes = blank((4, 4096, 16, 64), "float16"), blank((16,), "float32")
    with planning_for(DEFAULT_GPU):
        for most[0], first, again in (
            (128 * 3, [(128, 3)], [(128, 3)]),
            (96 * 3, [(128, 3), (128, 3), (96, 3)], [(96, 3)]),
            (128 * 2, [(96, 3), (128, 2)], [(128, 2)]),
        ):
            for expected in (first, again):
                asked.clear()
                attention(q, blank_like(q), blank_like(q), softcap=30.0)
                assert asked == expected
        most[0] = 0
        asked.clear()
        attention(q, blank_like(q), blank_like(q), softcap=30.0)
        assert asked[0] == (128, 2) and len(asked) == 2 and asked[1][1] == 0
        asked.clear()
        attention(q, blank_like(q), blank_like(q), alibi_slopes=slopes)
        assert asked[0] == (128, 3), "what one function takes says nothing about another"
