"""If a process changes the assembler, kernels are compiled again."""

import kiln
import kiln.language as kl
from kiln import knobs


@kiln.jit
def double(x, out, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(out + i, 2 * kl.load(x + i))


def compiled():
    return double.warmup(kl.float32, kl.float32, BLOCK=256, grid=(1,))


def test_changing_the_assembler_recompiles():
    with knobs.scope(target="sm_90a", stage_arrays=True):
        assembled = compiled()
        with knobs.scope(ptxas="none"):
            text = compiled()
        assert compiled() is assembled and text is not assembled
    assert [kernel.metadata["cuda"]["form"] for kernel in (assembled, text)] == ["cubin", "ptx"]
