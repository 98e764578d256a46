"""The emulator on handwritten PTX: known values, and mistakes that it must find."""

import ml_dtypes
import numpy as np
import pytest

from emulator import machine as machines
from emulator.by_hand import launch
from emulator.machine import Machine
from emulator.ptx import Fault, Unsupported

MODULE = """
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 memory[];
.visible .entry kernel(
	.param .u64 .ptr .global .align 16 in,
	.param .u64 .ptr .global .align 16 out
)
.reqntid {threads}
{cluster}
{{
	.reg .pred %p<9>;
	.reg .b16 %h<9>;
	.reg .b32 %r<40>;
	.reg .b64 %d<40>;
	ld.param.b64 %d1, [in];
	ld.param.b64 %d2, [out];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %cluster_ctarank;
	mad.lo.s32 %r3, %r2, {threads}, %r1; // number of the thread in the cluster
	mul.wide.u32 %d3, %r3, 8;
	add.s64 %d1, %d1, %d3;
	add.s64 %d2, %d2, %d3;
	mov.u32 %r39, memory;
	{body}
	ret;
}}
"""

# The line on which the body stands.
LINE = MODULE[: MODULE.index("{body}")].count("\n") + 1


def run(body, values=(), **options):
    """Runs a kernel on `values` (8 bytes per thread, at %d1); returns what the threads wrote at %d2."""
    out = _run(body, values, **options, in_python=False)
    # Native.cpp computes what the instructions' functions in Python compute.
    assert out.tobytes() == _run(body, values, **options, in_python=True).tobytes()
    return out


def _run(body, values, *, threads=32, cluster=1, order=1, grid=(1, 1, 1), in_python):
    form = f".explicitcluster .reqnctapercluster {cluster}, 1, 1" if cluster > 1 else ""
    machine = Machine(MODULE.format(threads=threads, cluster=form, body=body), order)
    if in_python:
        machine.native = None
    given, out = np.zeros(threads * cluster, np.uint64), np.zeros(threads * cluster, np.uint64)
    values = np.asarray(values, np.uint64)
    given[: len(values)] = values
    arguments = np.array([machine.memory.add(given), machine.memory.add(out)], np.uint64)
    machine.launch(grid, arguments.tobytes(), 1024)
    return out


def raw(kind, *values):
    """Numbers of a type as the low bits of 64."""
    array = np.array(values, kind)
    return array.view(f"u{array.itemsize}").astype(np.uint64)


ONE = "ld.global.b64 %d4, [%d1];"
HALVES = "ld.global.v2.b32 {%r4, %r5}, [%d1];"


@pytest.mark.parametrize("code, given, expected", [
    ("ld.global.s8 %r6, [%d1];", 0x80, 0xFFFFFF80),
    ("ld.global.u8 %r6, [%d1];", 0x80, 0x80),
    ("shl.b32 %r6, %r4, 32;", 1, 0),
    ("shr.s32 %r6, %r4, 40;", 0x80000000, 0xFFFFFFFF),
    ("shr.u32 %r6, %r4, 31;", 0x80000000, 1),
    ("div.s32 %r6, %r4, 2;", raw("i4", -7)[0], raw("i4", -3)[0]),
    ("rem.s32 %r6, %r4, 4;", raw("i4", -7)[0], raw("i4", -3)[0]),
    ("div.s32 %r6, %r4, -1;", 0x80000000, 0x80000000),
    ("mul.hi.u32 %r6, %r4, %r4;", 0xFFFFFFFF, 0xFFFFFFFE),
    ("bfe.s32 %r6, %r4, 4, 8;", 0x800, 0xFFFFFF80),
    ("bfe.u32 %r6, %r4, 28, 8;", 0xF0000000, 15),
    ("bfi.b32 %r6, 255, %r4, 8, 4;", 0x10000, 0x10F00),
    ("prmt.b32 %r6, %r4, 0, 0x3210;", 0x11223344, 0x11223344),
    ("prmt.b32 %r6, %r4, 0, 0x0123;", 0x11223344, 0x44332211),
    ("prmt.b32 %r6, %r4, 0, 0x888b;", 0x80000001, 0x000000FF),
    ("lop3.b32 %r6, %r4, 0xF0, 0xFF, 0x96;", 0x35, 0x3A),
    ("lop3.b32 %r6, %r4, 0xF0, 0xFF, 0xCA;", 0x35, 0xFA),
    ("popc.b32 %r6, %r4;", 0xF0F, 8),
    ("clz.b32 %r6, %r4;", 1, 31),
    ("brev.b32 %r6, %r4;", 1, 0x80000000),
    ("shf.l.wrap.b32 %r6, %r4, %r4, 4;", 0xF0000001, 0x1F),
    ("fma.rn.f32 %r6, %r4, %r4, 0fBF800000;", raw("f4", 1 + 2**-12)[0], raw("f4", 2**-11 + 2**-24)[0]),
    ("fma.rn.sat.f32 %r6, %r4, %r4, 0f00000000;", raw("f4", 3)[0], raw("f4", 1)[0]),
    ("min.f32 %r6, %r4, 0f00000000;", raw("f4", -0.0)[0], raw("f4", -0.0)[0]),
    ("max.f32 %r6, %r4, 0f3F800000;", raw("f4", np.nan)[0], raw("f4", 1)[0]),
    ("min.f32 %r6, %r4, 0f3F800000;", 0x7FA00000, raw("f4", 1)[0]),  # a NaN that signals
    ("max.NaN.f32 %r6, %r4, 0f3F800000; abs.f32 %r6, %r6;", raw("f4", np.nan)[0], raw("f4", np.nan)[0]),
    ("add.ftz.f32 %r6, %r4, 0f00000000;", raw("f4", 1e-40)[0], 0),
    ("cvt.rzi.s32.f32 %r6, %r4;", raw("f4", -2.9)[0], raw("i4", -2)[0]),
    ("cvt.rzi.u32.f32 %r6, %r4;", raw("f4", 1e20)[0], 0xFFFFFFFF),
    ("cvt.rni.s32.f32 %r6, %r4;", raw("f4", 2.5)[0], 2),
    ("cvt.rzi.s32.f32 %r6, %r4;", raw("f4", np.nan)[0], 0),
    ("cvt.s32.s8 %r6, %r4;", 0x80, 0xFFFFFF80),
    ("mov.b32 {%h1, %h2}, %r4; mov.b32 %r6, {%h2, %h1};", 0x11112222, 0x22221111),
    ("cvt.rn.f16x2.f32 %r6, %r4, 0f3F800000;", raw("f4", 2)[0], 0x40003C00),
    ("add.f16x2 %r6, %r4, %r4;", 0x3C004000, 0x40004400),
    ("cvt.rn.satfinite.e4m3x2.f32 %h1, %r4, 0f3F800000; cvt.u32.u16 %r6, %h1;", raw("f4", 1000)[0], 0x7E38),
    ("cvt.rn.bf16.f32 %h1, %r4; cvt.u32.u16 %r6, %h1;", raw("f4", 1 + 2**-8)[0], raw(ml_dtypes.bfloat16, 1)[0]),
    ("setp.ltu.f32 %p1, %r4, 0f00000000; selp.b32 %r6, 7, 9, %p1;", raw("f4", np.nan)[0], 7),
    ("setp.ne.f32 %p1, %r4, 0f00000000; selp.b32 %r6, 7, 9, %p1;", raw("f4", np.nan)[0], 9),
    ("setp.lt.s32 %p1, %r4, 0; selp.b32 %r6, 7, 9, %p1;", 0xFFFFFFFF, 7),
    ("mov.pred %p1, -1; setp.eq.and.b32 %p2, %r4, 3, %p1; selp.b32 %r6, 7, 9, %p2;", 3, 7),
    ("setp.eq.and.b32 %p2, %r4, 3, !%p2; not.pred %p3, %p2; selp.b32 %r6, 7, 9, %p3;", 3, 9),
    ("sub.s32 %r6, %r4, 5;", 3, raw("i4", -2)[0]),
    ("or.b32 %r6, %r4, 0xF0;", 0x3C, 0xFC),
    ("not.b32 %r6, %r4;", 0x0000FFFF, 0xFFFF0000),
    ("neg.s32 %r6, %r4;", 7, raw("i4", -7)[0]),
    ("neg.f32 %r6, %r4;", raw("f4", 1.5)[0], raw("f4", -1.5)[0]),
    ("abs.s32 %r6, %r4;", raw("i4", -7)[0], 7),
    ("copysign.f32 %r6, 0f80000000, %r4;", raw("f4", 1.5)[0], raw("f4", -1.5)[0]),
    ("sqrt.rn.f32 %r6, %r4;", raw("f4", 9)[0], raw("f4", 3)[0]),
    ("rsqrt.approx.f32 %r6, %r4;", raw("f4", 16)[0], raw("f4", 0.25)[0]),
    ("rcp.rn.f32 %r6, %r4;", raw("f4", 8)[0], raw("f4", 0.125)[0]),
    ("ex2.approx.f32 %r6, %r4;", raw("f4", 5)[0], raw("f4", 32)[0]),
    ("lg2.approx.f32 %r6, %r4;", raw("f4", 0.125)[0], raw("f4", -3)[0]),
    ("sin.approx.f32 %r6, %r4;", raw("f4", 1)[0], raw("f4", np.sin(np.float32(1)))[0]),
    ("cos.approx.f32 %r6, %r4;", raw("f4", 1)[0], raw("f4", np.cos(np.float32(1)))[0]),
    ("tanh.approx.f32 %r6, %r4;", raw("f4", 1)[0], raw("f4", np.tanh(np.float32(1)))[0]),
    ("testp.infinite.f32 %p1, %r4; selp.b32 %r6, 7, 9, %p1;", raw("f4", -np.inf)[0], 7),
    ("testp.finite.f32 %p1, %r4; not.pred %p1, %p1; selp.b32 %r6, 7, 9, %p1;", raw("f4", 2)[0], 9),
    ("testp.notanumber.f32 %p1, %r4; selp.b32 %r6, 7, 9, %p1;", raw("f4", np.nan)[0], 7),
    ("div.u32 %r6, %r4, 0;", 5, 0xFFFFFFFF),
    ("div.s32 %r6, %r4, 0;", 5, 0xFFFFFFFF),
    ("div.u32 %r6, %r4, 3;", 0xFFFFFFFF, 0x55555555),
    ("div.rn.f32 %r6, %r4, 0f40000000;", raw("f4", 3)[0], raw("f4", 1.5)[0]),
    ("rem.u32 %r6, %r4, 0;", 5, 5),
    ("add.sat.s32 %r6, %r4, 1;", 0x7FFFFFFF, 0x7FFFFFFF),
    ("sub.sat.s32 %r6, %r4, 1;", 0x80000000, 0x80000000),
    ("add.sat.f32 %r6, %r4, 0f00000000;", raw("f4", 1e-40)[0], raw("f4", 1e-40)[0]),
    ("add.sat.f32 %r6, %r4, 0f00000000;", raw("f4", np.nan)[0], 0),
    ("mul.ftz.f32 %r6, %r4, 0f7E800000;", raw("f4", 1e-40)[0], 0),
    ("mul.ftz.f32 %r6, %r4, 0f00800000;", raw("f4", 0.5)[0], 0),
    ("add.ftz.f32 %r6, %r4, 0f40000000;", raw("f4", 1)[0], raw("f4", 3)[0]),
    ("mul.ftz.f32 %r6, %r4, 0f3F800000;", raw("f4", -2)[0], raw("f4", -2)[0]),
    ("fma.rn.relu.f16x2 %r6, %r4, %r4, %r4;", 0x3C00B800, 0x40000000),
    ("add.rn.bf16x2 %r6, %r4, %r4;", 0x3F804040, 0x400040C0),
    # Rounded once: a number beside the middle of two, by less than float64 has.
    ("fma.rn.f32 %r6, %r4, %r4, 0f21800000;", raw("f4", 1 + 2**-12)[0], raw("f4", 1 + 2**-11 + 2**-23)[0]),
    ("fma.rn.f32 %r6, %r4, 0f3F801800, 0fA1800000;", raw("f4", 1 + 2**-12)[0], 0x3F802001),
    ("min.NaN.f32 %r6, %r4, 0f3F800000;", raw("f4", 2)[0], raw("f4", 1)[0]),
    ("max.NaN.f32 %r6, %r4, 0f3F800000;", raw("f4", 2)[0], raw("f4", 2)[0]),
    ("min.f32 %r6, %r4, 0f3F800000;", raw("f4", 2)[0], raw("f4", 1)[0]),
    ("max.f32 %r6, %r4, 0f3F800000;", raw("f4", 2)[0], raw("f4", 2)[0]),
    ("max.f32 %r6, %r4, 0f00000000;", raw("f4", -0.0)[0], 0),
    ("min.f32 %r6, 0f40000000, %r4, 0f3F800000;", raw("f4", 3)[0], raw("f4", 1)[0]),
    ("setp.nan.f32 %p1, %r4, 0f00000000; selp.b32 %r6, 7, 9, %p1;", raw("f4", np.nan)[0], 7),
    ("setp.num.f32 %p1, %r4, 0f00000000; selp.b32 %r6, 7, 9, %p1;", raw("f4", np.nan)[0], 9),
    ("setp.num.f32 %p1, %r4, 0f00000000; selp.b32 %r6, 7, 9, %p1;", raw("f4", 1)[0], 7),
    *(("mov.b32 %r5, 0x3C003C00; setp.lt.f16x2 %p1|%p2, %r4, %r5; selp.b32 %r7, 1, 4, %p1;"
       "selp.b32 %r8, 2, 8, %p2; or.b32 %r6, %r7, %r8;", pair, found)
      for pair, found in ((0x40003800, 9), (0x38004000, 6))),
    ("cvt.u16.u32 %h1, %r4; cvt.rn.f16x2.e4m3x2 %r6, %h1;", 0x7E38, 0x5F003C00),
    ("cvt.u16.u32 %h1, %r4; cvt.rn.f16x2.e5m2x2 %r6, %h1;", 0x7BBC, 0x7B00BC00),
    ("cvt.rn.relu.f16x2.f32 %r6, %r4, 0f3F800000;", raw("f4", -2)[0], 0x00003C00),
    ("cvt.rn.f16x2.f32 %r6, %r4, 0f3F800000;", raw("f4", -2)[0], 0xC0003C00),
    ("cvt.rn.f16.f32 %h1, %r4; cvt.u32.u16 %r6, %h1;", raw("f4", -2)[0], 0xC000),
    ("cvt.rn.satfinite.e4m3x2.f16x2 %h1, %r4; cvt.u32.u16 %r6, %h1;", 0x40003C00, 0x4038),
    ("cvt.rn.bf16.f32 %h1, %r4; cvt.u32.u16 %r6, %h1;", raw("f4", -np.inf)[0], 0xFF80),
    ("cvt.rn.relu.f16.f32 %h1, %r4; cvt.u32.u16 %r6, %h1;", raw("f4", -2)[0], 0),
    ("cvt.sat.f32.f32 %r6, %r4;", raw("f4", 3)[0], raw("f4", 1)[0]),
    ("cvt.sat.f32.f32 %r6, %r4;", raw("f4", np.nan)[0], 0),
    ("cvt.rna.tf32.f32 %r6, %r4;", 0x3F801000, 0x3F802000),
    ("cvt.rn.tf32.f32 %r6, %r4;", 0x3F801000, 0x3F800000),
    ("cvt.rn.tf32.f32 %r6, %r4;", 0x3F803000, 0x3F804000),
    ("cvt.rna.tf32.f32 %r6, %r4;", 0x7F801234, 0x7F801234),
    *((f"cvt.{way}.f32.f32 %r6, %r4;", raw("f4", 2.5)[0], raw("f4", to)[0])
      for way, to in (("rzi", 2), ("rni", 2), ("rmi", 2), ("rpi", 3))),
    *((f"cvt.{way}.s32.f32 %r6, %r4;", raw("f4", -3.5)[0], raw("i4", to)[0])
      for way, to in (("rzi", -3), ("rni", -4), ("rmi", -4), ("rpi", -3))),
    # The address of shared memory is in the low half of a register that held a negative number.
    ("ld.global.s8 %r7, [%d1]; mov.b32 %r7, %r39; st.shared.b32 [%r7], 5; ld.shared.b32 %r6, [%r7];", 0x80, 5),
    ("cvt.sat.s8.s32 %r6, %r4;", 200, 127),
    ("cvt.sat.s8.s32 %r6, %r4;", raw("i4", -200)[0], raw("i4", -128)[0]),
    ("cvt.s8.s32 %r6, %r4;", 200, raw("i4", -56)[0]),
    # Beside the middle of two bfloat16, by less than float32 has.
    ("cvt.rn.bf16.s32 %h1, %r4; cvt.u32.u16 %r6, %h1;", 2**24 + 2**16 + 1, 0x4B81),
    ("cvt.rn.bf16.s32 %h1, %r4; cvt.u32.u16 %r6, %h1;", raw("i4", -(2**24 + 2**16 + 1))[0], 0xCB81),
    ("cvt.rn.bf16.s32 %h1, %r4; cvt.u32.u16 %r6, %h1;", 2**24 + 2**17 + 2**16 - 1, 0x4B81),
    ("cvt.rn.bf16.s32 %h1, %r4; cvt.u32.u16 %r6, %h1;", 2**24 + 2**16, 0x4B80),
])  # fmt: skip
def test_values_of_32_bits(code, given, expected):
    # A value that no case expects, so that an instruction that does nothing is found.
    out = run(f"{HALVES} mov.b32 %r6, 0x5EED5EED; {code} st.global.b32 [%d2], %r6;", [given])
    assert out[0] == expected, f"{int(out[0]):#x}"


@pytest.mark.parametrize("code, given, expected", [
    ("fma.rn.f64 %d5, %d4, %d4, 0dBFF0000000000000;", raw("f8", 1 + 2**-30)[0], raw("f8", 2**-29 + 2**-60)[0]),
    ("fma.rn.f64 %d5, %d4, %d4, 0dBFF0000000000000;", raw("f8", 1e300)[0], raw("f8", np.inf)[0]),
    # An exact sum of 0 keeps its sign.
    ("fma.rn.f64 %d5, %d4, 0d8000000000000000, 0d8000000000000000;", raw("f8", 1)[0], 2**63),
    # The product is rounded down to the largest number, and the exact sum up to infinity.
    ("fma.rn.f64 %d5, %d4, 0d3ff1ecfb22a3a773, 0d7c83333333333333;", 0x7FEC8FF501DD1638, raw("f8", np.inf)[0]),
    ("fma.rn.f64 %d5, %d4, 0dbff1ecfb22a3a773, 0dfc83333333333333;", 0x7FEC8FF501DD1638, raw("f8", -np.inf)[0]),
    ("mul.hi.u64 %d5, %d4, %d4;", 2**63, 2**62),
    ("brev.b64 %d5, %d4;", 1, 2**63),
    ("popc.b64 %r6, %d4; cvt.u64.u32 %d5, %r6;", 2**64 - 2, 63),
    ("mov.b64 %d5, -1; clz.b64 %r6, %d4; cvt.u64.u32 %d5, %r6;", 1, 63),
    ("shr.s64 %d5, %d4, 70;", 2**63, 2**64 - 1),
    ("cvt.u32.u64 %r6, %d4; cvt.u64.u32 %d5, %r6;", 0x1234567890, 0x34567890),
    ("cvt.rn.f32.u64 %r6, %d4; cvt.u64.u32 %d5, %r6;", 2**24 + 1, raw("f4", 2**24)[0]),
    ("mov.b64 {%r6, %r7}, %d4; mov.b64 %d5, {%r7, %r6};", 0x1122334455667788, 0x5566778811223344),
    ("{ .reg .b64 %d4; mov.b64 %d4, 5; } mov.b64 %d5, %d4;", 3, 3),
    ("cvta.to.global.u64 %d5, %d4;", 0x123456789A, 0x123456789A),
])  # fmt: skip
def test_values_of_64_bits(code, given, expected):
    out = run(f"{ONE} mov.b64 %d5, 0x5EED5EED5EED5EED; {code} st.global.b64 [%d2], %d5;", [given])
    assert out[0] == expected, f"{int(out[0]):#x}"


def test_reads_are_allowed_after_waiting_for_the_previous_launch():
    assert run("griddepcontrol.wait; ld.global.b64 %d4, [%d1]; st.global.b64 [%d2], %d4;", [5])[0] == 5


@pytest.mark.parametrize("code, source", [
    ("bfly.b32 %r6, %r1, 5, 31", np.arange(32) ^ 5),
    ("idx.b32 %r6, %r1, 7, 31", np.full(32, 7)),
    ("up.b32 %r6, %r1, 3, 0", np.maximum(np.arange(32) - 3, 0) + (np.arange(32) < 3) * np.arange(32)),
    ("down.b32 %r6, %r1, 3, 31", np.where(np.arange(32) + 3 < 32, np.arange(32) + 3, np.arange(32))),
    ("idx.b32 %r6, %r1, 1, 0x181f", np.arange(32) // 8 * 8 + 1),
])  # fmt: skip
def test_shuffles(code, source):
    assert (run(f"shfl.sync.{code}, -1; st.global.b32 [%d2], %r6;") == source).all()


def test_a_shuffle_says_which_lanes_were_in_the_segment():
    body = "shfl.sync.up.b32 %r6|%p2, %r1, 3, 0, -1; selp.b32 %r6, %r6, 99, %p2; st.global.b32 [%d2], %r6;"
    assert (run(body) == np.where(np.arange(32) < 3, 99, np.arange(32) - 3)).all()


def test_lanes_that_have_ended_are_not_waited_for():
    body = "setp.ge.u32 %p1, %r1, 16; @%p1 ret; shfl.sync.bfly.b32 %r6, %r1, 1, 31, -1; st.global.b32 [%d2], %r6;"
    assert (run(body) == np.where(np.arange(32) < 16, np.arange(32) ^ 1, 0)).all()
    with pytest.raises(Fault, match="reads from a lane that has ended"):
        run(body.replace("bfly.b32 %r6, %r1, 1", "bfly.b32 %r6, %r1, 16"))


@pytest.mark.parametrize("mode, found", [("any", (7, 7, 9)), ("all", (7, 9, 9))])
def test_votes(mode, found):
    """All lanes, some lanes and none vote for it."""
    for least, expected in zip((0, 5, 32), found, strict=True):
        body = f"setp.ge.u32 %p1, %r1, {least}; vote.sync.{mode}.pred %p2, %p1, -1; selp.b32 %r6, 7, 9, %p2;"
        assert (run(body + "st.global.b32 [%d2], %r6;") == expected).all()


def test_halves_of_a_warp_vote_and_add_apart():
    body = """setp.ge.u32 %p1, %r1, 16;
    setp.ne.u32 %p2, %r1, 3;
    @%p1 bra UPPER;
    vote.sync.ballot.b32 %r6, %p2, 0xffff;
    redux.sync.add.u32 %r7, %r1, 0xffff;
    bra BOTH;
    UPPER:
    vote.sync.ballot.b32 %r6, %p2, 0xffff0000;
    redux.sync.add.u32 %r7, %r1, 0xffff0000;
    BOTH: mov.b64 %d4, {%r6, %r7};
    st.global.b64 [%d2], %d4;
    """
    lower, upper = 0xFFF7 | sum(range(16)) << 32, 0xFFFF0000 | sum(range(16, 32)) << 32
    assert (run(body) == np.where(np.arange(32) < 16, lower, upper).astype(np.uint64)).all()


def test_arguments_are_loaded_by_address():
    """The second argument, by an address in a register: as found by its name."""
    body = """mov.b64 %d5, in; ld.param.b64 %d6, [%d5+8]; ld.param.b64 %d7, [out]; sub.s64 %d6, %d6, %d7;
    add.s64 %d6, %d6, 5; st.global.b64 [%d2], %d6;"""
    assert (run(body) == 5).all()


@pytest.mark.parametrize("code, given, before, after", [
    ("atom.global.add.u32 %r6, [%d1], 1;", 2**24 + 1, 2**24 + 1, 2**24 + 2),
    ("atom.global.exch.b32 %r6, [%d1], 3;", 5, 5, 3),
    ("atom.global.cas.b32 %r6, [%d1], 5, 3;", 5, 5, 3),
    ("atom.global.cas.b32 %r6, [%d1], 4, 3;", 5, 5, 5),
    ("atom.global.inc.u32 %r6, [%d1], 5;", 4, 4, 5),
    ("atom.global.inc.u32 %r6, [%d1], 5;", 5, 5, 0),
    ("atom.global.dec.u32 %r6, [%d1], 5;", 0, 0, 5),
    ("atom.global.dec.u32 %r6, [%d1], 5;", 4, 4, 3),
    ("atom.global.min.s32 %r6, [%d1], -3;", 5, 5, raw("i4", -3)[0]),
    ("atom.global.min.u32 %r6, [%d1], -3;", 5, 5, 5),
    ("atom.global.max.u32 %r6, [%d1], 3;", 5, 5, 5),
    ("atom.global.and.b32 %r6, [%d1], 6;", 5, 5, 4),
    ("atom.global.or.b32 %r6, [%d1], 6;", 5, 5, 7),
    ("atom.global.xor.b32 %r6, [%d1], 6;", 5, 5, 3),
    ("mov.b32 %r6, 5; red.global.add.L2::cache_hint.u32 [%d1], 2, %d9;", 5, 5, 7),
    ("atom.global.add.noftz.bf16x2 %r6, [%d1], 0x3F803F80;", 0x40003F80, 0x40003F80, 0x40404000),
])  # fmt: skip
def test_atomics(code, given, before, after):
    """What was in memory, and what is there afterwards."""
    body = f"mov.b32 %r6, 99; {code} ld.global.b32 %r7, [%d1]; mov.b64 %d4, {{%r6, %r7}}; st.global.b64 [%d2], %d4;"
    word = int(run(body, [given] * 32)[0])
    assert (word & 0xFFFFFFFF, word >> 32) == (before, after), f"{word:#x}"


def test_a_vector_of_atomics():
    """Two numbers each; with a cache hint too, and with what was there before."""
    given = np.frombuffer(np.array([[1, 2]] * 32, np.float32).tobytes(), np.uint64)
    for hint, operand in (("", ""), (".L2::cache_hint", ", %d9")):
        body = f"""mov.b32 %r6, 0f3F800000; mov.b32 %r7, 0f40400000;
        red.global.add{hint}.v2.f32 [%d1], {{%r6, %r7}}{operand}; ld.global.b64 %d4, [%d1]; st.global.b64 [%d2], %d4;"""
        assert (run(body, given).view(np.float32).reshape(32, 2) == (2, 5)).all()
    body = body.replace("red.", "atom.").replace("[%d1], {", "{%r8, %r9}, [%d1], {", 1)
    body = body.replace("st.global.b64 [%d2], %d4;", "mov.b64 %d4, {%r8, %r9}; st.global.b64 [%d2], %d4;")
    assert (run(body, given).view(np.float32).reshape(32, 2) == (1, 2)).all()


def test_votes_reductions_and_atomics_include_every_lane():
    body = """
    setp.lt.u32 %p1, %r1, 5;
    vote.sync.ballot.b32 %r6, %p1, -1;
    redux.sync.add.s32 %r7, %r1, -1;
    add.s32 %r8, %r6, %r7;
    ld.param.b64 %d5, [out];
    atom.global.add.u32 %r9, [%d5], 1;
    @%p1 red.global.max.u32 [%d5+4], %r8;
    """
    word = run(body, threads=64)[0]
    assert int(word) & 0xFFFFFFFF == 64 and int(word) >> 32 == 31 + 496


def test_lanes_diverge_and_reconverge():
    """Every lane leaves the loop in a different iteration; then all must reach a shuffle."""
    body = """
    mov.b32 %r6, 0;
    AGAIN: setp.ge.u32 %p1, %r6, %r1;
    @%p1 bra OUT;
    add.s32 %r6, %r6, 1;
    bra AGAIN;
    OUT: shfl.sync.bfly.b32 %r7, %r6, 1, 31, -1;
    st.global.b32 [%d2], %r7;
    """
    assert (run(body) == np.arange(32) ^ 1).all()


EXCHANGE = """
    shl.b32 %r6, %r1, 2;
    add.s32 %r6, %r6, %r39;
    st.shared.b32 [%r6], %r1;
    {barrier}
    xor.b32 %r7, %r1, 64;
    shl.b32 %r7, %r7, 2;
    add.s32 %r7, %r7, %r39;
    ld.shared.b32 %r8, [%r7];
    st.global.b32 [%d2], %r8;
"""


def test_a_missing_barrier_shows():
    """Four warps exchange words in pairs: with the barrier always correctly, without it never the same in both
    orders."""
    right = np.arange(128) ^ 64
    orders = [run(EXCHANGE.format(barrier="bar.sync 0;"), threads=128, order=o) for o in (1, -1)]
    assert (orders[0] == right).all() and (orders[1] == right).all()
    first, second = (run(EXCHANGE.format(barrier=""), threads=128, order=o) for o in (1, -1))
    assert (first != second).any() and (first != right).any() and (second != right).any()


def test_orders_are_drawn_from_the_seed():
    last = "ld.param.b64 %d5, [out]; st.global.b32 [%d5], %r1;"
    found = {int(run(last, threads=512, order=order)[0]) // 32 for order in range(1, 20)}
    assert len(found) > 3
    assert run(last, threads=512, order=3)[0] == run(last, threads=512, order=3)[0]


@pytest.mark.parametrize("code, said", [
    ("ld.global.b32 %r6, [%d1]; griddepcontrol.wait;", "global memory ahead of griddepcontrol.wait"),
    *((f"setp.lt.u32 %p1, %r1, 3; @%p1 {code}", "lanes 0x7 of the mask 0xffffffff")
      for code in ("bar.sync 0;", "vote.sync.any.pred %p2, %p1, -1;", "redux.sync.add.s32 %r6, %r1, -1;",
                   "elect.sync %r6|%p2, -1;", "bar.warp.sync -1;", "setmaxnreg.dec.sync.aligned.u32 64;")),
    ("ld.global.b32 %r6, [%d1+4096];", "out of bounds: 4 bytes"),
    ("st.global.b64 [%d2+8], %d1;", "out of bounds: 8 bytes.*0 bytes after the end"),
    ("ld.global.v4.b32 {%r6, %r7, %r8, %r9}, [%d1];", "misaligned: 16 bytes"),
    ("st.global.b32 [%d2+2], %r1;", "misaligned: 4 bytes"),
    ("mov.b64 %d5, 0; ld.global.b32 %r6, [%d5];", "out of bounds"),
    ("st.shared.b32 [%r39+1024], %r1;", "out of bounds: 4 bytes at 1024 of 1024 shared bytes"),
    ("st.shared.v2.b32 [%r39+4], {%r1, %r1};", "misaligned: 8 bytes"),
    ("mov.b32 %r6, 0; ld.shared.b32 %r6, [%r6];", "out of bounds"),
    ("red.global.add.u32 [%d2+1024], 1;", "out of bounds"),
    ("setp.lt.u32 %p1, %r1, 3; @%p1 shfl.sync.bfly.b32 %r6, %r1, 1, 31, -1;", "lanes 0x7 of the mask 0xffffffff"),
    ("red.global.add.u32 [%d2+2], 1;", "misaligned: 4 bytes"),
    ("red.global.add.v2.f32 [%d2+4], {%r6, %r7};", "misaligned: 8 bytes"),
    ("mov.b64 %d5, in; ld.param.b64 %d6, [%d5+16];", "out of bounds: no argument is there"),
    ("mov.b64 %d5, in; ld.param.b64 %d6, [%d5+-8];", "out of bounds: no argument is there"),
    ("mov.b64 %d5, in; ld.param.b64 %d6, [%d5+4];", "misaligned: 8 bytes"),
    ("trap;", r"trap.*: trap \(program"),
    ("st.global.b32 [%d2], %r1; griddepcontrol.wait;", "global memory ahead of griddepcontrol.wait"),
])  # fmt: skip
def test_mistakes_are_found_with_their_line(code, said):
    with pytest.raises(Fault, match=rf"PTX line {LINE}: .*{said}"):
        run(code)


def test_lanes_that_wait_at_two_places():
    with pytest.raises(Fault, match=r"lanes of a warp wait for each other at different places.*bar.sync 0.*bar.sync 1"):
        run("setp.lt.u32 %p1, %r1, 3; @%p1 bra L; bar.sync 0; L: bar.sync 1;")


def test_lanes_that_leave_out_what_all_must_do():
    with pytest.raises(Fault, match=r"lanes of a warp wait for each other at different places.*movmatrix.*bar.warp"):
        run("setp.ge.u32 %p1, %r1, 3; @%p1 bra L; movmatrix.sync.aligned.m8n8.trans.b16 %r6, %r1; L: bar.warp.sync -1;")


def test_a_loop_without_an_end(monkeypatch):
    monkeypatch.setattr(machines, "LARGEST_RUN", 1000)
    with pytest.raises(Fault, match="no end after 1000 instructions"):
        run("L: bra L;")


@pytest.mark.parametrize("code", ["ld.global.v2.b64 {%d1, %d2}, [%d40+8];", "st.global.v2.b64 [%d40+8], {%d1, %d2};",
                                  "red.global.add.v4.f32 [%d40+8], {%r5, %r6, %r7, %r8};"])  # fmt: skip
def test_the_end_of_a_vector_is_checked(code):
    """Its first words are inside."""
    room = np.zeros(8, np.uint64)
    array = room[1 if room.ctypes.data % 16 == 0 else 2 :][:2]
    assert array.ctypes.data % 16 == 8
    with pytest.raises(Fault, match=r"out of bounds: 16 bytes at .* 8 of them after the end|out of bounds: 4 bytes at"):
        launch(code, array)


@pytest.mark.parametrize("code, said", [
    ("frobnicate.b32 %r6, %r1;", "unknown instruction frobnicate"),
    ("add.cc.u32 %r6, %r1, %r1;", "unknown modifier .cc"),
    ("mov.b32 %r6, %clock;", "operand %clock"),
    ("bra NOWHERE;", "no such label"),
    (".local .b8 depot[16];", "declaration .local"),
    ("mbarrier.shared::cta.b64 [%r39];", "an mbarrier cannot do this"),
    ("add.sat.u32 %r6, %r1, %r1;", "saturation of u32"),
    ("setp.lt.s32 %p1|%p2, %r1, 3;", "two results of one comparison"),
    ("cvt.rz.f16.f32 %h1, %r1;", "rounding towards zero"),
    ("cvt.rn.bf16x2.e4m3x2 %r6, %h1;", "e4m3x2 to bf16x2"),
])  # fmt: skip
def test_unknown_instructions_are_reported_before_anything_runs(code, said):
    with pytest.raises(Unsupported, match=f"PTX line {LINE}: .*{said}"):
        run(code)


def test_a_barrier_that_one_warp_misses():
    body = "setp.lt.u32 %p1, %r1, 32; @%p1 bra L; bar.sync 1, 64; L: bar.sync 0;"
    with pytest.raises(
        Fault,
        match=rf"deadlock.*warps 0 at PTX line {LINE}: bar.sync 0 \(32 of all threads are here\); "
        rf"warps 1 at PTX line {LINE}: bar.sync 1",
    ):
        run(body, threads=64)


# --- clusters ---------------------------------------------------------------------------------------------------------

OPEN = """
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra OPENED;
    mbarrier.init.shared::cta.b64 [%r39+64], 1;
    fence.mbarrier_init.release.cluster;
    OPENED:
    {meet}
    add.s32 %r6, %r2, 1;
    and.b32 %r6, %r6, 3;
    mapa.shared::cluster.u32 %r7, %r39, %r6;
    add.s32 %r8, %r2, 100;
"""
MEET = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
SEND = """
    @%p1 bra SENT;
    add.s32 %r9, %r7, 64;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r7], %r8, [%r9];
    SENT:
"""
AWAIT = """
    {{
    .reg .b64 phase;
    .reg .pred over;
    @%p1 bra MET;
    mbarrier.arrive.expect_tx.shared::cta.b64 phase, [%r39+64], {bytes};
    WAIT: mbarrier.try_wait.shared::cta.b64 over, [%r39+64], phase;
    @!over bra WAIT;
    MET: bar.warp.sync 0xffffffff;
    }}
"""
READ = "bar.sync 0; ld.shared.b32 %r10, [%r39]; st.global.b32 [%d2], %r10;"


def test_messages_travel_around_a_cluster():
    body = OPEN.format(meet=MEET) + SEND + AWAIT.format(bytes=4) + READ + MEET
    for order in (1, -1, 2):
        out = run(body, threads=64, cluster=4, order=order)
        assert (out.reshape(4, 64) == np.array([[103], [100], [101], [102]])).all()


def test_messages_of_two_words():
    send = SEND.replace(".b32 [%r7], %r8", ".v2.b32 [%r7], {%r2, %r8}")
    body = OPEN.format(meet=MEET) + send + AWAIT.format(bytes=8) + READ.replace("[%r39]", "[%r39+4]") + MEET
    for order in (1, -1, 2):
        out = run(body, threads=64, cluster=4, order=order)
        assert (out.reshape(4, 64) == np.array([[103], [100], [101], [102]])).all()


@pytest.mark.parametrize("body, said", [
    (OPEN.format(meet=MEET) + SEND + AWAIT.format(bytes=8) + READ + MEET,
     r"deadlock.*mbarrier.try_wait.*phase 0: 0 of 1 arrivals and 4 bytes missing"),
    (OPEN.format(meet=MEET) + SEND.replace("%r9, %r7, 64", "%r9, %r39, 64"),
     "the data and its mbarrier are in different blocks"),
    (OPEN.format(meet=MEET) + SEND + READ + AWAIT.format(bytes=4) + MEET + "cp.async.wait_all;",
     "reads what nobody has waited for"),
    (OPEN.format(meet=MEET) + SEND.replace("[%r7], %r8", "[%r7+4096], %r8"), "out of bounds: 4 bytes at 4096"),
    (OPEN.format(meet="") + SEND, "no mbarrier has been initialised at 0x40|nothing orders this behind the init"),
    (OPEN.format(meet=MEET) + SEND, "st.async.*: the memory of block ., which has ended"),
    ("barrier.cluster.wait.aligned;", "at which it has not arrived"),
    ("barrier.cluster.arrive.aligned; barrier.cluster.arrive.aligned;", "arrives twice at a cluster barrier"),
    ("setp.lt.u32 %p1, %r1, 3; @%p1 barrier.cluster.arrive;", "lanes 0x7 of the mask"),
    ("setp.eq.u32 %p1, %r2, 0; @%p1 bra L;" + MEET + " ret; L: bar.sync 1, 96;", "deadlock"),
    ("mapa.shared::cluster.u32 %r7, %r39, 9; ld.shared::cluster.b32 %r8, [%r7];", "no block 9 in a cluster of 4"),
])  # fmt: skip
def test_mistakes_of_clusters(body, said):
    with pytest.raises(Fault, match=said):
        run(body, threads=32, cluster=4)


def test_an_address_in_no_block_is_invalid_only_when_used():
    """LLVM computes addresses for lanes that do not use them."""
    body = """
    mapa.shared::cluster.u32 %r7, %r39, %r1;
    setp.gt.u32 %p1, %r1, 3;
    @%p1 bra STORED;
    st.shared::cluster.b32 [%r7], %r2;
    STORED:
    """
    out = run(MEET + body + MEET.replace(".relaxed", "") + READ, threads=32, cluster=4)
    assert np.isin(out, range(4)).all()


def test_messages_that_nobody_waits_for_are_not_visible():
    body = OPEN.format(meet=MEET) + SEND + READ.removeprefix("bar.sync 0;") + AWAIT.format(bytes=4) + MEET
    assert (run(body, threads=32, cluster=4) == 0xC5C5C5C5).all()
