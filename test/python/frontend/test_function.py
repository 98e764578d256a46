"""Capturing functions: parameters, finding the source, cache keys and what they depend on."""

from __future__ import annotations

import linecache
import os
import subprocess
import sys
import threading
import time
import warnings

import kiln.language as kl
import pytest
from frontend_support import define, ir, parameters
from kiln.errors import CompilationError, UserError
from kiln.frontend import FlatParameter, Parameter, emit, flat_parameters
from kiln.frontend.function import KernelFunction, constexpr_function, jit

STORE = "kl.store(x, C)"


def test_parameters():
    fn = define(
        "@jit\ndef kernel(x, n: kl.int64, m: 'kl.uint8', k=3, *rest, B: kl.constexpr, C: 'kl.constexpr' = 4):\n"
        "    pass\n"
    )
    shown = [
        (p.name, p.kind, p.is_constexpr, p.annotation_type, p.default if p.has_default else "-") for p in fn.params
    ]
    assert shown == [
        ("x", "positional", False, "", "-"),
        ("n", "positional", False, "i64", "-"),
        ("m", "positional", False, "u8", "-"),
        ("k", "positional", False, "", 3),
        ("rest", "variadic", False, "", "-"),
        ("B", "keyword", True, "", "-"),
        ("C", "keyword", True, "", 4),
    ]
    assert fn.arg_names == ["x", "n", "m", "k", "rest", "B", "C"]


def test_options_by_name_and_index():
    fn = KernelFunction(lambda_free, do_not_specialize=["n", 0], do_not_specialize_on_alignment=["m"])
    assert [p.do_not_specialize for p in fn.params] == [True, True, False]
    assert [p.do_not_specialize_on_alignment for p in fn.params] == [False, False, True]


def lambda_free(x, n, m):
    pass


def test_only_functions():
    with pytest.raises(UserError, match="expected a Python function"):
        jit(3)


def test_nothing_is_read_while_decorating(monkeypatch):
    monkeypatch.setattr(linecache, "getlines", lambda *_: pytest.fail("read"))
    assert jit(lambda_free).__name__ == "lambda_free"


def test_flat_parameters():
    flat = flat_parameters([
        Parameter("d", "runtime", "tensordesc<bf16[8,16]>", divisible=True),
        Parameter("C", "constexpr", value=1),
        Parameter("t", "tuple", items=(Parameter("t.0", "runtime", "i32"), Parameter("t.1", "constexpr", value=2))),
    ])  # fmt: skip
    assert flat == [
        FlatParameter("d", "*bf16", 16),
        FlatParameter("d.shape.0", "i64"), FlatParameter("d.shape.1", "i64"),
        FlatParameter("d.stride.0", "i64", 8), FlatParameter("d.stride.1", "i64"),
        FlatParameter("t.0", "i32"),
    ]  # fmt: skip


# -- source ----------------------------------------------------------------------------------


def run_python(*arguments: str, text: str | None = None) -> str:
    done = subprocess.run([sys.executable, *arguments], input=text, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


PROGRAM = """
import kiln.language as kl
from kiln.frontend.function import jit
from kiln.frontend import emit, Parameter

@jit
def kernel(x):
    kl.store(x, 41)

print(emit(kernel, [Parameter("x", "runtime", "*i32")]))
"""


def test_file(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    assert "constant 41" in run_python(str(path))


def test_command_line():
    assert "constant 41" in run_python("-c", PROGRAM)


def test_redirected_file(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    with path.open() as file:
        done = subprocess.run([sys.executable, "-"], stdin=file, capture_output=True, text=True, check=False)
    assert "constant 41" in done.stdout


def test_piped_code_says_what_to_do():
    shown = run_python("-", text=PROGRAM)
    assert "the source of kernel cannot be found" in shown and "hint:" in shown


def test_exec():
    names: dict = {}
    program = PROGRAM.replace("print(", "text = str(")
    exec(program, names)
    assert "constant 41" in names["text"]


def test_exec_of_a_temporary_text():
    # Another text defines the same names; it must not be mistaken for this one.
    other = PROGRAM.replace("print(", "text = str(")
    with pytest.raises(CompilationError, match="source of kernel cannot be found"):
        exec(other.replace("41", "42"), {})


GLOBAL_TEXT = PROGRAM.replace("print(", "text = str(")


class Holder:
    text = GLOBAL_TEXT


def test_exec_of_a_global_and_of_an_attribute_in_a_thread():
    # The thread's frames contain neither text: both are found through the names in the code that calls exec.
    found = []

    def define():
        first, second = {}, {}
        exec(GLOBAL_TEXT, first)
        exec(Holder.text, second)
        found.extend((first["text"], second["text"]))

    thread = threading.Thread(target=define)
    thread.start()
    thread.join()
    assert len(found) == 2 and all("constant 41" in text for text in found)


def test_exec_of_a_formatted_text():
    # The pieces of the f-string are constants of this function, and not valid Python by themselves.
    for value in (41, 42):
        names: dict = {"jit": jit, "kl": kl}
        text = f"@jit\ndef kernel(x):\n    kl.store(x, ({value}\n    ))\n"
        exec(text, names)
        assert f"constant {value}" in ir(names["kernel"], x="*i32")


def test_exec_inside_a_command_line():
    # Both texts are called <string>.
    program = f"text = {PROGRAM!r}\nif True:\n    names = {{}}\n    exec(text, names)\n"
    assert "constant 41" in run_python("-c", program)


def test_exec_from_a_list_of_texts():
    programs = [PROGRAM.replace("print(", "text = str("), PROGRAM.replace("41", "42").replace("print(", "text = str(")]
    for index in range(2):
        names: dict = {}
        exec(programs[index], names)
        assert f"constant {41 + index}" in names["text"]


def test_the_right_one_of_two_equal_names():
    names: dict = {"jit": jit, "kl": kl}
    first = "@jit\ndef kernel(x):\n    kl.store(x, 1)\n"
    second = "@jit\ndef kernel(x, y):\n    kl.store(y, 2)\n"
    exec(second, names)
    assert first and "constant 2" in ir(names["kernel"], x="*i32", y="*i32")


def test_notebook_cell():
    # As in IPython, each cell is a file that only linecache knows.
    text = "@jit\ndef kernel(x):\n    kl.store(x, 7)\n"
    linecache.cache["<ipython-input-1-abc>"] = (len(text), None, text.splitlines(True), "<ipython-input-1-abc>")
    names: dict = {"jit": jit, "kl": kl}
    exec(compile(text, "<ipython-input-1-abc>", "exec"), names)
    assert "constant 7" in ir(names["kernel"], x="*i32")


def test_typed_into_a_repl(tmp_path):
    lines = (
        PROGRAM.strip().replace("\n\n@jit", "\n@jit").replace("41)\n\n", "41)\n\n").replace("print(", "print('IR', ")
    )
    shown = type_into_python([*lines.split("\n"), "exit()"], home=tmp_path)
    assert "constant 41" in shown, shown


def type_into_python(lines: list[str], home: os.PathLike) -> str:
    """What interactive Python prints on a terminal."""
    import pty
    import select

    try:
        child, terminal = pty.fork()
    except OSError as problem:
        pytest.skip(f"no pseudo-terminal on this machine: {problem}")
    if child == 0:
        os.environ.update(HOME=str(home), TERM="dumb")
        os.execv(sys.executable, [sys.executable, "-q"])
    shown = b""
    deadline = time.time() + 60
    pending = [line.encode() + b"\n" for line in lines]
    while time.time() < deadline:
        ready, _, _ = select.select([terminal], [], [], 5)
        try:
            received = os.read(terminal, 65536) if ready else b""
        except OSError:
            break
        shown += received
        # Send one line per prompt: lines typed ahead would not be echoed in order.
        if pending and shown.endswith((b">>> ", b"... ")):
            os.write(terminal, pending.pop(0))
        elif not received:
            break
    os.close(terminal)
    os.waitpid(child, 0)
    return shown.decode(errors="replace")


def test_source_given():
    names: dict = {"jit": jit, "kl": kl}
    text = "def kernel(x):\n    kl.store(x, 9)\n"
    exec("".join(text), names)
    assert "constant 9" in ir(KernelFunction(names["kernel"], source=text), x="*i32")


def test_edited_file_is_noticed(tmp_path):
    path = tmp_path / "edited.py"
    path.write_text("def kernel(x):\n    kl.store(x, 7)\ndef same(x):\n    kl.store(x, 3)\n")
    names: dict = {"kl": kl}
    exec(compile(path.read_text(), str(path), "exec"), names)
    kernel, same = jit(names["kernel"]), jit(names["same"])
    path.write_text("# a line more\ndef kernel(x):\n    kl.store(x, 8)\ndef same(x):\n    kl.store(x, 3)\n")
    os.utime(path, (time.time() + 10, time.time() + 10))
    linecache.checkcache(str(path))
    with pytest.warns(UserWarning, match="kernel was edited after it was imported") as caught:
        assert "constant 7" in ir(kernel, x="*i32")
    assert (caught[0].filename, caught[0].lineno) == (str(path), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "constant 3" in ir(same, x="*i32"), "moved, but not edited"
    # A fresh import gets the new text; what was imported before keeps the old one.
    exec(compile(path.read_text(), str(path), "exec"), names)
    assert "constant 8" in ir(jit(names["kernel"]), x="*i32")
    assert "constant 7" in ir(kernel, x="*i32")


def test_a_deleted_file_is_still_known(tmp_path):
    path = tmp_path / "gone.py"
    path.write_text("# -*- coding: latin-1 -*-\ndef kernel(x):\n    kl.store(x, 7)  # \xe9\n", encoding="latin-1")
    names: dict = {"kl": kl}
    exec(compile(path.read_bytes(), str(path), "exec"), names)
    kernel = jit(names["kernel"])
    path.unlink()
    with pytest.warns(UserWarning, match="edited after"):
        assert "constant 7" in ir(kernel, x="*i32")
    assert kernel.source.line(3).endswith("\xe9")


# -- what a kernel refers to -----------------------------------------------------------------


def test_closures():
    def make(value):
        C = kl.constexpr(value)

        @jit
        def kernel(x):
            kl.store(x, C)

        return kernel

    three, four = make(3), make(4)
    assert "constant 3" in ir(three, x="*i32") and "constant 4" in ir(four, x="*i32")
    assert three.cache_key != four.cache_key


def test_annotated_global():
    text = f"C: kl.constexpr = 12\n@jit\ndef kernel(x):\n    {STORE}\n"
    assert "constant 12" in ir(text, x="*i32")


def test_constexpr_attribute_of_a_module():
    import types

    settings = types.ModuleType("settings")
    settings.C = kl.constexpr(3)
    settings.D = 4
    kernel = define("@jit\ndef kernel(x):\n    kl.store(x, settings.C)\n", settings=settings)
    assert "constant 3" in ir(kernel, x="*i32")
    before = kernel.cache_key
    settings.C = kl.constexpr(5)
    assert not kernel.is_current()
    assert kernel.cache_key != before and "constant 5" in ir(kernel, x="*i32")
    wrong = define("@jit\ndef kernel(x):\n    kl.store(x, settings.D)\n", settings=settings)
    with pytest.raises(CompilationError, match=r"got settings\.D, a Python int"):
        emit(wrong, parameters(x="*i32"))


def test_changed_global_is_noticed():
    kernel = define(f"C = kl.constexpr(1)\n@jit\ndef kernel(x):\n    {STORE}\n")
    assert not kernel.is_current()
    before = kernel.cache_key
    assert kernel.is_current()
    kernel.fn.__globals__["C"] = kl.constexpr(1)  # another object, the same value
    assert kernel.is_current()
    kernel.fn.__globals__["C"] = kl.constexpr(2)
    assert not kernel.is_current()
    assert kernel.cache_key != before and kernel.is_current()
    assert "constant 2" in ir(kernel, x="*i32")
    kernel.fn.__globals__["C"] = kl.constexpr(2.0)  # equal, but of another type
    assert not kernel.is_current()
    del kernel.fn.__globals__["C"]
    assert not kernel.is_current()
    kernel.fn.__globals__["C"] = kl.constexpr(1)
    assert kernel.cache_key == before


NESTED = """
C = kl.constexpr(1)
@jit
def helper(v):
    return v + C
@jit
def kernel(x):
    kl.store(x, helper(1))
"""


def test_key_covers_nested_functions_and_their_globals():
    kernel, other = define(NESTED), define(NESTED.replace("v + C", "v - C"))
    assert kernel.cache_key != other.cache_key
    assert kernel.cache_key == define(NESTED).cache_key
    before = kernel.cache_key
    kernel.fn.__globals__["C"] = kl.constexpr(2)
    assert not kernel.is_current() and kernel.cache_key != before
    kernel.fn.__globals__["C"] = kl.constexpr(1)
    assert kernel.cache_key == before
    kernel.fn.__globals__["helper"] = define("@jit\ndef helper(v):\n    return v * 3\n", "helper")
    assert not kernel.is_current() and kernel.cache_key != before


def test_key_of_mutually_recursive_functions_ends():
    fn = define("@jit\ndef a(x):\n    return b(x)\n@jit\ndef b(x):\n    return a(x)\n", "a")
    assert len(fn.cache_key) == 64


def test_key_is_the_same_in_every_process(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "import kiln.language as kl\nfrom kiln.frontend.function import jit\n" + NESTED + "print(kernel.cache_key)\n"
    )
    assert run_python(str(path)) == run_python(str(path))


def test_key_covers_defaults_and_constexpr_marks():
    keys = {define(f"@jit\ndef kernel(x, {p}):\n    pass\n").cache_key for p in ("B=1", "B=2", "B: kl.constexpr = 1")}
    assert len(keys) == 3


def test_constexpr_function_is_still_python():
    @constexpr_function
    def half(n):
        return n // 2

    assert half(8) == 4


def test_emission_is_deterministic_and_thread_safe():
    kernel = define(NESTED)
    expected = str(emit(kernel, parameters(x="*i32")))
    results: list[str] = []

    def work():
        for _ in range(5):
            results.append(str(emit(kernel, parameters(x="*i32"))))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 20


def test_import_is_light():
    shown = run_python(
        "-c",
        "import kiln.frontend.function, sys\n"
        "print([m for m in ('ast', 'inspect', 'numpy', 'kiln._kiln') if m in sys.modules])",
    )
    assert shown.strip() == "[]"


def test_text_before_the_function_is_rejected():
    text, names = "import math\n\ndef kernel(x):\n    kl.store(x, 1)\n", {"kl": kl}
    exec(text, names)
    with pytest.raises(CompilationError, match="expected a plain function, got something else") as raised:
        ir(KernelFunction(names["kernel"], source=text), x="*i32")
    assert raised.value.hint == "give the text from the function's decorators or its def on"
