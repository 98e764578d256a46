# A kernel that calls CUDA's device library by name.
import kiln
import kiln.language as kl
from kiln.language.extra import libdevice


@kiln.jit
def special(x, out, BLOCK: kl.constexpr):
    offsets = kl.arange(0, BLOCK)
    kl.store(out + offsets, libdevice.lgamma(kl.load(x + offsets)))
