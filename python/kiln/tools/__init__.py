"""Host-side helpers of programs that launch kernels."""
