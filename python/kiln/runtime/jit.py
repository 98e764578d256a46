"""`kiln.jit`: a Python function as a kernel that can be launched.

A launch is one call into C++ (`_kiln.Launcher`). This file answers what the launcher asks: what the code depends on
besides its arguments, and compiled code for arguments it has not seen.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, overload

from kiln import errors, knobs
from kiln.frontend.function import KernelFunction
from kiln.frontend.struct import functions_of
from kiln.runtime.interface import (
    CODE_SWITCHES,
    LAUNCH_OPTIONS,
    OPTION_KINDS,
    CodeRequest,
    KernelInterface,
    MockTensor,
    answering,
    is_traced_by_torch,
    module_attribute,
)

if TYPE_CHECKING:
    from kiln import _kiln
    from kiln._kiln import LaunchTerms
    from kiln.runtime.metadata import CpuUsage, KernelMetadata

# Launch options that targets act on, with the compiler's names for them; the others are recorded in the metadata.
_COMPILE_OPTIONS = {
    "cpu": {"enable_fp_fusion": "enable_fp_fusion"},
    "cuda": {
        "enable_fp_fusion": "enable_fp_fusion",
        "num_warps": "num_warps",
        "num_stages": "num_stages",
        "cluster": "cluster",
        "num_ctas": "cluster",
        "maxnreg": "maxnreg",
        "pdl": "pdl",
        "launch_pdl": "pdl",
        "single_wave": "single_wave",
        "streaming": "streaming",
        "schedule": "schedule",
        "stages": "stages",
        "consumers": "consumers",
        "describe_pointers": "describe_pointers",
    },
}

# The boolean ones.
_SWITCHED = ("pdl", "single_wave", "streaming", "enable_fp_fusion", "describe_pointers")

# All modules that a first launch of cached code, or a first compile, would import lazily. A child forked while another
# thread imports cannot import anything; so these are all loaded under the lock that a fork waits for, and nothing is
# left to import later. Cached code needs none of the compiler's modules.
_LAUNCH_MODULES = (
    "kiln._kiln", "kiln.compiler", "kiln.frontend.signature", "kiln.runtime.cache", "kiln.runtime.placement",
    "kiln.runtime.publishing", "kiln.toolchain",
)  # fmt: skip
_COMPILER_MODULES = (
    "kiln._compiler", "ast", "inspect", "json", "linecache", "logging", "textwrap",
    "kiln.hooks", "kiln.language", "kiln.language.extra.cuda", "kiln.language.extra.libdevice",
    "kiln.frontend.scope", "kiln.frontend.emitter", "kiln.frontend.walker",
    "kiln.frontend.expressions", "kiln.frontend.calls", "kiln.frontend.loops", "kiln.frontend.visitor",
    "kiln.frontend.entry", "kiln.runtime.refusals", "kiln.runtime.metadata",
)  # fmt: skip

# Held for lookups and while the modules load; never during a compile.
_lock = threading.RLock()  # recursive: a signal handler that launches may run while the modules load


def _load(modules: Sequence[str]) -> None:
    """Imports modules with the lock held; stops early if the interpreter is ending."""
    for module in modules:
        if module not in sys.modules:
            importlib.import_module(module)
            extension = sys.modules.get("kiln._kiln")
            if extension is not None and extension.is_ending():
                return


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


# The function that makes the result of `kernel[grid]` inside a block of `recording`.
_recorder: Callable[[JITFunction, Any], Callable[..., Any]] | None = None


@contextlib.contextmanager
def recording(recorder: Callable[[JITFunction, Any], Callable[..., Any]]) -> Iterator[None]:
    """In this block, `kernel[grid]` is `recorder(kernel, grid)` in every thread: observes the launches that a function
    makes without making them. `kernel.run(…, grid=…)` still makes the launch."""
    global _recorder
    from kiln import _kiln

    outer, _recorder = _recorder, recorder
    _kiln.pause_calls(True)  # the library's replayed calls, which bypass `kernel[grid]`
    try:
        yield
    finally:
        _recorder = outer
        _kiln.pause_calls(False)


class JITFunction(KernelFunction, KernelInterface):
    """A kernel: `kernel[grid](*args, **meta)` compiles it for its arguments when needed, and runs it.

    grid      an int, a tuple of 1 to 3 ints, or a function that takes the dictionary of arguments and returns one
    args      arrays (numpy, torch, anything with `__array_interface__` or DLPack), numbers, bools, None, tuples of
              these, tensor descriptors; for constexpr parameters anything hashable
    meta      further arguments by name, and launch options (`num_warps`, `num_stages`, …)

    The arrays decide where it runs: on the GPU that holds them, else on the CPU. Returns the `CompiledKernel` that ran.
    On the CPU, the kernel has finished when the call returns; on a GPU, it is queued (on torch's current stream if
    torch is imported, else on the default stream).
    """

    launch_options = LAUNCH_OPTIONS
    """The keywords that a launch takes besides the parameters."""

    def __init__(
        self,
        fn: FunctionType,
        *,
        version: Any = None,
        repr: Callable[[Any], str] | None = None,
        launch_metadata: Callable[..., Any] | None = None,
        do_not_specialize: Any = (),
        do_not_specialize_on_alignment: Any = (),
        debug: bool | None = None,
        noinline: bool = False,
        source: str | None = None,
    ):
        super().__init__(
            fn,
            do_not_specialize=do_not_specialize,
            do_not_specialize_on_alignment=do_not_specialize_on_alignment,
            noinline=noinline,
            source=source,
        )
        self.version = version
        self.launch_metadata = launch_metadata
        self.debug = debug
        self.pre_run_hooks: list[Callable[..., Any]] = []
        self._name = repr
        self._launcher: Any = None
        self._compiling: dict[tuple[int, str, bytes, int], threading.Lock] = {}
        self._compiled: dict[tuple[str, bytes, int], CompiledKernel] = {}
        self._constants: list[KernelFunction] = []  # jit functions passed as constexpr arguments

    # -- launching -------------------------------------------------------------------------

    def _make_launcher(self) -> Any:
        with _lock:
            if self._launcher is None:
                _load(_LAUNCH_MODULES)
                from kiln import _kiln

                knobs.start_logging()
                owner = _kiln.LaunchOwner(
                    self,
                    revalidate=self._revalidate,
                    compile=answering(self._compile),
                    forget=self._forget,
                    refusals=self.make_refusals,
                )
                self._launcher = _kiln.Launcher(owner, list(self.params), self.launch_options, *self.find_strides())
                if type(self).__getitem__ is JITFunction.__getitem__:
                    self._launcher.adopt(self)
        return self._launcher

    def find_strides(self) -> tuple[list[str], list[str]]:
        """Names of parameters, and of fields of named tuples, that are strides of descriptors made in kernels."""
        try:
            if not self.reach.names("make_tensor_descriptor"):
                return [], []
        except errors.KilnError:
            return [], []  # compiling reports what is wrong with the source
        from kiln.runtime import cache

        return cache.descriptor_strides(self)

    def describes_pointers(self) -> bool:
        """The default of `describe_pointers` for launches on a GPU: true for kernels that multiply matrices."""
        try:
            return any(function.reach.names("dot", "dot_scaled") for function in (self, *self._constants))
        except errors.KilnError:
            return False

    # Not called once the kernel has been launched, unless hooks or a recorder are active: see `Launcher.adopt`, which
    # needs the starred parameter.
    def __getitem__(self, grid: Any, *_: Any) -> Callable[..., CompiledKernel]:
        if _recorder is not None:
            return _recorder(self, grid)
        if is_traced_by_torch():
            return super().__getitem__(grid)
        if self.pre_run_hooks:
            return super().__getitem__(grid)
        return (self._launcher or self._make_launcher()).at(grid)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> CompiledKernel:
        """`self[grid](*args, **kwargs)`; with `warmup`, only compiles."""
        if is_traced_by_torch():
            from kiln.runtime import torch_graph

            return torch_graph.launch(self, grid, args, kwargs)
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        bound = (self._launcher or self._make_launcher()).at(grid)
        if not warmup:
            return bound(*args, **kwargs)
        constexpr = {p.name for p in self.params if p.is_constexpr}
        names = [p.name for p in self.params]
        wrapped = [a if i < len(names) and names[i] in constexpr else MockTensor.wrap(a) for i, a in enumerate(args)]
        named = {k: v if k in constexpr else MockTensor.wrap(v) for k, v in kwargs.items()}
        return bound(*wrapped, warmup=True, **named)

    def prepare(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        return (self._launcher or self._make_launcher()).prepare(grid, args, kwargs)

    prepare.__doc__ = KernelInterface.prepare.__doc__

    @property
    def src(self) -> str:
        """The text of the function, including its decorators."""
        return self.source.text

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """Calls `hook(*args, **kwargs)` before each launch, with its arguments."""
        self.pre_run_hooks.append(hook)
        if self._launcher is not None:
            self._launcher.invalidate()

    @property
    def compiled_kernels(self) -> list[CompiledKernel]:
        """Every specialisation compiled so far."""
        return list(self._compiled.values())

    @property
    def compiled(self) -> CompiledKernel | None:
        """The specialisation compiled last, or None."""
        return next(reversed(self._compiled.values()), None)

    # -- what the launcher asks ------------------------------------------------------------

    def _make_prefix(self) -> str:
        switches = [f"{name}={getattr(knobs, name)}" for name in CODE_SWITCHES]
        functions = [function.cache_key for function in (self, *self._constants)]
        return "\n".join([*functions, f"debug={self.debug}", f"version={self.version!r}", *switches])

    def _revalidate(self) -> LaunchTerms:
        from kiln import _kiln
        from kiln.runtime import placement

        placement.choose_driver()
        _kiln.set_num_threads(knobs.num_threads)
        _kiln.set_warn_strides(knobs.warn_strides)
        prefix = self._make_prefix()
        switches = (*CODE_SWITCHES, *placement.SWITCHES, "warn_strides", "specializations")
        watched: list[tuple[Any, Any, Any]] = [(*place, None) for place in knobs.places(*switches)]
        for function in (self, *self._constants):
            for capture in function.captures:
                holder = capture.holder
                if isinstance(holder, ModuleType) and capture.name in vars(holder):
                    holder = vars(holder)
                watched.append((holder, capture.name, capture.value))
        gpu = placement.wants_gpu()
        return _kiln.LaunchTerms(
            prefix=prefix,
            watched=watched,
            checks_accesses=knobs.check != "none",
            cuda=gpu,
            stage=gpu and knobs.stage_arrays,
            limit=knobs.specializations,
            describes_pointers=self.describes_pointers(),
        )

    def _compile(self, request: CodeRequest) -> CompiledKernel:
        """Compiled code for a new key; threads that ask for the same key share one compile."""
        place = (request.prefix, request.key, request.device)
        # With the process id: a compile that another thread began before a fork does not continue in the child.
        claim = (os.getpid(), *place)
        with _lock:
            lock = self._compiling.setdefault(claim, threading.Lock())
        with lock:
            compiled = self._compiled.get(place)
            if compiled is None:
                if self._compiled and knobs.is_told("jit"):
                    from kiln.runtime import recompiles

                    reason = recompiles.reason(request, self._compiled)
                    knobs.tell("jit", "%s is compiled again: %s", self.__name__, reason)
                compiled = compile_kernel(self, request.parameters, request.options, request.disjoint, request.device)
                compiled.options = dict(request.options)
                self._compiled[place] = compiled
                self._watch_constants(request, compiled)
        with _lock:
            self._compiling.pop(claim, None)
        return compiled

    def _watch_constants(self, request: CodeRequest, compiled: CompiledKernel) -> None:
        """Makes the prefix cover jit functions passed as arguments, directly or as methods of structs: their globals
        may change too."""
        new = [f for f in functions_in(request.parameters) if f is not self and f not in self._constants]
        if new:
            self._constants += new
            self._compiled[self._make_prefix(), request.key, request.device] = compiled
            self._launcher.invalidate()

    def _forget(self, compiled: CompiledKernel) -> None:
        """Drops one specialisation that the launcher has dropped."""
        for place in [place for place, other in list(self._compiled.items()) if other is compiled]:
            self._compiled.pop(place, None)

    def unload(self) -> None:
        """Drops every specialisation compiled so far: the next launch compiles again. Running code, and
        `CompiledKernel` objects that are still referenced, stay as long as they are in use."""
        self._compiled.clear()
        if self._launcher is not None:
            self._launcher.clear()

    def make_refusals(self) -> _kiln.Refusals:
        """What words the errors of its launches."""
        from kiln.runtime.refusals import Refusals

        return Refusals(self).as_table()

    def __reduce__(self) -> Any:
        # Pickled by reference, like functions; a kernel that is no module attribute cannot be found again.
        name = module_attribute(self)
        if name is not None:
            return name
        raise errors.UserError(
            f"cannot pickle kernel {self.__qualname__}: it is not an attribute of module {self.__module__}"
        )


def functions_in(found: Any) -> Iterator[KernelFunction]:
    """Jit functions among the arguments of a specialisation, directly or as methods of structs."""
    for item in found:
        if isinstance(item, tuple):
            yield from functions_in(item)
        elif isinstance(item, KernelFunction):
            yield item
        elif isinstance(item, type):  # the class of a struct
            yield from functions_of(item)


def compile_kernel(
    kernel: KernelFunction,
    parameters: list[Any],
    options: Mapping[str, Any],
    disjoint: Sequence[bool] = (),
    device: int = -1,
) -> CompiledKernel:
    """Compiles the kernel for these parameters and loads the code. `disjoint`, by array: no other overlaps its storage.
    `device`: the GPU to load it on, -1 for the CPU, -2 for code for the target switch, which is not loaded."""
    from kiln.runtime import placement

    start = time.perf_counter()
    try:
        target = placement.choose_target(device)
    except errors.UserError as problem:
        # The message alone: the position would be given twice.
        message = getattr(problem, "message", None) or str(problem)
        raise errors.LaunchError(message, kernel=kernel.__name__) from None
    kind = "cpu" if device == -1 else "cuda"
    if kind == "cuda" and knobs.check != "none":
        from kiln.runtime import refusals

        refusals.check(kernel, knobs.check)
    chosen = _compile_options(kernel, options, kind)
    event = None
    hooks = sys.modules.get("kiln.hooks")  # if it is not loaded, there are no hooks
    if hooks is not None and (hooks.compile_start or hooks.compile_end):
        event = hooks.CompileEvent(kernel, tuple(parameters), dict(options), target, device)
        hooks.compile_start(event)
    steps = _Steps()
    try:
        artifact, reused = _make_artifact(kernel, parameters, {**chosen, "target": target}, disjoint, steps)
    except errors.UserError as problem:
        if type(problem) is not errors.UserError:
            raise
        # Not about a line of the kernel: for example, a target that does not exist.
        raise errors.LaunchError(str(problem), kernel=kernel.__name__) from None
    except errors.ResourceError as problem:
        raise problem.of(kernel.__name__) from None
    compiled_type = getattr(kernel, "compiled_type", CompiledKernel)
    compiled = compiled_type(kernel, parameters, artifact, None, disjoint, device)
    try:
        _load_code(compiled, device)
    except errors.InternalError as problem:
        # The stored bytes are intact, so they were already wrong when they were stored.
        if not reused or knobs.frozen:
            raise
        from kiln.runtime import cache

        cache.set_aside(artifact.key, problem.message)
        artifact, reused = _make_artifact(kernel, parameters, {**chosen, "target": target}, disjoint, steps, anew=True)
        compiled = compiled_type(kernel, parameters, artifact, None, disjoint, device)
        _load_code(compiled, device)
    seconds = time.perf_counter() - start
    if event is not None and hooks is not None:
        steps.end("load")
        hooks.compile_end(event._replace(compiled=compiled, seconds=seconds, cached=reused, steps=tuple(steps.ended)))
    knobs.tell("jit", "%s %s in %.1f ms", "loaded" if reused else "compiled", compiled, seconds * 1e3)
    return compiled


def _load_code(compiled: CompiledKernel, device: int) -> None:
    """Loads a kernel's code on the device (see `compile_kernel`), with the hooks around it."""
    if device == -2:
        return
    from kiln import _kiln

    hooks = sys.modules.get("kiln.hooks")
    if hooks is not None:
        hooks.load_start(compiled)
    artifact, kernel = compiled.artifact, compiled.kernel
    try:
        compiled.loaded = _kiln.load(artifact.binary, artifact.metadata, max(device, 0), _label(kernel))
    except errors.ResourceError as problem:
        raise problem.of(kernel.__name__) from None
    if hooks is not None:
        hooks.load_end(compiled)


def _label(kernel: KernelFunction) -> str:
    """How messages about GPU events name the kernel: its name and the position of its source."""
    code = kernel.fn.__code__
    return f"{kernel.__name__} ({code.co_filename}:{code.co_firstlineno})"


class _Steps:
    """The steps of a compile, in order, and how long each took."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, float]] = []
        self._last = time.perf_counter()

    def end(self, name: str) -> None:
        now = time.perf_counter()
        self.ended.append((name, now - self._last))
        self._last = now


def _make_artifact(
    kernel: KernelFunction,
    parameters: list[Any],
    options: dict[str, Any],
    disjoint: Sequence[bool],
    steps: _Steps | None = None,
    anew: bool = False,
) -> tuple[Any, bool]:
    """The artifact, from the cache or, if missing there or with `anew`, compiled; and whether the cache had it."""
    steps = steps or _Steps()
    from kiln import _kiln, compiler
    from kiln.runtime import cache

    lookup = None
    if cache.is_wanted() and not anew:
        options = compiler.complete(options)
        lookup = cache.Lookup(kernel, parameters, options, disjoint)
        kept = lookup.by_source()
        if kept is not None:
            steps.end("front end")
            return kept, True
        if knobs.frozen:
            raise lookup.missing(parameters)
    with _lock:
        _ = _kiln.Builder  # loads kiln._compiler and reports any problem with it
        _load(_COMPILER_MODULES)
    _kiln.stop_at_end()
    from kiln import frontend
    from kiln.language import debugging

    prints = debugging.prints[0]
    module = frontend.emit(kernel, parameters, kernel.__name__, disjoint=disjoint, target=options["target"])
    kept = lookup.by_module(module, quiet=prints == debugging.prints[0]) if lookup is not None else None
    steps.end("front end")
    if kept is not None:
        return kept, True
    artifact = compiler.compile(module, options)
    steps.end("compiler")
    if lookup is not None:
        lookup.keep(artifact)
    steps.end("store")
    return artifact, False


def _compile_options(kernel: KernelFunction, options: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Launch options as the compiler takes them; those the target does not act on become plain data in the metadata."""
    plain = (bool, int, float, str, type(None))
    result: dict[str, Any] = {}
    given: dict[str, str] = {}
    for name, value in options.items():
        if value is None:
            continue
        if name in OPTION_KINDS and not _is_option(name, value):
            from kiln.runtime import refusals

            refusals.option(kernel, name, value)
        if name == "extern_libs":
            # Triton's way to name CUDA's device library; the CPU target has those functions built in.
            if kind == "cuda" and value.get("libdevice"):
                result["libdevice"] = os.fspath(value["libdevice"])
            continue
        known = _COMPILE_OPTIONS[kind].get(name)
        if known is None:
            result[name] = value if isinstance(value, plain) else str(value)
            continue
        if known in given and result[known] != value:
            from kiln.runtime import refusals

            refusals.conflict(kernel, given[known], name)
        given[known] = name
        if known == "schedule":
            result[known] = value
        else:
            result[known] = bool(value) if known in _SWITCHED else int(value)
    if kind == "cuda" and isinstance(kernel, JITFunction):
        result.setdefault("describe_pointers", kernel.describes_pointers())
    return result


def _is_option(name: str, value: Any) -> bool:
    """Whether the launch option has a valid value."""
    if name == "schedule":
        from kiln import _kiln

        return isinstance(value, str) and value in _kiln.schedules()
    if name == "extern_libs":
        return isinstance(value, Mapping) and all(isinstance(v, (str, os.PathLike)) for v in value.values())
    if name == "num_warps":
        return _is_positive(value) and int(value) in (1, 2, 4, 8, 16, 32)
    return isinstance(value, bool) if "pdl" in name or name in _SWITCHED else _is_positive(value)


def _is_positive(value: Any) -> bool:
    return not isinstance(value, bool) and hasattr(value, "__index__") and value.__index__() >= 1


class _Stages(Mapping[str, Any]):
    """`compiled.asm`: the text of each stage, made on demand. Triton's names for stages work too."""

    _SAME = {"ttir": "tile", "ttgir": "kgpu", "llir": "llvm", "obj": "object"}

    def __init__(self, artifact: Any):
        self._artifact = artifact

    def __getitem__(self, stage: str) -> Any:
        stages = tuple(self)
        stage = self._SAME.get(stage, stage)
        if stage == "kgpu" and stage not in stages:
            stage = "opt"
        if stage not in stages:
            raise KeyError(stage)
        if stage in ("sass", "cubin") and self._artifact.binary[:4] != b"\x7fELF":
            raise errors.UsageError(f"there is no {stage} (because no ptxas was found: the driver assembles the PTX)")
        if stage == "sass":
            from kiln import toolchain

            return toolchain.disassemble(self._artifact.binary)
        return self._artifact.binary if stage in ("object", "cubin") else self._artifact.text(stage)

    def __iter__(self) -> Iterator[str]:
        stages = list(self._artifact.stages)
        return iter([*stages, "sass"] if "cubin" in stages else stages)

    def __len__(self) -> int:
        return len(list(iter(self)))


class CompiledKernel:
    """Code for one specialisation of a kernel.

    compiled[grid](*args)  launches this code: an argument that it is not compiled for is an error that names it;
                           constants may be omitted
    asm         the stages by name: tile, opt, cpu, llvm, asm (text), object (bytes); for a GPU tile, opt, kgpu, llvm,
                ptx, sass (text), cubin (bytes)
    metadata    what the code expects and uses, as a dictionary; entries are attributes too, also under Triton's names
    src         what it was made from: fn, signature, constants, attrs, text
    cache_key   a digest of all that determines the code: IR, target, options, toolchain (also: hash)
    options     the launch options that it was compiled with
    loaded      the code in memory; None if it was only compiled, for a GPU that is not present
    device      the GPU it is loaded on, -1 for the CPU, -2 for none
    signature, disjoint    what it is specialised for, in the syntax of the options of `kiln compile`
    n_regs, n_spills, n_max_threads, shared, num_warps, num_ctas (cluster)    its use of the machine's resources
    occupancy   for a GPU: how much is resident at once
    """

    def __init__(
        self,
        kernel: KernelFunction,
        parameters: list[Any],
        artifact: Any,
        loaded: Any,
        disjoint: Sequence[bool] = (),
        device: int = -1,
    ):
        self.kernel = kernel
        self.parameters = tuple(parameters)
        self.device = device
        self._disjoint = tuple(disjoint)
        self.options: Mapping[str, Any] = {}
        self.artifact = artifact
        self.loaded = loaded
        self.asm = _Stages(artifact)
        self._metadata: KernelMetadata | None = None
        self._launcher: Any = None
        self._usage: CpuUsage | None = None

    def __getitem__(self, grid: Any) -> Callable[..., CompiledKernel]:
        if self._launcher is None:
            from kiln.runtime.fixed import FixedKernel

            fixed = FixedKernel(self)
            self._launcher = fixed.make_launcher(*fixed.kernel.find_strides())
        return self._launcher.at(grid)

    # Without this, Python would treat `__getitem__` as the sequence protocol and iterate for ever.
    __iter__: Any = None

    # -- where it comes from ---------------------------------------------------------------

    @property
    def src(self) -> Any:
        """The jit function, and what it is specialised for: a `KernelSource`."""
        from kiln.runtime.metadata import describe_source

        return describe_source(self.kernel, self.parameters)

    @property
    def cache_key(self) -> str:
        """A digest of the tile IR, the target, the options and the tools: equal keys mean equal code."""
        return self.artifact.key

    @property
    def hash(self) -> str:
        return self.cache_key

    # -- what it takes of the machine ------------------------------------------------------

    def _figure(self, asked: str, name: str) -> Any:
        """A figure of a GPU's code: from the code in memory, else from the assembler's report."""
        usage = self.metadata["cuda"].get("usage")
        if self.loaded is not None:
            return self.loaded.figures[name]
        known = {"registers": "registers", "local_bytes": "stack"}
        if usage is None or name not in known:
            raise errors.UsageError(f"kernel {self.name} is not loaded: {asked} is known on a machine with a GPU only")
        return usage[known[name]]

    def _cpu_usage(self) -> CpuUsage | None:
        """Its use of the CPU; None for a GPU's code."""
        if "cuda" in self.metadata:
            return None
        if self._usage is None:
            from kiln.runtime.metadata import cpu_usage

            self._usage = cpu_usage(self.asm["asm"])
        return self._usage

    @property
    def n_regs(self) -> int:
        """Registers of a thread: 32-bit ones on a GPU; on the CPU, the vector registers that the code names."""
        usage = self._cpu_usage()
        return self._figure("n_regs", "registers") if usage is None else usage.vector_registers

    @property
    def n_spills(self) -> int:
        """4-byte words that a thread keeps in local memory; 0 if everything fits in registers. On the CPU, all that it
        keeps on its stack, including what is saved around the calls that ask whether the launch has been stopped."""
        usage = self._cpu_usage()
        return (self._figure("n_spills", "local_bytes") if usage is None else usage.stack_bytes) // 4

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block; the CPU has none."""
        figures = self.loaded.figures if self.loaded else None
        return figures["shared_bytes"] if figures else self.metadata.shared

    @property
    def num_warps(self) -> int:
        """Warps of a block. On the CPU, where one thread runs an instance: what the launch asked for, else 1."""
        return self.metadata.num_warps

    @property
    def cluster(self) -> int:
        """Blocks that share one program instance."""
        return self.metadata.cluster

    num_ctas = cluster

    @property
    def n_max_threads(self) -> int:
        """Threads a block could have with these registers. On the CPU one thread runs an instance."""
        return self._figure("n_max_threads", "max_threads") if "cuda" in self.metadata else 1

    @property
    def occupancy(self) -> dict[str, int]:
        """How much is resident at once: blocks and warps of a multiprocessor, clusters of the device (0 without)."""
        if "cuda" not in self.metadata:
            raise AttributeError(
                f"kernel {self.name} for {self.metadata.target.name} has no occupancy (because each worker thread of"
                " the CPU runs one instance at a time)"
            )
        blocks = self._figure("occupancy", "blocks_per_multiprocessor")
        warps = blocks * self._figure("occupancy", "threads") // 32
        return {"blocks": blocks, "warps": warps, "clusters": self._figure("occupancy", "clusters")}

    @property
    def name(self) -> str:
        return self.kernel.__name__

    @property
    def metadata(self) -> KernelMetadata:
        if self._metadata is None:
            from kiln.runtime.metadata import read

            self._metadata = read(self.artifact.metadata, lambda: self.cache_key)
        return self._metadata

    @property
    def signature(self) -> str:
        """The specialisations: `x=*fp32:16, n=i32, BLOCK=128`."""
        return ", ".join(f"{p.name}={p.spelled}" for p in self.parameters)

    @property
    def disjoint(self) -> str:
        """The arrays that overlapped no other array of the launch: `x,y`; the code relies on that."""
        from kiln.frontend.signature import array_names

        return ",".join(
            name for name, alone in zip(array_names(self.parameters), self._disjoint, strict=False) if alone
        )

    def __repr__(self) -> str:
        figures = ""
        if self.loaded is not None and self.metadata.get("cuda"):
            figures = f", {self.n_regs} registers, {self.shared} bytes shared, {self.n_spills} spills"
        return f"<CompiledKernel {self.name}({self.signature}) for {self.metadata['target'].get('name', '?')}{figures}>"


@overload
def jit(fn: Callable[..., Any]) -> JITFunction: ...


@overload
def jit(
    *,
    version: Any = None,
    repr: Callable[[Any], str] | None = None,
    launch_metadata: Callable[..., Any] | None = None,
    do_not_specialize: Any = (),
    do_not_specialize_on_alignment: Any = (),
    debug: bool | None = None,
    noinline: bool = False,
) -> Callable[[Callable[..., Any]], JITFunction]: ...


def jit(fn: Any = None, **options: Any) -> Any:
    """Makes a Python function a kernel, or a function that kernels call.

    do_not_specialize                 parameters (names or positions) whose value the code must not depend on
    do_not_specialize_on_alignment    parameters whose divisibility by 16 the code must not exploit
    version                           any value; changing it forces a new compile
    debug                             recorded only; KILN_DEVICE_ASSERT controls `kl.device_assert`
    noinline                          a hint for functions called by kernels
    launch_metadata                   f(grid, metadata, arguments): data that `kiln.hooks` adds to a launch's report
    repr                              kept for tools

    The function is captured as written; nothing is compiled before the first launch.
    """
    if fn is None:
        return lambda inner: jit(inner, **options)
    if isinstance(fn, KernelFunction):
        return fn
    return JITFunction(fn, **options)


# Loaded along with this module, so that a first launch starts at once.
_load(_LAUNCH_MODULES)
