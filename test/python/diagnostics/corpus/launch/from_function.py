"""The caller's line is named, wherever it is."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, n):
    kl.store(x, n)


def launch(x, n):
    grid = (1,)
    kernel[grid](
        x,
        [n],
    )


launch(X, 7)
