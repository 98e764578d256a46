"""A torch-like tensor on a device of another maker."""

import kiln
import kiln.language as kl


class Tensor:
    """What a tensor on such a device answers."""

    def __dlpack_device__(self):
        return (10, 0)

    def __dlpack__(self, **kwargs):
        raise RuntimeError


@kiln.jit
def kernel(x):
    kl.store(x, 1.0)


kernel[(1,)](Tensor())
