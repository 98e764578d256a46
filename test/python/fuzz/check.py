"""Runs a program under Kiln and compares every buffer with what the evaluation gives."""

from __future__ import annotations

import linecache
import math
import random
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from .evaluate import Expected, evaluate
from .program import Program, render, walk

CHECKED_SHARE = 0.12  # the share of programs that also run under the memory checks and the IR verifier


@dataclass
class Failure:
    """What went wrong. `way` is mismatch, error (an exception) or check; reducing must preserve it. Two ways are no
    faults, and callers count them: a program is "refused" if it needs more of some resource than the machine has, and
    "left out" if compiling it would take too long."""

    way: str
    message: str

    @property
    def is_fault(self) -> bool:
        return self.way not in ("refused", "left out")

    def same(self, other: Failure | None) -> bool:
        return other is not None and self.way == other.way and _gist(self.message) == _gist(other.message)


def _gist(message: str) -> str:
    """The message without what changes as the program shrinks: names, numbers, positions, types."""
    if message.startswith("buffer"):
        return "buffer"
    return re.sub(r"[\d<>x\[\](),']+", "#", message.split("\n")[0])[:60]


def launch_options(name: str, target: str) -> dict[str, Any]:
    """The launch options of a program on a GPU: mostly four warps, sometimes a cluster where the GPU has clusters."""
    from kiln import _kiln

    draw = random.Random(name)
    options: dict[str, Any] = {"num_warps": draw.choice([4, 4, 4, 1, 2, 8, 16])}
    if draw.random() < 0.15 and "cluster" in _kiln.target(target)["capabilities"]:
        options["cluster"] = draw.choice([2, 4])
    return options


# The share of programs that run on a GPU, by the elements per thread of their largest tile. ptxas takes a second for
# those beyond the first bound, many seconds beyond the second, and minutes beyond the third, where it looks like a
# hang.
COSTLY = ((128, 1.0), (256, 0.1), (512, 1 / 30), (float("inf"), 0.0))


def elements_per_thread(program: Program, options: dict[str, Any]) -> int:
    """Roughly the elements per thread of the largest tile: powers of two are spread over the threads; every thread
    holds the odd remainder whole."""
    threads, largest = 32 * options["num_warps"] * options.get("cluster", 1), 0
    for _, node in walk(program.body):
        for var in node.results:
            size = math.prod(var.shape)
            spread = math.prod(side & -side for side in var.shape)
            largest = max(largest, size // max(1, min(spread, threads)))
    return largest


def share_run(elements: int) -> float:
    return next(share for bound, share in COSTLY if elements <= bound)


def _dice(program: Program) -> float:
    return random.Random(program.seed).random()


def _left_out(program: Program, options: dict[str, Any]) -> Failure | None:
    elements = elements_per_thread(program, options)
    if _dice(program) < share_run(elements):
        return None
    return Failure("left out", f"ptxas takes long for {elements} elements a thread")


_count = 0


def kernel_of(text: str) -> Any:
    """The jit function `kernel` that the text defines."""
    global _count
    import kiln
    import kiln.language as kl

    _count += 1
    file = f"<fuzz {_count}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"kiln": kiln, "kl": kl}
    exec(compile(text, file, "exec"), names)
    return names["kernel"]


def launch(program: Program, text: str, **options: Any) -> tuple[dict[str, np.ndarray], Any]:
    """The memory after a launch, and the compiled kernel."""
    arrays = {b.name: b.data.copy() for b in program.buffers}
    arguments = [*arrays.values(), *program.scalars.values()]
    kernel = kernel_of(text)
    compiled = kernel[program.grid](*arguments, **program.constants, enable_fp_fusion=program.fused, **options)
    return arrays, compiled


def compare(program: Program, expected: Expected, found: dict[str, np.ndarray]) -> Failure | None:
    for buffer in program.buffers:
        want, got = expected.memory[buffer.name], found[buffer.name]
        if not buffer.kind.is_float:
            wrong = want != got
        else:
            with np.errstate(all="ignore"):
                x, y = want.astype(np.float64), got.astype(np.float64)
                error = expected.errors[buffer.name]
                wrong = ~((x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= error) | np.isinf(error))
        if np.any(wrong):
            at = np.flatnonzero(wrong)
            shown = ", ".join(f"[{i}] {got[i]!r} for {want[i]!r}" for i in at[:4])
            bound = f" (within {expected.errors[buffer.name][at[0]]:.3g})" if buffer.kind.is_float else ""
            return Failure("mismatch", f"buffer {buffer.name}: {at.size} of {want.size} wrong: {shown}{bound}")
    return None


def compile_only(program: Program) -> Failure | None:
    """None if the program compiles for KILN_TARGET, which may name a GPU that is not present. With KILN_PTXAS=none
    compiling ends at PTX, which is quick for every program."""
    import kiln.language as kl
    from kiln import errors, knobs
    from kiln.runtime import placement

    options = launch_options(program.seed, placement.target_of_arguments(()))
    if knobs.ptxas != "none" and (left_out := _left_out(program, options)):
        return left_out
    arguments = [*(getattr(kl, b.kind.name) for b in program.buffers), *program.scalars.values()]
    options |= {"grid": program.grid, "enable_fp_fusion": program.fused, "warmup": True}
    try:
        kernel_of(render(program)).run(*arguments, **program.constants, **options)
    except errors.ResourceError as error:
        return Failure("refused", str(error))
    except Exception as error:
        return Failure("error", f"{type(error).__name__}: {error}")
    return None


def check(program: Program, seen: set[str] | None = None, checks: bool | None = None) -> Failure | None:
    """None if Kiln agrees. `checks`: whether to run also under KILN_CHECK and with the IR verified; None draws at
    random.

    KILN_CHECK does not exist on a GPU; there the IR is verified, and launch options are drawn from the program's name.
    `seen` collects the tile ops of the program as the front end emits it.
    """
    from kiln import errors, knobs
    from kiln.runtime import placement

    gpu = placement.names_gpu(knobs.target)
    options = launch_options(program.seed, placement.target_of_arguments(())) if gpu else {}
    if gpu and (left_out := _left_out(program, options)):
        return left_out
    expected, text = evaluate(program), render(program)
    modes: list[dict[str, Any]] = [{}]
    if checks or (checks is None and _dice(program) < CHECKED_SHARE):
        modes += [{"verify_each": True}] if gpu else [{"check": "bounds", "verify_each": True}, {"check": "races"}]
    for mode in modes:
        with knobs.scope(**mode):
            try:
                found, compiled = launch(program, text, **options)
            except errors.ResourceError as error:
                return Failure("refused", str(error))
            except errors.DeviceLostError:
                raise
            except Exception as error:
                way = "check" if mode else "error"
                return Failure(way, f"{type(error).__name__} {mode or ''}: {error}")
            failure = compare(program, expected, found)
            if failure is not None:
                failure.message += f" {mode or ''}"
                return failure
            if seen is not None and not mode:
                seen.update(re.findall(r"\b((?:tile|arith|math|scf)\.[a-z_0-9]+)", str(compiled.asm["tile"])))
    return None
