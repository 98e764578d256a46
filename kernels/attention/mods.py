"""Functions of scores and masks that many models share, for flex_attention and create_block_mask.

What is not an index is an argument: ``create_block_mask(window, …, args=(1024, 0))``.
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
    """The keys from ``left`` before the query's own to ``right`` behind it."""
    return (q - kv <= left) & (kv - q <= right)


@kiln.jit
def prefix(batch, head, q, kv, lengths):
    """Causal, but for the first ``lengths[batch]`` tokens, which everybody sees."""
    return (kv <= q) | (kv < kl.load(lengths + batch))


@kiln.jit
def documents(batch, head, q, kv, document):
    """Causal within a document; ``document`` numbers each token's."""
    return (kl.load(document + q) == kl.load(document + kv)) & (kv <= q)


@kiln.jit
def softcap(score, batch, head, q, kv, cap):
    """cap · tanh(score / cap)"""
    return cap * scores.tanh(score * (1.0 / cap))


@kiln.jit
def alibi(score, batch, head, q, kv, slopes):
    """score - slopes[head] · |q - kv|"""
    # A column and a row are converted, no tile: that takes as long as exponentials.
    return score - kl.load(slopes + head) * kl.abs(q.to(kl.float32) - kv.to(kl.float32))
