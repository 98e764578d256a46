"""A tuned matrix product: configurations with options of other machines, heuristics, keys, a helper function."""

import numpy as np
import triton
import triton.language as tl


def get_autotune_config():
    return [
        triton.Config({"M_": 32, "N_": 64, "K_": 32, "GROUP": 8, "waves_per_eu": 2}, num_stages=3, num_warps=8),
        triton.Config({"M_": 16, "N_": 16, "K_": 16, "GROUP": 4, "matrix_instr_nonkdim": 16}, num_warps=2),
    ]


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.autotune(configs=get_autotune_config(), key=["M", "N", "K", "no_such_parameter"])
@triton.heuristics({"EVEN_K": lambda args: args["K"] % args["K_"] == 0, "num_warps": lambda args: 4})
@triton.jit
def matmul(
    a,
    b,
    c,
    M,
    N,
    K,
    am,
    ak,
    bk,
    bn,
    cm,
    cn,
    M_: tl.constexpr,
    N_: tl.constexpr,
    K_: tl.constexpr,
    GROUP: tl.constexpr,
    EVEN_K: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    pid = tl.program_id(0)
    rows, cols = tl.cdiv(M, M_), tl.cdiv(N, N_)
    first = pid // (GROUP * cols) * GROUP
    size = min(rows - first, GROUP)
    m, n = first + (pid % (GROUP * cols)) % size, (pid % (GROUP * cols)) // size
    om = (m * M_ + tl.arange(0, M_)) % M
    on = (n * N_ + tl.arange(0, N_)) % N
    ok = tl.arange(0, K_)
    ap = a + om[:, None] * am + ok[None, :] * ak
    bp = b + ok[:, None] * bk + on[None, :] * bn
    acc = tl.zeros((M_, N_), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, K_)):
        if EVEN_K:
            x, y = tl.load(ap), tl.load(bp)
        else:
            x = tl.load(ap, mask=ok[None, :] < K - k * K_, other=0.0)
            y = tl.load(bp, mask=ok[:, None] < K - k * K_, other=0.0)
        acc = tl.dot(x, y, acc)
        ap += K_ * ak
        bp += K_ * bk
    if ACTIVATION == "leaky_relu":
        acc = leaky_relu(acc)
    om, on = m * M_ + tl.arange(0, M_), n * N_ + tl.arange(0, N_)
    tl.store(c + cm * om[:, None] + cn * on[None, :], acc.to(tl.float16), mask=(om[:, None] < M) & (on[None, :] < N))


a, b = (np.random.rand(*s).astype(np.float16) - np.float16(0.5) for s in ((70, 100), (100, 90)))
c = np.empty((70, 90), np.float16)
grid = lambda META: (triton.cdiv(70, META["M_"]) * triton.cdiv(90, META["N_"]),)
matmul[grid](a, b, c, 70, 90, 100, 100, 1, 90, 1, 90, 1, ACTIVATION="leaky_relu")
exact = a.astype(np.float64) @ b.astype(np.float64)
exact = np.where(exact >= 0, exact, 0.01 * exact)
assert np.allclose(c, exact, atol=5e-3, rtol=2e-3), abs(c - exact).max()
assert matmul.best_config in matmul.configs and len(matmul.configs_timings) == 2
assert list(matmul.cache) == [(70, 90, 100, "float16", "float16", "float16")]
