"""Gated and biased activations: SwiGLU, bias + GELU."""

from kiln.kernels.activation.kernel import bias_gelu, swiglu

__all__ = ["bias_gelu", "swiglu"]
