"""Arrays of attention as its kernel takes them: of any strides, with what their strides allow said in the type."""

from __future__ import annotations

from typing import Any, NamedTuple

from kiln.kernels.operator import address, strides

# The copy engine steps by multiples of so many bytes; launches tell compiled code of multiples of so many elements.
PITCH = 16


class Heads(NamedTuple):
    """(batches, tokens, heads, size). A step that is None is 1: along it lie rows that come in blocks; with another,
    elements are addressed one by one."""

    data: Any
    batches: Any
    heads: Any
    tokens: Any
    size: Any
    batch_stride: Any
    head_stride: Any
    token_stride: Any
    step: Any


def heads_of(array: Any, described: bool = True) -> Heads:
    """``described``: in blocks, where its strides allow that."""
    batches, tokens, heads, size = array.shape
    batch, token, head, step = strides(array)
    if described and (step == 1 or size == 1):
        # Of one batch, head or token the stride is free: one that the copy engine can step by.
        free = -(-size // PITCH) * PITCH
        batch, token, head = (
            free if count == 1 else stride for count, stride in ((batches, batch), (tokens, token), (heads, head))
        )
        if min(batch, token, head) > 0:
            return Heads(array, batches, heads, tokens, size, batch, head, token, None)
        batch, token, head, step = strides(array)
    return Heads(array, batches, heads, tokens, size, batch, head, token, step)


def is_fetched(x: Heads) -> bool:
    """Whether the copy engine can step through the array, and the compiler sees it: 16 elements divide all steps."""
    return x.step is None and not (
        address(x.data) % PITCH or x.batch_stride % PITCH or x.head_stride % PITCH or x.token_stride % PITCH
    )
