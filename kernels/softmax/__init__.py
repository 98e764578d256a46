"""Softmax over rows."""

from kiln.kernels import call_family
from kiln.kernels.softmax.kernel import softmax, softmax_kernel

__all__ = ["softmax", "softmax_kernel"]

call_family(__name__)
