"""RMSNorm, residual + RMSNorm, LayerNorm in float16: `python bench/norm.py`, or `kiln bench norm`."""

from __future__ import annotations

import sys
from typing import Any

from cases import Arrays, Case, Peer, relative_to

NAME = "norm"
EPS = 1e-6

# Best of torch, torch.compile and quack, TB/s, measured on another day: for comparing the shapes of curves, never for
# verdicts.
_RMS = {(2048, 896): 2.01, (2048, 1536): 2.43, (2048, 2048): 2.77, (2048, 3072): 2.82, (2048, 3584): 2.99,
        (2048, 4096): 3.30, (2048, 8192): 3.57, (16384, 896): 3.66, (16384, 4096): 4.12, (16384, 8192): 4.23,
        (4096, 131072): 4.16}  # fmt: skip
_RESIDUAL = {(2048, 896): 2.74, (2048, 4096): 3.55, (2048, 8192): 3.65, (16384, 896): 3.89, (16384, 4096): 4.04,
             (16384, 8192): 4.08}  # fmt: skip
_LAYER = {(2048, 896): 1.88, (2048, 4096): 2.77, (2048, 8192): 2.77, (16384, 896): 3.57, (16384, 4096): 4.05,
          (16384, 8192): 4.05}  # fmt: skip
_ONE_ROW = {"rms_norm": ("1.62 µs", 1.60), "residual_rms_norm": ("1.94 µs", 1.85), "layer_norm": ("2.04 µs", 1.95)}


def cell(kernel: str, shape: tuple[int, int], dtype: str = "float16", **facts: Any) -> Case:
    """A row of these kernels at any size, in a 16-bit type."""
    rows, n = shape
    both = 2 * rows * n
    arrays = 2 if kernel == "residual_rms_norm" else 1
    vectors = 2 if kernel == "layer_norm" else 1
    return Case(NAME, kernel, shape, reads=arrays * both + vectors * 2 * n, writes=arrays * both,
                streams=(arrays, arrays, both), dtype=dtype, **facts)  # fmt: skip


def _case(kernel: str, shape: tuple[int, int], table: dict[tuple[int, ...], float]) -> Case:
    reported, most = _ONE_ROW[kernel] if shape[0] == 1 else (relative_to(table, shape), None)
    return cell(kernel, shape, reported=reported, most_us=most, least_tbs=4.2 if shape[1] == 131072 else None)


CASES = [
    *(_case("rms_norm", shape, _RMS) for shape in (*_RMS, (1, 4096))),
    *(_case("residual_rms_norm", shape, _RESIDUAL) for shape in (*_RESIDUAL, (1, 4096))),
    *(_case("layer_norm", shape, _LAYER) for shape in (*_LAYER, (1, 4096))),
]


def inputs(case: Case, make: Any) -> Arrays:
    rows, n = case.shape
    arrays = {"x": make.normal(rows, n), "weight": make.normal(n)}
    if case.kernel == "residual_rms_norm":
        arrays["residual"] = make.normal(rows, n)
    if case.kernel == "layer_norm":
        arrays["bias"] = make.normal(n)
    return arrays


def outputs(case: Case) -> list[tuple[tuple[int, ...], str]]:
    return [(case.shape, case.dtype)] * (2 if case.kernel == "residual_rms_norm" else 1)


def reference(case: Case, arrays: Arrays) -> tuple[Any, ...]:
    x, weight = arrays["x"].double(), arrays["weight"].double()
    if case.kernel == "layer_norm":
        centred = x - x.mean(-1, keepdim=True)
        return (centred * (centred.square().mean(-1, keepdim=True) + EPS).rsqrt() * weight + arrays["bias"].double(),)
    total = ()
    if case.kernel == "residual_rms_norm":
        x = x + arrays["residual"].double()
        total = (x,)
        # The norm uses the sum as stored, as two separate operations would.
        x = x.to(arrays["x"].dtype).double()
    return (x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt() * weight, *total)


def _torch(case: Case, tools: Any) -> Any:
    """The operation as a user of torch writes it: a function of the arrays, returning a tuple."""
    functional, n = tools.torch.nn.functional, case.shape[-1]
    if case.kernel == "rms_norm":
        return lambda x, weight: (functional.rms_norm(x, (n,), weight, EPS),)
    if case.kernel == "layer_norm":
        return lambda x, weight, bias: (functional.layer_norm(x, (n,), weight, bias, EPS),)

    def residual_rms_norm(x: Any, weight: Any, residual: Any) -> tuple[Any, Any]:
        total = x + residual
        return functional.rms_norm(total, (n,), weight, EPS), total

    return residual_rms_norm


def _kiln(case: Case, tools: Any, **options: Any) -> Peer:
    from kiln.kernels import norm

    if case.kernel == "rms_norm":
        run = tools.kiln(norm.rms_norm, options)
        return Peer(lambda a, outs: (run(a["x"], a["weight"], eps=EPS, out=outs[0]),))
    if case.kernel == "layer_norm":
        run = tools.kiln(norm.layer_norm, options)
        return Peer(lambda a, outs: (run(a["x"], a["weight"], a["bias"], eps=EPS, out=outs[0]),))
    run = tools.kiln(norm.residual_rms_norm, options)
    return Peer(lambda a, outs: run(a["x"], a["residual"], a["weight"], eps=EPS, out=outs))


def _quack(case: Case, tools: Any) -> Peer:
    rmsnorm = tools.module("quack.rmsnorm")
    if case.kernel == "rms_norm":
        return Peer(lambda a, _: rmsnorm.rmsnorm_fwd(a["x"], a["weight"], eps=EPS)[:1], takes_outputs=False)
    if case.kernel == "residual_rms_norm":
        return Peer(lambda a, _: rmsnorm.rmsnorm_fwd(a["x"], a["weight"], residual=a["residual"], eps=EPS)[:2],
                    takes_outputs=False)  # fmt: skip
    # Its LayerNorm requires float32 vectors.
    vectors: dict[int, tuple[Any, Any]] = {}

    def prepare(a: Arrays) -> None:
        vectors[a["set"]] = (a["weight"].float(), a["bias"].float())

    return Peer(lambda a, _: (rmsnorm.layernorm_fwd(a["x"], *vectors[a["set"]], eps=EPS),), takes_outputs=False,
                note="float32 weight and bias", prepare=prepare)  # fmt: skip


def _triton(case: Case, tools: Any) -> Peer:
    kernels = tools.module("baselines.triton_kernels")
    if case.kernel == "rms_norm":
        return Peer(lambda a, outs: kernels.rms_norm(a["x"], a["weight"], EPS, outs))
    if case.kernel == "layer_norm":
        return Peer(lambda a, outs: kernels.layer_norm(a["x"], a["weight"], a["bias"], EPS, outs))
    return Peer(lambda a, outs: kernels.residual_rms_norm(a["x"], a["residual"], a["weight"], EPS, outs))


def _cuda(case: Case, tools: Any, variant: str) -> Peer:
    kernels = tools.module("baselines.cuda_kernels")
    run = kernels.rms_norm(case.shape, variant)
    return Peer(lambda a, outs: run(a["x"], a["weight"], outs[0], EPS))


def peers(case: Case, tools: Any) -> dict[str, Any]:
    found = {
        "kiln": lambda: _kiln(case, tools),
        "kiln+pdl": lambda: _kiln(case, tools, pdl=True),
        "torch": lambda: tools.eager(_torch(case, tools)),
        "inductor": lambda: tools.inductor(_torch(case, tools)),
        "quack": lambda: _quack(case, tools),
        "triton": lambda: _triton(case, tools),
    }
    if case.kernel == "rms_norm":
        found["cuda-naive"] = lambda: _cuda(case, tools, "naive")
        found["cuda"] = lambda: _cuda(case, tools, "vector")
    return found


if __name__ == "__main__":
    import suite

    sys.exit(suite.main([NAME, *sys.argv[1:]]))
