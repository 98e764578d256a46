"""Why a row is as fast as it is: `python bench/profile_kernel.py "rms_norm 2048x4096" [--peer quack] [--ncu]`.

Without --ncu: time, bandwidth, and for Kiln's kernels registers, occupancy, accesses and bytes in flight. With it:
one launch under Nsight Compute, clocks left alone, caches flushed by the tool.
"""

from __future__ import annotations

import argparse
import csv
import io
import pathlib
import shutil
import subprocess
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import sass
from cases import Case, select, with_variants
from device import make_device
from runner import Runner, Settings, run_case

# Metric → (label, meaning).
METRICS = {
    "gpu__time_duration.sum": "duration",
    "dram__bytes_read.sum": "read from memory",
    "dram__bytes_write.sum": "written to memory",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory busy",
    "lts__t_sector_hit_rate.pct": "L2 hits",
    "launch__grid_size": "blocks",
    "launch__block_size": "threads of a block",
    "launch__registers_per_thread": "registers",
    "launch__waves_per_multiprocessor": "waves",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps resident",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue slots used",
    "smsp__inst_executed.sum": "instructions",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": "waiting for memory",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": "waiting at a barrier",
    "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio": "waiting to issue accesses",
    "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio": "waiting for arithmetic",
    "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio": "waiting for shared memory",
    "l1tex__data_bank_conflicts_pipe_lsu.sum": "bank conflicts",
}
# Bytes that must be in flight on a multiprocessor for full rate: 4.8 TB/s × 0.7 µs over 132.
NEEDED_IN_FLIGHT = 25e3


def find(words: str) -> Case:
    found = select([], words)
    if not found:
        raise SystemExit(f"no row matches {words!r}")
    return found[0]


def kiln_kernels() -> list[Any]:
    """Every compiled kernel of the library in this process."""
    from kiln.runtime.jit import JITFunction

    functions = {id(value): value for name, module in list(sys.modules.items()) if name.startswith("kiln.kernels.")
                 for value in vars(module).values() if isinstance(value, JITFunction)}  # fmt: skip
    return [kernel for function in functions.values() for kernel in function.compiled_kernels]


def describe(kernel: Any) -> list[str]:
    """The known facts about a compiled kernel, one per line."""
    occupancy = kernel.occupancy
    threads = 32 * occupancy["warps"]
    lines = [
        f"{kernel.name}: {kernel.num_warps} warps, cluster {kernel.cluster}, {kernel.n_regs} registers, "
        f"{kernel.n_spills} spills, {kernel.shared} bytes shared",
        f"  resident: {occupancy['blocks']} blocks, {occupancy['warps']} warps of a multiprocessor",
    ]
    try:
        found = sass.read(kernel.asm["sass"])
    except Exception as error:  # no disassembler here
        return [*lines, f"  no machine code to read: {error}"]
    flight = found.in_flight * threads
    lines += [
        f"  loads {sass.describe(found.loads)} in {found.rounds} rounds; stores {sass.describe(found.stores)}",
        f"  {found.barriers} barriers, {found.local} accesses to local memory, {found.instructions} instructions",
        f"  in flight: {found.in_flight} bytes a thread, {flight / 1e3:.0f} KB a multiprocessor "
        f"(full rate needs about {NEEDED_IN_FLIGHT / 1e3:.0f})",
    ]
    return lines


def show(case: Case, peer: str, device: Any) -> None:
    base = next(name for name in ("kiln", "cuda", peer) if peer in with_variants([name]))
    record = run_case(case, device, Settings((base, "ceiling"), rounds=5), lambda _: None)
    print(f"{case.name}: {case.traffic / 1e6:.1f} MB, {record['plan']['sets']} sets, {record['state']}")
    for name, found in record["peers"].items():
        if found["status"] != "ok":
            print(f"  {name:12} {found['status']}: {found['note']}")
            continue
        warm = found.get("warm", {}).get("median")
        print(f"  {name:12} {found['cold']['median']:9.2f} µs  {found['cold']['tbs']:.3f} TB/s"
              + (f"  warm {warm:.2f} µs" if warm else "") + f"  {found['note']}")  # fmt: skip
    if base == "kiln" and device.name == "cuda":
        for kernel in kiln_kernels():
            print("\n".join(describe(kernel)))


def launch_once(case: Case, peer: str, device: Any) -> None:
    """The process that Nsight Compute watches: one launch between the profiler's start and stop."""
    import torch

    work = Runner(case, device, Settings((peer,)), lambda _: None)
    made = work.family.peers(case, work.tools)[peer]()
    outs = work.outputs(made)
    for i in (0, 1):
        if made.prepare is not None:
            made.prepare(work.sets[i])
        made.launch(work.sets[i], outs[i] if outs else None)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    made.launch(work.sets[0], outs[0] if outs else None)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def counters(case: Case, peer: str) -> int:
    """Runs this file under Nsight Compute and prints the counters; returns its exit code."""
    tool = shutil.which("ncu")
    if tool is None:
        raise SystemExit("no ncu on the PATH")
    watched = [sys.executable, __file__, case.name, "--peer", peer, "--once"]
    command = [tool, "--clock-control", "none", "--profile-from-start", "off", "--csv", "--page", "raw", "--metrics"]
    command += [",".join(METRICS), *watched]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    kernels = parse(done.stdout)
    if done.returncode or not kernels:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
        return done.returncode or 1
    for name, values in kernels:
        print(f"{case.name}, {peer}: {name}")
        for label, value in values.items():
            print(f"  {label:28} {value}")
    return 0


def parse(text: str) -> list[tuple[str, dict[str, str]]]:
    """Kernels and their metrics, with units, from the tool's raw CSV page."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[start:]))))
    units, found = rows[0], []
    for row in rows[1:]:
        values = {label: f"{row[metric]} {units[metric] or ''}".strip() for metric, label in METRICS.items()
                  if row.get(metric)}  # fmt: skip
        found.append((row["Kernel Name"], values))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("row", help='name of a row, as "rms_norm 2048x4096"')
    parser.add_argument("--peer", default="kiln")
    parser.add_argument("--ncu", action="store_true", help="read hardware counters of one launch")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    case = find(options.row)
    if options.ncu:
        return counters(case, options.peer)
    device = make_device(options.device)
    if options.once:
        launch_once(case, options.peer, device)
    else:
        show(case, options.peer, device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
