"""Launches and library calls in functions that torch compiles: each becomes one call of a custom operator.

    @torch.compile(fullgraph=True)
    def step(x, weight):
        y = rms_norm(x, weight)                                     # kiln::rms_norm(form, [], [x, weight], …)
        scale[(kiln.cdiv(n, 128),)](y, n, BLOCK=128)                # kiln::launch(form, [y], [], …)
        return y

torch's compiler traces Python with fake values, so a launch cannot run then. The code that handles values is traced
(`launch`, `call`): tensors, integers and floats become arguments of the operator, so that shapes may be symbols.
Everything else (which kernel, constexpr values, names, plans) is the *form* of the call, kept here under a name that
the graph holds. Functions that torch executes instead of tracing make it (`_form_of…`). A form lists the tensors that
the kernel may write to: those are the operator's mutated arguments, all others are only read. The compiler derives them
from the kernel's stores; if it cannot, every tensor counts as written.

The name of a form is a digest of its contents, so that graphs cached on disk find it in another process: that process
has traced the function first, and so has made the form too.

Imported only while torch traces; nothing else of Kiln imports torch by itself.
"""

from __future__ import annotations

import ctypes
import operator
import types
from collections.abc import Iterator
from typing import Any

import torch

from kiln.frontend.struct import MARK
from kiln.runtime.autotuner import Autotuner, Heuristics
from kiln.runtime.interface import LAUNCH_OPTIONS, CodeRequest, MockTensor

_library = torch.library.Library("kiln", "FRAGMENT")
_ARGUMENTS = "str form, Tensor(a!)[] written, Tensor[] read, SymInt[] numbers, float[] floats"
# Kernels get strides as numbers, so tensors must have the strides that they had while tracing.
_TAGS = tuple(
    getattr(torch.Tag, name)
    for name in ("pt2_compliant_tag", "needs_exact_strides", "needs_fixed_stride_order")
    if hasattr(torch.Tag, name)
)[:2]


class Form:
    """The part of a call that does not depend on its values.

    what        the kernel or the library function
    tokens      the arguments in their order, as `encode` writes them
    constants   the values that tokens refer to, other than tensors, integers and floats
    written     which tensors may be written, by number
    """

    def __init__(self, what: Any, tokens: str, constants: tuple[Any, ...], written: tuple[int, ...], tensors: int):
        self.what, self.tokens, self.constants, self.written = what, tokens, constants, written
        self.read = tuple(i for i in range(tensors) if i not in written)

    def arguments(self, written: Any, read: Any, numbers: Any, floats: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the call, by position and by name."""
        tensors: list[Any] = [None] * (len(self.written) + len(self.read))
        for places, given in ((self.written, written), (self.read, read)):
            for place, tensor in zip(places, given, strict=True):
                tensors[place] = tensor
        return decode(self.tokens, {"t": tensors, "i": numbers, "f": floats, "c": self.constants})

    def same(self, other: Form) -> bool:
        return (
            self.what is other.what
            and self.tokens == other.tokens
            and self.written == other.written
            and len(self.constants) == len(other.constants)
            and all(
                a is b or (type(a) is type(b) and a == b) for a, b in zip(self.constants, other.constants, strict=True)
            )
        )


_forms: dict[str, Form] = {}


def _remember(name: str, form: Form) -> str:
    """The name under which the graph finds the form, and the numbers of its written tensors: "name|0,2"."""
    from kiln import _kiln

    content = "\0".join([name, form.tokens, str(form.written), *map(_describe, form.constants)])
    key = base = f"{name}#{_kiln.digest(content.encode())[:12]}"
    count = 1
    while key in _forms and not _forms[key].same(form):
        count += 1
        key = f"{base}.{count}"
    _forms[key] = form
    return f"{key}|{','.join(map(str, form.written))}"


def _describe(constant: Any) -> str:
    """A text that stays the same from process to process, if possible."""
    key = getattr(constant, "cache_key", None)
    if key is not None:
        return str(key)
    return f"{constant.__module__}.{constant.__qualname__}" if callable(constant) else repr(constant)


# ---- arguments as tokens: what torch traces --------------------------------------------------------------------------
class _Values:
    """The values of a call while they are collected."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.numbers: list[Any] = []
        self.floats: list[Any] = []
        self.constants: list[Any] = []
        self.tokens: list[str] = []


def _encode(value: Any, values: _Values, constant: bool = False) -> None:
    """Appends a value and the token that stands for it. `constant`: code depends on its number."""
    if isinstance(value, torch.Tensor):
        place = -1
        for i, seen in enumerate(values.tensors):
            if seen is value:  # one tensor given twice stays one
                place = i
        if place < 0:
            place = len(values.tensors)
            values.tensors.append(value)
        values.tokens.append(f"t{place}")
    elif isinstance(value, bool) or value is None or isinstance(value, str):
        values.tokens.append(f"c{len(values.constants)}")
        values.constants.append(value)
    elif isinstance(value, int):
        if constant:
            values.tokens.append(f"c{len(values.constants)}")
            values.constants.append(operator.index(value))
        else:
            values.tokens.append(f"i{len(values.numbers)}")
            values.numbers.append(value)
    elif isinstance(value, float):
        if constant:
            values.tokens.append(f"c{len(values.constants)}")
            values.constants.append(value)
        else:
            values.tokens.append(f"f{len(values.floats)}")
            values.floats.append(value)
    elif isinstance(value, (tuple, list)):
        fields = isinstance(value, tuple) and hasattr(value, "_fields")
        if fields:
            values.tokens.append(f"n{len(values.constants)}")
            values.constants.append(type(value))
        values.tokens.append("[" if isinstance(value, list) else "(")
        known = getattr(type(value), MARK, ()) if fields else ()  # the constexpr fields of a struct
        for i, item in enumerate(value):
            _encode(item, values, constant or (i < len(known) and known[i]))
        values.tokens.append("]" if isinstance(value, list) else ")")
    elif isinstance(value, (torch.dtype, type, types.FunctionType)):
        values.tokens.append(f"c{len(values.constants)}")
        values.constants.append(value)
    elif hasattr(type(value), "__dataclass_fields__"):
        # A plan or a tensor descriptor: rebuilt from its fields.
        values.tokens.append(f"n{len(values.constants)}")
        values.constants.append(type(value))
        values.tokens.append("(")
        described = hasattr(value, "block_shape")
        for name in type(value).__dataclass_fields__:
            _encode(getattr(value, name), values, constant or not described or name == "block_shape")
        values.tokens.append(")")
    else:
        values.tokens.append(f"c{len(values.constants)}")
        values.constants.append(("object", id(value)))


def _object(identity: int) -> Any:
    """The object with this `id()`. It is alive, because the traced function refers to it, and torch guards its
    identity. (Some versions of torch do not pass the object itself to functions that run during tracing.)"""
    return ctypes.cast(identity, ctypes.py_object).value


def _constants(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_object(v[1]) if isinstance(v, tuple) else v for v in values)


def _encode_call(args: Any, kwargs: Any, values: _Values, positional: Any, constant: Any) -> None:
    for i, value in enumerate(args):
        _encode(value, values, i < len(positional) and positional[i] in constant)
    for name, value in kwargs.items():
        values.tokens.append(f"={name}")
        _encode(value, values, name in constant)


# ---- and back --------------------------------------------------------------------------------------------------------
def decode(tokens: str, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that tokens stand for, by position and by name."""
    stream = iter(tokens.split())
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for token in stream:
        if token[0] == "=":
            kwargs[token[1:]] = _value(next(stream), stream, values)
        else:
            args.append(_value(token, stream, values))
    return tuple(args), kwargs


def _value(token: str, stream: Iterator[str], values: dict[str, Any]) -> Any:
    if token[0] in "([":
        items = []
        for inner in stream:
            if inner in (")", "]"):
                break
            items.append(_value(inner, stream, values))
        return tuple(items) if token == "(" else items
    if token[0] == "n":
        return values["c"][int(token[1:])](*_value(next(stream), stream, values))
    return values[token[0]][int(token[1:])]


# ---- kernels ---------------------------------------------------------------------------------------------------------
def _base(kernel: Any) -> Any:
    from kiln.runtime.jit import JITFunction

    while not isinstance(kernel, JITFunction):
        kernel = kernel.fn
    return kernel


@torch.compiler.assume_constant_result
def _parameters_of(kernel: int) -> str:
    """The kernel's parameters by position, and the names whose values the code depends on."""
    parameters = _base(_object(kernel)).params
    names = " ".join(p.name for p in parameters if p.kind == "positional")
    return f"{names}|{' '.join([*(p.name for p in parameters if p.is_constexpr), *LAUNCH_OPTIONS])}"


@torch.compiler.assume_constant_result
def _form_of_launch(identity: int, tokens: str, count: int, *values: Any) -> str:
    """The form of a launch, made while torch traces. `values`: the types of `count` tensors, then the constants."""
    kernel, dtypes, constants = _object(identity), values[:count], _constants(values[count:])
    while isinstance(kernel, Heuristics):
        kernel = kernel.fn  # torch has traced the computation of its values
    base = _base(kernel)
    written = _written_tensors(kernel, tokens, dtypes, constants)
    form = Form(kernel, tokens, constants, written, len(dtypes))
    return _remember(f"{base.__module__}.{base.__qualname__}:{base.cache_key[:12]}", form)


def _written_tensors(kernel: Any, tokens: str, dtypes: Any, constants: tuple[Any, ...]) -> tuple[int, ...]:
    """The tensors that a launch may write to, with any of the configurations; all tensors if that is unknown."""
    from kiln.errors import KilnError

    everything = tuple(range(len(dtypes)))
    found: set[int] = set()
    for config in getattr(kernel, "configs", None) or [None]:
        try:
            found.update(_stored(kernel, config, tokens, dtypes, constants))
        except KilnError:
            return everything  # the launch itself will report the mistake
    return tuple(sorted(found))


def _stored(kernel: Any, config: Any, tokens: str, dtypes: Any, constants: tuple[Any, ...]) -> Iterator[int]:
    """The tensors that the kernel stores to with these constants, as its code after inlining says."""
    from kiln import _kiln, compiler, frontend
    from kiln.runtime.jit import JITFunction

    class Probe(JITFunction):
        """A launcher's owner that stops at the request for compiled code."""

        def _compile(self, request: CodeRequest) -> Any:
            raise _Found(request.parameters)

    base = _base(kernel)
    tensors = [_Place(dtype, i) for i, dtype in enumerate(dtypes)]
    args, kwargs = decode(tokens, {"t": tensors, "i": _Every(3), "f": _Every(0.5), "c": constants})
    kwargs = {**kwargs, **(config.all_kwargs() if config is not None else {})}
    names = [p.name for p in base.params]
    ordered = {**dict(zip(names, args, strict=False)), "*": args[len(names) :], **kwargs}
    places = [place for name in [*names, "*"] for place in _places(ordered.get(name))]
    try:
        Probe(base.fn)[1](*args, warmup=True, **{name: value for name, value in kwargs.items() if name in names})
    except _Found as stopped:
        (parameters,) = stopped.args
    module = frontend.emit(base, parameters, base.__name__)
    text = str(compiler.compile(module, {"target": "cpu", "to": "opt"}).output)
    for pointer in _kiln.Module.parse(text).written_pointers():
        yield places[pointer]


class _Found(Exception):
    """Raised to leave a launch with the specialisation that the launcher found."""


class _Place(MockTensor):
    """Stands for the tensor with this number."""

    def __init__(self, dtype: Any, place: int):
        super().__init__(dtype)
        self.place = place


class _Every:
    """A sequence with the same value at every index."""

    def __init__(self, value: Any):
        self.value = value

    def __getitem__(self, _: int) -> Any:
        return self.value


def _places(value: Any) -> Iterator[int]:
    if isinstance(value, _Place):
        yield value.place
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _places(item)


_library.define(f"launch({_ARGUMENTS}, SymInt[] grid) -> ()", tags=_TAGS)


@torch.library.impl(_library, "launch", "CompositeExplicitAutograd")
def _launch(form: str, written: Any, read: Any, numbers: Any, floats: Any, grid: Any) -> None:
    found = _forms[form]
    args, kwargs = found.arguments(written, read, numbers, floats)
    grids = [tuple(grid[i : i + 3]) for i in range(0, len(grid), 3)]
    if len(grids) == 1:
        found.what[grids[0]](*args, **kwargs)
        return
    configs = found.what.configs

    def chosen(meta: dict[str, Any]) -> tuple[int, ...]:
        return next(grids[i] for i, c in enumerate(configs) if all(meta[n] == v for n, v in c.kwargs.items()))

    found.what[chosen](*args, **kwargs)


@torch.library.register_fake("kiln::launch", lib=_library)
def _(form: str, written: Any, read: Any, numbers: Any, floats: Any, grid: Any) -> None:
    return None


# A kernel without stores may still print or assert.
torch.fx.node.has_side_effect(torch.ops.kiln.launch.default)


def _three(grid: Any) -> list[Any]:
    if isinstance(grid, (tuple, list)):
        return [*grid, *([1] * (3 - len(grid)))]
    return [grid, 1, 1]


def launch(kernel: Any, grid: Any, args: Any, kwargs: Any) -> Any:
    """`kernel[grid](*args, **kwargs)` while torch traces: a call of `kiln::launch`. Returns None: nothing has run
    yet."""
    positional, constant = _parameters_of(id(kernel)).split("|")
    positional, constant = positional.split(" "), constant.split(" ")
    values = _Values()
    _encode_call(args, kwargs, values, positional, constant)
    dtypes = [tensor.dtype for tensor in values.tensors]
    tokens = " ".join(values.tokens)
    form, written = _form_of_launch(id(kernel), tokens, len(dtypes), *dtypes, *values.constants).split("|")
    grids: list[Any] = []
    if not callable(grid):
        grids += _three(grid)
    else:
        given = dict(zip(positional, args, strict=False))
        given.update(kwargs)
        if isinstance(kernel, Heuristics):
            metas = kernel.metas
        elif isinstance(kernel, Autotuner):
            metas = [config.all_kwargs() for config in kernel.configs]
        else:
            metas = [{}]
        for meta in metas:
            grids += _three(grid({**given, **meta}))
    places = [int(place) for place in written.split(",") if place]
    torch.ops.kiln.launch.default(
        form,
        [tensor for i, tensor in enumerate(values.tensors) if i in places],
        [tensor for i, tensor in enumerate(values.tensors) if i not in places],
        values.numbers,
        values.floats,
        grids,
    )


# ---- library functions -----------------------------------------------------------------------------------------------
class _Like:
    """Stands for a tensor where only its type and rank matter."""

    def __init__(self, dtype: Any, rank: int):
        self.dtype, self.shape, self.ndim, self.itemsize = dtype, (2,) * rank, rank, dtype.itemsize


_functions: dict[str, Any] = {}


@torch.compiler.assume_constant_result
def _form_of_call(identity: int, tokens: str, ranks: str, written: str, *values: Any) -> str:
    """The operator and the form of a library call, made while torch traces. `ranks`: of the tensors; `values`: their
    types, then the constants."""
    function = _object(identity)
    name = function.__name__
    if _functions.setdefault(name, function) is not function:
        name = f"{name}_{sum(key.startswith(name) for key in _functions)}"
        _functions[name] = function
    count = len(ranks.split())
    constants = _constants(values[count:])
    places = tuple(int(place) for place in written.split())
    tensors = [_Like(dtype, int(rank)) for dtype, rank in zip(values[:count], ranks.split(), strict=True)]
    args, kwargs = decode(tokens, {"t": tensors, "i": _Every(1), "f": _Every(0.5), "c": constants})
    made = len(_new_specs(function, args, kwargs))
    # torch can functionalise an operator that mutates arguments only if it returns no list.
    operation = f"{name}_out{made or ''}" if places else name
    if not hasattr(torch.ops.kiln, operation):
        _define(operation, bool(places), made)
    form = _remember(name, Form(function, tokens, constants, places, count)).split("|")[0]
    return f"{operation}|{form}"


def _new_specs(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The outputs that the call allocates, without those that the caller passed."""
    out = kwargs.get("out") if function.takes_out else None
    given = out if isinstance(out, (tuple, list)) else (out,)
    specs = function.output_specs(*args, **kwargs)
    return [spec for i, spec in enumerate(specs) if i >= len(given) or given[i] is None]


@torch.compiler.assume_constant_result
def _about(identity: int) -> str:
    """The names of a function's parameters; the names of those that it writes to, with `out` if results go there; and
    what it returns."""
    function = _object(identity)
    parameters = function.signature.parameters
    returned = str(function.signature.return_annotation)
    shape = "none" if returned == "None" else "pair" if returned.startswith("tuple") else "any"
    changed = (*function.mutates, "out") if function.takes_out else function.mutates
    return f"{' '.join(parameters)}|{' '.join(changed)}|{shape}"


def _define(name: str, writes: bool, made: int) -> None:
    """Defines the operator of a library function: one that allocates its results, or one that also writes to
    arguments."""
    if writes:
        _library.define(f"{name}({_ARGUMENTS}) -> ({', '.join(['Tensor'] * made)})", tags=_TAGS)
    else:
        _library.define(f"{name}({_ARGUMENTS.replace(' Tensor(a!)[] written,', '')}) -> Tensor[]", tags=_TAGS)

    def split(given: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], dict[str, Any], Any]:
        form, *values = given
        found = _forms[form]
        args, kwargs = found.arguments(*(values if writes else ([], *values)))
        return found.what, args, kwargs, [*(values[0] if writes else []), *values[1 if writes else 0]]

    def results(made: list[Any]) -> Any:
        return made if not writes else None if not made else made[0] if len(made) == 1 else tuple(made)

    def made_by(result: Any, tensors: list[Any]) -> list[Any]:
        found = result if isinstance(result, tuple) else (result,)
        known = {id(tensor) for tensor in tensors}
        return [item for item in found if item is not None and id(item) not in known]

    def run(*given: Any) -> Any:
        function, args, kwargs, tensors = split(given)
        with torch.no_grad():  # whether a gradient is needed was checked before
            return results(made_by(function(*args, **kwargs), tensors))

    def make(*given: Any) -> Any:
        function, args, kwargs, tensors = split(given)
        function.check(*args, **kwargs)
        return results([torch.empty(spec.shape, dtype=_dtype(spec.dtype), device=tensors[0].device)
                        for spec in _new_specs(function, args, kwargs)])  # fmt: skip

    def record(*given: Any) -> Any:
        function, args, kwargs, tensors = split(given)
        if function.differentiates(args, kwargs):
            return results(made_by(function.differentiated(args, kwargs), tensors))
        function.refuse_gradients(args, kwargs)
        with torch._C._AutoDispatchBelowAutograd():
            return getattr(torch.ops.kiln, name).default(*given)

    torch.library.impl(_library, name, "CompositeExplicitAutograd")(run)
    torch.library.impl(_library, name, "Autograd")(record)
    torch.library.register_fake(f"kiln::{name}", make, lib=_library)


def _dtype(dtype: Any) -> Any:
    return getattr(torch, dtype) if isinstance(dtype, str) else dtype


def call(function: Any, args: Any, kwargs: Any) -> Any:
    """A call of a library function while torch traces: a call of the operator `kiln::NAME`."""
    parameters, mutated, shape = _about(id(function)).split("|")
    names = parameters.split(" ")
    bound = dict(zip(names, args, strict=False))
    bound.update(kwargs)
    if len(args) > len(names) or any(name not in names for name in kwargs):
        raise TypeError(f"{function} does not take these arguments")
    changed = mutated.split(" ")
    values = _Values()
    written: list[int] = []
    for name, value in bound.items():
        values.tokens.append(f"={name}")
        begin = len(values.tokens)
        _encode(value, values)
        if name in changed:
            for token in values.tokens[begin:]:
                if token[0] == "t" and int(token[1:]) not in written:
                    written.append(int(token[1:]))
    dtypes = [tensor.dtype for tensor in values.tensors]
    ranks = " ".join([f"{tensor.dim()}" for tensor in values.tensors])
    places = " ".join([f"{place}" for place in written])
    tokens = " ".join(values.tokens)
    name, form = _form_of_call(id(function), tokens, ranks, places, *dtypes, *values.constants).split("|")
    read = [tensor for i, tensor in enumerate(values.tensors) if i not in written]
    operation = getattr(torch.ops.kiln, name).default
    if written:
        made = operation(form, [values.tensors[i] for i in written], read, values.numbers, values.floats)
        new = [made] if isinstance(made, torch.Tensor) else list(made or ())
    else:
        new = operation(form, read, values.numbers, values.floats)
    if shape == "none":
        return None
    out = bound.get("out") if "out" in changed else None
    results = list(out) if isinstance(out, (tuple, list)) else [out]
    place = 0
    for i in range(len(results)):
        if results[i] is None and place < len(new):
            results[i] = new[place]
            place += 1
    results += new[place:]
    if shape == "pair" and len(results) < 2:
        results.append(None)
    return tuple(results) if len(results) > 1 else results[0]
