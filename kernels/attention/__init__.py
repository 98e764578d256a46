"""Attention: flash forward and backward, optionally with functions for scores and masks, and decoding over a KV
cache."""

from kiln.kernels.attention.append import append, append_quantized
from kiln.kernels.attention.backward import attention_backward, attention_varlen_backward
from kiln.kernels.attention.decode import decode_attention
from kiln.kernels.attention.flex import BlockMask, create_block_mask, flex_attention, flex_attention_backward
from kiln.kernels.attention.kernel import attention, attention_varlen
from kiln.kernels.attention.quantized import QuantizedCache, decode_quantized, quantized_cache

__all__ = [
    "BlockMask",
    "QuantizedCache",
    "append",
    "append_quantized",
    "attention",
    "attention_backward",
    "attention_varlen",
    "attention_varlen_backward",
    "create_block_mask",
    "decode_attention",
    "decode_quantized",
    "flex_attention",
    "flex_attention_backward",
    "quantized_cache",
]
