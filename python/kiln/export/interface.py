"""The interface of an exported launch: from the variants of a kernel to the parameters of a C++ and a C function.

A parameter that is the same constant in every variant is not an argument: the header states its value. All others are
arguments: an array or number with the types that the variants have there, a constexpr by its value, which then selects
the variant. Constants that C++ cannot express (types, functions, objects) are never arguments. Tuples become their
items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kiln import errors
from kiln.frontend.signature import Parameter, array_names, descriptor_block


@dataclass(frozen=True)
class Compiled:
    """One variant with its code."""

    parameters: tuple[Parameter, ...]
    target: str
    options: Mapping[str, Any]
    disjoint: tuple[bool, ...]
    metadata: dict[str, Any]
    binary: bytes
    extension: str  # "cubin", "ptx" or "o"

    @property
    def leaves(self) -> list[tuple[str, Parameter]]:
        """Parameters with tuples flattened, in order, by their names in C++."""
        return [leaf for parameter in self.parameters for leaf in _leaves(parameter, parameter.name)]

    @property
    def arrays_apart(self) -> list[str]:
        """Arrays that the caller promises not to overlap any other."""
        labels = {item.name: label for label, item in self.leaves}
        names = array_names(list(self.parameters))
        return [labels.get(name, name) for name, alone in zip(names, self.disjoint, strict=False) if alone]


@dataclass(frozen=True)
class Argument:
    """One argument of the exported launch.

    kind      "array", "any array", "number", "optional number", "constant" or "descriptor"
    type      the element or number: "fp16", "i32"; of a constant "bool", "int", "float" or "str"
    name      in C and C++; `label` in messages, as Python has it
    written   of arrays: some variant stores through it
    """

    name: str
    label: str
    kind: str
    type: str
    written: bool = False
    rank: int = 0


@dataclass(frozen=True)
class Interface:
    """Everything that the files of an export are written from."""

    kernel: str
    file: str
    documentation: str
    name: str
    namespace: str
    arguments: tuple[Argument, ...]
    constants: tuple[tuple[str, Any], ...]  # the same in every variant
    variants: tuple[Compiled, ...]
    signatures: tuple[str, ...]  # of each variant: an item for each argument


def make_interface(kernel: Any, name: str, namespace: str, variants: Sequence[Compiled]) -> Interface:
    """The interface of these variants; refuses arguments that C++ cannot express."""
    first = variants[0].leaves
    labels = [label for label, _ in first]
    for index, variant in enumerate(variants):
        if [label for label, _ in variant.leaves] != labels:
            raise errors.UserError(
                f"signature {index + 1}: expected tuples of the same items as in signature 1 (because both are launched"
                f" by one function), got ({', '.join(label for label, _ in variant.leaves)})"
            )
    arguments: list[tuple[int, Argument]] = []
    constants: list[tuple[str, Any]] = []
    taken = {"kernel", "stream", "grid", "kiln"}
    for position, label in enumerate(labels):
        found = [variant.leaves[position][1] for variant in variants]
        if all(item.kind == "constexpr" for item in found) and not _varies(found):
            if all(_same(item.value, found[0].value) for item in found):
                constants.append((label, found[0].value))
            continue
        argument = _argument(label, found, variants, _c_name(label, taken))
        taken.add(argument.name)
        arguments.append((position, argument))
    signatures = [", ".join(_spell(variant.leaves[position][1]) for position, _ in arguments) for variant in variants]
    _refuse_twins(variants, signatures)
    return Interface(
        kernel=kernel.__name__,
        file=kernel.fn.__code__.co_filename.rpartition("/")[2],
        documentation=(kernel.fn.__doc__ or "").strip(),
        name=name,
        namespace=namespace,
        arguments=tuple(argument for _, argument in arguments),
        constants=tuple(constants),
        variants=tuple(variants),
        signatures=tuple(signatures),
    )


def _leaves(parameter: Parameter, label: str) -> Iterator[tuple[str, Parameter]]:
    if parameter.kind != "tuple":
        yield label, parameter
        return
    for index, item in enumerate(parameter.items):
        field = parameter.fields[index] if parameter.fields else str(index)
        yield from _leaves(item, f"{label}.{field}")


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b or (a != a and b != b))


def _varies(found: Sequence[Parameter]) -> bool:
    """Whether constants that C++ can express differ: then the caller must choose, as its grid may depend on them."""
    values = [item.value for item in found]
    return any(not _same(value, values[0]) for value in values) and all(
        isinstance(value, (bool, int, float, str)) for value in values
    )


def _argument(label: str, found: Sequence[Parameter], variants: Sequence[Compiled], name: str) -> Argument:
    def refuse(expected: str) -> errors.UserError:
        got = ", ".join(dict.fromkeys(_spell(item) for item in found))
        return errors.UserError(f"parameter {label!r}: expected {expected} (because one function takes it), got {got}")

    if all(item.kind == "constexpr" for item in found):
        kinds = {type(item.value).__name__ for item in found}
        if len(kinds) > 1:
            raise refuse("constants of one type in all signatures")
        return Argument(name, label, "constant", kinds.pop())
    types = list(dict.fromkeys(item.type or "" for item in found if item.kind == "runtime"))
    constants = [item.value for item in found if item.kind == "constexpr"]
    optional = None in constants
    if types[0].startswith("tensordesc<"):
        blocks = [descriptor_block(ty) for ty in types if ty.startswith("tensordesc<")]
        element, block = blocks[0]
        if constants or len(blocks) < len(types) or any(b[0] != element or len(b[1]) != len(block) for b in blocks):
            raise refuse("descriptors of one element type and rank in all signatures")
        return Argument(name, label, "descriptor", element, _is_written(label, variants), len(block))
    if types[0].startswith("*"):
        if any(not ty.startswith("*") for ty in types) or any(value is not None for value in constants):
            raise refuse("an array, or None, in all signatures")
        kind = "array" if len(types) == 1 else "any array"
        return Argument(name, label, kind, types[0][1:], _is_written(label, variants))
    if any(ty.startswith(("*", "tensordesc<")) for ty in types) or not all(
        v is None or v is _one(v) for v in constants
    ):
        raise refuse("a number in all signatures; as a constant 1 or None")
    if len(types) > 1 and not set(types) <= {"i32", "i64"}:
        raise refuse("one type of number in all signatures, or i32 and i64")
    if len(types) == 1 and any(value is not None for value in constants) and types[0] not in ("i32", "i64"):
        raise refuse("no signature for the constant 1 (because a launch makes constants of i32 and i64 only)")
    widest = "i64" if "i64" in types else types[0]
    return Argument(name, label, "optional number" if optional else "number", widest)


def _one(value: Any) -> Any:
    return value if type(value) is int and value == 1 else None


def _is_written(label: str, variants: Sequence[Compiled]) -> bool:
    """Whether some variant's code stores through the array."""
    for variant in variants:
        plain = {name: item.name for name, item in variant.leaves}[label]
        if any(entry["name"] == plain and entry.get("written") for entry in variant.metadata["arguments"]):
            return True
    return False


def _spell(item: Parameter) -> str:
    """As `runtime/launch/Specialize.h` reads it."""
    if item.kind == "runtime":
        return item.spelled_type
    value = item.value
    if isinstance(value, str):
        quote = '"' if "'" in value else "'"
        return f"{quote}{value}{quote}"
    return repr(value)


def _refuse_twins(variants: Sequence[Compiled], signatures: Sequence[str]) -> None:
    seen: dict[tuple[str, str], int] = {}
    for index, (variant, signature) in enumerate(zip(variants, signatures, strict=True)):
        other = seen.setdefault((variant.target, signature), index)
        if other == index:
            continue
        pairs = zip(variants[other].leaves, variant.leaves, strict=True)
        differ = [a[0] for a, b in pairs if a[1].kind == "constexpr" and not _same(a[1].value, b[1].value)]
        raise errors.UserError(
            f"expected signatures for {variant.target} that differ in an argument (because a launch chooses by them),"
            f" got two with ({signature})" + (f", which differ in {', '.join(differ)}" if differ else "")
        )


# Keywords of C11 and C++20, and the names of the functions' own parameters.
KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class"
    " co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype"
    " default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline"
    " int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public"
    " register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast"
    " struct switch template this thread_local throw true try typedef typeid typename union unsigned using virtual"
    " void volatile wchar_t while xor xor_eq".split()
)


def _c_name(label: str, taken: set[str]) -> str:
    """An identifier of C and C++ for a parameter or an item of one."""
    name = "".join(c if c.isascii() else f"u{ord(c):04x}" for c in label.replace(".", "_"))
    while name in KEYWORDS or name in taken:
        name += "_"
    return name
