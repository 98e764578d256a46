"""Emits a module of tile IR for a kernel and its specialisation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kiln.errors import CompilationError, InternalError, KilnError
from kiln.frontend import scope as scopes
from kiln.frontend import struct as structs
from kiln.frontend.emission import emitting
from kiln.frontend.emitter import Emitter
from kiln.frontend.function import KernelFunction
from kiln.frontend.signature import FlatParameter, Parameter, flat_parameters
from kiln.frontend.visitor import Visitor
from kiln.language import types, values

if TYPE_CHECKING:
    from kiln._kiln import Module


def emit(
    fn: KernelFunction,
    parameters: Sequence[Parameter],
    name: str | None = None,
    *,
    disjoint: Sequence[bool] = (),
    target: str = "",
) -> Module:
    """The tile IR of kernel `fn` specialised for `parameters` (one for each of its parameters, in order).

    `disjoint`, for each pointer in order: no valid access through another pointer reaches its storage.
    `target`: the row of the target table that kernels see by `kl.target_info`; nothing else here depends on it.
    """
    emitter = Emitter(Visitor, target)
    try:
        with emitting(emitter):
            return _emit(emitter, fn, list(parameters), name or fn.__name__, disjoint)
    except (KilnError, KeyboardInterrupt):
        raise
    except RecursionError as problem:
        error = CompilationError(
            "expected a kernel nested less deeply (because each level of an expression, of `elif` and of calls takes a"
            f" few of the {sys.getrecursionlimit()} calls that Python allows in one another)",
            hint="split it into several statements",
        )
        raise (error.at(emitter.fault) if emitter.fault else error) from problem
    except Exception as problem:
        raise InternalError(
            f"{type(problem).__name__}: {problem}",
            stage="tile",
            ir_path=_save(emitter, fn),
            reproduce=_reproduce(fn, parameters),
            location=_where(emitter),
        ) from problem


def _emit(
    emitter: Emitter, fn: KernelFunction, parameters: list[Parameter], name: str, disjoint: Sequence[bool]
) -> Module:
    arguments = _arguments(fn, parameters)
    visitor = Visitor(emitter, fn, {})
    visitor.node = fn.tree
    emitter.visitor = visitor
    emitter.chain.append(fn)
    emitter.place()
    flat = flat_parameters(parameters)
    attrs = [_attributes(parameter) for parameter in flat]
    pointers = [attr for parameter, attr in zip(flat, attrs, strict=True) if parameter.type.startswith("*")]
    for attr, alone in zip(pointers, disjoint, strict=False):
        if alone:
            attr["tile.disjoint"] = "unit"
    kinds = [types.parse(parameter.type).mlir for parameter in flat]
    handles = emitter.builder.begin_function(emitter.symbol(name), kinds, attrs, True, {"tile.kernel": "unit"})
    for parameter, like in zip(parameters, arguments, strict=False):
        count = len(scopes.ir_types(like))
        visitor.scope[parameter.name] = scopes.rebuild(like, handles[:count])
        handles = handles[count:]
    visitor.is_kernel = True
    visitor.run()
    emitter.place()
    emitter.builder.end_function([])
    return emitter.builder.finish()


def _arguments(fn: KernelFunction, parameters: list[Parameter]) -> list[Any]:
    """For each parameter, a value of its argument's form: a constexpr itself, otherwise a type."""
    names = [parameter.name for parameter in parameters]
    if names != fn.arg_names:
        raise CompilationError(
            f"expected a specialisation of ({', '.join(fn.arg_names)}) (because those are the parameters of"
            f" {fn.__name__}), got ({', '.join(names)})"
        )
    found = [_like(parameter) for parameter in parameters]
    return [scopes.as_const(v) if p.is_const else v for p, v in zip(fn.params, found, strict=True)]


def _like(parameter: Parameter) -> Any:
    if parameter.kind == "constexpr":
        return _static(parameter.value)
    if parameter.kind == "tuple":
        return values.tuple([_like(item) for item in parameter.items], parameter.fields or None, parameter.cls)
    ty = types.parse(parameter.type or "")
    if isinstance(ty, types.tensor_descriptor_type) and parameter.padding != "zero":
        ty = types.tensor_descriptor_type(ty.block_type, parameter.padding)
    return values.tensor(-1, ty)


def _static(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return structs.of_host(value, [_static(item) for item in value])
    return values.constexpr(value)


def _attributes(parameter: FlatParameter) -> dict[str, Any]:
    attrs: dict[str, Any] = {"tile.name": parameter.name.encode(), "tile.type": parameter.type.encode()}
    if parameter.divisor > 1:
        attrs["tile.divisibility"] = parameter.divisor
    return attrs


def _where(emitter: Emitter) -> str | None:
    """The line of the kernel that was being emitted, for the report of an internal error."""
    place = emitter.fault
    return f"{place.file}:{place.line}:{place.column} in {place.function}" if place is not None else None


def _reproduce(fn: KernelFunction, parameters: Sequence[Parameter]) -> str | None:
    """The command that reproduces the emission; None for a kernel without a file, or arguments without a text form."""
    import os
    import shlex

    path = fn.fn.__code__.co_filename
    if not os.path.isfile(path) or "<" in fn.__qualname__:
        return None
    try:
        signature = ", ".join(f"{p.name}={_spelled(p)}" for p in parameters)
    except TypeError:
        return None
    return "kiln compile " + shlex.join([f"{path}::{fn.__qualname__}", "--signature", signature, "--to", "tile"])


def _spelled(parameter: Parameter) -> str:
    """A parameter in the syntax of `kiln compile --signature`."""
    if parameter.kind == "tuple":
        if parameter.cls is not None:
            items = zip(parameter.fields, parameter.items, strict=True)
            return f"{parameter.cls.__name__}({', '.join(f'{name}={_spelled(item)}' for name, item in items)})"
        return "(" + "".join(f"{_spelled(item)}, " for item in parameter.items) + ")"
    if parameter.kind != "constexpr":
        return parameter.spelled_type
    value = parameter.value
    if isinstance(value, types.type_):
        return scopes.public_name(value)
    if isinstance(value, (bool, int, float, str, type(None), tuple)):
        return repr(value)
    raise TypeError(value)


def _save(emitter: Emitter, fn: KernelFunction) -> str | None:
    """Saves the IR emitted so far to a file in the crash directory."""
    import os
    import tempfile

    from kiln import knobs

    try:
        text = emitter.builder.print()
        os.makedirs(knobs.crash_dir, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix=f"{fn.__name__}-", suffix=".tile.mlir", dir=knobs.crash_dir)
        with os.fdopen(handle, "w") as file:
            file.write(text)
    except Exception:
        return None
    return path
