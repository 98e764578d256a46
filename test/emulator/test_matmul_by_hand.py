"""A handwritten matrix product for tensor cores: correct in every order, and each mistake put into it is found."""

import time

import numpy as np
import pytest

from emulator.by_hand import launch, mapped
from emulator.ptx import Fault

ORDERS = (1, -1, 2, 3, -4)
STEPS = 3
SLOT = 2 * 128 * 128  # bytes of 128 x 64 halves of each operand
SUMS = [f"%r{100 + i}" for i in range(64)]

INITIALISE = """
mbarrier.init.shared::cta.b64 [%r3+{full}], 1;
mbarrier.init.shared::cta.b64 [%r3+{empty}], 8;
"""
# Warp 0 copies, warps 4 to 11 are two groups that multiply 64 rows each. %r20: the slot; %r21: the step; %r22: the
# parity.
KERNEL = """
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
{initialise}
fence.mbarrier_init.release.cluster;
READY: bar.sync 0; // begin
mov.u32 %r20, 0;
mov.u32 %r21, 0;
setp.ge.u32 %p2, %r2, 4;
@%p2 bra CONSUME;

setmaxnreg.dec.sync.aligned.u32 40;
setp.ne.u32 %p3, %r2, 0;
@%p3 bra DONE;
elect.sync _|%p4, -1;
@!%p4 bra DONE;
mov.u32 %r22, 1;
mov.u32 %r26, 0;
LOAD:
{place}
WAIT_EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r24+8], %r22;
@!%p5 bra WAIT_EMPTY; // empty
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r24], {slot};
{load} [%r23], [%d40, {{%r26, 0}}], [%r24];
add.u32 %r25, %r23, 16384;
{load} [%r25], [%d41, {{%r26, 0}}], [%r24];
add.u32 %r26, %r26, 64;
{advance}
@%p7 bra LOAD;
bra DONE;

CONSUME:
setmaxnreg.inc.sync.aligned.u32 232;
mov.u32 %r22, 0;
sub.u32 %r30, %r2, 4;
shr.u32 %r31, %r30, 2; // group
and.b32 %r32, %r30, 3; // warp of the group
MULTIPLY:
{place}
WAIT_FULL: mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r24], %r22;
@!%p5 bra WAIT_FULL; // full
setp.ne.u32 %p9, %r21, 0;
mad.lo.u32 %r33, %r31, 8192, %r23;
add.u32 %r34, %r23, 16384;
shr.u32 %r33, %r33, 4;
shr.u32 %r34, %r34, 4;
or.b32 %r33, %r33, 0x10000;
or.b32 %r34, %r34, 0x10000;
wgmma.fence.sync.aligned;
{products}
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
elect.sync _|%p4, -1;
@%p4 mbarrier.arrive.release.cta.shared::cta.b64 _, [%r24+8]; // release
{advance}
@%p7 bra MULTIPLY;

mad.lo.u32 %r40, %r31, 16384, %r3;
add.u32 %r40, %r40, {out};
shr.u32 %r41, %r4, 3; // matrix
and.b32 %r42, %r4, 7; // row of it
and.b32 %r43, %r41, 1;
shl.b32 %r43, %r43, 3;
mad.lo.u32 %r43, %r32, 16, %r43;
add.u32 %r43, %r43, %r42;
mad.lo.u32 %r43, %r43, 128, %r40;
shr.u32 %r41, %r41, 1;
{stage}
fence.proxy.async.shared::cta;
add.u32 %r46, %r31, 1;
barrier.sync %r46, 128; // staged
setp.ne.u32 %p10, %r32, 0;
@%p10 bra DONE;
elect.sync _|%p4, -1;
@!%p4 bra DONE;
shl.b32 %r47, %r31, 6;
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d42, {{0, %r47}}], [%r40];
add.u32 %r48, %r40, 8192;
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d42, {{64, %r47}}], [%r48];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
DONE:
"""
PLACE = """
mad.lo.u32 %r23, %r20, {slot}, %r3;
mad.lo.u32 %r24, %r20, 16, %r3;
add.u32 %r24, %r24, {barriers};
"""
ADVANCE = """
add.u32 %r20, %r20, 1;
setp.eq.u32 %p6, %r20, {stages};
@%p6 xor.b32 %r22, %r22, 1;
@%p6 mov.u32 %r20, 0;
add.u32 %r21, %r21, 1;
setp.lt.u32 %p7, %r21, {steps};
"""
PRODUCT = """
add.u32 %r35, %r33, {units};
add.u32 %r36, %r34, {units};
mov.b64 %d1, {{%r35, 0x40000040}};
mov.b64 %d2, {{%r36, 0x40000040}};
wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {{{sums}}}, %d1, %d2, {adds}, 1, 1, 0, 0;
"""
STAGE = """
cvt.rn.f16x2.f32 %r50, {1}, {0};
cvt.rn.f16x2.f32 %r51, {3}, {2};
cvt.rn.f16x2.f32 %r52, {5}, {4};
cvt.rn.f16x2.f32 %r53, {7}, {6};
add.u32 %r45, %r41, {chunk};
xor.b32 %r45, %r45, %r42;
mad.lo.u32 %r45, %r45, 16, %r43;
stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r45+{box}], {{%r50, %r51, %r52, %r53}};
"""
LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"


def kernel(stages=2):
    """The kernel's text and the size of its shared memory: slots, barriers, the result."""
    barriers = stages * SLOT
    out = barriers + 1024
    body = KERNEL.format(
        initialise="".join(
            INITIALISE.format(full=barriers + 16 * s, empty=barriers + 16 * s + 8) for s in range(stages)
        ),
        place=PLACE.format(slot=SLOT, barriers=barriers),
        slot=SLOT,
        load=LOAD,
        advance=ADVANCE.format(stages=stages, steps=STEPS),
        products="".join(PRODUCT.format(units=2 * k, sums=", ".join(SUMS), adds="1" if k else "%p9") for k in range(4)),
        out=out,
        stage="".join(STAGE.format(*SUMS[8 * j : 8 * j + 8], chunk=2 * j % 8, box=j // 4 * 8192) for j in range(8)),
    )
    return body, out + 2 * 16384


def multiply(body, shared, order=1):
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-4, 5, (128, 64 * STEPS)).astype(np.float16) for _ in range(2))
    c = np.zeros((128, 128), np.float16)
    maps = mapped(a, (128, 64), 128), mapped(b, (128, 64), 128), mapped(c, (64, 64), 128)
    launch(body, *maps, threads=384, shared=shared, order=order)
    return c, a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_it_is_right(order, stages):
    got, want = multiply(*kernel(stages), order=order)
    assert (got == want).all()


def test_it_takes_seconds():
    before = time.process_time()
    multiply(*kernel())
    assert time.process_time() - before < 5


def changed(text, instead=""):
    body, shared = kernel()
    assert text in body
    return body.replace(text, instead), shared


MISTAKES = {
    "the producer does not wait for empty slots": (
        "@!%p5 bra WAIT_EMPTY; // empty",
        "",
        "overwrites what (warp|is still)|is filled by|ended without it|more than 1 arrive",
    ),
    "the consumer does not wait for full slots": (
        "@!%p5 bra WAIT_FULL; // full",
        "",
        "reads what nobody has waited for",
    ),
    "too few bytes announced": (
        f"_, [%r24], {2 * 128 * 128}",
        "_, [%r24], 16384",
        "nobody has waited|has ended without it|ends while it is filled",
    ),
    "too many bytes announced": (f"_, [%r24], {2 * 128 * 128}", "_, [%r24], 32784", "deadlock.*16 bytes missing"),
    "nothing is announced": (
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r24], 32768;",
        "",
        "deadlock.*1 of 1 arrivals",
    ),
    "no wgmma.fence": ("wgmma.fence.sync.aligned;", "", "written with no wgmma.fence"),
    "no wait for products": (
        "wgmma.wait_group.sync.aligned 0;",
        "",
        "accumulator in flight|overwrites what is still being read",
    ),
    "a product too few is waited for": (
        "wgmma.wait_group.sync.aligned 0;",
        "wgmma.wait_group.sync.aligned 1;",
        "accumulator in flight|overwrites what is still being read",
    ),
    "no group is closed": ("wgmma.commit_group.sync.aligned;", "", "accumulator in flight|still being read"),
    "slots are not released": (
        "@%p4 mbarrier.arrive.release.cta.shared::cta.b64 _, [%r24+8]; // release",
        "",
        "deadlock.*8 of 8 arrivals",
    ),
    "the release lets nobody know": ("mbarrier.arrive.release.cta", "mbarrier.arrive.relaxed.cta", "overwrites what"),
    "parity is not flipped by the consumer": (
        "@%p6 xor.b32 %r22, %r22, 1;",
        "",
        "nobody has waited|deadlock|is overrun|overwrites what|more than . arrive",
    ),
    "no proxy fence before the copy out": (
        "fence.proxy.async.shared::cta;",
        "",
        r"reads what warp \d+ wrote without a fence.proxy.async",
    ),
    "no barrier before the copy out": (
        "barrier.sync %r46, 128; // staged",
        "",
        r"reads what warp \d+ wrote, with nothing in between|still being read",
    ),
    "a barrier of too few": (
        "barrier.sync %r46, 128;",
        "barrier.sync %r46, 96;",
        "deadlock|with nothing in between|still being read",
    ),
    "the copy out is not waited for": ("cp.async.bulk.wait_group.read 0;", "", "ends before its memory has been read"),
    "the copy out is not closed": ("cp.async.bulk.commit_group;", "", "ends before its memory has been read"),
    "barriers without a fence": ("fence.mbarrier_init.release.cluster;", "", "was initialised without a fence"),
    "nobody waits for barriers to be there": (
        "READY: bar.sync 0; // begin",
        "READY:",
        "no mbarrier has been initialised|nothing orders this behind",
    ),
    "slots overlap": (
        "mad.lo.u32 %r23, %r20, 32768, %r3;",
        "mad.lo.u32 %r23, %r20, 32752, %r3;",
        "misaligned|nobody has waited|overwrites what",
    ),
    "too many registers": (
        "setmaxnreg.inc.sync.aligned.u32 232;",
        "setmaxnreg.inc.sync.aligned.u32 240;",
        "deadlock.*setmaxnreg.inc.*are free",
    ),
    "registers by one warp": (
        "setmaxnreg.dec.sync.aligned.u32 40;",
        "@%p31 setmaxnreg.dec.sync.aligned.u32 40;",
        "deadlock.*setmaxnreg",
    ),
    "an illegal number of registers": (
        "u32 232;",
        "u32 228;",
        "expected 24 to 256 registers and a multiple of 8, got 228",
    ),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_found_in_every_order(name, order):
    text, instead, said = MISTAKES[name]
    with pytest.raises(Fault, match=said):
        multiply(*changed(text, instead), order=order)


def test_the_line_of_a_mistake_is_named():
    """The lines of the reading and of the writing instruction."""
    body, shared = changed("@!%p5 bra WAIT_FULL; // full")
    with pytest.raises(Fault, match=r"PTX line \d+: wgmma.mma_async.*is filled by PTX line \d+: cp.async.bulk.tensor"):
        multiply(body, shared)
