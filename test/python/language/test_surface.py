"""The names of the language: those of Triton exist, no others do, and tensors have the functions as methods."""

from __future__ import annotations

import subprocess
import sys

import kiln.language as kl
import pytest
from emitting import type_of
from kiln.errors import UserError
from kiln.language import types

TIER_1 = """
int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 float8e4nv float8e5
constexpr tensor dtype pointer_type program_id num_programs arange full zeros zeros_like cast
broadcast_to expand_dims reshape trans dot load store make_block_ptr advance make_tensor_descriptor where
abs exp exp2 log log2 sqrt rsqrt sin cos sigmoid floor ceil fma erf clamp cdiv maximum minimum div_rn fdiv
sum max min argmax argmin reduce cumsum associative_scan atomic_add atomic_max atomic_min atomic_cas philox rand
range static_range multiple_of max_contiguous assume debug_barrier static_assert device_assert
inline_asm_elementwise extra math
"""

TIER_2 = """
void pi32_t block_type const constexpr_type tuple tuple_type slice tensor_descriptor tensor_descriptor_type PropagateNan
TRITON_MAX_TENSOR_NUMEL cat broadcast permute view ravel join split interleave dot_scaled load_tensor_descriptor
store_tensor_descriptor flip gather histogram swizzle2d softmax sqrt_rn umulhi add sub mul cumprod xor_sum reduce_or
sort topk bitonic_merge atomic_and atomic_or atomic_xor atomic_xchg rand4x randn randn4x randint randint4x philox_impl
pair_uniform_to_normal uint_to_uniform_float condition max_constancy static_print device_print extern_elementwise
map_elementwise squeeze unsqueeze to_tensor float8e4b15 float8e4b8 float8e5b16
"""


@pytest.mark.parametrize("tier", [TIER_1, TIER_2], ids=["tier 1", "tier 2"])
def test_names_are_there(tier):
    assert [name for name in tier.split() if not hasattr(kl, name)] == []
    assert set(tier.split()) <= set(kl.__all__)


@pytest.mark.parametrize("name", "extract_slice insert_slice memory shapes tanh float4 bool matmul item to".split())
def test_names_triton_lacks_are_absent(name):
    with pytest.raises(AttributeError):
        getattr(kl, name)


def test_math_has_no_tanh_so_that_fallbacks_run():
    with pytest.raises(AttributeError):
        kl.math.tanh  # noqa: B018


def test_libdevice_has_what_kernels_use():
    names = "exp2 rsqrt log log2 fma erf tanh floor pow round rint fast_expf fast_dividef fast_logf".split()
    assert [name for name in names if not hasattr(kl.extra.libdevice, name)] == []


def test_core_gives_the_names_by_tritons_path():
    assert kl.core.view is kl.view and kl.core.get_int_dtype(32, True) == kl.int32
    with pytest.raises(AttributeError):
        kl.core.extract_slice  # noqa: B018


@pytest.mark.parametrize("name", "sum max exp load store to reshape sort gather atomic_add cumsum sigmoid abs".split())
def test_functions_are_methods(name):
    assert getattr(kl.tensor, name).__kiln_builtin__


def test_a_function_outside_a_kernel_says_so():
    with pytest.raises(UserError, match="only inside a kernel"):
        kl.program_id(0)


@pytest.mark.parametrize(
    "text, mlir",
    [
        ("fp32", "f32"),
        ("u8", "i8"),
        ("*bf16", "!tile.ptr<bf16>"),
        ("**i64", "!tile.ptr<!tile.ptr<i64>>"),
        ("fp8e4nv", "f8E4M3FN"),
        ("tensordesc<fp32[64,32]>", "!tile.desc<tensor<64x32xf32>>"),
    ],
)
def test_types_are_parsed(text, mlir):
    assert types.parse(text).mlir == mlir


def test_types_know_themselves():
    assert str(kl.float32) == "fp32" and kl.bfloat16.primitive_bitwidth == 16 and kl.int64.itemsize == 8
    assert kl.uint8.is_int_unsigned() and not kl.uint8.is_int_signed() and kl.float8e5.is_fp8()
    assert kl.pointer_type(kl.float32).element_ty == kl.float32
    assert kl.block_type(kl.float32, [4, 8]).numel == 32
    assert types.parse("tensordesc<fp16[8,16]>").flatten() == ["!tile.ptr<f16>"] + ["i64"] * 4
    with pytest.raises(ValueError, match="expected a type such as"):
        types.parse("float33")


@pytest.mark.parametrize(
    "side, fits", [(1, True), (96, True), (7 * 128, True), (31, True), (33, False), (37 * 4, False)]
)
def test_the_rule_of_sides(side, fits):
    assert types.is_legal_side(side) is fits


def test_shapes_and_types_of_values():
    assert type_of("kl.zeros((4, 8), kl.float16)") == "<[4, 8], fp16>"
    assert type_of("(p + kl.arange(0, 8))", p="*fp32") == "<[8], pointer<fp32>>"
    assert (
        type_of("kl.make_block_ptr(p, (8, 8), (8, 1), (0, 0), (4, 8), (1, 0))", p="*fp32") == "pointer<<[4, 8], fp32>>"
    )


def test_import_is_light():
    # Modules that the environment imports at startup (from a .pth file) are not the language's.
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import kiln.language\n"
        "names = {'numpy', 'torch', 'ast', 'inspect', 'dataclasses', 'kiln._kiln'}\n"
        "heavy = names & (set(sys.modules) - before)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_methods_are_declared_for_type_checkers():
    # methods.py attaches them when the language is imported; values.py declares them for mypy and for editors.
    import inspect

    from kiln.language import methods, values

    source = inspect.getsource(values.tensor)
    attached = [name for names in methods._METHODS.values() for name in names]
    assert [name for name in attached if f"        {name} = _" not in source] == []


def test_libdevice_by_its_older_path():
    from kiln.language.extra import cuda, libdevice
    from kiln.language.extra.cuda.libdevice import tanh

    assert tanh is libdevice.tanh
    assert cuda.libdevice.tanh is libdevice.tanh
