"""Structs: declaring them, passing them to kernels, making them in kernels, and error messages."""

from __future__ import annotations

import pickle
import sys
from typing import Any, NamedTuple

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors
from kiln.cli.signature import parse_signature
from kiln.frontend.struct import is_struct

# ruff: noqa: E501
STEP = kl.constexpr(1)


@kiln.jit
def plus_step(value):
    return value + STEP


@kiln.struct
class Rows:
    """Rows of a matrix."""

    data: Any
    stride: Any
    columns: Any
    FULL: kl.constexpr = False

    SIDE = kl.constexpr(4)
    LOOSE = 4

    @kiln.jit
    def load(self, row, BLOCK: kl.constexpr):
        at = kl.arange(0, BLOCK)
        at += row * self.stride
        if self.FULL:
            return kl.load(self.data + at)
        return kl.load(self.data + at, mask=at < row * self.stride + self.columns, other=0.0)

    @kiln.jit
    def store(self, row, value):
        at = kl.arange(0, value.shape[0])
        kl.store(self.data + row * self.stride + at, value, mask=at < self.columns)

    @property
    @kiln.jit
    def bytes(self):
        return self.stride * 4

    @property
    def host_bytes(self):
        return self.stride * 4

    @staticmethod
    @kiln.jit
    def double(value):
        return value * 2

    def helper(self):
        return self.columns

    @classmethod
    def of(cls, array):
        return cls(array, array.shape[1], array.shape[1])


@kiln.struct
class Pair:
    left: Rows
    right: Rows
    HOW: kl.constexpr = "sum"

    @kiln.jit
    def load(self, row, BLOCK: kl.constexpr):
        left, right = self.left.load(row, BLOCK), self.right.load(row, BLOCK)
        return left + right if self.HOW == "sum" else left * right


class Scaled(NamedTuple):
    data: Any
    values: Any = 2.0
    FIRST: kl.constexpr = 0

    @kiln.jit
    def read(self):
        return kl.load(self.data + self.FIRST) * self.values


@kiln.struct
class Other:
    data: Any
    stride: Any
    columns: Any
    FULL: kl.constexpr = False

    @kiln.jit
    def load(self, row, BLOCK: kl.constexpr):
        return kl.full((BLOCK,), 7.0, kl.float32)


@kiln.jit
def combine(pair: Pair, out: Rows, BLOCK: kl.constexpr):
    row = kl.program_id(0)
    out.store(row, pair.load(row, BLOCK))


@kiln.jit
def first_row(x, out, BLOCK: kl.constexpr):
    kl.store(out + kl.arange(0, BLOCK), x.load(0, BLOCK))


def matrix(fill=None):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    return x if fill is None else np.full_like(x, fill)


# ---- what they are -------------------------------------------------------------------------------
def test_a_struct_is_a_named_tuple():
    rows = Rows(1, 2, columns=3)
    assert rows == (1, 2, 3, False) and rows.columns == 3 and rows._replace(FULL=True).FULL
    assert repr(rows) == "Rows(data=1, stride=2, columns=3, FULL=False)" and Rows.__doc__ == "Rows of a matrix."
    assert rows.bytes == 8 and rows.helper() == 3 and Rows.of(matrix()).stride == 4
    with pytest.raises(AttributeError):
        rows.columns = 4
    with pytest.raises(errors.UsageError, match="load is a jit function"):
        rows.load(0, 4)


def test_structs_are_pickled_and_hashed_by_their_fields():
    pair = Pair(Rows(1, 2, 3), Rows(4, 5, 6), "product")
    again = pickle.loads(pickle.dumps(pair))
    assert again == pair and type(again) is Pair and type(again.left) is Rows and hash(again) == hash(pair)


def test_named_tuples_with_methods_or_constexprs_are_structs():
    class Plain(NamedTuple):
        data: Any

    class Known(NamedTuple):
        N: kl.constexpr

    assert is_struct(Scaled) and is_struct(Known) and not is_struct(Plain) and not is_struct(tuple)
    assert kiln.struct(Plain) is Plain and is_struct(Plain)


# ---- as arguments --------------------------------------------------------------------------------
def test_methods_properties_and_nested_structs():
    x, y, out = matrix(), matrix(1), matrix(0)
    combine[3](Pair(Rows(x, 4, 4), Rows(y, 4, 3)), Rows(out, 4, 3), BLOCK=4)
    assert (out[:, :3] == x[:, :3] + 1).all() and (out[:, 3] == 0).all()
    compiled = combine[3](Pair(Rows(x, 4, 4), Rows(x, 4, 4), "product"), Rows(out, 4, 4), BLOCK=4)
    assert (out == x * x).all()
    assert compiled.signature == (
        "pair=Pair(Rows(*fp32:16, i32, i32, False), Rows(*fp32:16, i32, i32, False), 'product'), "
        "out=Rows(*fp32:16, i32, i32, False), BLOCK=4"
    )
    assert '"pair.left.data"' in compiled.asm["tile"]


def test_constexpr_fields_specialise_and_others_do_not():
    x, out = matrix(), np.zeros(4, np.float32)
    compiled = first_row[1](Rows(x, 4, 3), out, 4)
    assert out.tolist() == [0, 1, 2, 0]
    assert first_row[1](Rows(x, 5, 2), out, 4) is compiled and out.tolist() == [0, 1, 0, 0]
    assert first_row[1](Rows(x, 4, 3, True), out, 4) is not compiled and out.tolist() == [0, 1, 2, 3]
    # Numbers in constexpr fields keep their exact value: 16 is not "some multiple of 16", 1.0 is not 1.
    scaled = {N: read_scaled[1](Scaled(x, 2.0, N), out) for N in (0, 3)}
    assert scaled[0] is not scaled[3] and out[0] == 6


@kiln.jit
def read_scaled(x, out):
    kl.store(out, x.read())


def test_named_tuples_with_methods_and_fields_of_any_name():
    # Its field `values` hides the attribute `values` of the language's tuples.
    x, out = np.array([3.0, 5.0], np.float32), np.zeros(1, np.float32)
    read_scaled[1](Scaled(x, 4.0, 1), out)
    assert out[0] == 20


def test_the_class_decides_which_methods_are_meant():
    x, out = matrix(), np.zeros(4, np.float32)
    first_row[1](Rows(x, 4, 4), out, 4)
    assert out.tolist() == [0, 1, 2, 3]
    first_row[1](Other(x, 4, 4), out, 4)
    assert out.tolist() == [7, 7, 7, 7]
    first_row[1](Rows(x, 4, 4), out, 4)
    assert out.tolist() == [0, 1, 2, 3]


def test_structs_as_constants():
    @kiln.struct
    class Plan:
        BLOCK: kl.constexpr
        SCALE: kl.constexpr = 1.0

        @kiln.jit
        def tile(self):
            return kl.arange(0, self.BLOCK) * self.SCALE

    plan = kl.constexpr(Plan(4, 3.0))

    @kiln.jit
    def kernel(out, PLAN: kl.constexpr):
        kept = PLAN
        kl.store(out + kl.arange(0, kept.BLOCK), kept.tile() + plan.SCALE)

    out = np.zeros(8, np.float32)
    compiled = kernel[1](out, Plan(8, 2.0))
    assert out.tolist() == [3.0 + 2 * i for i in range(8)] and "PLAN=Plan(8, 2.0)" in compiled.signature
    assert kernel[1](out, Plan(8, 2.0)) is compiled and kernel[1](out, Plan(4)) is not compiled


def test_changed_globals_of_methods_are_noticed(monkeypatch):
    @kiln.struct
    class Box:
        value: Any

        @kiln.jit
        def stepped(self):
            return plus_step(self.value)

    @kiln.jit
    def kernel(out, box):
        kl.store(out, box.stepped())

    @kiln.jit
    def makes_its_own(out, value):
        kl.store(out, Box(value).stepped())

    out = np.zeros(1, np.int32)
    for step in (1, 10):
        monkeypatch.setitem(globals(), "STEP", kl.constexpr(step))
        for launch in (lambda: kernel[1](out, Box(5)), lambda: makes_its_own[1](out, 5)):
            out[0] = 0
            launch()
            assert out[0] == 5 + step


def test_another_class_under_the_same_name_is_noticed():
    def box(amount):
        @kiln.struct
        class Box:
            value: Any

            @kiln.jit
            def get(self):
                return self.value + amount

        return Box

    amounts = [kl.constexpr(1), kl.constexpr(2)]
    Box = box(amounts[0])

    @kiln.jit
    def kernel(out, value):
        kl.store(out, Box(value).get())

    out = np.zeros(1, np.int32)
    kernel[1](out, 5)
    assert out[0] == 6
    before = kernel.cache_key
    Box = box(amounts[1])
    kernel[1](out, 5)
    assert out[0] == 7 and kernel.cache_key != before


# ---- in kernels ----------------------------------------------------------------------------------
def test_made_and_replaced_in_a_kernel():
    @kiln.jit
    def kernel(data, out, n):
        rows = Rows(data, 4, columns=n)
        again = rows._replace(columns=n - 1)
        kl.store(out, kl.sum(again.load(0, Rows.SIDE), axis=0))
        kl.store(out + 1, Rows.double(rows.bytes).to(kl.float32))
        kl.store(out + 2, getattr(rows, "columns").to(kl.float32))  # noqa: B009
        if hasattr(rows, "load") and not hasattr(rows, "nothing") and isinstance(rows, Rows):
            kl.store(out + 3, 1.0)

    out = np.zeros(4, np.float32)
    kernel[1](matrix(), out, 3)
    assert out.tolist() == [1, 32, 3, 1]


def test_carried_through_loops_and_branches():
    @kiln.jit
    def kernel(rows: Rows, out, n):
        for _ in range(n):
            rows = rows._replace(columns=rows.columns + 1)
        other = rows._replace(stride=7) if n > 2 else rows._replace(stride=8)
        kl.store(out, other.columns)
        kl.store(out + 1, other.bytes)

    out = np.zeros(2, np.int32)
    for n, stride in ((3, 7), (2, 8)):
        kernel[1](Rows(matrix(), 4, 10), out, n)
        assert out.tolist() == [10 + n, 4 * stride]


def test_structs_returned_by_functions():
    @kiln.jit
    def halves(rows):
        return rows._replace(columns=2), Rows(rows.data + 2, rows.stride, 2)

    @kiln.jit
    def kernel(rows: Rows, out):
        left, right = halves(rows)
        kl.store(out, kl.sum(left.load(0, 4), axis=0))
        kl.store(out + 1, kl.sum(right.load(0, 4), axis=0))

    out = np.zeros(2, np.float32)
    kernel[1](Rows(matrix(), 4, 4), out)
    assert out.tolist() == [1, 5]


# ---- mistakes ------------------------------------------------------------------------------------
# body, what the caret marks, message, hint
MISTAKES = [
    ("y = x.colums", "x.colums", "a Rows has no field or method colums", "did you mean columns?"),
    ("y = x.zzz", "x.zzz", "a Rows has no field or method zzz", "its fields are data, stride, columns, FULL"),
    ("y = x.values", "x.values", "a Rows has no field or method values", None),
    ("y = x.count", "x.count", "a Rows has no field or method count", None),
    ("y = x.lod(0, 4)", "x.lod", "a Rows has no field or method lod", "did you mean load?"),
    ("y = x.helper()", "x.helper", "expected a jit function (because only those are compiled), got helper, a Python method of Rows", "decorate helper with @kiln.jit"),
    ("y = x.of(x)", "x.of", "got of, a Python method of Rows", "@kiln.jit"),
    ("y = x.host_bytes", "x.host_bytes", "expected a property of a jit function (because only those are compiled), got host_bytes", "put @kiln.jit between @property and def"),
    ("y = x.LOOSE", "x.LOOSE", "expected a constexpr (because a kernel is compiled once and a later change would go unnoticed), got LOOSE", "write LOOSE = kl.constexpr(4)"),
    ("y = x.load(0)", "x.load(0)", "expected 1 more argument of load(self, row, BLOCK), got none for BLOCK", None),
    ("y = x.load(0, 4, 5)", "x.load(0, 4, 5)", "expected at most 3 arguments of load(self, row, BLOCK), got 4", None),
    ("y = x.load(0, BLOK=4)", "BLOK=4", "load has no parameter BLOK", "did you mean BLOCK?"),
    ("y = Rows(x.data, columns=3)", "Rows(x.data, columns=3)", "expected 1 more field of Rows(data, stride, columns, FULL), got none for stride", None),
    ("y = Rows(x.data, 1, 2, True, 5)", "Rows(x.data, 1, 2, True, 5)", "expected at most 4 fields of Rows(data, stride, columns, FULL), got 5", None),
    ("y = Rows(x.data, 1, 2, FUL=True)", "FUL=True", "Rows has no field FUL", "did you mean FULL?"),
    ("y = Rows(x.data, 1, 2, stride=3)", "3", "field stride of Rows is given twice", None),
    ("y = Rows(x.data, 1, 2, n > 3)", "n > 3", "expected a constexpr for field FULL of Rows (because it is annotated so), got int1", "annotate what it comes from with kl.constexpr"),
    ("y = x._replace(colums=3)", "colums=3", "Rows has no field colums", "did you mean columns?"),
    ("y = x._replace(FULL=n > 3)", "n > 3", "expected a constexpr for field FULL of Rows", None),
    ("x.columns = 3", "x.columns", "expected a name to assign to (because a struct is a value: its fields do not change), got columns of x, a Rows", "x = x._replace(columns=...)"),
    ("x.columns += 3", "x.columns", "its fields do not change", "x = x._replace(columns=...)"),
    ("x.zzz = 3", "x.zzz", "its fields do not change", "its fields are data, stride, columns, FULL"),
    ("for i in range(n):\n        x = Other(x.data, x.stride, x.columns)", "x", "expected x to keep its type through the loop", None),
    ("y = x if n > 2 else Other(x.data, x.stride, x.columns)", "x if n > 2 else Other(x.data, x.stride, x.columns)", "expected both sides of the conditional expression to have one type", None),
]  # fmt: skip


@pytest.mark.parametrize(("body", "caret", "message", "hint"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_mistakes_are_explained_at_the_users_line(tmp_path, monkeypatch, body, caret, message, hint):
    file = tmp_path / "mistaken.py"
    file.write_text(
        "import kiln\nimport kiln.language as kl\nfrom test_struct import Rows, Other\n\n"
        f"@kiln.jit\ndef kernel(x: Rows, n):\n    {body}\n"
    )
    names: dict[str, Any] = {"__name__": "mistaken"}
    monkeypatch.setitem(sys.modules, "test_struct", sys.modules[__name__])
    exec(compile(file.read_text(), str(file), "exec"), names)
    with pytest.raises(errors.CompilationError) as found:
        names["kernel"][1](Rows(matrix(), 4, 4), 5)
    error = found.value
    assert message in error.message and error.frames[0].file == str(file)
    place = error.frames[0]
    assert place.line >= 7 and place.text[place.column - 1 : place.end_column - 1] == caret
    assert hint is None or hint in (error.hint or "")


def test_mistakes_at_a_launch_name_the_field():
    x, out = matrix(), np.zeros(4, np.float32)
    for pair, words in [
        (Pair(Rows(object(), 4, 4), Rows(x, 4, 4)), "argument 'pair': field left.data: expected an array"),
        (Pair(Rows(x, 4, 4), Rows(x, 4, 4, x)), "argument 'pair': field right.FULL: expected a value known while"),
        (Pair(Rows(x, 1 << 70, 4), Rows(x, 4, 4)), "field left.stride: expected an integer of at most 64 bits"),
        (tuple.__new__(Pair, (Rows(x, 4, 4),)), "argument 'pair': expected 3 fields, got 1"),
    ]:
        with pytest.raises(errors.LaunchError, match=words):
            combine[1](pair, Rows(out, 4, 4), BLOCK=4)
    with pytest.raises(errors.CompilationError, match=r"\(pointer<fp32>, int32\) has no attribute load|no attribute"):
        first_row[1]((x, 4), out, 4)
    out.flags.writeable = False
    with pytest.raises(errors.LaunchError, match=r"'out.data': expected an array that may be written"):
        combine[1](Pair(Rows(x, 4, 4), Rows(x, 4, 4)), Rows(out, 4, 4), BLOCK=4)


def declare(body: str, head: str = "class Box:"):
    lines = "\n    ".join(body.split("\n"))
    names: dict[str, Any] = {"Any": Any, "kl": kl, "__name__": "declared"}
    exec(f"{head}\n    {lines}\n", names)
    return kiln.struct(names["Box"])


@pytest.mark.parametrize(
    ("body", "head", "message"),
    [
        ("pass", "class Box:", "struct Box: expected fields, got none"),
        ("a: Any = 1\nb: Any", "class Box:", "expected a default for b"),
        ("_a: Any", "class Box:", "expected the name of a field, got '_a'"),
        ("a: Any\ndef __init__(self): pass", "class Box:", "expected no __init__"),
        ("a: Any\ndef __getattr__(self, name): pass", "class Box:", "expected no __getattr__"),
        ("a: Any", "class Box(dict):", "expected a class without bases .*, got dict"),
        ("return None", "def Box():", "struct: expected a class, got <function"),
    ],
)
def test_wrong_declarations(body, head, message):
    with pytest.raises(errors.UsageError, match=message):
        declare(body, head)


# ---- everywhere else -----------------------------------------------------------------------------
def test_signatures_can_name_structs():
    pair = "Pair(Rows(data=*fp32:16, stride=i32, columns=1), (*fp32, i32:16, i32, True))"
    written = f"pair={pair}, out=(*fp32:16, 4, 4), BLOCK=16"
    found = parse_signature(written, combine)
    assert found[0].cls is Pair and found[0].items[0].cls is Rows and found[1].cls is Rows
    assert found[0].items[1].items[3].value is True and found[0].items[2].value == "sum"
    compiled = combine[1](Pair(Rows(matrix(), 4, 4), Rows(matrix(), 4, 4)), Rows(matrix(), 4, 4), BLOCK=4)
    assert tuple(parse_signature(compiled.signature, combine)) == compiled.parameters
    for mistake, words in [
        ("out=Rows(*fp32, i32, i32, i32, i32)", "'out': expected at most 4 fields of Rows, got 5"),
        ("out=Rows(dat=*fp32)", "Rows has no field 'dat'; did you mean 'data'"),
        ("out=Rows(*fp32, data=*fp32)", "field 'data' is given twice"),
        ("out=Rows(*fp32)", "expected a type or a value for field 'stride', got none"),
        ("out=Rows(*fp32, i32, i32, i32)", "expected a value for 'out.FULL' .because it is constexpr., got 'i32'"),
        ("out=Row(*fp32)", "expected the name of a struct that the module of combine has, got 'Row'"),
    ]:
        with pytest.raises(errors.UserError, match=words):
            parse_signature(f"pair=Pair((*fp32, 1, 1), (*fp32, 1, 1)), {mistake}, BLOCK=4", combine)


def test_strides_of_descriptors_are_found_through_methods():
    @kiln.struct
    class Matrix:
        data: Any
        rows: Any
        pitch: Any

        @kiln.jit
        def blocks(self):
            return kl.make_tensor_descriptor(self.data, [self.rows, 16], [self.pitch, 1], [4, 16])

    @kiln.jit
    def copy(x, out):
        out.blocks().store([0, 0], x.blocks().load([0, 0]))

    x, out = np.arange(4 * 64).astype(np.float16), np.zeros(4 * 64, np.float16)
    compiled = copy[1](Matrix(x, 24, 24), Matrix(out, 4, 20))
    assert compiled.signature == "x=Matrix(*fp16:16, i32, i32:8), out=Matrix(*fp16:16, i32, i32:4)"


def test_tuning_by_fields():
    seen = []

    @kiln.autotune(
        configs=[kiln.Config({"BLOCK": 4}), kiln.Config({"BLOCK": 8})], key=["x.columns"], restore_value=["out.data"],
        do_bench=lambda launch, quantiles: (launch(), seen.append(1), [1.0] * 3)[-1],
    )  # fmt: skip
    @kiln.jit
    def tuned(x: Rows, out: Rows, BLOCK: kl.constexpr):
        out.store(0, x.load(0, BLOCK) + out.load(0, BLOCK))

    x, out = matrix(1), matrix(0)
    tuned[1](Rows(x, 4, 4), Rows(out, 4, 4))
    assert len(seen) == 2 and out[0].tolist() == [1, 1, 1, 1]
    tuned[1](Rows(x, 9, 4), Rows(out, 4, 4))
    assert len(seen) == 2
    tuned[1](Rows(x, 4, 3), Rows(out, 4, 4))
    assert len(seen) == 4
    # Another element type is another key, even for arrays inside structs.
    tuned[1](Rows(x.astype(np.float16), 4, 3), Rows(out, 4, 4))
    assert len(seen) == 6
    with pytest.raises(errors.UsageError, match=r"expected the name of a parameter, got 'z\.columns'"):
        kiln.autotune(configs=[], key=["z.columns"])(tuned.fn)


def test_hooks_warm_ups_and_compiled_kernels_take_them():
    from kiln import hooks

    x, out = matrix(), matrix(0)
    events = []
    hooks.launch_enter.add(events.append)
    try:
        compiled = combine[3](Pair(Rows(x, 4, 4), Rows(x, 4, 4)), Rows(out, 4, 4), BLOCK=4)
    finally:
        hooks.launch_enter.remove(events.append)
    out[:] = 0
    compiled[3](Pair(Rows(x, 4, 4), Rows(x, 4, 4)), Rows(out, 4, 4))
    assert (out == 2 * x).all() and len(events) == 1
    with pytest.raises(errors.LaunchError, match=r"expected a Rows .* got a Other"):
        compiled[3](Pair(Other(x, 4, 4), Rows(x, 4, 4)), Rows(out, 4, 4))
    warm = combine.warmup(Pair(Rows(kl.float32, 4, 4), Rows(kl.float32, 4, 4)), Rows(kl.float32, 4, 4), BLOCK=4)
    assert warm.signature == compiled.signature


def test_overlap_is_seen_in_structs():
    x, out = matrix(), matrix(0)
    apart = combine[1](Pair(Rows(x, 4, 4), Rows(matrix(), 4, 4)), Rows(out, 4, 4), BLOCK=4)
    assert apart.disjoint == "pair.left.data,pair.right.data,out.data"
    assert combine[1](Pair(Rows(x, 4, 4), Rows(matrix(), 4, 4)), Rows(x, 4, 4), BLOCK=4).disjoint == "pair.right.data"


class Plain(NamedTuple):
    data: Any
    shape: tuple
    step: int = 2


def test_a_plain_named_tuple_is_made_in_a_kernel():
    @kiln.jit
    def make(data, shape):
        return Plain(shape=shape, data=data)

    @kiln.jit
    def kernel(x, out):
        made = make(x.data, (x.shape[0], 3))
        if x.shape[0] > 2:
            made = Plain(x.data + 1, made.shape, made.step)
        kl.store(out, kl.load(made.data) * made.step + made.shape[0] * 100 + made.shape[1])

    out = np.zeros(1, np.float32)
    kernel[1](Plain(matrix(), (5, 3)), out)
    assert out[0] == 1 * 2 + 500 + 3


def test_field_defaults_are_part_of_the_key():
    def steps(default):
        class Step(NamedTuple):
            data: Any
            step: int = default

        return Step

    Step = steps(2)

    @kiln.jit
    def kernel(x, out):
        kl.store(out, Step(x).step)

    x, out = np.zeros(1, np.float32), np.zeros(1, np.float32)
    kernel[1](x, out)
    before, first = kernel.cache_key, out[0]
    Step = steps(3)
    kernel[1](x, out)
    assert (first, out[0]) == (2, 3) and kernel.cache_key != before


def test_warnings_about_strides_leave_structs_alone(monkeypatch, recwarn):
    from kiln import knobs

    class Strided(NamedTuple):
        data: Any
        stride: Any

    @kiln.jit
    def kernel(x, out):
        kl.store(out, kl.load(x.data + x.stride))

    out = np.zeros(1, np.float32)
    with knobs.scope(warn_strides=True):
        kernel[1](Strided(matrix().T, 4), out)
    assert out[0] == 4 and not recwarn.list


def test_a_launched_struct_is_constructed_as_before():
    """Once the launcher knows the class, constructing it with all fields positional runs no Python; everything else
    does."""

    @kiln.struct
    class Made:
        data: object
        rows: object
        scale: object = 2.0

        @property
        def twice(self):
            return 2 * self.rows

    @kiln.jit
    def kernel(x: Made, out):
        kl.store(out, kl.load(x.data) * x.scale + x.rows)

    def values(x):
        return [
            Made(x, 3, 4.0), Made(x, 3), Made(x, rows=3), Made(scale=1.0, data=x, rows=5), Made(*(x, 1, 2)),
            Made._make((x, 7, 8)), Made(x, 3)._replace(rows=9), type(Made(x, 3))(x, 3, 4.0),
        ]  # fmt: skip

    x, out = np.full(1, 10, np.float32), np.zeros(1, np.float32)
    before = [tuple(made)[1:] for made in values(x)]
    kernel[1](Made(x, 3), out)
    assert out[0] == 23
    assert [tuple(made)[1:] for made in values(x)] == before
    made = Made(x, 3, 4.0)
    assert type(made) is Made and made.data is x and made.twice == 6 and made == (x, 3, 4.0) and len(made) == 3
    kernel[1](made, out)
    assert out[0] == 43

    class Derived(Made):
        def __new__(cls, x):
            return super().__new__(cls, x, 11, 1.0)

    assert tuple(Derived(x)) == (x, 11, 1.0) and type(Derived(x)) is Derived
    for wrong in (lambda: Made(), lambda: Made(x, 1, 2, 3), lambda: Made(x, 1, columns=2), lambda: Made(x, 1, rows=2)):
        with pytest.raises(TypeError, match=r"Made|__new__"):
            wrong()


def test_structs_that_were_launched_are_freed():
    import gc
    import sys

    @kiln.struct
    class Held:
        data: object
        rows: object

    @kiln.jit
    def kernel(x: Held):
        kl.store(x.data, x.rows)

    x = np.zeros(1, np.float32)
    kernel[1](Held(x, 3))
    before = sys.getrefcount(x)
    for _ in range(100):
        Held(x, 5)
    made = [Held(x, 5) for _ in range(10)]
    assert sys.getrefcount(x) == before + 10 and all(gc.is_tracked(each) for each in made)
    del made
    assert sys.getrefcount(x) == before
