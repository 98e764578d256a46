"""AdamW in float32, one tensor, 28 bytes a parameter: `python bench/adamw.py`, or `kiln bench adamw`.

All peers share the same state: a step takes the same time whatever it holds, and it is restored before each check.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from cases import Arrays, Case, Peer

NAME = "adamw"
MUTATES = ("parameter", "moment", "square")
LR, BETAS, EPS, DECAY, STEP = 1e-3, (0.9, 0.999), 1e-8, 1e-2, 10


def _case(label: str, n: int, reported: str, least_tbs: float | None = None) -> Case:
    return Case(NAME, "adamw", (n,), reads=16 * n, writes=12 * n, footprint=16 * n, streams=(4, 3, 4 * n),
                dtype="float32", size=label, reported=reported, least_tbs=least_tbs,
                in_mean=label != "1M")  # fmt: skip


# torch's fused step, TB/s, on another day. A 1M step is all launch latency, so it is left out of the mean.
CASES = [_case("1M", 1 << 20, "0.75 TB/s"), _case("10M", 10_000_000, "3.72 TB/s"),
         _case("50M", 50_000_000, "3.48 TB/s", 4.0), _case("200M", 200_000_000, "3.52 TB/s")]  # fmt: skip


def inputs(case: Case, make: Any) -> Arrays:
    (n,) = case.shape
    return {"parameter": make.normal(n), "gradient": make.normal(n), "moment": make.normal(n),
            "square": make.positive(n), "step": make.full((1,), STEP, "int64")}  # fmt: skip


def outputs(case: Case) -> list[tuple[tuple[int, ...], str]]:
    return []


def reference(case: Case, arrays: Arrays) -> tuple[Any, ...]:
    value, slope, first, second = (arrays[name].double() for name in ("parameter", "gradient", "moment", "square"))
    first = BETAS[0] * first + (1 - BETAS[0]) * slope
    second = BETAS[1] * second + (1 - BETAS[1]) * slope.square()
    corrected = first / (1 - BETAS[0] ** STEP)
    root = (second / (1 - BETAS[1] ** STEP)).sqrt() + EPS
    return value * (1 - LR * DECAY) - LR * corrected / root, first, second


def _state(arrays: Arrays) -> tuple[Any, ...]:
    return tuple(arrays[name] for name in MUTATES)


def _torch_fused(tools: Any) -> Peer:
    torch = tools.torch
    optimizers: dict[int, Any] = {}

    def prepare(a: Arrays) -> None:
        parameter = a["parameter"]
        parameter.grad = a["gradient"]
        on_gpu = parameter.is_cuda
        optimizer = torch.optim.AdamW([parameter], lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY, fused=True,
                                      capturable=on_gpu)  # fmt: skip
        # torch increments the step before it uses it.
        step = torch.full((), STEP - 1.0, dtype=torch.float32, device=parameter.device)
        optimizer.state[parameter] = {"step": step, "exp_avg": a["moment"], "exp_avg_sq": a["square"]}
        optimizers[a["set"]] = optimizer

    def launch(a: Arrays, _: Any) -> tuple[Any, ...]:
        optimizers[a["set"]].step()
        return _state(a)

    return Peer(launch, prepare=prepare, note="torch.optim.AdamW(fused=True)")


def _inductor(tools: Any) -> Peer:
    """The step as arithmetic on tensors, compiled: one fused kernel."""
    torch = tools.torch

    def step(parameter: Any, gradient: Any, moment: Any, square: Any, count: Any) -> None:
        moment.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
        square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        time = count.float()
        correction1, correction2 = -torch.expm1(time * math.log(BETAS[0])), -torch.expm1(time * math.log(BETAS[1]))
        parameter.mul_(1 - LR * DECAY)
        parameter.sub_(LR * (moment / correction1) / ((square / correction2).sqrt() + EPS))

    compiled = tools.compile(step)

    def launch(a: Arrays, _: Any) -> tuple[Any, ...]:
        compiled(a["parameter"], a["gradient"], a["moment"], a["square"], a["step"])
        return _state(a)

    return Peer(launch)


def _kiln(tools: Any, **options: Any) -> Peer:
    from kiln.kernels.optimizer import adamw

    run = tools.kiln(adamw, options)

    def launch(a: Arrays, _: Any) -> tuple[Any, ...]:
        run(a["parameter"], a["gradient"], a["moment"], a["square"], a["step"], lr=LR, betas=BETAS, eps=EPS,
            weight_decay=DECAY)  # fmt: skip
        return _state(a)

    return Peer(launch)


def _kiln_lists(tools: Any) -> Peer:
    """The form for a whole model: a table of addresses on the device, here for one tensor."""
    from kiln.kernels.optimizer import TensorLists, adamw_lists

    lists: dict[int, Any] = {}

    def prepare(a: Arrays) -> None:
        lists[a["set"]] = TensorLists([a["parameter"]], [a["gradient"]], [a["moment"]], [a["square"]])

    def launch(a: Arrays, _: Any) -> tuple[Any, ...]:
        adamw_lists(lists[a["set"]], a["step"], lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY)
        return _state(a)

    return Peer(launch, prepare=prepare, note="lists of tensors in one launch")


def _triton(tools: Any) -> Peer:
    kernels = tools.module("baselines.triton_kernels")

    def launch(a: Arrays, _: Any) -> tuple[Any, ...]:
        kernels.adamw(a["parameter"], a["gradient"], a["moment"], a["square"], a["step"], LR, BETAS, EPS, DECAY)
        return _state(a)

    return Peer(launch)


def peers(case: Case, tools: Any) -> dict[str, Any]:
    return {
        "kiln": lambda: _kiln(tools),
        "kiln+pdl": lambda: _kiln(tools, pdl=True),
        "kiln-lists": lambda: _kiln_lists(tools),
        "torch": lambda: _torch_fused(tools),
        "inductor": lambda: _inductor(tools),
        "triton": lambda: _triton(tools),
    }


if __name__ == "__main__":
    import suite

    sys.exit(suite.main([NAME, *sys.argv[1:]]))
