"""Compiles ahead what cells of the sweep need, in persistent processes that each have their own context on the device.

    python bench/ahead.py '{"device": "cuda", "lock": "/tmp/…/quiet", "elements": 1000000}'

A line of JSON on stdin names a cell and its peers; a line on stdout gives the result. Compiled code stays in the
compilers' caches on disk. Inductor takes longest to find its code there, so for it the answer names the module that it
wrote; the measuring process imports that and compiles nothing. Inductor times its configurations on the device: one
process at a time, and none while the holder of the lock measures.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cells  # noqa: E402
from cases import Case, Unavailable  # noqa: E402
from cells import Answer  # noqa: E402


# ---- the device's quiet ----------------------------------------------------------------------------------------------
class Lock:
    """A file lock: its holder has the device to itself while it times something."""

    def __init__(self, path: str):
        self._file = open(path, "a")

    def __enter__(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)


# ---- Inductor's modules ----------------------------------------------------------------------------------------------
class Modules:
    """Records what Inductor writes during torch.compile: for each call of a module, the module and its arguments."""

    def __init__(self) -> None:
        from torch._inductor.codecache import PyCodeCache

        self.calls: list[tuple[str, str, list[int]]] = []
        load = PyCodeCache.load_by_key_path

        def loaded(key: str, path: str, *rest: Any, **named: Any) -> Any:
            module = load(key, path, *rest, **named)
            if hasattr(module, "call"):
                module.call = self._recorded(module.call, key, path)
            return module

        PyCodeCache.load_by_key_path = loaded  # type: ignore[method-assign, assignment]

    def _recorded(self, call: Callable[..., Any], key: str, path: str) -> Callable[..., Any]:
        def recorded(arguments: list[Any]) -> Any:
            self.calls.append((key, path, [argument.data_ptr() for argument in arguments]))
            return call(arguments)

        return recorded

    def of(self, launch: Callable[[], Any], arrays: dict[str, Any]) -> Answer:
        """Compiles by launching on arrays; returns which module is called with which of the arrays."""
        self.calls.clear()
        launch()
        if len(self.calls) != 1:
            raise RuntimeError(f"expected one module of Inductor, got {len(self.calls)}")
        key, path, places = self.calls[0]
        names = {value.data_ptr(): name for name, value in arrays.items() if hasattr(value, "data_ptr")}
        return {"key": key, "path": path, "arguments": [names[place] for place in places]}


def time_briefly(lock: Lock) -> None:
    """Makes Inductor time each configuration in a few milliseconds, alone on the device."""
    from torch._inductor.runtime import benchmarking

    kind = type(benchmarking.benchmarker)
    timed = benchmarking.InductorBenchmarker.benchmark_gpu

    def benchmark_gpu(self: Any, function: Callable[[], Any], **options: Any) -> Any:
        mode = {"return_mode": options["return_mode"]} if options.get("return_mode") in ("min", "all") else {}
        with lock:
            return timed(self, function, estimation_iters=3, memory_warmup_iters=5, benchmark_iters=40,
                         max_benchmark_duration=3, is_vetted_benchmarking=True, **mode)  # fmt: skip

    # The methods that it calls, for when the benchmarker is another class (Triton's).
    for name in ("L2_cache_size", "get_event_pairs", "get_event_pairs_min_timing"):
        if not hasattr(kind, name):
            setattr(kind, name, vars(benchmarking.InductorBenchmarker)[name])
    kind.benchmark_gpu = benchmark_gpu  # type: ignore[method-assign, assignment]


# ---- a process -------------------------------------------------------------------------------------------------------
class Compiler:
    """Handles the tasks of a process: {"cell": …, "peers": […], "tuned": …}."""

    def __init__(self, device: Any, standing: Any, modules: Modules | None):
        self.device, self.standing, self.modules = device, standing, modules

    def answer(self, task: dict[str, Any]) -> Answer:
        case = cells.named(task["cell"])
        found: Answer = {}
        for name in task["peers"]:
            try:
                found[name] = self.compile(case, name, task.get("tuned", True))
            except Unavailable as error:
                found[name] = {"status": "unavailable", "note": str(error)}
            except Exception as error:
                text = (str(error).strip() or repr(error)).splitlines()[0][:300]
                found[name] = {"status": "failed", "note": f"{type(error).__name__}: {text}"}
        return found

    def compile(self, case: Case, name: str, tuned: bool) -> Answer:
        runner = cells.CellRunner(case, self.device, cells.settings([name]), lambda _: None, self.standing, {}, sets=1)
        runner.tools.coordinate_descent = tuned
        peer = runner.makers()[name]()
        outs = runner.outputs(peer)
        arrays = runner.sets[0]
        if peer.prepare is not None:
            peer.prepare(arrays)

        def launch() -> None:
            peer.launch(arrays, outs[0] if outs else None)
            self.device.synchronize()

        found: Answer = {"status": "ok", "note": ""}
        if name == "inductor" and self.modules is not None:
            found |= self.modules.of(launch, arrays) | {"note": "" if tuned else UNTUNED}
        else:
            launch()
        return found


# Inductor tries neighbours of its best configuration only where it is close to Kiln.
UNTUNED = "no coordinate descent"


def main() -> int:
    job = json.loads(sys.argv[1])
    # Anything that libraries print goes to stderr: stdout belongs to the parent.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    os.nice(5)
    from device import Standing, make_device

    device = make_device(job["device"])
    modules = None
    if job["device"] == "cuda":
        modules = Modules()
        time_briefly(Lock(job["lock"]))
    compiler = Compiler(device, Standing(device, job["elements"]), modules)
    for line in sys.stdin:
        found = compiler.answer(json.loads(line))
        answers.write(json.dumps(found) + "\n")
        if any(answer["status"] == "failed" for answer in found.values()):
            device.synchronize()  # raises if the device is lost: the parent starts another process
    return 0


# ---- all of them -----------------------------------------------------------------------------------------------------
class Process:
    """One of the processes; it gets one task at a time."""

    def __init__(self, command: list[str], log: Any, environment: dict[str, str] | None = None):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                                      env=environment, start_new_session=True)  # fmt: skip

    def ask(self, task: dict[str, Any]) -> Answer | None:
        """The answer, or None if the process has died."""
        assert self.child.stdin is not None and self.child.stdout is not None
        try:
            self.child.stdin.write(json.dumps(task) + "\n")
            self.child.stdin.flush()
            line = self.child.stdout.readline()
            return json.loads(line) if line else None
        except (OSError, ValueError):
            return None

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()


class Pool:
    """Processes and the tasks that wait for them.

    Tasks of ``FIRST`` (quack's, whose import takes 10 s) go to a third of the processes, which take other tasks when
    there are none of these. ``answers`` yields each task with its answer, in the order of completion.
    """

    FIRST = "quack"

    def __init__(self, count: int, command: list[str], log: Any):
        self.answers: queue.Queue[tuple[dict[str, Any], Answer]] = queue.Queue()
        self.open = 0  # tasks without an answer yet
        self._command, self._log = command, log
        self._tasks: collections.deque[dict[str, Any]] = collections.deque()
        self._first: collections.deque[dict[str, Any]] = collections.deque()
        self._changed = threading.Condition()
        self._ended = False
        self._processes = [Process(command, log) for _ in range(count)]
        for i in range(count):
            takes_first = i < -(-count // 3)
            threading.Thread(target=self._serve, args=(i, takes_first), daemon=True).start()

    def ask(self, task: dict[str, Any], soon: bool = False) -> None:
        with self._changed:
            tasks = self._first if self.FIRST in task["peers"] else self._tasks
            (tasks.appendleft if soon else tasks.append)(task)
            self.open += 1
            self._changed.notify_all()

    def get(self, seconds: float) -> Iterator[tuple[dict[str, Any], Answer]]:
        """The answers available now, or else those that arrive within ``seconds``."""
        with contextlib.suppress(queue.Empty):
            item = self.answers.get(timeout=max(0.0, seconds))
            while True:
                self.open -= 1
                yield item
                item = self.answers.get_nowait()

    def _next(self, takes_first: bool) -> dict[str, Any] | None:
        with self._changed:
            while not self._ended:
                if takes_first and self._first:
                    return self._first.popleft()
                if self._tasks:
                    return self._tasks.popleft()
                self._changed.wait()
        return None

    def _serve(self, i: int, takes_first: bool) -> None:
        while (task := self._next(takes_first)) is not None:
            answer = self._processes[i].ask(task)
            if answer is None and not self._ended:  # an earlier task may have killed it: another process may succeed
                self._replace(i)
                answer = self._processes[i].ask(task)
            if self._ended:
                return
            if answer is None:
                self._replace(i)
                answer = {name: {"status": "failed", "note": "the process that compiles ended"}
                          for name in task["peers"]}  # fmt: skip
            self.answers.put((task, answer))

    def _replace(self, i: int) -> None:
        self._processes[i].end()
        with self._changed:
            if not self._ended:
                self._processes[i] = Process(self._command, self._log)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        for process in self._processes:
            process.end()


if __name__ == "__main__":
    sys.exit(main())
