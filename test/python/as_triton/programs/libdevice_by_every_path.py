"""Math of the device library, by each path that programs import it from."""

from math import erf

import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.language.extra.libdevice import rsqrt
from triton.language.math import exp


@triton.jit
def kernel(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    v = tl.load(x + i)
    v = libdevice.asin(v) + cuda_libdevice.tanh(v) + tl.extra.libdevice.cosh(v) + tl.extra.cuda.libdevice.erf(v)
    tl.store(y + i, v + rsqrt(tl.load(x + i) + 1) + exp(tl.load(x + i)) + tl.math.log2(tl.load(x + i) + 1))


x = np.linspace(0, 0.9, 64, dtype=np.float32)
y = np.empty_like(x)
kernel[(1,)](x, y, 64)
d = x.astype(np.float64)
exact = np.arcsin(d) + np.tanh(d) + np.cosh(d) + np.vectorize(erf)(d)
exact += 1 / np.sqrt(d + 1) + np.exp(d) + np.log2(d + 1)
assert np.allclose(y, exact, rtol=1e-6)
