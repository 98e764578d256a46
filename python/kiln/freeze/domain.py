"""The domain of a kernel's arguments as text, and all specialisations that calls inside it need.

    NAME=*fp32         arrays of that element type, at any address; `*fp32:16` at multiples of 16 alone
    NAME=0..4096       integers of a range, both ends in it; `i32` and `u8` are all of a type, `i32:16` multiples of 16
    NAME=7             a value: an integer, 0.5, True, None, 'text', kl.float32, for constexprs any expression
    NAME=fp32, i1      floating-point numbers, booleans
    NAME=tensordesc<fp16[64,64]>   descriptors of such blocks; ends in `:rows` where rows are multiples of 16 bytes
    NAME=(A, B)        a tuple, by its parameter's annotation or the names of its items a named one
    NAME=A|B|C         any of these
    num_warps=4|8      launch options likewise; what is left out is the default
    T=fp16|bf16        a name that is no parameter: each of these in turn, wherever `*T` or `T` stands

The rules of specialisation are not repeated here. This file makes representatives of each argument that cover every
type, every residue modulo 16, the value 1, and small and large grids. The ordinary launcher binds them and reports what
it would compile.
"""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kiln import errors
from kiln.frontend.function import KernelFunction
from kiln.frontend.signature import Parameter
from kiln.runtime.interface import LAUNCH_OPTIONS, CodeRequest, answering

if TYPE_CHECKING:
    from kiln._kiln import LaunchTerms

_INTEGERS = {f"{sign}{bits}": (sign, bits) for sign in "iu" for bits in (8, 16, 32, 64) if (sign, bits) != ("i", 1)}
_FLOATS = ("fp16", "bf16", "fp32", "fp64")
_BYTES = {"i1": 1, "fp8e4b15": 1, "fp8e4nv": 1, "fp8e5": 1, "bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8,
          **{name: bits // 8 for name, (_, bits) in _INTEGERS.items()}}  # fmt: skip
# Ranges of integers with different types or code: below, within and above signed 32 bits, and above signed 64 bits;
# pointers become descriptors only for values from 0 to 2^30.
_SORTS = ((-(2**63), -(2**31) - 1), (-(2**31), -1), (0, 2**30), (2**30 + 1, 2**31 - 1), (2**31, 2**63 - 1),
          (2**63, 2**64 - 1))  # fmt: skip
_GRIDS = ((1,), (2**19 + 1,))


@dataclass(frozen=True)
class Specialised:
    """One variant that the launcher would request."""

    parameters: list[Parameter]
    disjoint: tuple[bool, ...]
    options: dict[str, Any]


class Domain:
    """A kernel and the arguments it is launched with. `overlap`: groups of arrays that may overlap in a launch, such as
    ("x", "y") for a kernel that also runs in place; arrays in no group overlap no others."""

    def __init__(self, kernel: KernelFunction, text: str, overlap: Sequence[Sequence[str]] = ()):
        from kiln.cli.signature import split, split_at

        self.kernel = kernel
        self.overlap = [tuple(group) for group in overlap]
        names = [parameter.name for parameter in kernel.params]
        self._alternatives: dict[str, list[str]] = {}
        self._options: dict[str, list[str]] = {}
        self._variables: dict[str, list[str]] = {}
        for part in split(text):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals or not name or not value:
                raise errors.UserError(f"domain: expected NAME=VALUES, got {part!r}")
            place = (
                self._alternatives if name in names else self._options if name in LAUNCH_OPTIONS else self._variables
            )
            if name in place:
                raise errors.UserError(f"domain: {name!r} is given twice")
            place[name] = split_at(value, "|")
        for parameter in kernel.params:
            if parameter.name not in self._alternatives and not parameter.has_default:
                raise errors.UserError(f"domain: expected values for parameter {parameter.name!r}, got none")
        for name in self._variables:
            if not any(re.search(rf"\b{name}\b", text) for texts in self._alternatives.values() for text in texts):
                near = errors.near_match(name, names)
                raise errors.UserError(
                    f"domain: the kernel has no parameter {name!r}" + (f"; did you mean {near!r}?" if near else "")
                )
        arrays = set(itertools.chain.from_iterable(self.overlap)) - set(names)
        if arrays:
            raise errors.UserError(f"overlap: the kernel has no parameter {min(arrays)!r}")

    def enumerate(self, most: int = 1 << 30, gpu: bool = False) -> list[Specialised]:
        """Every variant that launches on the CPU or on a GPU need, each once. More than `most` are an error, before
        anything is compiled."""
        found: dict[str, Specialised] = {}
        for chosen in _assignments(self._variables):
            for options in _assignments(self._options):
                launch = {name: _constant(text, {}, name) for name, text in options.items()}
                for variant in self._of(chosen, launch, gpu):
                    key = (variant.parameters, variant.disjoint, sorted(variant.options.items()))
                    found.setdefault(repr(key), variant)
                    if len(found) > most:
                        raise errors.UserError(
                            f"domain of {self.kernel.__name__}: expected at most {most} variants, got more: each"
                            " alternative of an argument multiplies them"
                        )
        return list(found.values())

    def _of(self, chosen: dict[str, str], options: dict[str, Any], gpu: bool) -> Iterator[Specialised]:
        asker = Asker(self.kernel, options, gpu)
        values: list[list[Any]] = []
        for index, parameter in enumerate(self.kernel.params):
            texts = self._alternatives.get(parameter.name)
            if texts is None:
                values.append([parameter.default])
                continue
            candidates = [
                value for text in texts for value in _values(_substitute(text, chosen), parameter, index, self.kernel)
            ]
            values.append(candidates)
        # Keep one of the values that a launch does not distinguish.
        for index, candidates in enumerate(values):
            seen: dict[str, Any] = {}
            for value in candidates:
                arguments = [value if i == index else others[0] for i, others in enumerate(values)]
                answer = asker.ask(arguments, _GRIDS[0])
                seen.setdefault(repr((answer.parameters[index], answer.options)), value)
            values[index] = list(seen.values())
        for several in itertools.product(*values):
            for pattern in self._patterns():
                for grid in _GRIDS:
                    yield asker.ask([_overlapping(value, pattern) for value in several], grid)

    def _patterns(self) -> Iterator[frozenset[int]]:
        """The sets of parameters whose arrays overlap: each of the groups, and none."""
        index = {parameter.name: i for i, parameter in enumerate(self.kernel.params)}
        groups = [frozenset(index[name] for name in group) for group in self.overlap]
        for count in range(len(groups) + 1):
            for several in itertools.combinations(groups, count):
                yield frozenset().union(*several)


# ---- representatives -------------------------------------------------------------------------------------------------
class _Array:
    """An array that is never read: an element type, an address, and a storage that may overlap others."""

    is_cpu = True
    shape = (64,)

    def __init__(self, dtype: str, place: int, aligned: bool, storage: int | None = None):
        self.dtype, self.place, self.aligned = dtype, place, aligned
        self.storage = place if storage is None else storage

    def data_ptr(self) -> int:
        return (self.storage + 1 << 20) + (0 if self.aligned else _BYTES[self.dtype] % 16)

    def untyped_storage(self) -> _Storage:
        return _Storage(self.storage + 1 << 20)


class _Storage:
    def __init__(self, address: int):
        self.address = address

    def data_ptr(self) -> int:
        return self.address

    def nbytes(self) -> int:
        return 1 << 16


def _overlapping(value: Any, pattern: frozenset[int]) -> Any:
    """The value, with the arrays of these parameters placed in one storage."""
    if isinstance(value, _Array) and value.place // 64 in pattern:
        return _Array(value.dtype, value.place, value.aligned, storage=1 << 12)
    if isinstance(value, tuple):
        items = [_overlapping(item, pattern) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else tuple.__new__(type(value), items)
    return value


def _values(text: str, parameter: Any, index: int, kernel: KernelFunction) -> list[Any]:
    places = itertools.count(64 * index)
    found = _read(text, parameter.name, kernel, places, parameter.annotation, parameter.is_constexpr)
    if found is not None:
        return found
    return [_constant(text, kernel.fn.__globals__, parameter.name)]


def _read(
    text: str, name: str, kernel: KernelFunction, places: Iterator[int], annotation: Any, constexpr: bool
) -> list[Any] | None:
    """Values that cover every specialisation of `text`; None for a constant."""
    element, colon, divisor = text.removeprefix("*").partition(":")
    if text.startswith("*"):
        if element not in _BYTES or divisor not in ("", "16") or constexpr:
            raise errors.UserError(f"domain: {name!r}: expected an array such as *fp32 or *fp32:16, got {text!r}")
        place = next(places)
        return [_Array(element, place, True)] + ([] if colon else [_Array(element, place, False)])
    if text.startswith("tensordesc<"):
        return _descriptors(text, name, places)
    if text.startswith("(") and text.endswith(")") and not constexpr:
        return _tuples(text, name, kernel, places, annotation)
    bounds = re.fullmatch(r"(-?\d+)\.\.(-?\d+)(:16)?", text)
    if bounds or (element in _INTEGERS and divisor in ("", "16")):
        if bounds:
            first, last = int(bounds[1]), int(bounds[2])
            step = 16 if bounds[3] else 1
        else:
            sign, bits = _INTEGERS[element]
            first, last = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if sign == "i" else (0, 2**bits - 1)
            step = 16 if divisor else 1
        numbers = _integers(first, last, step)
        if not numbers:
            raise errors.UserError(f"domain: {name!r}: expected a range with integers in it, got {text!r}")
        if constexpr:
            if last - first > 1000:
                raise errors.UserError(f"domain: {name!r}: expected values (because it is constexpr), got {text!r}")
            numbers = [number for number in range(first, last + 1) if number % step == 0]
        return numbers
    if not constexpr and text in _FLOATS:
        return [0.5]
    if not constexpr and text == "i1":
        return [True]
    return None


def _integers(first: int, last: int, step: int) -> list[int]:
    """Representatives of a range: the value 1, and seventeen consecutive values of each kind that launches distinguish
    (starting with 0 to 16)."""
    numbers = [1] if first <= 1 <= last and step == 1 else []
    for low, high in _SORTS:
        start = max(first, low)
        start += -start % step
        numbers += range(start, min(last, high, start + 16) + 1, step)
    return numbers


def _descriptors(text: str, name: str, places: Iterator[int]) -> list[Any]:
    from kiln.frontend.signature import descriptor_block
    from kiln.tools.tensor_descriptor import TensorDescriptor

    whole = text.endswith(":rows")
    try:
        element, block = descriptor_block(text.removesuffix(":rows"))
        base = _Array(element, next(places), True)
        unit = max(16 // _BYTES[element], 1)
    except (KeyError, ValueError):
        raise errors.UserError(f"domain: {name!r}: expected tensordesc<TYPE[SIDES]>, got {text!r}") from None
    made = []
    for columns in (unit,) if whole or unit == 1 else (unit, unit + 1):
        shape = [*(1 for _ in block[1:]), columns]
        made.append(TensorDescriptor(base, shape, [*(2 * unit for _ in block[1:]), 1], list(block)))
    return made


def _tuples(text: str, name: str, kernel: KernelFunction, places: Iterator[int], annotation: Any) -> list[Any]:
    from kiln.cli.signature import split, split_at

    parts = split(text[1:-1])
    named = [re.fullmatch(r"(\w+)\s*=\s*(.*)", part, re.DOTALL) for part in parts]
    cls: Any = kernel.fn.__globals__.get(annotation) if isinstance(annotation, str) else annotation
    if not hasattr(cls, "_fields"):
        cls = None
    if all(named) and parts:
        if cls is None:
            cls = collections.namedtuple(name, [match[1] for match in named if match])  # type: ignore
        given = {match[1]: match[2] for match in named if match}
        if set(given) != set(cls._fields):
            raise errors.UserError(f"domain: {name!r}: expected the items {', '.join(cls._fields)}, got {text!r}")
        parts = [given[field] for field in cls._fields]
    items = []
    for part in parts:
        alternatives: list[Any] = []
        place = list(itertools.islice(places, 1))
        for one in split_at(part, "|"):
            found = _read(one, name, kernel, itertools.chain(place, places), None, False)
            alternatives += [_constant(one, kernel.fn.__globals__, name)] if found is None else found
        items.append(alternatives)
    made = itertools.product(*items)
    return [tuple.__new__(cls, values) if cls is not None else values for values in made]


def _constant(text: str, names: dict[str, Any], name: str) -> Any:
    from kiln import language

    try:
        return eval(text, {**names, "kl": language})
    except Exception as problem:
        if re.fullmatch(r"\w+", text):  # schedule=pingpong
            return text
        raise errors.UserError(f"domain: {name!r}: {text}: {problem}") from None


# ---- the launcher's answer -------------------------------------------------------------------------------------------
class _Answer(Exception):
    def __init__(self, request: CodeRequest):
        super().__init__()
        self.request = request


class Asker:
    """The owner that a `_kiln.Launcher` asks, for a kernel that it binds but never launches."""

    def __init__(self, kernel: Any, options: dict[str, Any], gpu: bool):
        from kiln import _kiln

        self.kernel, self.options, self.gpu = kernel, options, gpu
        self.__name__ = kernel.__name__
        names = ["warmup", *(name for name in kernel.launch_options if name != "warmup")]
        owner = _kiln.LaunchOwner(
            self,
            revalidate=self._revalidate,
            compile=answering(self._compile),
            forget=_forget,
            refusals=kernel.make_refusals,
        )
        self._launcher = _kiln.Launcher(owner, list(kernel.params), names, *kernel.find_strides())

    def ask(self, arguments: Sequence[Any], grid: Any, named: Mapping[str, Any] | None = None) -> Specialised:
        """The specialisation that a launch with these arguments would compile."""
        names = [parameter.name for parameter in self.kernel.params]
        if named is None:  # all parameters, including keyword-only ones
            arguments, named = (), dict(zip(names, arguments, strict=True))
        try:
            self._launcher.at(grid)(*arguments, **named, **self.options, warmup=True)
        except _Answer as answer:
            asked = answer.request
            return Specialised(asked.parameters, tuple(asked.disjoint), asked.options)
        raise AssertionError("a launch that compiles nothing")

    def _revalidate(self) -> LaunchTerms:
        from kiln import _kiln

        return _kiln.LaunchTerms(
            prefix="",
            watched=[],
            checks_accesses=False,
            cuda=self.gpu,
            stage=self.gpu,  # placeholder arrays, which are never read, count as copyable to the GPU
            limit=0,
            describes_pointers=self.gpu and self.kernel.describes_pointers(),
        )

    def _compile(self, request: CodeRequest) -> Any:
        raise _Answer(request)


def _forget(compiled: Any) -> None:
    """Does nothing: no compiled code is kept."""


# ---- text ------------------------------------------------------------------------------------------------------------
def _substitute(text: str, chosen: dict[str, str]) -> str:
    for name, value in chosen.items():
        text = re.sub(rf"\b{name}\b", value, text)
    return text


def _assignments(alternatives: dict[str, list[str]]) -> Iterator[dict[str, str]]:
    for values in itertools.product(*alternatives.values()):
        yield dict(zip(alternatives, values, strict=True))
