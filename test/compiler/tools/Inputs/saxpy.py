# A kernel that calls another function, for the tests of `kiln compile`.
import kiln
import kiln.language as kl


@kiln.jit
def combine(a, b, scale):
    return a * scale + b


@kiln.jit
def saxpy(x, y, n, scale, BLOCK: kl.constexpr = 256):
    offsets = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    mask = offsets < n
    a = kl.load(x + offsets, mask=mask)
    b = kl.load(y + offsets, mask=mask)
    kl.store(y + offsets, combine(a, b, scale), mask=mask)
