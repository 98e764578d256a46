"""The modules that `import triton` finds. They contain no code and look names up where names.py says.

They are put into `sys.modules` together, so that a name is the same however it is imported. A finder, placed before all
others, explains missing modules and gives the version of a distribution called triton.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from kiln import errors
from kiln.as_triton import names

_PACKAGE = "triton"


class TritonModule(ModuleType):
    """One of Triton's modules; its names are looked up on first use."""

    # Tells the front end that these names belong to the language, whatever the module is called.
    __kiln_names__ = True

    def __init__(self, name: str, sources: tuple[str, ...]):
        super().__init__(name, f"Triton's module {name}, by Kiln (see kiln.as_triton).")
        self.__dict__["__kiln_sources__"] = sources
        self.__path__: list[str] = []  # submodules of any module may be requested; the finder answers
        self.__package__ = name
        self.__file__ = __file__
        self.__loader__ = _LOADER
        self.__spec__ = ModuleSpec(name, _LOADER, origin=__file__, is_package=True)

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return _public(self)
        if not name.startswith("__") or name in _DUNDERS:
            for source in self.__kiln_sources__:
                module = importlib.import_module(source)
                value = getattr(module, name, _MISSING)
                if value is not _MISSING and _shows(module, name, value):
                    self.__dict__[name] = value
                    return value
        raise AttributeError(_no_name(self, name), name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__name__ == "triton.knobs" and type(value).__name__ == "Group" and name in self.__dict__:
            from kiln.as_triton import knobs

            knobs.replace_group(name, value)  # as tests do that want their own switches
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_public(self)})


_MISSING = object()
_DUNDERS = ("__version__", "__kiln_version__")


def _public(module: TritonModule) -> list[str]:
    """The names that `from module import *` imports."""
    found: dict[str, None] = {}
    for source in module.__kiln_sources__:
        loaded = importlib.import_module(source)
        public = getattr(loaded, "__all__", None)
        if public is None:
            public = [name for name, value in vars(loaded).items() if name[0] != "_" and _shows(loaded, name, value)]
        found.update(dict.fromkeys(public))
    for name, value in list(vars(module).items()):
        if isinstance(value, TritonModule):
            found[name] = None
    return list(found)


def _shows(source: ModuleType, name: str, value: Any) -> bool:
    """Whether users see a name of `source`: public names, and everything of the language that kernels may use."""
    if name in getattr(source, "__all__", ()):
        return True
    if source.__name__.startswith("kiln.language"):
        return (
            hasattr(value, "primitive_bitwidth")
            or getattr(value, "__kiln_builtin__", False)
            or getattr(value, "__kiln_constexpr_function__", False)
            or type(value).__name__ in ("constexpr", "KernelFunction")
            or (isinstance(value, type) and value.__module__.startswith("kiln.language"))
        )
    return not name.startswith("_") and getattr(value, "__module__", None) == source.__name__


def _no_name(module: TritonModule, name: str) -> str:
    text = f"module {module.__name__!r} has no attribute {name!r}"
    reason = names.why_no_name(module.__name__, name)
    if not reason and name.startswith("__"):
        return text
    if not reason:
        near = errors.near_match(name, _public(module))
        reason = f"Kiln has no such name, for Triton {names.VERSION}" + (f"; did you mean {near!r}?" if near else "")
    return f"{text}: {reason}"


class _Loader:
    """Loads nothing, since the modules are in `sys.modules` already; module specs need a loader."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        pass


_LOADER: Any = _Loader()


class _Distribution(importlib.metadata.Distribution):
    """Answers `importlib.metadata.version("triton")`."""

    def read_text(self, filename: str) -> str | None:
        if filename == "METADATA":
            return f"Metadata-Version: 2.1\nName: {_PACKAGE}\nVersion: {names.VERSION}\nSummary: Kiln as Triton\n"
        return None

    def locate_file(self, path: Any) -> Any:
        import pathlib

        return pathlib.Path(__file__).parent / path


class _Finder:
    """The finder in `sys.meta_path`, called for Triton's modules that are not in `sys.modules`."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        if name == _PACKAGE or name.startswith(_PACKAGE + "."):
            if name in _modules:  # it was removed from sys.modules
                sys.modules[name] = _modules[name]
                return _modules[name].__spec__
            raise ModuleNotFoundError(f"No module named {name!r}: {names.why_no_module(name)}", name=name)
        return None

    def find_distributions(self, context: Any = None) -> Iterable[importlib.metadata.Distribution]:
        if context is not None and context.name in (_PACKAGE, None):
            yield _Distribution()

    def invalidate_caches(self) -> None:
        pass


_finder = _Finder()
_modules: dict[str, TritonModule] = {}


def installed() -> bool:
    return _finder in sys.meta_path


def install() -> None:
    if installed():
        return
    loaded = sys.modules.get(_PACKAGE)
    if loaded is not None:
        raise errors.UsageError(
            f"expected to be asked before triton is imported (because what has been imported keeps its names), got it "
            f"from {getattr(loaded, '__file__', None) or '?'}",
            hint="call kiln.as_triton.install() first, or start the program with: kiln run --as-triton program.py",
        )
    for name, sources in names.MODULES.items():
        _modules[name] = TritonModule(name, sources)
    for name, module in _modules.items():
        parent, _, child = name.rpartition(".")
        if parent and name not in names.SHADOWED:
            setattr(_modules[parent], child, module)
    switches = _modules["triton.knobs"]
    for name in _public(switches):  # programs that reset all switches iterate over the module's dictionary
        getattr(switches, name)
    sys.modules.update(_modules)
    sys.meta_path.insert(0, _finder)  # type: ignore[arg-type]


def uninstall() -> None:
    if not installed():
        return
    sys.meta_path.remove(_finder)  # type: ignore[arg-type]
    for name, module in _modules.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
    _modules.clear()
