"""SwiGLU and bias + GELU (exact) in float16: `python bench/activation.py`, or `kiln bench activation`."""

from __future__ import annotations

import sys
from typing import Any

from cases import Arrays, Case, Peer, relative_to

NAME = "activation"

# Best of torch and torch.compile, TB/s, measured on another day.
_SWIGLU = {(2048, 4096): 3.64, (2048, 8192): 3.95, (2048, 11008): 4.02, (2048, 14336): 4.12, (2048, 18944): 4.19,
           (16384, 4096): 4.28, (16384, 14336): 4.36, (16384, 18944): 4.37}  # fmt: skip
_GELU = {(512, 4096): 1.75, (1024, 4096): 2.09, (2048, 4096): 2.40, (2048, 16384): 2.78}


def cell(kernel: str, shape: tuple[int, int], dtype: str = "float16", **facts: Any) -> Case:
    """A row of these kernels at any size, in a 16-bit type."""
    both = 2 * shape[0] * shape[1]
    reads, arrays = (2 * both, 2) if kernel == "swiglu" else (both + 2 * shape[1], 1)
    return Case(NAME, kernel, shape, reads=reads, writes=both, streams=(arrays, 1, both), dtype=dtype, **facts)


def _gelu(shape: tuple[int, int]) -> Case:
    least = 4.0 if shape == (2048, 16384) else None
    return cell("bias_gelu", shape, reported=relative_to(_GELU, shape), least_tbs=least)


CASES = [
    *(cell("swiglu", shape, reported=relative_to(_SWIGLU, shape)) for shape in _SWIGLU),
    *map(_gelu, _GELU),
]


def inputs(case: Case, make: Any) -> Arrays:
    if case.kernel == "swiglu":
        return {"gate": make.normal(*case.shape), "up": make.normal(*case.shape)}
    return {"x": make.normal(*case.shape), "bias": make.normal(case.shape[1])}


def outputs(case: Case) -> list[tuple[tuple[int, ...], str]]:
    return [(case.shape, case.dtype)]


def reference(case: Case, arrays: Arrays) -> tuple[Any, ...]:
    if case.kernel == "swiglu":
        gate = arrays["gate"].double()
        return (gate * gate.sigmoid() * arrays["up"].double(),)
    x = arrays["x"].double() + arrays["bias"].double()
    return (0.5 * x * (1 + (x * 0.5**0.5).erf()),)


def _torch(case: Case, tools: Any) -> Any:
    functional = tools.torch.nn.functional
    if case.kernel == "swiglu":
        return lambda gate, up: (functional.silu(gate) * up,)
    return lambda x, bias: (functional.gelu(x + bias),)


def _kiln(case: Case, tools: Any, **options: Any) -> Peer:
    from kiln.kernels import activation

    if case.kernel == "swiglu":
        run = tools.kiln(activation.swiglu, options)
        return Peer(lambda a, outs: (run(a["gate"], a["up"], out=outs[0]),))
    run = tools.kiln(activation.bias_gelu, options)
    return Peer(lambda a, outs: (run(a["x"], a["bias"], out=outs[0]),))


def _triton(case: Case, tools: Any) -> Peer:
    kernels = tools.module("baselines.triton_kernels")
    if case.kernel == "swiglu":
        return Peer(lambda a, outs: kernels.swiglu(a["gate"], a["up"], outs))
    return Peer(lambda a, outs: kernels.bias_gelu(a["x"], a["bias"], outs))


def _cuda(case: Case, tools: Any, variant: str) -> Peer:
    run = tools.module("baselines.cuda_kernels").swiglu(case.shape, variant)
    return Peer(lambda a, outs: run(a["gate"], a["up"], outs[0]))


def peers(case: Case, tools: Any) -> dict[str, Any]:
    found = {
        "kiln": lambda: _kiln(case, tools),
        "kiln+pdl": lambda: _kiln(case, tools, pdl=True),
        "torch": lambda: tools.eager(_torch(case, tools)),
        "inductor": lambda: tools.inductor(_torch(case, tools)),
        "triton": lambda: _triton(case, tools),
    }
    if case.kernel == "swiglu":
        found["cuda-naive"] = lambda: _cuda(case, tools, "naive")
        found["cuda"] = lambda: _cuda(case, tools, "vector")
    return found


if __name__ == "__main__":
    import suite

    sys.exit(suite.main([NAME, *sys.argv[1:]]))
