"""Products by warps and by groups of four: fragments and descriptors as the PTX ISA draws them, element by element."""

import ml_dtypes
import numpy as np
import pytest

from emulator.by_hand import launch
from emulator.ptx import Fault, Unsupported

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
         "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "f64": np.float64}  # fmt: skip
SUMS = {"f16": np.float16, "f32": np.float32, "s32": np.int32, "f64": np.float64}


def small(shape, kind, seed=0):
    """Numbers whose products and sums are exact in every type."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(TYPES[kind])


def registers(first, count):
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def load(first, count, base, wide=False):
    """Registers of the thread: `count` consecutive words."""
    size, kind, name = (8, "b64", "%d") if wide else (4, "b32", "%r")
    text = f"mad.wide.u32 %d1, %r1, {size * count}, {base};\n"
    return text + "\n".join(f"ld.global.{kind} {name}{first + i}, [%d1+{size * i}];" for i in range(count))


def store(first, count, base, wide=False):
    size, kind, name = (8, "b64", "%d") if wide else (4, "b32", "%r")
    text = f"mad.wide.u32 %d1, %r1, {size * count}, {base};\n"
    return text + "\n".join(f"st.global.{kind} [%d1+{size * i}], {name}{first + i};" for i in range(count))


def exact(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


# --- products by warps ------------------------------------------------------------------------------------------------

# Where the ISA's figures put element i of a fragment in lane (group g, member t): row and column.
WARP_FORMS = {
    ("m16n8k16", "f16", "f32"): (
        lambda i, g, t: (g + 8 * (i // 2 % 2), 2 * t + i % 2 + 8 * (i // 4)),
        lambda i, g, t: (2 * t + i % 2 + 8 * (i // 2), g),
    ),
    ("m16n8k16", "bf16", "f32"): (
        lambda i, g, t: (g + 8 * (i // 2 % 2), 2 * t + i % 2 + 8 * (i // 4)),
        lambda i, g, t: (2 * t + i % 2 + 8 * (i // 2), g),
    ),
    ("m16n8k16", "f16", "f16"): (
        lambda i, g, t: (g + 8 * (i // 2 % 2), 2 * t + i % 2 + 8 * (i // 4)),
        lambda i, g, t: (2 * t + i % 2 + 8 * (i // 2), g),
    ),
    ("m16n8k8", "f16", "f32"): (lambda i, g, t: (g + 8 * (i // 2), 2 * t + i % 2), lambda i, g, t: (2 * t + i, g)),
    ("m16n8k8", "tf32", "f32"): (lambda i, g, t: (g + 8 * (i % 2), t + 4 * (i // 2)), lambda i, g, t: (t + 4 * i, g)),
    ("m16n8k4", "tf32", "f32"): (lambda i, g, t: (g + 8 * i, t), lambda i, g, t: (t, g)),
    ("m16n8k32", "e4m3", "f32"): (
        lambda i, g, t: (g + 8 * (i // 4 % 2), 4 * t + i % 4 + 16 * (i // 8)),
        lambda i, g, t: (4 * t + i % 4 + 16 * (i // 4), g),
    ),
    ("m16n8k32", "e5m2", "f32"): (
        lambda i, g, t: (g + 8 * (i // 4 % 2), 4 * t + i % 4 + 16 * (i // 8)),
        lambda i, g, t: (4 * t + i % 4 + 16 * (i // 4), g),
    ),
    ("m16n8k32", "s8", "s32"): (
        lambda i, g, t: (g + 8 * (i // 4 % 2), 4 * t + i % 4 + 16 * (i // 8)),
        lambda i, g, t: (4 * t + i % 4 + 16 * (i // 4), g),
    ),
    ("m16n8k16", "s8", "s32"): (lambda i, g, t: (g + 8 * (i // 4), 4 * t + i % 4), lambda i, g, t: (4 * t + i, g)),
    ("m8n8k4", "f64", "f64"): (lambda i, g, t: (g, t), lambda i, g, t: (t, g)),
}


def fragments(matrix, place, count):
    """[lane, element]"""
    return np.array([[matrix[place(i, lane // 4, lane % 4)] for i in range(count)] for lane in range(32)], matrix.dtype)


@pytest.mark.parametrize("form", WARP_FORMS, ids=lambda form: "-".join(form))
def test_products_by_warps(form):
    shape, kind, sum_kind = form
    m, n, k = (int(part) for part in shape[1:].replace("n", " ").replace("k", " ").split())
    place_a, place_b = WARP_FORMS[form]
    a, b, c = small((m, k), kind), small((k, n), kind, 1), small((m, n), "f64", 2).astype(SUMS[sum_kind])
    given = [fragments(a, place_a, m * k // 32), fragments(b, place_b, k * n // 32),
             fragments(c, lambda i, g, t: (g + 8 * (i // 2), 2 * t + i % 2), m * n // 32)]  # fmt: skip
    given = [np.ascontiguousarray(array).view(np.uint64 if kind == "f64" else np.uint32) for array in given]
    out = np.zeros_like(given[2])
    wide = kind == "f64"
    name = "%d" if wide else "%r"
    text, operands = "", []
    for i, array in enumerate(given):
        first, count = 20 + 10 * i if not wide else 5 + 5 * i, array.shape[1]
        text += load(first, count, f"%d{40 + i}", wide) + "\n"
        operands.append("{" + ", ".join(f"{name}{first + j}" for j in range(count)) + "}")
    text += f"mma.sync.aligned.{shape}.row.col.{sum_kind}.{kind}.{kind}.{sum_kind} "
    text += ", ".join([operands[2], *operands]) + ";\n"
    text += store(40 if not wide else 15, given[2].shape[1], "%d43", wide)
    launch(text, *given, out)
    want = fragments(
        (exact(a, b) + c).astype(SUMS[sum_kind]), lambda i, g, t: (g + 8 * (i // 2), 2 * t + i % 2), m * n // 32
    )
    assert (out.view(want.dtype) == want).all()


@pytest.mark.parametrize("by", ["rna", "nothing"])
def test_tf32_ignores_low_bits(by):
    """An f32 that was not rounded is truncated."""
    x = np.float32(1 + 2**-10 + 2**-11)
    a = np.zeros((32, 4), np.float32)
    a[:, 0] = x
    b = np.ones((32, 2), np.float32)
    out = np.zeros((32, 4), np.float32)
    text = load(20, 4, "%d40") + "\n" + load(30, 2, "%d41") + "\n"
    if by == "rna":
        text += "cvt.rna.tf32.f32 %r20, %r20;\n"
    text += "mov.b32 %r40, 0; mov.b32 %r41, 0; mov.b32 %r42, 0; mov.b32 %r43, 0;\n"
    text += f"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {registers(40, 4)}, {registers(20, 4)}, "
    text += f"{registers(30, 2)}, {registers(40, 4)};\n" + store(40, 4, "%d42")
    launch(text, a.view(np.uint32), b.view(np.uint32), out.view(np.uint32))
    assert out[0, 0] == 4 * (1 + 2**-9 if by == "rna" else 1 + 2**-10)


@pytest.mark.parametrize("saturates, sum_of_16", [("", -(2**31) + 15), (".satfinite", 2**31 - 1)])
def test_sums_of_integers_wrap_or_saturate(saturates, sum_of_16):
    out = np.zeros((32, 4), np.int32)
    ones = "".join(f"mov.b32 %r{row}, 0x01010101;" for row in (20, 21, 30))
    sums = "".join(f"mov.b32 %r{row}, 0x7FFFFFFF;" for row in range(40, 44))
    text = f"""{ones} {sums}
    mma.sync.aligned.m16n8k16.row.col{saturates}.s32.s8.s8.s32 {registers(40, 4)}, {registers(20, 2)}, %r30,
    {registers(40, 4)};
    """
    launch(text.replace("},\n", "},") + store(40, 4, "%d40"), out.view(np.uint32))
    assert (out == sum_of_16).all()
    a, b = np.ones((64, 32), np.int8), np.ones((8, 32), np.int8)
    c = np.full((64, 8), 2**31 - 17)
    change = ("s32.s8.s8 ", f"s32.s8.s8{saturates} ")
    assert (group_product("s8", "s32", 8, a, b, c=c, spans=(32, 32), change=change) == sum_of_16).all()


@pytest.mark.parametrize("text, said", [
    ("mma.sync.aligned.m16n8k8.col.col.f32.f16.f16.f32 {4}, {2}, {1}, {4};", "a product of this form"),
    ("mma.sync.aligned.m16n8k8.row.row.f32.f16.f16.f32 {4}, {2}, {1}, {4};", "a product of this form"),
    ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {4}, {2}, {1}, {4};", "a product of this form"),
    ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {4}, {4}, {1}, {4};", r"expected \[4, 2, 1, 4\] registers"),
    ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {2}, [%r3];", "2 registers"),
    ("ldmatrix.sync.aligned.x2.shared.b16 {2}, [%r3];", "2 registers"),
])  # fmt: skip
def test_unsupported_forms_by_warps(text, said):
    for count in (1, 2, 4):
        text = text.replace(f"{{{count}}}", registers(20, count))
    with pytest.raises(Unsupported, match=said):
        launch(text)


@pytest.mark.parametrize("text", [
    "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;",
    f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {registers(100, 4)}, %d1, %d1, 0, 1, 1, 0, 0;",
    f"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {registers(20, 4)}, {registers(24, 2)}, {{%r30}}, "
    f"{registers(20, 4)};", "movmatrix.sync.aligned.m8n8.trans.b16 %r21, %r20;",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r3];",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r20};",
])  # fmt: skip
def test_all_lanes_must_be_there(text):
    with pytest.raises(Fault, match="lanes 0x7 of the mask 0xffffffff"):
        launch(f"mov.b64 %d1, 0x4000000400010040; setp.lt.u32 %p1, %r4, 3; @%p1 {text}", threads=128)


def test_a_matrix_is_in_the_memory_of_its_own_block():
    with pytest.raises(Fault, match="a matrix in another block's memory"):
        launch(
            "mapa.shared::cluster.u32 %r5, %r3, 1; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r5];", cluster=2
        )


@pytest.mark.parametrize("store_form", [
    "st.shared.v4.b32 [%r5], {%r1, %r1, %r1, %r1};",
    "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r5], {%r1, %r1, %r1, %r1};",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], %r1;",
])  # fmt: skip
@pytest.mark.parametrize("load_form", [
    "ld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%r5];",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r5];",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r20, [%r5];",
])  # fmt: skip
@pytest.mark.parametrize("order", [1, -1])
def test_a_barrier_is_between_storing_a_matrix_and_loading_it(order, load_form, store_form):
    body = f"""mad.lo.u32 %r5, %r4, 16, %r3;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra LOAD;
    {store_form}
    LOAD: bar.sync 0;
    @!%p1 bra DONE;
    {load_form}
    DONE: cp.async.wait_all;
    """
    assert launch(body, threads=64, order=order).ordering.marks
    with pytest.raises(Fault, match="with nothing in between that orders them"):
        launch(body.replace("bar.sync 0;", ""), threads=64, order=order)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_to_registers_and_back(count, transposed):
    """ldmatrix gives lane 4 g + t the pair 2 t of row g (.trans: of column g); stmatrix is its inverse."""
    given = np.arange(count * 64, dtype=np.uint16).reshape(count, 8, 8)
    words, back = np.zeros((32, count), np.uint32), np.zeros((count, 8, 8), np.uint16)
    trans = ".trans" if transposed else ""
    body = f"""
    mad.wide.u32 %d1, %r4, {4 * count}, %d40;
    mad.lo.u32 %r10, %r4, {4 * count}, %r3;
    {"".join(f"ld.global.b32 %r11, [%d1+{4 * i}]; st.shared.b32 [%r10+{4 * i}], %r11; " for i in range(count))}
    bar.warp.sync -1;
    rem.u32 %r12, %r4, {8 * count};
    mad.lo.u32 %r12, %r12, 16, %r3;
    ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {registers(20, count)}, [%r12];
    stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r12+1024], {registers(20, count)};
    bar.warp.sync -1;
    {store(20, count, "%d41")}
    mad.wide.u32 %d1, %r4, {4 * count}, %d42;
    {"".join(f"ld.shared.b32 %r11, [%r10+{1024 + 4 * i}]; st.global.b32 [%d1+{4 * i}], %r11; " for i in range(count))}
    """
    launch(body, given.view(np.uint32), words, back.view(np.uint32))
    pairs = words.view(np.uint16).reshape(32, count, 2)
    for lane in range(32):
        for i in range(count):
            for j in range(2):
                row, column = (2 * (lane % 4) + j, lane // 4) if transposed else (lane // 4, 2 * (lane % 4) + j)
                assert pairs[lane, i, j] == given[i, row, column]
    assert (back == given).all()


def test_a_matrix_is_turned_in_registers():
    given, words = np.arange(64, dtype=np.uint16).reshape(8, 8), np.zeros((32, 1), np.uint32)
    body = load(20, 1, "%d40") + "\nmovmatrix.sync.aligned.m8n8.trans.b16 %r21, %r20;\n" + store(21, 1, "%d41")
    launch(body, given.view(np.uint32), words)
    assert (words.view(np.uint16).reshape(8, 8) == given.T).all()


# --- products by groups of four warps ---------------------------------------------------------------------------------


def place_of(span, transposed, leading, stride, across, inner):
    """The byte of an element: `across` along M or N, and `inner` bytes along the contiguous dimension, or K."""
    if not transposed:
        row, byte = across, inner
        if not span:
            return row // 8 * stride + row % 8 * 16 + byte // 16 * leading + byte % 16
        at = row // 8 * stride + row % 8 * span + byte
    else:
        byte, k = across * 2, inner
        if not span:
            return byte // 16 * stride + k // 8 * leading + k % 8 * 16 + byte % 16
        at = byte // span * leading + k // 8 * stride + k % 8 * span + byte % span
    row, chunk = at // 128 % 8, at // 16 % 8
    return at // 128 * 128 + (chunk ^ (row & (span // 16 - 1))) * 16 + at % 16


class Image:
    """An operand (M or N by K) in shared memory, starting at byte `begin`, and its descriptors."""

    def __init__(self, matrix, span, transposed, begin):
        self.span, self.transposed, self.begin = span, transposed, begin
        size, (sides, depth) = matrix.itemsize, matrix.shape
        row = span or 16
        if transposed:
            self.leading, self.stride = (8 * 16, depth // 8 * 128) if not span else (depth * span, 8 * span)
            self.rows_of_k = depth
        else:
            # Without a swizzle, consecutive columns of 16-byte chunks; with one, panels of whole rows.
            self.leading, self.stride = (sides * 16, 128) if not span else (0, 8 * row)
        self.panel = sides * row
        self.bytes = np.zeros(sides * depth * size, np.uint8)
        raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(sides, depth, size)
        for i in range(sides):
            for k in range(depth):
                at = self.place(i, k, size)
                self.bytes[at : at + size] = raw[i, k]

    def place(self, i, k, size):
        if self.transposed:
            return place_of(self.span, True, self.leading, self.stride, i, k)
        if not self.span:
            return place_of(0, False, self.leading, self.stride, i, k * size)
        return k * size // self.span * self.panel + place_of(self.span, False, 0, self.stride, i, k * size % self.span)

    def descriptor(self, step, base):
        """The descriptor of 32 bytes along K, for step `step`."""
        if self.transposed:
            start = 2 * step * (self.leading if not self.span else self.stride)
        elif not self.span:
            start = 2 * step * self.leading
        else:
            start = 32 * step // self.span * self.panel + 32 * step % self.span
        mode = {0: 0, 128: 1, 64: 2, 32: 3}[self.span]
        return (base + self.begin + start) >> 4 | self.leading >> 4 << 16 | self.stride >> 4 << 32 | mode << 62


FILL = """
mov.u32 %r10, %r1;
COPY: setp.ge.u32 %p1, %r10, {chunks};
@%p1 bra COPIED;
mad.wide.u32 %d1, %r10, 16, %d40;
ld.global.v4.b32 {{%r11, %r12, %r13, %r14}}, [%d1];
mad.lo.u32 %r15, %r10, 16, %r3;
st.shared.v4.b32 [%r15], {{%r11, %r12, %r13, %r14}};
add.u32 %r10, %r10, 128;
bra COPY;
COPIED: fence.proxy.async;
bar.sync 0;
"""
BASE = 1024  # where the emulator's shared memory begins


def group_product(kind, sum_kind, columns, a, b, *, spans=(128, 128), turned=(False, False), left="memory",
                  right_kind=None, c=None, extra="", scale="1, 1", wait="wgmma.wait_group.sync.aligned 0;",
                  change=("", "")):  # fmt: skip
    """D of 64 by `columns`; `c`: the addend, if any. The operands are M by K and N by K."""
    depth = 32 // a.itemsize
    steps = a.shape[1] // depth
    right = Image(b, spans[1], turned[1], 0)
    end = -(-len(right.bytes) // 1024) * 1024
    pictures = [right.bytes, np.zeros(end - len(right.bytes), np.uint8)]
    images = Image(a, spans[0], turned[0], end)
    if left == "memory":
        pictures.append(images.bytes)
    memory = np.concatenate(pictures)
    memory = np.concatenate([memory, np.zeros(-len(memory) % 16, np.uint8)])
    count = columns // (4 if sum_kind == "f16" else 2)
    # A product without an addend ignores what was there.
    start = np.full((64, columns), 7) if c is None else c
    given = np.zeros((128, columns // 2), SUMS[sum_kind])
    for thread in range(128):
        g, t = thread % 32 // 4, thread % 4
        for i in range(columns // 2):
            given[thread, i] = start[16 * (thread // 32) + g + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * t + i % 2]
    out = np.zeros_like(given)
    per_word = 4 // a.itemsize
    words = np.zeros((128, steps * 4 * per_word), a.dtype)
    for thread in range(128):
        g, t = thread % 32 // 4, thread % 4
        for step in range(steps):
            for r in range(4):
                for j in range(per_word):
                    k = step * depth + r // 2 * 4 * per_word + per_word * t + j
                    words[thread, (4 * step + r) * per_word + j] = a[16 * (thread // 32) + g + 8 * (r % 2), k]
    text = FILL.format(chunks=len(memory) // 16) + load(100, count, "%d41") + "\n" + load(20, 4 * steps, "%d43")
    text += "\nwgmma.fence.sync.aligned;\n"
    halves = a.itemsize == 2
    for step in range(steps):
        text += f"mov.b64 %d5, {images.descriptor(step, BASE)};\nmov.b64 %d6, {right.descriptor(step, BASE)};\n"
        first = "%d5" if left == "memory" else registers(20 + 4 * step, 4)
        tail = "" if sum_kind == "s32" else f", {scale}"
        if halves:
            tail += f", {int(turned[0])}" * (left == "memory") + f", {int(turned[1])}"
        text += f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.{sum_kind}.{kind}.{right_kind or kind} "
        text += f"{registers(100, count)}, {first}, %d6, {int(c is not None or step > 0)}{tail};\n"
    text += "wgmma.commit_group.sync.aligned;\n" + extra + wait + "\n" + store(100, count, "%d42")
    assert change[0] in text
    text = text.replace(*change, 1)
    launch(text, memory, given.view(np.uint32), out.view(np.uint32), words.view(np.uint32), threads=128,
           shared=len(memory))  # fmt: skip
    result = np.zeros((64, columns))
    for thread in range(128):
        g, t = thread % 32 // 4, thread % 4
        for i in range(columns // 2):
            result[16 * (thread // 32) + g + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * t + i % 2] = out[thread, i]
    return result


GROUP_TYPES = [
    ("f16", "f32"),
    ("f16", "f16"),
    ("bf16", "f32"),
    ("tf32", "f32"),
    ("e4m3", "f32"),
    ("e5m2", "f16"),
    ("s8", "s32"),
]


@pytest.mark.parametrize("left", ["memory", "registers"])
@pytest.mark.parametrize("span", [0, 32, 64, 128])
@pytest.mark.parametrize("kind, sum_kind", GROUP_TYPES)
def test_operands_along_k(kind, sum_kind, span, left):
    """Four steps of 32 bytes: within swizzled rows, and from one panel to the next."""
    depth = 128 // np.dtype(TYPES[kind]).itemsize
    a, b = small((64, depth), kind), small((24, depth), kind, 1)
    c = small((64, 24), "f64", 2)
    got = group_product(kind, sum_kind, 24, a, b, spans=(span, span), left=left, c=c)
    assert (got == exact(a, b.T) + c).all()


@pytest.mark.parametrize("spans", [(0, 0), (32, 64), (64, 32), (128, 128), (128, 0), (0, 128)])
@pytest.mark.parametrize("turned", [(True, True), (True, False), (False, True)])
def test_operands_across_k(spans, turned):
    a, b = small((64, 64), "f16"), small((128, 64), "f16", 1)
    got = group_product("f16", "f32", 128, a, b, spans=spans, turned=turned)
    assert (got == exact(a, b.T)).all()


@pytest.mark.parametrize("columns, kind", [(8, "bf16"), (40, "bf16"), (64, "bf16"), (256, "bf16"), (64, "s8")])
def test_widths(columns, kind):
    a, b = small((64, 64), kind), small((columns, 64), kind, 1)
    spans = (64, 64) if kind == "s8" else (128, 128)
    got = group_product(kind, "s32" if kind == "s8" else "f32", columns, a, b, spans=spans)
    assert (got == exact(a, b.T)).all()


def test_types_of_eight_bits_mix():
    a, b = small((64, 64), "e5m2"), small((16, 64), "e4m3", 1)
    got = group_product("e5m2", "f32", 16, a, b, right_kind="e4m3", spans=(64, 64))
    assert (got == exact(a, b.T)).all()


def test_operands_can_be_negated():
    a, b = small((64, 64), "f16"), small((16, 64), "f16", 1)
    assert (group_product("f16", "f32", 16, a, b, scale="-1, 1") == -exact(a, b.T)).all()


def test_sums_of_halves_are_rounded_to_halves():
    a, b = np.full((64, 64), 1, np.float16), np.full((8, 64), 33, np.float16)
    c = np.full((64, 8), 1.0)
    got = group_product("f16", "f16", 8, a, b, c=c)
    assert (got == np.float16(2113)).all() and np.float16(2113) == 2112


BAD = {
    "an accumulator read in flight": ({"extra": "mov.b32 %r7, %r100;\n"}, "touches an accumulator in flight"),
    "an accumulator written in flight": ({"extra": "mov.b32 %r107, 0;\n"}, "touches an accumulator in flight"),
    "a factor written in flight": ({"extra": "mov.b32 %r21, 0;\n", "left": "registers"},
                                    "writes a register that a product"),
    "memory written in flight": ({"extra": "st.shared.b32 [%r3+256], %r1;\n"},
                                 "overwrites what is still being read by"),
    "a factor that is being summed": (
        {"extra": f"wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {registers(300, 8)}, {registers(100, 4)}, %d6, "
                  "0, 1, 1, 0;\n"}, "reads an accumulator in flight"),
    "a factor that is then summed": (
        {"extra": f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {registers(20, 4)}, %d5, %d6, 0, 1, 1, 0, 0;\n",
         "left": "registers"}, "writes a register that a product in flight reads"),
    "a factor written behind the fence": (
        {"change": ("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned;\nmov.b32 %r20, %r20;"),
         "left": "registers"}, "written with no wgmma.fence"),
    "a factor scaled by 2": ({"scale": "2, 1"}, r"expected factors scaled by 1 or -1, got \[2, 1\]"),
    "a group too few": ({"wait": "wgmma.wait_group.sync.aligned 1;"}, "touches an accumulator in flight"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_data_in_flight_must_not_be_touched(name):
    options, said = BAD[name]
    a, b = small((64, 64), "f16"), small((16, 64), "f16", 1)
    with pytest.raises(Fault, match=said):
        group_product("f16", "f32", 16, a, b, **options)


@pytest.mark.parametrize("kind, truncated", [("f16", 0), ("bf16", 0), ("tf32", 0), ("e4m3", 1), ("e5m2", 1)])
def test_only_sums_of_eight_bits_are_truncated(kind, truncated):
    """Addends that lie 14 bits below the largest."""
    depth = 32 // np.dtype(TYPES[kind]).itemsize
    a, b = np.zeros((64, depth), TYPES[kind]), np.zeros((8, depth), TYPES[kind])
    a[:, 0], b[:, 0], a[:, 1], b[:, 1] = 128, 128, 1, 1
    assert (group_product(kind, "f32", 8, a, b, spans=(32, 32)) == 16385 - truncated).all()


def test_sums_of_eight_bits_in_halves_are_not_truncated():
    a, b = np.zeros((64, 32), TYPES["e4m3"]), np.zeros((8, 32), TYPES["e4m3"])
    a[:, 0], b[:, 0], a[:, 1:17], b[:, 1:17] = 32, 32, 0.25, 0.25
    assert (group_product("e4m3", "f16", 8, a, b, spans=(32, 32)) == 1025).all()


def test_memory_is_free_after_the_wait():
    a, b = small((64, 64), "f16"), small((16, 64), "f16", 1)
    wait = "wgmma.wait_group.sync.aligned 0;\nbar.sync 0;\nst.shared.b32 [%r3+256], %r1;"
    assert (group_product("f16", "f32", 16, a, b, wait=wait) == exact(a, b.T)).all()


def test_factors_are_free_after_the_wait():
    a, b = small((64, 64), "f16"), small((16, 64), "f16", 1)
    wait = "wgmma.wait_group.sync.aligned 0;\nmov.b32 %r20, 0;\nmov.b32 %r21, %r20;"
    assert (group_product("f16", "f32", 16, a, b, left="registers", wait=wait) == exact(a, b.T)).all()


@pytest.mark.parametrize("code, said", [
    ("", "K of the descriptor crosses the end of a row of 32 bytes"),
    (f"mov.b64 %d1, {3 << 62 | 1 << 49 | 16 << 32 | BASE >> 4};", "a matrix descriptor with a base offset"),
    (f"mov.b64 %d1, {16 << 32 | BASE >> 4}; mul.wide.u32 %d2, %r2, 4; add.s64 %d1, %d1, %d2;",
     "has begun another product in its place"),
    ("cvt.u64.u32 %d2, %r4; add.s64 %d1, %d1, %d2;", "lanes of a warp give different operands"),
])  # fmt: skip
def test_descriptors_that_cannot_be(code, said):
    word = 3 << 62 | 16 << 32 | (BASE + 16) >> 4
    body = f"""mov.b64 %d1, {word}; {code}
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {registers(100, 4)}, %d1, %d1, 0, 1, 1, 0, 0;
    """
    with pytest.raises(Fault, match=said):
        launch(body, threads=128, shared=8192)


def test_another_product_may_follow_in_flight():
    a, b = small((64, 64), "f16"), small((16, 64), "f16", 1)
    again = f"""wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {registers(100, 8)}, %d5, %d6, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    """
    got = group_product("f16", "f32", 16, a, b, extra=again)
    assert (got == exact(a, b.T) + exact(a[:, 48:], b[:, 48:].T)).all()


@pytest.mark.parametrize("change, said", [
    (("wgmma.fence.sync.aligned;", ""), "written with no wgmma.fence"),
    (("COPIED: fence.proxy.async;", "COPIED:"), r"reads what warp \d wrote without a fence.proxy.async"),
    (("bar.sync 0;", ""), r"reads what warp \d wrote, with nothing in between|still being read"),
    (("COPIED: fence.proxy.async;", "COPIED: @%p1 fence.proxy.async.global;"), "without a fence.proxy.async"),
])  # fmt: skip
def test_fences_before_a_product(change, said):
    a, b = small((64, 64), "f16"), small((16, 64), "f16", 1)
    with pytest.raises(Fault, match=said):
        group_product("f16", "f32", 16, a, b, change=change)


@pytest.mark.parametrize("code, said", [
    ("setp.lt.u32 %p1, %r2, 3; @!%p1 bra L; wgmma.fence.sync.aligned; L: st.global.b32 [%d1], %r2;", None),
    ("wgmma.fence.sync.aligned;"
     f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {registers(100, 4)}, %d1, %d1, 0, 1, 1, 0, 0;",
     "warps 0 and 3 of one group begin different numbers of products"),
])  # fmt: skip
def test_warps_of_a_group_go_together(code, said):
    body = (
        "mov.b64 %d1, 0x4000000400010040; setp.eq.u32 %p2, %r2, 3; @%p2 bra OUT;"
        + code
        + "wgmma.commit_group.sync.aligned; OUT:"
    )
    if said is None:
        out = np.full(1, 9, np.uint32)
        launch("mov.b64 %d1, %d40;" + body.removeprefix("mov.b64 %d1, 0x4000000400010040;"), out, threads=128)
        assert out[0] < 3
        return
    with pytest.raises(Fault, match=said):
        launch(body, threads=128, shared=8192)


def test_a_group_begins_at_a_multiple_of_four():
    """Meanwhile the other warps of the block do something else."""
    body = f"""mov.b64 %d1, 0x4000000400010040;
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra OUT;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {registers(100, 4)}, %d1, %d1, 0, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    OUT:
    """
    with pytest.raises(Fault, match="from a multiple of four on, got the end of 5 warps"):
        launch(body, threads=160, shared=8192)
    with pytest.raises(Fault, match="warps 0 and 1 of one group begin different numbers of products"):
        launch(body, threads=128, shared=8192)


@pytest.mark.parametrize("text, said", [
    ("m64n16k8.f32.f16.f16 {d}, %d1, %d1, 1, 1, 1, 0, 0", "a product of this form"),
    ("m64n16k16.f32.f16.bf16 {d}, %d1, %d1, 1, 1, 1, 0, 0", "a product of this form"),
    ("m64n16k16.f32.f16.f16 {d}, %d1, %d1, 1, 1, 1", "a product of this form"),
    ("m64n24k16.f32.f16.f16 {d}, %d1, %d1, 1, 1, 1, 0, 0", "expected 12 registers"),
    ("m64n16k32.f16.s8.s8 {d}, %d1, %d1, 1", "an accumulator of f16"),
    ("m64n16k16.f16.bf16.bf16 {d}, %d1, %d1, 1, 1, 1, 0, 0", "an accumulator of f16"),
    ("m64n16k32.s32.s8.s8 {d}, %d1, %d1, 1, 1, 1", "a product of this form"),
    ("m64n40k32.s32.s8.s8 {d}, %d1, %d1, 1", "40 columns of integers"),
    ("m64n16k16.f32.f16.f16 {d}, {%r20, %r21}, %d1, 1, 1, 1, 0", "expected 8 registers"),
])  # fmt: skip
def test_unsupported_forms(text, said):
    with pytest.raises(Unsupported, match=said):
        launch("wgmma.mma_async.sync.aligned." + text.replace("{d}", registers(100, 8)) + ";", threads=128)
