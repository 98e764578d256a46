"""Score and mask functions that many models use, for flex_attention and create_block_mask.

Other parameters are passed as arguments: ``create_block_mask(window, …, args=(1024, 0))``.
"""

from __future__ import annotations

import kiln
import kiln.language as kl
from kiln.kernels.attention import scores


@kiln.jit
def causal(batch, head, q, kv):
    """A query sees its own token and those before."""
    return kv <= q


@kiln.jit
def window(batch, head, q, kv, left, right):
    """A query sees the keys from ``left`` before its own to ``right`` after it."""
    return (q - kv <= left) & (kv - q <= right)


@kiln.jit
def prefix(batch, head, q, kv, lengths):
    """Causal, except that all queries see the first ``lengths[batch]`` tokens."""
    return (kv <= q) | (kv < kl.load(lengths + batch))


@kiln.jit
def documents(batch, head, q, kv, document):
    """Causal within a document; ``document`` gives each token's document number."""
    return (kl.load(document + q) == kl.load(document + kv)) & (kv <= q)


@kiln.jit
def softcap(score, batch, head, q, kv, cap):
    """cap · tanh(score / cap)"""
    return cap * scores.tanh(score * (1.0 / cap))


@kiln.jit
def alibi(score, batch, head, q, kv, slopes):
    """score - slopes[head] · |q - kv|"""
    return score - kl.load(slopes + head) * kl.abs((q - kv).to(kl.float32))
