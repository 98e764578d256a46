"""What Kiln is measured against besides libraries: Triton kernels, CUDA C, and a kernel that only moves bytes."""
