"""Softmax over rows."""

from kiln.kernels.softmax.kernel import softmax, softmax_kernel

__all__ = ["softmax", "softmax_kernel"]
