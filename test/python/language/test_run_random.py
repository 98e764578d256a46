"""Philox and the functions built on it on the CPU, against the generator written in Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from running import evaluate, launch

# Philox of Salmon, Moraes, Dror and Shaw, SC 2011: width -> multipliers and key steps.
CONSTANTS = {
    32: (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85),
    64: (0xD2E7470EE14C6C93, 0xCA5A826395121157, 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B),
}


def philox(counter, key, rounds=10, bits=32):
    a, b, step_a, step_b = CONSTANTS[bits]
    mask = (1 << bits) - 1
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(rounds):
        p, q = a * c0, b * c2
        c0, c1, c2, c3 = (q >> bits) ^ c1 ^ k0, q & mask, (p >> bits) ^ c3 ^ k1, p & mask
        k0, k1 = (k0 + step_a) & mask, (k1 + step_b) & mask
    return c0, c1, c2, c3


def test_the_reference_gives_the_published_vectors():
    # Known answers of the authors' Random123 library.
    assert philox((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    ones = 0xFFFFFFFF
    assert philox((ones,) * 4, (ones,) * 2) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    assert philox((0, 0, 0, 0), (0, 0), bits=64)[0] == 0x16554D9ECA36314C


@pytest.mark.parametrize("seed", [0, 1, 123456789, (7 << 32) + 5])
@pytest.mark.parametrize("rounds", [7, 10])
def test_randint4x_is_philox(seed, rounds):
    out = np.zeros((4, 16), np.uint32)
    source = f"""
    def kernel(out, seed, start):
        i = kl.arange(0, 16)
        a, b, c, d = kl.randint4x(seed, start + i, n_rounds={rounds})
        kl.store(out + i, a)
        kl.store(out + 16 + i, b)
        kl.store(out + 32 + i, c)
        kl.store(out + 48 + i, d)
    """
    launch(source, out, seed, 1000)
    key = (seed & 0xFFFFFFFF, seed >> 32)
    expected = np.array([philox((1000 + i, 0, 0, 0), key, rounds) for i in range(16)], np.uint32).T
    np.testing.assert_array_equal(out, expected)


def test_offsets_of_64_bits_use_two_counter_words():
    offsets = np.array([1, 2**32 + 1, 2**40, 5], np.int64)
    got = evaluate("kl.randint(9, offsets)", ((4,), np.uint32), offsets=offsets)
    expected = [philox((o & 0xFFFFFFFF, o >> 32, 0, 0), (9, 0))[0] for o in offsets.tolist()]
    np.testing.assert_array_equal(got, np.array(expected, np.uint32))


def test_philox_of_64_bit_words():
    c0 = np.array([0, 1, 2**63, 12345], np.uint64)
    got = evaluate("kl.philox(3, c0, 0, 0, 0)[1]", ((4,), np.uint64), c0=c0)
    expected = [philox((c, 0, 0, 0), (3, 0), bits=64)[1] for c in c0.tolist()]
    np.testing.assert_array_equal(got, np.array(expected, np.uint64))


def uniform(words):
    """What Triton makes of random words: floats in [0, 1)."""
    signed = np.array(words, np.uint32).view(np.int32)
    return np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(4.6566127342e-10)


def test_uniform_numbers():
    i = np.arange(4096, dtype=np.int32)
    got = evaluate("kl.rand(42, i)", ((4096,), np.float32), i=i)
    np.testing.assert_array_equal(got, uniform([philox((int(k), 0, 0, 0), (42, 0))[0] for k in i]))
    assert got.min() >= 0 and got.max() < 1 and abs(got.mean() - 0.5) < 0.02
    assert (
        evaluate("kl.uint_to_uniform_float(x)", ((2,), np.float32), x=np.array([2**31 - 1, 2**31], np.uint32)).max() < 1
    )


def test_normal_numbers():
    i = np.arange(4096, dtype=np.int32)
    got = evaluate("kl.randn(42, i)", ((4096,), np.float32), i=i)
    assert np.isfinite(got).all() and abs(got.mean()) < 0.05 and abs(got.std() - 1) < 0.05
    four = [evaluate(f"kl.randn4x(42, i)[{k}]", ((4096,), np.float32), i=i) for k in range(4)]
    np.testing.assert_array_equal(four[0], got)
    assert abs(np.corrcoef(four[0], four[1])[0, 1]) < 0.05


def test_rand4x_and_randint4x_agree():
    i = np.arange(64, dtype=np.int32)
    a = evaluate("kl.rand4x(1, i)[2]", ((64,), np.float32), i=i)
    b = evaluate("kl.uint_to_uniform_float(kl.randint4x(1, i)[2])", ((64,), np.float32), i=i)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(a, uniform([philox((int(k), 0, 0, 0), (1, 0))[2] for k in i]))
