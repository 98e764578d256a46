"""Tensor descriptors made on the host and in the kernel, and an allocator."""

import numpy as np
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

triton.set_allocator(lambda size, alignment, stream: None)


@triton.jit
def host(a, b, M_: tl.constexpr, N_: tl.constexpr):
    m, n = tl.program_id(0) * M_, tl.program_id(1) * N_
    b.store([n, m], a.load([m, n]).T)


@triton.jit
def device(a, b, M, N, M_: tl.constexpr, N_: tl.constexpr):
    x = tl.make_tensor_descriptor(a, shape=[M, N], strides=[N, 1], block_shape=[M_, N_])
    y = tl.make_tensor_descriptor(b, shape=[N, M], strides=[M, 1], block_shape=[N_, M_])
    m, n = tl.program_id(0) * M_, tl.program_id(1) * N_
    y.store([n, m], tl.trans(x.load([m, n])))


a = np.arange(40 * 24, dtype=np.float32).reshape(40, 24)
b, c = np.zeros((24, 40), np.float32), np.zeros((24, 40), np.float32)
host[(3, 2)](
    TensorDescriptor.from_tensor(a, [16, 16]), TensorDescriptor(b, list(b.shape), [40, 1], [16, 16]), M_=16, N_=16
)
device[(3, 2)](a, c, 40, 24, M_=16, N_=16)
assert (b == a.T).all() and (c == a.T).all()
