"""Attention: flash forward, and decoding over a KV cache."""

from kiln.kernels import call_family
from kiln.kernels.attention.decode import decode_attention
from kiln.kernels.attention.kernel import attention

__all__ = ["attention", "decode_attention"]

call_family(__name__)
