"""What changes the keys: an artifact's key depends on its fields, an index key on what the artifact is derived from."""

import itertools
import os
import pathlib
import shutil
import subprocess
import sys

import kiln
import pytest
from kiln import _kiln, frontend, knobs
from kiln.frontend.function import jit
from kiln.frontend.signature import Parameter

pytestmark = pytest.mark.cpu


def make(text, folder, name="kernel", file="kernel.py"):
    """The tile IR of a kernel with the arrays `x` and `y`."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("import kiln.language as kl\n" + text)
    names = {"jit": jit, "__name__": "written"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    parameters = [Parameter(p, "runtime", type="*fp32", divisible=True) for p in ("x", "y")]
    return frontend.emit(names[name], parameters, name)


COPY = """
@jit
def kernel(x, y):
    i = kl.arange(0, 16)
    kl.store(y + i, kl.load(x + i))
"""
PRINT = COPY.replace("    kl.store", "    kl.device_print('x', kl.load(x))\n    kl.store")


def complete(**options):
    return {"target": "cpu-avx2", "check": "none", "line_info": False, **options}


def key(module, located=False, **options):
    return _kiln.artifact_fields(module, complete(**options), located)[0].key("artifact")


# -- artifacts ------------------------------------------------------------------------------------


def test_each_field_of_an_artifact_changes_its_key(tmp_path):
    module = make(COPY, tmp_path)
    libraries = []
    for content in (b"one", b"two"):
        libraries.append(tmp_path / content.decode())
        libraries[-1].write_bytes(content)
    variants = [
        {},
        {"target": "cpu-avx512"},
        {"target": "sm_100a"},
        {"target": "sm_90a"},
        {"check": "bounds"},
        {"enable_fp_fusion": False},
        {"line_info": True},
        {"num_warps": 8},
        {"cluster": 2},
        {"maxnreg": 64},
        {"pdl": True},
        {"single_wave": True},
        {"streaming": True},
        {"schedule": "none"},
        {"stages": 2},
        {"consumers": 2},
        {"describe_pointers": True},
        {"ptx_version": 80},
        {"ptxas": "/a/ptxas", "ptxas_version": "13.0.88"},
        {"ptxas": "/a/ptxas", "ptxas_version": "13.0.89"},
        {"libdevice": str(libraries[0])},
        {"libdevice": str(libraries[1])},
        {"num_stages": 3},  # belongs to the launch: in the metadata
        {"debug": True},
    ]
    keys = {key(module, **options) for options in variants}
    assert len(keys) == len(variants)
    other = make(COPY.replace("16", "32"), tmp_path)
    assert key(other) not in keys


def test_tools_and_metadata_are_separate_fields(tmp_path):
    fields, _ = _kiln.artifact_fields(make(COPY, tmp_path), complete(), False)
    named = {name: value for name, value, _ in fields.items}
    assert {tool: named[tool] for tool in ("kiln", "build", "llvm")} == _kiln.toolchain()
    assert named["build"] and named["metadata"].isdigit() and named["assembler"] == "none"
    for at, (name, value, size) in enumerate(fields.items):
        other = list(fields.items)
        other[at] = (name, value + "'", size)
        assert _kiln.Fields.of_items(other).key("artifact") != fields.key("artifact"), name
    assert _kiln.Fields.of_items(fields.items).key("artifact") == fields.key("artifact")


def test_a_compiler_that_differs_from_the_keys_is_not_loaded(tmp_path):
    """The compiler's file was replaced after a key had been made."""
    package = pathlib.Path(kiln.__file__).parent
    (tmp_path / "kiln").mkdir()
    for file in package.iterdir():
        copy = tmp_path / "kiln" / file.name
        if file.name.startswith(("_kiln.", "_compiler.")) and file.suffix == ".so":
            shutil.copy(file, copy)
        else:
            copy.symlink_to(file)
    program = """
import pathlib, sys
from kiln import _kiln
id = bytes.fromhex(_kiln.toolchain()["build"])
(path,) = pathlib.Path(_kiln.__file__).parent.glob("_compiler.*.so")
if len(sys.argv) > 1:
    image = path.read_bytes()
    path.unlink()
    path.write_bytes(image.replace(id, bytes(20)))
try:
    print(_kiln.stages())
except ImportError as problem:
    print(problem)
"""
    for arguments, said in ([], "('tile', "), (["replaced"], "expected the compiler that this process began with"):
        command = [sys.executable, "-c", program, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert said in run.stdout, run.stderr


def test_tool_paths_and_debugging_options_do_not_change_the_key(tmp_path):
    module = make(COPY, tmp_path)
    library, copy = tmp_path / "one.bc", tmp_path / "elsewhere" / "two.bc"
    library.write_bytes(b"code")
    copy.parent.mkdir()
    shutil.copy(library, copy)
    a = {"ptxas": "/a/ptxas", "ptxas_version": "13.0.88", "libdevice": str(library)}
    b = {"ptxas": "/b/ptxas", "ptxas_version": "13.0.88", "libdevice": str(copy), "verify_each": True,
         "dump_directory": "/d", "crash_directory": "/c"}  # fmt: skip
    assert key(module, **a) == key(module, **b)


def compiled(module, **options):
    artifact = _kiln.compile(module, complete(**options))
    return artifact.binary, artifact.metadata, artifact.key


def test_a_comment_and_a_moved_file_change_neither_key_nor_bytes(tmp_path):
    first = compiled(make(COPY, tmp_path))
    commented = COPY.replace("    i =", "    # what it is about\n    i =") + "\n# the end\n"
    for other in (
        make(commented, tmp_path),
        make("\n\n\n" + COPY, tmp_path / "deep" / "er", file="moved.py"),
    ):
        assert compiled(other) == first


def test_positions_are_in_the_key_only_if_code_can_observe_them(tmp_path):
    module, moved = make(PRINT, tmp_path), make(PRINT, tmp_path / "other")
    assert compiled(module)[1] != compiled(moved)[1], "its metadata names the file"
    assert compiled(module)[2] != compiled(moved)[2]
    assert compiled(module)[2] == key(module, located=True) == compiled(make(PRINT, tmp_path))[2]
    plain, elsewhere = make(COPY, tmp_path), make(COPY, tmp_path / "other")
    for options in ({"check": "bounds"}, {"line_info": True}):
        assert compiled(plain, **options)[2] != compiled(elsewhere, **options)[2]
        assert compiled(plain, **options)[2] == key(plain, located=True, **options)


def test_restored_code_says_what_was_compiled(tmp_path):
    for text in (COPY, PRINT):
        module = make(text, tmp_path)
        artifact = _kiln.compile(module, complete())
        fields, tile = _kiln.artifact_fields(module, complete(), artifact.located)
        again = _kiln.restore(tile, complete(), artifact.binary, artifact.metadata, "")
        assert again.key == artifact.key == fields.key("artifact")
        assert (again.binary, again.metadata, again.stages) == (artifact.binary, artifact.metadata, artifact.stages)
        for stage in ("llvm", "asm"):
            assert again.text(stage) == artifact.text(stage)
        assert again.fields.items == artifact.fields.items


# -- the index: what a change of must be a miss ---------------------------------------------------

PROGRAM = """
import sys
import numpy as np
import kiln
import kiln.language as kl
import constants
from helpers import outer

events = []
kiln.hooks.compile_end.add(lambda event: events.append(event.cached))
GLOBAL: kl.constexpr = 3
TYPE = kl.float32
PAIR = (kl.constexpr(0), kl.constexpr(9))
FUNCTION = kl.abs

@kiln.constexpr_function
def twice(n):
    return n * constants.FACTOR

def make(closed):
    closed = kl.constexpr(closed)

    @kiln.jit
    def kernel(x, y, n, BLOCK: kl.constexpr, F: kl.constexpr = None):
        i = kl.arange(0, BLOCK)
        v = kl.load(x + i, mask=i < n)
        v = outer(v) * GLOBAL + constants.OFFSET + closed + twice(BLOCK) + PAIR[0]
        v = FUNCTION(v)
        if F is not None:
            v = F(v)
        kl.store(y + i, v.to(TYPE), mask=i < n)

    return kernel

@kiln.jit
def square(v):
    return v * v

kernel = make(7)
x = np.arange(32, dtype=np.float32)
y = np.zeros(32, np.float32)
kernel[(1,)](x, y, 32, BLOCK=32, F=square)
"""
END = """
print(events[0], float(y.sum()))
"""
HELPERS = """
import kiln
import kiln.language as kl
from inner import innermost

@kiln.jit
def outer(v):
    return innermost(v) + 1
"""
INNER = """
import kiln
import kiln.language as kl

DEEP = kl.constexpr(2)

@kiln.jit
def innermost(v):
    return v * DEEP
"""
CONSTANTS = """
import kiln.language as kl
OFFSET = kl.constexpr(5)
FACTOR = 2
"""


def run(place, **edits):
    """Whether the cache had it, and the sum; `edits`: text → text, applied to every file."""
    files = {"program.py": PROGRAM + END, "helpers.py": HELPERS, "inner.py": INNER, "constants.py": CONSTANTS}
    for name, text in files.items():
        for before, after in edits.get("edits", {}).items():
            text = text.replace(before, after)
        place.write(text, name)
    switches = {name: value for name, value in edits.items() if name != "edits"}
    cached, total = place.run(path=place.folder / "program.py", **switches).split()
    return cached == "True", float(total)


CHANGES = {
    "the kernel": {"outer(v) * GLOBAL": "outer(v) * GLOBAL * 2"},
    "a global": {"GLOBAL: kl.constexpr = 3": "GLOBAL: kl.constexpr = 4"},
    "the type of a global": {"TYPE = kl.float32": "TYPE = kl.float16"},
    "a tuple of constants": {"(kl.constexpr(0), kl": "(kl.constexpr(1), kl"},
    "a function by another name": {"FUNCTION = kl.abs": "FUNCTION = kl.sqrt"},
    "a variable of the enclosing function": {"make(7)": "make(8)"},
    "a global of another module": {"OFFSET = kl.constexpr(5)": "OFFSET = kl.constexpr(6)"},
    "what a constexpr function does": {"n * constants": "n + constants"},
    "a helper": {"innermost(v) + 1": "innermost(v) + 2"},
    "a helper's helper": {"v * DEEP": "v * DEEP * 2"},
    "a global of a helper's helper": {"DEEP = kl.constexpr(2)": "DEEP = kl.constexpr(3)"},
    "a function that is an argument": {"return v * v": "return v * v * v"},
    "the default of an argument of it": {"def square(v):\n    return v * v": "def square(v, k=2):\n    return v * k"},
    "an argument": {"n, BLOCK=32, F": "n, BLOCK=32, F", "x, y, 32, BLOCK": "x, y, 31, BLOCK"},
    "a constant": {"BLOCK=32, F=square)": "BLOCK=64, F=square)"},
    "a launch option": {"F=square)": "F=square, num_warps=8)"},
}


def test_every_change_of_reachable_code_is_noticed(place):
    # A constexpr function that reads a module has no index entry; with its factor as a constant it has one.
    exact = {"n * constants.FACTOR": "n * 2"}
    assert run(place, edits=exact)[0] is False
    had, total = run(place, edits=exact)
    assert had is True
    plain = sum(((v * 2 + 1) * 3 + 5 + 7 + 64) ** 2 for v in range(32))
    assert total == pytest.approx(plain, rel=1e-5)
    for what, edits in CHANGES.items():
        edits = {**exact, **{k: v.replace("constants", "2") if "n +" in v else v for k, v in edits.items()}}
        if what == "what a constexpr function does":
            edits = {"n * constants.FACTOR": "n + 2"}
        had, other = run(place, edits=edits)
        assert had is False, what
        assert run(place, edits=edits) == (True, other), what
    assert run(place, edits=exact) == (True, total)


def test_switches_that_decide_code_are_seen(place):
    exact = {"n * constants.FACTOR": "n * 2"}
    for switches in ({}, {"kiln_check": "bounds"}, {"kiln_device_assert": 0}, {"kiln_line_info": 1},
                     {"kiln_target": "cpu-avx2"}):  # fmt: skip
        assert run(place, edits=exact, **switches)[0] is (switches == {"kiln_device_assert": 0}), switches
        assert run(place, edits=exact, **switches)[0] is True, switches


def test_values_read_by_an_opaque_function_are_never_assumed_known(place):
    assert run(place) == (False, run(place)[1])
    had, total = run(place)
    assert had is True, "found by its IR"
    changed = {"FACTOR = 2": "FACTOR = 3"}
    assert run(place, edits=changed)[0] is False and run(place, edits=changed)[1] != total


def test_comments_and_file_paths_cause_no_recompile(place):
    assert run(place)[0] is False
    artifacts = {entry["key"] for entry in place.entries()}
    for edits in (
        {"i = kl.arange(0, BLOCK)": "i = kl.arange(0, BLOCK)  # of this block"},
        {"import constants\n": "import constants\n\n\n# moved\n"},
        {"DEEP = kl": "# deep\nDEEP = kl"},
    ):
        assert run(place, edits=edits)[0] is True
    place.folder = place.folder / "moved"
    assert run(place)[0] is True
    assert {entry["key"] for entry in place.entries()} == artifacts


def test_the_front_end_is_part_of_the_index(tmp_path, monkeypatch):
    from kiln.frontend import identity

    monkeypatch.setattr(identity, "folder", lambda: str(tmp_path))
    for part in identity._PARTS:
        (tmp_path / part).mkdir(parents=True, exist_ok=True)
    file = tmp_path / "language" / "core.py"
    digests = []
    for text in ("one", "two"):
        file.write_text(text)
        monkeypatch.setattr(identity, "AT_IMPORT", identity.stamps())
        digests.append(identity.digest())
    assert len({*digests, ""}) == 3
    file.write_text("three, after this process had loaded it")
    assert not identity.is_current() and identity.digest() == ""


@jit
def plain(x, d, n, BLOCK):
    pass


def index_key(kernel=plain, changed=None, options=None, disjoint=(True, False), **others):
    """The key of an index entry; `changed`: fields of the parameter n, or of the parameters named."""
    from kiln.runtime import cache

    parameters = [
        Parameter("x", "runtime", type="*fp32", divisible=True),
        Parameter("d", "runtime", type="tensordesc<fp32[8,8]>"),
        Parameter("n", "runtime", type="i32"),
        Parameter("BLOCK", "constexpr", value=(1, 2)),
    ]
    parameters = [p._replace(**(changed or {}).get(p.name, {})) for p in parameters]
    lookup = cache.Lookup(kernel, parameters, complete(**(options or {})), disjoint)
    assert not lookup.inexact
    return _kiln.Fields(lookup._fields).key("index")


def test_every_input_of_an_index_entry_changes_its_key(monkeypatch):
    from kiln.runtime import cache

    def variant(**attributes):
        kernel = jit(plain.fn, do_not_specialize=attributes.pop("do_not_specialize", ()),
                     noinline=attributes.pop("noinline", False))  # fmt: skip
        for name, value in attributes.items():
            setattr(kernel, name, value)
        return kernel

    keys = [index_key(), index_key(variant())]  # the second finds the first under its name
    assert keys == [index_key(options={"verify_each": True, "crash_directory": "/c"}), index_key(variant())]
    for changes in (
        {"x": {"divisible": False}}, {"x": {"type": "*fp16"}}, {"d": {"padding": "nan"}}, {"d": {"divisible": True}},
        {"d": {"whole_rows": True}}, {"n": {"divisor": 8}}, {"n": {"divisible": True}}, {"n": {"type": "i64"}},
        {"n": {"kind": "constexpr", "value": 3}}, {"n": {"kind": "constexpr", "value": 3.0}},
        {"n": {"kind": "constexpr", "value": True}}, {"n": {"kind": "constexpr", "value": None}},
        {"BLOCK": {"value": (1, 3)}}, {"BLOCK": {"value": [1, 2]}},
        {"n": {"kind": "tuple", "items": (Parameter("n.0", "runtime", type="i32"),)}},
        {"n": {"kind": "tuple", "items": (Parameter("n.0", "runtime", type="i32"),), "fields": ("a",)}},
    ):  # fmt: skip
        keys.append(index_key(changed=changes))
    for disjoint in ((), (False, False), (True, True), (False, True)):
        keys.append(index_key(disjoint=disjoint))
    for options in ({"check": "bounds"}, {"line_info": True}, {"target": "cpu-sse"}, {"num_warps": 8}, {"maxnreg": 32},
                    {"schedule": "none"}, {"ptx_version": 80}, {"ptxas_version": "13.0.88"},
                    {"debug": True}):  # fmt: skip
        keys.append(index_key(options=options))
    for attributes in ({"version": 1}, {"version": "1"}, {"debug": True}, {"noinline": True},
                       {"do_not_specialize": ("n",)}):  # fmt: skip
        keys.append(index_key(variant(**attributes)))
    with knobs.scope(device_assert=False):
        keys.append(index_key())
    with monkeypatch.context() as patch:
        patch.setattr(cache, "front_end", lambda: "another front end")
        keys.append(index_key())
    for tool in _kiln.toolchain():
        tools = {**_kiln.toolchain(), tool: "another"}
        with monkeypatch.context() as patch:
            patch.setattr(_kiln, "toolchain", lambda tools=tools: tools)
            keys.append(index_key())
    with monkeypatch.context() as patch:
        patch.setattr("sys.version_info", (3, 99))
        keys.append(index_key())
    assert len(set(keys)) == len(keys)
    from kiln.runtime.cache import Lookup

    assert Lookup(variant(version=object()), [], complete(), ()).inexact, "nobody can tell it from another"


def test_a_function_named_only_in_a_comment_needs_no_source():
    names = {"jit": jit}
    exec(compile(chr(10).join(["def helper(x):", "    pass"]), "<nowhere>", "exec"), names)  # its text is kept nowhere
    helper = jit(names["helper"])
    kernel = jit(commented.fn)
    kernel.fn.__globals__["helper_without_source"] = helper
    try:
        assert any("source cannot be found" in reason for reason in kernel.reach.inexact)
    finally:
        del kernel.fn.__globals__["helper_without_source"]
    assert not jit(commented.fn).reach.inexact


@jit
def commented(x):
    # not helper_without_source
    pass


# -- values ---------------------------------------------------------------------------------------


def test_values_that_differ_have_texts_that_differ():
    from collections import namedtuple

    import kiln.language as kl
    from kiln.frontend.function import Spelling

    a, b = namedtuple("a", ["x"]), namedtuple("a", ["y"])
    values = [None, True, 1, 1.0, "1", b"1", 0.0, -0.0, float("nan"), float("inf"), (1,), [1], (1, 1), ((1,), 1), "",
              kl.constexpr(1), kl.float32, kl.float16, kl.int32, kl.pointer_type(kl.float32), kl.exp, kl.sqrt,
              kl.pointer_type(kl.float32, const=True), a(1), b(1), int, float, "None", "int 1", 10**30, 1j]  # fmt: skip
    spelling = Spelling([])
    texts = [spelling.of(value) for value in values]
    assert not spelling.inexact
    for (v, s), (w, t) in itertools.combinations(zip(values, texts, strict=True), 2):
        assert s != t, (v, w)
    for value in (object(), {1}, lambda: open, knobs):
        fresh = Spelling([])
        fresh.of(value)
        assert fresh.inexact, value
