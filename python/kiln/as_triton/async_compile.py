"""`triton.AsyncCompileMode`: inside it, `kernel.warmup(…)` submits the compile to an executor and returns at once."""

from __future__ import annotations

import concurrent.futures
import contextvars
from collections.abc import Callable, Hashable
from typing import Any

from kiln import knobs

__all__ = ["AsyncCompileMode", "FutureKernel", "active_mode"]

active_mode: contextvars.ContextVar[AsyncCompileMode | None] = contextvars.ContextVar("active_mode", default=None)


class FutureKernel:
    """Code that is being compiled. Any attribute but `result` waits for the `CompiledKernel` and is forwarded to it."""

    def __init__(self, future: concurrent.futures.Future[Any]):
        self.future = future

    def result(self, ignore_errors: bool = False) -> Any:
        """The compiled kernel; with `ignore_errors` None for one that does not compile."""
        try:
            return self.future.result()
        except Exception:
            if ignore_errors:
                return None
            raise

    def __getattr__(self, name: str) -> Any:
        if name == "future":
            raise AttributeError(name)
        return getattr(self.result(), name)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return self.result()[grid]


class AsyncCompileMode:
    """Inside the `with` block, `executor` runs the compiles that `kernel.warmup` asks for; its end waits for them all.

    >>> with triton.AsyncCompileMode(concurrent.futures.ThreadPoolExecutor()):
    ...     for block in (64, 128, 256):
    ...         kernel.warmup(tl.float32, 1000, BLOCK=block)
    """

    def __init__(self, executor: concurrent.futures.Executor, *, ignore_errors: bool = False):
        self.executor, self.ignore_errors = executor, ignore_errors
        self.future_kernels: dict[Hashable, FutureKernel] = {}

    def submit(self, key: Hashable, compile: Callable[[], Any]) -> FutureKernel:
        """Submits `compile`, once per key."""
        if key not in self.future_kernels:
            scope = knobs.current_scope()

            def work() -> Any:
                with knobs.enter_scope(scope):
                    return compile()

            self.future_kernels[key] = FutureKernel(self.executor.submit(work))
        return self.future_kernels[key]

    def __enter__(self) -> AsyncCompileMode:
        if active_mode.get() is not None:
            raise RuntimeError("Another AsyncCompileMode is already active")
        active_mode.set(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        active_mode.set(None)
        for kernel in list(self.future_kernels.values()):
            kernel.result(self.ignore_errors)
