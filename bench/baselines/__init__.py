"""What Kiln is compared with besides libraries: Triton kernels, CUDA C, and a kernel that only moves bytes."""
