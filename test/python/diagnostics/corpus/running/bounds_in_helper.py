"""KILN_CHECK=bounds: the chain of calls to a two-dimensional access."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)
Y = np.zeros(64, np.float32)


@kiln.jit
def read(x, rows, columns, stride):
    return kl.load(x + rows[:, None] * stride + columns[None, :])


@kiln.jit
def kernel(x, y, stride):
    tile = read(x, kl.arange(0, 8), kl.arange(0, 8), stride)
    kl.store(y + kl.arange(0, 8), kl.sum(tile, 1))


with kiln.knobs.scope(check="bounds"):
    kernel[(1,)](X, Y, 9)
