"""Tuning ahead of time: what `kiln tune` does for the library's products and for any tuned kernel, into a table."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kiln import errors
from kiln.tune import clock, compiling
from kiln.tune.configs import Config
from kiln.tune.progress import Progress
from kiln.tune.race import Disqualified, Outcome, Rules, race
from kiln.tune.table import Choice
from kiln.tune.tuning import Tuning

log = logging.getLogger("kiln.autotune")

# Allowed relative difference, in norm, from the default plan's result: reordered sums differ by much less.
ALLOWED = 2e-2
DTYPES = ("float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2")


# ---- choices of a table -------------------------------------------------------------------------------------------
def choice_of(kernel: str, device: Mapping[str, Any], code: str, of: Mapping[str, Any], config: Config,
              milliseconds: float) -> Choice:  # fmt: skip
    return Choice(kernel, dict(device), dict(of), config.all_kwargs(), milliseconds, code)


# ---- the library's products ------------------------------------------------------------------------------------------
class Gemm:
    """Plans for `a @ w.T`, one product after the other."""

    def __init__(self, dtype: str, rep: float = 100.0, count: int = 12):
        if dtype not in DTYPES:
            near = errors.near_match(dtype, DTYPES)
            raise errors.UserError(
                f"--dtype: expected one of {', '.join(DTYPES)}, got {dtype!r}"
                + (f"; did you mean {near!r}?" if near else "")
            )
        self.dtype, self.rep, self.count = dtype, rep, count
        self.on_gpu = False

    def tune(self, m: int, n: int, k: int) -> tuple[Choice, list[str]]:
        """The fastest plan, and the outcome of the others."""
        self.on_gpu = _has_gpu()
        from kiln.kernels.gemm import configs, matmul, tuned
        from kiln.kernels.machine import machine_of

        a, w, out = self._arrays(m, n, k)
        machine = machine_of(a)
        about: dict[str, Any] = {
            "streams": self.dtype in ("float32", "float16", "bfloat16"),
            "fetched": machine.gpu,
            "out_bytes": _out_bytes(self.dtype),
        }
        problem = configs.Problem(m, n, k, dtype=self.dtype, **about)
        plans = configs.candidates(m, n, k, self.dtype, machine, self.count, **about)
        said: list[str] = []

        def launch(plan: Any, a: Any = a, w: Any = w, out: Any = out) -> None:
            matmul(a, w.T, out=out, plan=plan)

        name = f"gemm {m}×{n}×{k}"
        with Progress(name) as progress:
            # Launches compile the plans: here all at once.
            codes, refused = compiling.compile_all(
                plans, launch, lambda done: progress.compiling(done, len(plans)), None if self.on_gpu else 1
            )
            said += [f"{plan} is left out: {_first_line(problem)}" for plan, problem in refused.items()]
            samplers = self._samplers(list(codes), launch, (a, w, out))
            right = self._result(plans[0], launch, out)
            for plan in list(samplers):
                wrong = self._wrong(self._result(plan, launch, out), right)
                if wrong:
                    said.append(f"{plan} is left out: {wrong}")
                    del samplers[plan]
            start = time.perf_counter()

            def watch(outcome: Outcome[Any]) -> None:
                if outcome.winner is not None:
                    left = sum(not standing.out for standing in outcome.standings.values())
                    best = outcome.standings[outcome.winner]
                    progress.racing(outcome.rounds, left, len(samplers), best.name, best.time)

            if not samplers:
                raise errors.UserError(f"{name}: no plan can be launched: {'; '.join(said)}")
            rules = Rules(seconds=self.rep * len(samplers) / 1e3)
            outcome = race(samplers, rules, watch, lambda: time.perf_counter() - start)
        if outcome.why == "interrupted":
            raise KeyboardInterrupt
        if outcome.winner is None:
            raise errors.UserError(f"{name}: no plan can be launched")
        for plan, standing in outcome.standings.items():
            log.info("%s: %s takes %.4f ms", name, plan, standing.time)
        best = outcome.standings[outcome.winner]
        return tuned.entry(problem, machine, best.name, _rounded(best.time)), said

    def _arrays(self, m: int, n: int, k: int) -> tuple[Any, Any, Any]:
        if self.on_gpu:
            import torch  # type: ignore[import-not-found]

            kind = getattr(torch, self.dtype)
            a, w = (torch.randn(shape, device="cuda", dtype=torch.float32).to(kind) for shape in ((m, k), (n, k)))
            return a, w, torch.empty(m, n, device="cuda", dtype=torch.bfloat16 if kind.itemsize == 1 else kind)
        import numpy as np

        from kiln.kernels.operator import Spec, empty

        rng = np.random.default_rng(0)
        a, w = (rng.standard_normal(shape, dtype=np.float32) for shape in ((m, k), (n, k)))
        narrow = self.dtype.startswith("float8")
        out = empty(Spec((m, n), "bfloat16" if narrow else self.dtype), a)
        kind = empty(Spec((1,), self.dtype), a).dtype
        return a.astype(kind), w.astype(kind), out

    def _samplers(
        self, plans: Sequence[Any], launch: Callable[..., None], arrays: tuple[Any, Any, Any]
    ) -> dict[Any, Callable[[], float]]:
        import functools

        if not self.on_gpu:
            return {plan: clock.WallClock(functools.partial(launch, plan)) for plan in plans}
        import torch

        from kiln import cuda

        sets = clock.Rotation(arrays, cuda.get_device_properties().l2_bytes, torch).sets(arrays)

        def sampler(plan: Any) -> Callable[[], float]:
            inner = clock.GraphClock([functools.partial(launch, plan, *values) for values in sets], torch)

            def sample() -> float:
                try:
                    return inner()
                except errors.ResourceError as problem:
                    raise Disqualified(str(problem)) from problem

            return sample

        return {plan: sampler(plan) for plan in plans}

    def _result(self, plan: Any, launch: Callable[..., None], out: Any) -> Any:
        import numpy as np

        from kiln.testing import _as_numpy

        launch(plan)
        return _as_numpy(out).astype(np.float64)

    @staticmethod
    def _wrong(found: Any, right: Any) -> str:
        import numpy as np

        error = float(np.linalg.norm(found - right) / max(float(np.linalg.norm(right)), 1e-30))
        return "" if error <= ALLOWED else f"its result differs from the default plan's by {error:.1e} in norm"


def _has_gpu() -> bool:
    from kiln import cuda, knobs
    from kiln.runtime import placement

    if not (cuda.is_available() and (knobs.target == "cpu" or placement.names_gpu(knobs.target))):
        return False
    try:
        import torch
    except ImportError:
        raise errors.UserError(
            "kiln tune: expected torch to be installed (because it holds the arrays and captures the graphs), "
            "found none"
        ) from None
    return bool(torch.cuda.is_available())


def _out_bytes(dtype: str) -> int:
    """Bytes of an element of the result; for fp8 operands, the result is bfloat16."""
    return 4 if dtype == "float32" else 2


def _first_line(problem: BaseException) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]


def _rounded(milliseconds: float) -> float:
    """Rounds to four digits: more would be noise, and needless changes in a file under version control."""
    return float(f"{milliseconds:.4g}")


# ---- a user's kernel -------------------------------------------------------------------------------------------------
def tune_kernel(tuner: Any, arguments: Mapping[str, Any], grid: Any) -> tuple[Choice, Any]:
    """The fastest configuration for one launch, and the tuning."""
    named = dict(arguments)
    key = tuner._key((), named)
    tuning = Tuning(tuner, key, (), named, grid)
    best = tuning.run()
    if tuning.interrupted:
        raise KeyboardInterrupt
    milliseconds = _rounded(tuning.measured[best][0])
    return choice_of(tuner.base_fn.__qualname__, tuning.device_facts(), tuning.source(), tuning.key_facts(), best,
                     milliseconds), tuning  # fmt: skip


def parse_arguments(signature: str, tuner: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, from `x=*fp32[M, N], n=M*N, scale=0.5`: arrays with their shapes, expressions of `values`."""
    from kiln.cli.signature import split

    found: dict[str, Any] = {}
    for part in split(signature):
        name, equals, text = (piece.strip() for piece in part.partition("="))
        if not equals or name not in tuner.arg_names:
            near = errors.near_match(name, tuner.arg_names)
            raise errors.UserError(
                f"--signature: expected NAME=VALUE of a parameter, got {part!r}"
                + (f"; did you mean {near!r}?" if near and near != name else "")
            )
        if not text.startswith("*"):
            found[name] = evaluate(text, values)
            continue
        kind, bracket, shape = text[1:].partition("[")
        if not bracket or not shape.endswith("]"):
            raise errors.UserError(f"--signature: expected *TYPE[SIDE, …] for {name!r}, got {text!r}")
        sides = tuple(int(evaluate(side, values)) for side in split(shape[:-1]))
        found[name] = _array(kind.strip(), sides)
    return found


def evaluate(text: str, values: Mapping[str, Any]) -> Any:
    """Evaluates an expression from the command line, with `values` as variables."""
    import kiln

    known = {"cdiv": kiln.cdiv, "next_power_of_2": kiln.next_power_of_2, "min": min, "max": max, **values}
    try:
        return eval(text, {"__builtins__": {}}, known)
    except Exception as problem:
        names = f"of {', '.join(values)}" if values else "without names (because --shapes gives none a value)"
        raise errors.UserError(f"expected an expression {names}, got {text!r} ({problem})") from None


def _array(kind: str, shape: tuple[int, ...]) -> Any:
    """An array of random numbers of a type, on the GPU if kernels would run on one."""
    if any(side < 0 for side in shape):
        raise errors.UserError(f"--signature: expected an array's sides to be 0 or more, got {shape}")
    from kiln.kernels.operator import Spec, empty

    long = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "i1": "bool",
            "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2"}  # fmt: skip
    name = long.get(kind) or ("uint" + kind[1:] if kind[:1] == "u" else "int" + kind[1:])
    import numpy as np

    if _has_gpu():
        import torch

        whole = name.startswith(("int", "uint", "bool"))
        values = torch.zeros(shape, device="cuda") if whole else torch.randn(shape, device="cuda")
        return values.to(getattr(torch, name))
    try:
        made = empty(Spec(shape, name), np.empty(0))
    except (TypeError, AttributeError, ValueError):
        raise errors.UserError(f"--signature: unknown type of elements {kind!r}") from None
    made[...] = 0 if made.dtype.kind in "iub" else np.random.default_rng(0).standard_normal(shape).astype(made.dtype)
    return made


def parse_shapes(text: str) -> Iterator[dict[str, Any]]:
    """`M=16, N=1024; M=4096, N=1024`: the values of one tuning after the other."""
    for group in text.split(";") if text.strip() else [""]:
        values: dict[str, Any] = {}
        for part in filter(None, (part.strip() for part in group.split(","))):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals or not name.isidentifier():
                raise errors.UserError(f"--shapes: expected NAME=VALUE, got {part!r}")
            values[name] = evaluate(value, values)
        yield values
