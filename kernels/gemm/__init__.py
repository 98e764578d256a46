"""Matrix products."""

import warnings

from kiln.kernels.gemm.kernel import linear, matmul

__all__ = ["linear", "matmul"]


def matmul_split_k(a, b, splits=None, *, out=None):
    """The older name of ``matmul`` with ``splits``."""
    warnings.warn("matmul_split_k: use matmul(a, b, splits=…)", DeprecationWarning, stacklevel=2)
    return matmul(a, b, splits=splits, out=out)
