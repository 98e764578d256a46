"""Random programs under Kiln and under numpy. KILN_FUZZ_PROGRAMS (200) and KILN_FUZZ_SEED (0) say how many and which.

A failure shows the program, what differs and a reduced program; `run.py --seed S --first N --programs 1` runs it again.
"""

from __future__ import annotations

import os
import random
import re

import numpy as np
import pytest
from kiln import knobs
from kiln.runtime import placement

from .check import check, compare, launch, share_run
from .elementwise import extremum
from .evaluate import Value, evaluate
from .generate import generate
from .kinds import F16, F32, KINDS, Undefined, rounded
from .operation import OPERATIONS
from .program import Node, Program, render, walk
from .reduce import reduce
from .run import run_batch

CHUNK = 50
PROGRAMS = int(os.environ.get("KILN_FUZZ_PROGRAMS", "200"))
SEED = os.environ.get("KILN_FUZZ_SEED", "0")

pytestmark = pytest.mark.fuzz


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_programs_agree_with_numpy(first):
    batch = run_batch(SEED, first, min(CHUNK, PROGRAMS - first))
    assert batch.failed == 0, batch.output
    # A processor refuses nothing; on a GPU the few programs with very large tiles are left out.
    assert batch.refused <= (CHUNK // 3 if placement.names_gpu(knobs.target) else 0)


# What the 2,000 programs have to contain (and 700 of them do): every op of the dialect that computes.
TILE_OPS = """
    program_id num_programs addptr hint load store make_desc desc_load desc_store make_block_ptr advance block_load
    block_store atomic_rmw atomic_cas make_range splat expand_dims broadcast reshape trans join split cat dot reduce
    scan yield gather histogram sort topk inline_asm barrier
""".split()
LANGUAGE = """
    abs add advance arange argmax argmin associative_scan atomic_add atomic_and atomic_cas atomic_max atomic_min
    atomic_or atomic_xchg atomic_xor broadcast_to cast cat ceil clamp condition cos cumprod cumsum debug_barrier
    dot erf exp exp2 expand_dims flip floor fma full gather histogram inline_asm_elementwise interleave join
    load log log2 make_block_ptr make_tensor_descriptor map_elementwise max maximum min minimum mul multiple_of
    num_programs permute program_id range ravel reduce reduce_or rsqrt sigmoid sin softmax sort split sqrt
    sqrt_rn static_range store sub sum topk trans umulhi view where xor_sum zeros zeros_like
""".split()
STATEMENTS = [
    "for ",
    "while ",
    "if ",
    "else:",
    "break",
    "continue",
    "return ",
    " += ",
    ".T",
    "[None, :]",
    "kl.constexpr",
]


@pytest.mark.cpu
def test_the_programs_cover_the_language():
    seen: set[str] = set()
    texts, kinds, operations = [], set(), set()
    for number in range(700):
        try:
            program = generate(f"0:{number}")
        except Undefined:
            continue
        texts.append(render(program))
        for _, node in walk(program.body):
            operations.add(node.op)
            kinds.update(result.kind.name for result in node.results)
        if number < 200:
            check(program, seen, checks=False)
    text = "\n".join(texts)
    assert [o for o in OPERATIONS if o not in operations] == []
    assert [k.name for k in KINDS if k.name not in kinds] == []
    assert [s for s in STATEMENTS if s not in text] == []
    assert sorted(set(LANGUAGE) - set(re.findall(r"kl\.(\w+)", text))) == []
    assert sorted(f"tile.{op}" for op in TILE_OPS if f"tile.{op}" not in seen) == []


def test_a_seed_gives_one_program():
    assert render(generate("5:3")) == render(generate("5:3"))
    assert render(generate("5:3")) != render(generate("5:4"))


def wrong(program: Program) -> bool:
    """Whether Kiln disagrees, had subtraction been addition: a fault to find and to make small."""
    text = re.sub(r"(\w+) - (\w+)$", r"\1 + \2", render(program), flags=re.M)
    return compare(program, evaluate(program), launch(program, text)[0]) is not None


@pytest.mark.cpu
def test_a_fault_is_found_and_made_small():
    tried = (generate(f"7:{number}") for number in range(100))
    faulty = next(p for p in tried if re.search(r"\w+ - \w+$", render(p), flags=re.M) and wrong(p))
    small = reduce(faulty, wrong, 30)
    assert wrong(small)
    assert len(list(walk(small.body))) <= 5 < len(list(walk(faulty.body)))


def test_the_evaluation_rounds_once():
    draw = np.random.default_rng(1)
    x = draw.standard_normal(2000) * 2.0 ** draw.integers(-20, 14, 2000)
    for kind in KINDS:
        if not kind.is_narrow:
            continue
        got = rounded(x, kind).astype(np.float64)
        # No value of the kind is nearer: compare with its neighbours in bits.
        bits = rounded(x, kind).view(np.dtype(f"u{kind.dtype.itemsize}"))
        for step in (-1, 1):
            near = (bits.astype(np.int64) + step).astype(bits.dtype).view(kind.dtype).astype(np.float64)
            fine = np.isfinite(got) & np.isfinite(near)
            assert np.all(np.abs(got - x)[fine] <= np.abs(near - x)[fine]), kind


def test_the_dice_are_the_generators_own():
    state = random.getstate()
    generate("9:1")
    assert random.getstate() == state


def of_bits(*bits: int) -> Value:
    return Value(F16, np.array(bits, np.uint16).view(np.float16))


@pytest.mark.parametrize("which, best", [("min", -27216.0), ("max", 0.018448)])
def test_the_evaluation_ignores_nan_of_every_kind(which, best):
    def reduced(value):
        node = Node("reduce", [], {"way": which, "axis": 0, "keep": False})
        (found,) = OPERATIONS["reduce"].value(node, [value], None)
        assert found.kind == F32
        return found.data

    # The fourth is a signalling NaN, at which numpy's own fmin of columns forgets what came before.
    column = of_bits(63141, 6577, 63073, 64850, 9401, 55335)
    columns = column.moved(lambda x: np.repeat(x[:, None], 15, 1))
    np.testing.assert_allclose(reduced(columns), np.full(15, best), rtol=1e-4)
    np.testing.assert_allclose(reduced(column), best, rtol=1e-4)
    # Two signalling NaN and a quiet one.
    nan, one = of_bits(64513, 32001, 32256), of_bits(*[15360] * 3)
    assert np.isnan(reduced(nan))
    for a, b in [(nan, one), (one, nan)]:
        assert extremum(which, a, b, F16).data.tolist() == [1, 1, 1]
        assert np.isnan(extremum(which, a, b, F16, every=True).data).all()
    assert np.isnan(extremum(which, nan, nan, F16).data).all()


def test_a_gpu_is_not_asked_for_what_takes_minutes_to_assemble():
    assert [share_run(n) for n in (1, 128, 256, 512, 513, 4096)] == [1.0, 1.0, 0.1, 1 / 30, 0.0, 0.0]
    with knobs.scope(target="sm_90a"):
        for name, elements in [("11:3311", 975), ("11:4975", 675)]:
            failure = check(generate(name))
            assert failure is not None and failure.way == "refused"
            assert f"{elements} elements a thread" in failure.message
