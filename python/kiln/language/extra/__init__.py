"""Names of device libraries: `kl.extra.libdevice` everywhere, `kl.extra.cuda` for what only NVIDIA targets have.

Loaded when they are first named: few kernels do.
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
