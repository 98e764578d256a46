"""Elementwise operations: vector add."""

from kiln.kernels.elementwise.kernel import add, add_kernel

__all__ = ["add", "add_kernel"]
