"""`triton.runtime.jit`: jit functions with Triton's interface, and tensors reinterpreted as another type.

A jit function is Kiln's with Triton's attributes (`params`, `signature`, `src`, …), exceptions and launch hooks. Its
launches take the same path: one call into C++.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from kiln import errors, hooks
from kiln import knobs as kiln_knobs
from kiln import language as kl
from kiln.as_triton import knobs, specialization
from kiln.as_triton.async_compile import active_mode
from kiln.as_triton.backends import GPUTarget, row_of_arch
from kiln.as_triton.errors import IntegerOverflow, NoClusters, OutOfResources
from kiln.frontend.function import FunctionParameter, lazy
from kiln.frontend.function import KernelFunction as JITCallable
from kiln.frontend.function import constexpr_function as constexpr_function
from kiln.runtime import interface, placement
from kiln.runtime import jit as kiln_jit
from kiln.runtime import refusals as kiln_refusals
from kiln.runtime.interface import CodeRequest, KernelInterface

if TYPE_CHECKING:
    from kiln import _kiln

__all__ = [
    "JITCallable",
    "JITFunction",
    "JitFunctionInfo",
    "KernelInterface",
    "KernelParam",
    "MockTensor",
    "TensorWrapper",
    "constexpr_function",
    "get_full_name",
    "get_jit_fn_file_line",
    "jit",
    "reinterpret",
    "type_canonicalisation_dict",
]


class KernelParam(FunctionParameter):
    """A parameter of a jit function: `num`, `name`, `annotation`, `annotation_type`, `default`, `is_constexpr` …"""

    @property
    def num(self) -> int:
        return self.index

    @property
    def default(self) -> Any:  # type: ignore[override]
        return FunctionParameter.default.__get__(self) if self.has_default else inspect.Parameter.empty

    @property
    def has_default(self) -> bool:
        return FunctionParameter(*self).has_default

    @property
    def is_const(self) -> bool:
        return not self.is_constexpr and getattr(self.annotation, "__name__", str(self.annotation)).endswith("const")


class JitFunctionInfo(NamedTuple):
    """The kernel, as passed to compile hooks."""

    module: str
    name: str
    jit_function: Any


class _OnlyCompiled(Exception):
    """Leaves a launch after the compile: the code is for inspection only."""

    def __init__(self, compiled: Any):
        self.compiled = compiled


_ONLY_FOR = "only compiled for"
"""Internal launch option of warmups for another machine: a row of the target table. Its name is not an identifier, so
no program passes it as a keyword."""


class _Declined(Exception):
    """`jit_cache_hook` took over the compile: there is nothing to launch."""


_MOST_WARPS = 32
"""Limit of warps per block, on every GPU."""


def _refuse_threads(warps: Any) -> None:
    """Raises `OutOfResources` if a block would exceed the GPUs' thread limit; tuners then skip the configuration."""
    if isinstance(warps, int) and warps > _MOST_WARPS and warps & (warps - 1) == 0:
        raise OutOfResources(32 * warps, 32 * _MOST_WARPS, "threads", "num_warps")


# Triton's options for AMD GPUs, which programs pass on every machine without an NVIDIA GPU; ignored here.
OPTIONS_OF_AMD = ("waves_per_eu", "matrix_instr_nonkdim", "kpack", "allow_flush_denorm", "schedule_hint")
# Triton's options that have no effect in Kiln: every function preserves subnormal numbers.
OPTIONS_WITHOUT_MEANING = ("enable_reflect_ftz",)


class Refusals(kiln_refusals.Refusals):
    """Raises the error types that callers of Triton expect."""

    def argument(self, name: str, value: Any, message: str, hint: str) -> NoReturn:
        try:
            super().argument(name, value, message, hint)
        except errors.LaunchError as error:
            if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
                raise IntegerOverflow.like(error) from None
            raise

    def status(self, *args: Any) -> NoReturn:
        try:
            super().status(*args)
        except errors.ResourceError as error:
            raise OutOfResources.like(error) from None


class JITFunction(kiln_jit.JITFunction):
    """A kernel with the interface of Triton's kernels."""

    strict = False
    launch_options = [*interface.LAUNCH_OPTIONS, *OPTIONS_OF_AMD, *OPTIONS_WITHOUT_MEANING, _ONLY_FOR]

    def __init__(self, fn: FunctionType, **options: Any):
        super().__init__(fn, **options)
        self.repr = options.get("repr") or (lambda _: f"{fn.__module__}.{fn.__qualname__}")

    # -- what was written ------------------------------------------------------------------

    @lazy
    def params(self) -> list[KernelParam]:  # type: ignore[override]
        return [KernelParam(*parameter) for parameter in kiln_jit.JITFunction.params.compute(self)]

    @lazy
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.fn)

    @property
    def constexprs(self) -> list[int]:
        """Positions of the constexpr parameters."""
        return [parameter.num for parameter in self.params if parameter.is_constexpr]

    @property
    def module(self) -> str:
        return self.__module__

    @property
    def __globals__(self) -> dict[str, Any]:
        return self.fn.__globals__

    @property
    def raw_src(self) -> list[str]:
        """The lines of the definition, decorators included."""
        return self.source.text.splitlines(keepends=True)

    @property
    def src(self) -> str:
        """The dedented text of the definition, from `def` on."""
        import textwrap

        lines = textwrap.dedent(self.source.text).split("\n")
        start = next(i for i, line in enumerate(lines) if line.startswith("def "))
        return "\n".join(lines[start:])

    def _unsafe_update_src(self, new_src: str) -> None:
        """Replaces the function's text. Functions that call it are not notified; that is up to the caller."""
        source = self.source
        line = source.first_line + source.text.split("def ", 1)[0].count("\n")
        for name in ("tree", "reach_text", "_chains"):
            self.__dict__.pop(name, None)
        self._found = source._replace(first_line=line, text=new_src)
        self._reach = None
        self.unload()
        if self._launcher is not None:
            self._launcher.invalidate()

    @property
    def starting_line_number(self) -> int:
        return self.source.first_line

    @property
    def hash(self) -> str:
        return self.cache_key

    def is_gluon(self) -> bool:
        return False

    # -- launching -------------------------------------------------------------------------

    @property
    def compiled_type(self) -> type:
        from kiln.as_triton.compiler import CompiledKernel

        return CompiledKernel

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        if knobs.tells_launches():
            return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)
        return super().__getitem__(grid)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """`self[grid](*args, **kwargs)`; with `warmup`, only compiles. None if a hook declined the compile."""
        mode = active_mode.get() if warmup else None
        if mode is not None:
            facts = [*map(_fact, args), *((name, *_fact(value)) for name, value in sorted(kwargs.items()))]
            return mode.submit((self, *facts), lambda: self._run_unless_declined(args, grid, True, kwargs))
        return self._run_unless_declined(args, grid, warmup, kwargs)

    def _run_unless_declined(self, args: tuple[Any, ...], grid: Any, warmup: bool, kwargs: dict[str, Any]) -> Any:
        try:
            return self._run(args, grid, warmup, kwargs)
        except _Declined:
            return None

    def _run(self, args: tuple[Any, ...], grid: Any, warmup: bool, kwargs: dict[str, Any]) -> Any:
        arch = kwargs.pop("arch", None) if "arch" not in self.arg_names else None
        arch = arch or knobs.runtime.override_arch
        if arch:
            return self._run_for(str(arch), args, grid, warmup, kwargs)
        return self._run_here(args, grid, warmup, kwargs)

    def _run_for(self, arch: str, args: tuple[Any, ...], grid: Any, warmup: bool, kwargs: dict[str, Any]) -> Any:
        """Compiles for `arch`, such as `sm80`. A launch, unlike a warmup, requires that this machine runs such code."""
        row = row_of_arch(arch)
        here = placement.target_of_arguments([*args, *kwargs.values()])
        if row == here:
            return self._run_here(args, grid, warmup, kwargs)
        if not warmup:
            raise errors.LaunchError(
                f"expected a warmup for {arch} (because its code does not run on {here}), got a launch",
                kernel=self.__name__, hint=f"kernel.warmup(..., arch={arch!r}) only compiles",
            )  # fmt: skip
        try:
            return super().run(*args, grid=grid, warmup=True, **kwargs, **{_ONLY_FOR: row})
        except _OnlyCompiled as only:
            return only.compiled

    def _run_here(self, args: tuple[Any, ...], grid: Any, warmup: bool, kwargs: dict[str, Any]) -> Any:
        enter, leave = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
        if warmup or not (enter or leave):
            return super().run(*args, grid=grid, warmup=warmup, **kwargs)
        from kiln.as_triton.compiler import launch_metadata

        # The hook gets the compiled kernel, so compile it first.
        compiled: Any = super().run(*args, grid=grid, warmup=True, **kwargs)
        told = launch_metadata(compiled, grid, dict(zip(self.arg_names, args, strict=False)) | kwargs)
        if enter:
            enter(told)
        result = super().run(*args, grid=grid, **kwargs)
        if leave:
            leave(told)
        return result

    def warmup(self, *args: Any, grid: Any = (1,), **kwargs: Any) -> Any:
        """Compiles for these arguments without launching; a dtype stands for a tensor of that type."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    def _make_prefix(self) -> str:
        language = knobs.language
        switches = knobs.runtime.debug, language.fp32_default, language.default_fp_fusion
        return f"{super()._make_prefix()}\ntriton={switches}"

    def _revalidate(self) -> Any:
        terms = super()._revalidate()
        language = knobs.language
        for group, name in ((knobs.runtime, "debug"), (language, "fp32_default"), (language, "default_fp_fusion")):
            terms.watched.append((group._set, name, None))
        return terms

    @property
    def device_caches(self) -> specialization.DeviceCaches:
        """Device → (compiled specialisations by key, …)."""
        return specialization.DeviceCaches(self)

    def drop(self, compiled: Iterable[Any]) -> None:
        """Forgets specialisations: a launch that needs one compiles it again."""
        for code in list(compiled):
            self._forget(code)
        if self._launcher is not None:
            self._launcher.clear()

    def preload(self, specialization_data: str) -> Any:
        """Compiles the specialisation that a `jit_cache_hook` got as `compile["specialization_data"]`, in this process
        or another. A launch that needs it then finds it without calling a hook."""
        facts = json.loads(specialization_data)
        if facts["name"] != self._fn_name:
            raise RuntimeError(f"Specialization data is for {facts['name']} but trying to preload for {self._fn_name}")
        found, options = specialization.decode(facts["arguments"]), dict(specialization.decode(facts["options"]))
        from kiln.as_triton.driver import CpuDriver, driver

        device = -1 if type(driver.default) is CpuDriver else driver.default.get_current_device()
        request = CodeRequest(list(found), options, b"", facts["disjoint"], device, self._make_prefix())
        name = self._name_key(request)
        if self._launcher is None:
            self._make_launcher()
        if name not in self._preloaded:
            key = b"preload:" + name.encode()
            self._preloaded[name] = self._compile_named(name, request._replace(key=key))
        return self._preloaded[name]

    @lazy
    def _preloaded(self) -> dict[str, Any]:
        return {}

    @property
    def _fn_name(self) -> str:
        return get_full_name(self.fn)

    def _name_key(self, request: CodeRequest) -> str:
        """The key that hooks get. It is the same in every process if all arguments can be serialised; otherwise it is
        made of the launch's own key."""
        found, prefix = request.parameters, request.prefix
        text = specialization.dump(self._fn_name, "", found, request.options, request.disjoint) or request.key.hex()
        functions = [function.cache_key for function in (self, *kiln_jit.functions_in(found))]
        return _digest("\n".join([*functions, prefix[prefix.index("debug=") :], text]).encode())

    def unload(self) -> None:
        self._preloaded.clear()
        super().unload()

    def _forget(self, compiled: Any) -> None:
        for name in [name for name, other in self._preloaded.items() if other is compiled]:
            del self._preloaded[name]
        super()._forget(compiled)

    def _compile(self, request: CodeRequest) -> Any:
        place = (request.prefix, request.key, request.device)
        known = self._compiled.get(place)
        if known is not None:
            return known
        name = self._name_key(request)
        known = self._preloaded.get(name)
        if known is not None and known.device == request.device:
            self._compiled[place] = known
            return known
        return self._compile_named(name, request)

    def _compile_named(self, name: str, request: CodeRequest) -> Any:
        row = request.options.get(_ONLY_FOR)
        options = {name: value for name, value in request.options.items() if name != _ONLY_FOR}
        request = request._replace(options=options)
        if row is not None:
            with kiln_knobs.scope(target=row):
                compiled = self._compile_here(name, request._replace(device=-2))
            self._forget(compiled)
            raise _OnlyCompiled(compiled)  # skips the launch, which would load it
        return self._compile_here(name, request)

    def _compile_here(self, name: str, request: CodeRequest) -> Any:
        from kiln.as_triton.extra import launching
        from kiln.as_triton.language import debugging

        listen_to_compiles()
        options = request.options
        _refuse_threads(options.get("num_warps"))
        if options.get("ir_override"):
            raise errors.UsageError(
                f"expected no ir_override for {self.__name__} (because a file of Triton's stages would have no effect),"
                f" got {options['ir_override']!r}",
                hint="`kiln compile` goes on from a file of one of Kiln's stages",
            )
        if not knobs.language.default_fp_fusion:
            options = {"enable_fp_fusion": False, **options}
            request = request._replace(options=options)
        before, after = knobs.runtime.jit_cache_hook, knobs.runtime.jit_post_compile_hook
        told = self._tell_compile(name, request) if before or after else {}
        if before and before(**told):
            raise _Declined
        try:
            with debugging(bool(options.get("debug", self.debug))), launching(options):
                compiled: Any = super()._compile(request)
        except errors.ResourceError as error:
            if (options.get("num_ctas") or 1) > 1 and error.available == 1:
                raise NoClusters(f"num_ctas > 1 requires NVIDIA SM90+ (Hopper): {error}") from None
            raise OutOfResources.like(error) from None
        compiled.options, compiled.key = dict(options), name
        if after:
            after(**told)
        return compiled

    def _tell_compile(self, identity: str, request: CodeRequest) -> dict[str, Any]:
        """The arguments of the compile hooks."""
        found, options = request.parameters, request.options
        signature = {p.name: "constexpr" if p.kind == "constexpr" else p.type for p in found}
        constants = {(i,): p.value for i, p in enumerate(found) if p.kind == "constexpr"}
        attrs = {(i,): [["tt.divisibility", 16]] for i, p in enumerate(found) if p.divisible}
        asked = {"num_warps": 4, "num_ctas": 1, "num_stages": 3, "enable_fp_fusion": True, **options}
        types = ", ".join(f"{name}: {type}" for name, type in signature.items())
        spelled = ", ".join(f"{name}={value}" for name, value in asked.items())
        name = f"{self.fn.__qualname__}[{spelled}]({types})"
        data = specialization.dump(self._fn_name, identity, found, options, request.disjoint)
        libraries = tuple((options.get("extern_libs") or {}).items())
        facts = {"key": identity, "signature": signature, "device": max(request.device, 0), "constants": constants,
                 **asked, "extern_libs": libraries, "configs": [attrs], "is_warmup": False,
                 "specialization_data": data}  # fmt: skip
        info = JitFunctionInfo(self.module, self.fn.__qualname__, self)
        return {
            "key": identity,
            "repr": name,
            "fn": info,
            "compile": facts,
            "is_manual_warmup": False,
            "already_compiled": False,
        }

    def make_refusals(self) -> _kiln.Refusals:
        return Refusals(self).as_table()

    def __repr__(self) -> str:
        return f"JITFunction({self.module}:{self.__qualname__})"


def jit(
    fn: Any = None,
    *,
    version: Any = None,
    repr: Callable[..., str] | None = None,
    launch_metadata: Callable[..., Any] | None = None,
    do_not_specialize: Iterable[int | str] | None = None,
    do_not_specialize_on_alignment: Iterable[int | str] | None = None,
    debug: bool | None = None,
    noinline: bool | None = None,
) -> Any:
    """Makes a Python function a kernel or a function that kernels call; see `kiln.jit`."""

    def decorate(function: Any) -> Any:
        if isinstance(function, JITCallable):
            return function
        return JITFunction(
            function, version=version, repr=repr, launch_metadata=launch_metadata, debug=debug,
            do_not_specialize=tuple(do_not_specialize or ()), noinline=bool(noinline),
            do_not_specialize_on_alignment=tuple(do_not_specialize_on_alignment or ()),
        )  # fmt: skip

    return decorate if fn is None else decorate(fn)


def _tell_load(chain: str, compiled: Any) -> None:
    hook = getattr(knobs.runtime, chain)
    if hook and isinstance(compiled.kernel, JITFunction):
        hook(compiled.module, compiled.function, compiled.name, compiled.metadata, compiled.hash)


def _tell_times(event: Any) -> None:
    listener = knobs.compilation.listener
    if not listener or not isinstance(event.kernel, JITFunction):
        return
    took = {name: max(1, round(seconds * 1e6)) for name, seconds in event.steps}
    lowering = [("compiler", took["compiler"])] if "compiler" in took else []
    times = knobs.CompileTimes(took.get("front end", 0), lowering, took.get("store", 0))
    compiled = event.compiled
    target = compiled.metadata.target
    metadata = {**compiled.metadata, "target": GPUTarget(target.backend, target.arch, target.warp_size)}
    listener(src=compiled.src, metadata=metadata, metadata_group={}, times=times, cache_hit=event.cached)


_LISTENERS: tuple[tuple[Any, str, str, Callable[[Any], None]], ...] = (
    (hooks.load_start, "runtime", "kernel_load_start_hook", lambda code: _tell_load("kernel_load_start_hook", code)),
    (hooks.load_end, "runtime", "kernel_load_end_hook", lambda code: _tell_load("kernel_load_end_hook", code)),
    (hooks.compile_end, "compilation", "listener", _tell_times),
)


def listen_to_compiles() -> None:
    """Registers listeners for compiles and loads only while Triton's switches name hooks for them, because a listener
    confines compiles to the launching thread."""
    for told, group, chain, listener in _LISTENERS:
        wanted = bool(getattr(getattr(knobs, group), chain))
        if wanted != (listener in told):
            (told.add if wanted else told.remove)(listener)


def _fact(value: Any) -> tuple[Any, ...]:
    """The properties of an argument that distinguish compiles, for the keys of `AsyncCompileMode`."""
    if hasattr(value, "data_ptr"):
        return str(value.dtype), value.data_ptr() % 16 == 0, str(getattr(value, "device", ""))
    return type(value), repr(value)


def _digest(data: bytes) -> str:
    from kiln import _kiln

    return _kiln.digest(data)


def get_full_name(fn: Any) -> str:
    return f"{fn.__module__}.{fn.__qualname__}"


def get_jit_fn_file_line(fn: Any) -> tuple[str, int]:
    """The file of a kernel and the line of its `def`."""
    while not isinstance(fn, JITCallable):
        fn = fn.fn
    return fn.fn.__code__.co_filename, fn.tree.lineno


def _spell_types() -> dict[str, str]:
    """Maps every spelling of an element type to its spelling in signatures."""
    spelled = {"bool": "i1", "int": "i32", "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5"}
    for name, kind in vars(kl).items():
        if isinstance(kind, kl.dtype):
            text = str(kind).replace("uint", "u").replace("int", "i")
            spelled |= {name: text, str(kind): text, text: text}
    return spelled


type_canonicalisation_dict = _spell_types()

# -- arrays ------------------------------------------------------------------------------------


class MockTensor(interface.MockTensor):
    """Stands for a tensor when only its type matters: `kernel.warmup(MockTensor(torch.float32), …)`."""

    def __init__(self, dtype: Any, shape: Iterable[int] | None = None):
        super().__init__(dtype)
        self.shape = [1] if shape is None else list(shape)

    @staticmethod
    def wrap_dtype(value: Any) -> Any:
        return MockTensor.wrap(value)

    def stride(self) -> tuple[int, ...]:
        steps = [1]
        for size in self.shape[:0:-1]:
            steps.append(steps[-1] * size)
        return tuple(reversed(steps))

    @staticmethod
    def ptr_range() -> int:
        return 0


class TensorWrapper:
    """A tensor whose elements are reinterpreted as another type of the same size. Made by `reinterpret`."""

    def __init__(self, base: Any, dtype: Any):
        self.base, self.dtype = base, dtype
        self.data = getattr(base, "data", base)
        self.device = getattr(base, "device", None)
        self.shape = base.shape

    @property
    def is_cpu(self) -> bool:
        """Whether the tensor is in host memory; launches ask this."""
        return getattr(self.device, "type", "cpu") == "cpu"

    @property
    def nbytes(self) -> int:
        return self.base.nbytes

    def data_ptr(self) -> int:
        return self.base.data_ptr()

    def __getattr__(self, name: str) -> Any:
        if name == "untyped_storage":  # gives the size of the storage, if the tensor knows it
            return getattr(self.base, name)
        raise AttributeError(f"a tensor seen as another type has no attribute {name!r}", name=name)

    def stride(self, *args: Any) -> Any:
        return self.base.stride(*args)

    def element_size(self) -> int:
        return self.base.element_size()

    def cpu(self) -> TensorWrapper:
        return TensorWrapper(self.base.cpu(), self.dtype)

    def copy_(self, other: TensorWrapper) -> None:
        self.base.copy_(other.base)

    def clone(self) -> TensorWrapper:
        return TensorWrapper(self.base.clone(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        return TensorWrapper(self.base.to(device), self.dtype)

    def new_empty(self, sizes: Any) -> TensorWrapper:
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __str__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """`tensor` with its elements reinterpreted as `dtype`, a type of the language such as `tl.float8e5`."""
    base = tensor.base if isinstance(tensor, TensorWrapper) else tensor
    if not hasattr(base, "data_ptr"):
        raise TypeError(f"expected a tensor to reinterpret (something with data_ptr()), got {type(tensor).__name__}")
    return base if dtype == base.dtype else TensorWrapper(base, dtype)
