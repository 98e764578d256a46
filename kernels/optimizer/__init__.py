"""Optimizer steps: AdamW."""

from kiln.kernels.optimizer.kernel import adamw

__all__ = ["adamw"]
