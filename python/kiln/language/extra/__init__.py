"""Names of device libraries: `kl.extra.libdevice` everywhere, `kl.extra.cuda` for what only NVIDIA targets have."""

from . import cuda, libdevice

__all__ = ["cuda", "libdevice"]
