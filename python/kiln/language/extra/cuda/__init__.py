"""What only NVIDIA targets have: `kl.extra.cuda.globaltimer`, `smid`, `gdc_wait`, and libdevice by its older path."""

from __future__ import annotations

from ...builtin import builtin
from ...semantic import elementwise
from ...semantic.build import emit_many
from ...types import int32, int64
from ...values import tensor
from .. import libdevice


@builtin
def globaltimer() -> tensor:
    """Nanoseconds of the GPU's clock: an int64 scalar. Targets that are no NVIDIA GPU refuse it by name.

    >>> start = kl.extra.cuda.globaltimer()
    """
    return elementwise.inline_asm("mov.u64 $0, %globaltimer;", "=l", [], int64, False, 1)


@builtin
def smid() -> tensor:
    """Number of the multiprocessor this program instance runs on: an int32 scalar.

    >>> sm = kl.extra.cuda.smid()
    """
    return elementwise.inline_asm("mov.u32 $0, %smid;", "=r", [], int32, True, 1)


@builtin
def gdc_launch_dependents() -> None:
    """With the launch option `pdl`: once every program instance has come here or ended, the next launch may begin. It
    says nothing about memory: what this launch writes is there for the next one behind the wait of that one.

    A kernel that calls it anywhere says where; in others it stands behind the first reads of tiles. Without `pdl`, and
    on targets that cannot overlap launches, it does nothing.

    >>> kl.extra.cuda.gdc_launch_dependents()
    """
    emit_many("tile.launch_dependents", [], [])


@builtin
def gdc_wait() -> None:
    """With the launch option `pdl`: waits until the launch before this one is over and what it wrote is visible.

    A kernel that calls it anywhere says where; in others it stands before the first access to memory. The author then
    vouches for every access before it (nothing is read that the launch before writes, nothing written that it uses) and
    for every path around it, where also the launch behind may begin before the one ahead has ended. Without `pdl`, and
    on targets that cannot overlap launches, it does nothing.

    >>> kl.extra.cuda.gdc_wait()
    """
    emit_many("tile.wait_for_grid", [], [])


__all__ = ["gdc_launch_dependents", "gdc_wait", "globaltimer", "libdevice", "smid"]
