"""Types of kernel values: numbers, pointers, tiles, block pointers, descriptors, tuples.

Every type knows its name (`str(t)`), its MLIR text (`t.mlir`) and the IR values it consists of (`flatten`). Types
compare structurally. Integers are signless in the IR: only these types know the signedness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

from .builtin import builtin

MAX_ODD_FACTOR = 31
"""A tile's side is 2^k * m with m odd and at most this."""

TRITON_MAX_TENSOR_NUMEL = 1048576
"""The most elements one tile may have."""


def _error(message: str, hint: str | None = None, argument: str | None = None) -> Exception:
    from kiln.errors import CompilationError

    return CompilationError(message, hint=hint, argument=argument)


class PropagateNan(Enum):
    """What `maximum`, `minimum` and `clamp` do with NaN: NONE prefers the number, ALL gives NaN."""

    NONE = 0
    ALL = 0xFFFF


class Kind(Enum):
    """The kind of a number type, ordered for promotion."""

    BOOLEAN = 0
    INTEGRAL = 1
    FLOATING = 2


class type_:
    """Base of all types of kernel values."""

    name: str
    element_ty: Any
    primitive_bitwidth: int
    int_bitwidth: int
    int_signedness: Any
    numel: int = 1

    @property
    def mlir(self) -> str:
        """The type in the IR, as text."""
        raise TypeError(f"{self.name} is not the type of an IR value")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type_) and self.name == other.name

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    @property
    def scalar(self) -> type_:
        """The element type of a tile; of anything else, itself."""
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def _no(self) -> bool:
        return False

    # Predicates that any type has; a type overrides those that hold for it.
    is_block = _no
    is_ptr = _no
    is_const = _no
    is_void = _no
    is_floating = _no
    is_standard_floating = _no
    is_fp8 = _no
    is_fp8e4nv = _no
    is_fp8e4b8 = _no
    is_fp8e4b15 = _no
    is_fp8e5 = _no
    is_fp8e5b16 = _no
    is_fp16 = _no
    is_bf16 = _no
    is_fp32 = _no
    is_fp64 = _no
    is_int = _no
    is_int_signed = _no
    is_int_unsigned = _no
    is_bool = _no
    is_int1 = _no
    is_int8 = _no
    is_int16 = _no
    is_int32 = _no
    is_int64 = _no
    is_uint8 = _no
    is_uint16 = _no
    is_uint32 = _no
    is_uint64 = _no

    def kind(self) -> Kind:
        raise TypeError(f"{self.name} is not a number")

    def get_int_max_value(self) -> int:
        raise TypeError(f"{self.name} is not an integer")

    def get_int_min_value(self) -> int:
        raise TypeError(f"{self.name} is not an integer")

    def with_element_ty(self, element_ty: type_) -> type_:
        return element_ty

    def flatten(self) -> list[str]:
        """The MLIR types of the IR values that a value of this type consists of."""
        return [self.mlir]


class dtype(type_):
    """A number type. Kernels need no instances other than `kl.float32` and its siblings."""

    SINT_TYPES = ["int8", "int16", "int32", "int64"]
    UINT_TYPES = ["int1", "uint8", "uint16", "uint32", "uint64"]
    FP_TYPES = ["fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16", "fp16", "bf16", "fp32", "fp64"]
    STANDARD_FP_TYPES = ["fp16", "bf16", "fp32", "fp64"]
    OTHER_TYPES = ["void"]

    class SIGNEDNESS(Enum):
        SIGNED = 0
        UNSIGNED = 1

    KIND = Kind

    #     name: (MLIR, bits, mantissa bits, exponent bias); integers have no mantissa.
    _TABLE = {
        "void": ("none", 0, 0, 0),
        "int1": ("i1", 1, 0, 0),
        "int8": ("i8", 8, 0, 0),
        "int16": ("i16", 16, 0, 0),
        "int32": ("i32", 32, 0, 0),
        "int64": ("i64", 64, 0, 0),
        "uint8": ("i8", 8, 0, 0),
        "uint16": ("i16", 16, 0, 0),
        "uint32": ("i32", 32, 0, 0),
        "uint64": ("i64", 64, 0, 0),
        "fp8e4nv": ("f8E4M3FN", 8, 3, 7),
        "fp8e5": ("f8E5M2", 8, 2, 15),
        "fp8e4b8": (None, 8, 3, 8),
        "fp8e5b16": (None, 8, 2, 16),
        "fp8e4b15": ("i8", 8, 3, 15),  # no target computes in it: see semantic/cast.py
        "fp16": ("f16", 16, 10, 15),
        "bf16": ("bf16", 16, 7, 127),
        "fp32": ("f32", 32, 23, 127),
        "fp64": ("f64", 64, 52, 1023),
    }

    def __init__(self, name: str):
        if hasattr(name, "value"):
            name = name.value
        if name not in dtype._TABLE:
            raise ValueError(f"expected the name of a number type, got {name!r}")
        self.name = name
        self._mlir, self.primitive_bitwidth, self.fp_mantissa_width, self.exponent_bias = dtype._TABLE[name]
        self.itemsize = self.primitive_bitwidth // 8
        self._floating = name in dtype.FP_TYPES
        self._signed = name in dtype.SINT_TYPES
        self._integer = self._signed or name in dtype.UINT_TYPES
        if self._integer:
            self.int_bitwidth = self.primitive_bitwidth
            self.int_signedness = dtype.SIGNEDNESS.SIGNED if self._signed else dtype.SIGNEDNESS.UNSIGNED

    def __reduce__(self):
        return (dtype, (self.name,))

    @property
    def mlir(self) -> str:
        if self._mlir is None:
            raise _error(
                f"expected a number type that a target has, got {self.name}",
                hint="use kl.float8e4nv or kl.float8e5",
            )
        return self._mlir

    def is_fp8(self) -> bool:
        return self.name.startswith("fp8")

    def is_fp8e4nv(self) -> bool:
        return self.name == "fp8e4nv"

    def is_fp8e4b8(self) -> bool:
        return self.name == "fp8e4b8"

    def is_fp8e4b15(self) -> bool:
        return self.name == "fp8e4b15"

    def is_fp8e5(self) -> bool:
        return self.name == "fp8e5"

    def is_fp8e5b16(self) -> bool:
        return self.name == "fp8e5b16"

    def is_fp16(self) -> bool:
        return self.name == "fp16"

    def is_bf16(self) -> bool:
        return self.name == "bf16"

    def is_fp32(self) -> bool:
        return self.name == "fp32"

    def is_fp64(self) -> bool:
        return self.name == "fp64"

    def is_int1(self) -> bool:
        return self.name == "int1"

    def is_int8(self) -> bool:
        return self.name == "int8"

    def is_int16(self) -> bool:
        return self.name == "int16"

    def is_int32(self) -> bool:
        return self.name == "int32"

    def is_int64(self) -> bool:
        return self.name == "int64"

    def is_uint8(self) -> bool:
        return self.name == "uint8"

    def is_uint16(self) -> bool:
        return self.name == "uint16"

    def is_uint32(self) -> bool:
        return self.name == "uint32"

    def is_uint64(self) -> bool:
        return self.name == "uint64"

    def is_void(self) -> bool:
        return self.name == "void"

    def is_floating(self) -> bool:
        return self._floating

    def is_standard_floating(self) -> bool:
        return self.name in dtype.STANDARD_FP_TYPES

    def is_int_signed(self) -> bool:
        return self._signed

    def is_int_unsigned(self) -> bool:
        return self._integer and not self._signed

    def is_int(self) -> bool:
        return self._integer

    def is_bool(self) -> bool:
        return self.name == "int1"

    def kind(self) -> Kind:
        if self.is_bool():
            return Kind.BOOLEAN
        if self.is_int():
            return Kind.INTEGRAL
        if self.is_floating():
            return Kind.FLOATING
        return super().kind()

    def get_int_max_value(self) -> int:
        if self._signed:
            return 2 ** (self.int_bitwidth - 1) - 1
        return 2**self.int_bitwidth - 1

    def get_int_min_value(self) -> int:
        return -(2 ** (self.int_bitwidth - 1)) if self._signed else 0

    @staticmethod
    def is_dtype(type_str: str) -> bool:
        return type_str in dtype._TABLE


class pointer_type(type_):
    """The address of an element in global memory. If the element is a tile, a block pointer."""

    def __init__(self, element_ty: type_, address_space: int = 1, const: bool = False):
        if not isinstance(element_ty, type_):
            raise TypeError(f"expected a type as element of a pointer, got {type(element_ty).__name__}")
        self.element_ty = element_ty
        self.address_space = getattr(address_space, "value", address_space)
        self.const = bool(getattr(const, "value", const))
        self.name = f"pointer<{'const ' if self.const else ''}{element_ty}>"
        self.primitive_bitwidth = 64
        self.itemsize = 8

    @property
    def mlir(self) -> str:
        if self.element_ty.is_block():
            return f"!tile.block_ptr<{self.element_ty.mlir}>"
        return f"!tile.ptr<{self.element_ty.mlir}>"

    def is_ptr(self) -> bool:
        return True

    def is_const(self) -> bool:
        return self.const


def is_legal_side(side: int) -> bool:
    """Whether a tile may have this side: 2^k * m with m odd and at most 31."""
    if side <= 0:
        return False
    while side % 2 == 0:
        side //= 2
    return side <= MAX_ODD_FACTOR


def nearest_legal_side(side: int) -> int:
    """The smallest legal side that is at least `side`."""
    side = max(side, 1)
    while not is_legal_side(side):
        side += 1
    return side


def check_shape(shape: Sequence[int], argument: str | None = None) -> tuple[int, ...]:
    """The sides of a tile as a tuple of ints; raises an error that states the rule if a side is illegal.

    argument   the parameter that the shape was passed for
    """
    sides = []
    for dim, side in enumerate(shape):
        side = getattr(side, "value", side)
        if isinstance(side, bool) or not isinstance(side, int):
            from .semantic.operand import describe_side

            raise _error(
                "expected constexpr sides (because a tile's shape is fixed at compile time), got"
                f" {describe_side(side)} in dimension {dim}",
                hint="divide with // to stay with integers"
                if isinstance(side, float)
                else "declare the parameter it comes from as kl.constexpr",
                argument=argument,
            )
        if side < 1:
            raise _error(f"expected positive sides of a tile, got {side} in dimension {dim}", argument=argument)
        if not is_legal_side(side):
            hint = f"use {nearest_legal_side(side)} and a mask"
            raise _error(
                f"expected a side of 2^k * m with m odd and at most {MAX_ODD_FACTOR} (because a tile is dealt out in"
                f" powers of two times one odd digit), got {side} in dimension {dim}",
                hint=hint,
                argument=argument,
            )
        sides.append(side)
    count = 1
    for side in sides:
        count *= side
    if count > TRITON_MAX_TENSOR_NUMEL:
        raise _error(
            f"expected at most {TRITON_MAX_TENSOR_NUMEL} elements in a tile, got {count} ({list(sides)})",
            hint="loop over smaller tiles",
            argument=argument,
        )
    return tuple(sides)


class block_type(type_):
    """A tile: element type and static shape."""

    def __init__(self, element_ty: type_, shape: Sequence[int]):
        self.element_ty = element_ty
        self._shape = check_shape(shape)
        if not self._shape:
            raise TypeError("a tile has at least one dimension")
        self.name = f"<{list(self._shape)}, {element_ty}>"
        count = 1
        for side in self._shape:
            count *= side
        self.numel = count
        self.nbytes = count * element_ty.primitive_bitwidth // 8

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def get_block_shapes(self) -> tuple[int, ...]:
        return self._shape

    @property
    def mlir(self) -> str:
        return f"tensor<{'x'.join(map(str, self._shape))}x{self.element_ty.mlir}>"

    @property
    def scalar(self) -> type_:
        return self.element_ty

    def is_block(self) -> bool:
        return True

    def with_element_ty(self, element_ty: type_) -> block_type:
        return block_type(element_ty, self._shape)


class tensor_descriptor_type(type_):
    """A strided array in global memory, read and written in blocks of one shape.

    In a kernel's arguments, in calls and in loops alike, a descriptor is represented by these IR values: its base
    pointer, its shape and its strides (i64 each). The last stride is 1.
    """

    def __init__(self, block: block_type, padding: str = "zero", const: bool = False):
        self.block_type = block
        self.padding = padding
        self.const = const
        self.name = f"tensor_descriptor<{'const ' * const}{block}{'' if padding == 'zero' else ', ' + padding}>"

    def is_const(self) -> bool:
        return self.const

    @property
    def element_ty(self) -> type_:
        return self.block_type.element_ty

    @property
    def block_shape(self) -> tuple[int, ...]:
        return self.block_type.shape

    @property
    def rank(self) -> int:
        return len(self.block_type.shape)

    @property
    def mlir(self) -> str:
        return f"!tile.desc<{self.block_type.mlir}>"

    def parts(self) -> list[type_]:
        """Types of base, shape and strides, in order."""
        return [pointer_type(self.element_ty, const=self.const)] + [int64] * (2 * self.rank)

    def flatten(self) -> list[str]:
        return [part.mlir for part in self.parts()]


class tuple_type(type_):
    """Several values, with field names if they come from a named tuple, and the class if they come from a struct."""

    def __init__(self, types: Sequence[type_], fields: Sequence[str] | None = None, cls: Any = None):
        self.types = list(types)
        self.fields = list(fields) if fields else None
        self.cls = cls
        names = (
            [f"{f}:{t}" for f, t in zip(self.fields, self.types, strict=False)] if self.fields else map(str, self.types)
        )
        self.name = (cls.__name__ if cls is not None else "") + "[" + ",".join(names) + "]"

    def __iter__(self) -> Iterator[type_]:
        return iter(self.types)

    def __len__(self) -> int:
        return len(self.types)

    def __getitem__(self, index: int) -> type_:
        return self.types[index]

    @property
    def mlir(self) -> str:
        raise TypeError("a tuple is several IR values: use flatten()")

    def flatten(self) -> list[str]:
        return [text for ty in self.types for text in ty.flatten()]


class constexpr_type(type_):
    """The type of a value known at compile time, which is no IR value."""

    def __init__(self, value: object):
        self.value = value
        self.name = f"constexpr[{value}]"

    @property
    def mlir(self) -> str:
        raise TypeError("a constexpr is no IR value")

    def flatten(self) -> list[str]:
        return []


void = dtype("void")
int1 = dtype("int1")
int8 = dtype("int8")
int16 = dtype("int16")
int32 = dtype("int32")
int64 = dtype("int64")
uint8 = dtype("uint8")
uint16 = dtype("uint16")
uint32 = dtype("uint32")
uint64 = dtype("uint64")
float8e5 = dtype("fp8e5")
float8e5b16 = dtype("fp8e5b16")
float8e4nv = dtype("fp8e4nv")
float8e4b8 = dtype("fp8e4b8")
float8e4b15 = dtype("fp8e4b15")
float16 = dtype("fp16")
bfloat16 = dtype("bf16")
float32 = dtype("fp32")
float64 = dtype("fp64")
pi32_t = pointer_type(int32)

_SIGNATURE_NAMES = {
    "i1": int1, "u1": int1, "i8": int8, "i16": int16, "i32": int32, "i64": int64,
    "u8": uint8, "u16": uint16, "u32": uint32, "u64": uint64, "f16": float16, "f32": float32, "f64": float64,
    "bfloat16": bfloat16, "float16": float16, "float32": float32, "float64": float64, "bool": int1,
    "float8e5": float8e5, "float8e4nv": float8e4nv, "float8e4b8": float8e4b8, "float8e5b16": float8e5b16,
    "float8e4b15": float8e4b15,
}  # fmt: skip

_parsed: dict[str, type_] = {}


def parse(text: str) -> type_:
    """The type a signature names: `fp32`, `i32`, `*bf16`, `*k fp32` (const), `tensordesc<fp32[64,64]>`."""
    found = _parsed.get(text)
    if found is None:
        found = _parsed[text] = _parse(text.strip())
    return found


def _parse(text: str) -> type_:
    if text.startswith("*k") and parseable(text[2:].strip()):
        return pointer_type(parse(text[2:].strip()), const=True)
    if text.startswith("*"):
        return pointer_type(parse(text[1:].strip()))
    if text.startswith("tensordesc<") and text.endswith("]>"):
        element, _, sides = text[len("tensordesc<") : -2].partition("[")
        return tensor_descriptor_type(block_type(parse(element), [int(s) for s in sides.split(",")]))
    if text in _SIGNATURE_NAMES:
        return _SIGNATURE_NAMES[text]
    if dtype.is_dtype(text):
        return dtype(text)
    raise ValueError(f"expected a type such as fp32, i32, *bf16 or tensordesc<fp32[64,64]>, got {text!r}")


def parseable(text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


@builtin
def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """The integer type of a width and signedness; kernels may call it too."""
    bitwidth, signed = getattr(bitwidth, "value", bitwidth), getattr(signed, "value", signed)
    if bitwidth == 1:
        return int1
    return dtype(f"{'' if signed else 'u'}int{bitwidth}")


def as_const(ty: type_) -> Any:
    """The const version of a pointer type or descriptor type; any other type unchanged."""
    if isinstance(ty, block_type):
        return block_type(as_const(ty.element_ty), ty.shape)
    if isinstance(ty, pointer_type):
        return pointer_type(ty.element_ty, ty.address_space, const=True)
    if isinstance(ty, tensor_descriptor_type):
        return tensor_descriptor_type(ty.block_type, ty.padding, const=True)
    return ty


def with_element(like: type_, element_ty: type_) -> type_:
    """`element_ty` with the shape of `like`."""
    return block_type(element_ty, like.shape) if like.is_block() else element_ty


def of_shape(element_ty: type_, shape: Sequence[int]) -> type_:
    """A tile type, or the element type itself if there are no dimensions."""
    return block_type(element_ty, shape) if len(shape) else element_ty
