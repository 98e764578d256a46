"""How long tuning takes, beside Triton: `python bench/tune.py`.

    python bench/tune.py                        matrix products and attention, by Kiln and by Triton
    python bench/tune.py --rows matmul --by kiln
    python bench/tune.py --device cpu           tries it on the CPU target, with few and small configurations

The same kernels with the configurations of Triton's tutorials (`baselines/tuned.py`), tuned by each of the two in a
separate process with an empty cache: wall time from the first launch to its end, imports and the making of arrays not
counted. Results are checked against float64. Then every configuration is timed at length, in turns, in bursts of graphs
that last long enough for the GPU's limit of power to decide (`measure.py`): the winner is compared with the fastest of
all, and the ranking of the best is shown.

Required on a host with 16 cores: a fifth of Triton's time, and a winner within 2 % of the fastest.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

ROWS = ("matmul", "attention")
SHARE, WITHIN = 1 / 5, 0.02
SIZES = {"cuda": {"matmul": (4096, 4096, 4096), "attention": (4, 32, 2048, 64)},
         "cpu": {"matmul": (32, 32, 32), "attention": (1, 1, 64, 16)}}  # fmt: skip


def kernels_for(by: str) -> Any:
    """`baselines/tuned.py` in one of the two languages."""
    if by == "kiln":
        import kiln as package
        import kiln.language as language
    else:
        import triton as package  # type: ignore[import-not-found,no-redef]
        import triton.language as language  # type: ignore[import-not-found,no-redef]
    spec = importlib.util.spec_from_file_location(f"tuned_for_{by}", HERE / "baselines" / "tuned.py")
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    module.jit, module.tl, module.Config = package.jit, language, package.Config
    module.autotune = package.autotune
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Row:
    """One kernel with its arguments: `launch(kernel, **meta)`, `error()` against float64."""

    def __init__(self, name: str, device: str, by: str):
        import numpy as np

        self.name, self.device, self.sizes = name, device, SIZES[device][name]
        self.module = kernels_for(by)
        self.configs = self.module.matmul_configs() if name == "matmul" else self.module.attention_configs()
        rng = np.random.default_rng(1)
        if name == "matmul":
            m, n, k = self.sizes
            self.host = [rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n))]
            shape, self.key = (m, n), ["m", "n", "k"]
        else:
            shape, self.key = self.sizes, ["tokens"]
            self.host = [rng.standard_normal(shape).astype(np.float16) for _ in "qkv"]
        if device == "cpu":  # a few small ones, to try the program
            self.configs = [c for c in self.configs if c.num_stages in (2, 5) and c.kwargs["BM"] <= 64][:3]
            self.arrays, self.out = self.host, np.zeros(shape, np.float16)
        else:
            import torch

            self.arrays = [torch.from_numpy(x).cuda() for x in self.host]
            self.out = torch.zeros(shape, dtype=torch.float16, device="cuda")

    def tuned(self) -> Any:
        kernel = self.module.matmul if self.name == "matmul" else self.module.attention
        return self.module.autotune(configs=self.configs, key=self.key)(kernel)

    def launch(self, kernel: Any, arrays: Any = None, **meta: Any) -> None:
        """`arrays`: replace its own, the output last."""
        *given, out = arrays or [*self.arrays, self.out]
        if self.name == "matmul":
            m, n, k = self.sizes
            grid = lambda given: (-(-m // given["BM"]) * -(-n // given["BN"]),)  # noqa: E731
            kernel[grid](*given, out, m, n, k, k, n, n, **meta)
        else:
            batch, heads, tokens, size = self.sizes
            grid = lambda given: (tokens // given["BM"], batch * heads)  # noqa: E731
            scale = size**-0.5 * 1.4426950408889634
            kernel[grid](*given, out, scale, tokens, tokens * size, SIZE=size, **meta)

    def sets(self, l2_bytes: int) -> list[list[Any]]:
        """Its arrays and copies of them, together three times the size of the L2, so that a launch finds nothing there
        from another one."""
        own = [*self.arrays, self.out]
        footprint = sum(array.numel() * array.element_size() for array in own)
        return [own, *([array.clone() for array in own] for _ in range(-(-3 * l2_bytes // footprint)))]

    def synchronize(self) -> None:
        if self.device == "cuda":
            import torch

            torch.cuda.synchronize()

    def error(self) -> float:
        """The relative error in the norm, over some rows or heads."""
        import numpy as np

        out = (self.out if self.device == "cpu" else self.out.cpu().numpy()).astype(np.float64)
        wide = [x.astype(np.float64) for x in self.host]
        if self.name == "matmul":
            exact, out = wide[0][:64] @ wide[1], out[:64]
        else:
            q, k, v = (x[0, 0] for x in wide)
            score = q @ k.T * self.sizes[-1] ** -0.5
            weight = np.exp(score - score.max(-1, keepdims=True))
            exact, out = weight / weight.sum(-1, keepdims=True) @ v, out[0, 0]
        return float(np.linalg.norm(out - exact) / np.linalg.norm(exact))


def tune(name: str, device: str, by: str, exhaustive: bool) -> dict[str, Any]:
    """Tunes in this process."""
    row = Row(name, device, by)
    kernel = row.tuned()
    row.synchronize()
    start = time.perf_counter()
    row.launch(kernel)
    row.synchronize()
    seconds = time.perf_counter() - start
    best = kernel.best_config
    found = {"row": name, "by": by, "seconds": seconds, "configs": len(row.configs), "winner": str(best),
             "error": row.error()}  # fmt: skip
    if found["error"] > 2e-2:
        raise SystemExit(f"{name} by {by}: wrong by {found['error']:.1e}")
    if exhaustive and device == "cuda":
        found |= race_all(row, kernel, best)
    return found


def race_all(row: Row, kernel: Any, best: Any) -> dict[str, Any]:
    """The winner's time over the fastest's, with all timed at length over rotating arrays."""
    import measure
    from device import CudaDevice
    from kiln import errors

    device, base = CudaDevice(), kernel.fn
    bursts, names = {}, {}
    for config in row.configs:
        launch = functools.partial(row.launch, base, **config.all_kwargs())
        try:
            launch()
            row.synchronize()
            start = time.perf_counter()
            for _ in range(5):
                launch()
            row.synchronize()
            us = (time.perf_counter() - start) / 5 * 1e6
        except (errors.KilnError, RuntimeError):
            continue
        name = str(config)
        names[name] = us
        bursts[name] = (launch, us)
    least = min(names.values())
    # Configurations that are far behind are not rivals.
    sets = row.sets(device.torch.cuda.get_device_properties(0).L2_cache_size)
    near = {
        name: sustained_burst(device, launch, us, sets) for name, (launch, us) in bursts.items() if us < 1.5 * least
    }
    times = {name: measure.summarize(values).median for name, values in measure.race(near, 3).items()}
    fastest = min(times, key=times.__getitem__)
    winner = times.get(str(best), float("inf"))
    place = sum(us < winner for us in times.values()) + 1
    return {"winner_us": winner, "fastest_us": times[fastest], "fastest": fastest, "place": place,
            "raced": len(times), "sustained_us": times, "behind": winner / times[fastest] - 1}  # fmt: skip


BURST_US = 50_000.0  # of one that counts, after measure.SETTLE_US of the same


def sustained_burst(device: Any, launch: Any, us: float, sets: list[list[Any]]) -> Any:
    """Times replays of a graph of launches when the GPU's clocks have settled under their load: microseconds of one."""
    import measure

    count = len(sets) * max(1, math.ceil(measure.GRAPH_US / us / len(sets)))

    def enqueue() -> None:
        for i in range(count):
            launch(arrays=sets[i % len(sets)])

    replay = device.capture(enqueue)
    replays, settle = (math.ceil(lasting / (count * us)) for lasting in (BURST_US, measure.SETTLE_US))
    return device.burst(replay, count, replays, settle)


def apart(name: str, device: str, by: str, limit: float) -> dict[str, Any]:
    """Tunes in a separate process, with empty caches."""
    with tempfile.TemporaryDirectory() as empty:
        places = {"XDG_CACHE_HOME": empty, "KILN_CACHE_DIR": f"{empty}/kiln", "TRITON_CACHE_DIR": f"{empty}/triton"}
        command = [sys.executable, __file__, "--one", name, "--by", by, "--device", device]
        try:
            run = subprocess.run(command, env={**os.environ, **places}, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return {"row": name, "by": by, "note": f"no answer within {limit:.0f} s"}
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    if run.returncode or not lines:
        said = (run.stderr.strip() or run.stdout.strip() or "nothing").splitlines()[-1]
        return {"row": name, "by": by, "note": said[:300]}
    return dict(json.loads(lines[-1]))


def describe(found: dict[str, Any], others: dict[str, dict[str, Any]]) -> str:
    if "note" in found:
        return f"{found['row']:10} {found['by']:7} {found['note']}"
    text = f"{found['row']:10} {found['by']:7} {found['seconds']:7.2f} s for {found['configs']} configurations"
    other = others.get("triton", {})
    if found["by"] == "kiln" and "seconds" in other:
        share = found["seconds"] / other["seconds"]
        text += f", {share:.2f} of Triton's (asked {SHARE:.2f}: {'yes' if share <= SHARE else 'NO'})"
    if "behind" in found:
        near = "yes" if found["behind"] <= WITHIN else "NO"
        text += f"; in bursts {found['winner_us']:.1f} us, {100 * found['behind']:+.1f} % (asked 2 %: {near})"
        text += f", place {found['place']} of {found['raced']}"
    text += f"; {found['winner']}"
    for name, us in sorted(found.get("sustained_us", {}).items(), key=lambda item: item[1])[:4]:
        text += f"\n    {us:8.1f} us  {name}"
    return text


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROWS), help="matmul, attention or matmul,attention")
    parser.add_argument("--by", default="triton,kiln", help="kiln, triton or triton,kiln")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one process")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--one", choices=ROWS, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.one:
        print(json.dumps(tune(options.one, options.device, options.by, options.by == "kiln")), flush=True)
        return 0
    every = []
    print(f"wall time of tuning with empty caches, {len(os.sched_getaffinity(0))} cores", flush=True)
    for name in options.rows.split(","):
        if name not in ROWS:
            parser.error(f"expected {' or '.join(ROWS)}, got {name}")
        found: dict[str, dict[str, Any]] = {}
        for by in options.by.split(","):
            found[by] = apart(name, options.device, by, options.limit)
            print(describe(found[by], found), flush=True)
        every += found.values()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(every, indent=1) + "\n")
    return 1 if any("note" in found for found in every) else 0


if __name__ == "__main__":
    raise SystemExit(main())
