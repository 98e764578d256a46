"""Kiln on the emulator: a pytest plugin, `pytest -p emulator.plugin` with this folder's parent on PYTHONPATH.

The driver is test/runtime/FakeCuda.cpp, whose memory is the host's; its launches come here. The kernel's code stays PTX
text (no ptxas), and host arrays go through the driver's memory, so every test of the language runs unchanged.
KILN_EMULATOR_ORDER: the seed of the order of warps and copies; its negative is the opposite order (machine.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = ROOT / os.environ.get("KILN_BUILD", "build") / "test" / "runtime" / "libkiln_fake_cuda.so"
# Before kiln is imported: a process chooses its driver once.
os.environ.update(KILN_LIBCUDA=str(LIBRARY), KILN_STAGE_ARRAYS="1", KILN_PTXAS="none")
target = os.environ.setdefault("KILN_TARGET", "sm_90a")
os.environ["FAKE_CUDA_CAPABILITY"] = target.strip("sm_a")

FAILED = 1  # CUDA_ERROR_INVALID_VALUE: the launch fails, the device is not lost


class Launch(ctypes.Structure):
    """FakeLaunch in FakeCuda.cpp."""

    _fields_ = [("name", ctypes.c_char_p), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                ("cluster", ctypes.c_uint), ("shared_bytes", ctypes.c_uint), ("programmatic", ctypes.c_int),
                ("arguments", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("stream", ctypes.c_void_p),
                ("device", ctypes.c_int), ("image", ctypes.c_char_p)]  # fmt: skip


class Emulator:
    """Machines by the text of their kernel, and the errors of launches."""

    def __init__(self) -> None:
        self.order = int(os.environ.get("KILN_EMULATOR_ORDER", "1"))
        self.library = ctypes.CDLL(str(LIBRARY))
        self.machines: dict[tuple[bytes, int], Any] = {}
        self.errors: list[str] = []
        self.launches = 0
        self.used: set[str] = set()  # names of the instructions in launched kernels
        self.change: tuple[int, int] | None = None
        self.scattered = False
        self.most: int | None = None
        self.skips = False
        self.callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Launch))(self._on_launch)
        self.library.fakeSetLaunch(self.callback)

    def _on_launch(self, launch: Any) -> int:
        try:
            self._run(launch.contents)
            return 0
        except BaseException as error:
            # An exception cannot pass through the driver: the launch fails, and the report says why.
            self.errors.append(f"{type(error).__name__}: {error}")
            return FAILED

    def _run(self, launch: Launch) -> None:
        from .machine import Machine
        from .memory import Global

        key = launch.image, self.order
        if key not in self.machines:
            if len(self.machines) > 32:
                self.machines.clear()
            self.machines[key] = Machine(launch.image.decode(), self.order)
        machine = self.machines[key]
        self.used.update(instruction.name for instruction in machine.instructions)
        cluster = machine.kernel.cluster
        if (cluster, machine.kernel.threads) != (launch.cluster, launch.block[0]) or launch.grid[0] % cluster:
            raise ValueError(
                f"launched as {list(launch.block)}, cluster {launch.cluster}, grid {list(launch.grid)}; "
                f"the kernel has {machine.kernel.threads} threads, cluster {cluster}"
            )
        machine.memory = Global()
        for address, size in self._allocations():
            machine.memory.add_raw(address, size)
        arguments = ctypes.string_at(launch.arguments, launch.bytes) if launch.bytes else b""
        grid = launch.grid[0] // cluster, launch.grid[1], launch.grid[2]
        if self.most is not None:
            grid = min(grid[0], self.most), *grid[1:]
        self.launches += 1
        machine.meanwhile, machine.scattered, machine.skips = self.change, self.scattered, self.skips
        machine.launch(grid, arguments, launch.shared_bytes)

    @contextlib.contextmanager
    def meanwhile(self, turn: int, number: int) -> Iterator[None]:
        """Another program writes a 32-bit number where the first argument points, before that turn of a warp."""
        self.change = turn, number
        try:
            yield
        finally:
            self.change = None

    @contextlib.contextmanager
    def any_program_first(self) -> Iterator[None]:
        """Programs run in an order seeded by the order of warps. One that waits for a later one then never ends."""
        self.scattered = True
        try:
            yield
        finally:
            self.scattered = False

    @contextlib.contextmanager
    def few_blocks(self, most: int, skips: bool = False) -> Iterator[None]:
        """At most `most` blocks (clusters) are launched, as on a GPU that holds no more, for kernels whose blocks loop
        over programs; the test driver has 132 processors, and otherwise each program has a block. `skips`: warps may
        skip phases of an mbarrier that others wait for, so that two waits of the same parity are no overrun."""
        self.most, self.skips = most, skips
        try:
            yield
        finally:
            self.most, self.skips = None, False

    def _allocations(self) -> list[tuple[int, int]]:
        count = self.library.fakeAllocations(None, None, 0)
        addresses, sizes = (ctypes.c_ulonglong * count)(), (ctypes.c_ulonglong * count)()
        self.library.fakeAllocations(addresses, sizes, count)
        return list(zip(addresses, sizes, strict=True))


emulator = Emulator()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    outcome = yield
    if emulator.errors and call.when == "call":
        outcome.get_result().sections.append(("emulator", "\n".join(emulator.errors)))
        emulator.errors.clear()


@pytest.fixture
def emulated() -> Emulator:
    """The emulator, for tests that choose the order or count launches."""
    return emulator
