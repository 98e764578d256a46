"""`kiln tune`: tunes ahead of time, into a file that ships with a package."""

from __future__ import annotations

import argparse
import functools
import sys
from typing import Any

from kiln import errors

EXAMPLES = """examples:
  kiln tune gemm --shapes llama-3-8b,granite-8b,qwen2.5-7b -o tuned.json       every linear layer, 1 to 8192 rows
  kiln tune gemm --shapes llama-3-8b:down,4096x11008 --rows 1,16,4096 --dtype bfloat16
  kiln tune softmax.py::softmax --signature "x=*fp32[M, N], y=*fp32[M, N], n=N" --grid M \\
      --shapes "M=128, N=1000; M=4096, N=4096" -o softmax.json

A file that exists is added to; what it has for the same shapes and machine is replaced. `kiln tune gemm` writes what
KILN_TUNED reads; a kernel reads its file by `@kiln.autotune(..., tuned="softmax.json")`.
"""


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = verbs.add_parser(
        "tune",
        help="tune ahead of time and write the results to a file to ship with a package",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("module", help="gemm, or FILE.py::NAME of a tuned kernel")
    parser.add_argument(
        "--shapes",
        default="",
        help="gemm: models, MODEL:LAYER, NxK or MxNxK; a kernel: values of the names in its signature",
    )
    parser.add_argument("--rows", default="", help="gemm: rows of each layer (default: 1, 2, 4, … 8192)")
    parser.add_argument("--dtype", default="float16", help="gemm: type of the operands (default: float16)")
    parser.add_argument("--count", type=int, default=12, help="gemm: plans to race (default: 12)")
    parser.add_argument("--signature", default="", help='a kernel: "x=*fp32[M, N], n=N, scale=0.5"')
    parser.add_argument("--grid", default="1", help='a kernel: "cdiv(n, BLOCK), 1" of arguments and configuration')
    parser.add_argument("--rep", type=float, help="maximum milliseconds of launches per configuration (default: 100)")
    parser.add_argument("--isolate", action="store_true", help="a kernel: launch in a separate process")
    parser.add_argument(
        "--same-numerics", action="store_true", help="a kernel: only configurations bit-identical to the first"
    )
    parser.add_argument("--list", action="store_true", help="show what would be tuned, without running it")
    parser.add_argument("-o", "--output", help="file to write (default: NAME.tuned.json)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Tunes and writes; returns the exit code."""
    from kiln.tune import table

    path, colons, name = options.module.partition("::")
    if not colons and path != "gemm":
        near = errors.near_match(path, ["gemm"])
        raise errors.UserError(
            f"expected gemm or FILE.py::NAME, got {options.module!r}" + (f"; did you mean {near!r}?" if near else "")
        )
    output = options.output or f"{name or path}.tuned.json"
    found = table.Table(table.read(output))
    work = _kernels(options, path, name) if colons else _products(options)
    done, code = 0, 0
    try:
        for title, tune in work:
            if options.list:
                print(title)
                continue
            try:
                choice, said = tune()
            except errors.ResourceError as problem:
                print(f"{title}: {problem}", file=sys.stderr)
                code = 1
                continue
            for line in said:
                print(f"{title}: {line}", file=sys.stderr)
            found.add(choice)
            done += 1
            # Written after each problem, so that a failure does not lose hours of tuning.
            found.write(output)
            shown = ", ".join(f"{key}={value}" for key, value in choice.choice.items())
            print(f"{title}: {choice.milliseconds:.4g} ms: {shown}", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted; {output} has what was tuned before", file=sys.stderr)
        return 130
    if done:
        print(f"{output}: {done} tuned, {len(found)} in all")
    return code


def _products(options: argparse.Namespace) -> Any:
    from kiln.tune import models
    from kiln.tune.ahead import Gemm

    try:
        rows = tuple(int(part) for part in options.rows.split(",")) if options.rows else models.ROWS
    except ValueError:
        raise errors.UserError(f"--rows: expected numbers separated by commas, got {options.rows!r}") from None
    wanted = models.shapes(options.shapes or ",".join(models.MODELS), rows)
    gemm = Gemm(options.dtype, options.rep or 100.0, options.count)
    for shape in wanted:
        yield f"gemm {'×'.join(map(str, shape))} {options.dtype}", functools.partial(gemm.tune, *shape)


def _kernels(options: argparse.Namespace, path: str, name: str) -> Any:
    from kiln.cli.compile import find_kernel, load_module
    from kiln.runtime.autotuner import Autotuner
    from kiln.tune import ahead

    module = load_module(path)
    find_kernel(module, path, name)  # says what there is, if this is not
    tuner = getattr(module, name)
    while tuner is not None and not isinstance(tuner, Autotuner) and hasattr(tuner, "fn"):
        tuner = tuner.fn
    if not isinstance(tuner, Autotuner):
        raise errors.UserError(f"expected a kernel under @kiln.autotune, got {path}::{name}")
    tuner.tuned, tuner.isolate = None, tuner.isolate or options.isolate
    tuner.same_numerics = tuner.same_numerics or options.same_numerics
    if options.rep:
        tuner.rep_ms = options.rep
    for values in ahead.parse_shapes(options.shapes):
        title = f"{name} {', '.join(f'{key}={value}' for key, value in values.items())}".strip()
        yield title, functools.partial(_tune, tuner, options, values)


def _tune(tuner: Any, options: argparse.Namespace, values: dict[str, Any]) -> tuple[Any, list[str]]:
    from kiln.tune import ahead

    arguments = ahead.parse_arguments(options.signature, tuner, values)

    def grid(meta: dict[str, Any]) -> tuple[int, ...]:
        known = {key: value for key, value in meta.items() if isinstance(value, (int, float))}
        found = ahead.evaluate(f"({options.grid},)", {**known, **values})
        return tuple(int(side) for side in found)

    try:
        choice, tuning = ahead.tune_kernel(tuner, arguments, grid)
    except errors.LaunchError as problem:
        # The launch has no line in the user's code.
        details = f"\n{problem.details}" if problem.details else ""
        raise errors.UserError(f"--signature and --grid: {problem.sentence()}{details}") from None
    return choice, [f"{config} is left out: {problem}" for config, problem in tuning.refused.items()]
