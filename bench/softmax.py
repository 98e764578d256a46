"""Softmax over rows in float16: `python bench/softmax.py`, or `kiln bench softmax`."""

from __future__ import annotations

import sys
from typing import Any

from cases import Arrays, Case, Peer, relative_to

NAME = "softmax"

# Best of torch, torch.compile and quack, TB/s, on another day.
_REPORTED = {(4096, 4096): 3.66, (8192, 32768): 4.14, (2048, 131072): 4.14}
_ASKED = {(4096, 4096): 3.8, (8192, 32768): 4.2, (2048, 131072): 4.2}


def cell(kernel: str, shape: tuple[int, int], dtype: str = "float16", **facts: Any) -> Case:
    """Softmax at any size, in a 16-bit type."""
    both = 2 * shape[0] * shape[1]
    return Case(NAME, kernel, shape, reads=both, writes=both, streams=(1, 1, both), dtype=dtype, **facts)


CASES = [cell("softmax", shape, reported=relative_to(_REPORTED, shape), least_tbs=_ASKED[shape]) for shape in _REPORTED]


def inputs(case: Case, make: Any) -> Arrays:
    return {"x": make.normal(*case.shape)}


def outputs(case: Case) -> list[tuple[tuple[int, ...], str]]:
    return [(case.shape, case.dtype)]


def reference(case: Case, arrays: Arrays) -> tuple[Any, ...]:
    return (arrays["x"].double().softmax(-1),)


def _kiln(tools: Any, **options: Any) -> Peer:
    from kiln.kernels.softmax import softmax

    run = tools.kiln(softmax, options)
    return Peer(lambda a, outs: (run(a["x"], out=outs[0]),))


def _quack(tools: Any) -> Peer:
    softmax = tools.module("quack.softmax").softmax_fwd
    return Peer(lambda a, _: (softmax(a["x"]),), takes_outputs=False)


def _triton(tools: Any) -> Peer:
    kernels = tools.module("baselines.triton_kernels")
    return Peer(lambda a, outs: kernels.softmax(a["x"], outs))


def peers(case: Case, tools: Any) -> dict[str, Any]:
    def softmax(x: Any) -> tuple[Any]:
        return (tools.torch.softmax(x, -1),)

    return {
        "kiln": lambda: _kiln(tools),
        "kiln+pdl": lambda: _kiln(tools, pdl=True),
        "torch": lambda: tools.eager(softmax),
        "inductor": lambda: tools.inductor(softmax),
        "quack": lambda: _quack(tools),
        "triton": lambda: _triton(tools),
    }


if __name__ == "__main__":
    import suite

    sys.exit(suite.main([NAME, *sys.argv[1:]]))
