"""A negative number of imprecise accumulations."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x):
    a = kl.zeros((16, 16), kl.float32)
    kl.store(x, kl.sum(kl.dot(a, a, max_num_imprecise_acc=-1)))


kernel[(1,)](X)
