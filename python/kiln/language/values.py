"""The values a kernel computes with: tensors and scalars (IR values), constexprs (known at compile time), tuples,
descriptors.

A `tensor` is a handle into the builder and a type; operators and methods call `kiln.language.semantic`, so that a
library function in plain Python over tensors emits the same IR as kernel code. `kiln.language` attaches the methods
named like free functions (`x.sum(0)`) when it is imported.
"""

from __future__ import annotations

import builtins
import math
import numbers
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .operators import Operators
from .types import (
    block_type,
    constexpr_type,
    dtype,
    int64,
    pointer_type,
    tensor_descriptor_type,
    tuple_type,
    type_,
)

if TYPE_CHECKING:
    from . import compute as _compute
    from . import debugging as _debugging
    from . import math as _math
    from . import memory as _memory
    from . import shapes as _shapes
    from . import standard as _standard

_Slice = builtins.slice


def unwrap(value: Any) -> Any:
    """A constexpr's value; anything else unchanged."""
    return value.value if isinstance(value, constexpr) else value


def unwrap_deep(value: Any) -> Any:
    """`unwrap`, through tuples and lists (as Python tuples and lists)."""
    value = unwrap(value)
    if isinstance(value, tuple):
        items = [unwrap_deep(v) for v in value.values]
        return builtins.tuple(items) if value.cls is None else builtins.tuple.__new__(value.cls, items)
    if isinstance(value, (builtins.tuple, list)):
        return type(value)(unwrap_deep(v) for v in value) if not hasattr(value, "_fields") else value
    return value


def is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


_PLAIN = (int, float, bool, str, type(None))


def _plain(value: Any) -> Any:
    """Converts numbers of other classes (numpy's scalars, fractions) to Python's own; anything else is unchanged."""
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return value.item() if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_") else value


class constexpr(Operators):
    """A value known at compile time. Operators on constexprs fold; with a tensor they give a tensor.

    As an annotation (`BLOCK: kl.constexpr`) it makes a kernel's parameter a constexpr.

    >>> (constexpr(6) // 4).value
    1
    """

    __slots__ = ("value",)
    value: Any

    def __init__(self, value: Any):
        while isinstance(value, constexpr):
            value = value.value
        self.value = value if type(value) in _PLAIN else _plain(value)

    @property
    def type(self) -> constexpr_type:
        return constexpr_type(self.value)

    def __repr__(self) -> str:
        return f"constexpr[{self.value}]"

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return self.value.__index__()

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[constexpr]:
        return (constexpr(v) for v in self.value)

    def __getitem__(self, index: Any) -> Any:
        return constexpr(self.value[unwrap(index)])

    def __contains__(self, item: Any) -> bool:
        return unwrap(item) in self.value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = self.value
        if is_number(value) and not hasattr(value, name) and hasattr(tensor, name):
            from . import semantic

            return getattr(semantic.to_tensor(value), name)
        return getattr(value, name)

    def __reduce__(self) -> Any:
        return (constexpr, (self.value,))

    def __abs__(self) -> constexpr:
        return constexpr(abs(self.value))

    def _operate(self, op: str, left: Any, right: Any) -> Any:
        left, right = unwrap(left), unwrap(right)
        if isinstance(left, tensor) or isinstance(right, tensor):
            from . import semantic

            return semantic.binary(op, left, right)
        return constexpr(FOLD[op](left, right))

    def _unary(self, op: str) -> Any:
        return constexpr({"-": lambda v: -v, "+": lambda v: +v, "~": lambda v: ~v}[op](self.value))

    def logical_and(self, other: Any) -> constexpr:
        return constexpr(self.value and unwrap(other))

    def logical_or(self, other: Any) -> constexpr:
        return constexpr(self.value or unwrap(other))

    def not_(self) -> constexpr:
        return constexpr(not self.value)


def _quotient(a: Any, b: Any) -> Any:
    """`//` that truncates toward zero for integers, as at run time."""
    if not (isinstance(a, int) and isinstance(b, int)):
        return a // b
    size = abs(a) // abs(b)
    return size if (a < 0) == (b < 0) else -size


def _remainder(a: Any, b: Any) -> Any:
    """`%` whose result has the sign of `a` for numbers, as at run time."""
    if isinstance(a, int) and isinstance(b, int):
        return a - _quotient(a, b) * b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and b != 0 and abs(a) != float("inf"):
        return math.fmod(a, b)
    return a % b


FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": _quotient,
    "%": _remainder,
    "**": lambda a, b: a**b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "@": lambda a, b: a @ b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
"""What each operator does to two values known at compile time: what Python does, except that quotients and remainders
have the signs they have at run time."""

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


class tensor(Operators):
    """A tile or a scalar that the kernel computes: a handle of the builder and a type.

    `x.dtype` is the element type, `x.shape` a tuple of constexpr, `x.T` the transpose of a matrix.
    """

    __slots__ = ("handle", "type")

    if TYPE_CHECKING:  # the functions of the language as methods, attached by methods.py
        associative_scan = _compute.associative_scan
        dot = _compute.dot
        reduce = _compute.reduce
        bitonic_merge = _shapes.bitonic_merge
        broadcast_to = _shapes.broadcast_to
        cast = _shapes.cast
        cat = _shapes.cat
        expand_dims = _shapes.expand_dims
        flip = _shapes.flip
        gather = _shapes.gather
        histogram = _shapes.histogram
        item = _shapes.item
        join = _shapes.join
        permute = _shapes.permute
        ravel = _shapes.ravel
        reshape = _shapes.reshape
        sort = _shapes.sort
        split = _shapes.split
        to = _shapes.to
        topk = _shapes.topk
        trans = _shapes.trans
        view = _shapes.view
        advance = _memory.advance
        atomic_add = _memory.atomic_add
        atomic_and = _memory.atomic_and
        atomic_cas = _memory.atomic_cas
        atomic_max = _memory.atomic_max
        atomic_min = _memory.atomic_min
        atomic_or = _memory.atomic_or
        atomic_xchg = _memory.atomic_xchg
        atomic_xor = _memory.atomic_xor
        load = _memory.load
        store = _memory.store
        device_print = _debugging.device_print
        max_constancy = _debugging.max_constancy
        max_contiguous = _debugging.max_contiguous
        multiple_of = _debugging.multiple_of
        abs = _math.abs
        ceil = _math.ceil
        clamp = _math.clamp
        cos = _math.cos
        div_rn = _math.div_rn
        erf = _math.erf
        exp = _math.exp
        exp2 = _math.exp2
        fdiv = _math.fdiv
        floor = _math.floor
        fma = _math.fma
        log = _math.log
        log2 = _math.log2
        maximum = _math.maximum
        minimum = _math.minimum
        rsqrt = _math.rsqrt
        sin = _math.sin
        sqrt = _math.sqrt
        sqrt_rn = _math.sqrt_rn
        umulhi = _math.umulhi
        argmax = _standard.argmax
        argmin = _standard.argmin
        cdiv = _standard.cdiv
        cumprod = _standard.cumprod
        cumsum = _standard.cumsum
        max = _standard.max
        min = _standard.min
        reduce_or = _standard.reduce_or
        sigmoid = _standard.sigmoid
        softmax = _standard.softmax
        sum = _standard.sum
        xor_sum = _standard.xor_sum

    def __init__(self, handle: int, type: type_):
        self.handle = handle
        self.type = type

    @property
    def dtype(self) -> Any:
        """The element type; for a scalar, its type."""
        return self.type.scalar

    @property
    def shape(self) -> tuple:
        """The sides, as constexprs. A scalar has none."""
        return tuple([constexpr(side) for side in self.type.shape])

    @property
    def numel(self) -> constexpr:
        return constexpr(getattr(self.type, "numel", 1))

    @property
    def T(self) -> tensor:
        """The transpose of a matrix."""
        from . import semantic

        return semantic.transpose(self)

    def logical_and(self, other: Any) -> tensor:
        from . import semantic

        return semantic.logical_and(self, other)

    def logical_or(self, other: Any) -> tensor:
        from . import semantic

        return semantic.logical_or(self, other)

    def _operate(self, op: str, left: Any, right: Any) -> Any:
        from . import semantic

        return semantic.binary(op, left, right)

    def _unary(self, op: str) -> Any:
        from . import semantic

        return semantic.unary(op, self)

    def __getitem__(self, index: Any) -> tensor:
        from . import semantic

        return semantic.subscript(self, index)

    def __iter__(self) -> Iterator[Any]:
        from kiln.errors import CompilationError

        raise CompilationError(
            f"expected a tuple (because its elements are visited at compile time), got {self.type}",
            hint="a tile is one value: reduce it with kl.sum, kl.max or kl.reduce, or take it apart with kl.split",
        )

    def __bool__(self) -> bool:
        from kiln.errors import CompilationError

        raise CompilationError(
            "expected a value known at compile time (because it decides how the kernel is built), got a tensor of type"
            f" {self.type}",
            hint="use kl.where, or declare what it comes from as kl.constexpr",
        )

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"tensor[{self.type}]"

    __str__ = __repr__


class tuple:
    """Several values of a kernel, of any types. Made by `(a, b)`, taken apart by unpacking and indexing.

    `fields`: the names of the values, for a named tuple. `cls`: the class, for a struct (`kiln.struct`), whose methods
    the tuple then has.
    """

    __slots__ = ("cls", "fields", "values")

    def __init__(self, values: Sequence[Any], fields: Sequence[str] | None = None, cls: Any = None):
        self.values = list(values)
        self.fields = list(fields) if fields else None
        self.cls = cls

    def like(self, values: Sequence[Any]) -> tuple:
        """A tuple of other values with the same field names and class."""
        return tuple(values, self.fields, self.cls)

    @property
    def type(self) -> tuple_type:
        return tuple_type([type_of(v) for v in self.values], self.fields, self.cls)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and self.fields and name in self.fields:
            return self.values[self.fields.index(name)]
        raise AttributeError(name)

    def __getitem__(self, index: Any) -> Any:
        index = unwrap(index)
        if isinstance(index, _Slice):
            parts = [unwrap(part) for part in (index.start, index.stop, index.step)]
            return tuple(self.values[_Slice(*parts)])
        if isinstance(index, tensor):
            from kiln.errors import CompilationError

            raise CompilationError(
                "expected a constexpr index (because a tuple's elements may differ in type), got a value of type"
                f" {index.type}",
                hint="loop over it with kl.static_range",
            )
        try:
            return self.values[index]
        except IndexError:
            from kiln.errors import CompilationError

            raise CompilationError(f"expected an index below {len(self.values)}, got {index}") from None

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __add__(self, other: Any) -> tuple:
        return tuple(self.values + list(other))

    def __radd__(self, other: Any) -> tuple:
        return tuple(list(other) + self.values)

    def __mul__(self, count: Any) -> tuple:
        return tuple(self.values * unwrap(count))

    def __contains__(self, item: Any) -> bool:
        return any(unwrap(v) is unwrap(item) or _same(v, item) for v in self.values)

    def __eq__(self, other: Any) -> Any:
        if not isinstance(other, (tuple, builtins.tuple, list)):
            return NotImplemented
        return len(self) == len(other) and all(_same(a, b) for a, b in zip(self.values, other, strict=False))

    def __ne__(self, other: Any) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        return hash(builtins.tuple(self.values))

    def __repr__(self) -> str:
        return "(" + ", ".join(map(repr, self.values)) + ")"


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tensor) or isinstance(b, tensor):
        return a is b
    return bool(unwrap(a) == unwrap(b))


class slice:
    """`start:stop:step` in a subscript."""

    def __init__(self, start: Any, stop: Any, step: Any):
        self.start, self.stop, self.step = start, stop, step


class tensor_descriptor:
    """A strided array in global memory that is read and written in blocks.

    Made by `kl.make_tensor_descriptor`, or passed to a kernel. Outside the array, reads give the padding value and
    writes are dropped.
    """

    __slots__ = ("_shape", "_strides", "base", "type")

    def __init__(self, type: tensor_descriptor_type, base: tensor, shape: Sequence[tensor], strides: Sequence[tensor]):
        self.type = type
        self.base = base
        self._shape = list(shape)
        self._strides = list(strides)

    @property
    def handle(self) -> int:
        """A new `!tile.desc`, made at each use (the op is pure; duplicates fold)."""
        from . import semantic

        return semantic.make_handle(self)

    @property
    def block_type(self) -> block_type:
        return self.type.block_type

    @property
    def block_shape(self) -> tuple:
        return tuple([constexpr(s) for s in self.type.block_type.shape])

    @property
    def dtype(self) -> type_:
        return self.type.element_ty

    @property
    def shape(self) -> tuple:
        """Extents of the array, not of a block (i64 values)."""
        return tuple(self._shape)

    @property
    def strides(self) -> tuple:
        """Strides of the array in elements; the last is 1."""
        return tuple(self._strides)

    def __repr__(self) -> str:
        return f"tensor_descriptor[{self.type}]"


def type_of(value: Any) -> type_:
    """The type of any kernel value."""
    if isinstance(value, (tensor, tuple, tensor_descriptor)):
        return value.type
    if isinstance(value, (builtins.tuple, list)):
        return tuple_type([type_of(v) for v in value], getattr(value, "_fields", None))
    return constexpr_type(unwrap(value))


def flatten(value: Any) -> list[int]:
    """The handles of the IR values that a value consists of, in order."""
    if isinstance(value, tensor):
        return [value.handle]
    if isinstance(value, tensor_descriptor):
        return [value.base.handle] + [t.handle for t in value._shape + value._strides]
    if isinstance(value, (tuple, builtins.tuple, list)):
        return [handle for v in value for handle in flatten(v)]
    return []


def flat_types(value: Any) -> list[str]:
    """The MLIR types of `flatten(value)`; `value` may be a type."""
    return (value if isinstance(value, type_) else type_of(value)).flatten()


def unflatten(like: Any, handles: Sequence[int]) -> Any:
    """A value shaped like `like` (a value or a type), made of these handles."""
    handles = list(handles)
    value = _take(like, handles)
    assert not handles, "unflatten: more handles than the value is made of"
    return value


def _take(like: Any, handles: list[int]) -> Any:
    if isinstance(like, constexpr_type):
        return constexpr(like.value)
    if isinstance(like, (tensor, tensor_descriptor)):
        like = like.type
    if isinstance(like, tensor_descriptor_type):
        return _take_descriptor(like, handles)
    if isinstance(like, tuple_type):
        return tuple([_take(t, handles) for t in like.types], like.fields, like.cls)
    if isinstance(like, (dtype, pointer_type, block_type)):
        return tensor(handles.pop(0), like)
    if isinstance(like, tuple):
        return like.like([_take(v, handles) for v in like.values])
    if isinstance(like, (builtins.tuple, list)):
        return tuple([_take(v, handles) for v in like], getattr(like, "_fields", None))
    return like


def _take_descriptor(like: tensor_descriptor_type, handles: list[int]) -> tensor_descriptor:
    from . import semantic

    base, *rest = [tensor(handles.pop(0), part) for part in like.parts()]
    shape, strides = rest[: like.rank], rest[like.rank :]
    # Every descriptor's last stride is 1; the constant tells the compiler so.
    strides[-1] = semantic.constant(int64, 1)
    return tensor_descriptor(like, base, shape, strides)
