"""Stores times of configurations for other processes: one entry for each configuration, so that adding one
configuration costs one measurement.

An entry is keyed by all that a time depends on: the kernel's source with all it reaches and the switches its code
depends on, the tuner's key and the kinds of the arguments, the configuration, the device, and the build of Kiln. It
records the timed code by the digest of the artifact. Before launching a stored winner, `Tuning` compares that with the
actual code. If they differ, for a reason not visible in the kernel's text, the time does not apply, and the artifact's
digest becomes part of the key (`exact`).

Entries are bytes by key in a `Store`, which is the cache of compiled kernels, unless tests bring their own.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

# Version of the entries' format and of the measuring method: times of different methods are never compared.
FORMAT = 2

Fields = Sequence[tuple[str, str]]


class Store(Protocol):
    """Stores bytes between processes, by key fields. Both methods are safe to call concurrently; `get` never returns
    partial data. Entries are immutable: putting one again changes nothing."""

    def get(self, fields: Fields) -> bytes | None: ...
    def put(self, subject: str, fields: Fields, content: bytes) -> None: ...


class CacheStore:
    """The cache of compiled kernels (`kiln.runtime.cache`), the one that is shipped read-only before it. `kiln cache`
    lists the times with the rest, and says why one was not found."""

    KIND, FILE = "time", "time.json"

    def get(self, fields: Fields) -> bytes | None:
        from kiln import _kiln
        from kiln.runtime import cache

        entry = cache.load(_kiln.Fields(list(fields)).key(self.KIND))
        return entry.read(self.FILE) if entry is not None else None

    def put(self, subject: str, fields: Fields, content: bytes) -> None:
        from kiln import _kiln
        from kiln.runtime import cache

        cache.publish(self.KIND, subject, _kiln.Fields(list(fields)), {self.FILE: content})


def default_store() -> Store:
    """The current user's store."""
    return CacheStore()


class Time(NamedTuple):
    """What is known of a configuration: milliseconds (median, 20th and 80th percentile), and the digest of the code.
    `left_out`: why it has no time and never will; then there may be no code."""

    milliseconds: list[float]
    artifact: str
    left_out: str = ""


class TimeStore:
    """Times of the configurations of one kernel for one key. `exact`: only for the named artifact, for a kernel whose
    text does not determine its code."""

    def __init__(self, store: Store, subject: str, about: Mapping[str, Any]):
        self.store, self.subject = store, subject
        self.about = [(name, json.dumps(value, sort_keys=True, default=str)) for name, value in about.items()]
        self.exact = False

    def _fields(self, config: Any, artifact: str) -> list[tuple[str, str]]:
        fields = [("format", str(FORMAT)), *self.about, ("configuration", describe(config))]
        return [*fields, ("artifact", artifact)] if self.exact else fields

    def get(self, config: Any, artifact: str = "") -> Time | None:
        """The time stored for this configuration under exactly this store's key."""
        content = self.store.get(self._fields(config, artifact))
        if content is None:
            return None
        try:
            entry = json.loads(content)
            times = [float(ms) for ms in entry["milliseconds"]]
            left_out = str(entry["left_out"])
            if bool(times) == bool(left_out) or not all(ms > 0 for ms in times):
                return None
            return Time(times, str(entry["artifact"]), left_out)
        except (ValueError, KeyError, TypeError):
            return None

    def put(self, config: Any, time: Time) -> None:
        content = json.dumps(time._asdict(), sort_keys=True).encode()
        self.store.put(self.subject, self._fields(config, time.artifact), content)


def describe(config: Any) -> str:
    """A configuration as text that is the same in every process. A hook is identified by its code, as its effect on
    the arguments is part of what is timed."""
    parts = [f"{name}={_text(value)}" for name, value in sorted(config.all_kwargs().items())]
    if config.pre_hook is not None:
        parts.append(f"pre_hook={_text(config.pre_hook)}")
    return ", ".join(parts)


def _text(value: Any) -> str:
    code = getattr(value, "__code__", None)
    if code is not None:
        held = [_text(cell.cell_contents) for cell in value.__closure__ or () if not _is_empty(cell)]
        what = repr((code.co_code, [c for c in code.co_consts if not hasattr(c, "co_code")], code.co_names, held))
        return f"{value.__module__}.{value.__qualname__}#{hashlib.sha256(what.encode()).hexdigest()[:16]}"
    key = getattr(value, "cache_key", None)
    if isinstance(key, str):
        return key
    # Addresses differ between processes.
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _is_empty(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises ValueError if the variable has no value yet
    except ValueError:
        return True
    return False


def signature(arguments: Iterable[tuple[str, Any]]) -> list[str]:
    """The properties of arguments that code is specialised for and that a tuner's key need not contain: types, and
    whether 16 divides an address or a number."""
    found = []
    for name, value in arguments:
        if isinstance(value, bool) or value is None or isinstance(value, str):
            found.append(f"{name}={value!r}")
        elif isinstance(value, int):
            found.append(f"{name}=int:{'1' if value == 1 else '16' if value % 16 == 0 else ''}")
        elif hasattr(value, "dtype"):
            found.append(f"{name}=*{value.dtype}:{'16' if _address(value) % 16 == 0 else ''}")
        else:
            found.append(f"{name}={type(value).__module__}.{type(value).__qualname__}")
    return found


def _address(array: Any) -> int:
    try:
        if hasattr(array, "data_ptr"):
            return int(array.data_ptr())
        for name in ("__array_interface__", "__cuda_array_interface__"):
            if hasattr(array, name):
                return int(getattr(array, name)["data"][0] or 0)
    except Exception:  # another library's arrays may raise any exception: the address is unknown
        return 1
    return 1


@functools.lru_cache(maxsize=64)
def device_identity(device: int, threads: int = 0) -> dict[str, Any]:
    """The machine that times apply to, which includes others of the same kind. For a GPU (by number), its model but not
    its driver; for the CPU (-1), its model and the threads that kernels get."""
    if device >= 0:
        from dataclasses import asdict

        from kiln import cuda

        properties = asdict(cuda.get_device_properties(device))
        return {name: properties[name] for name in _OF_A_GPU}
    from kiln import _kiln

    row = _kiln.host_target()
    return {"name": _cpu_model() or row["cpu"], "cpu": row["cpu"], "threads": threads or _kiln.num_threads()}


_OF_A_GPU = (
    "name", "capability", "multiprocessors", "shared_bytes_per_multiprocessor", "l2_bytes", "memory_bytes",
    "memory_bus_bits", "clock_khz", "memory_clock_khz",
)  # fmt: skip


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            found = re.search(r"^model name\s*:\s*(.*)$", file.read(), re.MULTILINE)
    except OSError:
        return ""
    return found[1].strip() if found else ""
