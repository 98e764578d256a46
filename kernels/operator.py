"""How a library function declares itself: the arguments it takes and changes, and the outputs it makes.

    @operator(
        outputs=lambda x, weight, **_: (Spec(x.shape, x.dtype),),
        arrays={"x": "(…, n)", "weight": "(n)", "out": "(…, n)"},
        types=(Types(x=FLOATS, weight=FLOATS, out=FLOATS, inside="float32", result="x"),),
    )
    def rms_norm(x, weight, *, eps: float = 1e-6, out=None): ...

    rms_norm.output_specs(x, weight)     # shapes and dtypes; nothing runs
    rms_norm.mutates                     # names of arguments written in place
    print(rms_norm.__doc__)              # ends in the table of shapes and types

Calls are checked against the table in the docstring: an array of another type or rank, or a number where an array
belongs, is refused by name. While gradients are recorded, a function without a backward also refuses a tensor that
requires a gradient. Parameters that are not arrays are checked by their annotations.

A ``repeatable`` function runs only for the first calls of each kind: its launches are then repeated for arguments that
differ only in their addresses (python/bindings/launch/Replay.h says what makes a kind).

Arrays are numpy arrays, torch tensors or DeviceArrays; outputs come from the library of the first array argument, and
are on its device.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import numbers
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from kiln.errors import ArgumentError, LaunchError

FLOATS = ("float16", "bfloat16", "float32")
INSIDE = "inside"  # the type of a function's sums
FP8 = ("float8_e4m3fn", "float8_e5m2")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class Spec:
    """Shape and dtype of one output. ``dtype`` is a dtype of the inputs' library, or a name such as "float32"."""

    shape: tuple[int, ...]
    dtype: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(map(_side, self.shape)))


def _side(side: Any) -> Any:
    # Keep a side that torch knows only as a symbol.
    return int(side) if isinstance(side, numbers.Integral) else side


class Types:
    """One row of a table of types: which types may be given together, the type of the arithmetic, and that of the
    result.

    ``arrays``   for each parameter: the names of its types, or the parameter whose type it must have
    ``inside``   the type of sums and of everything else that is computed
    ``result``   the type of a result without an ``out``: a name, or the parameter whose type it is
    """

    def __init__(self, *, inside: str, result: str = "", **arrays: Sequence[str] | str):
        self.arrays: Mapping[str, Sequence[str] | str] = arrays
        self.inside, self.result = inside, result

    def allowed(self, name: str, given: Mapping[str, str]) -> tuple[str, ...]:
        """The types that an argument may have, given the types of others."""
        types = self.arrays.get(name)
        if types is None:
            return ()
        if not isinstance(types, str):
            return tuple(types)
        return (given[types],) if types in given else self.allowed(types, given)

    def lines(self) -> Iterator[tuple[str, str]]:
        groups: dict[Sequence[str] | str, list[str]] = {}
        for name, types in self.arrays.items():
            groups.setdefault(types, []).append(name)
        for types, names in groups.items():
            yield ", ".join(names), f"as {types}" if isinstance(types, str) else ", ".join(types)
        if self.inside:
            yield "inside", self.inside
        if self.result:
            yield "result", f"as {self.result}" if self.result in self.arrays else self.result


def with_float64(**arrays: Sequence[str] | str) -> tuple[Types, Types]:
    """Two rows: one for FLOATS with sums in float32, and the same for float64 alone. The type of the first array
    selects the row; INSIDE stands for the type of sums. In float64, arrays that could be any of FLOATS must have the
    type of the first."""
    first = next(iter(arrays))
    single = {name: ("float32",) if types == INSIDE else types for name, types in arrays.items()}
    double = {name: first if types in (FLOATS, INSIDE) else types for name, types in arrays.items()}
    double[first] = ("float64",)
    return Types(inside="float32", result=first, **single), Types(inside="float64", result=first, **double)


@functools.lru_cache(maxsize=256)
def type_name(dtype: Any) -> str:
    """The name of a dtype of numpy, torch or ml_dtypes. The other byte order shows as a sign: ">f4"."""
    return str(dtype).removeprefix("torch.")


def _ranks(shapes: str) -> tuple[tuple[int, int | None], ...]:
    """The ranks that "(n)", "(…, n)" or "(m, k) or (batch, m, k)" admit: minimum and maximum (None: unlimited)."""
    found = []
    for shape in shapes.split(" or "):
        sides = [side for side in shape.strip("()").split(", ") if side]
        open_ended = "…" in sides
        found.append((len(sides) - open_ended, None if open_ended else len(sides)))
    return tuple(found)


# Kinds of parameters that are not arrays, by annotation: their name in messages, and whether a value is one.
def is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not _is_truth(value)


def is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not _is_truth(value)


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool) or (type_name(getattr(value, "dtype", "")) == "bool" and value.shape == ())


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "float": ("a number", is_number),
    "int": ("an integer", is_integer),
    "bool": ("True or False", _is_truth),
    "str": ("a string", lambda value: isinstance(value, str)),
}


def _plan_of(annotation: str) -> tuple[str, Callable[[Any], bool] | None]:
    """The same for plans, whose classes are recognised by name: "RowPlan | None"."""
    name = annotation.removesuffix(" | None")
    if not name.endswith("Plan"):
        return "", None
    article = "an" if name[0] in "AEIO" else "a"
    return f"{article} {name}", lambda value: any(kind.__name__ == name for kind in type(value).__mro__)


def show(value: Any) -> str:
    """How a message shows an argument."""
    if is_array(value):
        return f"an array of shape {tuple(value.shape)} and type {type_name(value.dtype)}"
    text = repr(value)
    return text if isinstance(value, numbers.Number) or len(text) <= 40 else f"a {type(value).__name__}"


def check_value(name: str, value: Any, words: str, fits: bool) -> None:
    """Refuses an argument that is not an array unless it ``fits``; ``words`` say what it may be."""
    if not fits:
        raise ArgumentError(name, f"expected {words}, got {show(value)}")


def by_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is no operator, whose refusals name it as those of operators do."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except ArgumentError as problem:
            problem.function = problem.function or function.__name__
            raise problem.with_traceback(None) from None

    return call


def listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


class Operator:
    """A library function with its arguments, ``output_specs`` and ``mutates``; call it like the function.

    arrays      the shape of each array parameter; "out[0]" where ``out`` is a pair
    types       the rows of its table of types; a call must match one of them
    in_place    parameters that an output may be identical to: each element is read before it is written
    lists       whether a list of arrays may replace an array (the function checks them)
    repeatable  whether its launches, outputs and result depend only on the kinds of its arguments: shapes,
                strides, types, devices, alignment to 16 bytes, which memory overlaps, and the values of all others.
                It reads no array, keeps no state between calls, and allocates only with ``empty`` and ``output``
    gradient    "module:function" that torch differentiates, with the same arguments; imported on first use
    """

    def __init__(
        self,
        function: Callable,
        outputs: Callable[..., tuple[Spec, ...]],
        mutates: tuple[str, ...] = (),
        arrays: Mapping[str, str] | None = None,
        types: tuple[Types, ...] = (),
        in_place: tuple[str, ...] = (),
        lists: bool = False,
        repeatable: bool = False,
        gradient: str = "",
    ):
        functools.update_wrapper(self, function)
        self.function = function
        self.mutates, self.arrays, self.types = mutates, dict(arrays or {}), types
        self.in_place, self.lists, self.repeatable = in_place, lists, repeatable
        self.gradient = gradient
        self._calls: Any = None  # a _kiln.CallCache, made by the first call
        self._again: Any = None  # its `call` method
        self._slowly = self._run
        self.signature = inspect.signature(function)
        # In a backward function `out` is an input: the result of the forward.
        out = self.signature.parameters.get("out")
        self.takes_out = out is not None and out.default is None
        self._outputs = outputs
        self._ranks = {name: _ranks(shapes) for name, shapes in self.arrays.items()}
        self._admitted: dict[Any, int] = {}
        if arrays:
            self.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{self.table()}\n"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and torch.compiler.is_dynamo_compiling():  # `is_traced_by_torch`, inlined
            from kiln.runtime import torch_graph

            return torch_graph.call(self, args, kwargs)
        again = self._again
        if again is None:
            if not self.repeatable:
                return self._run(args, kwargs)
            again = self._make_calls().call
        return again(args, kwargs, scope[0], self._slowly)

    def _make_calls(self) -> Any:
        from kiln import _kiln

        self._calls = _kiln.CallCache(PLANNING)
        self._again = self._calls.call
        _tell_made[0] = _kiln.note_made
        return self._calls

    def forget(self) -> None:
        """Drops the recorded calls: needed after a change to something else it depends on, such as a policy's
        global."""
        if self._calls is not None:
            self._calls.forget()

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            # Arguments of the same kinds make the call the same: all but the first need one lookup.
            key = (*map(_kind, args), *kwargs, *map(_kind, kwargs.values()))
            of_torch = self._admitted.get(key)
            if of_torch is None:
                of_torch = self._admit(key, args, kwargs)
            if of_torch:
                if of_torch == _DISPATCHED or sys.modules["torch"]._C._len_torch_dispatch_stack():
                    from kiln.runtime import torch_graph

                    return torch_graph.call(self, args, kwargs)
                if self.differentiates(args, kwargs):
                    return self.differentiated(args, kwargs)
                self.refuse_gradients(args, kwargs)
            return self.function(*args, **kwargs)
        except ArgumentError as problem:
            problem.function = problem.function or self.function.__name__
            raise problem.with_traceback(None) from None
        except LaunchError as problem:
            # A launch names its kernel's parameter, and a line of the library.
            found = self._misplaced(args, kwargs) if type(problem) is LaunchError and problem.argument else None
            if found is None:
                raise
            found.function = self.function.__name__
            raise found from None

    def output_specs(self, *args: Any, **kwargs: Any) -> tuple[Spec, ...]:
        """Shapes and dtypes of the outputs for these arguments; nothing runs or is allocated."""
        if self.takes_out:
            kwargs.pop("out", None)
        return self._outputs(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Operator:
        """Makes `help` treat the operator as a function and show its signature."""
        return self

    def __repr__(self) -> str:
        return f"<kiln operator {self.function.__name__}>"

    # -- the table -------------------------------------------------------------------------

    def table(self) -> str:
        """Shapes and types of the arguments, as the docstring shows them."""
        parts = [[(name, shape) for name, shape in self.arrays.items()], *(list(row.lines()) for row in self.types)]
        width = max(len(name) for part in parts for name, _ in part)
        blocks = ["\n".join(f"    {name:{width}}  {text}" for name, text in part) for part in parts]
        return "Shapes and types; others are refused::\n\n" + "\n\n".join(blocks)

    # -- checks ----------------------------------------------------------------------------

    def _admit(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Checks a call of a new kind. Returns 0 without torch tensors, another number with them, and _DISPATCHED if a
        class of theirs intercepts operators."""
        try:
            bound = self.signature.bind(*args, **kwargs).arguments
        except TypeError:
            return 0  # calling the function raises it
        arrays = dict(self._given(bound))
        for name, value in bound.items():
            if name in arrays:
                self._check_array(name, value, arrays)
            elif name not in self.arrays and not (name == "out" and "out[0]" in self.arrays):
                self._check_plain(name, value)
        for name, value in arrays.items():
            if name not in bound:
                self._check_array(name, value, arrays)
        self._check_types({name: type_name(value.dtype) for name, value in arrays.items() if is_array(value)})
        of_torch = max(map(_of_torch, arrays.values()), default=0)
        if len(self._admitted) >= 1024:
            self._admitted.clear()
        self._admitted[key] = of_torch
        return of_torch

    def _given(self, bound: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """The arguments that are or should be arrays; an optional argument that is None is left out."""
        pair = [name for name in self.arrays if name.startswith("out[")]
        for name, value in bound.items():
            if name in self.arrays:
                if value is not None or not self._is_optional(name):
                    yield name, value
            elif name == "out" and pair and value is not None:
                if not isinstance(value, (tuple, list)) or len(value) != len(pair):
                    raise ArgumentError(name, f"expected {len(pair)} arrays ({', '.join(pair)}), got {show(value)}")
                yield from ((name, item) for name, item in zip(pair, value, strict=True) if item is not None)

    def _is_optional(self, name: str) -> bool:
        parameter = self.signature.parameters[name]
        return parameter.default is None or "None" in str(parameter.annotation)

    def _check_plain(self, name: str, value: Any) -> None:
        parameter = self.signature.parameters[name]
        kind = str(parameter.annotation)
        words, fits = _KINDS.get(kind.removesuffix(" | None")) or _plan_of(kind)
        if fits is None or (value is None and kind.endswith("None")) or fits(value):
            return
        misplaced = is_array(value) and parameter.default is not parameter.empty
        raise ArgumentError(
            name,
            f"expected {words}{' or None' * kind.endswith('None')}, got {show(value)}",
            hint="name the parameter that it is for, as out=…" if misplaced else None,
        )

    def _check_array(self, name: str, value: Any, given: Mapping[str, Any]) -> None:
        if isinstance(value, (list, tuple)) and self.lists:
            return
        if not is_array(value):
            what = "an array or a list of arrays" if self.lists else "an array"
            raise ArgumentError(
                name,
                f"expected {what} (of numpy, torch or DeviceArray), got {show(value)}",
                hint=_how_to_make_one(value),
            )
        if _is_masked(value):
            raise ArgumentError(
                name,
                "expected an array without a mask (because masks are not read), got a masked array",
                hint=f"pass {name}.filled(…)",
            )
        if not self._has_rank(name, value):
            raise ArgumentError(
                name,
                f"expected shape {self.arrays[name]} (because {self._shapes(given)}), got {tuple(value.shape)}",
                hint=self._swapped(name, given),
            )

    def _misplaced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ArgumentError | None:
        """The array that no kernel can be given, or that is elsewhere than those before it."""
        first, there = "", ""
        for name, value in self._given(self.signature.bind(*args, **kwargs).arguments):
            for array in value if isinstance(value, (list, tuple)) else (value,):
                if not is_array(array):
                    continue
                try:
                    _probe()[(1,)](array, warmup=True)
                except LaunchError as problem:
                    if type(problem) is not LaunchError or problem.argument is None:
                        return None
                    hint = problem.hint and problem.hint.replace("pass x.", f"pass {name}.")
                    return ArgumentError(name, problem.message, hint)
                place = place_of(array)
                first, there = first or name, there or place
                if place != there:
                    return ArgumentError(
                        name, f"expected an array on {there} (because {first} is there), got one on {place}"
                    )
        return None

    def _has_rank(self, name: str, value: Any) -> bool:
        rank = len(value.shape)
        return any(least <= rank and (most is None or rank <= most) for least, most in self._ranks[name])

    def _shapes(self, given: Mapping[str, Any]) -> str:
        return f"{self.function.__name__} takes {', '.join(f'{name} {self.arrays[name]}' for name in given)}"

    def _swapped(self, name: str, given: Mapping[str, Any]) -> str | None:
        """The hint if this argument and another would fit in each other's place."""
        for other, value in given.items():
            if other != name and is_array(value) and self._has_rank(name, value) and self._has_rank(other, given[name]):
                if not self._has_rank(other, value) or not self._has_rank(name, given[name]):
                    return f"{other} has the shape of {name}: are the two in each other's place?"
        return None

    def _check_types(self, given: dict[str, str]) -> None:
        """Narrows the table argument by argument; the first argument that leaves no row is at fault."""
        rows = list(self.types)
        seen: dict[str, str] = {}
        for name, got in given.items():
            if not rows:
                return
            fitting = [row for row in rows if got in row.allowed(name, seen)]
            if not fitting:
                self._refuse_type(name, got, rows, seen)
            rows, seen = fitting, {**seen, name: got}

    def _refuse_type(self, name: str, got: str, rows: list[Types], seen: dict[str, str]) -> NoReturn:
        here = dict.fromkeys(item for row in rows for item in row.allowed(name, seen))
        anywhere = dict.fromkeys(item for row in self.types for item in row.allowed(name, {}))
        if got in anywhere and seen:
            because = ", ".join(f"{other} is {type_}" for other, type_ in seen.items() if self._binds(other, name))
        else:
            inside = dict.fromkeys(row.inside for row in self.types)
            because = f"{self.function.__name__} computes in {listed(list(inside))}"
        hint = None
        if got == "float64" and "float32" in here:
            hint = f"convert it: {name}.astype('float32'), {name}.float()"
        elif got[0] in "<>":
            hint = f"bring it into the machine's byte order: {name}.astype({name}.dtype.newbyteorder('='))"
        raise ArgumentError(
            name, f"expected type {listed(list(here))} (because {because or 'of the other arguments'}), got {got}", hint
        )

    def _binds(self, other: str, name: str) -> bool:
        """Whether the type of one argument determines the types that another may have."""
        return len({row.allowed(name, {}) for row in self.types}) > 1 or any(
            row.arrays.get(name) == other for row in self.types
        )

    def check(self, *args: Any, **kwargs: Any) -> None:
        """Refuses arguments that match no row of the table of shapes and types; nothing runs."""
        try:
            self._admit(None, args, kwargs)
        except ArgumentError as problem:
            problem.function = self.function.__name__
            raise

    def differentiates(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether torch records a call, and there is a backward."""
        return (
            bool(self.gradient)
            and sys.modules["torch"].is_grad_enabled()
            and any(getattr(value, "requires_grad", False) for value in (*args, *kwargs.values()))
        )

    def differentiated(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call as torch records it."""
        module, _, name = self.gradient.partition(":")
        return getattr(importlib.import_module(module), name)(*args, **kwargs)

    def refuse_gradients(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuses tensors that require a gradient while gradients are recorded."""
        torch = sys.modules.get("torch")
        if torch is None or not torch.is_grad_enabled():
            return
        for value in (*args, *kwargs.values()):
            if getattr(value, "requires_grad", False) or isinstance(value, (list, tuple)):
                break
        else:
            return
        bound = self.signature.bind(*args, **kwargs).arguments
        for name, value in bound.items():
            items = value if isinstance(value, (list, tuple)) else (value,)
            if any(is_torch(item) and getattr(item, "requires_grad", False) for item in items):
                refuse_gradient(name)


def refuse_gradient(name: str, option: str = "") -> NoReturn:
    """``option``: the argument without a backward, if the function has one otherwise."""
    raise ArgumentError(
        name,
        f"expected a tensor that requires no gradient (because there is no backward{' with ' * bool(option)}{option}, "
        "and the result would be detached without a word), got one that does",
        hint="call it under torch.no_grad(), or pass a detached tensor",
    )


def _kind(value: Any) -> Any:
    """The properties of an argument that the checks depend on."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        return type(value), dtype, value.ndim
    return tuple(map(_kind, value)) if type(value) is tuple else type(value)


_PLAIN, _DISPATCHED = 1, 2

# The state that calls depend on besides their arguments and the switches that kernels watch: `machine` stores one
# object here for each of its states, and PLANNING while launches are planned for another machine.
PLANNING = object()
scope: list[Any] = [None]

# The function to tell about new arrays, once calls are recorded.
_tell_made: list[Callable[..., None] | None] = [None]


def _of_torch(value: Any) -> int:
    """Whether it is (or may hold) a torch tensor, and whether its class intercepts operators, as fake tensors do."""
    if isinstance(value, (list, tuple)):
        return max(map(_of_torch, value), default=_PLAIN)
    if not is_torch(value):
        return 0
    own = sys.modules["torch"].Tensor.__torch_dispatch__
    return _PLAIN if type(value).__torch_dispatch__ is own else _DISPATCHED


def is_dispatched(tensor: Any) -> bool:
    """Whether operators on a torch tensor are intercepted, by its class or by a tracer's mode, so that its memory
    cannot be read directly."""
    return _of_torch(tensor) == _DISPATCHED or bool(sys.modules["torch"]._C._len_torch_dispatch_stack())


def _how_to_make_one(value: Any) -> str | None:
    if isinstance(value, (list, tuple)):
        return "make one with numpy.asarray(…) or torch.tensor(…)"
    return "numbers are not broadcast: fill an array with it" if isinstance(value, numbers.Number) else None


def _is_masked(value: Any) -> bool:
    ma = sys.modules.get("numpy.ma")
    return ma is not None and isinstance(value, ma.MaskedArray)


def operator(
    *,
    outputs: Callable[..., tuple[Spec, ...]],
    mutates: tuple[str, ...] = (),
    arrays: Mapping[str, str] | None = None,
    types: tuple[Types, ...] = (),
    in_place: tuple[str, ...] = (),
    lists: bool = False,
    repeatable: bool = False,
    gradient: str = "",
) -> Callable[[Callable], Operator]:
    """Decorates a library function with what ``Operator`` says about it; ``outputs`` computes the specs of its
    outputs."""
    return lambda function: Operator(function, outputs, mutates, arrays, types, in_place, lists, repeatable, gradient)


# ---- arrays of every library -----------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=256)
def _is_of_torch(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "torch"


def is_torch(array: Any) -> bool:
    return _is_of_torch(type(array))


def is_array(value: Any) -> bool:
    """Whether it is an array of some library; numpy scalars are numbers."""
    if is_torch(value):
        return hasattr(value, "stride")
    return hasattr(value, "strides") and hasattr(value, "shape") and hasattr(value, "dtype") and not _is_scalar(value)


def _is_scalar(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return isinstance(value, type) or (numpy is not None and isinstance(value, numpy.generic))


@functools.lru_cache(maxsize=1)
def _probe() -> Any:
    """A kernel whose launcher tells whether an array can be passed to kernels."""
    import kiln

    return kiln.jit(source="def probe(x):\n    pass\n")(_of_nothing)


def _of_nothing(x: Any) -> None:
    pass


def place_of(array: Any) -> str:
    """The device of an array, as torch names it: "cpu" or "cuda:1". An array that names no GPU counts as on the
    first."""
    if is_torch(array):
        return str(array.device)
    if hasattr(array, "__dlpack_device__"):
        kind, index = array.__dlpack_device__()
        return f"cuda:{int(index)}" if int(kind) in _CUDA else "cpu"
    return "cuda:0" if on_device(array) else "cpu"


_CUDA = (2, 13)  # DLPack's device types for GPU memory and for managed memory


def on_device(array: Any) -> bool:
    """Whether an array is in a GPU's memory."""
    return bool(array.is_cuda) if is_torch(array) else hasattr(array, "__cuda_array_interface__")


def empty(spec: Spec, like: Any) -> Any:
    """An uninitialised array of shape and dtype ``spec``, in the library and on the device of ``like``."""
    if is_torch(like):
        import torch

        dtype = getattr(torch, spec.dtype) if isinstance(spec.dtype, str) else spec.dtype
        named = {"dtype": dtype, "device": like.device}
        made = torch.empty(spec.shape, **named)
        if _tell_made[0] is not None:
            # A call with the same shape and type can be shorter.
            same = dtype == like.dtype and tuple(like.shape) == spec.shape and like.is_contiguous()
            _tell_made[0](made, like if same else None, torch.empty_like if same else torch.empty, (spec.shape,), named)
        return made
    import numpy
    from kiln.kernels.device_array import DeviceArray

    dtype = spec.dtype
    if isinstance(dtype, str) and dtype.startswith(("bfloat", "float8")):
        import ml_dtypes

        dtype = getattr(ml_dtypes, dtype)
    kind = DeviceArray if isinstance(like, DeviceArray) else numpy.empty
    array = kind(spec.shape, dtype)
    if _tell_made[0] is not None:
        _tell_made[0](array, None, kind, (spec.shape, dtype), None)
    return array


def output(
    out: Any,
    spec: Spec,
    like: Any,
    name: str = "out",
    inputs: Mapping[str, Any] | None = None,
    same: Sequence[str] = (),
) -> Any:
    """``out`` if the caller passed one, else a new array.

    An ``out`` must have the right shape, be writable, and hold each element once. It may not share memory with any of
    ``inputs``, except that it may be identical to those named in ``same``.
    """
    if out is None:
        return empty(spec, like)
    check_written(name, out, spec.shape, "of the inputs' shapes")
    for other, array in (inputs or {}).items():
        if array is not None and not (array is out and other in same):
            check_apart(name, out, other, array, other in same)
    return out


def check_written(name: str, array: Any, shape: Sequence[int], because: str) -> None:
    """Refuses an array in which a kernel cannot write a separate element for each index."""
    if tuple(array.shape) != tuple(shape):
        raise ArgumentError(name, f"expected shape {tuple(shape)} (because {because}), got {tuple(array.shape)}")
    flags = getattr(array, "flags", None)
    if flags is not None and not flags.writeable:
        raise ArgumentError(name, "expected an array that can be written, got a read-only one")
    if _overlaps_itself(array):
        raise ArgumentError(
            name,
            f"expected elements that are each in a place of their own (because every one is written), got strides "
            f"{strides(array)} for shape {tuple(array.shape)}",
            hint="pass a copy",
        )


def _overlaps_itself(array: Any) -> bool:
    """Whether two indices may address the same element: in increasing order, each stride must step over everything that
    the smaller ones reach. (The few interleaved arrays that fail this without any overlap are refused too.)"""
    if 0 in array.shape or is_contiguous(array):
        return False
    reach = 0
    for step, side in sorted((abs(step), side) for step, side in zip(strides(array), array.shape, strict=True)):
        if side != 1:
            if step <= reach:
                return True
            reach += step * (side - 1)
    return False


def _span(array: Any) -> tuple[int, int]:
    """The addresses of the first byte that the elements occupy and of the byte after the last."""
    first = last = address(array)
    if is_contiguous(array):
        return first, first + math.prod(array.shape) * array.itemsize
    for step, side in zip(strides(array), array.shape, strict=True):
        if side == 0:
            return first, first
        if step < 0:
            first += step * (side - 1) * array.itemsize
        else:
            last += step * (side - 1) * array.itemsize
    return first, last + array.itemsize


def _places(array: Any) -> list[tuple[int, int]]:
    return [pair for pair in zip(array.shape, strides(array), strict=True) if pair[0] != 1]


def check_contiguous(**arrays: Any) -> None:
    """Refuses arrays whose elements do not form one contiguous row."""
    for name, array in arrays.items():
        if not is_contiguous(array):
            raise ArgumentError(
                name,
                f"expected elements that lie side by side (because they are walked as one row), got strides "
                f"{strides(array)} for shape {tuple(array.shape)}",
                hint=f"pass {name}.contiguous()" if is_torch(array) else f"pass numpy.ascontiguousarray({name})",
            )


def check_apart(name: str, out: Any, other: str, array: Any, may_be_same: bool = False) -> None:
    """Refuses an output that overlaps another argument: programs would read what others have already written.

    ``may_be_same``: the two may be identical, element for element.
    """
    first, last = _span(out)
    begin, end = _span(array)
    if last <= begin or end <= first or first == last or begin == end:
        return
    same_width = out.itemsize == array.itemsize
    if may_be_same and same_width and address(out) == address(array) and _places(out) == _places(array):
        return
    if _share_memory(out, array):
        what = f"the very elements of {other}, or " if may_be_same else ""
        both = name.startswith("out[") and other.startswith("out[")
        why = "both are written" if both else "one is read and the other written"
        raise ArgumentError(
            name,
            f"expected {what}memory apart from {other} (because {why}), got arrays that overlap",
            hint="pass a copy",
        )


class _Described:
    """Describes an array's memory to numpy, which never reads it."""

    def __init__(self, array: Any):
        steps = tuple(step * array.itemsize for step in strides(array))
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{array.itemsize}",
            "shape": tuple(array.shape),
            "strides": steps,
            "data": (address(array), True),
        }


def _share_memory(one: Any, other: Any) -> bool:
    import numpy as np

    try:
        return bool(np.shares_memory(np.asarray(_Described(one)), np.asarray(_Described(other)), max_work=1 << 16))
    except Exception as problem:  # the class is in different modules of numpy 1 and 2
        if type(problem).__name__ != "TooHardError":
            raise
        return True


def strides(array: Any) -> tuple[int, ...]:
    """Strides in elements, for numpy (bytes) and torch (elements) alike."""
    if is_torch(array):
        return tuple(array.stride())
    return tuple(step // array.itemsize for step in array.strides)


def is_contiguous(array: Any) -> bool:
    """Whether the elements are adjacent in memory, in index order."""
    if is_torch(array):
        return bool(array.is_contiguous())
    if hasattr(array, "flags"):
        return bool(array.flags.c_contiguous)
    expected = 1
    if 0 in array.shape:
        return True
    for side, stride in zip(reversed(array.shape), reversed(strides(array)), strict=True):
        if side != 1 and stride != expected:
            return False
        expected *= side
    return True


def address(array: Any) -> int:
    """The address of the first element, in the memory of the array's device."""
    if is_torch(array):
        return array.data_ptr()
    place = array.__cuda_array_interface__ if on_device(array) else array.__array_interface__
    return place["data"][0]


def upload(array: Any, like: Any) -> Any:
    """A numpy array, converted to the library and copied to the device of ``like``."""
    if is_torch(like):
        import torch

        return torch.from_numpy(array).to(like.device)
    from kiln.kernels.device_array import DeviceArray

    return DeviceArray.of(array) if isinstance(like, DeviceArray) else array


def rows_of(array: Any, name: str = "x") -> tuple[int, int, int]:
    """``array`` seen as rows of its last dimension: (number of rows, row stride, column stride), in elements.

    Refuses leading dimensions that a single stride cannot walk; never copies.
    """
    if array.ndim == 0:
        raise ArgumentError(name, "expected at least one dimension (because rows are reduced), got a scalar")
    shape, steps = tuple(array.shape), strides(array)
    rows, stride = 1, 0
    for side, step in zip(reversed(shape[:-1]), reversed(steps[:-1]), strict=True):
        if side == 1:
            continue
        if rows == 1:
            stride = step
        elif step != rows * stride and rows and side:
            raise ArgumentError(
                name,
                f"expected leading dimensions that collapse into one (because rows are addressed by one stride), got "
                f"strides {steps} for shape {shape}",
            )
        rows *= side
    return rows, stride, steps[-1]


def tile_side(n: int, multiple: int = 16) -> int:
    """The smallest legal side of a tile (2^k times an odd number up to 31) that is at least ``n``.

    It is a multiple of ``multiple`` (a power of two), so that it splits into whole vectors.
    """
    blocks = max(1, -(-n // multiple))
    shift = max(0, blocks.bit_length() - 5)
    return multiple * (-(-blocks >> shift) << shift)
