"""A softmax with as many programs as are resident: warmup, properties of kernel and machine, a compiled kernel."""

import numpy as np
import triton
import triton.language as tl
from triton.runtime import driver


@triton.jit
def softmax_kernel(out, inp, stride_in, stride_out, n_rows, n_cols, BLOCK: tl.constexpr, stages: tl.constexpr):
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=stages):
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        v = tl.load(inp + row * stride_in + cols, mask=mask, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(out + row * stride_out + cols, e / tl.sum(e, axis=0), mask=mask)


facts = driver.active.utils.get_device_properties(driver.active.get_current_device())
target = triton.runtime.driver.active.get_current_target()
x = np.random.randn(183, 781).astype(np.float32)
y = np.empty_like(x)
BLOCK = triton.next_power_of_2(x.shape[1])
args = (y, x, x.shape[1], x.shape[1], *x.shape)
kernel = softmax_kernel.warmup(*args, BLOCK=BLOCK, stages=2, num_warps=8, grid=(1,))
kernel._init_handles()
occupancy = facts["max_num_regs"] // (kernel.n_regs * facts["warpSize"] * 8)
occupancy = min(occupancy, facts["max_shared_mem"] // kernel.metadata.shared)
programs = min(facts["multiprocessor_count"] * occupancy, x.shape[0])
assert programs > 0 and target.backend == "cpu"
kernel[(programs, 1, 1)](*args, BLOCK, 2)
e = np.exp(x - x.max(1, keepdims=True))
assert np.allclose(y, e / e.sum(1, keepdims=True), atol=1e-6)
y[:] = 0
kernel[(programs, 1, 1)](*args)  # constexprs may be left out
assert np.allclose(y, e / e.sum(1, keepdims=True), atol=1e-6)
