"""Rotary position embedding."""

from kiln.kernels.rope.kernel import rope, rope_tables

__all__ = ["rope", "rope_tables"]
