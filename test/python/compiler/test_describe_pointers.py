"""Random kernels store the same bits on the CPU whether or not the pass turns their pointers into descriptors.

The CPU's code comes from the same tile IR that a GPU's schedules start from, and does not depend on how the pass
decides. The kernels walk boxes in several ways. Some have something that a box cannot express: a mask that tests
another row, or rows that occur again and are stored. The pass may accept or reject these; the stored values must agree.
All elements around an array differ from their neighbours, so that an element read from elsewhere, or one that should be
zero and is not, shows.

KILN_FUZZ_POINTERS (80) sets how many, KILN_FUZZ_SEED (0) which.
"""

from __future__ import annotations

import linecache
import os
import random
import subprocess
from pathlib import Path

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import _kiln, compiler, frontend
from kiln.cli.signature import parse_signature
from kiln.runtime.jit import CompiledKernel

COUNT = int(os.environ.get("KILN_FUZZ_POINTERS", "80"))
SEED = os.environ.get("KILN_FUZZ_SEED", "0")
CHUNK = 20
BUILD = Path(__file__).resolve().parents[3] / os.environ.get("KILN_BUILD", "build")
SIDE, DEPTH = 16, 8  # of tiles

SIGNATURE = (
    "a=*fp32:16, b=*fp32:16, c=*fp32:16, m=i32, n=i32, k=i32, first=i32, sa=i32:16, sb=i32:16, sc=i32:16, "
    "of_a=i32:16, of_b=i32:16, of_c=i32:16"
)
PASS = "builtin.module(func.func(kiln-describe-pointers{all=true}))"

# How rows (or columns) are addressed and bounded: the index, and its mask condition, if any. `{at}` is where the tile
# begins, `{end}` where the array ends, `{i}` the range.
ROWS = {
    "masked": ("{at} + {i}", "{x} < {end}"),
    "masked from 0": ("{at} + {i}", "({x} < {end}) & ({x} >= 0)"),
    "remainder": ("({at} + {i}) % {end}", ""),
    "remainder, masked": ("({at} + {i}) % {end}", "({at} + {i}) < {end}"),
    "chosen": ("kl.where({at} + {i} < {end}, {at} + {i}, 0)", ""),
    "chosen last": ("kl.where({at} + {i} < {end}, {at} + {i}, {end} - 1)", ""),
    "unmasked": ("{at} + {i}", ""),
    # None of these conditions is the bounds of the box.
    "one less": ("{at} + {i}", "{x} + 1 < {end}"),
    "two bounds": ("{at} + {i}", "({x} < {end}) & ({x} < k)"),
    "bounded before": ("{at} + {i}", "({x} < {end}) & ({x} < {end} - 3)"),
    "remainder, masked before": ("({at} + {i}) % {end}", "({at} + {i}) + 2 < {end}"),
    "up to": ("{at} + {i}", "{x} <= {end}"),
    "every second": ("({at} + {i}) * 2", "{x} < {end}"),
    "other rows": ("{at} + {i}", "{i} < {end}"),
    "not": ("{at} + {i}", "{x} >= {end}"),
    "from behind": ("{end} - 1 - ({at} + {i})", "{x} >= 0"),
}
DEPTHS = ("left", "index", "carried", "unmasked", "split", "up to", "behind")
STORES = {
    "masked": "(r < m) & (q < n)",
    "rows alone": "(r < m) & (q < n + 3)",
    "another bound": "(r < m - 1) & (q < n)",
    "behind": "(r < m + 2) & (q < n)",
}


def kernel_text(draw: random.Random) -> str:
    """A kernel that multiplies a box of a by one of b."""
    likely = ["masked", "remainder", "remainder", "chosen", "unmasked", "masked from 0"]
    rows = draw.choice(likely) if draw.random() < 0.6 else draw.choice([*ROWS])
    columns = draw.choice(likely) if draw.random() < 0.6 else draw.choice([*ROWS])
    depth = draw.choice(DEPTHS)
    turned = draw.random() < 0.4
    batched = draw.random() < 0.4
    beside = draw.random() < 0.15  # compute something else from what was loaded
    store = "masked" if draw.random() < 0.6 else draw.choice([*STORES])

    def index(name: str, way: str, at: str, end: str) -> tuple[str, str]:
        value, mask = ROWS[way]
        words = {"at": at, "end": end, "i": f"kl.arange(0, {SIDE})"}
        return value.format(**words), mask.format(**words, x=name)

    row, row_mask = index("x", rows, f"kl.program_id(0) * {SIDE}", "m")
    column, column_mask = index("y", columns, f"kl.program_id(1) * {SIDE}", "n")
    move_a, move_b = ("kl.program_id(2) * of_a + ", "kl.program_id(2) * of_b + ") if batched else ("", "")
    # Depth: `d` is an index of the first tile, `left` is compared with it, `by` is how far pointers advance.
    begin, end, step, carried, d, bound = "0", "kl.cdiv(k, {D})", "1", False, "z", "z < k - t * {D}"
    steps_pointers = depth in ("left", "unmasked")
    if depth == "index":
        begin, end, step, d, bound = "0", "k", "{D}", "(t + z)", "(t + z) < k"
    elif depth == "split":
        begin, end, step, d, bound = "first", "k", "{D}", "(t + z)", "(t + z) < k"
    elif depth == "carried":
        carried, d, bound = True, "z", "z < k"
    elif depth == "unmasked":
        end, bound = "k // {D}", ""
    elif depth == "up to":
        begin, end, step, d, bound = "0", "k + 1", "{D}", "(t + z)", "(t + z) <= k"
    elif depth == "behind":
        begin, end, step, d, bound = "0", "k", "{D}", "(t + z)", "(t + z) < k + 1"
    begin, end, step, bound = (text.replace("{D}", str(DEPTH)) for text in (begin, end, step, bound))

    def expanded(text: str, dim: str) -> str:
        """The mask, expanded to the tile's dimensions."""
        return f"({text}){dim}" if text else ""

    b_dims = ("[None, :]", "[:, None]") if turned else ("[:, None]", "[None, :]")
    a_at = f"a + {move_a}(x[:, None] * sa + {d}[None, :])"
    b_at = (f"b + {move_b}(y[:, None] * sb + {d}[None, :])" if turned
            else f"b + {move_b}({d}[:, None] * sb + y[None, :])")  # fmt: skip
    a_mask = " & ".join(filter(None, [expanded(row_mask, "[:, None]"), expanded(bound, "[None, :]")]))
    b_mask = " & ".join(filter(None, [expanded(bound, b_dims[0]), expanded(column_mask, b_dims[1])]))

    def load(at: str, mask: str) -> str:
        return f"kl.load({at}, mask=({mask}), other=0.0)" if mask else f"kl.load({at})"

    lines = [
        "@kiln.jit",
        "def kernel(a, b, c, m, n, k, first, sa, sb, sc, of_a, of_b, of_c):",
        f"    x, y, z = {row}, {column}, kl.arange(0, {DEPTH})",
        f"    total = kl.zeros(({SIDE}, {SIDE}), kl.float32)",
        "    more = 0.0",
    ]
    if steps_pointers:
        lines += [f"    pa, pb = {a_at}, {b_at}"]
        a_at, b_at = "pa", "pb"
    lines += [
        f"    for t in range({begin}, {end}, {step}):",
        f"        u = {load(a_at, a_mask)}",
        f"        v = {load(b_at, b_mask)}",
        f"        total = kl.dot(u, v{'.T' if turned else ''}, total, input_precision='ieee')",
    ]
    if beside:
        lines += ["        more += kl.sum(u)"]
    if steps_pointers:
        lines += [f"        pa += {DEPTH}", f"        pb += {DEPTH}{'' if turned else ' * sb'}"]
    if carried:
        lines += [f"        z += {DEPTH}"]
    lines += [
        f"    r = (kl.program_id(0) * {SIDE} + kl.arange(0, {SIDE}))[:, None]",
        f"    q = (kl.program_id(1) * {SIDE} + kl.arange(0, {SIDE}))[None, :]",
        f"    at = c + {'kl.program_id(2) * of_c + ' if batched else ''}r * sc + q",
        f"    kl.store(at, total + more, mask={STORES[store]})",
    ]
    return "\n".join(lines) + "\n"


def kernel_of(text: str, name: str):
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = {"kiln": kiln, "kl": kl}
    exec(compile(text, name, "exec"), names)
    return names["kernel"]


GUARD = 3 * SIDE  # elements around an array, so that no kernel here reads beyond the allocation


def inside(whole: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """The array in the middle."""
    return whole[1 : 1 + shape[0], GUARD : GUARD + shape[1], GUARD : GUARD + shape[2]]


def surrounded(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    """An array and its surroundings: adjacent elements differ, none is zero, rows are 64 bytes."""
    batch, rows, columns = shape
    return rng.integers(1, 200, (batch + 2, rows + 2 * GUARD, -(-(columns + 2 * GUARD) // 16) * 16)).astype(np.float32)


def described(text: str) -> tuple[str, list[str]]:
    """The tile IR after the pass, and its remark on each access."""
    command = [str(BUILD / "compiler/tools/kiln-opt"), f"--pass-pipeline={PASS}", "--mlir-print-debuginfo"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout, [line.split("remark: ")[1] for line in done.stderr.splitlines() if "remark: " in line]


def on_cpu(kernel, parameters, text: str) -> CompiledKernel:
    artifact = compiler.compile_text(text, "opt", {"target": "cpu"})
    compiled = CompiledKernel(kernel, parameters, artifact, None, [True] * 3, -1)
    compiled.loaded = _kiln.load(artifact.binary, artifact.metadata, 0, "kernel")
    return compiled


def check(seed: str, told: list[str]) -> None:
    draw = random.Random(seed)
    rng = np.random.default_rng(list(seed.encode()))
    text = kernel_text(draw)
    kernel = kernel_of(text, f"<described {seed}>")
    parameters = parse_signature(SIGNATURE, kernel)
    module = frontend.emit(kernel, parameters, "kernel", disjoint=[True] * 3)
    before = compiler.compile(module, {"target": "sm_90a", "to": "opt"}).text("opt")
    after, remarks = described(before)
    told += remarks
    if "desc_load" not in after:
        return
    forms = [on_cpu(kernel, parameters, form) for form in (before, after)]
    for _ in range(4):
        m, n, k = (draw.choice([2, 3, 7, 8, 15, 16, 17, 24, 31, 33]) for _ in range(3))
        shapes = (2, m, k), (2, n, k) if "v.T" in text else (2, k, n), (2, m, n)
        wholes = [surrounded(rng, shape) for shape in shapes]
        a, b, c = (inside(*pair) for pair in zip(wholes, shapes, strict=True))
        (of_a, sa, _), (of_b, sb, _), (of_c, sc, _) = ([s // 4 for s in array.strides] for array in (a, b, c))
        stored = []
        for form in forms:
            wholes[2][...] = -1
            form[-(-m // SIDE), -(-n // SIDE), 2](a, b, c, m, n, k, 5, sa, sb, sc, of_a, of_b, of_c)
            stored.append(wholes[2].copy())
        assert np.array_equal(*stored), f"{seed}: m, n, k = {m, n, k}\n{text}\n" + "\n".join(remarks)


@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_descriptors_load_and_store_what_pointers_do(first):
    told: list[str] = []
    for number in range(first, min(first + CHUNK, COUNT)):
        check(f"{SEED}:{number}", told)
    assert any(remark.startswith("loads from") for remark in told), "no kernel of these walks a box"
