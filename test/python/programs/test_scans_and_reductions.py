"""Reductions and scans with combine functions over tuples, as state-space, norm and sampling kernels use them."""

import kiln
import kiln.language as kl
import numpy as np
import pytest

rng = np.random.default_rng(1)


@kiln.jit
def first_order_op(fl, xl, fr, xr):
    f = fr * fl
    x = fr * xl + xr
    return f, x


@kiln.jit
def linear_recurrence(gates, tokens, out, reverse: kl.constexpr, S: kl.constexpr, B: kl.constexpr):
    rows = kl.arange(0, B)
    offsets = rows[:, None] * S + kl.arange(0, S)[None, :]
    a = kl.load(gates + offsets)
    x = kl.load(tokens + offsets)
    _, h = kl.associative_scan((a, x), axis=1, combine_fn=first_order_op, reverse=reverse)
    kl.store(out + offsets, h)


@pytest.mark.parametrize("S", [16, 96, 512])
@pytest.mark.parametrize("reverse", [False, True])
def test_linear_recurrence(S, reverse):
    B = 4
    a, x = rng.random((B, S)).astype(np.float32), rng.standard_normal((B, S)).astype(np.float32)
    out = np.empty_like(x)
    linear_recurrence[(1,)](a, x, out, reverse, S, B)
    want, h = np.empty((B, S)), np.zeros(B)
    for t in range(S)[::-1] if reverse else range(S):
        h = a[:, t] * h + x[:, t]
        want[:, t] = h
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-5)


@kiln.jit
def welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    delta = mean_2 - mean_1
    new_weight = weight_1 + weight_2
    w2_over_w = kl.where(new_weight == 0.0, 0.0, weight_2 / new_weight)
    return (
        mean_1 + delta * w2_over_w,
        m2_1 + m2_2 + delta * delta * weight_1 * w2_over_w,
        new_weight,
    )


@kiln.jit
def welford(x, mean_out, var_out, xnumel, rnumel, XBLOCK: kl.constexpr, RBLOCK: kl.constexpr):
    xoffset = kl.program_id(0) * XBLOCK
    xindex = xoffset + kl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rbase = kl.arange(0, RBLOCK)[None, :]
    mean = kl.zeros([XBLOCK, RBLOCK], kl.float32)
    m2 = kl.zeros([XBLOCK, RBLOCK], kl.float32)
    weight = kl.zeros([XBLOCK, RBLOCK], kl.float32)
    for roffset in range(0, rnumel, RBLOCK):
        rindex = roffset + rbase
        rmask = rindex < rnumel
        value = kl.load(x + (rindex + rnumel * xindex), rmask & xmask, eviction_policy="evict_first", other=0.0)
        delta = value - mean
        new_weight = weight + 1
        new_mean = mean + delta / new_weight
        new_m2 = m2 + delta * (value - new_mean)
        mean = kl.where(rmask & xmask, new_mean, mean)
        m2 = kl.where(rmask & xmask, new_m2, m2)
        weight = kl.where(rmask & xmask, new_weight, weight)
    mean, m2, weight = kl.reduce((mean, m2, weight), 1, welford_combine)
    kl.store(mean_out + xindex, mean[:, None], xmask)
    kl.store(var_out + xindex, (m2 / weight)[:, None], xmask)


@pytest.mark.parametrize("rows, cols", [(13, 777), (1, 1), (8, 4096)])
def test_welford(rows, cols):
    x = (rng.standard_normal((rows, cols)) * 3 + 100).astype(np.float32)
    mean, var = np.empty(rows, np.float32), np.empty(rows, np.float32)
    welford[(kiln.cdiv(rows, 4),)](x, mean, var, rows, cols, XBLOCK=4, RBLOCK=64)
    np.testing.assert_allclose(mean, x.mean(1, dtype=np.float64), rtol=1e-6)
    np.testing.assert_allclose(var, x.var(1, dtype=np.float64), rtol=1e-4, atol=1e-6)


@kiln.jit
def arg_kernel(x, values, indices, n, LEFT: kl.constexpr, MODE: kl.constexpr, N: kl.constexpr):
    row = kl.program_id(0)
    offsets = kl.arange(0, N)
    other = -float("inf") if MODE == "max" else float("inf")
    v = kl.load(x + row * n + offsets, mask=offsets < n, other=other)
    if MODE == "max":
        m, i = kl.max(v, axis=0, return_indices=True, return_indices_tie_break_left=LEFT)
        j = kl.argmax(v, 0)
    else:
        m, i = kl.min(v, axis=0, return_indices=True, return_indices_tie_break_left=LEFT)
        j = kl.argmin(v, 0)
    kl.store(values + row, m)
    kl.store(indices + row * 2, i)
    kl.store(indices + row * 2 + 1, j)


@pytest.mark.parametrize("mode", ["max", "min"])
def test_arg_reductions(mode):
    x = rng.integers(0, 50, (9, 300)).astype(np.float32)  # many ties: the leftmost one wins
    values, indices = np.empty(9, np.float32), np.empty((9, 2), np.int32)
    arg_kernel[(9,)](x, values, indices, 300, True, mode, N=512)
    np.testing.assert_array_equal(values, getattr(x, mode)(1))
    where = x.argmax(1) if mode == "max" else x.argmin(1)
    np.testing.assert_array_equal(indices, np.stack([where, where], 1))


@kiln.jit
def sort_kernel(x, out, top, M: kl.constexpr, N: kl.constexpr, K: kl.constexpr, DESCENDING: kl.constexpr):
    offsets = kl.arange(0, M)[:, None] * N + kl.arange(0, N)[None, :]
    v = kl.load(x + offsets)
    kl.store(out + offsets, kl.sort(v, descending=DESCENDING))
    kl.store(top + kl.arange(0, M)[:, None] * K + kl.arange(0, K)[None, :], kl.topk(v, K))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.float16, np.int64])
@pytest.mark.parametrize("N", [8, 256])
def test_sort_and_topk(dtype, N):
    x = rng.integers(0, 200, (4, N)).astype(dtype)
    out, top = np.empty_like(x), np.empty((4, 8), dtype)
    for descending in (False, True):
        sort_kernel[(1,)](x, out, top, 4, N, 8, descending)
        want = np.sort(x, 1)
        np.testing.assert_array_equal(out, want[:, ::-1] if descending else want)
        np.testing.assert_array_equal(top, want[:, ::-1][:, :8])


@kiln.jit
def topk_with_indices(x, values, indices, n, K: kl.constexpr, N: kl.constexpr):
    """Packs value and index into one 64-bit key, as MoE routers do."""
    row = kl.program_id(0)
    offsets = kl.arange(0, N)
    v = kl.load(x + row * n + offsets, mask=offsets < n, other=-float("inf"))
    bits = v.to(kl.int32, bitcast=True)
    ordered = kl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    key = (ordered.to(kl.int64) << 32) | (N - 1 - offsets).to(kl.int64)
    best = kl.topk(key, K)
    index = N - 1 - (best & 0xFFFFFFFF).to(kl.int32)
    top = (best >> 32).to(kl.int32)
    top = kl.where(top < 0, top ^ 0x7FFFFFFF, top).to(kl.float32, bitcast=True)
    kl.store(values + row * K + kl.arange(0, K), top)
    kl.store(indices + row * K + kl.arange(0, K), index)


def test_topk_with_packed_indices():
    x = rng.standard_normal((20, 100)).astype(np.float32)
    values, indices = np.empty((20, 4), np.float32), np.empty((20, 4), np.int32)
    topk_with_indices[(20,)](x, values, indices, 100, 4, 128)
    want = np.argsort(-x, 1, kind="stable")[:, :4]
    np.testing.assert_array_equal(indices, want)
    np.testing.assert_array_equal(values, np.take_along_axis(x, want, 1))


@kiln.jit
def histogram_kernel(x, out, n, BINS: kl.constexpr, BLOCK: kl.constexpr):
    offsets = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    mask = offsets < n
    value = kl.load(x + offsets, mask=mask, other=0)
    counts = kl.histogram(value, BINS, mask)
    kl.atomic_add(out + kl.arange(0, BINS), counts, sem="relaxed")


def test_histogram_over_programs():
    x = rng.integers(0, 48, 10_000).astype(np.int32)
    out = np.zeros(48, np.int32)
    histogram_kernel[(kiln.cdiv(len(x), 512),)](x, out, len(x), BINS=48, BLOCK=512)
    np.testing.assert_array_equal(out, np.bincount(x, minlength=48))


@kiln.jit
def cumulative(x, out, N: kl.constexpr, WHAT: kl.constexpr, REVERSE: kl.constexpr):
    offsets = kl.arange(0, N)
    v = kl.load(x + offsets)
    if WHAT == "sum":
        r = kl.cumsum(v, 0, reverse=REVERSE)
    elif WHAT == "prod":
        r = kl.cumprod(v, 0, reverse=REVERSE)
    else:
        r = kl.associative_scan(v, 0, maximum_of, reverse=REVERSE)
    kl.store(out + offsets, r)


@kiln.jit
def maximum_of(a, b):
    return kl.maximum(a, b)


@pytest.mark.parametrize("what, numpy", [("sum", np.cumsum), ("prod", np.cumprod), ("max", np.maximum.accumulate)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_cumulative(what, numpy, reverse, dtype):
    x = rng.integers(1, 3, 64).astype(dtype)
    x = np.where(np.arange(64) % 4 == 0, x, 1 if what == "prod" else x).astype(dtype)
    out = np.empty_like(x)
    cumulative[(1,)](x, out, 64, what, reverse)
    want = numpy(x[::-1])[::-1] if reverse else numpy(x)
    np.testing.assert_allclose(out, want, rtol=1e-6)


@kiln.jit
def argmax_pair(v1, i1, v2, i2):
    take_left = (v1 > v2) | ((v1 == v2) & (i1 < i2))
    return kl.where(take_left, v1, v2), kl.where(take_left, i1, i2)


@kiln.jit
def running_argmax(x, out_v, out_i, M: kl.constexpr, N: kl.constexpr):
    offsets = kl.arange(0, M)[:, None] * N + kl.arange(0, N)[None, :]
    v = kl.load(x + offsets)
    i = kl.broadcast_to(kl.arange(0, N)[None, :], (M, N))
    best, where = kl.associative_scan((v, i), 1, argmax_pair)
    last, last_i = kl.reduce((v, i), axis=1, combine_fn=argmax_pair)
    kl.device_assert(kl.max(kl.abs(last - kl.max(v, 1)), 0) == 0.0)
    kl.store(out_v + offsets, best)
    kl.store(out_i + offsets, where)
    kl.store(out_i + M * N + kl.arange(0, M), last_i)


def test_running_argmax_and_reduce_of_pairs():
    M, N = 8, 96
    x = rng.integers(0, 30, (M, N)).astype(np.float32)
    v, i = np.empty_like(x), np.empty(M * N + M, np.int32)
    running_argmax[(1,)](x, v, i, M, N)
    want = np.array([[row[: t + 1].argmax() for t in range(N)] for row in x])
    np.testing.assert_array_equal(i[: M * N].reshape(M, N), want)
    np.testing.assert_array_equal(i[M * N :], x.argmax(1))
    np.testing.assert_array_equal(v, np.maximum.accumulate(x, 1))


@kiln.jit
def cross_entropy(logits, labels, loss, lse_out, grad, stride, n_cols, smoothing, ignore_index, BLOCK: kl.constexpr):
    """Online softmax statistics, label smoothing, and the gradient written in a second pass."""
    row = kl.program_id(0).to(kl.int64)
    label = kl.load(labels + row)
    logits += row * stride
    grad += row * stride
    if label == ignore_index:
        for i in range(0, n_cols, BLOCK):
            offsets = i + kl.arange(0, BLOCK)
            kl.store(grad + offsets, 0.0, mask=offsets < n_cols)
        kl.store(loss + row, 0.0)
        return
    m = float("-inf")
    d = 0.0
    total = 0.0
    picked = kl.load(logits + label).cast(kl.float32)
    for i in range(0, n_cols, BLOCK):
        offsets = i + kl.arange(0, BLOCK)
        block = kl.load(logits + offsets, mask=offsets < n_cols, other=float("-inf")).cast(kl.float32)
        block_max = kl.max(block)
        total += kl.sum(kl.where(offsets < n_cols, block, 0.0))
        m_new = kl.maximum(m, block_max)
        d = d * kl.exp(m - m_new) + kl.sum(kl.exp(block - m_new))
        m = m_new
    lse = m + kl.log(d)
    kl.store(lse_out + row, lse)
    kl.store(loss + row, (1 - smoothing) * (lse - picked) + smoothing * (lse - total / n_cols))
    for i in range(0, n_cols, BLOCK):
        offsets = i + kl.arange(0, BLOCK)
        block = kl.load(logits + offsets, mask=offsets < n_cols, other=float("-inf")).cast(kl.float32)
        p = kl.exp(block - lse) - smoothing / n_cols
        p = kl.where(offsets == label, p - (1 - smoothing), p)
        kl.store(grad + offsets, p, mask=offsets < n_cols)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(smoothing):
    rows, cols = 12, 1000
    x = rng.standard_normal((rows, cols)).astype(np.float16)
    labels = rng.integers(0, cols, rows)
    labels[3] = -100
    loss, lse, grad = np.empty(rows, np.float32), np.empty(rows, np.float32), np.empty((rows, cols), np.float32)
    cross_entropy[(rows,)](x, labels, loss, lse, grad, cols, cols, smoothing, -100, BLOCK=256)
    X = x.astype(np.float64)
    L = np.log(np.exp(X).sum(1))
    keep = labels != -100
    one = np.zeros((rows, cols))
    one[np.arange(rows)[keep], labels[keep]] = 1
    target = one * (1 - smoothing) + smoothing / cols
    want = np.where(keep, L - (target * X).sum(1), 0)
    np.testing.assert_allclose(loss, want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(grad, np.where(keep[:, None], np.exp(X - L[:, None]) - target, 0), atol=1e-5)
