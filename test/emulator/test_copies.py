"""Asynchronous copies: what lands where, when it may be touched, and the error if it is touched too early."""

import numpy as np
import pytest

from emulator.by_hand import launch, mapped
from emulator.ptx import Fault, Unsupported

ORDERS = (1, -1, 2, 5)
START = """
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r3+{at}], 1;
fence.mbarrier_init.release.cluster;
READY: bar.sync 0;
"""
AWAIT = "WAIT{n}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3+{at}], {parity};\n@!%p2 bra WAIT{n};\n"
DUMP = """
mov.u32 %r10, %r1;
DUMP: setp.ge.u32 %p3, %r10, {words};
@%p3 bra DUMPED;
mad.lo.u32 %r11, %r10, 4, %r3;
ld.shared.b32 %r12, [%r11];
mad.wide.u32 %d1, %r10, 4, {to};
st.global.b32 [%d1], %r12;
add.u32 %r10, %r10, {threads};
bra DUMP;
DUMPED:
"""
LOAD = "cp.async.bulk.tensor.{dims}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.tensor.{dims}d.global.shared::cta.tile.bulk_group"


def load_box(array, box, coordinates, *, swizzle=0, nan=False, order=1, body=None):
    """The box as shared memory has it."""
    size = int(np.prod(box)) * array.itemsize
    out = np.zeros(size, np.uint8)
    at = -(-size // 1024) * 1024
    text = (
        START.format(at=at)
        + f"""
    @%p1 bra ISSUED;
    prefetch.tensormap [%d40];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3+{at}], {size};
    {LOAD.format(dims=len(box))} [%r3], [%d40, {{{", ".join(map(str, reversed(coordinates)))}}}], [%r3+{at}];
    ISSUED:
    """
    )
    text += AWAIT.format(n=0, at=at, parity=0) + DUMP.format(words=size // 4, to="%d41", threads=64)
    launch(body(text) if body else text, mapped(array, box, swizzle, nan), out.view(np.uint32), threads=64,
           shared=at + 16, order=order)  # fmt: skip
    return out


def box_of(array, box, coordinates, fill=0):
    """numpy's answer: the block of a padded copy."""
    low = [max(0, -c) for c in coordinates]
    high = [max(0, c + b - s) for c, b, s in zip(coordinates, box, array.shape, strict=True)]
    padded = np.pad(array, list(zip(low, high, strict=True)), constant_values=fill)
    return padded[tuple(slice(c + add, c + add + b) for c, add, b in zip(coordinates, low, box, strict=True))]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("box, coordinates", [
    ((8,), (4,)), ((16,), (-8,)), ((4, 8), (2, 8)), ((4, 8), (-2, -4)), ((4, 8), (17, 60)), ((8, 8), (40, 4)),
    ((4, 8), (2, 64)), ((4, 8), (2, 4000)), ((4, 8), (2, -8)),
    ((2, 3, 8), (1, 2, 8)), ((2, 3, 8), (-1, 5, 20)), ((1, 2, 2, 4), (0, 1, 3, 4)), ((2, 1, 2, 3, 4), (1, 1, -1, 2, 4)),
])  # fmt: skip
def test_boxes(box, coordinates, order):
    sides = {1: (64,), 2: (19, 64), 3: (3, 7, 24), 4: (2, 3, 5, 8), 5: (3, 2, 3, 4, 8)}[len(box)]
    array = np.arange(1, np.prod(sides) + 1, dtype=np.float32).reshape(sides)
    out = load_box(array, box, coordinates, order=order)
    assert (out.view(np.float32).reshape(box) == box_of(array, box, coordinates)).all()


def test_outside_is_nan_if_the_map_says_so():
    array = np.ones((16, 16), np.float16)
    out = load_box(array, (8, 16), (12, 8), nan=True).view(np.float16).reshape(8, 16)
    assert np.isnan(out[4:]).all() and np.isnan(out[:, 8:]).all() and (out[:4, :8] == 1).all()


@pytest.mark.parametrize("span", [32, 64, 128])
def test_swizzles(span):
    """The 16-byte chunks of row r (of 128 bytes) are XORed with r mod 8, or with the bits of it that the swizzle
    uses."""
    array = np.arange(64 * span, dtype=np.uint8).reshape(64, span)
    out = load_box(array, (64, span), (0, 0), swizzle=span)
    for row in range(64):
        for chunk in range(span // 16):
            at = row * span + chunk * 16
            there = at ^ (at // 128 % 8 % (span // 16)) * 16
            assert (out[there : there + 16] == array[row, 16 * chunk : 16 * chunk + 16]).all()


@pytest.mark.parametrize("change, said", [
    ((AWAIT.format(n=0, at=1024, parity=0), ""), "reads what nobody has waited for: it is filled by PTX line"),
    (("READY: bar.sync 0;", "READY:"), "no mbarrier has been initialised|nothing orders this behind"),
    (("fence.mbarrier_init.release.cluster;", ""), "initialised without a fence"),
    (("fence.mbarrier_init.release.cluster;", "fence.acq_rel.cluster;"), "initialised without a fence"),
    (("fence.mbarrier_init.release.cluster;", "fence.proxy.async.global;"), "initialised without a fence"),
    # The fence comes before the initialisation of the mbarrier that counts the bytes.
    (("mbarrier.init.shared::cta.b64 [%r3+1024], 1;\nfence.mbarrier_init.release.cluster;",
      "mbarrier.init.shared::cta.b64 [%r3+1032], 1;\nfence.mbarrier_init.release.cluster;\n"
      "mbarrier.init.shared::cta.b64 [%r3+1024], 1;"), "initialised without a fence"),
    (("[%r3], [%d40", "[%r3+64], [%d40"), "misaligned: a box at 64"),
    (("[%r3], [%d40", "[%r3+1024], [%d40"), "out of bounds"),
    (("{8, 2}", "{8, 2, 0}"), "3 coordinates in 2 dimensions"),
    (("{8, 2}", "{6, 2}"), "misaligned: a box 6 elements along its rows"),
    (("ISSUED:", "st.shared.b32 [%r3+4], %r1;\nISSUED:"), "overwrites what nobody has waited for"),
    (("prefetch.tensormap [%d40];", "st.shared.b32 [%r3+4], %r1;"),
     "overwrites what warp 0 wrote without a fence.proxy.async"),
    ((", 128;", ", 256;"), "deadlock.*128 bytes missing"),
    ((", 128;", ", 64;"), "has ended without it|nobody has waited|deadlock.*-64 bytes"),
])  # fmt: skip
@pytest.mark.parametrize("order", ORDERS)
def test_mistakes_with_boxes(change, said, order):
    array = np.zeros((19, 64), np.float32)

    def changed(text):
        assert change[0] in text
        return text.replace(*change)

    with pytest.raises(Fault, match=said):
        load_box(array, (4, 8), (2, 8), body=changed, order=order)


def test_a_map_may_be_named_or_lie_in_global_memory():
    array = np.arange(1, 19 * 64 + 1, dtype=np.float32).reshape(19, 64)
    want = box_of(array, (4, 8), (2, 8))
    named = load_box(array, (4, 8), (2, 8), body=lambda text: text.replace("[%d40, {", "[a0, {"))
    assert (named.view(np.float32).reshape(4, 8) == want).all()
    room = np.zeros(192, np.uint8)
    stored = room[-room.ctypes.data % 64 :][:128]
    stored[:] = np.frombuffer(mapped(array, (4, 8)).map.encode(), np.uint8)
    out = np.zeros(32, np.float32)
    copy = f"{LOAD.format(dims=2)} [%r3], [%d40, {{8, 2}}], [%r3+1024];"
    text = START.format(at=1024) + f"""@%p1 bra ISSUED;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3+1024], 128;
    {copy}
    ISSUED:
    """ + AWAIT.format(n=0, at=1024, parity=0) + DUMP.format(words=32, to="%d41", threads=64)  # fmt: skip
    launch(text, stored, out, array, threads=64)
    assert (out.reshape(4, 8) == want).all()


@pytest.mark.parametrize("code", [
    "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%d40, {8, 2}];", "cp.async.bulk.prefetch.L2.global [%d41], 128;",
    "prefetch.global.L2 [%d41+4];", "prefetch.tensormap [a0];",
])  # fmt: skip
def test_prefetches_change_nothing(code):
    array = np.arange(1, 19 * 64 + 1, dtype=np.float32).reshape(19, 64)
    out = load_box(array, (4, 8), (2, 8), body=lambda text: text.replace("prefetch.tensormap [%d40];", code))
    assert (out.view(np.float32).reshape(4, 8) == box_of(array, (4, 8), (2, 8))).all()


@pytest.mark.parametrize("change, said", [
    (("prefetch.tensormap [%d40];", "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%d40, {8, 2, 0}];"),
     "3 coordinates in 2 dimensions"),
    (("prefetch.tensormap [%d40];", "add.s64 %d5, %d40, 32; prefetch.tensormap [%d5];"), "misaligned: a tensor map"),
    (("prefetch.tensormap [%d40];", "add.s64 %d5, %d40, 128; prefetch.tensormap [%d5];"), "no argument is there"),
    (("prefetch.tensormap [%d40];", "prefetch.global.L2 [%d41+512];"), "out of bounds"),
    (("READY: bar.sync 0;", "READY: bar.sync 0; and.b64 %d41, %d41, -64; prefetch.tensormap [%d41];"),
     "no tensor map is there|out of bounds"),
])  # fmt: skip
def test_mistakes_with_maps(change, said):
    array = np.zeros((19, 64), np.float32)
    with pytest.raises(Fault, match=said):
        load_box(array, (4, 8), (2, 8), body=lambda text: text.replace(*change))


@pytest.mark.parametrize("fence", ["fence.proxy.async;", "fence.proxy.async.shared::cta;"])
def test_a_proxy_fence_also_publishes_an_mbarrier(fence):
    array = np.arange(1, 19 * 64 + 1, dtype=np.float32).reshape(19, 64)
    out = load_box(array, (4, 8), (2, 8), body=lambda text: text.replace("fence.mbarrier_init.release.cluster;", fence))
    assert (out.view(np.float32).reshape(4, 8) == box_of(array, (4, 8), (2, 8))).all()


def test_a_wait_without_a_loop_may_give_up():
    array = np.zeros((19, 64), np.float32)
    with pytest.raises(Fault, match="reads what nobody has waited for"):
        load_box(array, (4, 8), (2, 8), body=lambda text: text.replace("@!%p2 bra WAIT0;", ""), order=1)


@pytest.mark.parametrize("copy", ["box in", "box out", "bytes out", "by threads", "bytes in"])
def test_copies_wait_for_the_previous_launch(copy):
    after = "griddepcontrol.wait;"
    with pytest.raises(Fault, match=r"cp.*global memory ahead of griddepcontrol.wait"):
        if copy == "box in":
            load_box(np.zeros((19, 64), np.float32), (4, 8), (2, 8),
                     body=lambda text: text.replace("ISSUED:", f"ISSUED: {after}"))  # fmt: skip
        elif copy.endswith("out"):
            copy_out(copy.split()[0], change=("bulk.commit_group;", f"bulk.commit_group; {after}"))
        elif copy == "by threads":
            by_threads(16, early=after)
        else:
            copy = f"""mad.wide.u32 %d5, %r5, 512, %d40;
            cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%d5], 512, [%r3+1024]; {after}"""
            cluster(copy, 512, np.zeros(512, np.uint32), 1)


# --- to global memory -------------------------------------------------------------------------------------------------

OUT = """
shl.b32 %r10, %r1, 4;
add.u32 %r10, %r10, %r3;
st.shared.v4.b32 [%r10], {{%r1, %r1, %r1, %r1}};
fence.proxy.async.shared::cta;
bar.sync 0;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra DONE;
{copy}
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
DONE:
bar.sync 0;
st.shared.b32 [%r10], 0;
"""
COPIES = {
    "box": STORE.format(dims=2) + " [%d40, {4, 10}], [%r3+512];",
    "bytes": "cp.async.bulk.global.shared::cta.bulk_group [%d41], [%r3+512], 512;",
}


def copy_out(which, order=1, change=("", "")):
    array = np.zeros((16, 16), np.uint32)
    text = OUT.format(copy=COPIES[which])
    assert change[0] in text
    launch(text.replace(*change), mapped(array, (8, 16)), array, threads=64, order=order)
    return array


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["%d40", "a0"])
def test_a_box_is_stored(order, name):
    array = copy_out("box", order, ("%d40", name))
    want = np.zeros_like(array)
    want[10:, 4:] = (32 + np.arange(128) // 4).reshape(8, 16)[:6, :12]
    assert (array == want).all()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["add", "min", "max", "and", "or", "xor"])
def test_a_box_is_combined(kind, order):
    """The part inside the array is combined, as unsigned numbers; two reductions of one kind are in the same group."""
    combine = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
               "xor": np.bitwise_xor}[kind]  # fmt: skip
    array = np.random.default_rng(0).integers(0, 64, (16, 16)).astype(np.uint32) | np.uint32(1 << 31)
    there = array.copy()
    copy = f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{kind}.tile.bulk_group [%d40, {{4, 10}}], [%r3+512];"
    launch(OUT.format(copy=f"{copy}\n{copy}"), mapped(array, (8, 16)), array, threads=64, order=order)
    want = there.copy()
    box = (32 + np.arange(128, dtype=np.uint32) // 4).reshape(8, 16)[:6, :12]
    want[10:, 4:] = combine(combine(there[10:, 4:], box), box)
    assert (array == want).all()


def test_a_reduction_of_bytes_is_unknown():
    array = np.zeros((16, 16), np.uint32)
    copy = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d41], [%r3+512], 512;"
    with pytest.raises(Unsupported, match=r"u32|no box"):
        launch(OUT.format(copy=copy), mapped(array, (8, 16)), array, threads=64)


@pytest.mark.parametrize(
    "place, said",
    [
        ("{-4, 10}", "begins before the array"),
        ("{4, -1}", "begins before the array"),
        ("{5, 10}", "misaligned: a box 5 elements"),
    ],
)
def test_addresses_that_no_box_can_be_stored_to(place, said):
    with pytest.raises(Fault, match=said):
        copy_out("box", change=("{4, 10}", place))


@pytest.mark.parametrize("order", ORDERS)
def test_bytes_are_stored(order):
    assert (copy_out("bytes", order).reshape(-1)[:128] == 32 + np.arange(128) // 4).all()


@pytest.mark.parametrize("change, said", [
    (("wait_group.read 0", "wait_group.read 1"), "overwrites what is still being read by PTX line"),
    (("cp.async.bulk.wait_group.read 0;", ""), "overwrites what is still being read"),
    (("DONE:\nbar.sync 0;", "DONE:"), "overwrites what is still being read|reads what warp"),
    (("fence.proxy.async.shared::cta;", ""), "without a fence.proxy.async"),
    (("fence.proxy.async.shared::cta;", "fence.proxy.async.global;"), "without a fence.proxy.async"),
    (("fence.proxy.async.shared::cta;", "fence.acq_rel.cta;"), "without a fence.proxy.async"),
    (("fence.proxy.async.shared::cta;", "setp.eq.u32 %p4, %r1, 0;\n@%p4 fence.proxy.async;"),
     "without a fence.proxy.async"),
    (("fence.proxy.async.shared::cta;\nbar.sync 0;", "bar.sync 0;\nfence.proxy.async.shared::cta;"),
     "without a fence.proxy.async|overwrites what is still"),
])  # fmt: skip
@pytest.mark.parametrize("which", COPIES)
@pytest.mark.parametrize("order", ORDERS)
def test_mistakes_in_stores(change, said, which, order):
    with pytest.raises(Fault, match=said):
        copy_out(which, order, change)


@pytest.mark.parametrize("order", ORDERS)
def test_what_has_been_stored_can_be_read(order):
    """`wait_group` without `.read` waits until the bytes are there; a second wait has nothing to wait for."""
    out = np.zeros(1, np.uint32)
    text = OUT.format(copy=COPIES["bytes"]).replace(
        "cp.async.bulk.wait_group.read 0;",
        """
    cp.async.bulk.wait_group.read 0;
    cp.async.bulk.wait_group.read 0;
    cp.async.bulk.wait_group 0;
    ld.global.b32 %r20, [%d41+4];
    st.global.b32 [%d42], %r20;""",
    )
    array = np.zeros((16, 16), np.uint32)
    launch(text, mapped(array, (8, 16)), array, out, threads=64, order=order)
    assert out[0] == 32


@pytest.mark.parametrize("which", ["tensor", "reduce"])
def test_a_box_outside_of_the_array_stores_nothing(which):
    array = np.ones((16, 16), np.uint32)
    copy = STORE.format(dims=2) if which == "tensor" else (
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group")  # fmt: skip
    for place in ("{0, 40}", "{16, 0}", "{4000, 0}"):
        text = OUT.format(copy=f"{copy} [%d40, {place}], [%r3+512];")
        launch(text, mapped(array, (8, 16)), array, threads=64)
        assert (array == 1).all()


@pytest.mark.parametrize("copy, said", [
    (STORE.format(dims=2) + " [%d40, {4, 10}], [%r3+544];", "misaligned: a box at 544"),
    ("cp.async.bulk.global.shared::cta.bulk_group [%d41], [%r3+512], 504;", "misaligned: a copy of 504 bytes"),
    ("cp.async.bulk.global.shared::cta.bulk_group [%d41], [%r3+520], 512;", "misaligned: a copy of 512 bytes"),
    ("cp.async.bulk.global.shared::cta.bulk_group [%d41+8], [%r3+512], 512;", "misaligned: a copy of 512 bytes"),
    ("cp.async.bulk.global.shared::cta.bulk_group [%d41+768], [%r3+512], 512;", "out of bounds"),
    ("mapa.shared::cluster.u32 %r9, %r3, 1; cp.async.bulk.global.shared::cta.bulk_group [%d41], [%r9], 512;",
     "a copy out of another block's memory"),
])  # fmt: skip
def test_stores_that_cannot_be(copy, said):
    array = np.zeros((16, 16), np.uint32)
    with pytest.raises(Fault, match=said) as caught:
        launch(OUT.format(copy=copy), mapped(array, (8, 16)), array, threads=64)
    assert "on arrival" not in str(caught.value)


def test_a_reduction_of_what_are_no_numbers():
    array = np.zeros((16, 16), np.uint8)
    copy = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%d40, {0, 0}], [%r3+512];"
    with pytest.raises(Fault, match="a reduction of elements that are no numbers"):
        launch(OUT.format(copy=copy), mapped(array, (8, 16)), array, threads=64)


def test_a_block_waits_before_it_ends():
    text = OUT.format(copy=COPIES["box"]).replace("cp.async.bulk.wait_group.read 0;", "ret;")
    with pytest.raises(Fault, match="ends before its memory has been read"):
        launch(
            text.replace("bar.sync 0;\nst.shared.b32 [%r10], 0;", ""), mapped(np.zeros((16, 16), np.uint32), (8, 16))
        )


# --- bytes in, between blocks, to several -----------------------------------------------------------------------------

CLUSTER = """
setp.ne.u32 %p1, %r1, 0;
mov.u32 %r5, %cluster_ctarank;
@%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r3+1024], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3+1024], {expected};
READY: barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
@%p1 bra ISSUED;
{copy}
ISSUED:
"""
# No block exits before all have received what they wait for.
END = "barrier.cluster.arrive; barrier.cluster.wait;\n"


def cluster(copy, expected, array, order):
    """The first 512 bytes of each block."""
    out = np.zeros((4, 128), np.uint32)
    text = CLUSTER.format(copy=copy, expected=expected) + AWAIT.format(n=0, at=1024, parity=0)
    text += "mad.wide.u32 %d41, %r5, 512, %d41;\n" + DUMP.format(words=128, to="%d41", threads=32) + END
    launch(text, array, out, threads=32, cluster=4, shared=2048, order=order)
    return out


@pytest.mark.parametrize("order", ORDERS)
def test_each_block_sends_its_share_to_all(order):
    array = np.arange(16 * 32, dtype=np.uint32).reshape(16, 32)
    copy = f"""shl.b32 %r6, %r5, 7;
    add.u32 %r6, %r6, %r3;
    mov.b16 %h1, 15;
    mov.u32 %r7, %r5;
    {LOAD.format(dims=2)}.multicast::cluster [%r6], [%d40, {{0, %r7}}], [%r3+1024], %h1;
    """
    out = cluster(copy, 512, mapped(array, (1, 32)), order)
    assert (out == array[:4].reshape(1, -1)).all()


@pytest.mark.parametrize("order", ORDERS)
def test_a_multicast_leaves_others_alone(order):
    array = np.arange(16 * 32, dtype=np.uint32).reshape(16, 32)
    copy = f"""setp.gt.u32 %p4, %r5, 1;
    @%p4 bra ISSUED;
    shl.b32 %r6, %r5, 7;
    add.u32 %r6, %r6, %r3;
    shl.b32 %r7, 5, %r5;
    cvt.u16.u32 %h1, %r7;
    {LOAD.format(dims=2)}.multicast::cluster.L2::cache_hint [%r6], [%d40, {{0, %r5}}], [%r3+1024], %h1, %d9;
    """
    out = cluster(copy, 128, mapped(array, (1, 32)), order)
    for block in range(4):
        first = 32 * (block % 2)
        assert (out[block, first : first + 32] == array[block % 2]).all()


@pytest.mark.parametrize("order", ORDERS)
def test_bytes_are_loaded(order):
    array = np.arange(4 * 128, dtype=np.uint32)
    copy = """mad.wide.u32 %d5, %r5, 512, %d40;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%d5], 512, [%r3+1024];
    """
    assert (cluster(copy, 512, array, order).reshape(-1) == array).all()


@pytest.mark.parametrize("order", ORDERS)
def test_bytes_go_from_block_to_block(order):
    array = np.arange(4 * 128, dtype=np.uint32)
    copy = """mad.wide.u32 %d5, %r5, 512, %d40;
    ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%d5];
    st.shared.v4.b32 [%r3+512], {%r20, %r21, %r22, %r23};
    fence.proxy.async;
    add.u32 %r6, %r5, 1;
    and.b32 %r6, %r6, 3;
    mapa.shared::cluster.u32 %r7, %r3, %r6;
    add.u32 %r8, %r7, 1024;
    add.u32 %r9, %r3, 512;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r7], [%r9], 16, [%r8];
    """
    out = cluster(copy, 16, array, order)
    for block in range(4):
        assert (out[block, :4] == array[128 * ((block - 1) % 4) :][:4]).all()


@pytest.mark.parametrize("code, said", [
    ("[%r3], [%d40], 504, [%r3+1024]", "misaligned: a copy of 504 bytes"),
    ("[%r3+8], [%d40], 512, [%r3+1024]", "misaligned: a copy of 512 bytes"),
    ("[%r3], [%d40+8], 512, [%r3+1024]", "misaligned: a copy of 512 bytes"),
    ("[%r3], [%d40+4096], 512, [%r3+1024]", "out of bounds"),
])  # fmt: skip
def test_bytes_that_cannot_be_loaded(code, said):
    copy = f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes {code};"
    with pytest.raises(Fault, match=said) as caught:
        cluster(copy, 512, np.zeros(512, np.uint32), 1)
    assert "on arrival" not in str(caught.value)


@pytest.mark.parametrize("code, said", [
    ("cp.async.bulk.shared::cluster.global [%r3], [%d40], 512, [%r3+1024];", "without an mbarrier"),
    ("cp.async.bulk.global.shared::cta [%d40], [%r3], 512;", "without a bulk group"),
])  # fmt: skip
def test_copies_that_nothing_could_wait_for(code, said):
    with pytest.raises(Unsupported, match=said):
        launch(code, np.zeros(512, np.uint32))


def test_a_multicast_to_no_block():
    copy = f"""mov.b16 %h1, 0;
    {LOAD.format(dims=2)}.multicast::cluster [%r3], [%d40, {{0, 0}}], [%r3+1024], %h1;"""
    with pytest.raises(Fault, match="a multicast to no block"):
        cluster(copy, 512, mapped(np.zeros((16, 32), np.uint32), (1, 32)), 1)


def test_bytes_beyond_those_expected():
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    copy = "".join(f"{copy} [%r3+{at}], [%d40], 256, [%r3+1024];\n" for at in (0, 256))
    with pytest.raises(Fault, match="has ended without it: it expected fewer bytes"):
        cluster(copy, 256, np.zeros(512, np.uint32), 1)


@pytest.mark.parametrize("order", ORDERS)
def test_shared_memory_may_be_copied_before_the_previous_launch_is_over(order):
    copy = """mov.u32 %r20, 5;
    st.shared.b32 [%r3+512], %r20;
    fence.proxy.async;
    add.u32 %r9, %r3, 512;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [%r9], 16, [%r3+1024];
    griddepcontrol.wait;
    """
    out = cluster(copy, 16, np.zeros(512, np.uint32), order)
    assert (out[:, 0] == 5).all()


@pytest.mark.parametrize("access, fault", [
    ("ld.volatile.global.b32 %r20, [%d40];", None),
    ("ld.global.b32 %r20, [%d40];", "global memory ahead of griddepcontrol.wait"),
    ("ld.relaxed.gpu.global.b32 %r20, [%d40];", "global memory ahead of griddepcontrol.wait"),
    ("st.volatile.global.b32 [%d40], %r20;", "global memory ahead of griddepcontrol.wait"),
])  # fmt: skip
def test_what_is_read_before_the_previous_launch_is_over_may_be_anything(access, fault):
    """By a volatile read, which a kernel's author vouches for; behind the wait it reads what is there."""
    array = np.full(512, 7, np.uint32)
    copy = """mov.u32 %r20, 7;
    {} griddepcontrol.wait;
    ld.volatile.global.b32 %r21, [%d40];
    xor.b32 %r20, %r20, %r21;
    st.shared.b32 [%r3+512], %r20;
    fence.proxy.async;
    add.u32 %r9, %r3, 512;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [%r9], 16, [%r3+1024];
    """.format
    if fault:
        with pytest.raises(Fault, match=fault):
            cluster(copy(access), 16, array, 1)
        return
    assert (cluster(copy(access), 16, array, 1)[:, 0] != 0).all()
    assert (cluster(copy(""), 16, array, 1)[:, 0] == 0).all()


@pytest.mark.parametrize("order", ORDERS)
def test_an_address_is_in_the_low_half_of_its_register(order):
    array = np.arange(4 * 128, dtype=np.uint32)
    copy = """mad.wide.u32 %d5, %r5, 512, %d40;
    mov.u32 %r21, 128;
    cvt.s32.s8 %r20, %r21;
    mov.b32 %r20, %r3;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%d5], 512, [%r20+1024];
    """
    assert (cluster(copy, 512, array, order).reshape(-1) == array).all()


@pytest.mark.parametrize("order", ORDERS)
def test_a_block_may_end_before_another_has_copied(order):
    array = np.zeros((16, 16), np.uint32)
    copy = """mapa.shared::cluster.u32 %r9, %r3, %r5; // its own block
    cp.async.bulk.global.shared::cta.bulk_group [%d41], [%r9+512], 512;"""
    body = OUT.format(copy=copy).replace("cp.async.bulk.wait", "nanosleep.u32 20;\ncp.async.bulk.wait")
    text = f"mov.u32 %r5, %cluster_ctarank; setp.eq.u32 %p4, %r5, 0; @%p4 bra END; {body} END:"
    launch(text, mapped(array, (8, 16)), array, threads=64, cluster=2, order=order)
    assert (array.reshape(-1)[:128] == 32 + np.arange(128) // 4).all()


def test_a_block_must_not_end_while_its_memory_is_filled():
    with pytest.raises(Fault, match="ends while it is filled"):
        launch("cp.async.ca.shared.global [%r3], [%d40], 4;", np.zeros(32, np.uint32))


@pytest.mark.parametrize("order", ORDERS)
def test_a_source_in_shared_memory_is_left_alone(order):
    """Until the copy has read it, which the sender does not learn from the receiver's mbarrier."""
    copy = """fence.proxy.async;
    add.u32 %r9, %r3, 512;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [%r9], 16, [%r3+1024];
    st.shared.b32 [%r3+512], 0;
    """
    with pytest.raises(Fault, match="overwrites what is still being read by"):
        cluster(copy, 16, np.zeros(512, np.uint32), order)


def test_a_barrier_of_another_block_counts_its_own():
    copy = """add.u32 %r6, %r5, 1;
    and.b32 %r6, %r6, 3;
    mapa.shared::cluster.u32 %r7, %r3, %r6;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%d40], 512, [%r3+1024];
    """
    with pytest.raises(Fault, match="the data and its mbarrier are in different blocks"):
        cluster(copy, 512, np.zeros(512, np.uint32), 1)


# --- by threads -------------------------------------------------------------------------------------------------------

THREADS = """
mad.wide.u32 %d5, %r1, {size}, %d40;
mad.lo.u32 %r10, %r1, {size}, %r3;
{begin}
cp.async.{cache}.shared.global{hint} [%r10], [%d5], {size}{amount};
{close}
cp.async.{cache}.shared.global{hint} [%r10+1024], [%d5+{bytes}], {size}{amount};
{close}
cp.async.wait_group 1;
bar.sync 0;
{early}
"""


def by_threads(size, cache="ca", amount="", order=1, early="", change=("", ""), threads=64, **text):
    bytes_ = 64 * size
    array = np.arange(1, 2 * bytes_ + 1, dtype=np.uint16).astype(np.uint8) | 1
    out = np.zeros(bytes_, np.uint8)
    text = {"begin": "", "hint": "", "close": "cp.async.commit_group;", **text}
    text = THREADS.format(size=size, cache=cache, amount=amount, bytes=bytes_, early=early, **text)
    assert change[0] in text
    text = text.replace(*change) + DUMP.format(words=bytes_ // 4, to="%d41", threads=threads) + "cp.async.wait_all;\n"
    launch(text, array, out.view(np.uint32), threads=threads, order=order, shared=4096)
    return array[:bytes_], out


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size, cache", [(4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")])
def test_copies_by_threads(size, cache, order):
    array, out = by_threads(size, cache, order=order)
    assert (array == out).all()


def test_an_amount_is_read_when_the_copy_is_issued():
    """Its register may change before the copy lands."""
    change = ("cp.async.wait_group 1;", "mov.u32 %r20, 0;\ncp.async.wait_group 1;")
    array, out = by_threads(16, amount=", %r20", change=change, begin="mov.u32 %r20, 16;")
    assert (array == out).all()


def test_copies_by_threads_with_a_policy():
    array, out = by_threads(16, cache="ca", hint=".L2::cache_hint", amount=", %d9")
    assert (array == out).all()
    array, out = by_threads(16, cache="ca", hint=".L2::cache_hint", amount=", 12, %d9")
    assert (out.reshape(-1, 16)[:, :12] == array.reshape(-1, 16)[:, :12]).all()
    assert (out.reshape(-1, 16)[:, 12:] == 0).all()


@pytest.mark.parametrize("order", ORDERS)
def test_a_wait_for_all_includes_what_no_group_has(order):
    change = ("cp.async.wait_group 1;", "cp.async.wait_all;")
    array, out = by_threads(16, change=change, order=order, close="")
    assert (array == out).all()


def test_addresses_are_checked_when_a_copy_is_issued():
    with pytest.raises(Fault, match="out of bounds") as caught:
        by_threads(16, change=("[%d5], 16", "[%d5+8192], 16"))
    assert "on arrival" not in str(caught.value)


@pytest.mark.parametrize("amount", [0, 4, 12])
def test_copies_by_threads_fill_with_zeros(amount):
    array, out = by_threads(16, amount=f", {amount}")
    assert (out.reshape(-1, 16)[:, :amount] == array.reshape(-1, 16)[:, :amount]).all()
    assert (out.reshape(-1, 16)[:, amount:] == 0).all()


@pytest.mark.parametrize("options, said", [
    ({"early": "ld.shared.b32 %r20, [%r10+1024];"}, "reads what nobody has waited for: it is filled by PTX line"),
    ({"early": "st.shared.b32 [%r10+1024], 0;"}, "overwrites what nobody has waited for"),
    ({"early": "red.shared.add.u32 [%r10+1024], 1;"}, "overwrites what nobody has waited for"),
    ({"change": ("cp.async.wait_group 1;", "")}, "reads what nobody has waited for"),
    ({"change": ("cp.async.wait_group 1;", "cp.async.wait_group 2;")}, "reads what nobody has waited for"),
    ({"change": ("bar.sync 0;", "xor.b32 %r11, %r1, 32; mad.lo.u32 %r10, %r11, 16, %r3; ld.shared.b32 %r5, [%r10];")},
     "nobody has waited for|overwrites what warp . reads"),
    ({"cache": "cg", "amount": ", 20"}, "20 bytes to read of 16"),
    ({"change": ("[%d5], 16", "[%d5+4], 16")}, "misaligned: 16 bytes"),
    *(({"change": (code, f"setp.lt.u32 %p5, %r4, 9;\n@%p5 {code}")}, "groups of copies by part of a warp")
      for code in ("cp.async.commit_group;", "cp.async.wait_group 1;")),
])  # fmt: skip
@pytest.mark.parametrize("order", ORDERS)
def test_mistakes_of_copies_by_threads(options, said, order):
    with pytest.raises(Fault, match=said):
        by_threads(16, order=order, **options)


def test_copies_by_threads_of_odd_sizes():
    with pytest.raises(Fault, match="a copy of 8 bytes"):
        by_threads(8, "cg")
