"""Reductions: the sum of everything, the k largest of a row."""

from kiln.kernels.reduce.kernel import sum_all, topk

__all__ = ["sum_all", "topk"]
