"""Scopes, and how two paths through the program merge.

A scope maps names to values. How a path left (return, break, continue) is kept in the same map, as booleans under names
that no program can spell: known ones cost nothing, unknown ones are merged and carried like any variable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kiln.errors import CompilationError, SourceRange
from kiln.language import semantic, types, values

if TYPE_CHECKING:
    from kiln.frontend.emitter import Emitter

RETURNED, BROKE, SKIPPED = "return taken", "break taken", "continue taken"
LEFT = "any exit taken"
RESULT = "return value"
FLAGS = (RETURNED, BROKE, SKIPPED, LEFT)
HIDDEN = (*FLAGS, RESULT)

FALSE, TRUE = values.constexpr(False), values.constexpr(True)
MISSING: Any = object()

Scope = dict[str, Any]


@dataclass
class Undefined:
    """A name that has no usable value here; reading it is the error."""

    reason: str
    hint: str | None = None
    notes: list[tuple[str, SourceRange]] = field(default_factory=list)

    def error(self, name: str) -> CompilationError:
        error = CompilationError(self.reason.format(name=name), hint=self.hint and self.hint.format(name=name))
        for sentence, place in self.notes:
            error.note(sentence.format(name=name), place)
        return error


@dataclass
class LastIndex(Undefined):
    """The index of a counted loop after the loop: its value in the last iteration. The IR is emitted only where it is
    read, as most loops have no such use. Where paths merge, or another loop changes it, it has no value."""

    type: Any = None
    make: Callable[[], Any] = lambda: MISSING

    def lost(self) -> Undefined:
        return Undefined(self.reason, self.hint, self.notes)


@dataclass
class Branch:
    """One of two merging paths: its region (ended, without a terminator), its scope, and its name in messages."""

    region: int
    scope: Scope
    label: str
    where: SourceRange


def ir_types(value: Any) -> list[str]:
    """The MLIR types of the IR values that a value consists of. A type used as a value has none."""
    if isinstance(value, types.type_):
        return []
    if isinstance(value, values.tuple):
        return [text for item in value.values for text in ir_types(item)]
    return values.flat_types(value)


def rebuild(like: Any, handles: list[int]) -> Any:
    """A value of the form of `like`, made of these IR values; its compile-time parts are kept."""
    if isinstance(like, values.tuple):
        items = []
        for item in like.values:
            count = len(ir_types(item))
            items.append(rebuild(item, handles[:count]))
            handles = handles[count:]
        return like.like(items)
    return values.unflatten(like, handles) if ir_types(like) else like


def as_const(value: Any) -> Any:
    """The const version of a pointer, a tile of pointers, a descriptor or a tuple of these."""
    if isinstance(value, values.tensor):
        return values.tensor(value.handle, types.as_const(value.type))
    if isinstance(value, values.tensor_descriptor):
        kind = types.as_const(value.type)
        return values.tensor_descriptor(kind, as_const(value.base), value._shape, value._strides)
    if isinstance(value, values.tuple):
        return value.like([as_const(item) for item in value.values])
    return value


def is_static(value: Any) -> bool:
    """Whether a value is known at compile time: it contains no IR value."""
    return not values.flatten(value) and not isinstance(value, Undefined)


def is_static_number(value: Any) -> bool:
    return isinstance(value, values.constexpr) and isinstance(value.value, (bool, int, float))


def same_static(a: Any, b: Any) -> bool:
    """Whether two values known at compile time are the same."""
    a, b = values.unwrap(a), values.unwrap(b)
    if a is b:
        return True
    if isinstance(a, values.tuple) and isinstance(b, values.tuple):
        return len(a) == len(b) and a.cls is b.cls and all(map(same_static, a.values, b.values))
    if type(a) is not type(b) or not is_static(a) or not is_static(b):
        return False
    if isinstance(a, float) and a != a:
        return b != b
    try:
        # 0.0 and -0.0 are equal but not the same.
        return bool(a == b) and (not isinstance(a, float) or str(a) == str(b))
    except Exception:
        return False


def exit_flag(emitter: Emitter, scope: Scope) -> bool | int:
    """Whether this path has left its block: a bool if known, or the handle of an i1."""
    flag = scope[LEFT]
    return bool(flag.value) if isinstance(flag, values.constexpr) else flag.handle


def either(emitter: Emitter, a: Any, b: Any) -> Any:
    """Whether one of two flags holds."""
    for flag, other in ((a, b), (b, a)):
        if isinstance(flag, values.constexpr):
            return flag if flag.value else other
    return values.tensor(emitter.op1("arith.ori", [a.handle, b.handle], ["i1"]), types.int1)


class _Conflict(Exception):
    """Two values have no common type."""


def join(
    emitter: Emitter, op: str, operands: list[int], before: Scope, first: Branch, second: Branch,
    needed: Callable[[bool], set[str] | None],
) -> Scope:  # fmt: skip
    """Merges two branches into the op (`scf.if`) that holds them; the scope after it.

    `needed(returned)` gives the names that still matter when every path has left; None for all.
    """
    a, b = first.scope, second.scope
    names = list(a) + [name for name in b if name not in a]
    if _left(a) and _left(b):
        keep = needed(_known(a, RETURNED) and _known(b, RETURNED))
        names = [name for name in names if name in HIDDEN or keep is None or name in keep]
    after: Scope = {}
    merged: list[tuple[str, Any]] = []
    yields: tuple[list[Callable[[], list[int]]], list[Callable[[], list[int]]]] = ([], [])
    for name in names:
        x, y = a.get(name, MISSING), b.get(name, MISSING)
        if x is y:
            after[name] = x
        elif isinstance(x, Undefined) or isinstance(y, Undefined):
            after[name] = _lost(x if isinstance(x, Undefined) else y)
        elif (x is MISSING or y is MISSING) and name != RESULT and not _left(a if x is MISSING else b):
            after[name] = _one_sided(first if y is MISSING else second, second if y is MISSING else first)
        else:
            try:
                like, left, right = unify(emitter, x, y, _irrelevant(name, a), _irrelevant(name, b))
            except _Conflict:
                after[name] = _mismatch(name, first, second, x, y)
                continue
            after[name] = like
            if left is not None and right is not None:
                merged.append((name, like))
                yields[0].append(left)
                yields[1].append(right)
    for branch, makers in zip((first, second), yields, strict=False):
        emitter.builder.reopen_region(branch.region)
        emitter.op("scf.yield", [handle for make in makers for handle in make()])
        branch.region = emitter.end_region()
    result_types = [text for _, like in merged for text in ir_types(like)]
    handles = emitter.op(op, operands, result_types, regions=[first.region, second.region])
    for name, like in merged:
        count = len(ir_types(like))
        after[name] = rebuild(like, handles[:count])
        handles = handles[count:]
    return after


def _lost(value: Undefined) -> Undefined:
    return value.lost() if isinstance(value, LastIndex) else value


def _known(scope: Scope, flag: str) -> bool:
    return isinstance(scope[flag], values.constexpr) and bool(scope[flag].value)


def _left(scope: Scope) -> bool:
    return _known(scope, LEFT)


def _irrelevant(name: str, scope: Scope) -> bool:
    """Whether a branch's value of a name is never read: the branch returned, or it holds no return value yet."""
    if name == RESULT:
        return RESULT not in scope
    return name not in FLAGS and _known(scope, RETURNED)


def unify(
    emitter: Emitter, x: Any, y: Any, x_free: bool = False, y_free: bool = False
) -> tuple[Any, Callable[[], list[int]] | None, Callable[[], list[int]] | None]:
    """Merges two paths' values of one name: a value of the result's form and, for each path, a function that makes its
    part.

    There are no such functions if both paths have the same value. A free side may have any value.
    """
    if x is y or (x is not MISSING and y is not MISSING and same_static(x, y)):
        return x, None, None
    if x is MISSING or y is MISSING:
        like = y if x is MISSING else x
        if is_static(like):
            return like, None, None
        parts = (lambda: poison(emitter, like)), (lambda: values.flatten(like))
        return (like, *parts) if x is MISSING else (like, *reversed(parts))
    try:
        return _unify(x, y)
    except _Conflict:
        if x_free:
            return unify(emitter, MISSING, y)
        if y_free:
            return unify(emitter, x, MISSING)
        raise


def _unify(x: Any, y: Any) -> tuple[Any, Callable[[], list[int]], Callable[[], list[int]]]:
    if isinstance(x, values.tuple) and isinstance(y, values.tuple):
        if len(x) != len(y) or x.cls is not y.cls:
            raise _Conflict
        parts = [
            (a, (lambda: []), (lambda: [])) if is_static(a) and same_static(a, b) else _unify(a, b)
            for a, b in zip(x.values, y.values, strict=False)
        ]  # fmt: skip
        like = x.like([part[0] for part in parts])
        return like, (lambda: [h for p in parts for h in p[1]()]), (lambda: [h for p in parts for h in p[2]()])
    if is_static_number(x) and is_static_number(y):
        ty = number_type(x.value, y.value)
        return values.tensor(-1, ty), (lambda: as_type(x, ty)), (lambda: as_type(y, ty))
    if is_static_number(x) and isinstance(y, values.tensor) and fits(x, y.type):
        return y, (lambda: as_type(x, y.type)), (lambda: values.flatten(y))
    if is_static_number(y) and isinstance(x, values.tensor) and fits(y, x.type):
        return x, (lambda: values.flatten(x)), (lambda: as_type(y, x.type))
    if is_static(x) or is_static(y):
        raise _Conflict
    if values.type_of(x) != values.type_of(y):
        # If either pointer is const, so is the result.
        x, y = as_const(x), as_const(y)
        if values.type_of(x) != values.type_of(y):
            raise _Conflict
    return x, (lambda: values.flatten(x)), (lambda: values.flatten(y))


def number_type(x: Any, y: Any) -> Any:
    """The type of a variable that is one of two Python numbers."""
    tx, ty = semantic.number_type(x), semantic.number_type(y)
    return tx if tx == ty else semantic.common_type(tx, False, ty, False)


def fits(number: values.constexpr, ty: Any) -> bool:
    """Whether a known number can become a scalar of the type: a bool as bool, an integer within its range, or any
    number but a bool as a float."""
    value = number.value
    if ty.is_block() or ty.is_ptr():
        return False
    if ty.is_floating():
        return not isinstance(value, bool)
    if isinstance(value, float):
        return False
    if ty.is_bool():
        return isinstance(value, bool)
    return not isinstance(value, bool) and ty.get_int_min_value() <= value <= ty.get_int_max_value()


def as_type(number: values.constexpr, ty: Any) -> list[int]:
    """The handle of a constant of a scalar type."""
    from kiln.language.semantic.build import constant

    return [constant(ty, number.value).handle]


def poison(emitter: Emitter, like: Any) -> list[int]:
    return [emitter.poison(text) for text in ir_types(like)]


def describe(value: Any) -> str:
    """A value's type, for messages."""
    value = values.unwrap(value)
    if isinstance(value, types.type_):
        return f"the type {value}"
    return semantic.describe(value)


def public_name(ty: Any) -> str:
    """A number type as a kernel writes it: kl.float32."""
    long = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
    long |= {"fp8e4nv": "float8e4nv", "fp8e5": "float8e5"}
    return f"kl.{long.get(ty.name, ty.name)}"


def _one_sided(has: Branch, lacks: Branch) -> Undefined:
    return Undefined(
        f"expected {{name}} to be assigned on every path to its use, got a value only {has.label}"
        f" (line {has.where.line})",
        hint="assign {name} before the `if`, or on both branches",
        notes=[(f"{{name}} is not assigned {lacks.label}", lacks.where)],
    )


def _mismatch(name: str, first: Branch, second: Branch, x: Any, y: Any) -> Undefined:
    if name == RESULT:
        return Undefined(
            f"expected every return to give the same type (because the caller gets one value), got {describe(x)}"
            f" {first.label} (line {first.where.line}) and {describe(y)} {second.label}",
            hint="return values of one type on every path",
        )
    return Undefined(
        f"expected {{name}} to have one type after the `if`, got {describe(x)} {first.label} (line"
        f" {first.where.line}) and {describe(y)} {second.label} (line {second.where.line})",
        hint="cast one of them with .to(...), or use two names",
        notes=[("the branches are here", first.where)],
    )
