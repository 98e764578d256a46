"""Mistakes in kernels: the message, what the caret marks, the chain of calls, the suggested fix."""

from __future__ import annotations

import pickle

import kiln.language as kl
import pytest
from frontend_support import define, fails, fails_in, marked, parameters
from kiln import errors
from kiln.errors import CompilationError, SourceRange
from kiln.frontend import emit

# statements, what the caret marks, words of the message, words of the hint (None: no hint)
MISTAKES = [
    ("y = nothing", "nothing", "nothing is not defined", None),
    ("y = n + 10**5000", "n + 10**5000", "an integer of at most 64 bits, got one of 16610 bits", None),
    ("y = kl.full([4], 10**5000, kl.float32)", "10**5000", "that fp32 can hold, got an integer of 16610 bits", None),
    ("y = kl.full([4], 10**5000, kl.int32)", "10**5000", "that int32 can hold, got an integer of 16610 bits", None),
    ("kl.static_assert(10**5000 < 3, 'small')", None, "small", None),
    ("y = n.to(10**5000)", "10**5000", "expected a type such as kl.float32, got one of 16610 bits", None),
    ("y = kl.full([4], float('inf'), kl.int32)", "float('inf')", "that int32 can hold (because its", "-2147483648 and"),
    ("y = kl.full([4], float('nan'), kl.uint8)", "float('nan')", "that uint8 can hold (because its", "0 and 255"),
    (
        "y = kl.load(x.to(kl.pointer_type(kl.int32)), mask=n > 3, other=-float('inf'))",
        "-float('inf')",
        "expected a number that int32 can hold (because its values are integers), got -inf",
        None,
    ),
    ("BLOK = 3\ny = BLOC", "BLOC", "BLOC is not defined", "did you mean BLOCK?"),
    ("y = z\nz = 1", "z", "z is read before it is assigned", "before this line"),
    ("y = kl.aranje(0, 4)", "kl.aranje", "module kiln.language has no attribute aranje", "did you mean arange?"),
    ("y = n.shap", "n.shap", "int32 has no attribute shap", "did you mean shape?"),
    ("y = GLOBAL", "GLOBAL", "expected a constexpr global (because", "write GLOBAL = kl.constexpr(5)"),
    ("y = plain(n)", "plain", "got plain, a Python function", "@kiln.jit"),
    ("y = path.join('a', 'b')", "path.join", "got join, a Python function", "compute it outside"),
    ("y = kl.tanh(n)", "kl.tanh", "no attribute tanh", "use kl.extra.libdevice.tanh"),
    ("y = kl.ones([4], kl.int32)", "kl.ones", "no attribute ones", "use kl.full(shape, 1, dtype)"),
    ("y = kl.matmul(n, n)", "kl.matmul", "no attribute matmul", "use kl.dot(a, b)"),
    ("y = kl.clip(n, 0, 1)", "kl.clip", "no attribute clip", "use kl.clamp(x, min, max)"),
    ("y = kl.relu(n)", "kl.relu", "no attribute relu", "use kl.maximum(x, 0)"),
    ("y = kl.any(n)", "kl.any", "no attribute any", "use kl.max(condition.to(kl.int32), axis=0)"),
    ("y = kl.thread_id(0)", "kl.thread_id", "no attribute thread_id", "kl.program_id(axis) numbers the program"),
    ("y = kl.arange(0, 4).mean()", "kl.arange(0, 4).mean", "a tile of type <[4], int32> has", "kl.sum(x, axis=0) / n"),
    ("y = kl.arange(0, 4).isnan()", None, "has no attribute isnan", "use kl.extra.libdevice.isnan"),
    ("y = n.float()", "n.float", "a scalar of type int32 has no attribute float", "use x.to(kl.float32)"),
    ("y = x.shape[0]", "x.shape[0]", "a tile to take a side of, got pointer<fp32>", "pass x.shape[0] as an argument"),
    ("y = x.stride(1)", "x.stride", "a pointer of type pointer<fp32> has no", "pass x.stride(0) as an argument"),
    ("y = len(x)", "len(x)", "expected a tuple or a tile", "pass x.shape[0] as an argument"),
    ("y = sum(kl.arange(0, 4))", "sum(kl.arange(0, 4))", "Python's sum (because it iterates", "use kl.sum(x, axis=0)"),
    ("y = max(kl.arange(0, 4))", None, "Python's max", "use kl.max(x, axis=0)"),
    ("y = any(kl.arange(0, 4) > n)", None, "Python's any", "use kl.max(condition.to(kl.int32), axis=0)"),
    ("y = list(kl.arange(0, 4))", None, "expected a tuple (because its elements are", "a tile is one value"),
    ("y = round(n)", "round", "round is a Python builtin", "use kl.extra.libdevice.rint(x)"),
    ("y = open('f')", "open", "open is a Python builtin that kernels do not have", None),
    ("y = kl.load(x, msk=n > 3)", "msk=n > 3", "load(pointer, mask, other,", "did you mean mask?"),
    ("y = kl.load()", "kl.load()", "expected 1 more argument of load(", None),
    ("y = helper()", "helper()", "expected 1 more argument of helper(a, B), got none for a", None),
    ("y = helper(n, n, n)", "helper(n, n, n)", "expected at most 2 arguments of helper(a, B), got 3", None),
    ("y = helper(n, b=3)", "b=3", "helper has no parameter b", "B"),
    ("y = helper(n, a=3)", "3", "argument a of helper is given twice", None),
    ("y = loop(n)", "loop(a)", "expected calls without recursion", "use a loop"),
    ("kl.float32(3)", "kl.float32", "got the type fp32", ".to(...)"),
    ("n()", "n", "expected a function to call, got int32", None),
    ("kl()", "kl", "got the module kiln.language", None),
    ("helper(**{})", "{}", "got **", "each argument"),
    ("q: kl.constexpr = n\ny = kl.arange(0, q)", "q", "expected a constexpr integer", None),
    ("q: kl.constexpr = 3\nq: kl.constexpr = 4", "q", "expected q to be assigned once", "another name"),
    ("q: kl.constexpr = 3\nq = 4", "q", "expected q to be assigned once", "drop the annotation of q"),
    ("q: kl.constexpr = 3\nq += 1", "q", "expected q to be assigned once", "drop the annotation of q"),
    ("q: kl.constexpr = 3\nfor i in range(n):\n    q = i", "q", "expected q to be assigned once", None),
    ("BLOCK: kl.constexpr = 4", "BLOCK", "expected a new name for a constexpr", "another name"),
    ("y = n\ny: kl.constexpr = 4", "y", "expected a new name for a constexpr", "another name"),
    ("y = n >= 0 & n < 8", "n >= 0 & n < 8", "compares with 0 & n", "write (n >= 0) & (n < 8)"),
    ("y = 0 <= n | n > 8 & n != 3", None, "around comparisons that | joins", "(0 <= n) | (n > 8) & (n != 3)"),
    ("m = n > 3\ny = n < 8 & m", "n < 8 & m", "compares with 8 & m", "write (n < 8) & m"),
    ("q: kl.constexpr", "q: kl.constexpr", "expected a value for a constexpr", None),
    ("q = BLOCK\ny = kl.arange(0, q)", "q", "constexpr", "annotate the assignment: q: kl.constexpr = ..."),
    ("a, b = n, n, n", "a, b", "expected 2 values to unpack, got 3", None),
    ("a, b = n", "a, b", "expected a tuple to unpack into 2 names, got int32", "kl.split"),
    ("x[0] = n", "x[0]", "got a subscript", "kl.store"),
    ("x.y = n", "x.y", "got an attribute", None),
    ("x[0] += n", "x[0]", "got a subscript", "kl.store"),
    ("y = (n, 1)[n]", "(n, 1)[n]", "expected a constexpr index", "kl.static_range"),
    ("y = f'{n}'", None, "expected a constexpr in an f-string", "kl.device_print"),
    ("y = [i for i in (1, 2) if n > i]", "n > i", "expected a constexpr condition in a comprehension", "kl.where"),
    ("for i in n:\n    pass", "n", "expected a tuple", "range"),
    ("for i in range(1.5):\n    pass", "1.5", "expected an integer as stop of range", "//"),
    ("for i in range(0, kl.arange(0, 4)):\n    pass", "kl.arange(0, 4)", "as stop of range", "reduce the tile"),
    ("for i in range(x, 4):\n    pass", "x", "expected an integer as start of range", None),
    ("for i in range(0, n, 0):\n    pass", "0", "expected a step other than 0", None),
    (
        "for i in kl.range(n, num_stage=3):\n    pass",
        "num_stage=3",
        "kl.range has no keyword argument num_stage",
        "num_stages?",
    ),
    ("for i in kl.range(n, num_stages=n):\n    pass", None, "expected a constexpr for num_stages", None),
    (
        "for i in kl.static_range(n):\n    pass",
        "n",
        "expected a constexpr integer as stop of kl.static_range",
        "kl.range",
    ),
    ("for a, b in range(n):\n    pass", "a, b", "expected one name for the index", None),
    ("for i in range(n):\n    pass\nelse:\n    pass", None, "`else` of a loop", "flag"),
    ("while n > 3:\n    n -= 1\nelse:\n    pass", None, "`else` of a loop", "flag"),
    ("while BLOCK == 16:\n    n += 1", None, "expected a loop that ends", "the body changes"),
    ("for i in range(n):\n    pass\nif n > 3:\n    i = 5\ny = i", "i", "i is the index of the loop", "another name"),
    ("for i in range(n):\n    pass\nwhile n > 0:\n    n -= i\n    i = 5", "i", "i is the index of the loop", None),
    ("for i in range(n):\n    i = i * 2\ny = i", "i", "i is the index of the loop of line 3", "another name"),
    ("for i in range(n):\n    a = i\ny = a", "a", "a is assigned only inside the loop of line 3", "before the loop"),
    (
        "a = 0\nfor i in range(n):\n    a += 1.5",
        "a",
        "got int32 before the loop and fp32 at the end",
        "start from a kl.float32",
    ),
    (
        "a = 0.0\nwhile n > 0:\n    a = a + kl.arange(0, 4)",
        "a",
        "keep its type through the loop",
        "kl.zeros([4], kl.float32)",
    ),
    ("a = None\nfor i in range(n):\n    a = i\ny = a", "a", "expected a to stay the same through the loop", None),
    ("if n > 3:\n    a = 1\ny = a", "a", "expected a to be assigned on every path", "before the `if`"),
    ("if n > 3:\n    pass\nelse:\n    a = 1\ny = a", "a", "got a value only in the `else` branch (line 6)", None),
    ("if n > 3:\n    a = 1\nelse:\n    a = 1.0\ny = a", "a", "(line 4) and fp32 in the `else`", ".to"),
    ("if kl.arange(0, 4) > 1:\n    pass", "kl.arange(0, 4) > 1", "expected a scalar condition", "kl.where"),
    ("while kl.arange(0, 4) > 1:\n    pass", "kl.arange(0, 4) > 1", "expected a scalar condition", "kl.where"),
    ("y = n if n > 3 else 1.5", "n if n > 3 else 1.5", "both sides of the conditional expression", "kl.where"),
    ("y = two(n)", None, "expected every return to give the same type", "one type on every path"),
    ("return n", "return n", "expected a kernel to return nothing", "kl.store"),
    ("del n\ny = n", "n", "n was deleted in line 3", None),
    ("assert BLOCK == 3, 'why'", "BLOCK == 3", "assertion failed at compile time: why", None),
    ("y = 3 < 'a'", "3 < 'a'", "expected operands that < can compare", None),
    ("y = 3 in n", "3 in n", "expected a tuple or a string to search in", None),
    ("y = math.sqrt(n)", "n", "expected constexpr arguments of sqrt", "use kl.sqrt"),
    ("y = math.sqrt(-1.0)", "math.sqrt(-1.0)", "math domain error", None),
    ("y = 1j", "1j", "expected a number", None),
    ("try:\n    pass\nexcept Exception:\n    pass", None, "`try` is not supported", "kl.device_assert"),
    ("with open('f'):\n    pass", None, "`with` is not supported", None),
    ("f = lambda a: a", "lambda a: a", "a lambda is not supported", "only grids"),
    ("def f():\n    pass", None, "is not supported in a kernel", "module level"),
    ("class C:\n    pass", None, "a class", None),
    ("import os", "import os", "`import` is not supported", "top of the module"),
    ("global n2", "global n2", "`global` is not supported", None),
    ("y = {1: 2}", "{1: 2}", "a dict is not supported", "a tuple"),
    ("y = {1, 2}", "{1, 2}", "a set is not supported", "a tuple"),
    ("raise ValueError", "raise ValueError", "`raise` is not supported", "kl.device_assert"),
    ("match n:\n    case 1:\n        pass", None, "`match` is not supported", "if / elif"),
]

OUTER = """
import math
from os import path

GLOBAL = 5

def plain(a):
    return a

@jit
def helper(a, B: kl.constexpr = 4):
    return a

@jit
def loop(a):
    return loop(a)

@jit
def two(a):
    if a > 3:
        return a
    return 1.5

"""


@pytest.mark.parametrize(("statements", "mark", "message", "hint"), MISTAKES, ids=lambda v: str(v)[:40] if v else "")
def test_mistake(statements, mark, message, hint):
    shift = OUTER.count("\n")
    lines = "\n".join("    " + line for line in statements.split("\n"))
    # Line numbers in the table count from the decorator; subtract the lines of the helpers above it.
    text = f"{OUTER}@jit\ndef kernel(x, n, BLOCK: kl.constexpr):\n{lines}\n"
    error = fails(text, x="*fp32", n="i32", BLOCK=[16])
    said = error.message
    for k in range(3, 12):
        said = said.replace(f"line {k + shift}", f"line {k}")
    assert message in said
    if hint is not None:
        assert error.hint is not None and hint in error.hint
    if mark is not None:
        assert marked(error) == mark
    rendered = str(error)
    assert rendered.startswith(f"{error.location.file}:{error.location.line}:{error.location.column}: error: ")
    assert "/python/kiln/" not in rendered and "Traceback" not in rendered


def test_the_message_as_a_whole():
    error = fails_in("a = 0\nfor i in range(n):\n    a += 1.5\nkl.store(x, a)")
    file = error.location.file
    assert str(error).split("\n") == [
        f"{file}:5:9: error: expected a to keep its type through the loop (because the next iteration reads it), got"
        " int32 before the loop and fp32 at the end of an iteration",
        "    5 |         a += 1.5",
        "      |         ^",
        f"{file}:4:14: note: the loop is here",
        "    4 |     for i in range(n):",
        "      |              ^~~~~~~~",
        "hint: cast at the end of the iteration with .to(kl.int32), or start from a kl.float32",
    ]


def test_chain_of_calls():
    error = fails(
        "@jit\ndef inner(v):\n    return v + missing\n@jit\ndef middle(v):\n    w = v * 2\n    return inner(w)\n"
        "@jit\ndef kernel(x, n):\n    kl.store(x, middle(n))\n",
        x="*i32", n="i32",
    )  # fmt: skip
    assert [(f.function, f.line) for f in error.frames] == [("inner", 3), ("middle", 7), ("kernel", 10)]
    text = str(error)
    assert text.index("missing is not defined") < text.index("called from middle") < text.index("called from kernel")
    assert "inner(w)" in text and "middle(n)" in text


def test_chain_through_a_combine_function():
    error = fails(
        "@jit\ndef pick(a, b):\n    return a if a > b else oops\n@jit\ndef kernel(x):\n"
        "    kl.store(x, kl.reduce(kl.arange(0, 8), 0, pick))\n",
        x="*i32",
    )
    assert [f.function for f in error.frames] == ["pick", "kernel"]


@pytest.mark.parametrize(
    ("combine", "message"),
    [
        ("return a, b", "expected 1 value from the combine function pick (because it returns one for each tile)"),
        ("return a.to(kl.float32)", "to return int32 (because the accumulator keeps its type), got fp32"),
        ("return kl.arange(0, 4)", "expected scalars in pick (because it is applied to single elements), got a tile"),
        ("return a + kl.zeros((2,), kl.int32)", "expected scalars in pick (because it is applied to single elements)"),
        ("return (a, a)[0], (b,)", "expected 1 value from the combine function pick"),
        ("x = a", "to return int32"),
    ],
)
def test_combine_results(combine, message):
    error = fails(
        f"@jit\ndef pick(a, b):\n    {combine}\n@jit\ndef kernel(x):\n"
        f"    kl.store(x, kl.reduce(kl.arange(0, 8), 0, pick))\n",
        x="*i32",
    )
    assert message in error.message


def test_library_functions_do_not_show_their_insides():
    error = fails_in("kl.store(x, kl.softmax(n))")
    assert [f.function for f in error.frames] == ["kernel"]


def test_columns_count_characters():
    error = fails_in('kl.device_assert(n > 0, "größer ≥ 0"); y = oops')
    assert marked(error) == "oops"
    assert error.location.source_line()[error.location.column - 1 :].startswith("oops")


def test_tabs_and_ranges_over_lines():
    error = fails("@jit\ndef kernel(x, n):\n\tif n > 3:\n\t\ty = (x *\n\t\t     n)\n", x="*i32", n="i32")
    line, carets = error.location.excerpt()
    assert line.endswith("\t\ty = (x *") and carets.endswith("\t\t     ^~~")


def test_indented_definitions_keep_their_columns():
    error = fails(
        "if True:\n        @jit\n        def kernel(x, n):\n            '''text\nat column 0'''\n"
        "            y = oops\n",
        x="*i32",
        n="i32",
    )
    assert (error.location.line, error.location.column) == (6, 17)


def test_specialisation_must_fit():
    kernel = define("@jit\ndef kernel(x, n):\n    pass\n")
    with pytest.raises(CompilationError, match=r"expected a specialisation of \(x, n\)"):
        emit(kernel, parameters(x="*i32"))


def test_our_faults_are_internal_errors(tmp_path, monkeypatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    import kiln.language.semantic as semantic

    monkeypatch.setattr(semantic, "binary", broken)
    monkeypatch.setenv("KILN_CRASH_DIR", str(tmp_path))
    with pytest.raises(errors.InternalError) as caught:
        emit(define("@jit\ndef kernel(x, n):\n    kl.store(x, n)\n    y = n + n\n"), parameters(x="*i32", n="i32"))
    error = caught.value
    assert error.stage == "tile" and "ZeroDivisionError: oops" in str(error)
    assert error.location.endswith(":4:9 in kernel")
    assert error.ir_path.startswith(str(tmp_path)) and "tile.store" in open(error.ir_path).read()
    assert not isinstance(error, errors.UserError)


def test_builtins_outside_a_kernel():
    import kiln.language as kl

    with pytest.raises(errors.UserError, match="only inside a kernel"):
        kl.program_id(0)
    with pytest.raises(errors.UserError, match=r"launch it as a kernel, kernel\[grid\]"):
        define("@jit\ndef kernel(x):\n    pass\n")(3)


# -- the classes themselves ------------------------------------------------------------------


def test_every_error_survives_pickling():
    place = SourceRange("f.py", 3, 5, 3, 9, "kernel", "x = load(p)")
    made = [
        CompilationError("m", hint="h", argument="a").at(place).note("n", place),
        errors.LaunchError("m", kernel="k", argument="x", caller=place, hint="h"),
        errors.ResourceError("shared memory", 300, 200, "num_stages", "k"),
        errors.InternalError("m", "cpu", "pass", "/ir", "kiln-opt", "f.py:3"),
        errors.DeviceAssertError("m", "k", (1, 2, 3), (4,), [place], ["detail"]),
    ]
    for error in made:
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error) and type(again) is type(error)


def test_launch_resource_and_device_errors_say_where():
    place = SourceRange("f.py", 3, 5, 3, 9, "kernel", "x = load(p)")
    text = str(errors.LaunchError("expected an array, got str", kernel="k", argument="x", caller=place, hint="h"))
    assert text.startswith("f.py:3:5: error: launch of k: argument 'x': expected an array, got str\n")
    assert text.endswith("hint: h")
    text = str(errors.ResourceError("shared memory", 300, 200, "num_stages", "k"))
    assert text == "k: out of shared memory: required 300, available 200\nhint: reduce num_stages"
    text = str(errors.OutOfBoundsError("read of 4 bytes", "k", (1, 0, 0), (3,), [place], ["nearest buffer: x"]))
    assert text.startswith("f.py:3:5: access out of bounds: read of 4 bytes\n    3 | x = load(p)\n      |     ^~~~\n")
    assert "kernel k, program (1, 0, 0), element (3,)" in text and "nearest buffer: x" in text


def test_from_compiler_locations():
    error = CompilationError.from_locations("m", [("a.py", 3, 4, "f"), ("b.py", 5, 6, "g")])
    assert [f.function for f in error.frames] == ["f", "g"]


def test_names_suggested_to_newcomers_exist():
    import re

    from kiln.frontend import suggestions

    advice = "\n".join(suggestions._INSTEAD.values())
    found = set(re.findall(r"\bkl((?:\.[A-Za-z_]\w*)+)", advice))
    assert len(found) > 30
    for path in found:
        value = kl
        for name in path.strip(".").split("."):
            value = getattr(value, name)
    for method in set(re.findall(r"\bx\.([a-z]\w*)", advice)) | set(suggestions._CONVERSIONS.values()):
        assert hasattr(kl.tensor, method) or hasattr(kl, method), method
