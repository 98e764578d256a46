"""Which launch plan is best for a shape, by measurement: `python bench/plans.py "rms_norm 2048x4096" [--rounds 5]`.

A shape is a row of the benchmarks or a cell of the sweep ("softmax 130×18944 f16"). For every form that the policy
could choose (threads, rows per program, cluster, register limit; block and warps of flat kernels) it captures one graph
over the row's rotating sets, and races them as the benchmarks race peers. The first line is the policy's own choice;
those after it are the fastest, with the time relative to it. Run it before changing the policy in kernels/rows.py or
kernels/flat.py.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cells
import kiln
import measure
from cases import Case, family, select
from device import CudaDevice, Maker
from kiln.kernels.flat import FlatPlan
from kiln.kernels.machine import launch_options
from kiln.kernels.rows import RowPlan


def row_plans(rows: int, n: int, largest_cluster: int, streaming: bool) -> Iterator[RowPlan]:
    """Forms in which a thread holds 4 to 64 elements of a row; for long rows also blocks that are read twice."""
    from kiln.kernels.operator import tile_side

    for warps, cluster, several in itertools.product((1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16), (1, 2, 4, 8)):
        if cluster > largest_cluster or (several > 1 and cluster > 1) or several * 132 > max(rows, 132):
            continue
        blocks = {
            tile_side(n, 16 * cluster),
            tile_side(n, min(kiln.next_power_of_2(n), 32 * warps // several * 8 * cluster)),
        }
        for block in blocks:
            held = several * block / (32 * warps * cluster)
            if not 4 <= held <= 64:
                continue
            # Fewer registers only help where they let more blocks run.
            for registers in (None, 64) if held >= 32 else (None, 32) if held >= 16 else (None,):
                yield RowPlan(block, several, warps, cluster, registers=registers, streaming=streaming)
    if n > 8192:
        for warps, held in itertools.product((4, 8, 16, 32), (4, 8, 16, 32)):
            yield RowPlan(32 * warps * held, 1, warps, loop=True, streaming=streaming)


def flat_plans(streaming: bool) -> Iterator[FlatPlan]:
    for warps, each in itertools.product((1, 2, 4, 8), (1, 2, 4, 8, 16, 32)):
        yield FlatPlan(32 * warps * each, warps, streaming)


def short_row_plans(n: int, streaming: bool) -> Iterator[FlatPlan]:
    """Several rows per program, for rows shorter than a block."""
    from kiln.kernels.operator import tile_side

    if n <= 1024:
        for warps, several in itertools.product((2, 4, 8), (2, 4, 8)):
            yield FlatPlan(tile_side(n, 8), warps, streaming, several)


def calls(case: Case) -> tuple[Callable[..., Any], list[Any]]:
    """The library function of a case as `run(arrays, outs, plan)`, and the plans to try."""
    from kiln.kernels import activation, flat, norm, optimizer, rows, softmax
    from kiln.kernels.machine import is_streaming, of_target

    count, n = (*case.shape, 1)[:2]
    machine, read = of_target("cuda"), case.streams[0] * case.streams[2]
    by_rows = list(row_plans(count, n, machine.largest_cluster, is_streaming(read, machine, rows.STREAM_L2S)))
    flats = list(flat_plans(is_streaming(read, machine, flat.STREAM_L2S)))
    if case.kernel == "rms_norm":
        return lambda a, o, p: norm.rms_norm(a["x"], a["weight"], out=o[0], plan=p), by_rows
    if case.kernel == "residual_rms_norm":
        return lambda a, o, p: norm.residual_rms_norm(a["x"], a["residual"], a["weight"], out=o, plan=p), by_rows
    if case.kernel == "layer_norm":
        return lambda a, o, p: norm.layer_norm(a["x"], a["weight"], a["bias"], out=o[0], plan=p), by_rows
    if case.kernel == "softmax":
        return lambda a, o, p: softmax(a["x"], out=o[0], plan=p), by_rows
    if case.kernel == "swiglu":
        return lambda a, o, p: activation.swiglu(a["gate"], a["up"], out=o[0], plan=p), flats
    if case.kernel == "bias_gelu":
        flats += short_row_plans(n, flats[0].streaming)
        return lambda a, o, p: activation.bias_gelu(a["x"], a["bias"], out=o[0], plan=p), flats
    if case.kernel == "adamw":
        return lambda a, o, p: optimizer.adamw(a["parameter"], a["gradient"], a["moment"], a["square"], a["step"],
                                               plan=p), flats  # fmt: skip
    raise SystemExit(f"plans: {case.kernel} has no plan")


def sweep(case: Case, device: CudaDevice, rounds: int, show: int) -> None:
    torch, where = device.torch, family(case.family)
    plan = measure.plan(case.footprint, case.traffic, device.l2_bytes, rounds, 400.0, 800.0, 1024)
    arenas = where.inputs(case, Maker(device, plan.sets, case.dtype))
    sets = [{name: arena[i] for name, arena in arenas.items()} for i in range(plan.sets)]
    outs = [
        torch.empty((plan.sets, *shape), dtype=getattr(torch, dtype), device=device.device)
        for shape, dtype in where.outputs(case)
    ]
    run, forms = calls(case)
    bursts: dict[str, Callable[[], float]] = {}
    refused = 0

    def attempt(form: Any) -> str:
        """Compiles and runs a form once; returns why it fails, or an empty string."""
        try:
            run(sets[0], tuple(out[0] for out in outs), form)
        except Exception as error:
            return str(error).splitlines()[0][:100]
        return ""

    # Compiling takes longer than measuring, unless it is done in parallel.
    with ThreadPoolExecutor() as pool:
        problems = dict(zip((None, *forms), pool.map(attempt, (None, *forms)), strict=True))
    device.synchronize()
    for form, problem in problems.items():
        if problem:
            refused += 1
            print(f"  refused: {form}: {problem}", file=sys.stderr)
            if form is None:
                return
            continue

        def enqueue(form: Any = form) -> None:
            for i in range(plan.launches):
                at = i % plan.sets
                run(sets[at], tuple(out[at] for out in outs), form)

        bursts[str(form or "chosen")] = device.burst(device.capture(enqueue), plan.launches, plan.replays)
    times = measure.race(bursts, rounds)
    medians = {name: measure.summarize(values).median for name, values in times.items()}
    chosen = medians.pop("chosen")
    print(f"{case.name}: chosen {chosen:.2f} µs, {case.tbs(chosen):.2f} TB/s; {len(medians)} forms, {refused} refused")
    for name, time in sorted(medians.items(), key=lambda item: item[1])[:show]:
        print(f"  {time / chosen:.3f}  {time:8.2f} µs  {case.tbs(time):.2f} TB/s  {name}", flush=True)
    bursts.clear()
    gc.collect()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", help='rows of the benchmarks: "rms_norm 2048x4096", or a prefix of it; '
                        'cells of the sweep: "softmax 130×18944 f16"')  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dependent", action="store_true", help="use dependent launch")
    parser.add_argument("--show", type=int, default=8, help="how many of the fastest plans to print")
    arguments = parser.parse_args()
    device = CudaDevice()
    options = {"pdl": True} if arguments.dependent else {}
    for words in arguments.cases:
        is_cell = words.split()[-1] in cells.TYPES.values()
        for case in [cells.named(words)] if is_cell else select([], words):
            with launch_options(**options):
                sweep(case, device, arguments.rounds, arguments.show)
    return 0


if __name__ == "__main__":
    sys.exit(main())
