"""Kernels of model libraries: paged attention, quantisation, packed weights, rotary, causal convolution, chunks."""

import mmap

import kiln
import kiln.language as kl
import ml_dtypes
import numpy as np
import pytest

rng = np.random.default_rng(3)


def randn(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


@kiln.jit
def paged_attention(
    out, query, key_cache, value_cache, block_tables, context_lens, scale,
    stride_bt, stride_kb, stride_kt, stride_kh,
    NUM_HEADS: kl.constexpr, GROUP: kl.constexpr, HEAD: kl.constexpr, PAGE: kl.constexpr,
):  # fmt: skip
    seq, kv_head = kl.program_id(0), kl.program_id(1)
    length = kl.load(context_lens + seq)
    if length == 0:
        return
    heads = kv_head * GROUP + kl.arange(0, GROUP)
    d = kl.arange(0, HEAD)
    q = kl.load(query + seq * NUM_HEADS * HEAD + heads[:, None] * HEAD + d[None, :]).to(kl.float32) * scale
    m = kl.full([GROUP], -float("inf"), kl.float32)
    l = kl.zeros([GROUP], kl.float32)
    acc = kl.zeros([GROUP, HEAD], kl.float32)
    for page in range(kl.cdiv(length, PAGE)):
        block = kl.load(block_tables + seq * stride_bt + page).to(kl.int64)
        token = page * PAGE + kl.arange(0, PAGE)
        where = block * stride_kb + kl.arange(0, PAGE)[:, None] * stride_kt + kv_head * stride_kh + d[None, :]
        k = kl.load(key_cache + where, mask=token[:, None] < length, other=0.0).to(kl.float32)
        v = kl.load(value_cache + where, mask=token[:, None] < length, other=0.0).to(kl.float32)
        s = kl.sum(q[:, None, :] * k[None, :, :], axis=2)
        s = kl.where(token[None, :] < length, s, -float("inf"))
        m_new = kl.maximum(m, kl.max(s, 1))
        alpha = kl.exp(m - m_new)
        p = kl.exp(s - m_new[:, None])
        l = l * alpha + kl.sum(p, 1)
        acc = acc * alpha[:, None] + kl.sum(p[:, :, None] * v[None, :, :], 1)
        m = m_new
    acc = acc / l[:, None]
    kl.store(out + seq * NUM_HEADS * HEAD + heads[:, None] * HEAD + d[None, :], acc.to(out.dtype.element_ty))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_paged_attention(dtype):
    seqs, kv_heads, group, head, page, pages = 3, 2, 4, 32, 16, 20
    lengths = np.array([37, 0, 64], np.int32)
    q = randn(seqs, kv_heads * group, head, dtype=dtype)
    k, v = randn(pages, page, kv_heads, head, dtype=dtype), randn(pages, page, kv_heads, head, dtype=dtype)
    tables = rng.permutation(pages)[: seqs * 4].reshape(seqs, 4).astype(np.int32)
    out = np.zeros_like(q)
    paged_attention[seqs, kv_heads](
        out, q, k, v, tables, lengths, head**-0.5, 4, page * kv_heads * head, kv_heads * head, head,
        NUM_HEADS=kv_heads * group, GROUP=group, HEAD=head, PAGE=page,
    )  # fmt: skip
    want = np.zeros(q.shape)
    for s in range(seqs):
        n = lengths[s]
        if n == 0:
            continue
        keys = k[tables[s]].reshape(-1, kv_heads, head)[:n].astype(np.float64)
        vals = v[tables[s]].reshape(-1, kv_heads, head)[:n].astype(np.float64)
        for h in range(kv_heads * group):
            e = np.exp(keys[:, h // group] @ q[s, h].astype(np.float64) * head**-0.5)
            want[s, h] = (e / e.sum()) @ vals[:, h // group]
    np.testing.assert_allclose(out.astype(np.float64), want, atol=2e-2 if dtype != np.float32 else 1e-5)


@kiln.jit
def quantize_rows(x, q, scales, n, BLOCK: kl.constexpr):
    row = kl.program_id(0)
    offsets = kl.arange(0, BLOCK)
    mask = offsets < n
    v = kl.load(x + row * n + offsets, mask=mask, other=0.0).to(kl.float32)
    scale = kl.maximum(kl.max(kl.abs(v)), 1e-12) / 127.0
    v = v / scale
    v = kl.extra.libdevice.rint(v)
    kl.store(q + row * n + offsets, kl.clamp(v, -127.0, 127.0).to(kl.int8), mask=mask)
    kl.store(scales + row, scale)


@kiln.jit
def int8_matmul(a, b, sa, sb, c, M, N, K, BM: kl.constexpr, BN: kl.constexpr, BK: kl.constexpr):
    m = kl.program_id(0) * BM + kl.arange(0, BM)
    n = kl.program_id(1) * BN + kl.arange(0, BN)
    acc = kl.zeros((BM, BN), kl.int32)
    for k0 in range(0, K, BK):
        k = k0 + kl.arange(0, BK)
        x = kl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0)
        w = kl.load(b + n[None, :] * K + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0)
        acc += kl.dot(x, w)
    scale_m = kl.load(sa + m, mask=m < M, other=0.0)
    scale_n = kl.load(sb + n, mask=n < N, other=0.0)
    out = acc.to(kl.float32) * scale_m[:, None] * scale_n[None, :]
    kl.store(c + m[:, None] * N + n[None, :], out, mask=(m[:, None] < M) & (n[None, :] < N))


def test_int8_quantise_and_matmul():
    M, N, K = 50, 70, 130
    a, b = randn(M, K), randn(N, K)
    qa, qb = np.empty((M, K), np.int8), np.empty((N, K), np.int8)
    sa, sb = np.empty(M, np.float32), np.empty(N, np.float32)
    quantize_rows[(M,)](a, qa, sa, K, BLOCK=256)
    quantize_rows[(N,)](b, qb, sb, K, BLOCK=256)
    want_scale = np.abs(a).max(1) / np.float32(127)
    np.testing.assert_allclose(sa, want_scale, rtol=1e-6)
    np.testing.assert_array_equal(qa, np.rint(a / sa[:, None]).astype(np.int8))
    c = np.empty((M, N), np.float32)
    int8_matmul[kiln.cdiv(M, 32), kiln.cdiv(N, 48)](qa, qb, sa, sb, c, M, N, K, 32, 48, 64)
    exact = qa.astype(np.int64) @ qb.astype(np.int64).T
    np.testing.assert_allclose(c, exact * sa[:, None] * sb[None, :], rtol=1e-6)
    assert np.abs(c - a @ b.T).max() < 0.5


@kiln.jit
def fp8_group_quant(x, q, s, n, fp8_max: kl.constexpr, GROUP: kl.constexpr):
    g = kl.program_id(0).to(kl.int64)
    offsets = g * GROUP + kl.arange(0, GROUP)
    v = kl.load(x + offsets, mask=offsets < n, other=0.0).to(kl.float32)
    absmax = kl.maximum(kl.max(kl.abs(v)), 1e-10)
    scale = absmax / fp8_max
    kl.store(q + offsets, kl.clamp(v / scale, -fp8_max, fp8_max).to(q.dtype.element_ty), mask=offsets < n)
    kl.store(s + g, scale)


@kiln.jit
def fp8_dequant(q, s, y, n, GROUP: kl.constexpr):
    g = kl.program_id(0)
    offsets = g * GROUP + kl.arange(0, GROUP)
    v = kl.load(q + offsets, mask=offsets < n).to(kl.float32) * kl.load(s + g)
    kl.store(y + offsets, v, mask=offsets < n)


@pytest.mark.parametrize("kind", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("source", [np.float32, ml_dtypes.bfloat16])
def test_fp8_group_quantise(kind, source):
    n, group = 1000, 128
    top = float(ml_dtypes.finfo(kind).max)
    x = (randn(n) * 10).astype(source)
    q, s, y = np.zeros(n, kind), np.empty(kiln.cdiv(n, group), np.float32), np.empty(n, np.float32)
    fp8_group_quant[(len(s),)](x, q, s, n, top, GROUP=group)
    fp8_dequant[(len(s),)](q, s, y, n, GROUP=group)
    padded = np.zeros(len(s) * group, np.float32)
    padded[:n] = x.astype(np.float32)
    scale = np.maximum(np.abs(padded.reshape(-1, group)).max(1), np.float32(1e-10)) / np.float32(top)
    np.testing.assert_allclose(s, scale, rtol=1e-6)
    want = np.clip(padded.reshape(-1, group) / s[:, None], -top, top).reshape(-1)[:n].astype(kind)
    np.testing.assert_array_equal(q.view(np.uint8), want.view(np.uint8))
    np.testing.assert_allclose(y, q.astype(np.float32) * np.repeat(s, group)[:n], rtol=1e-6)


@kiln.jit
def w4_matmul(a, packed, scales, zeros, c, M, N, K, GROUP: kl.constexpr, BM: kl.constexpr, BN: kl.constexpr,
              BK: kl.constexpr):  # fmt: skip
    """Two 4-bit weights per byte along K, low nibble first: unpacked by interleave."""
    m = kl.program_id(0) * BM + kl.arange(0, BM)
    n = kl.program_id(1) * BN + kl.arange(0, BN)
    acc = kl.zeros((BM, BN), kl.float32)
    for k0 in range(0, K, BK):
        half = k0 // 2 + kl.arange(0, BK // 2)
        byte = kl.load(packed + n[:, None] * (K // 2) + half[None, :], mask=n[:, None] < N, other=0)
        low = byte & 0xF
        high = byte >> 4
        w = kl.interleave(low, high).to(kl.float32)
        group = k0 // GROUP
        s = kl.load(scales + n * (K // GROUP) + group, mask=n < N, other=0.0).to(kl.float32)
        z = kl.load(zeros + n * (K // GROUP) + group, mask=n < N, other=0).to(kl.float32)
        w = (w - z[:, None]) * s[:, None]
        k = k0 + kl.arange(0, BK)
        x = kl.load(a + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0.0)
        acc = kl.dot(x, kl.trans(w).to(x.dtype), acc)
    kl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


def test_w4_matmul_unpacks_by_interleave():
    M, N, K, G = 20, 40, 128, 64
    a = randn(M, K).astype(np.float16)
    w = rng.integers(0, 16, (N, K)).astype(np.uint8)
    packed = w[:, 0::2] | (w[:, 1::2] << 4)
    scales = (rng.random((N, K // G)) * 0.1).astype(np.float16)
    zeros = rng.integers(0, 16, (N, K // G)).astype(np.uint8)
    c = np.empty((M, N), np.float16)
    w4_matmul[kiln.cdiv(M, 16), kiln.cdiv(N, 32)](a, packed, scales, zeros, c, M, N, K, G, 16, 32, 64)
    full = (w.astype(np.float64) - np.repeat(zeros, G, 1)) * np.repeat(scales.astype(np.float64), G, 1)
    np.testing.assert_allclose(c.astype(np.float64), a.astype(np.float64) @ full.T, rtol=1e-2, atol=5e-2)


@kiln.jit
def unpack_int32_awq(packed, out, ROWS: kl.constexpr, COLS: kl.constexpr):
    """Eight nibbles of an int32 in AWQ's order, by repeated joins and a shift tile."""
    offsets = kl.arange(0, ROWS)[:, None] * COLS + kl.arange(0, COLS)[None, :]
    word = kl.load(packed + offsets)
    word = kl.interleave(word, word)
    word = kl.interleave(word, word)
    word = kl.interleave(word, word)
    order = (kl.arange(0, 2) * 4)[None, :] + kl.arange(0, 4)[:, None]
    order = kl.reshape(order, 8)
    shifts = kl.broadcast_to((order * 4)[None, :], (ROWS * COLS, 8))
    shifts = kl.reshape(shifts, (ROWS, COLS * 8))
    value = (word >> shifts) & 0xF
    o = kl.arange(0, ROWS)[:, None] * (COLS * 8) + kl.arange(0, COLS * 8)[None, :]
    kl.store(out + o, value)


def test_awq_unpack():
    packed = rng.integers(-(2**31), 2**31, (4, 16)).astype(np.int32)
    out = np.empty((4, 128), np.int32)
    unpack_int32_awq[(1,)](packed, out, 4, 16)
    order = np.array([0, 4, 1, 5, 2, 6, 3, 7])
    want = (packed.view(np.uint32)[..., None] >> (order * 4).astype(np.uint32)) & 0xF
    np.testing.assert_array_equal(out, want.reshape(4, 128).astype(np.int32))


@kiln.jit
def split_join(x, y, z, N: kl.constexpr):
    i = kl.arange(0, N)
    pairs = kl.reshape(kl.load(x + kl.arange(0, 2 * N)), (N, 2))
    a, b = kl.split(pairs)
    kl.store(y + i, a - b)
    joined = kl.join(b, a)
    kl.store(z + kl.arange(0, 2 * N), kl.ravel(joined))


def test_split_and_join():
    x = rng.integers(-9, 9, 96).astype(np.int16)
    y, z = np.empty(48, np.int16), np.empty(96, np.int16)
    split_join[(1,)](x, y, z, 48)
    np.testing.assert_array_equal(y, x[0::2] - x[1::2])
    np.testing.assert_array_equal(z, x.reshape(48, 2)[:, ::-1].ravel())


@kiln.jit
def rope(q, k, cos, sin, seq_len, n_qh: kl.constexpr, n_kh: kl.constexpr, hd: kl.constexpr, pad_qh: kl.constexpr,
         pad_kh: kl.constexpr, BACKWARD: kl.constexpr = False):  # fmt: skip
    pid = kl.program_id(0).to(kl.int64)
    q = q + pid * n_qh * hd
    k = k + pid * n_kh * hd
    at = pid % seq_len
    half = kl.arange(0, hd // 2)
    c = kl.load(cos + at * hd + half)
    s = kl.load(sin + at * hd + half)
    first_q = kl.arange(0, pad_qh)[:, None] * hd + half[None, :]
    first_k = kl.arange(0, pad_kh)[:, None] * hd + half[None, :]
    mask_q = (kl.arange(0, pad_qh)[:, None] < n_qh) & (half[None, :] < hd // 2)
    mask_k = (kl.arange(0, pad_kh)[:, None] < n_kh) & (half[None, :] < hd // 2)
    _rotate(q, first_q, mask_q, c, s, hd, BACKWARD)
    _rotate(k, first_k, mask_k, c, s, hd, BACKWARD)


@kiln.jit
def _rotate(ptr, first, mask, c, s, hd: kl.constexpr, BACKWARD: kl.constexpr):
    x1 = kl.load(ptr + first, mask=mask, other=0).to(s.dtype)
    x2 = kl.load(ptr + first + hd // 2, mask=mask, other=0).to(s.dtype)
    if not BACKWARD:
        y1 = x1 * c - x2 * s
        y2 = x2 * c + x1 * s
    else:
        y1 = x1 * c + x2 * s
        y2 = x2 * c - x1 * s
    kl.store(ptr + first, y1, mask=mask)
    kl.store(ptr + first + hd // 2, y2, mask=mask)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_rope_in_place_and_back(dtype):
    tokens, seq, n_q, n_k, hd = 12, 6, 6, 2, 64
    q, k = randn(tokens, n_q, hd, dtype=dtype), randn(tokens, n_k, hd, dtype=dtype)
    angles = np.arange(seq)[:, None] * 10000.0 ** (-np.arange(hd // 2) / (hd // 2))
    cos, sin = np.cos(np.tile(angles, 2)).astype(np.float32), np.sin(np.tile(angles, 2)).astype(np.float32)
    before = [t.astype(np.float64) for t in (q, k)]
    rope[(tokens,)](q, k, cos, sin, seq, n_q, n_k, hd, 8, 2)
    eps = float(ml_dtypes.finfo(dtype).eps)
    c, s = np.tile(np.cos(angles), (2, 1))[:, None], np.tile(np.sin(angles), (2, 1))[:, None]
    for got, x in zip((q, k), before, strict=True):
        x1, x2 = x[..., : hd // 2], x[..., hd // 2 :]
        want = np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1)
        np.testing.assert_allclose(got.astype(np.float64), want, atol=4 * eps, rtol=4 * eps)
    rope[(tokens,)](q, k, cos, sin, seq, n_q, n_k, hd, 8, 2, BACKWARD=True)
    np.testing.assert_allclose(q.astype(np.float64), before[0], atol=12 * eps, rtol=12 * eps)


@kiln.jit
def causal_conv1d(x, w, bias, y, state, dim, length, WIDTH: kl.constexpr, SILU: kl.constexpr, BLOCK_T: kl.constexpr,
                  BLOCK_D: kl.constexpr):  # fmt: skip
    b = kl.program_id(0)
    d = kl.program_id(1) * BLOCK_D + kl.arange(0, BLOCK_D)
    t0 = kl.program_id(2) * BLOCK_T
    t = t0 + kl.arange(0, BLOCK_T)
    inside = d < dim
    acc = kl.zeros((BLOCK_T, BLOCK_D), kl.float32)
    if bias is not None:
        acc += kl.load(bias + d, mask=inside, other=0.0)[None, :]
    for j in kl.static_range(WIDTH):
        at = t - (WIDTH - 1 - j)
        v = kl.load(x + (b * length + at[:, None]) * dim + d[None, :],
                    mask=(at[:, None] >= 0) & (at[:, None] < length) & inside[None, :], other=0.0)  # fmt: skip
        wj = kl.load(w + d * WIDTH + j, mask=inside, other=0.0)
        acc += v * wj[None, :]
    if SILU:
        acc = acc * kl.sigmoid(acc)
    kl.store(y + (b * length + t[:, None]) * dim + d[None, :], acc, mask=(t[:, None] < length) & inside[None, :])
    if state is not None:
        if t0 + BLOCK_T >= length:
            for j in kl.static_range(WIDTH - 1):
                last = kl.load(x + (b * length + length - (WIDTH - 1) + j) * dim + d, mask=inside)
                kl.store(state + (b * dim + d) * (WIDTH - 1) + j, last, mask=inside)


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("with_state", [True, False])
def test_causal_conv1d_with_optional_arguments(with_bias, with_state):
    B, T, D, W = 2, 50, 24, 4
    x, w, bias = randn(B, T, D), randn(D, W), randn(D) if with_bias else None
    y, state = np.empty_like(x), np.empty((B, D, W - 1), np.float32) if with_state else None
    causal_conv1d[B, kiln.cdiv(D, 16), kiln.cdiv(T, 16)](x, w, bias, y, state, D, T, W, True, BLOCK_T=16, BLOCK_D=16)
    padded = np.concatenate([np.zeros((B, W - 1, D)), x], 1)
    z = sum(padded[:, j : j + T] * w[:, j] for j in range(W)) + (bias if with_bias else 0)
    np.testing.assert_allclose(y, z / (1 + np.exp(-z)), rtol=1e-4, atol=1e-5)
    if with_state:
        np.testing.assert_array_equal(state, x[:, T - W + 1 :].transpose(0, 2, 1))


@kiln.jit
def chunk_delta_state(k, v, g, h, T, S: kl.constexpr, D: kl.constexpr, BT: kl.constexpr):
    """State of a gated linear attention before each chunk, carried over chunks with block pointers."""
    state = kl.zeros([D, D], kl.float32)
    for i in range(kl.cdiv(T, BT)):
        p_h = kl.make_block_ptr(h + i * D * D, (D, D), (D, 1), (0, 0), (D, D), (1, 0))
        kl.store(p_h, state.to(p_h.dtype.element_ty), boundary_check=(0, 1))
        p_k = kl.make_block_ptr(k, (D, T), (1, D), (0, i * BT), (D, BT), (0, 1))
        p_v = kl.make_block_ptr(v, (T, D), (D, 1), (i * BT, 0), (BT, D), (1, 0))
        b_k = kl.load(p_k, boundary_check=(0, 1))
        b_v = kl.load(p_v, boundary_check=(0, 1), padding_option="zero")
        last = min(i * BT + BT, T) - 1
        b_g_last = kl.load(g + last)
        state *= kl.exp(b_g_last)
        o_t = i * BT + kl.arange(0, BT)
        b_g = kl.load(g + o_t, mask=o_t < T, other=0.0)
        b_v = (b_v * kl.exp(b_g_last - b_g)[:, None]).to(b_v.dtype)
        state += kl.dot(b_k, b_v, allow_tf32=False)


def test_chunked_state_with_block_pointers():
    T, D, BT = 75, 32, 16
    k, v = randn(T, D), randn(T, D)
    g = np.concatenate([np.cumsum(-rng.random(len(c)) * 0.1) for c in np.array_split(np.arange(80), 5)])[:T]
    g = g.astype(np.float32)
    chunks = kiln.cdiv(T, BT)
    h = np.empty((chunks, D, D), np.float32)
    chunk_delta_state[(1,)](k, v, g, h, T, S=1, D=D, BT=BT)
    state = np.zeros((D, D))
    for i in range(chunks):
        np.testing.assert_allclose(h[i], state, rtol=1e-3, atol=1e-4)
        rows = slice(i * BT, min(i * BT + BT, T))
        state = state * np.exp(g[rows][-1]) + k[rows].T @ (v[rows] * np.exp(g[rows][-1] - g[rows])[:, None])


@kiln.jit
def moe_align(topk_ids, sorted_ids, expert_of_block, total, numel, E: kl.constexpr, BLOCK: kl.constexpr):
    """One program: counts per expert, padded offsets by cumsum, then a stable placement of the tokens."""
    experts = kl.arange(0, E)
    counts = kl.zeros([E], kl.int32)
    for i in range(numel):
        counts += (experts == kl.load(topk_ids + i)).to(kl.int32)
    padded = (counts + BLOCK - 1) // BLOCK * BLOCK
    ends = kl.cumsum(padded, 0)
    starts = ends - padded
    kl.store(total, kl.sum(padded))
    for b in range(kl.sum(padded) // BLOCK):
        kl.store(expert_of_block + b, kl.sum((ends <= b * BLOCK).to(kl.int32)))
    fill = starts
    for i in range(numel):
        mine = experts == kl.load(topk_ids + i)
        kl.store(sorted_ids + kl.sum(kl.where(mine, fill, 0)), i)
        fill += mine.to(kl.int32)


def test_moe_align():
    E, block, ids = 8, 4, rng.integers(0, 8, 37).astype(np.int32)
    sorted_ids, blocks, total = np.full(100, -1, np.int32), np.full(30, -1, np.int32), np.zeros(1, np.int32)
    moe_align[(1,)](ids, sorted_ids, blocks, total, len(ids), E, block)
    want, owners = [], []
    for e in range(E):
        mine = np.flatnonzero(ids == e).tolist()
        mine += [-1] * (-len(mine) % block)
        want += mine
        owners += [e] * (len(mine) // block)
    assert total[0] == len(want)
    np.testing.assert_array_equal(sorted_ids[: len(want)], want)
    np.testing.assert_array_equal(blocks[: len(owners)], owners)


@kiln.jit
def odd_tile(x, y, n, M: kl.constexpr, N: kl.constexpr):
    r = kl.arange(0, M)
    c = kl.arange(0, N)
    v = kl.load(x + r[:, None] * n + c[None, :], mask=c[None, :] < n, other=0.0)
    v = v * kl.rsqrt(kl.sum(v * v, 1) / n + 1e-6)[:, None]
    kl.store(y + c[:, None] * M + r[None, :], kl.trans(v), mask=c[:, None] < n)


@pytest.mark.parametrize("M, N, n", [(1, 896, 896), (3, 896, 800), (48, 96, 96), (24, 160, 131), (5, 992, 992)])
def test_odd_sides(M, N, n):
    x, y = randn(M, n), np.empty((n, M), np.float32)
    odd_tile[(1,)](x, y, n, M, N)
    want = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(y, want.T, rtol=1e-5, atol=1e-6)


@kiln.jit
def gather_embedding(ids, weight, out, V, D, BLOCK: kl.constexpr):
    token, d = kl.program_id(0), kl.program_id(1) * BLOCK + kl.arange(0, BLOCK)
    row = kl.load(ids + token)
    ok = (row >= 0) & (row < V)
    v = kl.load(weight + row * D + d, mask=ok & (d < D), other=0)
    kl.store(out + token * D + d, v, mask=d < D)


def test_embedding_far_offsets():
    """Row times width exceeds 32 bits: offsets widen."""
    V, D = 70_000, 40_000
    try:
        memory = mmap.mmap(-1, V * D, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        pytest.skip("no address space")
    weight = np.frombuffer(memory, np.int8).reshape(V, D)
    rows = np.array([69_999, -1, 0, 60_001, 70_000], np.int32)
    for r in (0, 60_001, 69_999):
        weight[r, :] = np.arange(D) % (r % 91 + 7)
    out = np.full((5, D), 99, np.int8)
    gather_embedding[5, kiln.cdiv(D, 1024)](rows, weight, out, V, D, 1024)
    for i, r in enumerate(rows):
        np.testing.assert_array_equal(out[i], weight[r] if 0 <= r < V else 0)
