"""A heuristic for a parameter the kernel does not have."""

import kiln
import kiln.language as kl


@kiln.heuristics({"EVEM": lambda args: args["n"] % 16 == 0})
@kiln.jit
def kernel(x, n, EVEN: kl.constexpr):
    kl.store(x, n)
