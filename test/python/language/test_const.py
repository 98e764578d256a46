"""kl.const: loads through a marked argument work, and every way of writing through it is rejected."""

from __future__ import annotations

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln.errors import CompilationError
from kiln.tools.tensor_descriptor import TensorDescriptor


@kiln.jit
def fill(y, value):
    kl.store(y, value)


@kiln.jit
def read(x: kl.const):
    return kl.load(x)


@kiln.jit
def write(x: kl.const):
    kl.store(x, 1.0)


# Statements that write through x, a const pointer. y is a plain pointer; d and e are descriptors of x and y.
WRITES = [
    "kl.store(x, 1.0)",
    "kl.store(x + 3, 1.0)",
    "kl.store(x + kl.arange(0, 16), 1.0)",
    "kl.store((x + kl.arange(0, 16))[None, :] + kl.zeros((2, 1), kl.int32), 1.0)",
    "fill(x, 2.0)",
    "write(y)",
    "p = kl.where(n > 0, x, y)\nkl.store(p, 1.0)",
    "p = kl.where(n > 0, y, x)\nkl.store(p, 1.0)",
    "p = y\nif n > 0:\n    p = x\nkl.store(p, 1.0)",
    "p = x\nfor i in range(n):\n    p += 4\nkl.store(p, 1.0)",
    "pair = (x, n)\nkl.store(pair[0], 1.0)",
    "kl.atomic_add(x, 1.0)",
    "kl.atomic_xchg(x, 1.0)",
    "kl.atomic_cas(x, 0.0, 1.0)",
    "p = kl.make_block_ptr(x, (n, 16), (16, 1), (0, 0), (8, 16), (1, 0))\nkl.store(p, kl.zeros((8, 16), kl.float32))",
    "kl.store_tensor_descriptor(d, (0, 0), kl.zeros((1, 16), kl.float32))",
    "d.store([0, 0], kl.zeros((1, 16), kl.float32))",
    "d.atomic_add([0, 0], kl.zeros((1, 16), kl.float32))",
    "d.scatter(kl.zeros((8, 16), kl.float32), kl.arange(0, 8), 0)",
    "q = e\nif n > 0:\n    q = d\nq.store([0, 0], kl.zeros((1, 16), kl.float32))",
]
HEAD = """
d = kl.make_tensor_descriptor(x, (n, 16), (16, 1), (1, 16))
e = kl.make_tensor_descriptor(y, (n, 16), (16, 1), (1, 16))
"""


def kernel_with(statements: str, annotation: str = "kl.const"):
    lines = "\n".join("    " + line for line in (HEAD + statements).splitlines())
    text = f"def kernel(x: {annotation}, y, n):\n{lines}\n"
    names = {"kl": kl, "fill": fill, "write": write, "read": read}
    exec(compile(text, "<const>", "exec"), names)
    return kiln.jit(names["kernel"], source=text)


@pytest.mark.parametrize("statements", WRITES, ids=[s.splitlines()[-1] for s in WRITES])
def test_writes_are_refused(statements):
    with pytest.raises(CompilationError, match=r"that may be written in .*, got a const one") as caught:
        kernel_with(statements).warmup(kl.float32, kl.float32, 7)
    assert "kl.const" in str(caught.value)
    if "write" not in statements:
        kernel_with(statements, "'anything'").warmup(kl.float32, kl.float32, 7)


def test_the_line_of_the_store_is_marked():
    with pytest.raises(CompilationError) as caught:
        kernel_with("fill(x, 2.0)").warmup(kl.float32, kl.float32, 7)
    inner, outer = caught.value.frames[:2]
    assert inner.function == "fill" and "kl.store(y, value)" in inner.excerpt()[0]
    assert outer.function == "kernel" and "fill(x, 2.0)" in outer.excerpt()[0]


@pytest.mark.parametrize("annotation", ["kl.const", "'kl.const'", "'const'", "'tl.const'"])
def test_every_spelling(annotation):
    with pytest.raises(CompilationError, match="got a const one"):
        kernel_with("kl.store(x, 1.0)", annotation).warmup(kl.float32, kl.float32, 7)


def test_reads_are_reads():
    kernel = kernel_with("kl.store(y, read(y) + kl.load(x + n) + kl.sum(d.load([0, 0])))")
    x, y = np.arange(128, dtype=np.float32), np.full(16, 0.5, np.float32)
    kernel[1](x, y, 8)
    assert y[0] == 0.5 + 8 + np.arange(16).sum()


def test_tuples_and_descriptors_as_arguments():
    @kiln.jit
    def kernel(pair: kl.const, desc: kl.const, out, WRITE: kl.constexpr):
        block = desc.load([0, 0])
        kl.store(out + kl.arange(0, 4)[:, None] * 8 + kl.arange(0, 8)[None, :], block + kl.load(pair[0]))
        if WRITE == 1:
            kl.store(pair[0], 1.0)
        elif WRITE == 2:
            desc.store([0, 0], block)

    x, out = np.ones((4, 8), np.float32), np.zeros((4, 8), np.float32)
    desc = TensorDescriptor.from_tensor(x, [4, 8])
    kernel[1]((x, 1), desc, out, 0)
    assert (out == 2).all()
    for kind in (1, 2):
        with pytest.raises(CompilationError, match="got a const one"):
            kernel[1]((x, 1), desc, out, kind)
