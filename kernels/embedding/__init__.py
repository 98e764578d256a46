"""Rows of a table by index."""

from kiln.kernels import call_family
from kiln.kernels.embedding.kernel import embedding

__all__ = ["embedding"]

call_family(__name__)
