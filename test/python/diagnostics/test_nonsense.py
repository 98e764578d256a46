"""Whatever a kernel asks of the language, the outcome is code or a user error, never an internal error.

Statements are random, over values of every kind, and seeded; PROGRAMS=n in the environment sets how many.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import linecache
import os
import random
import warnings

import kiln
import kiln.language as kl
import pytest
from kiln import frontend
from kiln.errors import CompilationError, InternalError, UserError
from kiln.frontend.signature import Parameter
from kiln.language.builtin import is_builtin
from kiln.language.extra import libdevice
from kiln.language.values import tensor, tensor_descriptor

CHUNK = 50
CHUNKS = max(1, int(os.environ.get("PROGRAMS", "2000")) // CHUNK)

BEFORE = """
@kiln.jit
def add(a, b):
    return a + b


@kiln.jit
def kernel(x, n, f):
    i = kl.arange(0, 8)
    t = kl.load(x + i)
    h = t.to(kl.float16)
    u = i.to(kl.uint32)
    m = kl.load(x + i[:, None] * 8 + i[None, :])
    block = kl.make_block_ptr(x, (8, 8), (8, 1), (0, 0), (4, 8), (1, 0))
    desc = kl.make_tensor_descriptor(x, (8, 8), (8, 1), (4, 8))
    """
TENSORS = ["x", "n", "f", "t", "h", "u", "m", "i", "(i > 3)", "(x + i)", "block"]
VALUES = [
    *TENSORS, "desc", "None", "True", "0", "1", "2", "-1", "0.5", "float('nan')", "'abc'", "''", "'=r,r'", "()",
    "(1, 2)", "(8, 8)", "(t, i)", "(n, 0)", "((1, 2), 3)", "kl.float32", "kl.int32", "kl.pointer_type(kl.float32)",
    "add", "print", "kl", "kl.PropagateNan.ALL",
]  # fmt: skip
OPERATORS = ["+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "==", "<", "**", "@", "and", "or", "is", "in"]
BUILTINS = (
    "len min max sum abs int float bool tuple zip enumerate reversed all any str repr isinstance getattr print"
    " type list"
).split()
# Likely valid values for parameters of these names, so that tests reach beyond the type checks.
LIKELY = {
    "shape": "(8, 8)", "dtype": "kl.float32", "axis": "0", "dim": "0", "input": "t", "x": "t", "y": "t",
    "mask": "(i > 3)", "combine_fn": "add", "pointer": "(x + i)", "constraints": "'=r,r'", "asm": "'mov $0, $1;'",
}  # fmt: skip


def functions() -> list[tuple[str, list[inspect.Parameter]]]:
    found = []
    for prefix, holder in (("kl.", kl), ("libdevice.", libdevice)):
        for name in sorted(vars(holder)):
            if not name.startswith("_") and callable(vars(holder)[name]) and is_builtin(vars(holder)[name]):
                found.append((prefix + name, list(inspect.signature(vars(holder)[name]).parameters.values())))
    for prefix, holder in ((".", tensor), ("desc.", tensor_descriptor)):
        for name in sorted(vars(holder)):
            if not name.startswith("_") and inspect.isfunction(vars(holder)[name]):
                found.append((prefix + name, list(inspect.signature(vars(holder)[name]).parameters.values())[1:]))
    return found


FUNCTIONS = functions()


def call(rng: random.Random) -> str:
    name, parameters = rng.choice(FUNCTIONS)
    arguments, positional = [], True
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            arguments += rng.choices(VALUES, k=rng.choice([0, 1, 1, 2]))
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            positional = False
            continue
        if parameter.default is not parameter.empty and rng.random() < 0.7:
            positional = False
            continue
        value = LIKELY[parameter.name] if parameter.name in LIKELY and rng.random() < 0.5 else rng.choice(VALUES)
        plain = positional and parameter.kind is not parameter.KEYWORD_ONLY
        arguments.append(value if plain else f"{parameter.name}={value}")
    owner = rng.choice(TENSORS) if name.startswith(".") else ""
    return f"y = {owner}{name}({', '.join(arguments)})"


def statement(rng: random.Random) -> str:
    a, b, c = rng.choices(VALUES, k=3)
    kinds = {
        lambda: call(rng): 14,
        lambda: f"y = {a} {rng.choice(OPERATORS)} {b}": 3,
        lambda: f"y = {rng.choice(['-', '~', '+', 'not '])}{a}": 1,
        lambda: f"y = {a}[{rng.choice([b, ':, None', 'None, :', '0:2', '...'])}]": 1,
        lambda: f"y = {rng.choice(BUILTINS)}({', '.join([a, b, c][: rng.choice([0, 1, 1, 2, 3])])})": 1,
        lambda: f"for k in {rng.choice(['range', 'kl.range', 'kl.static_range', ''])}({a}, {b}): y = k": 1,
        lambda: f"{rng.choice(['p, q', 'p', 'p, *q', '(p, q), r'])} = {a}": 1,
        lambda: f"y = {a} if {b} else {c}": 1,
        lambda: f"assert {a}, {b}": 1,
        lambda: f"y = f'{{{a.replace(chr(39), chr(34))}{rng.choice(['', ':>5', '!r', ':x'])}}}'": 1,
    }
    return rng.choices(list(kinds), list(kinds.values()))[0]()


PARAMETERS = [
    Parameter("x", "runtime", "*fp32", divisible=True), Parameter("n", "runtime", "i32"),
    Parameter("f", "runtime", "fp32"),
]  # fmt: skip


def answer(line: str, file: str) -> Exception | None:
    """The exception from compiling the statement to tile IR, or None."""
    text = BEFORE + line + "\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = {"kiln": kiln, "kl": kl, "libdevice": libdevice, "__name__": "nonsense"}
    exec(compile(text, file, "exec", dont_inherit=True), namespace)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            frontend.emit(namespace["kernel"], PARAMETERS, "kernel")
    except Exception as error:
        return error
    finally:
        del linecache.cache[file]
    return None


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nonsense_compiles_or_is_a_user_error(chunk: int, tmp_path) -> None:
    rng = random.Random(chunk)
    compiled = refused = 0
    with kiln.knobs.scope(crash_dir=str(tmp_path)), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own warnings about the statements
        while compiled + refused < CHUNK:
            line = statement(rng)
            try:
                error = answer(line, f"/nonsense/{chunk}_{compiled + refused}.py")
            except SyntaxError:
                continue
            assert not isinstance(error, InternalError), f"{line}\n{error}"
            assert error is None or isinstance(error, UserError), f"{line}\n{error!r}"
            if isinstance(error, CompilationError):
                assert error.location is not None, f"{line}\n{error}"
                assert not any(word in error.message for word in ("constexpr[", "tensor[", " object at 0x")), str(error)
            compiled += error is None
            refused += error is not None
    # Neither all statements may be rejected nor all accepted.
    assert compiled >= CHUNK // 10 and refused >= CHUNK // 10
