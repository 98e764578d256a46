"""`triton.knobs`: Triton's switches. Those with a meaning in Kiln take effect; setting any other raises an error.

A group is an attribute such as `triton.knobs.runtime`, a switch an attribute of its group. A switch that is not set is
read from Triton's environment variable each time. For features of Triton's own compiler (dumps of stages, a disk
cache), Kiln has other switches.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kiln import errors
from kiln.knobs import triton_variable

__all__ = [
    "CompileTimes",
    "HookChain",
    "NvidiaTool",
    "autotuning",
    "base_knobs",
    "cache",
    "compilation",
    "language",
    "nvidia",
    "propagate_env",
    "refresh_knobs",
    "runtime",
]


def _class(text: str) -> Any:
    """The class that "module:Class" names."""
    module, _, name = text.strip().partition(":")
    if not module or not name:
        raise RuntimeError(f"expected MODULE:CLASS (because it is imported), got {text!r}")
    return getattr(importlib.import_module(module), name)


class Knob(NamedTuple):
    """One switch: its environment variable, its default, what to use instead if Kiln does not support it, and the
    function that parses the variable's text."""

    default: Any = None
    variable: str = ""
    instead: str = ""
    parse: Callable[[str], Any] | None = None

    @property
    def key(self) -> str:
        return self.variable

    def read(self) -> Any:
        text = triton_variable(self.variable) if self.variable and not self.instead else None
        default = self.default() if callable(self.default) else self.default
        if text is None:
            return default
        if self.parse is not None:
            return self.parse(text)
        return text.strip().lower() in ("1", "true", "on", "yes", "y") if isinstance(default, bool) else text


class CompileTimes(NamedTuple):
    """The times of a compile in microseconds, for a `compilation.listener`."""

    ir_initialization: int
    """The time until the first IR is made, or the cache gives the final code."""
    lowering_stages: list[tuple[str, int]]
    """The compiler's stages, by name."""
    store_results: int

    @property
    def total_lowering(self) -> int:
        return sum(time for _, time in self.lowering_stages)

    @property
    def total(self) -> int:
        return self.ir_initialization + self.total_lowering + self.store_results


class HookChain:
    """Functions that are called in order."""

    def __init__(self, reversed: bool = False):
        self.calls: list[Callable[..., Any]] = []
        self.reversed = reversed

    def add(self, function: Callable[..., Any]) -> None:
        if function not in self.calls:
            self.calls.append(function)

    def remove(self, function: Callable[..., Any]) -> None:
        if function in self.calls:
            self.calls.remove(function)

    def __bool__(self) -> bool:
        return bool(self.calls)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        for function in self.calls[::-1] if self.reversed else list(self.calls):
            function(*args, **kwargs)


class Group:
    """The switches of one subject."""

    def __init__(self, name: str, table: dict[str, Knob]):
        self.__dict__.update(_name=name, _table=table, _set={})

    @property
    def knobs(self) -> dict[str, Any]:
        """Every switch of the group with its value."""
        return {name: getattr(self, name) for name in self._table}

    @property
    def knob_descriptors(self) -> dict[str, Knob]:
        """The switches of the group that have an environment variable."""
        return {name: knob for name, knob in self._table.items() if knob.variable}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._table:
            raise AttributeError(self._unknown(name))
        return self._set[name] if name in self._set else self._table[name].read()

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._table:
            raise AttributeError(self._unknown(name))
        knob = self._table[name]
        if knob.instead and value != knob.read():
            raise errors.UsageError(
                f"triton.knobs.{self._name}.{name}: expected it to stay {knob.read()!r} (because Kiln has no such"
                f" switch), got {value!r}",
                hint=knob.instead,
            )
        self._set[name] = value

    def __delattr__(self, name: str) -> None:
        self._set.pop(name, None)

    def _unknown(self, name: str) -> str:
        near = errors.near_match(name, self._table)
        return f"triton.knobs.{self._name} has no {name!r} here" + (f"; did you mean {near!r}?" if near else "")

    def reset(self) -> Group:
        """Discards the values that were set in code."""
        self._set.clear()
        return self

    def copy(self) -> Group:
        other = Group(self._name, self._table)
        other._set.update(self._set)
        return other

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """A block after which the values set inside it are discarded."""
        saved = dict(self._set)
        try:
            yield
        finally:
            self._set.clear()
            self._set.update(saved)


def _folder(name: str) -> Callable[[], str]:
    def folder() -> str:
        from kiln import knobs

        return os.path.join(os.path.dirname(knobs.crash_dir), "triton", name)

    return folder


def replace_group(name: str, group: Group) -> None:
    """`triton.knobs.language = group`: `group` becomes active, and the replaced group keeps the values set in it.

    Launches watch the dictionary of set values, so the active group takes that dictionary over."""
    before: Group = globals()[name]
    if group is before:
        return
    watched, kept = before._set, dict(before._set)
    before.__dict__["_set"] = kept
    values = dict(group._set)
    watched.clear()
    watched.update(values)
    group.__dict__["_set"] = watched
    globals()[name] = group


base_knobs = Group
propagate_env = True
"""Unless this is false, Triton writes switches that are set in code into the environment; Kiln never does."""


class NvidiaTool(NamedTuple):
    """A program of the CUDA toolkit; `version` is its release, such as "12.8". Without a path, the driver does its
    work."""

    path: str
    version: str


def _tool(name: str) -> NvidiaTool:
    from kiln import cuda, toolchain

    found = getattr(toolchain, name)()
    if found is None:
        if name == "ptxas" and cuda.is_available():
            return NvidiaTool("", ".".join(map(str, cuda.driver_version())))
        raise RuntimeError(f"Cannot find {name}: `kiln info` says where Kiln looked")
    return NvidiaTool(found.path, ".".join(found.version.split(".")[:2]))


_ENTER, _EXIT = HookChain(), HookChain(reversed=True)
_LOAD_START, _LOAD_END = HookChain(), HookChain(reversed=True)
_STAGES = "KILN_DUMP=directory writes every stage, and `kiln compile` goes on from the file of one"

runtime = Group(
    "runtime",
    {
        "debug": Knob(False, "TRITON_DEBUG"),
        "interpret": Knob(False, instead="kernels run on the CPU, compiled; KILN_CHECK=bounds checks every access"),
        "sanitize_overflow": Knob(True),
        "override_arch": Knob(None, "TRITON_OVERRIDE_ARCH"),
        "launch_enter_hook": Knob(lambda: _ENTER),
        "launch_exit_hook": Knob(lambda: _EXIT),
        "jit_cache_hook": Knob(None),
        "jit_post_compile_hook": Knob(None),
        "kernel_load_start_hook": Knob(lambda: _LOAD_START),
        "kernel_load_end_hook": Knob(lambda: _LOAD_END),
        "add_stages_inspection_hook": Knob(None, instead=_STAGES),
    },
)
language = Group(
    "language",
    {
        "fp32_default": Knob(None, "TRITON_F32_DEFAULT"),
        "default_fp_fusion": Knob(True, "TRITON_DEFAULT_FP_FUSION"),
        "strict_reduction_order": Knob(False),
    },
)
autotuning = Group(
    "autotuning",
    {"cache": Knob(False, "TRITON_CACHE_AUTOTUNING"), "print": Knob(False, "TRITON_PRINT_AUTOTUNING")},
)
cache = Group(
    "cache",
    {
        "home_dir": Knob(lambda: os.path.expanduser("~"), "TRITON_HOME"),
        "dir": Knob(_folder("cache"), "TRITON_CACHE_DIR"),
        "dump_dir": Knob(_folder("dump"), "TRITON_DUMP_DIR"),
        "override_dir": Knob(_folder("override"), "TRITON_OVERRIDE_DIR"),
        "manager_class": Knob(None, "TRITON_CACHE_MANAGER", parse=_class),
        "remote_manager_class": Knob(None, instead="compiled kernels are kept in memory only"),
    },
)
compilation = Group(
    "compilation",
    {
        "always_compile": Knob(True),  # nothing compiled is kept between processes
        "override": Knob(False, instead=_STAGES),
        "dump_ir": Knob(False, instead=_STAGES),
        "store_binary_only": Knob(False),
        "use_ir_loc": Knob(None, instead="KILN_LINE_INFO=1 keeps the lines of the source"),
        "disable_line_info": Knob(False),
        "front_end_debugging": Knob(False),
        "enable_asan": Knob(False, instead="KILN_CHECK=bounds checks every access, on the CPU"),
        "allow_non_constexpr_globals": Knob(False, instead="make the global a tl.constexpr"),
        "instrumentation_mode": Knob("", instead="use a profiler of the machine with KILN_LINE_INFO=1"),
        "listener": Knob(None),
    },
)
nvidia = Group(
    "nvidia",
    {
        "disable_ptxas_opt": Knob(False, instead="Kiln always optimises"),
        "dump_nvptx": Knob(False, instead=_STAGES),
        "mock_ptx_version": Knob(None, instead="the version follows from the ptxas that is found, see KILN_PTXAS"),
        "ptxas": Knob(lambda: _tool("ptxas"), instead="set KILN_PTXAS"),
        "nvdisasm": Knob(lambda: _tool("nvdisasm"), instead="set KILN_NVDISASM"),
        "libdevice_path": Knob(None, instead="set KILN_LIBDEVICE"),
    },
)


# Switches of `runtime` that every launch must check.
_TOLD = ("launch_enter_hook", "launch_exit_hook", "jit_cache_hook", "override_arch")


def tells_launches() -> bool:
    """Whether there are hooks for launches or their compiles, or code for another machine is requested. Checked at each
    launch; cheap if no switch was set in code."""
    told = runtime._set
    return bool(_ENTER.calls or _EXIT.calls or (told and any(told.get(name) for name in _TOLD)))


def refresh_knobs() -> None:
    """Does nothing: a switch that is not set is read each time."""
