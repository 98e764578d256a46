"""A warm-up with a string as argument."""

import kiln
import kiln.language as kl


@kiln.jit
def kernel(x, n):
    kl.store(x, n)


kernel.warmup(kl.float32, "7", grid=(1,))
