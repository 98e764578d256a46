"""Kernels that do almost nothing, to measure the cost of launching them, in the subset that Kiln and Triton share.

Run with `jit` and `tl` in its globals, once for each of the two: `bench/launch.py` does.
"""

# ruff: noqa: F821 - jit and tl are given


@jit
def ten(a, b, c, d, i, j, k, l, f, g, BLOCK: tl.constexpr):
    """4 tensors, 4 integers, 2 floats."""
    if i < 0:
        at = tl.arange(0, BLOCK)
        tl.store(a + at, tl.load(b + at) + tl.load(c + at) + tl.load(d + at) + (j + k + l) + f + g)


@jit
def nineteen(a, b, c, d, e, h, i, j, k, l, m, n, o, p, q, f, g, r, s, BLOCK: tl.constexpr):
    """6 tensors, 9 integers, 4 floats."""
    if i < 0:
        at = tl.arange(0, BLOCK)
        total = tl.load(b + at) + tl.load(c + at) + tl.load(d + at) + tl.load(e + at) + tl.load(h + at)
        tl.store(a + at, total + (j + k + l + m + n + o + p + q) + f + g + r + s)


@jit
def nothing(BLOCK: tl.constexpr):
    """No arguments at all."""
    tl.arange(0, BLOCK)
