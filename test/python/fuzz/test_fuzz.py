"""Random programs under Kiln and under numpy. KILN_FUZZ_PROGRAMS (200) sets how many, KILN_FUZZ_SEED (0) which.

A failure shows the program, the difference and a reduced program; `run.py --seed S --first N --programs 1` reruns
it.
"""

from __future__ import annotations

import os
import pathlib
import random
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from kiln import knobs
from kiln.runtime import placement

from . import run
from .check import check, compare, launch, share_run
from .elementwise import extremum
from .evaluate import Value, evaluate
from .generate import generate
from .kinds import F16, F32, KINDS, Undefined, rounded
from .operation import OPERATIONS
from .program import Node, Program, render, walk
from .reduce import reduce
from .run import GRACE, SHORT, Batch, Watched, run_batch, tally, watch

CHUNK = 50
PROGRAMS = int(os.environ.get("KILN_FUZZ_PROGRAMS", "200"))
SEED = os.environ.get("KILN_FUZZ_SEED", "0")

pytestmark = pytest.mark.fuzz


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_programs_agree_with_numpy(first):
    batch = run_batch(SEED, first, min(CHUNK, PROGRAMS - first))
    assert batch.failed == 0, batch.output
    assert batch.drawn == min(CHUNK, PROGRAMS - first)
    assert batch.undefined <= 2
    # The CPU refuses nothing; on a GPU the programs with very large tiles are left out.
    gpu = placement.names_gpu(knobs.target)
    assert batch.refused <= (CHUNK // 10 if gpu else 0) and batch.left_out <= (CHUNK // 2 if gpu else 0)


# What the 2,000 programs must contain (and 700 of them do): every op of the dialect that computes.
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
        if number < 230:
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
    """Whether Kiln's result would be wrong if subtraction were addition: a fault to find and to shrink."""
    text = re.sub(r"(\w+) - (\w+)$", r"\1 + \2", render(program), flags=re.M)
    return compare(program, evaluate(program), launch(program, text)[0]) is not None


@pytest.mark.cpu
def test_a_fault_is_found_and_shrunk():
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
        # No value of the kind is nearer: compare with the neighbouring bit patterns.
        bits = rounded(x, kind).view(np.dtype(f"u{kind.dtype.itemsize}"))
        for step in (-1, 1):
            near = (bits.astype(np.int64) + step).astype(bits.dtype).view(kind.dtype).astype(np.float64)
            fine = np.isfinite(got) & np.isfinite(near)
            assert np.all(np.abs(got - x)[fine] <= np.abs(near - x)[fine]), kind


def test_the_generator_has_its_own_random_state():
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

    # The fourth is a signalling NaN, at which numpy's own fmin over columns loses the earlier elements.
    column = of_bits(63141, 6577, 63073, 64850, 9401, 55335)
    columns = column.moved(lambda x: np.repeat(x[:, None], 15, 1))
    np.testing.assert_allclose(reduced(columns), np.full(15, best), rtol=1e-4)
    np.testing.assert_allclose(reduced(column), best, rtol=1e-4)
    # Two signalling NaNs and a quiet one.
    nan, one = of_bits(64513, 32001, 32256), of_bits(*[15360] * 3)
    assert np.isnan(reduced(nan))
    for a, b in [(nan, one), (one, nan)]:
        assert extremum(which, a, b, F16).data.tolist() == [1, 1, 1]
        assert np.isnan(extremum(which, a, b, F16, every=True).data).all()
    assert np.isnan(extremum(which, nan, nan, F16).data).all()


def test_programs_that_take_minutes_to_assemble_are_left_out():
    assert [share_run(n) for n in (1, 128, 256, 512, 513, 4096)] == [1.0, 1.0, 0.1, 1 / 30, 0.0, 0.0]
    with knobs.scope(target="sm_90a"):
        for name, elements in [("11:3311", 975), ("11:4975", 675)]:
            failure = check(generate(name))
            assert failure is not None and failure.way == "left out"
            assert f"{elements} elements a thread" in failure.message


def test_programs_that_did_not_run_are_counted_separately():
    lines = ["REFUSED 3:1: too little memory", "UNDEFINED 3:2: no order", "FAILED 3:4: mismatch", "program:", "text",
             "LEFT OUT 3:6: ptxas"]  # fmt: skip
    counts = tally(Watched([0, 1, 2, 3, 4, 5, 6], lines, 10))
    text = "FAILED 3:4: mismatch\nprogram:\ntext\n"
    assert counts == Batch(ran=4, failed=1, refused=1, left_out=1, undefined=1, output=text)
    assert counts.drawn == 7
    assert tally(Watched([0, 1, 2, 3, 4, 5], lines, None, cut=True)).ran == 3
    # It failed before time was up.
    assert tally(Watched([0, 1, 2, 3, 4], lines, None, cut=True)).ran == 3
    assert counts.summary("3", 4) == "4 programs of seed 3 ran, 1 failed (1 left out, 1 refused, 1 without a meaning)"
    assert counts.summary("3", 9).startswith("4 of 9 programs of seed 3 ran, ")


def test_a_hang_does_not_extend_the_time_limit():
    script = "import time; print('@ 7\\n@ 8', flush=True); time.sleep(60)"
    start = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    found = watch(process, start + 1)
    assert time.monotonic() - start < 1 + 2 * GRACE + 2
    assert found.cut and found.status is None and tally(found).ran == 1
    assert process.poll() is not None


def fuzz(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(pathlib.Path(__file__).with_name("run.py")), "--seed", "0", *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_running_out_of_time_is_not_a_success():
    found = fuzz("--programs", "5000", "--seconds", "4")
    assert found.returncode == SHORT, found.stdout + found.stderr
    ran, asked = re.search(r"(\d+) of (\d+) programs of seed 0 ran, 0 failed .*: time is up", found.stdout).groups()
    assert int(ran) < int(asked) == 5000


def test_programs_compile_for_a_gpu_that_is_not_present(monkeypatch):
    monkeypatch.setenv("KILN_PTXAS", "none")
    monkeypatch.setenv("KILN_TARGET", "sm_90a")
    found = fuzz("--first", "0", "--programs", "10", "--compile")
    assert found.returncode == 0, found.stdout + found.stderr
    monkeypatch.setenv("KILN_TARGET", "sm_1")
    found = fuzz("--first", "0", "--programs", "1", "--compile", "--no-reduce")
    assert found.returncode == 1 and "FAILED 0:0: LaunchError" in found.stdout


def test_rejected_programs_are_replaced_by_others(monkeypatch, capsys):
    drawn: set[int] = set()

    def every_fifth_is_refused(seed, first, count, flags, seconds):
        numbers = set(range(first, first + count))
        assert not drawn & numbers
        drawn.update(numbers)
        refused = sum(number % 5 == 0 for number in numbers)
        return Batch(ran=count - refused, refused=refused)

    monkeypatch.setattr(run, "run_batch", every_fifth_is_refused)
    monkeypatch.setattr(sys, "argv", ["run.py", "--programs", "1000", "--jobs", "3"])
    assert run.main() == 0
    ran, refused = map(
        int, re.match(r"(\d+) programs .* ran, 0 failed \(0 left out, (\d+) refused", capsys.readouterr().out).groups()
    )
    assert drawn == set(range(len(drawn))) and ran + refused == len(drawn) and 1000 <= ran < 1020
    # With --first, exactly these numbers are drawn.
    drawn.clear()
    monkeypatch.setattr(sys, "argv", ["run.py", "--programs", "10", "--first", "5000"])
    assert run.main() == 0
    assert drawn == set(range(5000, 5010))
    assert capsys.readouterr().out.startswith("8 of 10 programs of seed 0 ran, 0 failed (0 left out, 2 refused")


def test_rejecting_all_programs_is_not_a_success(monkeypatch, capsys):
    monkeypatch.setattr(run, "run_batch", lambda seed, first, count, *_: Batch(refused=count))
    monkeypatch.setattr(sys, "argv", ["run.py", "--programs", "10"])
    assert run.main() == SHORT
    assert capsys.readouterr().out.startswith("0 of 10 programs of seed 0 ran, 0 failed (0 left out, 120 refused")


def test_a_program_that_kills_its_process_is_reported_and_the_rest_run(monkeypatch):
    scripts = iter(["print('@ 5\\n@ 6', flush=True); os._exit(9)",
                    "print('@ 7\\nFAILED 0:7: wrong\\n'); sys.stdout.flush(); os._exit(8)",
                    "print('@ 8\\n@ 9')"])  # fmt: skip
    start = subprocess.Popen

    def scripted(command, **options):
        return start([sys.executable, "-c", "import os, sys; " + next(scripts)], **options)

    monkeypatch.setattr(run.subprocess, "Popen", scripted)
    batch = run_batch("0", 5, 5)
    assert (batch.ran, batch.failed, batch.drawn) == (5, 2, 5)
    assert "FAILED 0:6: ends the process (9)\n@kiln.jit" in batch.output
    assert "0:7 ends the process (8) while it is made small" in batch.output
