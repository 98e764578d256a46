"""Whole tiles through control flow, memory that overlaps, narrow types, and algorithms of several steps."""

import kiln
import kiln.language as kl
import ml_dtypes
import numpy as np
from kiln import errors, knobs
from kiln.runtime import placement

rng = np.random.default_rng(0)


def F(*shape):
    return rng.standard_normal(shape).astype(np.float32)


@kiln.jit
def k_bigif(x, y, c, M: kl.constexpr, N: kl.constexpr):
    o = kl.arange(0, M)[:, None] * N + kl.arange(0, N)[None, :]
    a = kl.load(x + o)
    b = a * 2
    n = 0
    while n < kl.load(c):
        if n % 2 == 0:
            a, b = b, a + 1
        else:
            a, b = a - b, a
        n += 1
    kl.store(y + o, a - b)


def test_bigif():
    x = F(128, 256)
    y = np.zeros_like(x)
    for c in range(4):
        k_bigif[(1,)](x, y, np.array([c], np.int32), 128, 256)
        a, b = x, x * 2
        for n in range(c):
            a, b = (b, a + 1) if n % 2 == 0 else (a - b, a)
        assert np.allclose(y, a - b, atol=1e-4), c


@kiln.jit
def k_inplace_T(x, N: kl.constexpr):
    o = kl.arange(0, N)[:, None] * N + kl.arange(0, N)[None, :]
    v = kl.load(x + o)
    kl.store(x + o, kl.trans(v))


def test_inplace_transpose():
    for n in (8, 64, 96, 256):
        x = F(n, n)
        w = x.T.copy()
        k_inplace_T[(1,)](x, n)
        assert (x == w).all(), n


@kiln.jit
def k_shift(x, n, N: kl.constexpr):
    o = kl.arange(0, N)
    v = kl.load(x + o)
    kl.store(x + o + 1, v)


def test_overlap_shift():
    x = np.arange(129, dtype=np.float32)
    w = x.copy()
    w[1:] = x[:-1]
    k_shift[(1,)](x, 1, 128)
    assert (x == w).all(), x


@kiln.jit
def k_alias(x, y, N: kl.constexpr):
    o = kl.arange(0, N)
    v = kl.load(x + o)
    kl.store(y + o, v * 2)
    w = kl.load(x + o)
    kl.store(y + o, w + v)


def test_aliasing():
    x = np.arange(64, dtype=np.float32)
    k_alias[(1,)](x, x, 64)
    assert (x == 3 * np.arange(64)).all(), x
    x = np.arange(65, dtype=np.float32)
    y = x[1:]
    x0 = x.copy()
    k_alias[(1,)](x[:64], y, 64)
    e = x0.copy()
    v = e[:64].copy()
    e[1:] = v * 2
    w = e[:64].copy()
    e[1:] = w + v
    assert (x == e).all()


@kiln.jit
def k_store_load(x, y, N: kl.constexpr):
    o = kl.arange(0, N)
    kl.store(y + o, kl.load(x + o))
    kl.debug_barrier()
    r = kl.load(y + (N - 1 - o))
    kl.store(x + o, r)


def test_through_memory():
    x = F(64)
    w = x[::-1].copy()
    y = np.zeros_like(x)
    k_store_load[(1,)](x, y, 64)
    assert (x == w).all()


@kiln.jit
def k_fp16(x, y, z, N: kl.constexpr):
    o = kl.arange(0, N)
    a = kl.load(x + o)
    kl.store(y + o, a * a + a / 3.0 - kl.exp(a.to(kl.float32)).to(a.dtype))
    kl.store(z, kl.sum(a))
    kl.store(z + 1, kl.max(a))


def test_halves():
    for d in (np.float16, ml_dtypes.bfloat16):
        x = F(256).astype(d)
        y = np.zeros(256, d)
        z = np.zeros(2, d)
        k_fp16[(1,)](x, y, z, 256)
        v = x.astype(np.float64)
        w = v * v + v / 3 - np.exp(v)
        eps = float(ml_dtypes.finfo(d).eps)
        assert (abs(y.astype(float) - w) <= 6 * eps * (1 + abs(w) + np.exp(v))).all(), abs(y.astype(float) - w).max()
        assert abs(float(z[0]) - v.sum()) <= 2 * eps * abs(v).sum()
        assert z[1] == x.max()


@kiln.jit
def k_fp8cvt(x, y, N: kl.constexpr):
    o = kl.arange(0, N)
    kl.store(y + o, kl.load(x + o).to(y.dtype.element_ty))


def test_fp8_all():
    allv = np.arange(256, dtype=np.uint8)
    for d in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        x = allv.view(d)
        for t in (np.float32, np.float16, ml_dtypes.bfloat16, np.float64):
            y = np.zeros(256, t)
            k_fp8cvt[(1,)](x, y, 256)
            assert np.array_equal(y.astype(np.float64), x.astype(np.float64), equal_nan=True), (d, t)
        z = np.concatenate([F(4096) * s for s in (1e-3, 1e-2, 0.1, 1, 10, 100, 300, 1e4)])
        z = z[:32768]
        z = np.clip(
            z, -400 if d == ml_dtypes.float8_e4m3fn else -5e4, 400 if d == ml_dtypes.float8_e4m3fn else 5e4
        ).astype(np.float32)
        q = np.zeros(len(z), d)
        k_fp8cvt[(1,)](z, q, len(z))
        assert (q.view(np.uint8) == z.astype(d).view(np.uint8)).all()


@kiln.jit
def k_i64(x, y, N: kl.constexpr):
    o = kl.arange(0, N).to(kl.int64)
    v = kl.load(x + o)
    kl.store(
        y + o,
        v * v + (v << 3) + (v >> 2) - v // 7 + v % 5 + kl.umulhi(v.to(kl.uint64), v.to(kl.uint64)).to(kl.int64) * 0,
    )


def test_i64():
    x = rng.integers(-(2**40), 2**40, 64)
    y = np.zeros_like(x)
    k_i64[(1,)](x, y, 64)
    with np.errstate(all="ignore"):
        w = x * x + (x << 3) + (x >> 2) - np.trunc(x / 7).astype(np.int64) + np.fmod(x, 5)
    assert (y == w).all()


@kiln.jit
def k_matmul_split(a, b, c, M, N, K, BM: kl.constexpr, BN: kl.constexpr, BK: kl.constexpr, SPLIT: kl.constexpr):
    pid = kl.program_id(0)
    z = kl.program_id(1)
    gn = kl.cdiv(N, BN)
    m = pid // gn * BM + kl.arange(0, BM)
    n = pid % gn * BN + kl.arange(0, BN)
    k = z * BK + kl.arange(0, BK)
    A = a + m[:, None] * K + k[None, :]
    B = b + k[:, None] * N + n[None, :]
    acc = kl.zeros((BM, BN), kl.float32)
    for i in range(0, kl.cdiv(K, BK * SPLIT)):
        r = K - i * BK * SPLIT
        acc += kl.dot(
            kl.load(A, mask=(m[:, None] < M) & (k[None, :] < r), other=0.0),
            kl.load(B, mask=(k[:, None] < r) & (n[None, :] < N), other=0.0),
        )
        A += BK * SPLIT
        B += BK * SPLIT * N
    p = c + m[:, None] * N + n[None, :]
    ok = (m[:, None] < M) & (n[None, :] < N)
    if SPLIT == 1:
        kl.store(p, acc, ok)
    else:
        kl.atomic_add(p, acc, ok, sem="relaxed")


def test_splitk():
    for s in (1, 4):
        a, b = F(77, 200), F(200, 90)
        c = np.zeros((77, 90), np.float32)
        k_matmul_split[(3 * 2, s)](a, b, c, 77, 90, 200, 32, 48, 32, s)
        assert np.allclose(c, a @ b, atol=1e-3)


@kiln.jit
def k_conv2d(x, w, y, H, W, C: kl.constexpr, O: kl.constexpr, KH: kl.constexpr, KW: kl.constexpr, BP: kl.constexpr):
    p = kl.program_id(0) * BP + kl.arange(0, BP)
    oh = H - KH + 1
    ow = W - KW + 1
    i = p // ow
    j = p % ow
    ok = p < oh * ow
    acc = kl.zeros((BP, O), kl.float32)
    for dh in range(KH):
        for dw in kl.static_range(KW):
            xv = kl.load(
                x + ((i + dh) * W + j + dw)[:, None] * C + kl.arange(0, C)[None, :], mask=ok[:, None], other=0.0
            )
            wv = kl.load(w + ((dh * KW + dw) * C + kl.arange(0, C))[:, None] * O + kl.arange(0, O)[None, :])
            acc = kl.dot(xv, wv, acc)
    kl.store(y + p[:, None] * O + kl.arange(0, O)[None, :], acc, mask=ok[:, None])


def test_conv2d():
    H, W, C, O = 11, 13, 16, 32
    x = F(H, W, C)
    w = F(3, 3, C, O)
    y = np.zeros((9 * 11, O), np.float32)
    k_conv2d[(4,)](x, w, y, H, W, C, O, 3, 3, 32)
    r = sum(np.einsum("ijc,co->ijo", x[a : a + 9, b : b + 11], w[a, b]) for a in range(3) for b in range(3))
    assert np.allclose(y.reshape(9, 11, O), r, atol=1e-3)


@kiln.jit
def k_4d(x, y, A: kl.constexpr, B: kl.constexpr, C: kl.constexpr, D: kl.constexpr):
    i = kl.arange(0, A * B * C * D)
    v = kl.reshape(kl.load(x + i), (A, B, C, D))
    w = kl.permute(v, (3, 1, 0, 2))
    s = kl.sum(kl.max(w, axis=1), axis=0)  # (A,C)
    kl.store(y + kl.arange(0, A)[:, None] * C + kl.arange(0, C)[None, :], s)


def test_d4():
    x = F(2, 4, 8, 6)
    y = np.zeros((2, 8), np.float32)
    k_4d[(1,)](x, y, 2, 4, 8, 6)
    assert np.allclose(y, x.max(1).sum(-1), atol=1e-5)


@kiln.jit
def k_hadamard(x, N: kl.constexpr, LOG: kl.constexpr):
    v = kl.load(x + kl.arange(0, N))
    for i in kl.static_range(LOG):
        w = kl.reshape(v, (N >> (i + 1), 2, 1 << i))
        a, b = kl.split(kl.permute(w, (0, 2, 1)))
        v = kl.reshape(kl.permute(kl.join(a + b, a - b), (0, 2, 1)), (N,))
    kl.store(x + kl.arange(0, N), v)


def test_hadamard():
    x = F(64)
    H = np.array([[1]])
    for _ in range(6):
        H = np.block([[H, H], [H, -H]])
    w = H @ x
    k_hadamard[(1,)](x, 64, 6)
    assert np.allclose(x, w, atol=1e-4)


@kiln.jit
def k_mandel(y, W, H, B: kl.constexpr):
    p = kl.program_id(0) * B + kl.arange(0, B)
    cx = (p % W) / W * 3.0 - 2.0
    cy = (p // W) / H * 2.0 - 1.0
    zx = kl.zeros([B], kl.float32)
    zy = zx
    n = kl.zeros([B], kl.int32)
    it = 0
    alive = n == 0
    while (it < 50) & (kl.sum(alive.to(kl.int32)) > 0):
        zx, zy = zx * zx - zy * zy + cx, 2 * zx * zy + cy
        alive = alive & (zx * zx + zy * zy < 4.0)
        n += alive.to(kl.int32)
        it += 1
    kl.store(y + p, n, mask=p < W * H)


def test_mandel():
    W, H = 60, 40
    y = np.zeros(W * H, np.int32)
    k_mandel[(kiln.cdiv(W * H, 64),)](y, W, H, 64)
    p = np.arange(W * H)
    cx = (p % W / np.float32(W) * 3 - 2).astype(np.float32)
    cy = (p // W / np.float32(H) * 2 - 1).astype(np.float32)
    c = cx + 1j * cy.astype(np.float32)
    z = 0 * c
    n = np.zeros(W * H, int)
    al = np.ones(W * H, bool)
    with np.errstate(all="ignore"):
        for _ in range(50):
            z = z * z + c
            al &= abs(z) ** 2 < 4
            n += al
    assert (y == n).mean() > 0.98


@kiln.jit
def k_adam_multi(ps, gs, ms, sizes: kl.constexpr, B: kl.constexpr):
    pid = kl.program_id(0)
    for t in kl.static_range(len(ps)):
        nb: kl.constexpr = (sizes[t] + B - 1) // B
        if pid < nb:
            o = pid * B + kl.arange(0, B)
            k = o < sizes[t]
            g = kl.load(gs[t] + o, k)
            m = kl.load(ms[t] + o, k) * 0.9 + g * 0.1
            kl.store(ms[t] + o, m, k)
            kl.store(ps[t] + o, kl.load(ps[t] + o, k) - m, k)


def test_multitensor():
    S = (100, 37, 64)
    ps = tuple(F(s) for s in S)
    gs = tuple(F(s) for s in S)
    ms = tuple(F(s) for s in S)
    w = [(p - (m * 0.9 + g * 0.1)) for p, g, m in zip(ps, gs, ms, strict=True)]
    k_adam_multi[(4,)](ps, gs, ms, S, 32)
    assert all(np.allclose(p, x, atol=1e-6) for p, x in zip(ps, w, strict=True))


@kiln.jit
def k_nan(x, y, N: kl.constexpr):
    o = kl.arange(0, N)
    v = kl.load(x + o)
    kl.store(y + o, kl.maximum(v, 0.0))
    kl.store(y + N + o, kl.maximum(v, 0.0, propagate_nan=kl.PropagateNan.ALL))
    kl.store(y + 2 * N + o, kl.clamp(v, -1.0, 1.0))
    kl.store(y + 3 * N + o, (v != v).to(kl.float32) + (v == v) * 2.0 + (v < 0) * 4.0)
    kl.store(y + 4 * N, kl.max(v))
    kl.store(y + 4 * N + 1, kl.min(v))
    kl.store(y + 4 * N + 2, kl.argmax(v, 0))


def test_nans():
    x = np.array([np.nan, 1, -1, 0, -0.0, np.inf, -np.inf, 2], np.float32)
    y = np.zeros((5, 8), np.float32)
    k_nan[(1,)](x, y, 8)
    # A NaN loses to a number, unless asked to propagate.
    relu = np.where(x > 0, x, 0)
    np.testing.assert_array_equal(y[0], relu)
    np.testing.assert_array_equal(y[1], np.where(np.isnan(x), np.nan, relu))
    np.testing.assert_array_equal(y[2], [-1, 1, -1, 0, 0, 1, -1, 1])
    np.testing.assert_array_equal(y[3], [1, 2, 6, 2, 2, 2, 6, 2])
    np.testing.assert_array_equal(y[4][:3], [np.inf, -np.inf, 5])


@kiln.jit
def k_empty(x, y, n, B: kl.constexpr):
    for i in range(kl.program_id(0) * B, n, B):
        kl.store(y + i + kl.arange(0, B), 1.0, mask=i + kl.arange(0, B) < n)


def test_empties():
    k_empty[(3,)](np.zeros(0, np.float32), np.zeros(0, np.float32), 0, 16)
    k_empty[(0,)](np.zeros(0, np.float32), np.zeros(0, np.float32), 0, 16)
    y = np.zeros(24, np.float32)
    k_empty[(3,)](y, y, 0, 16)
    k_empty[(0,)](y, y, 16, 16)
    assert (y == 0).all()
    k_empty[(3,)](y, y, 20, 16)
    assert (y == (np.arange(24) < 20)).all()


@kiln.jit
def k_big_unroll(x, y, N: kl.constexpr):
    o = kl.arange(0, N)
    acc = kl.load(x + o)
    for i in kl.static_range(200):
        acc = acc * 1.0001 + i
    kl.store(y + o, acc)


def test_unroll200():
    x = F(1024)
    y = np.zeros_like(x)
    k_big_unroll[(1,)](x, y, 1024)
    want = x.astype(np.float64)
    for i in range(200):
        want = want * 1.0001 + i
    np.testing.assert_allclose(y, want, rtol=1e-5)


@kiln.jit
def k_bigdot(a, b, c, M: kl.constexpr, N: kl.constexpr, K: kl.constexpr):
    A = kl.load(a + kl.arange(0, M)[:, None] * K + kl.arange(0, K)[None, :])
    B = kl.load(b + kl.arange(0, K)[:, None] * N + kl.arange(0, N)[None, :])
    kl.store(c + kl.arange(0, M)[:, None] * N + kl.arange(0, N)[None, :], kl.dot(A, B))


def test_bigdot():
    a, b = F(256, 256), F(256, 256)
    c = np.zeros((256, 256), np.float32)
    try:
        k_bigdot[(1,)](a, b, c, 256, 256, 256)
        assert np.allclose(c, a @ b, atol=1e-3)
    except errors.ResourceError as refused:
        # Two operands of 256 KB exceed a GPU block's memory; the CPU has room.
        assert placement.names_gpu(knobs.target)
        assert "shared memory" in str(refused) and "required 524288" in str(refused)
    a, b = F(7, 31), F(31, 5)
    c = np.zeros((7, 5), np.float32)
    k_bigdot[(1,)](a, b, c, 7, 5, 31)
    assert np.allclose(c, a @ b, atol=1e-4)
    a, b = F(1, 64), F(64, 1)
    c = np.zeros((1, 1), np.float32)
    k_bigdot[(1,)](a, b, c, 1, 1, 64)
    assert np.allclose(c, a @ b, atol=1e-4)
    for d in (np.float64, np.int8, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.float16):
        a, b = (F(48, 64) * 3).astype(d), (F(64, 96) * 3).astype(d)
        o = np.float64 if d == np.float64 else np.int32 if d == np.int8 else np.float32
        c = np.zeros((48, 96), o)
        k_bigdot[(1,)](a, b, c, 48, 96, 64)
        assert np.allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-3, atol=1e-2), d
