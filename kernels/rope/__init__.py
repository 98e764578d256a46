"""Rotary position embedding."""

from kiln.kernels import call_family
from kiln.kernels.rope.kernel import rope, rope_tables

__all__ = ["rope", "rope_tables"]

call_family(__name__)
