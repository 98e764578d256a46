"""What only NVIDIA targets have: `kl.extra.cuda.globaltimer`, `smid`, and libdevice by its older path."""

from __future__ import annotations

from ...builtin import builtin
from ...semantic import elementwise
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


__all__ = ["globaltimer", "libdevice", "smid"]
