"""Functions only NVIDIA targets have: `kl.extra.cuda.globaltimer`, `smid`, `gdc_wait`; libdevice under its old path."""

from __future__ import annotations

from ...builtin import builtin
from ...semantic import elementwise
from ...semantic.build import emit_many
from ...types import int32, int64
from ...values import tensor
from .. import libdevice


@builtin
def globaltimer() -> tensor:
    """The GPU's global timer, in nanoseconds: an int64 scalar. On targets other than NVIDIA GPUs it is an error.

    >>> start = kl.extra.cuda.globaltimer()
    """
    return elementwise.inline_asm("mov.u64 $0, %globaltimer;", "=l", [], int64, False, 1)


@builtin
def smid() -> tensor:
    """The number of the multiprocessor that this program instance runs on: an int32 scalar.

    >>> sm = kl.extra.cuda.smid()
    """
    return elementwise.inline_asm("mov.u32 $0, %smid;", "=r", [], int32, True, 1)


@builtin
def gdc_launch_dependents() -> None:
    """With the launch option `pdl`: once every program instance has reached this call or ended, the next launch may
    begin. It does not order memory: what this launch writes is visible to the next one only after that one's wait.

    A kernel with any such call controls the placement itself; in other kernels the compiler inserts one after the first
    reads of tiles. Without `pdl`, and on targets that cannot overlap launches, it does nothing.

    >>> kl.extra.cuda.gdc_launch_dependents()
    """
    emit_many("tile.launch_dependents", [], [])


@builtin
def gdc_wait() -> None:
    """With the launch option `pdl`: waits until the previous launch has ended and its writes are visible.

    A kernel with any such call controls the placement itself; in other kernels the compiler inserts one before the
    first access to memory. An author who places it vouches for every access before it (it must read nothing that the
    previous launch writes, unless by a volatile load whose result changes nothing but what is prefetched, and write
    nothing that the previous launch uses) and for every path that bypasses it: there, the next launch may even begin
    before the previous one has ended. Without `pdl`, and on targets that cannot overlap launches, it does nothing.

    >>> kl.extra.cuda.gdc_wait()
    """
    emit_many("tile.wait_for_grid", [], [])


__all__ = ["gdc_launch_dependents", "gdc_wait", "globaltimer", "libdevice", "smid"]
