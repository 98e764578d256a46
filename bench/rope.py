"""Rotary embedding of one tensor of 32 heads × 128 in float16, tables in float32: `python bench/rope.py`."""

from __future__ import annotations

import sys
from typing import Any

from cases import Arrays, Case, Peer, relative_to

NAME = "rope"
HEADS, SIZE = 32, 128

# Best of torch and torch.compile, TB/s, on another day.
_REPORTED = {(512,): 2.16, (1024,): 2.87, (2048,): 3.37, (4096,): 3.73, (8192,): 3.89}


def _case(shape: tuple[int]) -> Case:
    both = 2 * shape[0] * HEADS * SIZE
    tables = 2 * 4 * shape[0] * SIZE // 2
    return Case(NAME, "rope", shape, reads=both + tables, writes=both, streams=(1, 1, both),
                size=f"{shape[0]}×{HEADS}×{SIZE}", reported=relative_to(_REPORTED, shape))  # fmt: skip


CASES = [_case(shape) for shape in _REPORTED]


def inputs(case: Case, make: Any) -> Arrays:
    from kiln.kernels.rope import rope_tables

    cos, sin = rope_tables(case.shape[0], SIZE)
    return {"q": make.normal(1, case.shape[0], HEADS, SIZE), "cos": make.copies(cos), "sin": make.copies(sin)}


def outputs(case: Case) -> list[tuple[tuple[int, ...], str]]:
    return [((1, case.shape[0], HEADS, SIZE), case.dtype)]


def _rotate(torch: Any, q: Any, cos: Any, sin: Any) -> Any:
    """Computed in the type of the tables: `cos` and `sin` are (tokens, SIZE / 2)."""
    first, second = q.chunk(2, -1)
    cos, sin = cos[None, :, None, :], sin[None, :, None, :]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def reference(case: Case, arrays: Arrays) -> tuple[Any, ...]:
    import torch

    return (_rotate(torch, arrays["q"].double(), arrays["cos"].double(), arrays["sin"].double()),)


def _torch(tools: Any) -> Any:
    return lambda q, cos, sin: (_rotate(tools.torch, q, cos, sin).to(q.dtype),)


def _kiln(tools: Any, **options: Any) -> Peer:
    from kiln.kernels.rope import rope

    run = tools.kiln(rope, options)
    return Peer(lambda a, outs: (run(a["q"], None, a["cos"], a["sin"], out=(outs[0], None))[0],))


def _triton(tools: Any) -> Peer:
    kernels = tools.module("baselines.triton_kernels")
    return Peer(lambda a, outs: kernels.rope(a["q"], a["cos"], a["sin"], outs))


def _cuda(case: Case, tools: Any, variant: str) -> Peer:
    run = tools.module("baselines.cuda_kernels").rope(case.shape[0], HEADS, SIZE, variant)
    return Peer(lambda a, outs: run(a["q"], a["cos"], a["sin"], outs[0]))


def peers(case: Case, tools: Any) -> dict[str, Any]:
    return {
        "kiln": lambda: _kiln(tools),
        "kiln+pdl": lambda: _kiln(tools, pdl=True),
        "torch": lambda: tools.eager(_torch(tools)),
        "inductor": lambda: tools.inductor(_torch(tools)),
        "triton": lambda: _triton(tools),
        "cuda-naive": lambda: _cuda(case, tools, "naive"),
        "cuda": lambda: _cuda(case, tools, "vector"),
    }


if __name__ == "__main__":
    import suite

    sys.exit(suite.main([NAME, *sys.argv[1:]]))
