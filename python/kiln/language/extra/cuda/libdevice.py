"""`kl.extra.libdevice` by its older path: programs import names from here."""

from ..libdevice import *  # noqa: F403
from ..libdevice import __all__ as __all__
