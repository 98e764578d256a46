"""Measuring and comparing: `do_bench`, `do_bench_cudagraph`, `assert_close`, and reports over a range of sizes."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kiln.errors import LaunchError

_MODES: dict[str, Callable[[list[float]], Any]] = {
    "min": min,
    "max": max,
    "mean": statistics.fmean,
    "median": statistics.median,
    "all": list,
}


def _quantile(ordered: Sequence[float], q: float) -> float:
    """Linear interpolation between the two nearest ranks."""
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Milliseconds that `fn()` takes after a warm-up: by the GPU's clock if it launches there (events in the current
    stream around each run), else by the wall clock. Caches are not flushed between runs.

    warmup, rep    about how many milliseconds to spend warming up and measuring
    grad_to_none   tensors whose `.grad` is dropped before each run
    quantiles      return these quantiles (a list; a number if there is one) instead of `return_mode`
    return_mode    "min", "max", "mean", "median" or "all" (a list of every run)

    >>> kiln.testing.do_bench(lambda: sum(range(1000)), rep=10) > 0
    True
    """
    if return_mode not in _MODES:
        raise LaunchError(f"do_bench: expected return_mode to be one of {', '.join(_MODES)}, got {return_mode!r}")

    def run() -> float:
        for tensor in grad_to_none or ():
            tensor.grad = None
        start = time.perf_counter_ns()
        fn()
        return (time.perf_counter_ns() - start) / 1e6

    from kiln import _kiln

    before = _kiln.cuda_launches()
    fn()
    if _kiln.cuda_launches() != before or _torch_uses_cuda():
        times = _times_on_gpu(fn, warmup, rep, list(grad_to_none or ()))
    else:
        estimate = max(min(run() for _ in range(3)), 1e-4)
        for _ in range(max(1, int(warmup / estimate))):
            run()
        times = [run() for _ in range(max(1, int(rep / estimate)))]
    if quantiles is not None:
        ordered = sorted(times)
        found = [_quantile(ordered, q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    return _MODES[return_mode](times)


def _torch_uses_cuda() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


def _times_on_gpu(fn: Callable[[], Any], warmup: float, rep: float, tensors: list[Any]) -> list[float]:
    from kiln import cuda

    def queue(runs: int) -> list[tuple[Any, Any]]:
        marks = [(cuda.Event(), cuda.Event()) for _ in range(runs)]
        for start, end in marks:
            for tensor in tensors:
                tensor.grad = None
            start.record()
            fn()
            end.record()
        cuda.synchronize()
        return marks

    cuda.synchronize()
    start = time.perf_counter()
    queue(5)
    estimate = max((time.perf_counter() - start) * 1e3 / 5, 1e-3)
    queue(min(max(1, int(warmup / estimate)), 10000))
    marks = queue(min(max(1, int(rep / estimate)), 10000))
    return [end.elapsed_since(start) for start, end in marks]


def do_bench_cudagraph(
    fn: Callable[[], Any],
    rep: float = 20,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Milliseconds that the GPU launches of `fn()` take when they are replayed from a CUDA graph, which excludes the
    host's time. A function that launches on no GPU is measured by `do_bench`.

    torch captures the graph on a separate stream; the host code of `fn` runs once.

    rep            about how many milliseconds to measure
    grad_to_none, quantiles, return_mode    as for `do_bench`

    >>> kiln.testing.do_bench_cudagraph(lambda: sum(range(1000)), rep=10) > 0
    True
    """
    if return_mode not in _MODES:
        raise LaunchError(
            f"do_bench_cudagraph: expected return_mode to be one of {', '.join(_MODES)}, got {return_mode!r}"
        )
    from kiln import _kiln

    before = _kiln.cuda_launches()
    fn()
    if _kiln.cuda_launches() == before and not _torch_uses_cuda():
        return do_bench(fn, rep, rep, grad_to_none, quantiles, return_mode)
    torch = sys.modules.get("torch")
    if torch is None:
        raise LaunchError(
            "do_bench_cudagraph: expected torch to be imported (because it captures the graph, on a stream of its own),"
            " got a launch without it; measure with do_bench"
        )
    times = _times_of_graph(torch, fn, rep, list(grad_to_none or ()))
    if quantiles is not None:
        ordered = sorted(times)
        found = [_quantile(ordered, q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    return _MODES[return_mode](times)


def _times_of_graph(torch: Any, fn: Callable[[], Any], rep: float, tensors: list[Any]) -> list[float]:
    def run() -> None:
        for tensor in tensors:
            tensor.grad = None
        fn()

    def timed(runs: int, what: Callable[[], Any]) -> float:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(runs):
            what()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / runs

    with torch.cuda.stream(torch.cuda.Stream()):
        run()
        estimate = max(timed(5, run), 1e-3)
        calls = min(max(1, int(rep / estimate)), 10000)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                run()
        torch.cuda.synchronize()
        graph.replay()
        return [timed(1, graph.replay) / calls for _ in range(10)]


def _as_numpy(value: Any) -> Any:
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if "bfloat16" in str(value.dtype) or "float8" in str(value.dtype):
            value = value.float()
        value = value.numpy()
    array = np.asarray(value)
    # Types numpy does not know are compared as float32, which holds each of them exactly.
    narrow = array.dtype.kind == "V" or ("float" in str(array.dtype) and array.itemsize < 4)
    return array.astype(np.float32) if narrow else array


def assert_close(x: Any, y: Any, atol: float | None = None, rtol: float | None = None, err_msg: str = "") -> None:
    """Raises AssertionError unless |x - y| <= atol + rtol * |y| everywhere; NaN equals NaN.

    Arrays of any library, or numbers. `atol` is 1e-2 and `rtol` 0 if not given.

    >>> kiln.testing.assert_close([1.0, 2.0], [1.0, 2.001])
    """
    import numpy as np

    np.testing.assert_allclose(
        _as_numpy(x),
        _as_numpy(y),
        atol=1e-2 if atol is None else atol,
        rtol=0.0 if rtol is None else rtol,
        equal_nan=True,
        err_msg=err_msg,
    )


@dataclass
class Benchmark:
    """The description of a plot for `perf_report`: one line for each of `line_vals`, over the values of `x_names`.

    x_vals    a value for every name, or a tuple with one for each
    line_arg  the parameter that tells the lines apart
    args      further arguments, the same for all
    """

    x_names: list[str]
    x_vals: list[Any]
    line_arg: str
    line_vals: list[Any]
    line_names: list[str]
    plot_name: str
    args: dict[str, Any]
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    styles: list[tuple[str, str]] | None = None


@dataclass
class Mark:
    """A benchmark function with its `Benchmark`s. Made by `perf_report`."""

    fn: Callable[..., Any]
    benchmarks: Benchmark | list[Benchmark]
    results: list[list[dict[str, Any]]] = field(default_factory=list)

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str = "",
        return_df: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Measures; prints a table, writes `<save_path>/<plot_name>.csv` (and `.png`, with matplotlib) if asked.

        With `return_df`, returns the rows: a pandas DataFrame where pandas is installed, else a list of dictionaries;
        one for a single benchmark, a list of them otherwise.
        """
        single = isinstance(self.benchmarks, Benchmark)
        benchmarks: list[Any] = [self.benchmarks] if single else list(self.benchmarks)  # type: ignore[arg-type]
        self.results = []
        for benchmark in benchmarks:
            rows = self._measure(benchmark, kwargs)
            self.results.append(rows)
            if print_data:
                print(f"{benchmark.plot_name}:\n{_table(rows)}")
            if save_path:
                os.makedirs(save_path, exist_ok=True)
                with open(os.path.join(save_path, benchmark.plot_name + ".csv"), "w", encoding="utf-8") as file:
                    file.write(_csv(rows))
            if show_plots or save_path:
                _plot(benchmark, rows, save_path, show_plots)
        if not return_df:
            return None
        frames = [_frame(rows) for rows in self.results]
        return frames[0] if single else frames

    def _measure(self, benchmark: Benchmark, kwargs: dict[str, Any]) -> list[dict[str, Any]]:
        rows = []
        for value in benchmark.x_vals:
            values = value if isinstance(value, (tuple, list)) else [value] * len(benchmark.x_names)
            if len(values) != len(benchmark.x_names):
                raise LaunchError(
                    f"perf_report {benchmark.plot_name!r}: expected {len(benchmark.x_names)} values for "
                    f"{benchmark.x_names}, got {value!r}"
                )
            x_args = dict(zip(benchmark.x_names, values, strict=False))
            row: dict[str, Any] = dict(x_args)
            for line, name in zip(benchmark.line_vals, benchmark.line_names, strict=False):
                measured = self.fn(**x_args, **{benchmark.line_arg: line}, **benchmark.args, **kwargs)
                # A function may return (value, low, high): the columns of the spread follow that of the value.
                if isinstance(measured, (tuple, list)):
                    row[name], row[f"{name}-min"], row[f"{name}-max"] = measured
                else:
                    row[name] = measured
            rows.append(row)
        return rows


def perf_report(benchmarks: Benchmark | list[Benchmark]) -> Callable[[Callable[..., Any]], Mark]:
    """Makes a function of the sizes and the line's parameter a benchmark; `.run(print_data=True)` measures it."""
    return lambda fn: Mark(fn, benchmarks)


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "(nothing)"
    lines = [list(rows[0]), *([_text(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=False)) for line in lines)


def _csv(rows: list[dict[str, Any]]) -> str:
    lines = [",".join(rows[0])] if rows else []
    lines += [",".join(str(value) for value in row.values()) for row in rows]
    return "\n".join(lines) + "\n"


def _frame(rows: list[dict[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)


def _plot(benchmark: Benchmark, rows: list[dict[str, Any]], save_path: str, show: bool) -> None:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return
    figure, axes = plt.subplots()
    x_name = benchmark.x_names[0]
    for i, name in enumerate(benchmark.line_names):
        color, style = benchmark.styles[i] if benchmark.styles else (None, None)
        x = [row[x_name] for row in rows]
        axes.plot(x, [row[name] for row in rows], label=name, color=color, linestyle=style)
        if rows and f"{name}-min" in rows[0]:
            low, high = ([row[f"{name}-{end}"] for row in rows] for end in ("min", "max"))
            axes.fill_between(x, low, high, alpha=0.15, color=color)
    axes.legend()
    axes.set_xlabel(benchmark.xlabel or x_name)
    axes.set_ylabel(benchmark.ylabel)
    axes.set_xscale("log" if benchmark.x_log else "linear")
    axes.set_yscale("log" if benchmark.y_log else "linear")
    if save_path:
        figure.savefig(os.path.join(save_path, benchmark.plot_name + ".png"))
    if show:
        plt.show()
    plt.close(figure)
