"""Samples taken in another process, where a configuration that hangs, faults or runs out of memory does no harm.

The process is a fresh Python (a driver context does not survive a fork, nor does one that a fault has destroyed). It
receives code, not kernels: the binary and metadata of each configuration, the specialisation without its constants, and
the arguments. The arrays' memory is passed as in-memory files, which the process maps privately, with inaccessible
addresses around them: each process sees the original contents, and writes just outside the arrays fault.

`Isolation` is this side, `serve` the other. They exchange tuples through a dedicated pipe. A timeout or the end of the
process is attributed to the configuration being sampled; if that one had given samples before, it is first tried again
alone, in a new process, as another configuration may have caused the damage.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

from kiln import errors, knobs
from kiln.runtime.refusals import Refusals
from kiln.tune.arguments import copy_of, fill
from kiln.tune.race import Disqualified

if TYPE_CHECKING:
    from kiln import _kiln
    from kiln.runtime.interface import CodeRequest

# Seconds for a process to start and import everything, and to receive code.
START_TIMEOUT = 120.0
# Switches that the other side reads.
SWITCHES = ("num_threads", "libcuda", "stage_arrays", "target", "specializations")
ALIGNMENT = 64
# Inaccessible addresses before and after each array, in bytes; they cost no memory.
GUARD = 64 << 20


# ---- arguments, as they are sent -------------------------------------------------------------------------------------
class Array(NamedTuple):
    """An array: its memory and its position there. `kind`: "numpy", or the device of a torch tensor."""

    kind: str
    memory: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any


class Descriptor(NamedTuple):
    """A tensor descriptor."""

    base: Array
    fields: dict[str, Any]


class Memory(NamedTuple):
    """Bytes in an unnamed file, placed from `offset` so that they end at a page boundary if alignment permits."""

    file: int
    offset: int
    size: int


class Sender:
    """Encodes arguments of launches for the other side; sends their memory once."""

    def __init__(self, kernel: str):
        self.kernel = kernel
        self.memories: list[Memory] = []
        self._known: dict[tuple[str, int], int] = {}
        self._held: list[Any] = []

    def close(self) -> None:
        for memory in self.memories:
            os.close(memory.file)
        self.memories.clear()

    def send(self, name: str, value: Any, parameter: Any = None) -> Any:
        """`parameter`: its specialisation. Structs become tuples, without their constants."""
        if parameter is not None and parameter.kind == "constexpr":
            return None
        if isinstance(value, tuple):
            items = parameter.items if parameter is not None else [None] * len(value)
            return tuple(self.send(f"{name}.{i}", v, p) for i, (v, p) in enumerate(zip(value, items, strict=True)))
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if type(value).__module__.split(".")[0] == "numpy" and not hasattr(value, "shape"):
            return value.item()
        if hasattr(value, "block_shape") and hasattr(value, "base"):
            fields = {key: getattr(value, key) for key in ("shape", "strides", "block_shape", "padding")}
            return Descriptor(self.send(name, value.base), fields)
        if hasattr(value, "untyped_storage") and hasattr(value, "storage_offset"):
            storage = value.untyped_storage()
            device = str(value.device)
            memory = self._memory((device, storage.data_ptr()), lambda: _bytes_of_storage(storage), storage.data_ptr())
            return Array(device, memory, value.storage_offset() * value.element_size(), tuple(value.shape),
                         tuple(value.stride()), value.dtype)  # fmt: skip
        import numpy as np

        if isinstance(value, np.ndarray):
            return self._send_numpy(value)
        raise errors.LaunchError(
            f"expected arrays of numpy or torch (because isolate=True sends them to another process), got a value of"
            f" type {type(value).__name__}",
            kernel=self.kernel,
            argument=name,
        )

    def _send_numpy(self, array: Any) -> Array:
        import numpy as np

        low, high = np.lib.array_utils.byte_bounds(array) if array.size else (array.ctypes.data, array.ctypes.data)
        memory = self._memory(("numpy", low), lambda: ctypes.string_at(low, high - low), low, high - low)
        self._held.append(array)
        return Array("numpy", memory, array.ctypes.data - low, array.shape, array.strides, array.dtype)

    def _memory(self, key: tuple[str, int], read: Callable[[], bytes], address: int, size: int = -1) -> int:
        known = self._known.get(key)
        if known is not None and (size < 0 or self.memories[known].size >= size):
            return known
        content = read()
        offset = -len(content) % mmap.PAGESIZE
        # Keep the alignment: code may rely on it.
        offset -= (offset - address) % ALIGNMENT
        if offset < 0:
            offset += mmap.PAGESIZE
        file = os.memfd_create("kiln-tune")
        os.truncate(file, max(mmap.PAGESIZE, -(-(offset + len(content)) // mmap.PAGESIZE) * mmap.PAGESIZE))
        os.pwrite(file, content, offset)
        self.memories.append(Memory(file, offset, len(content)))
        self._known[key] = len(self.memories) - 1
        return self._known[key]


def _bytes_of_storage(storage: Any) -> bytes:
    on_host = storage.cpu()
    return ctypes.string_at(on_host.data_ptr(), on_host.nbytes())


def bind(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the jit function's parameters and of launch options in a launch of `fn`, which may wrap it."""
    values = dict(kwargs)
    while hasattr(fn, "fn") and hasattr(fn, "values") and hasattr(fn, "arg_names"):
        for name, rule in fn.values.items():
            values[name] = rule({**dict(zip(fn.arg_names, args, strict=False)), **values})
        fn = fn.fn
    bound = {**dict(zip(fn.arg_names, args, strict=False)), **values}
    return {**{p.name: p.default for p in fn.params if p.has_default and p.name not in bound}, **bound}


def evaluate_grid(grid: Any, bound: Mapping[str, Any]) -> tuple[int, ...]:
    found = grid(dict(bound)) if callable(grid) else grid
    return tuple(int(side) for side in found) if isinstance(found, (tuple, list)) else (int(found),)


class Job(NamedTuple):
    """A configuration to sample."""

    binary: bytes
    metadata: str
    name: str
    written: tuple[Any, ...]
    found: tuple[Any, ...]
    strides: tuple[list[str], list[str]]
    disjoint: tuple[bool, ...]
    device: int
    grid: tuple[int, ...]
    arguments: dict[str, Any]
    reset_to_zero: tuple[tuple[Any, ...], ...]
    restore_value: tuple[tuple[Any, ...], ...]
    warmup: float


def path_of(bound: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    """The path of argument `x`, or of field `x.data`, in arguments whose structs have become tuples."""
    first, *fields = name.split(".")
    path, value = [first], bound[first]
    for field in fields:
        path.append(value._fields.index(field))
        value = getattr(value, field)
    return tuple(path)


def make_job(
    compiled: Any,
    grid: Any,
    bound: Mapping[str, Any],
    sender: Sender,
    reset_to_zero: Sequence[str] = (),
    restore_value: Sequence[str] = (),
    warmup: float = 0.0,
) -> Job:
    """The description of a compiled configuration for the other side. Constants are in its code, and are not sent."""

    written, found, arguments = [], [], {}
    for parameter, special in zip(compiled.kernel.params, compiled.parameters, strict=True):
        found.append(special._replace(value=None, items=(), fields=(), cls=None))
        if special.kind == "constexpr":
            written.append(parameter._replace(default=None, is_constexpr=True))
        else:
            written.append(parameter._replace(default=None))
            arguments[parameter.name] = sender.send(parameter.name, bound[parameter.name], special)
    artifact = compiled.artifact
    return Job(
        artifact.binary, artifact.metadata, compiled.name, tuple(written), tuple(found),
        compiled.kernel.find_strides(), tuple(compiled._disjoint), compiled.device, evaluate_grid(grid, bound),
        arguments, tuple(path_of(bound, name) for name in reset_to_zero),
        tuple(path_of(bound, name) for name in restore_value), warmup,
    )  # fmt: skip


# ---- this side -------------------------------------------------------------------------------------------------------
class _Process:
    """The other side, started."""

    def __init__(self, sender: Sender, memory_limit: int):
        ours, theirs = socket.socketpair()
        self.connection = Connection(ours.detach())
        code = (
            f"import sys; sys.path[:] = {sys.path!r}\n"
            f"from kiln.tune.isolate import serve; serve({theirs.fileno()}, {memory_limit})"
        )
        files = [theirs.fileno(), *(memory.file for memory in sender.memories)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, pass_fds=files, start_new_session=True,
        )  # fmt: skip
        theirs.close()
        self.loaded: set[Any] = set()
        self.sampled: set[Any] = set()

    def ask(self, request: tuple[Any, ...], seconds: float) -> Any:
        """The answer; raises `_Died` where there is none."""
        try:
            self.connection.send(request)
            if not self.connection.poll(seconds):
                raise _Died(f"hangs: no answer within {seconds:g} s", hangs=True)
            kind, value = self.connection.recv()
        except (EOFError, OSError):
            raise _Died(_how(self.process.wait())) from None
        if kind == "refused":
            raise Disqualified(value)
        if kind == "lost":
            raise _Died(f"faults: {value}")
        if kind == "raised":
            raise value if isinstance(value, BaseException) else RuntimeError(value)
        return value

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()


class _Died(Exception):
    """The other side hangs or has ended."""

    def __init__(self, message: str, hangs: bool = False):
        super().__init__(message)
        self.hangs = hangs


def _how(code: int) -> str:
    if code >= 0:
        return f"ended its process with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"ended its process by {name}" + (" (out of memory, perhaps)" if -code == signal.SIGKILL else "")


class Contestant:
    """One configuration's sampler. Bursts are those of a GPU."""

    def __init__(self, isolation: Isolation, config: Any):
        self.isolation, self.config = isolation, config

    def __call__(self) -> float:
        return self.isolation.sample(self.config)

    @property
    def sustained(self) -> Callable[[], float] | None:
        if self.isolation.jobs[self.config].device < 0:
            return None
        return lambda: self.isolation.sample(self.config, sustained=True)


class Isolation:
    """Takes samples in a process, which is restarted whenever a configuration has ended it. `jobs`: made before the
    first sample. `timeout`: seconds that one sample may take."""

    def __init__(self, jobs: Mapping[Any, Job], sender: Sender, timeout: float, memory_limit: int = 0):
        self.jobs, self.sender, self.timeout, self.memory_limit = dict(jobs), sender, timeout, memory_limit
        self.starts = 0
        self._process: _Process | None = None

    def __enter__(self) -> Isolation:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self.sender.close()

    def contestant(self, config: Any) -> Contestant:
        """Its sampler."""
        return Contestant(self, config)

    def sample(self, config: Any, sustained: bool = False) -> float:
        """Milliseconds of a launch, in a burst if requested and supported by the clock; raises `Disqualified` with the
        reason on failure."""
        try:
            return self._ask(config, sustained)
        except _Died as problem:
            alone = self._process is None or self._process.sampled <= {config}
            self._end()
            if alone or problem.hangs:
                raise Disqualified(str(problem)) from problem
        # Perhaps another configuration caused it.
        try:
            return self._ask(config, sustained)
        except _Died as problem:
            self._end()
            raise Disqualified(str(problem)) from problem

    def _ask(self, config: Any, sustained: bool) -> float:
        process = self._process
        if process is None:
            process = self._process = _Process(self.sender, self.memory_limit)
            self.starts += 1
            switches = {name: getattr(knobs, name) for name in SWITCHES}
            process.ask(("start", self.sender.memories, switches), START_TIMEOUT)
        job = self.jobs[config]
        number = list(self.jobs).index(config)
        if config not in process.loaded:
            process.ask(("load", number, job), START_TIMEOUT)
            process.loaded.add(config)
        time = process.ask(("sample", number, sustained), self.timeout + job.warmup / 1e3)
        process.sampled.add(config)
        return float(time)

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None


# ---- the other side --------------------------------------------------------------------------------------------------
def serve(file: int, memory_limit: int = 0) -> None:
    """Answers requests until the other side closes the pipe."""
    # Kill this process with its parent, as nothing else would end a kernel that loops for ever.
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)
    connection = Connection(file)
    server = _Server()
    while True:
        try:
            verb, *rest = connection.recv()
        except EOFError:
            return
        connection.send(_answer(server, verb, rest))
        if verb == "start" and memory_limit:
            _limit_memory(memory_limit)


def _answer(server: Any, verb: str, rest: Sequence[Any]) -> tuple[str, Any]:
    """The outcome of a request ("ok", "refused", "lost", …) with its value or the reason."""
    try:
        return "ok", getattr(server, verb)(*rest)
    except errors.ResourceError as problem:
        return "refused", str(problem)
    except errors.DeviceLostError as problem:
        # The next configuration gets a new process with a new context.
        return "lost", str(problem).splitlines()[0]
    except MemoryError as problem:
        return "refused", f"out of memory: {problem}"
    except Exception as problem:
        if type(problem).__name__ == "OutOfMemoryError":  # torch's exception, named without importing torch
            return "refused", f"out of memory: {problem}"
        return "raised", _sendable(problem)


def _limit_memory(more: int) -> None:
    """Limits the address space to `more` bytes beyond its current size."""
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))


def _sendable(problem: Exception) -> Any:
    import pickle

    try:
        pickle.loads(pickle.dumps(problem))
        return problem
    except Exception:
        return f"{type(problem).__name__}: {problem}"


class _Kernel:
    """Stands in for the jit function that a launcher asks: this process has only the compiled code."""

    def __init__(self, job: Job):
        self.__name__, self.__qualname__ = job.name, job.name
        self.params = list(job.written)
        self.arg_names = [parameter.name for parameter in job.written]

    def make_refusals(self) -> _kiln.Refusals:
        return Refusals(self).as_table()


class _Code:
    """The part of a `CompiledKernel` that FixedKernel uses."""

    def __init__(self, job: Job):
        from kiln import _kiln
        from kiln.runtime.metadata import read

        self.kernel, self.parameters = _Kernel(job), job.found
        self.device, self._disjoint = job.device, job.disjoint
        self.metadata = read(job.metadata, lambda: "")
        self.loaded = _kiln.load(job.binary, job.metadata, max(job.device, 0), job.name)
        self.name = job.name


class _Server:
    """Answers the requests of `Isolation`."""

    def __init__(self) -> None:
        self.memories: list[Any] = []
        self.samplers: dict[int, Callable[[], float]] = {}
        self._storages: dict[tuple[int, str], Any] = {}
        self._rotation: Any = None

    def start(self, memories: list[Memory], switches: dict[str, Any]) -> None:
        for name, value in switches.items():
            setattr(knobs, name, value)
        from kiln.runtime import placement

        placement.choose_driver()
        self.memories = [_map(memory) for memory in memories]

    def load(self, number: int, job: Job) -> None:
        from kiln.runtime.fixed import FixedKernel

        class Fixed(FixedKernel):
            """The arguments are those that the code was compiled for."""

            def _compile(self, request: CodeRequest) -> Any:
                return self.compiled

        fixed = Fixed(_Code(job))
        bound = fixed.make_launcher(*job.strides).at(job.grid)
        arguments = {name: self._receive(value) for name, value in job.arguments.items()}
        zeroed = [_at(arguments, path) for path in job.reset_to_zero]
        saved = [(_at(arguments, path), copy_of(_at(arguments, path))) for path in job.restore_value]

        def before() -> None:
            for array in zeroed:
                fill(array, 0)
            for array, value in saved:
                fill(array, value)

        needed = before if saved or zeroed else None
        self.samplers[number] = self._sampler(bound, arguments, job, needed)

    def _sampler(
        self, bound: Any, arguments: dict[str, Any], job: Job, before: Callable[[], None] | None
    ) -> Callable[[], float]:
        from kiln.tune import clock

        if job.device < 0:
            return clock.WallClock(lambda: bound(**arguments), before, None, job.warmup)
        torch = sys.modules.get("torch")
        if torch is None or before is not None:
            return clock.EventClock(lambda: bound(**arguments), before, None, job.warmup)
        if self._rotation is None:
            from kiln import cuda

            self._rotation = clock.Rotation(
                list(arguments.values()), cuda.get_device_properties(job.device).l2_bytes, torch
            )
        sets = [dict(zip(arguments, values, strict=True)) for values in self._rotation.sets(list(arguments.values()))]
        launches = [functools.partial(bound, **values) for values in sets]
        return clock.GraphClock(launches, torch, job.warmup)

    def sample(self, number: int, sustained: bool) -> float:
        sampler = self.samplers[number]
        burst = getattr(sampler, "sustained", None) if sustained else None
        return (burst or sampler)()

    def _receive(self, value: Any) -> Any:
        if isinstance(value, Array):
            return self._array(value)
        if isinstance(value, Descriptor):
            from kiln.tools.tensor_descriptor import TensorDescriptor

            return TensorDescriptor(self._array(value.base), **value.fields)
        if type(value) is tuple:
            return tuple(self._receive(item) for item in value)
        return value

    def _array(self, array: Array) -> Any:
        memory = self.memories[array.memory]
        if array.kind == "numpy":
            import numpy as np

            return np.ndarray(array.shape, array.dtype, memory, array.offset, array.strides)
        import torch  # type: ignore[import-not-found]

        key = array.memory, array.kind
        if key not in self._storages:
            self._storages[key] = torch.frombuffer(memory, dtype=torch.uint8).to(array.kind).untyped_storage()
        made = torch.empty(0, dtype=array.dtype, device=array.kind)
        return made.set_(self._storages[key], array.offset // made.element_size(), array.shape, array.strides)


def _at(arguments: Mapping[str, Any], path: Sequence[Any]) -> Any:
    value: Any = arguments
    for step in path:
        value = value[step]
    return value


def _map(memory: Memory) -> Any:
    """Maps the bytes privately, between inaccessible addresses."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    size = os.fstat(memory.file).st_size
    failed = ctypes.c_void_p(-1).value
    begin = libc.mmap(None, size + 2 * GUARD, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if begin == failed:
        raise MemoryError(f"{size} bytes for an array")
    fixed = 0x10
    access = mmap.PROT_READ | mmap.PROT_WRITE
    if libc.mmap(begin + GUARD, size, access, mmap.MAP_PRIVATE | fixed, memory.file, 0) == failed:
        raise MemoryError(f"{size} bytes for an array")
    return (ctypes.c_char * memory.size).from_address(begin + GUARD + memory.offset)
