"""Every switch Kiln reads from the environment: one typed registry, the only reader of ``os.environ``.

A switch is an attribute of this module (``kiln.knobs.check``). Assigning to it beats the environment; ``scope()`` does
so for a block, in the thread that runs it; ``reset()`` goes back. An unknown ``KILN_…`` variable is reported once, with
the nearest known name.

    with kiln.knobs.scope(check="bounds"):
        kernel[grid](x, y)
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in ("1", "true", "on", "yes"):
        return True
    if lowered in ("", "0", "false", "off", "no"):
        return False
    raise ValueError("expected one of 1, 0, true, false, on, off, yes, no")


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError("expected a number that is not negative")
    return value


def _one_of(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"expected one of {', '.join(names)}")
        return text

    return parse


def _log_text(text: str) -> str:
    level = text.partition(",")[0].strip().lower()
    if level not in ("", "debug", "info", "warning", "error"):
        raise ValueError("expected debug, info, warning or error, then optionally a comma and a component")
    return text


def parse_bytes(text: str) -> int:
    """A size such as 512M or 2G."""
    number, unit = text.strip(), 1
    if number[-1:].upper() in ("K", "M", "G", "T") and number[:-1]:
        unit = 1024 ** (1 + "KMGT".index(number[-1].upper()))
        number = number[:-1]
    if not number.strip().isdigit():
        raise ValueError("expected a size such as 512M or 2G")
    return int(number) * unit


def user_cache() -> str:
    """Kiln's folder among the user's caches."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(root, "kiln")


class Switch(NamedTuple):
    """One switch: attribute name, how its text is read, default (a value or a function giving it), meaning."""

    name: str
    parse: Callable[[str], Any]
    default: Any
    meaning: str
    values: str

    @property
    def variable(self) -> str:
        return "KILN_" + self.name.upper()

    def default_value(self) -> Any:
        return self.default() if callable(self.default) else self.default


SWITCHES: tuple[Switch, ...] = (
    Switch(
        "target",
        str,
        "cpu",
        "target row (`kiln info` lists them); a GPU's, or `cuda` for the row of the device, sends every launch there",
        "row name",
    ),
    Switch(
        "stage_arrays",
        _boolean,
        False,
        "with a GPU target: copy arrays of the host to the device and back, for tests and debugging",
        "0, 1",
    ),
    Switch(
        "check",
        _one_of("none", "bounds", "races"),
        "none",
        "check memory accesses on the CPU target: `bounds`, against the buffers passed in; "
        "`races`, between program instances; and with either, what `kl.assume` promises",
        "none, bounds, races",
    ),
    Switch(
        "warn_strides",
        _boolean,
        False,
        "warn about each array passed to a kernel whose elements are not contiguous in index order",
        "0, 1",
    ),
    Switch("device_assert", _boolean, True, "keep `kl.device_assert` in compiled kernels", "0, 1"),
    Switch(
        "num_threads", _natural, 0, "worker threads of the CPU target; 0: one per core this process may use", "number"
    ),
    Switch(
        "specializations",
        _natural,
        512,
        "specialisations of a kernel kept in memory; beyond that, the least recently used is dropped; 0: no limit",
        "number",
    ),
    Switch(
        "cache",
        str,
        "1",
        "the artifact cache: 1: in the user's cache directory; a folder; 0: every process compiles for itself",
        "0, 1, folder",
    ),
    Switch(
        "cache_size",
        parse_bytes,
        2 << 30,
        "disk space for the cache; beyond that, the least recently used entries are removed; 0: no limit",
        "512M, 2G, …",
    ),
    Switch(
        "cache_readonly",
        str,
        "",
        "a cache that is searched first and never written, such as one shipped with a package",
        "folder",
    ),
    Switch(
        "frozen",
        str,
        "",
        "a bundle made by `kiln freeze`: launches run only what is in it, and raise an error instead of compiling",
        "folder",
    ),
    Switch("dump", str, "", "write one numbered file per stage of every compile into this directory", "directory"),
    Switch(
        "crash_dir",
        str,
        lambda: os.path.join(user_cache(), "crashes"),
        "where an internal failure saves its IR",
        "directory",
    ),
    Switch("nvtx", _boolean, False, "mark compiles, loads and launches as ranges in NVIDIA's profilers", "0, 1"),
    Switch("timing", _boolean, False, "print the time of each stage of every compile to stderr", "0, 1"),
    Switch("verify_each", _boolean, False, "verify the IR after each pass", "0, 1"),
    Switch("line_info", _boolean, False, "keep source lines in the code, for debuggers and profilers", "0, 1"),
    Switch(
        "ptxas",
        str,
        "",
        "the assembler for NVIDIA GPUs; by default, the one that `kiln info` shows; `none`: the driver",
        "file",
    ),
    Switch("nvdisasm", str, "", "the disassembler for NVIDIA GPUs", "file"),
    Switch("libcuda", str, "", "the CUDA driver to load instead of `libcuda.so.1`", "file"),
    Switch(
        "tuned",
        str,
        "",
        "plans for matrix products, written by `kiln tune gemm`, instead of the shipped ones; read once",
        "file",
    ),
    Switch(
        "nvrtc",
        str,
        "",
        "the library that compiles CUDA C for `kiln.cuda.compile`; by default, one that is found",
        "file",
    ),
    Switch("libdevice", str, "", "CUDA's device library `libdevice.10.bc`, for kernels that call it", "file"),
    Switch(
        "log",
        _log_text,
        "",
        "logging of the `kiln` loggers to stderr: a level, or `level,component`, one of `jit`, `cache`, `autotune`, "
        "`kernels`",
        "debug, info, warning",
    ),
)
_BY_NAME = {switch.name: switch for switch in SWITCHES}
_overrides: dict[str, Any] = {}


class _Thread(threading.local):
    """The values set by the scopes that the thread is in, a new dictionary for each change; None outside all scopes."""

    values: dict[str, Any] | None = None


_thread = _Thread()
_scoped = False  # whether any thread has entered a scope so far
_parsed: dict[str, tuple[str, Any]] = {}


def _read(switch: Switch) -> Any:
    scoped = _thread.values
    if scoped is not None and switch.name in scoped:
        return scoped[switch.name]
    if switch.name in _overrides:
        return _overrides[switch.name]
    text = os.environ.get(switch.variable)
    if text is None:
        return switch.default_value()
    cached = _parsed.get(switch.name)
    if cached is not None and cached[0] == text:
        return cached[1]
    try:
        value = switch.parse(text)
    except ValueError as error:
        raise ValueError(f"{switch.variable}: {error}, got {text!r}") from None
    _parsed[switch.name] = (text, value)
    return value


def _write(name: str, value: Any) -> None:
    switch = _BY_NAME[name]
    if isinstance(value, str):
        value = switch.parse(value)
    elif type(value) is not type(switch.default_value()):
        expected = type(switch.default_value()).__name__
        raise TypeError(f"knobs.{name}: expected {expected}, got {type(value).__name__}")
    if _thread.values is None:
        _overrides[name] = value
    else:
        _thread.values = {**_thread.values, name: value}


@contextlib.contextmanager
def scope(**values: Any) -> Iterator[None]:
    """Sets switches for a block: ``with scope(check="bounds"): ...``, and for the thread that runs it alone. What is
    assigned to a switch inside ends with the block too."""
    saved = _thread.values
    globals()["_scoped"] = True  # an attribute of this module would have to be a switch
    _thread.values = saved or {}
    try:
        for name, value in values.items():
            if name not in _BY_NAME:
                raise AttributeError(_unknown(name, _BY_NAME, "kiln.knobs has no switch"))
            _write(name, value)
        yield
    finally:
        _thread.values = saved


def current_scope() -> dict[str, Any] | None:
    """The values set by the scopes that this thread is in, for `enter_scope`; None outside all scopes."""
    return _thread.values


@contextlib.contextmanager
def enter_scope(values: dict[str, Any] | None) -> Iterator[None]:
    """In the block, switches have the values of another thread's `current_scope`: for work handed to a thread pool."""
    if values is None:
        yield
    else:
        with scope(**values):
            yield


def reset() -> None:
    """Drops every value assigned in code, including those of this thread's scopes."""
    _overrides.clear()
    if _thread.values is not None:
        _thread.values = {}


def current() -> dict[str, Any]:
    """The value of every switch, by name."""
    return {switch.name: _read(switch) for switch in SWITCHES}


def places(*names: str) -> list[tuple[Any, Any]]:
    """Where the values of these switches are stored, as (dict, key) or (object, attribute): a switch is unchanged as
    long as its place holds the same object."""
    environment = os.environ._data  # type: ignore[attr-defined]
    found: list[tuple[Any, Any]] = [(globals(), "_scoped")]
    if _scoped:
        found.append((_thread, "values"))
    for name in names:
        variable = os.environ.encodekey(_BY_NAME[name].variable)  # type: ignore[attr-defined]
        found += [(_overrides, name), (environment, variable)]
    return found


def start_logging() -> None:
    """Sends the `kiln` loggers to stderr as the switch `log` says; without it they stay silent unless the program
    configures logging itself. Begins NVTX ranges if the switch `nvtx` asks for them."""
    if _read(_BY_NAME["nvtx"]):
        from kiln import nvtx

        nvtx.start()
    text = _read(_BY_NAME["log"])
    if not text:
        return
    import logging

    level, _, component = text.partition(",")
    logger = logging.getLogger("kiln" + (f".{component.strip()}" if component else ""))
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        logger.addHandler(handler)
    logger.setLevel(level.strip().upper())


def is_told(component: str) -> bool:
    """Whether the logger `kiln.COMPONENT` emits messages of level INFO."""
    logging = sys.modules.get("logging")
    return logging is not None and logging.getLogger(f"kiln.{component}").isEnabledFor(logging.INFO)


def tell(component: str, message: str, *values: Any) -> None:
    """Logs to `kiln.COMPONENT` at level INFO. Does nothing in a program that has not imported `logging`: it has no
    handlers."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger(f"kiln.{component}").info(message, *values)


def cuda_home() -> str | None:
    """The CUDA toolkit's folder according to the environment variables that other tools use."""
    return os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or None


def triton_variable(name: str) -> str | None:
    """One of Triton's own variables (`TRITON_DEBUG`), for programs that run as Triton's; None if it is not set."""
    return os.environ.get(name)


def _unknown(name: str, known: Any, message: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, list(known), 1)
    return f"{message} {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


# Variables that the build and the tests of Kiln itself read.
_NOT_OURS = ("KILN_BUILD", "KILN_EMULATOR_", "KILN_FUZZ_")


def _warn_unknown_variables() -> None:
    known = {switch.variable for switch in SWITCHES}
    for variable in os.environ:
        if variable.startswith("KILN_") and variable not in known and not variable.startswith(_NOT_OURS):
            import warnings

            warnings.warn(_unknown(variable, known, "unknown environment switch"), stacklevel=3)


def markdown() -> str:
    """The table of switches, as the README shows it."""
    rows = ["| switch | values | default | meaning |", "|---|---|---|---|"]
    for switch in SWITCHES:
        default = "the user's cache directory" if callable(switch.default) else str(switch.default) or "unset"
        if switch.parse is parse_bytes:
            default = f"{switch.default >> 30}G"
        if isinstance(switch.default, bool):
            default = str(int(switch.default))
        rows.append(f"| `{switch.variable}` | {switch.values} | {default} | {switch.meaning} |")
    return "\n".join(rows) + "\n"


class _Knobs(types.ModuleType):
    """The module itself: reading or assigning an attribute that is a switch goes through the registry."""

    def __getattr__(self, name: str) -> Any:
        switch = _BY_NAME.get(name)
        if switch is None:
            raise AttributeError(_unknown(name, _BY_NAME, "kiln.knobs has no switch"))
        return _read(switch)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _BY_NAME:
            _write(name, value)
        elif name.startswith("__"):
            super().__setattr__(name, value)
        else:
            raise AttributeError(_unknown(name, _BY_NAME, "kiln.knobs has no switch"))


sys.modules[__name__].__class__ = _Knobs
if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


_warn_unknown_variables()

if __name__ == "__main__":
    print(markdown(), end="")
