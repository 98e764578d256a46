"""What host programs use beside kernels."""
