"""Device libraries: `kl.extra.libdevice` for all targets, `kl.extra.cuda` for what only NVIDIA targets have.

They are loaded on first use, as few kernels need them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import cuda, libdevice

__all__ = ["cuda", "libdevice"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
