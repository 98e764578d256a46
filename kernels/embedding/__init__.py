"""Rows of a table by index."""

from kiln.kernels.embedding.kernel import embedding

__all__ = ["embedding"]
