"""Specialisations that have a name: what a hook of compiles may keep of one, and `device_caches`.

A launch's own key numbers what it has met in this process. Here the same facts are text, so that another process can
compile what this one has (`kernel.preload`).
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kiln.language import types, values

if TYPE_CHECKING:
    from kiln.as_triton.jit import JITFunction

__all__ = ["DeviceCaches", "KernelCache", "decode", "encode"]


def encode(value: Any) -> Any:
    """`value` as JSON has it. TypeError for an object that no module has under its name."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return {type(value).__name__: [encode(item) for item in value]}
    if isinstance(value, values.constexpr):
        return {"constexpr": encode(value.value)}
    if isinstance(value, types.type_):
        return {"type": str(value)}
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module is None or name is None or _find(module, name) is not value:
        raise TypeError(f"expected a value that another process can have, got {value!r}")
    return {"object": [module, name]}


def decode(data: Any) -> Any:
    """What `encode` was given."""
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
    return tuple(items) if kind == "tuple" else items


def _find(module: str, name: str) -> Any:
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found


def dump(name: str, key: str, found: Any, options: Mapping[str, Any], disjoint: Any) -> str | None:
    """What `preload` takes; None where another process cannot have one of the arguments."""
    try:
        facts = {"arguments": encode(tuple(found)), "options": encode(tuple(options.items()))}
    except TypeError:
        return None
    return json.dumps({"name": name, "key": key, **facts, "disjoint": list(map(bool, disjoint))}, sort_keys=True)


class KernelCache(Mapping[str, Any]):
    """The compiled specialisations of a kernel on one device, by the key that hooks of compiles are told."""

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
        """Drops one: a launch that needs it compiles anew."""
        if default and key not in self:
            return default[0]
        compiled = self[key]
        self._kernel.drop([compiled])
        return compiled

    def clear(self) -> None:
        """Drops all of this device."""
        self._kernel.drop(self._found().values())


class DeviceCaches(Mapping[int, Any]):
    """`kernel.device_caches`: for each device its `KernelCache`, and what Triton keeps beside it."""

    def __init__(self, kernel: JITFunction):
        self._kernel = kernel

    def __getitem__(self, device: int) -> tuple[KernelCache, dict[Any, Any], Any, None, None]:
        from kiln.as_triton.driver import driver

        if isinstance(device, bool) or not isinstance(device, int) or device < 0:
            raise KeyError(device)
        # Triton's backend and the function that binds arguments are Kiln's compiler and launcher: nothing of Python.
        return KernelCache(self._kernel, device), {}, driver.active.get_current_target(), None, None

    def __iter__(self) -> Iterator[int]:
        return iter(sorted({max(code.device, 0) for code in self._kernel.compiled_kernels}))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def clear(self) -> None:
        self._kernel.unload()
