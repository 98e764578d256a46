"""The schedule of several products for kernels unlike attention's gradients: results are whole numbers, and exact."""

import kiln
import kiln.language as kl
import numpy as np
import pytest


@kiln.jit
def step(key, other, walked, sums, also, out, at, scale, total, M: kl.constexpr, CASE: kl.constexpr):
    """Adds (key query')' other to ``sums``, and key query' query to ``total``; scores are scaled by column."""
    query = walked.load([at, 0])
    score = kl.dot(key, query.T) * scale[None, :]
    shared = score.to(kl.float16)
    if CASE == "walked":
        # The shared operand's product reads a block of this step, too.
        other = walked.load([at, 0]) if M == 128 else other
    part = kl.dot(shared.T, other) if M == 128 else kl.dot(other.T, shared)
    total = kl.dot(shared, query, total)
    if CASE == "before":
        also.atomic_add([at, 0], kl.full((M, 64), 1.0, kl.float32) + at)
    sums.atomic_add([at, 0], part)
    if CASE == "behind":
        also.atomic_add([at, 0], kl.full((M, 64), 1.0, kl.float32) + at)
    if CASE == "inner":
        for again in range(2):
            also.atomic_add([at, 0], kl.full((M, 64), 0.5, kl.float32) + again * (at + 0.0))
    if CASE == "branch":
        if at == M:
            kl.store(out + kl.arange(0, M)[:, None] * 64 + kl.arange(0, 64)[None, :], part)
    return total


@kiln.jit
def several(k, q, row, z, w, x, y, tokens, heads, lines, M: kl.constexpr, CASE: kl.constexpr):
    keys = kl.make_tensor_descriptor(k, [256, 64], [64, 1], [128, 64])
    walked = kl.make_tensor_descriptor(q, [tokens, 64], [64, 1], [M, 64])
    rows = kl.make_tensor_descriptor(row, [lines, tokens], [tokens, 1], [1, M])
    sums = kl.make_tensor_descriptor(z, [tokens, 64], [64, 1], [M, 64])
    also = kl.make_tensor_descriptor(w, [tokens, 64], [64, 1], [M, 64])
    result = kl.make_tensor_descriptor(y, [128, 64], [64, 1], [128, 64])
    key, other = keys.load([0, 0]), keys.load([128, 0])
    total = kl.zeros((128, 64), kl.float32)
    for head in range(0, heads):
        scale = rows.load([head, 0]).reshape(M)
        if CASE == "around":
            # A shared operand's product is in flight while the inner loop makes its own.
            first = walked.load([0, 0])
            outer = kl.dot(key, first.T).to(kl.float16)
            outer = kl.dot(outer.T, other) if M == 128 else kl.dot(other.T, outer)
        for at in range(0, tokens, M):
            own = rows.load([heads, at]).reshape(M)
            scaled = scale if CASE == "outer" else own
            total = step(key, other, walked, sums, also, x, at, scaled, total, M, CASE)
        if CASE == "around":
            also.atomic_add([0, 0], outer)
    result.store([0, 0], total.to(kl.float16))


CASES = ["plain", "walked", "before", "behind", "inner", "branch", "outer", "around"]


@pytest.mark.parametrize("schedule", ["streams", "rotated"])
@pytest.mark.parametrize("queries", [64, 128])
@pytest.mark.parametrize("case", CASES)
def test_results_are_exact(rng, in_orders, case, queries, schedule):
    """A second block that a step adds, before and behind the product's, and in a loop; a product whose result is also
    stored; that reads a walked block; in an outer loop; vectors of an outer loop. In every order of warps."""
    heads, tokens, m = 2, 3 * queries, queries
    k, q = ((rng.integers(-1, 2, shape) * (rng.random(shape) < 0.2)).astype(np.float16) for shape in
            ((256, 64), (tokens, 64)))  # fmt: skip
    row = rng.integers(-1, 2, (heads + 1, tokens)).astype(np.float32)
    sums, also, stored = (np.zeros((tokens, 64), np.float32) for _ in range(3))
    total = np.zeros((128, 64), np.float32)
    key, other, all_queries = k[:128].astype(np.float32), k[128:].astype(np.float32), q.astype(np.float32)
    for head in range(heads):
        for at in range(0, tokens, m):
            block = slice(at, at + m)
            score = key @ all_queries[block].T * (row[head, :m] if case == "outer" else row[heads, block])
            factor = all_queries[block] if case == "walked" and m == 128 else other
            part = score.T @ factor if m == 128 else factor.T @ score
            sums[block] += part
            total += score @ all_queries[block]
            if case in ("before", "behind", "inner"):
                also[block] += 1 + at
            if case == "branch" and at == m:
                stored[:m] = part
        if case == "around":
            score = key @ all_queries[:m].T
            also[:m] += score.T @ other if m == 128 else other.T @ score

    def run():
        z, w, x = (np.zeros((tokens, 64), np.float32) for _ in range(3))
        y = np.zeros((128, 64), np.float16)
        options = {"schedule": schedule, "stages": 2, "consumers": 2, "num_warps": 8}
        several[(1,)](k, q, row, z, w, x, y, tokens, heads, heads + 1, M=m, CASE=case, **options)
        return z, w, x, y

    for results in in_orders(run, {"wgmma", "mbarrier"}):
        for got, expected in zip(results, (sums, also, stored, total), strict=True):
            assert np.array_equal(got, expected)
