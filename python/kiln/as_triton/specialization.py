"""Serialised specialisations, which compile hooks may keep, and `device_caches`.

A launch's own key is only valid in this process. Here the same facts are text, so that another process can compile the
same specialisation (`kernel.preload`).
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kiln.frontend.signature import Parameter
from kiln.language import types, values

if TYPE_CHECKING:
    from kiln.as_triton.jit import JITFunction

__all__ = ["DeviceCaches", "KernelCache", "decode", "encode"]


def encode(value: Any) -> Any:
    """`value` as JSON data. TypeError for an object that cannot be imported from a module by its name."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return {type(value).__name__: [encode(item) for item in value]}
    if isinstance(value, Parameter):
        return {"parameter": [encode(item) for item in value]}
    if isinstance(value, values.constexpr):
        return {"constexpr": encode(value.value)}
    if isinstance(value, types.type_):
        return {"type": str(value)}
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module is None or name is None or _find(module, name) is not value:
        raise TypeError(f"expected a value that another process can have, got {value!r}")
    return {"object": [module, name]}


def decode(data: Any) -> Any:
    """The inverse of `encode`."""
    if not isinstance(data, dict):
        return data
    [(kind, inner)] = data.items()
    if kind == "float":
        return float.fromhex(inner)
    if kind == "constexpr":
        return values.constexpr(decode(inner))
    if kind == "type":
        return types.parse(inner)
    if kind == "object":
        return _find(*inner)
    items = [decode(item) for item in inner]
    return Parameter(*items) if kind == "parameter" else tuple(items) if kind == "tuple" else items


def _find(module: str, name: str) -> Any:
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found


def dump(name: str, key: str, found: Any, options: Mapping[str, Any], disjoint: Any) -> str | None:
    """The text that `preload` takes; None if an argument cannot be passed to another process."""
    try:
        facts = {"arguments": encode(tuple(found)), "options": encode(tuple(options.items()))}
    except TypeError:
        return None
    return json.dumps({"name": name, "key": key, **facts, "disjoint": list(map(bool, disjoint))}, sort_keys=True)


class KernelCache(Mapping[str, Any]):
    """The compiled specialisations of a kernel on one device, by the key that compile hooks get."""

    def __init__(self, kernel: JITFunction, device: int):
        self._kernel, self._device = kernel, device

    def _found(self) -> dict[str, Any]:
        codes: list[Any] = self._kernel.compiled_kernels
        return {code.key: code for code in codes if max(code.device, 0) == self._device}

    def __getitem__(self, key: str) -> Any:
        return self._found()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def pop(self, key: str, *default: Any) -> Any:
        """Drops one: a launch that needs it compiles it again."""
        if default and key not in self:
            return default[0]
        compiled = self[key]
        self._kernel.drop([compiled])
        return compiled

    def clear(self) -> None:
        """Drops all specialisations for this device."""
        self._kernel.drop(self._found().values())


class DeviceCaches(Mapping[int, Any]):
    """`kernel.device_caches`: for each device, its `KernelCache` and the other entries of Triton's tuple."""

    def __init__(self, kernel: JITFunction):
        self._kernel = kernel

    def __getitem__(self, device: int) -> tuple[KernelCache, dict[Any, Any], Any, None, None]:
        from kiln.as_triton.driver import driver

        if isinstance(device, bool) or not isinstance(device, int) or device < 0:
            raise KeyError(device)
        # Triton's backend and argument binder have no Python counterpart: Kiln's compiler and launcher are in C++.
        return KernelCache(self._kernel, device), {}, driver.active.get_current_target(), None, None

    def __iter__(self) -> Iterator[int]:
        return iter(sorted({max(code.device, 0) for code in self._kernel.compiled_kernels}))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def clear(self) -> None:
        self._kernel.unload()
