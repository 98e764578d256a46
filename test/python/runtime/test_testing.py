"""Benchmarking and comparing results."""

from __future__ import annotations

import contextlib
import sys
import time

import kiln
import ml_dtypes
import numpy as np
import pytest
from kiln import errors, testing


def test_do_bench_measures_what_it_should():
    measured = testing.do_bench(lambda: time.sleep(0.002), warmup=5, rep=20)
    assert 2.0 <= measured < 20.0
    low, middle, high = testing.do_bench(lambda: None, rep=5, quantiles=[0.0, 0.5, 1.0])
    assert 0 <= low <= middle <= high
    times = testing.do_bench(lambda: time.sleep(0.001), warmup=1, rep=10, return_mode="all")
    assert isinstance(times, list) and all(t >= 1.0 for t in times)
    assert testing.do_bench(lambda: None, rep=1, quantiles=[0.5]) >= 0
    with pytest.raises(errors.LaunchError, match="return_mode"):
        testing.do_bench(lambda: None, return_mode="average")


class FakeTorch:
    """The part of torch that do_bench_cudagraph uses, with a clock that counts the calls a device would run."""

    def __init__(self):
        self.cuda, self.clock, self.graph_calls, self.log = self, 0.0, None, []

    def is_initialized(self):
        return True

    is_available = is_initialized

    def launch(self):
        if self.graph_calls is None:
            self.clock += 2.0
        else:
            self.graph_calls += 1

    def synchronize(self):
        self.log.append("synchronize")

    def Stream(self):
        return "side"

    @contextlib.contextmanager
    def stream(self, stream):
        self.log.append(stream)
        yield

    def Event(self, enable_timing):
        class Event:
            def record(event):
                event.at = self.clock

            def elapsed_time(event, end):
                return end.at - event.at

        return Event()

    def CUDAGraph(self):
        class Graph:
            def replay(graph):
                self.clock += 0.5 * graph.calls

        return Graph()

    @contextlib.contextmanager
    def graph(self, graph):
        self.graph_calls = 0
        yield
        graph.calls, self.graph_calls = self.graph_calls, None


def test_do_bench_cudagraph_measures_replays(monkeypatch):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    host = []

    def fn():
        host.append(1)
        torch.launch()

    # A direct call takes 2 ms; in a graph it takes half a millisecond.
    assert testing.do_bench_cudagraph(fn, rep=20) == 0.5
    assert torch.log[0] == "side" and len(host) == 1 + 1 + 5 + 10, "captured once, not replayed by the host"
    assert testing.do_bench_cudagraph(fn, rep=4, quantiles=[0.5, 0.2]) == [0.5, 0.5]
    assert testing.do_bench_cudagraph(fn, return_mode="all") == [0.5] * 10
    with pytest.raises(errors.LaunchError, match="do_bench_cudagraph: expected return_mode"):
        testing.do_bench_cudagraph(fn, return_mode="average")


def test_do_bench_cudagraph_without_a_gpu():
    assert 2.0 <= testing.do_bench_cudagraph(lambda: time.sleep(0.002), rep=10) < 20.0


def test_do_bench_drops_gradients():
    class Tensor:
        grad = 1

    tensor = Tensor()
    testing.do_bench(lambda: None, warmup=0, rep=0, grad_to_none=[tensor])
    assert tensor.grad is None


def test_assert_close():
    testing.assert_close(np.ones(3), np.ones(3) + 5e-3)
    testing.assert_close(np.ones(3).astype(ml_dtypes.bfloat16), np.ones(3, np.float32))
    testing.assert_close(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]))
    testing.assert_close(np.full(2, 100.0), np.full(2, 101.0), rtol=0.02, atol=0)
    with pytest.raises(AssertionError):
        testing.assert_close(np.ones(3), np.ones(3) + 2e-2)
    with pytest.raises(AssertionError, match="mine"):
        testing.assert_close(np.ones(3), np.zeros(3), err_msg="mine")


def test_perf_report(tmp_path, capsys):
    benchmark = testing.Benchmark(
        x_names=["n"], x_vals=[1, 2], line_arg="provider", line_vals=["a", "b"], line_names=["A", "B"],
        plot_name="squares", args={"scale": 10},
    )  # fmt: skip

    @testing.perf_report(benchmark)
    def measure(n, provider, scale):
        return (n * n * scale, 0.0, 1.0) if provider == "a" else n * scale

    rows = measure.run(print_data=True, save_path=str(tmp_path), return_df=True)
    rows = rows if isinstance(rows, list) else rows.to_dict("records")
    assert [(row["n"], row["A"], row["B"]) for row in rows] == [(1, 10, 10), (2, 40, 20)]
    assert "squares:" in capsys.readouterr().out
    assert (tmp_path / "squares.csv").read_text().splitlines()[0] == "n,A,A-min,A-max,B"


def test_host_helpers():
    assert kiln.cdiv(10, 4) == 3 and kiln.cdiv(8, 4) == 2
    assert [kiln.next_power_of_2(n) for n in (0, 1, 2, 3, 100)] == [1, 1, 2, 4, 128]
