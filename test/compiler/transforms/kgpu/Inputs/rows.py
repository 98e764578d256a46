"""Kernels over rows, whose barriers a test counts."""

import kiln
import kiln.language as kl


@kiln.jit
def rms(x, y, BLOCK: kl.constexpr):
    at = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    value = kl.load(x + at).to(kl.float32)
    mean = kl.sum(value * value, axis=0) / BLOCK
    kl.store(y + at, (value * kl.rsqrt(mean + 1e-6)).to(kl.float16))


@kiln.jit
def rms_weighted(x, w, y, BLOCK: kl.constexpr):
    columns = kl.arange(0, BLOCK)
    at = kl.program_id(0) * BLOCK + columns
    value = kl.load(x + at).to(kl.float32)
    mean = kl.sum(value * value, axis=0) / BLOCK
    weight = kl.load(w + columns, mask=mean > 0, other=0).to(kl.float32)
    kl.store(y + at, (value * kl.rsqrt(mean + 1e-6) * weight).to(kl.float16))


@kiln.jit
def layer_norm(x, y, BLOCK: kl.constexpr):
    at = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    value = kl.load(x + at).to(kl.float32)
    value -= kl.sum(value, axis=0) / BLOCK
    variance = kl.sum(value * value, axis=0) / BLOCK
    kl.store(y + at, (value * kl.rsqrt(variance + 1e-6)).to(kl.float16))


@kiln.jit
def layer_norm_one_pass(x, y, BLOCK: kl.constexpr):
    at = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    value = kl.load(x + at).to(kl.float32)
    mean = kl.sum(value, axis=0) / BLOCK
    variance = kl.sum(value * value, axis=0) / BLOCK - mean * mean
    kl.store(y + at, ((value - mean) * kl.rsqrt(variance + 1e-6)).to(kl.float16))


@kiln.jit
def many_rows(x, y, n, BLOCK: kl.constexpr):
    for row in range(0, n):
        at = row * BLOCK + kl.arange(0, BLOCK)
        value = kl.load(x + at).to(kl.float32)
        kl.store(y + at, (value / kl.sum(value, axis=0)).to(kl.float16))


@kiln.jit
def short_rows(x, y, ROWS: kl.constexpr, BLOCK: kl.constexpr):
    at = kl.arange(0, ROWS)[:, None] * BLOCK + kl.arange(0, BLOCK)[None, :]
    value = kl.load(x + at).to(kl.float32)
    kl.store(y + at, (value / kl.sum(value, axis=1)[:, None]).to(kl.float16))
