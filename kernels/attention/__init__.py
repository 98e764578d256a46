"""Attention: flash forward and backward, and decoding over a KV cache."""

from kiln.kernels import call_family
from kiln.kernels.attention.backward import attention_backward
from kiln.kernels.attention.decode import decode_attention
from kiln.kernels.attention.kernel import attention, attention_varlen

__all__ = ["attention", "attention_backward", "attention_varlen", "decode_attention"]

call_family(__name__)
