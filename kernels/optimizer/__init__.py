"""Optimizer steps: AdamW for arrays and for lists of them."""

from kiln.kernels.optimizer.kernel import adamw, adamw_lists
from kiln.kernels.optimizer.lists import TensorLists

__all__ = ["TensorLists", "adamw", "adamw_lists"]
