"""`triton.compiler`: ahead-of-time compilation, and the attributes of compiled kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kiln import errors, knobs
from kiln.as_triton.backends import GPUTarget
from kiln.as_triton.cache import triton_key
from kiln.as_triton.errors import CompilationError
from kiln.runtime import jit

__all__ = [
    "ASTSource",
    "CompilationError",
    "CompiledKernel",
    "GPUTarget",
    "IRSource",
    "KernelMetadata",
    "LazyDict",
    "compile",
    "make_backend",
    "triton_key",
]

_LINE_BYTES = 64


class KernelMetadata(dict):
    """The metadata of compiled code, by Triton's names as attributes and by Kiln's as items (`CompiledKernel.metadata`
    of Kiln): name, num_warps, num_ctas, num_stages, shared, target, hash, …"""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the metadata of a compiled kernel has no {name!r} here", name=name) from None

    def _asdict(self) -> dict[str, Any]:
        return dict(self)

    @property
    def _fields(self) -> tuple[str, ...]:
        return tuple(self)


class SpecializationProxy(NamedTuple):
    """The specialisation from which a kernel's `repr` makes a name."""

    constants: dict[str, Any]
    signature: dict[str, str]


class CompiledKernel(jit.CompiledKernel):
    """Code of one specialisation, as Triton shows it: `metadata`, `asm`, `n_regs`, `n_spills`, `n_max_threads`, `src`,
    `hash`, `kernel[grid](*args)`."""

    options: Mapping[str, Any] = {}
    """The launch options it was compiled with."""
    key: str = ""
    """The key that compile hooks get."""
    _known: KernelMetadata | None = None

    @property
    def metadata(self) -> Any:
        if self._known is None:
            known = dict(super().metadata)
            target, given = known["target"], {**known.get("options", {}), **self.options}
            cuda = known.get("cuda") or {}
            self._known = KernelMetadata(known)  # what follows asks for it
            self._known.update(
                target=_Target(target),
                hash=self.hash,
                shared=self.shared,
                num_warps=cuda.get("num_warps") or given.get("num_warps") or 4,
                num_ctas=cuda.get("cluster") or given.get("num_ctas") or 1,
                num_stages=given.get("num_stages") or 3,
                cluster_dims=(cuda.get("cluster", 1), 1, 1),
                maxnreg=given.get("maxnreg"),
                enable_fp_fusion=given.get("enable_fp_fusion", True),
                debug=bool(given.get("debug")),
                warp_size=32 if cuda else 1,
                tmem_size=0,
                global_scratch_size=0,
                profile_scratch_size=0,
            )
        return self._known

    @property
    def name(self) -> str:
        """The kernel's, or what its `repr` makes of the specialisation."""
        rule = self.kernel._name  # type: ignore[attr-defined]
        if rule is None:
            return super().name
        source = self.src
        constants = {self.parameters[place[0]].name: value for place, value in source.constants.items()}
        return str(rule(SpecializationProxy(constants, source.signature)))

    @property
    def num_warps(self) -> int:
        return self.metadata.num_warps

    @property
    def num_ctas(self) -> int:  # type: ignore[override]
        return self.metadata.num_ctas

    def _on_cpu(self) -> bool:
        return not dict.get(self.metadata, "cuda")

    @property
    def shared(self) -> int:
        """Working memory of an instance in bytes: shared memory on a GPU; on the CPU its frame (a line or more)."""
        known = self._known or super().metadata
        if known.get("cuda"):
            return self.loaded.figures["shared_bytes"] if self.loaded else known["cuda"]["shared_bytes"]
        return max(_LINE_BYTES, known["frame_bytes"])

    @property
    def n_regs(self) -> int:
        """Registers of a thread; on the CPU its vector registers."""
        return self.metadata["target"]["vector_registers"] if self._on_cpu() else super().n_regs

    @property
    def n_spills(self) -> int:
        """Spilled words of a thread; on the CPU, words of the frame."""
        return self.metadata["frame_bytes"] // 4 if self._on_cpu() else super().n_spills

    @property
    def n_max_threads(self) -> int:
        """Threads that a program instance may have with these registers; on the CPU any number stands for one."""
        return 1024 if self._on_cpu() else super().n_max_threads

    @property
    def hash(self) -> str:
        """A digest of the source and of what it is specialised for."""
        from kiln import _kiln

        return _kiln.digest(f"{self.kernel.cache_key}\0{self.signature}\0{self.disjoint}".encode())

    @property
    def src(self) -> ASTSource:
        signature = {p.name: "constexpr" if p.kind == "constexpr" else p.type for p in self.parameters}
        constants = {p.name: p.value for p in self.parameters if p.kind == "constexpr"}
        attrs = {(i,): [["tt.divisibility", 16]] for i, p in enumerate(self.parameters) if p.divisible}
        return ASTSource(self.kernel, signature, constants, attrs)

    @property
    def module(self) -> Any:
        """The loaded code, whose handles are Kiln's own."""
        return self.loaded

    function = module
    packed_metadata = metadata

    def _init_handles(self) -> None:
        """Does nothing: the code is already loaded."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """A launch of this code: takes all arguments in order, or those that are no constexpr."""
        return lambda *args, stream=None: self._launch(grid, args)

    def run(self, x: int, y: int, z: int, stream: Any, function: Any, packed: Any, told: Any, enter: Any, leave: Any,
            *args: Any) -> Any:  # fmt: skip
        """A launch as Triton's own runtime words it: the grid, handles, hooks, then every argument."""
        if enter:
            enter(told)
        self._launch((x, y, z), args)
        if leave:
            leave(told)

    def _launch(self, grid: Any, args: tuple[Any, ...]) -> Any:
        given = list(args)
        if len(given) != len(self.parameters):
            # As declared: an integer 1 or a None is a constant in the code, but still an argument.
            constants = [p.is_constexpr for p in self.kernel.params]
            places = constants.count(False)
            if len(given) != places:
                expected = f"expected {len(self.parameters)} arguments, or the {places} that are no constexpr"
                raise errors.LaunchError(f"{expected}, got {len(given)}", kernel=self.kernel.__name__)
            rest = iter(given)
            given = [p.value if c else next(rest) for p, c in zip(self.parameters, constants, strict=True)]
        names = [p.name for p in self.parameters]
        return self.kernel[grid](**dict(zip(names, given, strict=True)), **self.options)  # type: ignore[index]


class _Target(dict):
    """The target of compiled code: Kiln's row, with Triton's `backend`, `arch` and `warp_size`."""

    @property
    def backend(self) -> str:
        return "cuda" if self["kind"] == "cuda" else "cpu"

    @property
    def arch(self) -> Any:
        digits = "".join(c for c in self["name"].partition("_")[2] if c.isdigit())
        return int(digits) if self.backend == "cuda" and digits else self["cpu"]

    @property
    def warp_size(self) -> int:
        return 32 if self.backend == "cuda" else 1

    def __repr__(self) -> str:
        return repr(GPUTarget(self.backend, self.arch, self.warp_size))


class LazyDict:
    """The argument of a launch hook: `get()` returns the data, with what the kernel's `launch_metadata` adds."""

    def __init__(self, data: dict[str, Any]):
        self.data = data
        self.extras: list[tuple[Callable[..., dict[str, Any]], tuple[Any, ...]]] = []

    def add(self, function: Callable[..., dict[str, Any]], args: tuple[Any, ...]) -> None:
        self.extras.append((function, args))

    def get(self) -> dict[str, Any]:
        while self.extras:
            function, args = self.extras.pop(0)
            self.data = {**self.data, **function(*args)}
        return self.data


def launch_metadata(compiled: CompiledKernel, grid: Any, arguments: dict[str, Any]) -> LazyDict:
    """The data about a launch that its hook receives."""
    from kiln.as_triton.driver import driver

    told = LazyDict(
        {"name": compiled.name, "function": compiled.function, "stream": driver.active.get_current_stream()}
    )
    describe = getattr(compiled.kernel, "launch_metadata", None)
    if describe is not None:
        if callable(grid):
            grid = grid(arguments)
        told.add(describe, (grid, compiled.metadata, arguments))
    return told


class ASTSource:
    """A kernel and what to compile it for: `signature` by name (`{"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}`),
    `constexprs` by name or place, `attrs` by place (`{(0,): [["tt.divisibility", 16]]}`)."""

    ext = "ttir"

    def __init__(
        self,
        fn: Any,
        signature: Mapping[str, str],
        constexprs: Mapping[Any, Any] | None = None,
        attrs: Mapping[Any, Any] | None = None,
    ):
        for name in signature:
            if not isinstance(name, str):
                raise TypeError(f"expected the names of parameters as keys of the signature, got {name!r}")
        self.fn, self.signature, self.name = fn, dict(signature), fn.__name__
        self.constants = {self._place(key): value for key, value in (constexprs or {}).items()}
        self.attrs = dict(attrs or {})

    def _place(self, key: Any) -> tuple[int, ...]:
        if isinstance(key, str):
            return (self.fn.arg_names.index(key),)
        return key if isinstance(key, tuple) else (key,)

    def hash(self) -> str:
        from kiln import _kiln

        parts = [self.fn.cache_key, *map(str, sorted(self.signature.items())), str(self.constants), str(self.attrs)]
        return _kiln.digest("\0".join(parts).encode())

    def parameters(self) -> list[Any]:
        """One parameter for each of the kernel's, as Kiln's compiler takes them."""
        from kiln import _kiln
        from kiln.frontend.signature import Parameter

        found = []
        for place, parameter in enumerate(self.fn.params):
            text = self.signature.get(parameter.name, "constexpr")
            if text == "constexpr":
                if (place,) not in self.constants and not parameter.has_default:
                    raise errors.UserError(
                        f"{self.name}: expected a type or a value for parameter {parameter.name!r}, got none"
                    )
                value = self.constants.get((place,), parameter.default)
                found.append(Parameter(parameter.name, "constexpr", value=value))
                continue
            divisible = any(name == "tt.divisibility" and n % 16 == 0 for name, n in self.attrs.get((place,), ()))
            known = text.replace("*k", "*", 1) + (":16" if divisible else "")
            found.append(_kiln.parse_parameter(parameter.name, known))
        return found


class IRSource:
    """Named by programs in annotations; there is none, since Kiln's stages are not Triton's."""

    def __init__(self, path: Any, *rest: Any):
        raise errors.UsageError(
            f"expected no IRSource (because Kiln's stages are not Triton's), got one of {path!r}",
            hint="`kiln compile FILE` goes on from the file of any stage of Kiln's own",
        )


def compile(src: Any, target: GPUTarget | None = None, options: Mapping[str, Any] | None = None) -> CompiledKernel:
    """Compiles a kernel without arguments. For the machine's own target the code is loaded; for another target it is
    only for inspection."""
    if not isinstance(src, ASTSource):
        raise errors.UsageError(
            f"triton.compile: expected an ASTSource, got {src!r}",
            hint="`kiln compile FILE` goes on from the file of any stage of Kiln's own",
        )
    from kiln import cuda

    if target is None:
        from kiln.as_triton.driver import driver

        target = driver.active.get_current_target()
    row = target.row()
    here = row == "cpu" or (cuda.is_available() and row == cuda.target())
    device = (-1 if row == "cpu" else cuda.current_device()) if here else -2
    from kiln.as_triton.extra import launching
    from kiln.as_triton.language import debugging

    on = bool((options or {}).get("debug", src.fn.debug))
    with knobs.scope(target=row), debugging(on), launching(options or {}):
        compiled = jit.compile_kernel(src.fn, src.parameters(), dict(options or {}), (), device)
    assert isinstance(compiled, CompiledKernel)
    compiled.options = dict(options or {})
    return compiled


def make_backend(target: GPUTarget) -> Any:
    """Refused: Kiln's compiler has no backends in Python."""
    raise errors.UsageError(
        f"expected triton.compile instead of a backend (because Kiln has none in Python), got make_backend({target})",
        hint="triton.compile(src, target) compiles for a target",
    )
