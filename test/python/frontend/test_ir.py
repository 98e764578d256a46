"""The tile IR of each construct of the language."""

from __future__ import annotations

import kiln.language as kl
import pytest
from frontend_support import body, check, define, ir, parameters
from kiln._kiln import Module
from kiln.frontend import Parameter, emit
from kiln.frontend.function import jit


@jit
def vector_add(x, y, out, n, BLOCK: kl.constexpr):
    """A docstring is not a statement."""
    offsets = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    mask = offsets < n
    total = kl.load(x + offsets, mask=mask) + kl.load(y + offsets, mask=mask)
    kl.store(out + offsets, total, mask=mask)


def test_vector_add():
    text = ir(vector_add, x="*fp32", y="*fp32", out="*fp32", n="i32", BLOCK=[1024])
    check(
        text,
        'func.func @vector_add({}: !tile.ptr<f32> {tile.name = "x", tile.type = "*fp32"}',
        "attributes {tile.kernel}",
        "tile.program_id x : i32",
        "tile.make_range 0 to 1024 : tensor<1024xi32>",
        "arith.cmpi slt",
        "tile.load {} mask {} :",
        "tile.load {} mask {} :",
        "arith.addf {}, {} : tensor<1024xf32>",
        "tile.store {}, {} mask {} :",
        "return",
    )


def test_locations_are_ranges_of_the_source():
    module = emit(vector_add, parameters(x="*fp32", y="*fp32", out="*fp32", n="i32", BLOCK=[16]))
    text = module.print(locations=True)
    line = vector_add.tree.body[1].lineno
    assert f'test_ir.py":{line}:15 to :31)' in text  # kl.program_id(0)
    assert 'loc("vector_add"(' in text
    assert "loc(unknown)" not in text.replace("#loc = loc(unknown)", "").replace("} loc(#loc)", "")


def test_inlined_calls_have_a_chain_of_locations():
    text = emit(
        define(
            "@jit\ndef add(a, b):\n    return a + b\n@jit\ndef kernel(x):\n"
            "    kl.store(x, kl.reduce(kl.arange(0, 4), 0, add))\n"
        ),
        parameters(x="*i32"),
    ).print(locations=True)
    check(text, "callsite(", "at")


def test_arguments_flatten():
    text = emit(
        define("@jit\ndef kernel(d, pair, none, C: kl.constexpr):\n    a, (b, c) = pair\n"
            "    d.store([0, 0], d.load([a, 0]) + b)\n"),
        [
            Parameter("d", "runtime", "tensordesc<fp32[16,32]>", divisible=True, padding="nan"),
            Parameter(
                "pair", "tuple",
                items=(
                    Parameter("pair.0", "runtime", "i32"),
                    Parameter("pair.1", "tuple", items=(
                        Parameter("pair.1.0", "runtime", "fp32"), Parameter("pair.1.1", "constexpr", value=3),
                    )),
                ),
            ),
            Parameter("none", "constexpr", value=None),
            Parameter("C", "constexpr", value=(1, 2)),
        ],
    ).print()  # fmt: skip
    check(
        text,
        '{}: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "d"',
        'i64 {tile.name = "d.shape.0"', 'i64 {tile.name = "d.shape.1"',
        'i64 {tile.divisibility = 4 : i64, tile.name = "d.stride.0"', 'i64 {tile.name = "d.stride.1"',
        'i32 {tile.name = "pair.0"', 'f32 {tile.name = "pair.1.0", tile.type = "fp32"}) attributes',
        "tile.make_desc", "padding nan", "tile.desc_load", "tile.desc_store",
    )  # fmt: skip


def test_signedness_of_an_argument_is_kept():
    check(body("kl.store(x, u)", x="*u8", u="u8"), 'i8 {tile.name = "u", tile.type = "u8"}')


# -- loops -----------------------------------------------------------------------------------


def test_plain_loop_is_a_counted_loop():
    text = body(
        "acc = kl.zeros([16], kl.float32)\nfor i in range(0, n, 16):\n    acc += kl.load(x + i + kl.arange(0, 16))\n"
        "kl.store(x + kl.arange(0, 16), acc)",
        x="*fp32", n="i32",
    )  # fmt: skip
    check(text, "= scf.for {} = {} to {} step {} iter_args({} = {}) -> (tensor<16xf32>)", "scf.yield")
    assert "scf.while" not in text and "scf.if" not in text and "ub.poison" not in text


def test_only_assigned_names_are_carried():
    text = body("a = 1\nb = 2\nfor i in range(n):\n    a += b\nkl.store(x, a)", x="*i32", n="i32")
    check(text, "iter_args({} = {}) -> (i32)")


def test_hints():
    text = body(
        "for i in kl.range(0, n, num_stages=3, loop_unroll_factor=4, flatten=True, disable_licm=True,"
        " warp_specialize=True, disallow_acc_multi_buffer=True):\n    kl.store(x + i, i)",
        x="*i32", n="i32",
    )  # fmt: skip
    check(
        text,
        "tile.disallow_acc_multi_buffer, tile.flatten, tile.no_licm, tile.num_stages = 3 : i32,",
        "tile.unroll = 4 : i32, tile.warp_specialize}",
    )


def test_hints_without_effect_emit_nothing():
    text = body(
        "for i in kl.range(0, n, num_stages=None, loop_unroll_factor=0, flatten=False):\n    kl.store(x + i, i)",
        x="*i32", n="i32",
    )  # fmt: skip
    assert all(f"tile.{hint}" not in text for hint in ("num_stages", "unroll", "flatten"))


def test_num_stages_0_is_a_hint():
    """It overrides the launch's num_stages."""
    text = body("for i in kl.range(0, n, num_stages=0):\n    kl.store(x + i, i)", x="*i32", n="i32")
    check(text, "tile.num_stages = 0 : i32")


def test_while_condition_hint():
    text = body("i = 0\nwhile kl.condition(i < n, disable_licm=True):\n    i += 1\nkl.store(x, i)", x="*i32", n="i32")
    check(text, "scf.while", "} attributes {tile.no_licm}")


@pytest.mark.parametrize(
    ("bounds", "counter", "index"),
    [
        ("n", "i32", "i32"),
        ("k", "i64", "i64"),
        ("n, k", "i64", "i64"),
        ("u", "i64", "i32"),
        ("s", "i32", "i32"),
        ("5000000000", "i64", "i64"),
    ],
)
def test_bounds_meet_in_one_type(bounds, counter, index):
    text = body(
        f"for i in range({bounds}):\n    kl.store(x, i.to(kl.int8))", x="*i8", n="i32", k="i64", u="u32", s="i16"
    )
    check(text, "scf.for", f": {counter} {{")
    check(text, f"arith.trunci {{}} : {index} to i8")


def test_step_by_programs_needs_no_division():
    text = body("for i in range(kl.program_id(0), n, kl.num_programs(0)):\n    kl.store(x + i, i)", x="*i32", n="i32")
    assert "div" not in text
    check(text, "scf.for {} = {} to {} step {}")


def test_static_range_leaves_no_loop():
    text = body("for i in kl.static_range(1, 7, 2):\n    kl.store(x + i, i)", x="*i32")
    assert "scf.for" not in text
    assert text.count("tile.store") == 3


def test_static_range_index_is_a_constexpr():
    text = body("for i in kl.static_range(2):\n    kl.store(x + kl.arange(0, 4 << i), i)", x="*i32")
    check(text, "make_range 0 to 4", "make_range 0 to 8")


def test_break_makes_a_while():
    text = body(
        "for i in range(n):\n    if kl.load(x + i) > 0:\n        break\n    kl.store(x + i, 1)", x="*i32", n="i32"
    )
    check(text, "scf.while", "scf.condition", "} do {", "scf.if")
    assert "scf.for" not in text


def test_break_in_a_dead_branch_costs_nothing():
    text = body(
        "for i in range(n):\n    if BLOCK == 3:\n        break\n    kl.store(x + i, 1)", x="*i32", n="i32", BLOCK=[4]
    )
    check(text, "scf.for")
    assert "scf.while" not in text


def test_continue_needs_no_while():
    text = body(
        "s = 0\nfor i in range(n):\n    if i == 3:\n        continue\n    s += i\nkl.store(x, s)", x="*i32", n="i32"
    )
    check(text, "scf.for", "scf.if {} -> (i32)")
    assert "i1, i32" not in text


# -- branches --------------------------------------------------------------------------------


def test_early_return_needs_no_predicate():
    text = body("if kl.program_id(0) >= n:\n    return\nkl.store(x, n)", x="*i32", n="i32")
    check(text, "scf.if {} {", "} else {", "tile.store", "}", "return")
    assert "-> (i1" not in text


def test_constexpr_condition_leaves_no_branch():
    text = body(
        "if B > 4:\n    kl.store(x, 1)\nelse:\n    kl.no_such_function()\ny = 2 if B == 8 else kl.nothing\n"
        "kl.store(x, y)",
        x="*i32", B=[8],
    )  # fmt: skip
    assert "scf.if" not in text and text.count("tile.store") == 2


def test_none_argument_selects_code():
    text = body(
        "if bias is not None:\n    kl.store(x, kl.load(bias))\nif bias is None:\n    kl.store(x, 7)",
        x="*i32",
        bias=[None],
    )
    check(text, "constant 7")
    assert "tile.load" not in text


def test_if_merges_only_what_changed():
    text = body(
        "a = 1\nb = 2\nc = 3\nif n > 0:\n    a = n\nelse:\n    c = n\nkl.store(x, a + b + c)", x="*i32", n="i32"
    )
    check(text, "scf.if {} -> (i32, i32)")


def test_conditional_expression_is_lazy():
    text = body("kl.store(x, kl.load(x) if n > 0 else 5)", x="*i32", n="i32")
    check(text, "scf.if {} -> (i32) {", "tile.load", "scf.yield", "} else {", "constant 5", "scf.yield")


def test_branches_yield_tiles():
    text = body(
        "v = kl.zeros([128, 256], kl.float32)\nif n > 0:\n    v += 1.0\nkl.store(x, kl.sum(v))", x="*fp32", n="i32"
    )
    check(text, "scf.if {} -> (tensor<128x256xf32>)")


# -- calls -----------------------------------------------------------------------------------


def test_one_function_for_each_specialisation():
    text = ir(
        "@jit\ndef scale(v, by, twice: kl.constexpr = False):\n    return v * by * 2 if twice else v * by\n"
        "@jit\ndef kernel(x, n):\n"
        "    kl.store(x, scale(n, 3) + scale(n, 3) + scale(n + 1, 3) + scale(n, n) + scale(n, 3, twice=True))\n",
        x="*i32", n="i32",
    )  # fmt: skip
    assert text.count("func.func private @scale") == 3
    assert text.count("call @scale") == 5


def test_constexpr_and_tuple_results():
    text = ir(
        "@jit\ndef pick(v, B: kl.constexpr):\n    return v + 1, (B * 2, v), kl.float32\n"
        "@jit\ndef kernel(x, n):\n    a, (b, c), ty = pick(n, 4)\n    d: kl.constexpr = pick(n, 4)[1][0]\n"
        "    kl.store(x + kl.arange(0, d), (a + b + c).to(ty))\n",
        x="*fp32", n="i32",
    )  # fmt: skip
    check(
        text,
        "call @pick({}) : (i32) -> (i32, i32)",
        "make_range 0 to 8",
        "sitofp",
        "func.func private @pick({}: i32) -> (i32, i32)",
    )


def test_defaults_keywords_and_variadics():
    text = ir(
        "@jit\ndef total(first, *rest, start=10):\n    s = first + start\n    for r in rest:\n        s += r\n"
        "    return s\n"
        "@jit\ndef kernel(x, n):\n    more = (n, 3)\n    kl.store(x, total(n, *more, n, start=n))\n"
        "    kl.store(x, total(first=n))\n",
        x="*i32", n="i32",
    )  # fmt: skip
    check(text, "call @total({}, {}, {}, {}, {}) :", "call @total.1({}) :")


def test_functions_as_arguments():
    text = ir(
        "@jit\ndef double(v):\n    return v * 2\n@jit\ndef apply(f: kl.constexpr, v):\n    return f(v)\n"
        "@jit\ndef kernel(x, n):\n    kl.store(x, apply(double, n))\n",
        x="*i32", n="i32",
    )  # fmt: skip
    check(text, "call @apply", "func.func private @apply", "call @double", "func.func private @double")


def test_combine_functions_are_in_the_region():
    text = ir(
        "@jit\ndef larger(a, b):\n    return a if a > b else b\n@jit\ndef best(av, ai, bv, bi):\n"
        "    m = larger(av, bv)\n"
        "    return m, kl.where(m == av, ai, bi)\n"
        "@jit\ndef kernel(x):\n    v, i = kl.reduce((kl.load(x + kl.arange(0, 8)), kl.arange(0, 8)), 0, best)\n"
        "    kl.store(x, v + i)\n",
        x="*fp32",
    )  # fmt: skip
    check(
        text, "tile.reduce({}, {}) axis 0 {", "scf.if", "arith.select", "tile.yield {}, {} : f32, i32", "-> (f32, i32)"
    )
    assert "call" not in text


def test_methods_that_are_jit_functions():
    check(
        body("kl.store(x, kl.load(x + kl.arange(0, 8)).sum(0))", x="*fp32"), "tile.reduce", "arith.addf", "tile.store"
    )


# -- expressions -----------------------------------------------------------------------------


def test_comprehension():
    text = body(
        "t = [kl.load(x + i) * k for i, k in enumerate((1, 2, 3, 4)) if k % 2]\nkl.store(x, t[0] + t[1])", x="*i32"
    )
    assert text.count("tile.load") == 2


def test_new_axes():
    text = body("i = kl.arange(0, 8)\nkl.store(x + i[:, None] * 8 + i[None, :], 0)", x="*i32")
    check(text, "expand_dims {} 1", "expand_dims {} 0", "tensor<8x8x")


def test_chained_comparison_evaluates_once():
    text = body("if 0 < kl.load(x) < n:\n    kl.store(x, 1)", x="*i32", n="i32")
    assert text.count("tile.load") == 1
    check(text, "arith.cmpi slt", "arith.cmpi slt", "arith.andi")


def test_literals_become_scalars_unless_constexpr():
    text = body("a = 4\nb: kl.constexpr = 4\nkl.store(x + kl.arange(0, b), a)", x="*i32")
    check(text, "arith.constant 4 : i32", "make_range 0 to 4")


def test_static_messages_are_f_strings():
    text = body('kl.device_assert(n > 3, f"{B:>3} and {B!r}")', n="i32", B=[7])
    check(text, 'tile.assert {}, "  7 and 7"')


def test_assert_statement_and_print():
    text = body('assert n > B, "too small"\nprint("n", n)', n="i32", B=[7])
    check(text, 'tile.assert {}, "too small"', "tile.print")


def test_python_builtins():
    text = body(
        "kl.store(x, max(n, 3) + min(2, B) + abs(n) + len((1, 2)) + sum([n, n]) + int(isinstance(n, kl.tensor)))",
        x="*i32",
        n="i32",
        B=[1],
    )
    check(text, "arith.maxsi", "tile.store")


def test_constexpr_functions_and_math():
    text = ir(
        "import math\n@constexpr_function\ndef half(n):\n    return n // 2\n"
        "@jit\ndef kernel(x, B: kl.constexpr):\n    kl.store(x + kl.arange(0, half(B)), math.ceil(math.log2(B)))\n",
        x="*i32", B=[16],
    )  # fmt: skip
    check(text, "make_range 0 to 8", "constant 4")


def test_star_unpacking_and_swaps():
    text = body("a, (b, *c) = n, (1, n, 3)\na, b = b, a\nkl.store(x, a + c[1])", x="*i32", n="i32")
    check(text, "arith.addi")


def test_module_parse_reports():
    with pytest.raises(RuntimeError, match="expected"):
        Module.parse("func.func @f( {")
