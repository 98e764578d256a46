"""Attention's schedule after ptxas: no spills, no serialised products, softmax overlaps the second product."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import kiln
import kiln.language as kl
import ml_dtypes
import numpy as np
import pytest
from kiln import knobs, toolchain
from kiln.kernels.attention import BlockMask, attention, attention_backward, attention_varlen, flex_attention
from kiln.kernels.attention.configs import AttentionPlan, prefill_plan
from kiln.kernels.launches import launches_of
from kiln.kernels.machine import DEFAULT_GPU, of_target

# Head size, tokens, causal: the cases that the default plans distinguish. With two groups threads start with 168
# registers, with three with 128.
CONFIGURATIONS = [
    (64, 1024, False, 128), (64, 1024, True, 168), (64, 4096, False, 128), (64, 16384, True, 128),
    (48, 512, False, 128), (80, 1024, True, 168), (80, 16384, True, 128), (96, 1024, False, 168), (96, 4096, True, 128),
    (128, 1024, False, 168), (128, 1000, True, 168),
]  # fmt: skip
MARK = re.compile(r"^\s*(?:/\*[0-9a-f]+\*/)?\s*(?:@!?U?P\w+\s+)?(HGMMA|WARPGROUP\.DEPBAR|PMTRIG|MUFU\.EX2|BRA)\b(.*)",
                  re.MULTILINE)  # fmt: skip


def compiled(
    size: int,
    tokens: int,
    causal: bool,
    dtype: object,
    folder: Path,
    in_place: bool = False,
    plan: AttentionPlan | None = None,
) -> tuple[str, str]:
    """The output of ptxas, and the SASS."""
    q = np.empty((16384 // tokens, tokens, 32, size), dtype)
    k = np.empty((16384 // tokens, tokens, 8, size), dtype)
    out = q if in_place else None
    call = lambda: attention(q, k, np.empty_like(k), causal=causal, out=out, plan=plan)  # noqa: E731
    in_turn = plan.in_turn if plan else 64 <= size <= 128
    return assembled(call, folder, None if in_place else "pingpong" if in_turn else "attention")


def assembled(call: Callable[[], object], folder: Path, schedule: str | None = "either") -> tuple[str, str]:
    """``schedule``: by default the schedule of attention, with or without turns."""
    (launch,) = launches_of(call, of_target("sm_90a"))
    assert launch.options.get("schedule") in (("attention", "pingpong") if schedule == "either" else (schedule,))
    with recorded_ptxas(folder) as log:
        artifact = launch.compile("sm_90a")
    if toolchain.nvdisasm() is None:
        pytest.skip("no nvdisasm (package nvidia-cuda-nvdisasm)")
    return log.read_text(), toolchain.disassemble(artifact.output)


@contextlib.contextmanager
def recorded_ptxas(folder: Path, more: str = "") -> Iterator[Path]:
    """Kiln's assembler leaves its arguments (of all runs) and its output (of the last) in the file that this yields.
    ``more``: shell commands to run after it."""
    tool, log, arguments = folder / "ptxas", folder / "log", folder / "arguments"
    tool.write_text(
        f'#!/bin/sh\necho "$@" >> {arguments}\n'
        f'"{toolchain.ptxas().path}" "$@" > {log} 2>&1\ncode=$?\n{more}\ncat {log}\nexit $code\n'
    )
    tool.chmod(0o755)
    with knobs.scope(ptxas=str(tool)):
        yield log


def levels(folder: Path) -> list[str]:
    """The optimization levels of the assembler's runs."""
    return re.findall(r"-arch=sm_90a (-O\d) ", (folder / "arguments").read_text())


def test_long_kernels_are_assembled_by_a_lower_level(tmp_path: Path):
    """Unless they then spill, as they do with three groups of warps. Measured, TFLOPS of -O1 over -O3: 0.99 to 1.02;
    ptxas takes a fifth less time."""
    window, full = lambda: attention(*qkv(128), window=(1024, 0)), lambda: attention(*qkv(64))
    many = blank(4, 4096, 32, 64)
    both = lambda: attention(many, many, many, window=(1024, 1024))  # noqa: E731
    (long,), (short,), (three,) = (launches_of(call, of_target("sm_90a")) for call in (window, full, both))
    assert three.options["consumers"] == 3 and three.compile("sm_90a", to="ptx").output.count(";\n") > 2750
    with recorded_ptxas(tmp_path):
        long.compile("sm_90a")
        assert levels(tmp_path) == ["-O1"]
        short.compile("sm_90a")
        three.compile("sm_90a")
        assert levels(tmp_path) == ["-O1", "-O3", "-O3"]
    with recorded_ptxas(
        tmp_path, f'case "$*" in *-O1*) echo "8 bytes spill stores, 8 bytes spill loads" >> {tmp_path}/log;; esac'
    ):
        again = launches_of(window, of_target("sm_90a"))[0].compile("sm_90a")
    assert levels(tmp_path)[3:] == ["-O1", "-O3"]
    assert json.loads(again.metadata)["cuda"]["usage"]["spill_stores"] == 0


def test_other_kernels_are_not(tmp_path: Path):
    """However long: gradients of heads of 64 would take 10 % longer. What -O1 refuses, -O3 may take."""
    q, lse = blank(1, 16384, 16, 64), np.empty((1, 16, 16384), np.float32)
    terms = {"causal": True, "window": (1024, 0), "alibi_slopes": np.empty(16, np.float32)}
    call = lambda: attention_backward(q, q, q, q, lse, q, **terms)  # noqa: E731
    by_length = {launch.compile("sm_90a", to="ptx").output.count(";\n"): launch
                 for launch in launches_of(call, of_target("sm_90a"))}  # fmt: skip
    assert max(by_length) > 2750
    with recorded_ptxas(tmp_path):
        by_length[max(by_length)].compile("sm_90a")
    assert levels(tmp_path) == ["-O3"]
    (long,) = launches_of(lambda: attention(*qkv(128), window=(1024, 0)), of_target("sm_90a"))
    with recorded_ptxas(tmp_path, 'case "$*" in *-O1*) code=1;; esac'):
        long.compile("sm_90a")
    assert levels(tmp_path) == ["-O3", "-O1", "-O3"]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize(("size", "tokens", "causal", "registers"), CONFIGURATIONS)
def test_nothing_spills_and_no_product_is_serialised(size, tokens, causal, registers, dtype, tmp_path: Path):
    if dtype is not np.float16 and size not in (64, 128):
        pytest.skip("as float16")
    said, sass = compiled(size, tokens, causal, dtype, tmp_path)
    assert f"Used {registers} registers" in said
    assert "0 bytes spill stores, 0 bytes spill loads" in said
    # Notes: setmaxnreg ignored, products serialised.
    assert not re.search(r"\(C7\d+\)|warning", said), said
    assert not re.search(r"\bLDL|\bSTL", sass)
    assert re.search(r"UTMALDG\.4D", sass) and re.search(r"UTMASTG\.4D", sass)
    assert len(re.findall("USETMAXREG", sass)) == 2


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize(("size", "groups", "keys"), [(64, 3, 96), (64, 3, 128), (128, 2, 128)])
def test_softmax_overlaps_the_second_product(size, groups, keys, in_turn, tmp_path: Path):
    """In each loop the scores and the second product are started, but only the scores are waited for; their
    exponentials come before the wait for the product."""
    plan = AttentionPlan(64 * groups, keys, "attention", consumers=groups, parts=4, in_turn=in_turn)
    _, sass = compiled(size, 4096, True, np.float16, tmp_path, plan=plan)
    marks = [(kind, "0x0" in rest) for kind, rest in MARK.findall(sass)]
    loops = 0
    for i, (kind, everything) in enumerate(marks):
        if kind != "WARPGROUP.DEPBAR" or everything:
            continue
        last = next(j for j in range(i + 1, len(marks)) if marks[j][0] == "WARPGROUP.DEPBAR")
        between = [kind for kind, _ in marks[i + 1 : last]]
        assert marks[last][1] and between[-1] == "PMTRIG"
        # Each thread has a quarter of the scores of two rows; and their corrections, where the step has a mask.
        assert between.count("MUFU.EX2") == keys // 2 + 2 * loops
        behind = [kind for kind, _ in marks[last + 1 :]]
        assert "MUFU.EX2" not in behind[: behind.index("BRA")]
        begun = [kind for kind, _ in marks[i - 8 - size // 16 : i]]
        assert set(begun) <= {"HGMMA", "BRA"} and begun.count("HGMMA") >= 8
        loops += 1
    assert loops == 2


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize(("size", "groups", "keys"), [(64, 3, 128), (96, 3, 96), (128, 2, 128)])
def test_steps_without_a_mask_compute_no_maximum(size, groups, keys, in_turn, tmp_path: Path):
    """And correct nothing: warps vote whether the last maximum does. A warp that says no computes its scores, their
    maximum and weights once more, without meeting others."""
    plan = AttentionPlan(64 * groups, keys, "attention", consumers=groups, parts=4, in_turn=in_turn)
    said, sass = compiled(size, 4096, True, np.float16, tmp_path, plan=plan)
    assert "0 bytes spill stores, 0 bytes spill loads" in said
    begin = re.search(r"WARPGROUP\.DEPBAR\.LE\s+gsb0, 0x1", sass).end()
    end = re.compile(r"WARPGROUP\.DEPBAR\.LE\s+gsb0, 0x0").search(sass, begin).end()
    step, behind = sass[begin:end], sass[end : sass.index("HGMMA", end)]
    assert step.count("VOTE.ANY") == 1 and not re.search(r"\bSHFL|\bBAR\b|\bFMUL\b", step)
    assert len(re.findall(r"\bFMNMX\b", step)) <= 1  # of two rows' sums
    mending = behind[behind.index("HMMA") :]
    # Sixteen rows by eight keys by sixteen elements each.
    assert len(re.findall(r"\bHMMA\.16816\.F32\b", behind)) == keys // 8 * (size // 16)
    assert len(re.findall(r"\bFMNMX\b", mending)) >= keys // 2 and "SHFL" in mending
    assert not re.search(r"\bBAR\b|\bSYNCS", mending[: mending.index("F2FP")])


@pytest.mark.parametrize(("size", "around"), [(64, False), (128, True), (256, True)])
def test_warps_skip_rescaling_of_unchanged_sums(size, around, tmp_path: Path):
    """In steps with a mask, and in all steps of heads of 256."""
    _, sass = compiled(size, 4096, True, np.float16, tmp_path)
    steps = re.findall(r"PMTRIG.*?WARPGROUP\.DEPBAR\.LE\s+gsb0, 0x0(.*?)\bHGMMA", sass, re.DOTALL)
    for end in steps if size == 256 else steps[-1:]:
        vote, _, behind = end.partition("VOTE.ANY")
        assert bool(behind) == around
        assert len(re.findall(r"\bFMUL\b", behind.partition("BRA")[2] if around else vote)) >= size // 2


@pytest.mark.parametrize(("size", "tokens"), [(64, 1024), (64, 8192), (128, 1024)])
def test_in_place_there_is_no_schedule_and_nothing_spills(size, tokens, tmp_path: Path):
    """The loading role would prefetch queries that the other role overwrites."""
    said, sass = compiled(size, tokens, False, np.float16, tmp_path, in_place=True)
    assert "USETMAXREG" not in sass and "UTMALDG" not in sass
    assert "HGMMA" in sass or "HMMA" in sass
    assert "0 bytes spill stores, 0 bytes spill loads" in said
    assert not re.search(r"\(C7\d+\)|warning", said), said


# ---- other forms -----------------------------------------------------------------------------------------------------
@kiln.jit
def same_document(batch, head, q, kv, document):
    return (kl.load(document + q) == kl.load(document + kv)) & (kv <= q)


@kiln.jit
def falling(score, batch, head, q, kv):
    return score - 0.1 * (head + 1) * (q - kv).to(kl.float32)


def blank(*shape: int, dtype: object = np.float16) -> np.ndarray:
    return np.empty(shape, dtype)


def qkv(size: int = 128, tokens: int = 4096, v_size: int | None = None) -> tuple[np.ndarray, ...]:
    return blank(1, tokens, 4, size), blank(1, tokens, 2, size), blank(1, tokens, 2, v_size or size)


def masked(tokens: int = 4096) -> BlockMask:
    rows = tokens // 128
    counts, lists = blank(1, 1, rows, dtype=np.int32), blank(1, 1, rows, 2, rows, dtype=np.int32)
    document = blank(tokens, dtype=np.int32)
    return BlockMask((same_document,), (document,), (1, 1, tokens, tokens), (128, 128), counts, counts.copy(), lists)


SLOPES, STARTS = blank(4, dtype=np.float32), blank(5, dtype=np.int32)
FORMS = {
    "window": lambda: attention(*qkv(), window=(1024, 0)),
    "window of three groups": lambda: attention(*qkv(64, 8192), window=(8192, 256)),
    "softcap": lambda: attention(*qkv(), softcap=30.0),
    "sinks": lambda: attention(*qkv(), sinks=SLOPES, causal=True),
    "alibi": lambda: attention(*qkv(), alibi_slopes=SLOPES, causal=True),
    "alibi of three groups": lambda: attention(*qkv(64, 16384), alibi_slopes=SLOPES, causal=True),
    "alibi of 256": lambda: attention(*qkv(256), alibi_slopes=SLOPES, causal=True),
    "bias": lambda: attention(*qkv(), bias=blank(1, 4, 4096, 4096)),
    "bias float32": lambda: attention(*qkv(64), bias=blank(1, 1, 4096, 4096, dtype=np.float32)),
    "bias of rows": lambda: attention(*qkv(), bias=blank(1, 4, 4096, 1)),
    "bias of keys": lambda: attention(*qkv(tokens=5000), bias=blank(1, 1, 1, 5000)),
    "heads of 256": lambda: attention(*qkv(256), causal=True),
    "heads of 192 and 128": lambda: attention(*qkv(192, v_size=128), causal=True),
    "varlen": lambda: attention_varlen(*(x[0] for x in qkv()), STARTS, STARTS, 4096, 4096, causal=True),
    "score_mod": lambda: flex_attention(*(x.swapaxes(1, 2)[:, :2] for x in qkv(tokens=8192)), falling),
    "block_mask": lambda: flex_attention(*(x.swapaxes(1, 2)[:, :2] for x in qkv()), falling, masked()),
}


@pytest.mark.parametrize(
    ("form", "loops"),
    [("sinks", 2), ("window", 2), ("alibi", 2), ("alibi of 256", 1), ("heads of 256", 1), ("heads of 192 and 128", 2)],
)
def test_masked_steps_have_their_own_loop_unless_heads_are_wide(form, loops, tmp_path: Path):
    """Each loop waits once for the scores, with the second product in flight."""
    _, sass = assembled(FORMS[form], tmp_path)
    assert len(re.findall(r"WARPGROUP\.DEPBAR\.LE\s+gsb0, 0x1", sass)) == loops


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize(("slopes", "operations"), [(None, 2), (SLOPES, 3)], ids=["plain", "slopes"])
def test_causal_slopes_take_one_more_operation_per_score(size, slopes, operations, tmp_path: Path):
    """In addition to the exponent's multiply-add and the row's sum; one number per step is converted, not a tile."""
    _, sass = assembled(lambda: attention(*qkv(size), alibi_slopes=slopes, causal=True), tmp_path)
    begin = re.search(r"WARPGROUP\.DEPBAR\.LE\s+gsb0, 0x1", sass).end()
    step = sass[begin : sass.index("PMTRIG", begin)]
    scores = len(re.findall(r"MUFU\.EX2", step)) - 2  # and the corrections of two rows
    assert scores >= 40 and len(re.findall("I2F", step)) <= 1
    assert 0 <= len(re.findall(r"\b(?:FFMA|FMUL|FADD)\b", step)) - operations * scores <= 16


def test_a_causal_window_takes_one_select_per_score(tmp_path: Path):
    """Both ends of the window take a single comparison: masked steps cost the same as causal ones."""
    choices = []
    for options in ({"causal": True}, {"window": (1024, 0)}):
        _, sass = assembled(lambda options=options: attention(*qkv(), **options), tmp_path)
        choices.append([len(re.findall(rf"\b{name}\b", sass)) for name in ("FSEL", "ISETP")])
    (causal, _), (window, comparisons) = choices
    assert 64 <= causal <= window <= causal + 8 and comparisons <= causal + 16


def test_an_elementwise_bias_has_no_schedule(tmp_path: Path):
    """Each thread would hold an address for each of its scores."""
    said, sass = assembled(lambda: attention(*qkv(tokens=1001), bias=blank(1, 1, 1001, 1001)), tmp_path, None)
    assert "USETMAXREG" not in sass and "0 bytes spill stores, 0 bytes spill loads" in said


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_schedule(form, tmp_path: Path):
    said, sass = assembled(FORMS[form], tmp_path)
    assert "0 bytes spill stores, 0 bytes spill loads" in said
    assert not re.search(r"\(C7\d+\)|warning", said), said
    assert not re.search(r"\bLDL|\bSTL", sass)
    assert re.search(r"UTMALDG\.[45]D", sass) and re.search(r"UTMASTG\.[45]D", sass)
    assert len(re.findall("USETMAXREG", sass)) == 2


# ---- keys shared among programs --------------------------------------------------------------------------------------
TWO_GROUPS = AttentionPlan(128, 128, "attention", parts=4, splits=4)
ONE_GROUP = AttentionPlan(64, 128, "attention", consumers=1, parts=4, splits=4)
THREE_GROUPS = AttentionPlan(192, 128, "attention", consumers=3, parts=4, splits=4, guess=False)
PLANS = [
    (64, TWO_GROUPS),
    (64, ONE_GROUP),
    (64, THREE_GROUPS),
    (128, TWO_GROUPS),
    (128, ONE_GROUP),
    (256, replace(TWO_GROUPS, n=64)),
]
TERMS = {
    "none": {},
    "sinks": {"sinks": SLOPES},
    "softcap": {"softcap": 30.0},
    "slopes": {"alibi_slopes": SLOPES},
    "lse": {"return_lse": True},
    "window": {"window": (1024, 0)},
}


def shared_and_combined(said: str, sass: str, size: int) -> None:
    """The schedule is as without shares, and each thread stores, and reads back, the sums that it holds: a row of eight
    columns is 64 bytes of four threads."""
    assert "0 bytes spill stores, 0 bytes spill loads" in said
    assert not re.search(r"\(C7\d+\)|warning", said), said
    assert not re.search(r"\bLDL|\bSTL", sass)
    assert "HGMMA" in sass and re.search(r"UTMALDG\.4D", sass) and re.search(r"UTMASTG\.4D", sass)
    assert sass.count("ATOMG") == 1
    at_once = max(1, 256 // size)
    assert len(re.findall(r"STG\.E\.64", sass)) == size // 4
    assert len(re.findall(r"LDG\.E\.64", sass)) == at_once * size // 4


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("size", "plan"), PLANS)
def test_shares_keep_the_schedule(size, plan, causal, tmp_path: Path):
    call = lambda: attention(*qkv(size, 2048), causal=causal, plan=plan)  # noqa: E731
    said, sass = assembled(call, tmp_path, "attention")
    shared_and_combined(said, sass, size)
    assert len(re.findall("USETMAXREG", sass)) == (0 if plan.consumers == 1 else 2)


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("plan", [TWO_GROUPS, ONE_GROUP], ids=["two groups", "one"])
def test_shares_of_terms_keep_the_schedule(plan, terms, tmp_path: Path):
    causal = {} if terms == "window" else {"causal": True}
    said, sass = assembled(lambda: attention(*qkv(64, 2048), plan=plan, **causal, **TERMS[terms]), tmp_path)
    shared_and_combined(said, sass, 64)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "tokens"), [(1, 512), (1, 2048), (2, 1024), (4, 2048)])
def test_few_programs_have_the_schedule(heads, tokens, causal, tmp_path: Path):
    """As the default chooses it: shares of keys, programs of one group, or both."""
    plan = prefill_plan(tokens, tokens, (64, 64), 2, True, causal, DEFAULT_GPU, heads=heads)
    assert plan.splits > 1 or plan.consumers == 1
    q = blank(1, tokens, heads, 64)
    said, sass = assembled(lambda: attention(q, blank(*q.shape), blank(*q.shape), causal=causal), tmp_path)
    assert "0 bytes spill stores, 0 bytes spill loads" in said and "HGMMA" in sass
    assert not re.search(r"\(C7\d+\)|warning", said), said
    assert sass.count("ATOMG") == (plan.splits > 1)


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"])
def test_shares_without_roles(target):
    plan = AttentionPlan(64, 64, splits=4)
    (launch,) = launches_of(lambda: attention(*qkv(64, 2048), causal=True, plan=plan), of_target(target))
    assert launch.grid == (32 * 4, 4)
    artifact = launch.compile(target)
    usage = json.loads(artifact.metadata)["cuda"]["usage"]
    assert usage["spill_stores"] == usage["spill_loads"] == 0


# ---- groups that issue in turn ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("size", "groups"), [(64, 3), (128, 2), (256, 2)])
def test_turns_keep_products_in_flight(size, groups, causal, tmp_path: Path):
    """ptxas neither serialises the products that are issued between two barriers, nor moves them across."""
    keys = 64 if size == 256 else 128
    plan = AttentionPlan(64 * groups, keys, "attention", consumers=groups, parts=4, in_turn=True)
    said, sass = assembled(lambda: attention(*qkv(size, 2048), causal=causal, plan=plan), tmp_path, "pingpong")
    assert "0 bytes spill stores, 0 bytes spill loads" in said
    assert not re.search(r"\(C7\d+\)|warning", said), said
    signs = {"HGMMA": "m", "BAR.SYNC": "(", "BAR.ARV": ")"}
    order = "".join(signs[name] for name in re.findall(r"\b(HGMMA|BAR\.SYNC|BAR\.ARV)\b", sass))
    products = size // 16 + keys // 16
    loops = re.findall(r"\((m+)\)", order)
    # Without a mask and, in causal attention, with one: otherwise the first step has it.
    assert loops == ["m" * products] * (1 + causal)


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("options", [{}, {"window": (1000, 0)}, {"softcap": 5.0}], ids=["plain", "window", "softcap"])
def test_biases_of_16_bits_have_the_schedule_and_spill_nothing(size, options, tmp_path: Path):
    q, bias = np.empty((4, 4096, 16, size), np.float16), np.empty((1, 16, 4096, 4096), np.float16)
    call = lambda: attention(q, np.empty_like(q), np.empty_like(q), causal=True, bias=bias, **options)  # noqa: E731
    said, _ = assembled(call, tmp_path, "attention")
    assert "0 bytes spill stores, 0 bytes spill loads" in said
