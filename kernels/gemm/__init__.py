"""Matrix products."""

from kiln.kernels.gemm.kernel import matmul, matmul_split_k

__all__ = ["matmul", "matmul_split_k"]
