"""Barriers of all kinds: who waits for whom, what each releases to the other, and every misuse, reported by name."""

import numpy as np
import pytest

from emulator import machine as machines
from emulator.by_hand import launch
from emulator.ptx import Fault, Unsupported

ORDERS = (1, -1, 2, 3)
INIT = """
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r3], {count};
mbarrier.init.shared::cta.b64 [%r3+8], {count};
fence.mbarrier_init.release.cluster;
READY: bar.sync 0;
"""
WAIT = "WAIT{n}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3+{at}], {parity};\n@!%p2 bra WAIT{n};\n"


def wait(n, parity, at=0):
    return WAIT.format(n=n, parity=parity, at=at)


# --- mbarriers --------------------------------------------------------------------------------------------------------

# Warp 0 produces and warp 1 consumes, in turns, through one word; barrier 0 means full, barrier 8 means empty.
TURNS = (INIT.format(count=32) + """
mov.u32 %r10, 0;
setp.eq.u32 %p3, %r2, 1;
@%p3 bra TAKE;
GIVE:
and.b32 %r11, %r10, 1;
xor.b32 %r11, %r11, 1;
EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3+8], %r11;
@!%p2 bra EMPTY;
mad.lo.u32 %r12, %r4, 4, %r3;
mad.lo.u32 %r13, %r10, 100, %r4;
st.shared.b32 [%r12+64], %r13;
mbarrier.arrive.shared::cta.b64 %d1, [%r3];
add.u32 %r10, %r10, 1;
setp.lt.u32 %p4, %r10, 5;
@%p4 bra GIVE;
bra DONE;
TAKE:
and.b32 %r11, %r10, 1;
FULL: mbarrier.{test}.parity.shared::cta.b64 %p2, [%r3], %r11;
@!%p2 bra FULL;
xor.b32 %r14, %r4, 31;
mad.lo.u32 %r12, %r14, 4, %r3;
ld.shared.b32 %r13, [%r12+64];
mad.lo.u32 %r15, %r10, 32, %r4;
mad.wide.u32 %d2, %r15, 4, %d40;
st.global.b32 [%d2], %r13;
mbarrier.arrive.shared::cta.b64 _, [%r3+8];
add.u32 %r10, %r10, 1;
setp.lt.u32 %p4, %r10, 5;
@%p4 bra TAKE;
DONE:
""")  # fmt: skip


@pytest.mark.parametrize("test", ["try_wait", "test_wait"])
@pytest.mark.parametrize("order", ORDERS)
def test_two_warps_take_turns(order, test):
    out = np.zeros((5, 32), np.uint32)
    launch(TURNS.replace("{test}", test), out, threads=64, order=order)
    assert (out == np.arange(5)[:, None] * 100 + np.arange(31, -1, -1)).all()


# A copy in a kernel makes the emulator check what orders the accesses to shared memory.
CHECKED = "cp.async.wait_all;\n"


@pytest.mark.parametrize("arrive", ["", ".release.cta", ".release.cluster"])
@pytest.mark.parametrize("test", ["try_wait", "test_wait.acquire.cta", "try_wait.acquire.cluster"])
@pytest.mark.parametrize("order", ORDERS)
def test_an_arrival_orders_accesses_before_a_wait(order, test, arrive):
    out = np.zeros((5, 32), np.uint32)
    body = TURNS.replace("{test}", test).replace("mbarrier.arrive", f"mbarrier.arrive{arrive}")
    launch(body + CHECKED, out, threads=64, order=order)
    assert (out == np.arange(5)[:, None] * 100 + np.arange(31, -1, -1)).all()


@pytest.mark.parametrize("change", [("mbarrier.arrive", "mbarrier.arrive.relaxed.cta"),
                                    ("mbarrier.{test}", "mbarrier.{test}.relaxed.cta")])  # fmt: skip
@pytest.mark.parametrize("order", ORDERS)
def test_a_relaxed_arrival_or_wait_orders_nothing(order, change):
    body = TURNS.replace(*change).replace("{test}", "try_wait")
    with pytest.raises(Fault, match="with nothing in between that orders them"):
        launch(body + CHECKED, np.zeros((5, 32), np.uint32), threads=64, order=order)


@pytest.mark.parametrize("order", ORDERS)
def test_threads_may_use_an_mbarrier_without_a_fence(order):
    """A barrier of the block orders its initialisation; only copies need the fence."""
    out = np.zeros((5, 32), np.uint32)
    body = TURNS.replace("{test}", "try_wait").replace("fence.mbarrier_init.release.cluster;", "")
    launch(body, out, threads=64, order=order)
    assert (out == np.arange(5)[:, None] * 100 + np.arange(31, -1, -1)).all()


@pytest.mark.parametrize("order", ORDERS)
def test_memory_of_an_mbarrier_is_data_again(order):
    out = np.zeros(1, np.uint32)
    body = INIT.format(count=1) + """@%p1 bra DONE;
    mbarrier.inval.shared::cta.b64 [%r3];
    st.shared.b32 [%r3], 7;
    ld.shared.b32 %r5, [%r3];
    st.global.b32 [%d40], %r5;
    DONE:
    """ + CHECKED  # fmt: skip
    launch(body, out, order=order)
    assert out[0] == 7


@pytest.mark.parametrize("place, parity", [("8", "0"), ("0", "1")])
@pytest.mark.parametrize("order", ORDERS)
def test_lanes_wait_each_for_its_own(order, place, parity):
    """Half of them wait for what has happened, in the same instruction as those whose barrier or phase is not over."""
    body = INIT.format(count=1) + f"""@!%p1 mbarrier.arrive.shared::cta.b64 _, [%r3];
    setp.lt.u32 %p3, %r4, 16;
    selp.b32 %r5, 0, {place}, %p3;
    selp.b32 %r6, 0, {parity}, %p3;
    add.u32 %r5, %r3, %r5;
    {wait(0, "%r6").replace("%r3+0", "%r5")}
    """  # fmt: skip
    with pytest.raises(Fault, match=r"deadlock.*1 of 1 arrivals and 0 bytes missing"):
        launch(body, order=order)


@pytest.mark.parametrize("order", ORDERS)
def test_a_phase_that_is_over_may_be_waited_for_again(order):
    out = np.zeros(1, np.uint32)
    body = INIT.format(count=1) + """@%p1 bra DONE;
    mbarrier.arrive.shared::cta.b64 _, [%r3];
    mov.u32 %r10, 0;
    AGAIN:
    """ + wait(0, 0) + """add.u32 %r10, %r10, 1;
    setp.lt.u32 %p4, %r10, 20;
    @%p4 bra AGAIN;
    st.global.b32 [%d40], %r10;
    DONE:
    """  # fmt: skip
    launch(body, out, order=order)
    assert out[0] == 20


@pytest.mark.parametrize("order", ORDERS)
def test_states_of_two_phases(order):
    """The state of the second phase is not that of the first."""
    body = INIT.format(count=64) + """
    mov.u32 %r10, 0;
    ROUND:
    mad.lo.u32 %r12, %r1, 4, %r3;
    mad.lo.u32 %r13, %r10, 100, %r1;
    st.shared.b32 [%r12+64], %r13;
    mbarrier.arrive.shared::cta.b64 %d1, [%r3];
    WAIT: mbarrier.try_wait.shared::cta.b64 %p2, [%r3], %d1;
    @!%p2 bra WAIT;
    xor.b32 %r13, %r1, 63;
    mad.lo.u32 %r12, %r13, 4, %r3;
    ld.shared.b32 %r13, [%r12+64];
    mad.lo.u32 %r14, %r10, 64, %r1;
    mad.wide.u32 %d2, %r14, 4, %d40;
    st.global.b32 [%d2], %r13;
    mbarrier.arrive.shared::cta.b64 %d1, [%r3+8];
    READ: mbarrier.try_wait.shared::cta.b64 %p2, [%r3+8], %d1;
    @!%p2 bra READ;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p4, %r10, 3;
    @%p4 bra ROUND;
    """ + CHECKED  # fmt: skip
    out = np.zeros((3, 64), np.uint32)
    launch(body, out, threads=64, order=order)
    assert (out == np.arange(3)[:, None] * 100 + np.arange(63, -1, -1)).all()


@pytest.mark.parametrize("order", ORDERS)
def test_states_instead_of_parities(order):
    body = (
        INIT.format(count=64)
        + """
    mad.lo.u32 %r12, %r1, 4, %r3;
    st.shared.b32 [%r12+64], %r1;
    mbarrier.arrive.release.cta.shared::cta.b64 %d1, [%r3];
    WAIT: mbarrier.try_wait.acquire.cta.shared::cta.b64 %p2, [%r3], %d1;
    @!%p2 bra WAIT;
    xor.b32 %r13, %r1, 63;
    mad.lo.u32 %r12, %r13, 4, %r3;
    ld.shared.b32 %r13, [%r12+64];
    mad.wide.u32 %d2, %r1, 4, %d40;
    st.global.b32 [%d2], %r13;
    """
    )
    out = np.zeros(64, np.uint32)
    launch(body, out, threads=64, order=order)
    assert (out == np.arange(63, -1, -1)).all()


def test_bytes_are_counted():
    body = (
        INIT.format(count=1)
        + """
    @%p1 bra WAIT;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r3], 24;
    mbarrier.arrive.shared::cta.b64 _, [%r3];
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r3], 8;
    mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r3], 0;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r3], 16;
    mbarrier.test_wait.parity.shared::cta.b64 %p4, [%r3], 0;
    selp.b32 %r10, 1, 0, %p3;
    selp.b32 %r11, 2, 0, %p4;
    add.u32 %r10, %r10, %r11;
    st.global.b32 [%d40], %r10;
    WAIT:
    """
    )
    out = np.zeros(1, np.uint32)
    launch(body, out)
    assert out[0] == 2


def test_a_wait_that_gives_up_takes_another_path():
    """The warp reaches the arrival only because the wait gives up."""
    body = (
        INIT.format(count=1)
        + """
    @%p1 bra DONE;
    mov.u32 %r10, 0;
    TRY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
    @%p2 bra OVER;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p3, %r10, 3;
    @%p3 bra TRY;
    mbarrier.arrive.shared::cta.b64 _, [%r3];
    bra TRY;
    OVER: st.global.b32 [%d40], %r10;
    DONE:
    """
    )
    out = np.zeros(1, np.uint32)
    launch(body, out)
    assert out[0] == 3


@pytest.mark.parametrize("body, said", [
    ("mbarrier.arrive.shared::cta.b64 _, [%r3];", "no mbarrier has been initialised at 0x0 of block 0"),
    (wait(0, 0), "no mbarrier has been initialised"),
    ("mbarrier.init.shared::cta.b64 [%r3+4], 1;", "misaligned: 8 bytes"),
    ("mbarrier.init.shared::cta.b64 [%r3], 0;", "expected 1 to 1048575 arrivals, got 0"),
    (INIT.format(count=31) + "mbarrier.arrive.shared::cta.b64 _, [%r3], 2;", "more than 31 arrive in phase 0"),
    (INIT.format(count=1) + "@!%p1 mbarrier.init.shared::cta.b64 [%r3], 1;", "while it is one"),
    (INIT.format(count=1) + "@!%p1 mbarrier.inval.shared::cta.b64 [%r3];" + wait(0, 0),
     "no mbarrier has been initialised"),
    (INIT.format(count=1) + "@!%p1 st.shared.b32 [%r3+4], 0;\n" + wait(0, 0), "at 0x0 of block 0 has been overwritten"),
    (INIT.format(count=1) + "st.shared.b32 [%r3+4], 0;\ncp.async.wait_all;", "overwrites the mbarrier of PTX line"),
    (INIT.format(count=1) + "ld.shared.b32 %r5, [%r3+4];\ncp.async.wait_all;", "reads the mbarrier of PTX line"),
    (INIT.format(count=1) + wait(0, 0), "deadlock.*1 of 1 arrivals and 0 bytes missing"),
    (INIT.format(count=1) + wait(0, 2), "expected a parity of 0 or 1, got 2"),
    (INIT.format(count=1).replace("READY: bar.sync 0;", "READY:") + "mbarrier.arrive.shared::cta.b64 _, [%r3];",
     "nothing orders this behind|no mbarrier|more than 1"),
    (INIT.format(count=64) + "mbarrier.arrive.shared::cta.b64 %d1, [%r3];\nmov.b64 %d2, 7;\n"
     "mbarrier.try_wait.shared::cta.b64 %p2, [%r3], %d2;", "asks for phase 7 when phase . is under way"),
    (INIT.format(count=1) + "@!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 1048576;",
     "1048576 bytes are to come"),
])  # fmt: skip
@pytest.mark.parametrize("order", ORDERS)
def test_misuse_of_mbarriers(body, said, order):
    with pytest.raises(Fault, match=rf"(PTX line \d+: .*)?({said})"):
        launch(body, threads=64, order=order)


@pytest.mark.parametrize("order", ORDERS)
def test_a_waiter_that_is_left_behind(order):
    """It saw phase 0 end, then two more phases passed before it asked again."""
    body = INIT.format(count=1) + """
    setp.eq.u32 %p3, %r2, 1;
    @%p3 bra SLOW;
    @!%p1 mbarrier.arrive.shared::cta.b64 _, [%r3];
    bar.sync 1;
    @!%p1 mbarrier.arrive.shared::cta.b64 _, [%r3];
    @!%p1 mbarrier.arrive.shared::cta.b64 _, [%r3];
    bar.sync 2;
    bra DONE;
    SLOW:
    """ + wait(0, 0) + "bar.sync 1; bar.sync 2;\n" + wait(1, 1) + "SEEN: st.global.b32 [%d40], 7; DONE:"  # fmt: skip
    with pytest.raises(
        Fault, match="is overrun: it waits for the end of phase 1 by its parity, and phase 3 is under way"
    ):
        launch(body, np.zeros(1, np.uint32), threads=64, order=order)
    # It may ask for the end of phase 2; and kernels may say that warps skip phases, although this one then waits.
    out = np.zeros(1, np.uint32)
    launch(body.replace(wait(1, 1), wait(1, 0)), out, threads=64, order=order)
    assert out[0] == 7
    with pytest.raises(Fault, match="deadlock"):
        launch(body, out, threads=64, order=order, skips=True)


# What warp 0 of block 0 knows of a copy, warp 0 of block 1 knows after an arrival there, depending on scopes.
REMOTE = """
mov.u32 %r5, %cluster_ctarank;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r3], 1;
fence.mbarrier_init.release.cluster;
READY: barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
setp.eq.u32 %p3, %r5, 1;
@%p3 bra SECOND;
cp.async.ca.shared.global [%r3+64], [%d40], 4;
cp.async.commit_group;
cp.async.wait_group 0;
mapa.shared::cluster.u32 %r6, %r3, 1;
@!%p1 mbarrier.arrive.release.{release}.shared::cluster.b64 _, [%r6];
bra DONE;
SECOND:
WAIT: mbarrier.try_wait.parity.acquire.{acquire}.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra WAIT;
mapa.shared::cluster.u32 %r6, %r3, 0;
ld.shared::cluster.b32 %r7, [%r6+64];
st.global.b32 [%d41], %r7;
DONE: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("release", ["cta", "cluster", "plain"])
@pytest.mark.parametrize("acquire", ["cta", "cluster"])
def test_scopes(release, acquire, order):
    out = np.zeros(1, np.uint32)
    body = REMOTE.format(release=release, acquire=acquire).replace(
        "cp.async.ca.shared.global", "@!%p1 cp.async.ca.shared.global"
    )
    body = body.replace(".release.plain", "")
    given = np.full(1, 77, np.uint32)
    if release == "plain" or (release, acquire) == ("cluster", "cluster"):
        launch(body, given, out, cluster=2, order=order)
        assert out[0] == 77
    else:
        with pytest.raises(Fault, match="reads what nobody has waited for: it is filled by PTX line"):
            launch(body, given, out, cluster=2, order=order)


@pytest.mark.parametrize("code, said", [
    ("mapa.shared::cluster.u32 %r6, %r3, 1;\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], 0;",
     "not its own block"),
    ("mapa.shared::cluster.u32 %r6, %r3, 1;\n@!%p1 mbarrier.arrive.shared::cta.b64 _, [%r6];", "as if it were its own"),
    ("setp.eq.u32 %p4, %r5, 1;\n@%p4 bra DONE2;\nmapa.shared::cluster.u32 %r6, %r3, 1;\nmov.u32 %r10, 0;\n"
     "LATE: nanosleep.u32 20; add.u32 %r10, %r10, 1; setp.lt.u32 %p5, %r10, 9; @%p5 bra LATE;\n"
     "mbarrier.arrive.shared::cluster.b64 _, [%r6];\nDONE2:", "the memory of block 1, which has ended"),
])  # fmt: skip
@pytest.mark.parametrize("order", ORDERS)
def test_misuse_of_barriers_of_others(code, said, order):
    begin = REMOTE[: REMOTE.index("setp.eq.u32 %p3")]
    with pytest.raises(Fault, match=said):
        launch(begin + code + ("barrier.cluster.arrive; barrier.cluster.wait;" if "LATE" not in code else ""),
               cluster=2, order=order)  # fmt: skip


# --- barriers of a block ----------------------------------------------------------------------------------------------

# Two groups of two warps: one writes and arrives without waiting, the other waits and reads.
ARRIVE = """
setp.ge.u32 %p3, %r2, 2;
mad.lo.u32 %r10, %r1, 4, %r3;
@%p3 bra READ;
st.shared.b32 [%r10], %r1;
{arrive}
bra DONE;
READ:
{sync}
ld.shared.b32 %r11, [%r10+-256];
mad.wide.u32 %d1, %r1, 4, %d40;
st.global.b32 [%d1], %r11;
DONE:
"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("form", ["bar", "barrier", "barrier.cta"])
def test_arrival_without_a_wait(order, form):
    out = np.zeros(128, np.uint32)
    launch(ARRIVE.format(arrive=f"{form}.arrive 3, 128;", sync=f"{form}.sync 3, 128;"), out, threads=128, order=order)
    assert (out[64:] == np.arange(64)).all()


@pytest.mark.parametrize("arrive, sync, said", [
    ("bar.arrive 3, 128;", "bar.sync 3, 96;", "expects (96|128) threads where others expect (96|128)"),
    ("bar.arrive 3, 128;", "bar.sync 4, 128;",
     r"deadlock.*warps 2, 3 at PTX line .*bar.sync 4, 128 \(64 of 128 threads are here\)"),
    ("bar.arrive 3, 160;", "bar.sync 3, 160;", "deadlock.*128 of 160 threads"),
    ("bar.arrive 3, 128;", "bar.sync 3;", "expects (128|all) threads where others expect (128|all)"),
    ("bar.arrive 3, 128; bar.arrive 3, 128;", "bar.sync 3, 128;", "arrives twice|deadlock"),
    ("bar.arrive 3, 100;", "bar.sync 3, 100;", "expected a multiple of 32 threads, got 100"),
    ("bar.arrive 16, 128;", "bar.sync 16, 128;", "expected a barrier from 0 to 15, got 16"),
    ("@%p4 bar.arrive 3, 128;", "setp.lt.u32 %p4, %r4, 9; @%p4 bar.sync 3, 128;", "lanes 0x1ff of the mask"),
])  # fmt: skip
@pytest.mark.parametrize("order", ORDERS)
def test_misuse_of_named_barriers(arrive, sync, said, order):
    with pytest.raises(Fault, match=said):
        launch(ARRIVE.format(arrive=arrive, sync=sync), np.zeros(128, np.uint32), threads=128, order=order)


@pytest.mark.parametrize("order", ORDERS)
def test_a_barrier_for_all_excludes_exited_threads(order):
    """The first and the last warp exchange their numbers; the one between them leaves."""
    out = np.zeros(96, np.uint32)
    body = """setp.eq.u32 %p3, %r2, 1;
    @%p3 bra OUT;
    mad.lo.u32 %r10, %r1, 4, %r3;
    st.shared.b32 [%r10], %r1;
    bar.sync 0;
    xor.b32 %r11, %r1, 64;
    mad.lo.u32 %r10, %r11, 4, %r3;
    ld.shared.b32 %r12, [%r10];
    mad.wide.u32 %d1, %r1, 4, %d40;
    st.global.b32 [%d1], %r12;
    OUT:
    """
    launch(body, out, threads=96, order=order)
    assert (out.reshape(3, 32) == [np.arange(64, 96), np.zeros(32), np.arange(32)]).all()


@pytest.mark.parametrize("order", ORDERS)
def test_an_arrival_does_not_wait(order):
    """Each warp arrives where the other waits, before it waits itself."""
    out = np.zeros(64, np.uint32)
    body = """add.u32 %r5, %r2, 1;
    xor.b32 %r6, %r5, 3;
    bar.arrive %r5, 64;
    bar.sync %r6, 64;
    mad.wide.u32 %d1, %r1, 4, %d40;
    st.global.b32 [%d1], %r5;
    """
    launch(body, out, threads=64, order=order)
    assert (out.reshape(2, 32) == [[1], [2]]).all()


@pytest.mark.parametrize("order", ORDERS)
def test_an_arrival_learns_nothing(order):
    """A warp that only arrives has not waited for what the other did before, even if it comes last."""
    body = """mad.lo.u32 %r10, %r1, 4, %r3;
    setp.eq.u32 %p3, %r2, 0;
    @%p3 bra ARRIVE;
    st.shared.b32 [%r10], %r1;
    bar.sync 3, 64;
    bra DONE;
    ARRIVE: bar.arrive 3, 64;
    ld.shared.b32 %r11, [%r10+128];
    DONE:
    """
    with pytest.raises(Fault, match="with nothing in between that orders them"):
        launch(body + CHECKED, threads=64, order=order)


@pytest.mark.parametrize("order", ORDERS)
def test_a_barrier_of_the_cluster_excludes_exited_threads(order):
    out = np.zeros(3, np.uint32)
    body = """mov.u32 %r5, %cluster_ctarank;
    setp.eq.u32 %p3, %r5, 1;
    @%p3 bra OUT;
    barrier.cluster.arrive; barrier.cluster.wait;
    mad.wide.u32 %d1, %r5, 4, %d40;
    st.global.b32 [%d1], 7;
    OUT:
    """
    launch(body, out, cluster=3, order=order)
    assert out.tolist() == [7, 0, 7]


@pytest.mark.parametrize("fence, ordered", [("fence.acq_rel.cluster;", True),
                                            ("fence.mbarrier_init.release.cluster;", False), ("", False)])  # fmt: skip
@pytest.mark.parametrize("order", ORDERS)
def test_what_a_fence_before_a_relaxed_arrival_orders(order, fence, ordered):
    """Each block writes a word, and reads that of the other."""
    body = (
        f"""mov.u32 %r5, %cluster_ctarank;
    st.shared.b32 [%r3], %r5;
    {fence}
    barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;
    xor.b32 %r6, %r5, 1;
    mapa.shared::cluster.u32 %r7, %r3, %r6;
    ld.shared::cluster.b32 %r8, [%r7];
    mad.wide.u32 %d1, %r5, 4, %d40;
    st.global.b32 [%d1], %r8;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    """
        + CHECKED
    )
    out = np.zeros(2, np.uint32)
    if ordered:
        launch(body, out, cluster=2, order=order)
        assert out.tolist() == [1, 0]
    else:
        with pytest.raises(Fault, match="with nothing in between that orders them"):
            launch(body, out, cluster=2, order=order)


def test_the_state_of_a_remote_mbarrier_is_unknown():
    with pytest.raises(Unsupported, match="the state of a barrier of another block"):
        launch("mbarrier.arrive.shared::cluster.b64 %d1, [%r3];", cluster=2)


@pytest.mark.parametrize("order", ORDERS)
def test_groups_release_each_other_in_turns(order):
    """As with two consumer groups: each releases the other and adds to what the other left."""
    body = """
    and.b32 %r5, %r2, 1;
    mov.u32 %r10, 0;
    setp.eq.u32 %p3, %r5, 0;
    @%p3 bra TURN;
    bar.arrive 1, 64;
    TURN:
    add.u32 %r6, %r5, 1;
    xor.b32 %r7, %r6, 3;
    bar.sync %r6, 64;
    mad.lo.u32 %r11, %r10, 2, %r5;
    mad.lo.u32 %r12, %r4, 4, %r3;
    ld.shared.b32 %r13, [%r12];
    mad.lo.u32 %r13, %r13, 3, %r11;
    st.shared.b32 [%r12], %r13;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p4, %r10, 4;
    setp.lt.or.u32 %p5, %r10, 4, %p3;
    @%p5 bar.arrive %r7, 64;
    @%p4 bra TURN;
    @%p3 bra DONE;
    mad.wide.u32 %d1, %r4, 4, %d40;
    st.global.b32 [%d1], %r13;
    DONE:
    """
    out, want = np.zeros(32, np.uint32), 0xC5C5C5C5
    for i in range(8):
        want = (want * 3 + i) & 0xFFFFFFFF
    launch(body, out, threads=64, order=order)
    assert (out == want).all()


@pytest.mark.parametrize("change, said", [
    (("bar.arrive 3, 128;", ""), r"reads what warp \d wrote, with nothing in between|deadlock|overwrites what warp"),
    (("st.shared.b32", "st.volatile.shared.b32"), None),
    (("st.shared.b32 [%r10], %r1;", "red.shared.add.u32 [%r10], %r1;"), None),
])  # fmt: skip
@pytest.mark.parametrize("order", ORDERS)
def test_reads_and_writes_of_warps_are_in_order(change, said, order):
    """Checked in kernels with asynchronous work, where bytes are marked; whatever the values are."""
    body = ARRIVE.format(arrive="bar.arrive 3, 128;", sync="bar.sync 3, 128;") + "cp.async.wait_all;\n"
    if said is None:
        body = body.replace("bar.sync 3, 128;", "").replace("bar.arrive 3, 128;", "")
        out = np.zeros(128, np.uint32)
        launch(body.replace(*change), out, threads=128, order=order)
        # Each lane reads what was there or what was written.
        before, numbers = np.uint32(0xC5C5C5C5), np.arange(64, dtype=np.uint32)
        after = before + numbers if change[1].startswith("red") else numbers
        assert ((out[64:] == before) | (out[64:] == after)).all()
        return
    body = body.replace("bar.sync 3, 128;", "")
    with pytest.raises(Fault, match=said):
        launch(body.replace(*change), np.zeros(128, np.uint32), threads=128, order=order)


# --- lanes, registers, turns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order, leader", [(1, 0), (-1, 31)])
def test_one_lane_is_elected(order, leader):
    out = np.zeros(32, np.uint32)
    body = """elect.sync %r5|%p3, 0xffffffff;
    selp.b32 %r6, 100, 0, %p3;
    add.u32 %r5, %r5, %r6;
    mad.wide.u32 %d1, %r1, 4, %d40;
    st.global.b32 [%d1], %r5;
    """
    launch(body, out, order=order)
    assert (out == leader + 100 * (np.arange(32) == leader)).all()


def test_lanes_named_by_a_mask_continue_without_the_others():
    """Sixteen lanes meet while the others are still in their loop, which ends when one of the sixteen releases it."""
    body = INIT.format(count=1) + """
    setp.ge.u32 %p3, %r4, 16;
    @%p3 bra OTHERS;
    elect.sync _|%p4, 0xffff;
    bar.warp.sync 0xffff;
    shfl.sync.idx.b32 %r5, %r4, 3, 31, 0xffff;
    @%p4 st.shared.b32 [%r3+64], %r5;
    @%p4 mbarrier.arrive.shared::cta.b64 _, [%r3];
    bra DONE;
    OTHERS:
    """ + wait(0, 0) + """ld.shared.b32 %r5, [%r3+64];
    add.u32 %r5, %r5, 100;
    DONE: bar.warp.sync -1;
    mad.wide.u32 %d1, %r4, 4, %d40;
    st.global.b32 [%d1], %r5;"""  # fmt: skip
    out = np.zeros(32, np.uint32)
    launch(body, out)
    assert (out.reshape(2, 16) == [[3], [103]]).all()
    launch(body.replace("setp.ge.u32 %p3, %r4, 16", "setp.lt.u32 %p3, %r4, 16").replace("0xffff;", "0xffff0000;")
           .replace("%r4, 3, 31", "%r4, 20, 31"), out)  # fmt: skip
    assert (out.reshape(2, 16) == [[120], [20]]).all()


def test_lanes_spin_until_others_of_their_warp_release_them():
    """The spinning lanes' code comes before the others' in the text."""
    body = (
        INIT.format(count=1)
        + "setp.lt.u32 %p3, %r4, 16;\n@%p3 bra LATER;\n"
        + wait(0, 0)
        + """ld.shared.b32 %r5, [%r3+64];
    bra DONE;
    LATER: setp.eq.u32 %p4, %r4, 3;
    add.u32 %r5, %r4, 100;
    @%p4 st.shared.b32 [%r3+64], 7;
    @%p4 mbarrier.arrive.shared::cta.b64 _, [%r3];
    DONE: bar.warp.sync -1;
    mad.wide.u32 %d1, %r4, 4, %d40;
    st.global.b32 [%d1], %r5;
    """
    )
    for order in ORDERS:
        out = np.zeros(32, np.uint32)
        launch(body, out, order=order)
        assert (out == np.where(np.arange(32) < 16, np.arange(32) + 100, 7)).all()


@pytest.mark.parametrize("form, code, said", [
    (".maxnreg 128", "setmaxnreg.dec.sync.aligned.u32 64;", 64),
    (".maxnreg 128", "setmaxnreg.inc.sync.aligned.u32 128;", 128),
    (".maxnreg 128", "setmaxnreg.dec.sync.aligned.u32 64; setmaxnreg.inc.sync.aligned.u32 96;", 96),
    (".maxnreg 128", "setmaxnreg.dec.sync.aligned.u32 60;", "got 60"),
    (".maxnreg 128", "setmaxnreg.inc.sync.aligned.u32 64;", "the thread has 128 registers"),
    (".maxnreg 128", "setmaxnreg.dec.sync.aligned.u32 16;", "got 16"),
    (".maxnreg 128", "setmaxnreg.inc.sync.aligned.u32 136;", r"deadlock.*0 registers of the block are free"),
    (".maxnreg 128", "setp.eq.u32 %p3, %r2, 2; @%p3 bra L; setmaxnreg.dec.sync.aligned.u32 64; L:",
     r"set registers differently: PTX line \d+: setmaxnreg.dec.* and nothing"),
    ("", "setmaxnreg.dec.sync.aligned.u32 248;", 248),
    (".minnctapersm 4", "setmaxnreg.dec.sync.aligned.u32 248;", "the thread has 128 registers"),
])  # fmt: skip
def test_registers(form, code, said):
    """How many a thread has afterwards, or what the error says."""
    if isinstance(said, int):
        assert [warp.registers for warp in launch(code, threads=128, form=form).warps] == [said] * 4
        return
    with pytest.raises(Fault, match=said):
        launch(code, threads=128, form=form)


def test_blocks_set_registers_each_for_itself():
    """Their warps are no group of four, although there are four."""
    machine = launch("mov.u32 %r5, %cluster_ctarank; setp.eq.u32 %p3, %r5, 1; @%p3 bra L;"
                     "setmaxnreg.dec.sync.aligned.u32 64; L:", threads=64, cluster=2, form=".maxnreg 128")  # fmt: skip
    assert [warp.registers for warp in machine.warps] == [64, 64, 128, 128]


@pytest.mark.parametrize("order", ORDERS)
def test_registers_pass_from_group_to_group(order):
    """The second group waits until the first has given up enough; more than there are is a deadlock."""
    body = """setp.ge.u32 %p3, %r2, 4;
    @%p3 bra MORE;
    nanosleep.u32 100;
    setmaxnreg.dec.sync.aligned.u32 24;
    bra DONE;
    MORE: setmaxnreg.inc.sync.aligned.u32 {more};
    DONE:
    """
    machine = launch(body.format(more=232), threads=256, form=".maxnreg 128", order=order)
    assert [warp.registers for warp in machine.warps] == [24] * 4 + [232] * 4 and machine.free_registers == [0]
    with pytest.raises(Fault, match=r"deadlock.*setmaxnreg\.inc"):
        launch(body.format(more=240), threads=256, form=".maxnreg 128", order=order)


@pytest.mark.parametrize("order", ORDERS)
def test_a_flag_in_memory_is_waited_for(order):
    """A warp that polls memory lets the others run."""
    body = """setp.eq.u32 %p3, %r2, 0;
    @%p3 bra SPIN;
    st.release.gpu.global.b32 [%d40], 5;
    bra DONE;
    SPIN: ld.acquire.gpu.global.b32 %r5, [%d40];
    setp.ne.u32 %p4, %r5, 5;
    @%p4 bra SPIN;
    add.u32 %r5, %r5, 2;
    st.global.b32 [%d40+4], %r5;
    DONE:
    """
    out = np.zeros(2, np.uint32)
    launch(body, out, threads=64, order=order)
    assert out.tolist() == [5, 7]


def test_a_flag_that_is_never_set(monkeypatch):
    monkeypatch.setattr(machines, "LARGEST_RUN", 2000)
    with pytest.raises(Fault, match="no end after 2000 instructions"):
        launch(
            "SPIN: ld.volatile.global.b32 %r5, [%d40]; setp.eq.u32 %p4, %r5, 0; @%p4 bra SPIN;", np.zeros(2, np.uint32)
        )
