"""A list instead of an array."""

import kiln
import kiln.language as kl


@kiln.jit
def kernel(x):
    kl.store(x, 1.0)


kernel[(1,)]([1.0, 2.0])
