"""Calls: of jit functions (emitted as a function of the module, or in place), of the language's and Python's builtins.

A jit function becomes one private func.func for each combination of argument types and constexprs, called by func.call
and inlined by the compiler, so that locations keep the chain of calls. What it returns may be partly constexpr: only
the IR values travel.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from kiln.errors import CompilationError, near_match
from kiln.frontend import scope as scopes
from kiln.frontend import struct as structs
from kiln.frontend.arguments import argument_node, culprit_node
from kiln.frontend.function import BoundFunction, KernelFunction, plain
from kiln.frontend.python_builtins import TABLE, PythonBuiltin
from kiln.frontend.struct import as_argument
from kiln.frontend.walker import Walker
from kiln.language import types, values

if TYPE_CHECKING:
    from kiln.frontend.emitter import Emitter
    from kiln.frontend.visitor import Visitor


@dataclass
class Launch:
    """`kernel[grid]` inside a kernel: a mistake, which the error for its call explains."""

    kernel: Any


@dataclass
class ConstantFunction:
    """A Python function that is a constexpr (`@kl.constexpr`): called at compile time, with constexpr arguments."""

    function: Any

    @property
    def __name__(self) -> str:
        return self.function.__name__


@dataclass
class EmittedFunction:
    """A function of the module: its symbol, and a value of the form that it returns."""

    symbol: str
    result: Any


class Calls(Walker):
    """`visit_Call`."""

    def visit_Call(self, node: ast.Call) -> Any:
        function = self.callee(self.visit(node.func), node)
        args = self.elements(node.args)
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.locate(
                    CompilationError("expected named arguments, got **", hint="write out each argument"), keyword.value
                )
            kwargs[keyword.arg] = self.visit(keyword.value)
        try:
            return self.value(self._call(function, args, kwargs))
        except CompilationError as error:
            if not error.frames:
                self._explain_settled(error, node)
                place = argument_node(node, function, error.argument)
                if place is node:
                    place = self._culprit_node(error, node, function, args, kwargs)
                if place is not node:
                    self.locate(error, place)
            raise

    def _culprit_node(
        self, error: CompilationError, node: ast.Call, function: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> ast.AST:
        """The expression whose value is at fault; the whole call if none has that value, or several do."""
        given = [(k.value, kwargs[k.arg]) for k in node.keywords if k.arg in kwargs]
        if isinstance(node.func, ast.Attribute):
            given.append((node.func.value, getattr(function, "__self__", None)))
        if not any(isinstance(arg, ast.Starred) for arg in node.args):
            given = [*zip(node.args, args, strict=False), *given]
        return culprit_node(error, given) or node

    def _explain_settled(self, error: CompilationError, node: ast.Call) -> None:
        """If a constexpr was required and a name got its value by plain assignment, suggests changing that."""
        if "constexpr" not in error.message:
            return
        given = [n for arg in [*node.args, *(k.value for k in node.keywords)] for n in ast.walk(arg)]
        parameters = {p.name for p in self.function.params if p.is_constexpr}
        for name in given:
            if isinstance(name, ast.Name) and name.id in parameters and not scopes.is_static(self.scope.get(name.id)):
                error.hint = f"give what changes another name: {name.id} is not a constexpr once a loop assigns to it"
                return
            if isinstance(name, ast.Name) and name.id in self.annotated:
                error.note(f"{name.id} got a value known only at run time here", self.range(self.annotated[name.id]))
                return
            if isinstance(name, ast.Name) and name.id in self.settled:
                error.hint = f"annotate the assignment: {name.id}: kl.constexpr = ..."
                error.note(f"{name.id} became a run-time scalar here", self.range(self.settled[name.id]))
                return

    def _call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if isinstance(function, BoundFunction):
            function, args = function.function, [function.instance, *args]
        if isinstance(function, KernelFunction):
            return call_function(self.emitter, function, args, kwargs)
        title = _name(function)
        if function is values.tuple:
            function = TABLE["tuple"]
        if isinstance(function, PythonBuiltin):
            function = function.run
        elif structs.is_named_tuple(function):
            args = [as_argument(value) for value in args]
            return structs.construct(function, args, {name: as_argument(value) for name, value in kwargs.items()})
        elif getattr(function, "__kiln_builtin__", False) or _owner(function) in _VALUES:
            pass
        else:
            # Computed by Python, with values known at compile time.
            for name, value in [*enumerate(args), *kwargs.items()]:
                if not scopes.is_static(value):
                    raise self._not_static(function, name, value)
            prepare = values.unwrap_deep
            if isinstance(function, ConstantFunction):
                function, prepare = function.function, as_argument
            args = [prepare(value) for value in args]
            kwargs = {name: prepare(value) for name, value in kwargs.items()}
        try:
            return function(*args, **kwargs)
        except (TypeError, AttributeError) as problem:
            mistake = _binding_mistake(function, args, kwargs)
            if mistake is None and not _is_language(function):
                listed = ", ".join(map(scopes.describe, [*args, *kwargs.values()]))
                mistake = CompilationError(f"expected arguments that {title} accepts, got {listed}")
            if mistake is None:
                raise
            raise mistake from problem
        except (ValueError, ArithmeticError) as problem:
            if _is_language(function):
                raise
            raise CompilationError(f"expected arguments that {title} accepts: {problem}") from None

    def callee(self, function: Any, node: ast.Call) -> Any:
        """The function to call; for anything that cannot be called, an error that says what to do instead."""
        held = isinstance(function, values.constexpr)
        function = plain(function)
        # An autotuned kernel wraps the function to call.
        while not isinstance(function, (KernelFunction, FunctionType)) and isinstance(
            getattr(function, "fn", None), KernelFunction
        ):
            function = function.fn
        if isinstance(function, (KernelFunction, BoundFunction, PythonBuiltin)) or structs.is_named_tuple(function):
            return function
        if isinstance(node.func, ast.Subscript) and isinstance(function, Launch):
            raise self.locate(
                CompilationError(
                    "expected a call of a jit function, got a launch (because a kernel that runs launches no others)",
                    hint=f"call it: {ast.unparse(node.func.value)}({', '.join(map(ast.unparse, node.args))})",
                ),
                node.func,
            )
        if getattr(function, "__kiln_builtin__", False) or getattr(function, "__kiln_constexpr_function__", False):
            return function
        owner = _owner(function)
        if owner in _VALUES or (owner is not None and issubclass(owner, (types.type_, str, int, float))):
            return function
        if isinstance(function, type) and (function.__module__ or "").startswith("kiln.language"):
            return function
        module = getattr(function, "__module__", None) or ""
        if module in ("math", "kiln"):
            return function
        name = getattr(function, "__name__", type(function).__name__)
        if held and isinstance(function, (FunctionType, MethodType)):
            return ConstantFunction(function)
        if isinstance(function, (FunctionType, MethodType)):
            error = CompilationError(
                f"expected a jit function (because only those are compiled), got {name}, a Python function",
                hint="compute it outside and pass the result as an argument"
                if module.split(".")[0] in sys.stdlib_module_names
                else f"decorate {name} with @kiln.jit; with @kiln.constexpr_function if it computes constants only",
            )
        elif isinstance(function, ModuleType):
            error = CompilationError(f"expected a function to call, got the module {name}")
        elif isinstance(function, types.type_):
            error = CompilationError(
                f"expected a function to call, got the type {function}", hint="convert with .to(...), or use kl.full"
            )
        elif callable(function):
            written = ast.unparse(node.func)
            error = CompilationError(f"{written} cannot be called inside a kernel", hint=substitute(name))
        else:
            error = CompilationError(f"expected a function to call, got {scopes.describe(function)}")
        raise self.locate(error, node.func)

    def _not_static(self, function: Any, name: Any, value: Any) -> CompilationError:
        title = _name(function)
        hint = None
        if title in ("cdiv", "next_power_of_2", "exp", "log", "sqrt", "floor", "ceil", "sin", "cos"):
            hint = f"use kl.{title}" if title != "next_power_of_2" else "compute it before the launch"
        return CompilationError(
            f"expected constexpr arguments of {title} (because Python computes it while compiling), got"
            f" {scopes.describe(value)}",
            hint=hint,
            argument=str(name),
        )


def call_function(emitter: Emitter, function: KernelFunction, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Emits the call of a jit function; returns its value."""
    caller = emitter.visitor
    if isinstance(function, BoundFunction):
        function, args = function.function, [function.instance, *args]
    arguments = bind_arguments(function, args, kwargs)
    if function in emitter.chain:
        chain = [f.__name__ for f in emitter.chain[emitter.chain.index(function) :]] + [function.__name__]
        raise CompilationError(
            f"expected calls without recursion (because every call is inlined), got {' -> '.join(chain)}",
            hint="use a loop",
        )
    try:
        if emitter.inlining:
            return _emit_in_place(emitter, function, arguments, caller)
        key = (function, *(_key(value) for value in arguments.values()))
        emitted = emitter.functions.get(key)
        if emitted is None:
            emitted = emitter.functions[key] = _emit_function(emitter, function, arguments)
    except CompilationError as error:
        # The innermost position is already known; this is the next outer one.
        if error.frames and caller is not None and caller.node is not None:
            caller.locate(error, caller.node)
        raise
    operands = [handle for value in arguments.values() for handle in values.flatten(value)]
    results = emitter.op(
        "func.call", operands, scopes.ir_types(emitted.result), {"callee": f'@"{emitted.symbol}"'}
    )  # fmt: skip
    return scopes.rebuild(emitted.result, results)


def _emit_function(emitter: Emitter, function: KernelFunction, arguments: dict[str, Any]) -> EmittedFunction:
    symbol = emitter.symbol(function.__name__)
    outer = emitter.visitor
    visitor = emitter.make_visitor(emitter, function, {})
    emitter.visitor = visitor
    emitter.chain.append(function)
    try:
        visitor.node = function.tree
        emitter.place()
        flat = [text for value in arguments.values() for text in scopes.ir_types(value)]
        handles = emitter.builder.begin_function(symbol, flat, [{} for _ in flat], False, {})
        for name, value in arguments.items():
            count = len(scopes.ir_types(value))
            visitor.scope[name] = scopes.rebuild(value, handles[:count])
            handles = handles[count:]
        result = visitor.run()
        emitter.place()
        emitter.builder.end_function(values.flatten(result))
    finally:
        emitter.chain.pop()
        emitter.visitor = outer
    return EmittedFunction(symbol, result)


def _emit_in_place(
    emitter: Emitter, function: KernelFunction, arguments: dict[str, Any], caller: Visitor | None
) -> Any:
    visitor = emitter.make_visitor(emitter, function, arguments, caller.location() if caller is not None else None)
    emitter.visitor = visitor
    emitter.chain.append(function)
    try:
        return visitor.run()
    finally:
        emitter.chain.pop()
        emitter.visitor = caller


def bind_arguments(function: KernelFunction, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The value of each parameter, in order; errors name the parameter."""
    parameters = function.params
    positional = [p for p in parameters if p.kind == "positional"]
    variadic = next((p for p in parameters if p.kind == "variadic"), None)
    bound: dict[str, Any] = dict(zip((p.name for p in positional), args, strict=False))
    name = function.__name__
    if len(args) > len(positional):
        if variadic is None:
            raise CompilationError(
                f"expected at most {len(positional)} argument{'s' * (len(positional) != 1)} of {name}"
                f"({', '.join(p.name for p in parameters)}), got {len(args)}"
            )
        bound[variadic.name] = values.tuple(args[len(positional) :])
    known = {p.name for p in parameters if p.kind != "variadic"}
    for key, value in kwargs.items():
        if key not in known:
            match = near_match(key, known)
            raise CompilationError(
                f"{name} has no parameter {key}",
                hint=f"did you mean {match}?" if match else f"its parameters are {_listed(known)}",
                argument=key,
            )
        if key in bound:
            raise CompilationError(f"argument {key} of {name} is given twice", argument=key)
        bound[key] = value
    result: dict[str, Any] = {}
    missing = []
    for parameter in parameters:
        if parameter.name in bound:
            value = bound[parameter.name]
        elif parameter.kind == "variadic":
            value = values.tuple([])
        elif parameter.has_default:
            value = parameter.default
        else:
            missing.append(parameter.name)
            continue
        value = as_argument(value)
        result[parameter.name] = scopes.as_const(value) if parameter.is_const else value
    if missing:
        raise CompilationError(
            f"expected {len(missing)} more argument{'s' * (len(missing) > 1)} of"
            f" {name}({', '.join(p.name for p in parameters)}), got none for {', '.join(missing)}"
        )
    return result


def _key(value: Any) -> Any:
    """The property of an argument that determines the code: its type, or its value if known at compile time."""
    if isinstance(value, values.tuple):
        return (*(_key(item) for item in value.values), tuple(value.fields or ()), value.cls)
    if not scopes.is_static(value):
        return str(values.type_of(value))
    known = values.unwrap(value)
    try:
        hash(known)
    except TypeError:
        return (id(known),)
    return (type(known).__name__, repr(known) if isinstance(known, float) else known)


_VALUES = (values.tensor, values.tuple, values.tensor_descriptor, values.constexpr)


def _owner(function: Any) -> type | None:
    """The class of the value that a method is bound to."""
    owner = getattr(function, "__self__", None)
    return None if owner is None or isinstance(owner, ModuleType) else type(owner)


def _is_language(function: Any) -> bool:
    return (getattr(function, "__module__", None) or "").startswith("kiln.language")


def _name(function: Any) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"


def substitute(name: str) -> str | None:
    import kiln.language

    if not isinstance(getattr(kiln.language, name, sys), ModuleType):
        return f"use kl.{name}"
    return "compute it outside and pass it as an argument"


def _binding_mistake(function: Any, args: list[Any], kwargs: dict[str, Any]) -> CompilationError | None:
    """The error to raise if the arguments do not match the parameters; else None."""
    import inspect

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        pass
    else:
        return None
    name = _name(function)
    parameters = [p for p in signature.parameters.values() if not p.name.startswith("_")]
    named = {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    shown = f"{name}({', '.join(p.name for p in parameters)})"
    for key in kwargs:
        if key not in named:
            match = near_match(key, named)
            return CompilationError(
                f"{shown} has no parameter {key}", hint=f"did you mean {match}?" if match else None, argument=key
            )
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(args) > len(positional):
        return CompilationError(f"expected at most {len(positional)} positional arguments of {shown}, got {len(args)}")
    for parameter, _ in zip(positional, args, strict=False):
        if parameter.name in kwargs:
            return CompilationError(f"argument {parameter.name} of {name} is given twice", argument=parameter.name)
    missing = [
        p.name for p in parameters[len(args) :] if p.default is p.empty and p.name not in kwargs and p.name in named
    ]  # fmt: skip
    return CompilationError(
        f"expected {len(missing)} more argument{'s' * (len(missing) > 1)} of {shown}, got none for {', '.join(missing)}"
    )
