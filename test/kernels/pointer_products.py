"""Products of kernels that are written with pointers and masks."""

import kiln
import kiln.language as kl


@kiln.jit
def tutorial(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
              BM: kl.constexpr, BN: kl.constexpr, BK: kl.constexpr, GROUP: kl.constexpr):  # fmt: skip
    """As Triton's tutorial of matrix products has it: rows and columns wrap around, and are masked off at the end."""
    pid = kl.program_id(axis=0)
    num_pid_m = kl.cdiv(M, BM)
    num_pid_n = kl.cdiv(N, BN)
    num_pid_in_group = GROUP * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP
    group_size_m = min(num_pid_m - first_pid_m, GROUP)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    kl.assume(pid_m >= 0)
    kl.assume(pid_n >= 0)
    kl.assume(stride_am > 0)
    kl.assume(stride_ak > 0)
    kl.assume(stride_bn > 0)
    kl.assume(stride_bk > 0)
    kl.assume(stride_cm > 0)
    kl.assume(stride_cn > 0)
    offs_am = (pid_m * BM + kl.arange(0, BM)) % M
    offs_bn = (pid_n * BN + kl.arange(0, BN)) % N
    offs_k = kl.arange(0, BK)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = kl.zeros((BM, BN), dtype=kl.float32)
    for k in range(0, kl.cdiv(K, BK)):
        a = kl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        b = kl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        accumulator = kl.dot(a, b, accumulator)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    c = accumulator.to(c_ptr.dtype.element_ty)
    offs_cm = pid_m * BM + kl.arange(0, BM)
    offs_cn = pid_n * BN + kl.arange(0, BN)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    kl.store(c_ptrs, c, mask=c_mask)


@kiln.jit
def masked(a, b, c, m, n, k, sa, sb, sc, of_a, of_b, of_c, M: kl.constexpr, N: kl.constexpr, K: kl.constexpr,
            TURNED: kl.constexpr):  # fmt: skip
    """One product of a batch, every load and store masked; b as it is, or columns first."""
    batch = kl.program_id(2)
    rows, columns = kl.program_id(0) * M + kl.arange(0, M), kl.program_id(1) * N + kl.arange(0, N)
    total = kl.zeros((M, N), kl.float32)
    for i in range(0, k, K):
        depth = i + kl.arange(0, K)
        left = kl.load(a + batch * of_a + rows[:, None] * sa + depth[None, :],
                       mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)  # fmt: skip
        if TURNED:
            at = b + batch * of_b + columns[None, :] * sb + depth[:, None]
        else:
            at = b + batch * of_b + depth[:, None] * sb + columns[None, :]
        right = kl.load(at, mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0)
        total = kl.dot(left, right, total)
    kl.store(c + batch * of_c + rows[:, None] * sc + columns[None, :], total.to(c.dtype.element_ty),
             mask=(rows[:, None] < m) & (columns[None, :] < n))  # fmt: skip
