"""Kernels in the shape of the tutorials: add, softmax, matmul, dropout, layer norm, attention, grouped GEMM."""

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln.language.extra import libdevice
from kiln.tools.tensor_descriptor import TensorDescriptor

rng = np.random.default_rng(0)


def randn(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


@kiln.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: kl.constexpr):
    pid = kl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + kl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = kl.load(x_ptr + offsets, mask=mask)
    y = kl.load(y_ptr + offsets, mask=mask)
    output = x + y
    kl.store(output_ptr + offsets, output, mask=mask)


@pytest.mark.parametrize("n", [1, 97, 1024, 98432])
def test_vector_add(n):
    x, y = randn(n), randn(n)
    out = np.empty_like(x)
    grid = lambda meta: (kiln.cdiv(n, meta["BLOCK_SIZE"]),)  # noqa: E731
    add_kernel[grid](x, y, out, n, BLOCK_SIZE=1024)
    np.testing.assert_array_equal(out, x + y)


@kiln.jit
def softmax_kernel(
    output_ptr, input_ptr, input_row_stride, output_row_stride, n_rows, n_cols, BLOCK_SIZE: kl.constexpr,
    num_stages: kl.constexpr,
):  # fmt: skip
    row_start = kl.program_id(0)
    row_step = kl.num_programs(0)
    for row_idx in kl.range(row_start, n_rows, row_step, num_stages=num_stages):
        row_start_ptr = input_ptr + row_idx * input_row_stride
        col_offsets = kl.arange(0, BLOCK_SIZE)
        input_ptrs = row_start_ptr + col_offsets
        mask = col_offsets < n_cols
        row = kl.load(input_ptrs, mask=mask, other=-float("inf"))
        row_minus_max = row - kl.max(row, axis=0)
        numerator = kl.exp(row_minus_max)
        denominator = kl.sum(numerator, axis=0)
        softmax_output = numerator / denominator
        output_row_start_ptr = output_ptr + row_idx * output_row_stride
        kl.store(output_row_start_ptr + col_offsets, softmax_output, mask=mask)


@pytest.mark.parametrize("rows, cols, programs", [(1823, 781, 8), (3, 1, 5), (17, 4096, 3)])
def test_fused_softmax(rows, cols, programs):
    x = randn(rows, cols + 3)[:, :cols]
    y = np.empty_like(x, order="C")
    softmax_kernel[(programs, 1, 1)](
        y, x, x.strides[0] // 4, y.strides[0] // 4, rows, cols, kiln.next_power_of_2(cols), 2
    )
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


def matmul_configs():
    return [
        kiln.Config({"BLOCK_SIZE_M": m, "BLOCK_SIZE_N": n, "BLOCK_SIZE_K": k, "GROUP_SIZE_M": 8}, num_stages=3,
                    num_warps=4)
        for m, n, k in [(64, 64, 32), (32, 48, 64)]
    ]  # fmt: skip


@kiln.autotune(configs=matmul_configs(), key=["M", "N", "K"], warmup=1, rep=2)
@kiln.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    stride_cm, stride_cn,
    BLOCK_SIZE_M: kl.constexpr, BLOCK_SIZE_N: kl.constexpr, BLOCK_SIZE_K: kl.constexpr,
    GROUP_SIZE_M: kl.constexpr,
    ACTIVATION: kl.constexpr,
):  # fmt: skip
    pid = kl.program_id(axis=0)
    num_pid_m = kl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = kl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    kl.assume(pid_m >= 0)
    kl.assume(pid_n >= 0)
    kl.assume(stride_am > 0)

    offs_am = (pid_m * BLOCK_SIZE_M + kl.arange(0, BLOCK_SIZE_M)) % M
    offs_bn = (pid_n * BLOCK_SIZE_N + kl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = kl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = kl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=kl.float32)
    for k in range(0, kl.cdiv(K, BLOCK_SIZE_K)):
        a = kl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        b = kl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        accumulator = kl.dot(a, b, accumulator)
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    if ACTIVATION == "leaky_relu":
        accumulator = leaky_relu(accumulator)
    c = accumulator.to(c_ptr.dtype.element_ty)

    offs_cm = pid_m * BLOCK_SIZE_M + kl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + kl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    kl.store(c_ptrs, c, mask=c_mask)


@kiln.jit
def leaky_relu(x):
    return kl.where(x >= 0, x, 0.01 * x)


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("activation", ["", "leaky_relu"])
def test_matmul_grouped_autotuned(dtype, activation):
    import ml_dtypes

    kind = getattr(ml_dtypes, dtype, None) or np.dtype(dtype)
    M, N, K = 150, 97, 111
    a = randn(M, K).astype(kind)
    b = randn(N, K).astype(kind).T  # column-major
    c = np.full((M, N), -1, np.float16)
    grid = lambda meta: (kiln.cdiv(M, meta["BLOCK_SIZE_M"]) * kiln.cdiv(N, meta["BLOCK_SIZE_N"]),)  # noqa: E731
    size = a.itemsize
    matmul_kernel[grid](
        a, b, c, M, N, K, a.strides[0] // size, a.strides[1] // size, b.strides[0] // size, b.strides[1] // size,
        N, 1, ACTIVATION=activation,
    )  # fmt: skip
    want = a.astype(np.float64) @ b.astype(np.float64)
    if activation:
        want = np.where(want >= 0, want, 0.01 * want)
    np.testing.assert_allclose(c.astype(np.float64), want, rtol=1e-2, atol=1e-2)
    assert matmul_kernel.best_config.kwargs["GROUP_SIZE_M"] == 8


@kiln.jit
def dropout(x_ptr, x_keep_ptr, output_ptr, n_elements, p, BLOCK_SIZE: kl.constexpr):
    pid = kl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + kl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = kl.load(x_ptr + offsets, mask=mask)
    x_keep = kl.load(x_keep_ptr + offsets, mask=mask)
    output = kl.where(x_keep, x / (1 - p), 0.0)
    kl.store(output_ptr + offsets, output, mask=mask)


@kiln.jit
def seeded_dropout(x_ptr, output_ptr, n_elements, p, seed, BLOCK_SIZE: kl.constexpr):
    pid = kl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + kl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = kl.load(x_ptr + offsets, mask=mask)
    random = kl.rand(seed, offsets)
    x_keep = random > p
    output = kl.where(x_keep, x / (1 - p), 0.0)
    kl.store(output_ptr + offsets, output, mask=mask)


def philox_uniform(seed, offsets):
    """Philox 4x32-10 as published, first word, as a float in [0, 1)."""
    c0 = offsets.astype(np.uint64)
    c1 = c2 = c3 = np.zeros_like(c0)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p2 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (
            (p2 >> np.uint64(32)) ^ c1 ^ np.uint64(k0), p2 & np.uint64(0xFFFFFFFF),
            (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1), p0 & np.uint64(0xFFFFFFFF),
        )  # fmt: skip
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    x = c0.astype(np.uint32).view(np.int32)
    x = np.where(x < 0, -x - 1, x)
    return x.astype(np.float32) * np.float32(4.6566127342e-10)


@pytest.mark.parametrize("seed", [0, 123, 512, (5 << 32) + 7])
def test_dropout(seed):
    n, p = 1000, 0.5
    x = randn(n)
    keep = (rng.random(n) > p).astype(np.int32)
    out = np.empty_like(x)
    dropout[(1,)](x, keep, out, n, p, BLOCK_SIZE=1024)
    np.testing.assert_allclose(out, np.where(keep, x / (1 - p), 0), rtol=1e-6)
    seeded_dropout[(kiln.cdiv(n, 256),)](x, out, n, p, seed, BLOCK_SIZE=256)
    keep = philox_uniform(seed, np.arange(n)) > p
    np.testing.assert_allclose(out, np.where(keep, x / (1 - p), 0), rtol=1e-6)


@kiln.jit
def _layer_norm_fwd_fused(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK_SIZE: kl.constexpr):
    row = kl.program_id(0)
    Y += row * stride
    X += row * stride
    mean = 0
    _mean = kl.zeros([BLOCK_SIZE], dtype=kl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + kl.arange(0, BLOCK_SIZE)
        a = kl.load(X + cols, mask=cols < N, other=0.0).to(kl.float32)
        _mean += a
    mean = kl.sum(_mean, axis=0) / N
    _var = kl.zeros([BLOCK_SIZE], dtype=kl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + kl.arange(0, BLOCK_SIZE)
        x = kl.load(X + cols, mask=cols < N, other=0.0).to(kl.float32)
        x = kl.where(cols < N, x - mean, 0.0)
        _var += x * x
    var = kl.sum(_var, axis=0) / N
    rstd = 1 / kl.sqrt(var + eps)
    kl.store(Mean + row, mean)
    kl.store(Rstd + row, rstd)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + kl.arange(0, BLOCK_SIZE)
        mask = cols < N
        w = kl.load(W + cols, mask=mask)
        b = kl.load(B + cols, mask=mask)
        x = kl.load(X + cols, mask=mask, other=0.0).to(kl.float32)
        x_hat = (x - mean) * rstd
        y = x_hat * w + b
        kl.store(Y + cols, y, mask=mask)


@kiln.jit
def _layer_norm_bwd_dx_fused(
    DX, DY, DW, DB, X, W, Mean, Rstd, Lock, stride, N, GROUP_SIZE_M: kl.constexpr, BLOCK_SIZE_N: kl.constexpr
):
    row = kl.program_id(0)
    cols = kl.arange(0, BLOCK_SIZE_N)
    mask = cols < N
    X += row * stride
    DY += row * stride
    DX += row * stride
    lock_id = row % GROUP_SIZE_M
    Lock += lock_id
    Count = Lock + GROUP_SIZE_M
    DW = DW + lock_id * N + cols
    DB = DB + lock_id * N + cols
    x = kl.load(X + cols, mask=mask, other=0).to(kl.float32)
    dy = kl.load(DY + cols, mask=mask, other=0).to(kl.float32)
    w = kl.load(W + cols, mask=mask).to(kl.float32)
    mean = kl.load(Mean + row)
    rstd = kl.load(Rstd + row)
    xhat = (x - mean) * rstd
    wdy = w * dy
    xhat = kl.where(mask, xhat, 0.0)
    wdy = kl.where(mask, wdy, 0.0)
    c1 = kl.sum(xhat * wdy, axis=0) / N
    c2 = kl.sum(wdy, axis=0) / N
    dx = (wdy - (xhat * c1 + c2)) * rstd
    kl.store(DX + cols, dx, mask=mask)
    partial_dw = (dy * xhat).to(w.dtype)
    partial_db = (dy).to(w.dtype)
    while kl.atomic_cas(Lock, 0, 1) == 1:
        pass
    count = kl.load(Count)
    if count == 0:
        kl.atomic_xchg(Count, 1)
    else:
        partial_dw += kl.load(DW, mask=mask)
        partial_db += kl.load(DB, mask=mask)
    kl.store(DW, partial_dw, mask=mask)
    kl.store(DB, partial_db, mask=mask)
    kl.debug_barrier()
    kl.atomic_xchg(Lock, 0)


@kiln.jit
def _layer_norm_bwd_dwdb(DW, DB, FINAL_DW, FINAL_DB, M, N, BLOCK_SIZE_M: kl.constexpr, BLOCK_SIZE_N: kl.constexpr):
    pid = kl.program_id(0)
    cols = pid * BLOCK_SIZE_N + kl.arange(0, BLOCK_SIZE_N)
    dw = kl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=kl.float32)
    db = kl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=kl.float32)
    for i in range(0, M, BLOCK_SIZE_M):
        rows = i + kl.arange(0, BLOCK_SIZE_M)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        offs = rows[:, None] * N + cols[None, :]
        dw += kl.load(DW + offs, mask=mask, other=0.0)
        db += kl.load(DB + offs, mask=mask, other=0.0)
    sum_dw = kl.sum(dw, axis=0)
    sum_db = kl.sum(db, axis=0)
    kl.store(FINAL_DW + cols, sum_dw, mask=cols < N)
    kl.store(FINAL_DB + cols, sum_db, mask=cols < N)


@pytest.mark.parametrize("M, N", [(151, 500), (64, 1024)])
def test_layer_norm_forward_and_backward_with_locks(M, N):
    x, w, b, dy = randn(M, N) * 2 + 1, randn(N), randn(N), randn(M, N)
    y, dx = np.empty_like(x), np.empty_like(x)
    mean, rstd = np.empty(M, np.float32), np.empty(M, np.float32)
    _layer_norm_fwd_fused[(M,)](x, y, w, b, mean, rstd, N, N, 1e-5, BLOCK_SIZE=256)
    X = x.astype(np.float64)
    mu, sigma = X.mean(1, keepdims=True), 1 / np.sqrt(X.var(1, keepdims=True) + 1e-5)
    hat = (X - mu) * sigma
    np.testing.assert_allclose(y, hat * w + b, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(mean, mu[:, 0], rtol=1e-5, atol=1e-6)

    group = 8
    locks = np.zeros(2 * group, np.int32)
    dw_part, db_part = np.zeros((group, N), np.float32), np.zeros((group, N), np.float32)
    _layer_norm_bwd_dx_fused[(M,)](
        dx, dy, dw_part, db_part, x, w, mean, rstd, locks, N, N, GROUP_SIZE_M=group,
        BLOCK_SIZE_N=kiln.next_power_of_2(N), num_ctas=1,
    )  # fmt: skip
    dw, db = np.empty_like(w), np.empty_like(b)
    _layer_norm_bwd_dwdb[lambda meta: (kiln.cdiv(N, meta["BLOCK_SIZE_N"]),)](
        dw_part, db_part, dw, db, min(group, M), N, BLOCK_SIZE_M=32, BLOCK_SIZE_N=128, num_ctas=1
    )
    wdy = dy * w
    c1, c2 = (hat * wdy).mean(1, keepdims=True), wdy.mean(1, keepdims=True)
    np.testing.assert_allclose(dx, (wdy - (hat * c1 + c2)) * sigma, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(dw, (dy * hat).sum(0), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(db, dy.sum(0), rtol=1e-3, atol=1e-3)
    assert not locks[:group].any()
    assert locks[group:].all()


@kiln.jit
def _attn_fwd_inner(
    acc, l_i, m_i, q, K_block_ptr, V_block_ptr, start_m, qk_scale,
    BLOCK_M: kl.constexpr, HEAD_DIM: kl.constexpr, BLOCK_N: kl.constexpr,
    STAGE: kl.constexpr, offs_m: kl.constexpr, offs_n: kl.constexpr, N_CTX: kl.constexpr,
):  # fmt: skip
    if STAGE == 1:
        lo, hi = 0, start_m * BLOCK_M
    elif STAGE == 2:
        lo, hi = start_m * BLOCK_M, (start_m + 1) * BLOCK_M
        lo = kl.multiple_of(lo, BLOCK_M)
    else:
        lo, hi = 0, N_CTX
    K_block_ptr = kl.advance(K_block_ptr, (0, lo))
    V_block_ptr = kl.advance(V_block_ptr, (lo, 0))
    for start_n in range(lo, hi, BLOCK_N):
        start_n = kl.multiple_of(start_n, BLOCK_N)
        k = kl.load(K_block_ptr)
        qk = kl.dot(q, k)
        if STAGE == 2:
            mask = offs_m[:, None] >= (start_n + offs_n[None, :])
            qk = qk * qk_scale + kl.where(mask, 0, -1.0e6)
            m_ij = kl.maximum(m_i, kl.max(qk, 1))
            qk -= m_ij[:, None]
        else:
            m_ij = kl.maximum(m_i, kl.max(qk, 1) * qk_scale)
            qk = qk * qk_scale - m_ij[:, None]
        p = kl.math.exp2(qk)
        l_ij = kl.sum(p, 1)
        alpha = kl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + l_ij
        acc = acc * alpha[:, None]
        v = kl.load(V_block_ptr)
        p = p.to(v.dtype)
        acc = kl.dot(p, v, acc)
        m_i = m_ij
        V_block_ptr = kl.advance(V_block_ptr, (BLOCK_N, 0))
        K_block_ptr = kl.advance(K_block_ptr, (0, BLOCK_N))
    return acc, l_i, m_i


@kiln.jit
def _attn_fwd(
    Q, K, V, sm_scale, M, Out,
    stride_qz, stride_qh, stride_qm, stride_qk,
    Z, H, N_CTX,
    HEAD_DIM: kl.constexpr, BLOCK_M: kl.constexpr, BLOCK_N: kl.constexpr, STAGE: kl.constexpr,
):  # fmt: skip
    kl.static_assert(BLOCK_N <= HEAD_DIM * 4)
    start_m = kl.program_id(0)
    off_hz = kl.program_id(1)
    off_z = off_hz // H
    off_h = off_hz % H
    qvk_offset = off_z.to(kl.int64) * stride_qz + off_h.to(kl.int64) * stride_qh
    Q_block_ptr = kl.make_block_ptr(
        base=Q + qvk_offset, shape=(N_CTX, HEAD_DIM), strides=(stride_qm, stride_qk),
        offsets=(start_m * BLOCK_M, 0), block_shape=(BLOCK_M, HEAD_DIM), order=(1, 0),
    )  # fmt: skip
    v_order: kl.constexpr = (0, 1) if V.dtype.element_ty == kl.float8e5 else (1, 0)
    V_block_ptr = kl.make_block_ptr(
        base=V + qvk_offset, shape=(N_CTX, HEAD_DIM), strides=(stride_qm, stride_qk), offsets=(0, 0),
        block_shape=(BLOCK_N, HEAD_DIM), order=v_order,
    )  # fmt: skip
    K_block_ptr = kl.make_block_ptr(
        base=K + qvk_offset, shape=(HEAD_DIM, N_CTX), strides=(stride_qk, stride_qm), offsets=(0, 0),
        block_shape=(HEAD_DIM, BLOCK_N), order=(0, 1),
    )  # fmt: skip
    O_block_ptr = kl.make_block_ptr(
        base=Out + qvk_offset, shape=(N_CTX, HEAD_DIM), strides=(stride_qm, stride_qk),
        offsets=(start_m * BLOCK_M, 0), block_shape=(BLOCK_M, HEAD_DIM), order=(1, 0),
    )  # fmt: skip
    offs_m = start_m * BLOCK_M + kl.arange(0, BLOCK_M)
    offs_n = kl.arange(0, BLOCK_N)
    m_i = kl.zeros([BLOCK_M], dtype=kl.float32) - float("inf")
    l_i = kl.zeros([BLOCK_M], dtype=kl.float32) + 1.0
    acc = kl.zeros([BLOCK_M, HEAD_DIM], dtype=kl.float32)
    qk_scale = sm_scale
    qk_scale *= 1.44269504
    q = kl.load(Q_block_ptr)
    if STAGE & 1:
        acc, l_i, m_i = _attn_fwd_inner(
            acc, l_i, m_i, q, K_block_ptr, V_block_ptr, start_m, qk_scale, BLOCK_M, HEAD_DIM, BLOCK_N, 4 - STAGE,
            offs_m, offs_n, N_CTX,
        )  # fmt: skip
    if STAGE & 2:
        acc, l_i, m_i = _attn_fwd_inner(
            acc, l_i, m_i, q, K_block_ptr, V_block_ptr, start_m, qk_scale, BLOCK_M, HEAD_DIM, BLOCK_N, 2,
            offs_m, offs_n, N_CTX,
        )  # fmt: skip
    m_i += kl.math.log2(l_i)
    acc = acc / l_i[:, None]
    m_ptrs = M + off_hz * N_CTX + offs_m
    kl.store(m_ptrs, m_i)
    kl.store(O_block_ptr, acc.to(Out.type.element_ty))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_flash_attention_with_block_pointers(causal, dtype):
    Z, H, N, D = 1, 2, 256, 64
    q, k, v = (randn(Z, H, N, D).astype(dtype) for _ in range(3))
    out = np.empty_like(q)
    M = np.empty((Z, H, N), np.float32)
    strides = [s // q.itemsize for s in q.strides]
    _attn_fwd[(N // 64, Z * H, 1)](
        q, k, v, 0.5, M, out, *strides, Z, H, N_CTX=N, HEAD_DIM=D, BLOCK_M=64, BLOCK_N=32, STAGE=3 if causal else 1
    )
    Q, K, V = (t.astype(np.float64) for t in (q, k, v))
    s = np.einsum("zhmd,zhnd->zhmn", Q, K) * 0.5
    if causal:
        s = np.where(np.tril(np.ones((N, N), bool)), s, -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    tolerance = 1e-2 if dtype == np.float16 else 1e-5
    np.testing.assert_allclose(out, np.einsum("zhmn,zhnd->zhmd", p / total, V), atol=tolerance, rtol=tolerance)
    np.testing.assert_allclose(M, ((top + np.log(total))[..., 0]) * 1.44269504, atol=10 * tolerance)


@kiln.jit
def asin_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: kl.constexpr):
    pid = kl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + kl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = kl.load(x_ptr + offsets, mask=mask)
    x = libdevice.asin(x)
    kl.store(y_ptr + offsets, x, mask=mask)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_libdevice_asin(dtype):
    x = rng.random(98432).astype(dtype)
    y = np.zeros_like(x)
    asin_kernel[(kiln.cdiv(len(x), 1024),)](x, y, len(x), BLOCK_SIZE=1024)
    np.testing.assert_allclose(y, np.arcsin(x.astype(np.float64)), rtol=1e-6 if dtype == np.float32 else 1e-14)


@kiln.autotune(
    configs=[
        kiln.Config({"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 32, "NUM_SM": 4}),
        kiln.Config({"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 32, "NUM_SM": 2}),
    ],
    key=["group_size"],
    warmup=1,
    rep=2,
)
@kiln.jit
def grouped_matmul_kernel(
    group_a_ptrs, group_b_ptrs, group_c_ptrs, group_gemm_sizes, g_lds, group_size,
    NUM_SM: kl.constexpr, BLOCK_SIZE_M: kl.constexpr, BLOCK_SIZE_N: kl.constexpr, BLOCK_SIZE_K: kl.constexpr,
):  # fmt: skip
    tile_idx = kl.program_id(0)
    last_problem_end = 0
    for g in range(group_size):
        gm = kl.load(group_gemm_sizes + g * 3)
        gn = kl.load(group_gemm_sizes + g * 3 + 1)
        gk = kl.load(group_gemm_sizes + g * 3 + 2)
        num_m_tiles = kl.cdiv(gm, BLOCK_SIZE_M)
        num_n_tiles = kl.cdiv(gn, BLOCK_SIZE_N)
        num_tiles = num_m_tiles * num_n_tiles
        while tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
            k = gk
            lda = kl.load(g_lds + g * 3)
            ldb = kl.load(g_lds + g * 3 + 1)
            ldc = kl.load(g_lds + g * 3 + 2)
            a_ptr = kl.load(group_a_ptrs + g).to(kl.pointer_type(kl.float16))
            b_ptr = kl.load(group_b_ptrs + g).to(kl.pointer_type(kl.float16))
            c_ptr = kl.load(group_c_ptrs + g).to(kl.pointer_type(kl.float16))
            tile_idx_in_gemm = tile_idx - last_problem_end
            tile_m_idx = tile_idx_in_gemm // num_n_tiles
            tile_n_idx = tile_idx_in_gemm % num_n_tiles
            offs_am = tile_m_idx * BLOCK_SIZE_M + kl.arange(0, BLOCK_SIZE_M)
            offs_bn = tile_n_idx * BLOCK_SIZE_N + kl.arange(0, BLOCK_SIZE_N)
            offs_k = kl.arange(0, BLOCK_SIZE_K)
            a_ptrs = a_ptr + offs_am[:, None] * lda + offs_k[None, :]
            b_ptrs = b_ptr + offs_k[:, None] * ldb + offs_bn[None, :]
            accumulator = kl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=kl.float32)
            for _ in range(0, kl.cdiv(k, BLOCK_SIZE_K)):
                kl.multiple_of(a_ptrs, [16, 16])
                kl.multiple_of(b_ptrs, [16, 16])
                a = kl.load(a_ptrs)
                b = kl.load(b_ptrs)
                accumulator += kl.dot(a, b)
                a_ptrs += BLOCK_SIZE_K
                b_ptrs += BLOCK_SIZE_K * ldb
            c = accumulator.to(kl.float16)
            offs_cm = tile_m_idx * BLOCK_SIZE_M + kl.arange(0, BLOCK_SIZE_M)
            offs_cn = tile_n_idx * BLOCK_SIZE_N + kl.arange(0, BLOCK_SIZE_N)
            c_ptrs = c_ptr + ldc * offs_cm[:, None] + offs_cn[None, :]
            kl.store(c_ptrs, c)
            tile_idx += NUM_SM
        last_problem_end = last_problem_end + num_tiles


@pytest.mark.cpu  # addresses of the host, in memory
def test_grouped_gemm():
    sizes = [(128, 64, 64), (64, 128, 32), (192, 64, 96), (64, 64, 64)]
    A = [randn(m, k).astype(np.float16) for m, n, k in sizes]
    B = [randn(k, n).astype(np.float16) for m, n, k in sizes]
    C = [np.empty((m, n), np.float16) for m, n, k in sizes]

    def pointers(arrays):
        return np.array([a.ctypes.data for a in arrays], np.int64)

    dims = np.array(sizes, np.int32)
    lds = np.array([(k, n, n) for m, n, k in sizes], np.int32)
    grouped_matmul_kernel[lambda meta: (meta["NUM_SM"],)](
        pointers(A), pointers(B), pointers(C), dims.ravel(), lds.ravel(), len(sizes)
    )
    for a, b, c in zip(A, B, C, strict=True):
        want = a.astype(np.float32) @ b.astype(np.float32)
        np.testing.assert_allclose(c.astype(np.float32), want, atol=3e-2, rtol=1e-2)


@kiln.jit
def _compute_pid(tile_id, num_pid_in_group, num_pid_m, GROUP_SIZE_M, NUM_SMS):
    group_id = tile_id // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + (tile_id % group_size_m)
    pid_n = (tile_id % num_pid_in_group) // group_size_m
    return pid_m, pid_n


@kiln.jit
def matmul_kernel_persistent(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_SIZE_M: kl.constexpr, BLOCK_SIZE_N: kl.constexpr, BLOCK_SIZE_K: kl.constexpr,
    GROUP_SIZE_M: kl.constexpr, NUM_SMS: kl.constexpr,
):  # fmt: skip
    start_pid = kl.program_id(axis=0)
    num_pid_m = kl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = kl.cdiv(N, BLOCK_SIZE_N)
    k_tiles = kl.cdiv(K, BLOCK_SIZE_K)
    num_tiles = num_pid_m * num_pid_n
    tile_id_c = start_pid - NUM_SMS
    offs_k_for_mask = kl.arange(0, BLOCK_SIZE_K)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    for tile_id in kl.range(start_pid, num_tiles, NUM_SMS, flatten=True, warp_specialize=False):
        pid_m, pid_n = _compute_pid(tile_id, num_pid_in_group, num_pid_m, GROUP_SIZE_M, NUM_SMS)
        start_m = pid_m * BLOCK_SIZE_M
        start_n = pid_n * BLOCK_SIZE_N
        offs_am = start_m + kl.arange(0, BLOCK_SIZE_M)
        offs_bn = start_n + kl.arange(0, BLOCK_SIZE_N)
        offs_am = kl.where(offs_am < M, offs_am, 0)
        offs_bn = kl.where(offs_bn < N, offs_bn, 0)
        offs_am = kl.max_contiguous(kl.multiple_of(offs_am, BLOCK_SIZE_M), BLOCK_SIZE_M)
        offs_bn = kl.max_contiguous(kl.multiple_of(offs_bn, BLOCK_SIZE_N), BLOCK_SIZE_N)
        accumulator = kl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=kl.float32)
        for ki in range(k_tiles):
            offs_k = ki * BLOCK_SIZE_K + kl.arange(0, BLOCK_SIZE_K)
            a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
            b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
            a = kl.load(a_ptrs, mask=offs_k_for_mask[None, :] < K - ki * BLOCK_SIZE_K, other=0.0)
            b = kl.load(b_ptrs, mask=offs_k_for_mask[:, None] < K - ki * BLOCK_SIZE_K, other=0.0)
            accumulator = kl.dot(a, b, accumulator)
        tile_id_c += NUM_SMS
        pid_m, pid_n = _compute_pid(tile_id_c, num_pid_in_group, num_pid_m, GROUP_SIZE_M, NUM_SMS)
        offs_cm = pid_m * BLOCK_SIZE_M + kl.arange(0, BLOCK_SIZE_M)
        offs_cn = pid_n * BLOCK_SIZE_N + kl.arange(0, BLOCK_SIZE_N)
        c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
        c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
        kl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=c_mask)


@kiln.jit
def matmul_kernel_host_descriptors(
    a_desc, b_desc, c_desc, M, N, K, BLOCK_SIZE_M: kl.constexpr, BLOCK_SIZE_N: kl.constexpr,
    BLOCK_SIZE_K: kl.constexpr, GROUP_SIZE_M: kl.constexpr, EPILOGUE_SUBTILE: kl.constexpr, NUM_SMS: kl.constexpr,
):  # fmt: skip
    dtype = c_desc.dtype
    start_pid = kl.program_id(axis=0)
    num_pid_m = kl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = kl.cdiv(N, BLOCK_SIZE_N)
    k_tiles = kl.cdiv(K, BLOCK_SIZE_K)
    num_tiles = num_pid_m * num_pid_n
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    for tile_id in kl.range(start_pid, num_tiles, NUM_SMS, flatten=False, warp_specialize=True):
        pid_m, pid_n = _compute_pid(tile_id, num_pid_in_group, num_pid_m, GROUP_SIZE_M, NUM_SMS)
        offs_am = pid_m * BLOCK_SIZE_M
        offs_bn = pid_n * BLOCK_SIZE_N
        accumulator = kl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=kl.float32)
        for ki in range(k_tiles):
            offs_k = ki * BLOCK_SIZE_K
            a = a_desc.load([offs_am, offs_k])
            b = b_desc.load([offs_bn, offs_k])
            accumulator = kl.dot(a, b.T, accumulator)
        if EPILOGUE_SUBTILE:
            acc = kl.reshape(accumulator, (BLOCK_SIZE_M, 2, BLOCK_SIZE_N // 2))
            acc = kl.permute(acc, (0, 2, 1))
            acc0, acc1 = kl.split(acc)
            c_desc.store([offs_am, offs_bn], acc0.to(dtype))
            c_desc.store([offs_am, offs_bn + BLOCK_SIZE_N // 2], acc1.to(dtype))
        else:
            c_desc.store([offs_am, offs_bn], accumulator.to(dtype))


@kiln.jit
def matmul_kernel_descriptor_persistent(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_SIZE_M: kl.constexpr, BLOCK_SIZE_N: kl.constexpr,
    BLOCK_SIZE_K: kl.constexpr, NUM_SMS: kl.constexpr,
):  # fmt: skip
    dtype = c_ptr.dtype.element_ty
    start_pid = kl.program_id(axis=0)
    num_pid_n = kl.cdiv(N, BLOCK_SIZE_N)
    num_tiles = kl.cdiv(M, BLOCK_SIZE_M) * num_pid_n
    a_desc = kl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_SIZE_M, BLOCK_SIZE_K])
    b_desc = kl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BLOCK_SIZE_N, BLOCK_SIZE_K])
    c_desc = kl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_SIZE_M, BLOCK_SIZE_N])
    for tile_id in kl.range(start_pid, num_tiles, NUM_SMS, flatten=True, warp_specialize=False):
        pid_m, pid_n = tile_id // num_pid_n, tile_id % num_pid_n
        accumulator = kl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=kl.float32)
        for ki in range(kl.cdiv(K, BLOCK_SIZE_K)):
            a = a_desc.load([pid_m * BLOCK_SIZE_M, ki * BLOCK_SIZE_K])
            b = b_desc.load([pid_n * BLOCK_SIZE_N, ki * BLOCK_SIZE_K])
            accumulator = kl.dot(a, b.T, accumulator)
        c_desc.store([pid_m * BLOCK_SIZE_M, pid_n * BLOCK_SIZE_N], accumulator.to(dtype))


@pytest.mark.parametrize("how", ["persistent", "host", "host-subtile", "device"])
def test_persistent_matmul(how):
    M, N, K, sms = 200, 136, 104, 6
    a, bt = randn(M, K).astype(np.float16), randn(N, K).astype(np.float16)
    c = np.full((M, N), np.nan, np.float16)
    bm, bn, bk = 64, 32, 48
    if how == "persistent":
        b = np.ascontiguousarray(bt.T)
        matmul_kernel_persistent[(sms,)](a, b, c, M, N, K, K, 1, N, 1, N, 1, bm, bn, bk, 4, sms)
    elif how == "device":
        matmul_kernel_descriptor_persistent[(sms,)](a, bt, c, M, N, K, bm, bn, bk, sms)
    else:
        sub = how.endswith("subtile")
        matmul_kernel_host_descriptors[(sms,)](
            TensorDescriptor.from_tensor(a, [bm, bk]), TensorDescriptor.from_tensor(bt, [bn, bk]),
            TensorDescriptor.from_tensor(c, [bm, bn // 2 if sub else bn]), M, N, K, bm, bn, bk, 4, sub, sms,
        )  # fmt: skip
    want = a.astype(np.float32) @ bt.astype(np.float32).T
    np.testing.assert_allclose(c.astype(np.float32), want, atol=2e-2, rtol=1e-2)
