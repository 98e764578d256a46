"""CUDA C as a kernel: `k = kiln.cuda.compile(source, "name")`, `k[grid, block](*arguments)`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from kiln import errors
from kiln.cuda import devices, nvrtc

# NVRTC's architectures have the names of the target table's rows.
_Sides = tuple[int, ...]


def compile(source: str, name: str, options: Sequence[str] = (), *, target: str | None = None) -> CudaKernel:
    """Compiles CUDA C with NVRTC; `name` is the `__global__` function to launch.

    name      as in the source: `scale`, `ns::scale`, `scale<float, 4>` (an instance of a template)
    options   NVRTC's, such as `-DTHREADS=256`, `--use_fast_math`
    target    a row of the target table; if not given, that of the GPU on which it is first launched

    Raises `CudaCompilationError` with NVRTC's log. Without a GPU the code can be compiled for a `target` and looked at
    (`kernel.cubin`, `kernel.sass`).

        k = kiln.cuda.compile(source, "add", ["-DTHREADS=256"])
        k[cdiv(n, 256), 256](x, y, out, np.int32(n))
    """
    if not isinstance(source, str) or not isinstance(name, str) or not name:
        raise errors.UsageError("expected the source and the name of a function as text")
    kernel = CudaKernel(source, name, tuple(options), target)
    # An error in the source belongs to this line, not to the first launch.
    if target is not None:
        kernel.get_cubin(target)
    elif devices.is_available():
        kernel.get_cubin(devices.target())
    return kernel


class CudaKernel:
    """A function of CUDA C. `kernel[grid, block](*arguments)` queues it on the current stream.

    grid, block   an int, or a tuple of 1 to 3 ints
    arguments     arrays on the GPU; None for a null pointer; scalars with a type: numpy's, ctypes', structures of
                  either as bytes, pairs such as `(kl.float32, 0.5)`. Python's int and float take the width of the
                  parameter.
    """

    def __init__(self, source: str, name: str, options: tuple[str, ...], target: str | None):
        self.source, self.name, self.options, self.target = source, name, options, target
        self._lock = threading.Lock()
        self._cubins: dict[str, tuple[bytes, str]] = {}
        self._functions: dict[int, Any] = {}

    def __getitem__(self, shape: Any) -> Callable[..., None]:
        if not isinstance(shape, tuple) or len(shape) != 2:
            raise errors.UsageError(f"expected kernel[grid, block], got kernel[{shape!r}]")
        grid, block = _sides("grid", shape[0]), _sides("block", shape[1])

        def launch(
            *arguments: Any,
            shared: int = 0,
            cluster: int | _Sides = 1,
            stream: Any = None,
            pdl: bool = False,
            device: int | None = None,
        ) -> None:
            function = self._function(_device_of(arguments) if device is None else device)
            function.launch(grid, block, shared, _sides("cluster", cluster), pdl, _handle(stream), arguments)

        return launch

    def get_cubin(self, target: str) -> tuple[bytes, str]:
        """The code for a row of the target table, and the symbol of the function in it."""
        with self._lock:
            if target not in self._cubins:
                self._cubins[target] = nvrtc.compile_to_cubin(self.source, self.name, target, self.options)
            return self._cubins[target]

    @property
    def cubin(self) -> bytes:
        return self.get_cubin(self.target or devices.target())[0]

    @property
    def sass(self) -> str:
        from kiln import toolchain

        return toolchain.disassemble(self.cubin)

    def figures(self, block: Any, shared: int = 0, cluster: Any = 1, device: int | None = None) -> dict[str, int]:
        """Registers, local and shared memory, and how many blocks of this size a multiprocessor holds."""
        function = self._function(devices.current_device() if device is None else device)
        return function.figures(_sides("block", block), shared, _sides("cluster", cluster))

    def _function(self, device: int) -> Any:
        function = self._functions.get(device)
        if function is None:
            from kiln import _kiln

            code, symbol = self.get_cubin(self.target or devices.target(device))
            module = _kiln.CudaModule(code, device, f"CUDA C {self.name!r}")
            function = self._functions[device] = module.function(symbol, f"{self.name} (CUDA C)")
        return function

    def __repr__(self) -> str:
        return f"<CudaKernel {self.name}>"


def _sides(what: str, value: Any) -> _Sides:
    sides = value if isinstance(value, (tuple, list)) else (value,)
    if not all(hasattr(side, "__index__") for side in sides):
        raise errors.UsageError(f"expected the {what} as an integer or a tuple of integers, got {value!r}")
    return tuple(side.__index__() for side in sides)


def _device_of(arguments: Sequence[Any]) -> int:
    """The GPU that holds the first GPU array among the arguments; the current one if there is none."""
    for argument in arguments:
        device = getattr(argument, "device", None)
        index = getattr(device, "index", None)
        if getattr(device, "type", None) == "cuda" and isinstance(index, int):
            return index
    return devices.current_device()


def _handle(stream: Any) -> int | None:
    """A stream as the driver's handle: a number, or torch's, cupy's or numba's object."""
    if stream is None or isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr", "handle"):
        value = getattr(stream, name, None)
        if value is not None:
            return int(getattr(value, "value", value) or 0)
    raise errors.UsageError(f"expected a stream of torch or its handle, got {stream!r}")
