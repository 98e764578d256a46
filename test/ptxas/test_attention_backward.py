"""The schedule of attention's gradients after ptxas: no spills, no serialised products, work overlaps them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import kiln
import ml_dtypes
import numpy as np
import pytest
from kiln import toolchain
from kiln.errors import ResourceError
from kiln.kernels.attention import attention_backward, create_block_mask, flex_attention_backward
from kiln.kernels.attention.backward_configs import backward_plan
from kiln.kernels.launches import Launch, launches_of
from kiln.kernels.machine import of_target

MARK = re.compile(r"^\s*(?:/\*[0-9a-f]+\*/)?\s*(?:@!?U?P\w+\s+)?(HGMMA|WARPGROUP\.DEPBAR|MUFU\.EX2)\b(.*)",
                  re.MULTILINE)  # fmt: skip
TOKENS = 1024


def launches(
    size: int, target: str = "sm_90a", tokens: int = TOKENS, apart: bool = False, **options: Any
) -> dict[str, Launch]:
    """Launches by kernel name, for heads of which two share keys. ``apart``: plain gradients with dq by its own
    kernel."""
    if apart:
        shape = tokens, tokens, (size, size), 2, True, options.get("causal", False)
        options["plan"] = backward_plan(*shape, of_target(target), along=None, heads=4)
    q, k = np.empty((1, tokens, 4, size), np.float16), np.empty((1, tokens, 2, size), np.float16)
    lse = np.empty((1, 4, tokens), np.float32)
    found = launches_of(
        lambda: attention_backward(q, k, np.empty_like(k), np.empty_like(q), lse, np.empty_like(q), **options),
        of_target(target),
    )
    return {launch.kernel.__name__: launch for launch in found}


def compiled(launch: Launch, target: str, folder: Path) -> tuple[str, str]:
    """The output of ptxas, and the SASS."""
    source, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_text(launch.compile(target, to="ptx").output)
    command = [toolchain.ptxas().path, f"-arch={target}", "-v", source, "-o", cubin]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    if toolchain.nvdisasm() is None:
        pytest.skip("no nvdisasm (package nvidia-cuda-nvdisasm)")
    return said.stdout + said.stderr, toolchain.disassemble(cubin.read_bytes())


def loops_of(sass: str) -> list[str]:
    """The bodies of the innermost loops that multiply, by their conditional branches back."""
    places = {found[1]: found.start() for found in re.finditer(r"^(\.L_x_\d+):", sass, re.MULTILINE)}
    back = re.finditer(r"@!?U?P\d+\s+BRA[^;]*?`\((\.L_x_\d+)\)", sass)
    bodies = [sass[places[found[1]] : found.start()] for found in back if places[found[1]] < found.start()]
    bodies = [body for body in bodies if "HGMMA" in body]
    return [body for body in bodies if not any(other != body and other in body for other in bodies)]


@pytest.mark.parametrize("kernel", ["keys_kernel", "queries_kernel"])
@pytest.mark.parametrize(
    ("size", "options"),
    [(64, {"apart": True}), (64, {"apart": True, "causal": True}), (80, {"causal": True}), (128, {"apart": True}),
     (128, {"apart": True, "causal": True}), (128, {"softcap": 20.0, "causal": True})],
    ids=str,
)  # fmt: skip
def test_nothing_spills_and_no_product_is_serialised(size, options, kernel, tmp_path: Path):
    launch = launches(size, **options)[kernel]
    assert launch.options["schedule"] == "streams"
    said, sass = compiled(launch, "sm_90a", tmp_path)
    # Sums of 160 keys per step leave a few registers too few for a program's position, which is kept in memory.
    few = 32 if (size, kernel) == (64, "queries_kernel") else 0
    assert "Used 168 registers" in said and max(map(int, re.findall(r"(\d+) bytes spill", said))) <= few
    # Notes: setmaxnreg ignored, products serialised.
    assert not re.search(r"\(C7\d+\)|warning", said), said
    assert few or not re.search(r"\bLDL|\bSTL", sass)
    assert re.search(r"UTMALDG\.4D", sass) and re.search(r"UTMASTG\.4D", sass)
    assert len(re.findall("USETMAXREG", sass)) == 2


@pytest.mark.parametrize("kernel", ["keys_kernel", "queries_kernel"])
def test_three_groups_of_long_heads(kernel, tmp_path: Path):
    launch = launches(64, tokens=16384)[kernel]
    assert launch.options["consumers"] == 3
    said, sass = compiled(launch, "sm_90a", tmp_path)
    assert "Used 128 registers" in said and max(map(int, re.findall(r"(\d+) bytes spill", said))) == 0
    assert not re.search(r"\(C7\d+\)|warning", said), said
    assert re.search(r"UTMALDG\.4D", sass) and re.search(r"UTMASTG\.4D", sass)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("in_turns", [False, True])
@pytest.mark.parametrize("size", [64, 128])
def test_five_products(size, causal, in_turns, tmp_path: Path):
    """Groups share dS by slots, and make dq's part of a step in the next one; a warp of its own has the copy engine add
    it, as one box, during dk's product and the next step's scores; in turns it polls by loads, and tells the next
    program by a store."""
    shape = TOKENS, TOKENS, (size, size), 2, True, causal
    plan = backward_plan(*shape, of_target("sm_90a"), along="in turns" if in_turns else "in any order", heads=1024)
    assert (plan.m, plan.rotated, plan.in_turns) == (128 if size == 64 else 64, True, in_turns)
    found = launches(size, deterministic=in_turns, causal=causal, plan=plan)
    assert list(found) == ["rows_kernel", "keys_kernel", "round_kernel"]
    said, sass = compiled(found["keys_kernel"], "sm_90a", tmp_path)
    assert "Used 168 registers" in said and max(map(int, re.findall(r"(\d+) bytes spill", said))) == 0
    assert not re.search(r"\(C7\d+\)|warning", said), said
    # Heads of 64 have a loop for steps that mask; wider ones have a branch.
    loops = 2 if causal and size == 64 else 1
    assert len(loops_of(sass)) == loops
    assert not any(re.search(r"\b(LDL|STL)\b", body) for body in loops_of(sass))
    assert len(re.findall(r"UTMAREDG\.2D\.ADD", sass)) == loops and not re.search(r"\bRED\.E|ATOM", sass)
    assert in_turns == bool(re.search(r"LD\.E\.STRONG\.GPU|LDG\.E\.STRONG\.GPU", sass))
    # In the order in which tensor cores hold a part, a thread stores 16 bytes at a time.
    assert len(re.findall(r"\bSTS\.128\b", sass)) == 8 * (loops + 1) and "STS.64" not in sass
    # The multiply role comes after the two that copy.
    marks = re.findall(r"\b(HGMMA|WARPGROUP\.DEPBAR|BAR\.SYNC|STS\.128|SYNCS\.ARRIVE)\b(.*)", sass)
    marks = marks[next(i for i, mark in enumerate(marks) if mark[0] == "HGMMA") :]
    kinds = [kind for kind, _ in marks]
    # Scores and dP have the depth of a head, dv and dk that of a step's queries, dq that of the keys. A step is written
    # once for each loop. Where it is rotated, the first step's scores come in front of it, and behind the last step the
    # part that would be the next one's.
    scores, sums = size // 16, plan.m // 16
    assert kinds.count("HGMMA") == loops * (2 * scores + 2 * sums + 8) + scores + 8
    # From the wait for dq's part, which leaves dk's product in flight, to the next wait: the part is stored, the next
    # step's scores begin, and the slot is committed. Groups meet nowhere between the first product and the last.
    assert "BAR.SYNC" not in kinds[: len(kinds) - kinds[::-1].index("HGMMA")]
    of_loop = 8 * (loops - 1)
    stores = [i for i, kind in enumerate(kinds) if kind == "STS.128"][of_loop : of_loop + 8]
    wait = max(i for i in range(stores[0]) if kinds[i] == "WARPGROUP.DEPBAR")
    end = next(i for i in range(stores[-1], len(kinds)) if kinds[i] == "WARPGROUP.DEPBAR")
    assert "0x0" not in marks[wait][1]
    assert kinds[wait + 1 : end] == ["SYNCS.ARRIVE"] + ["STS.128"] * 8 + ["HGMMA"] * scores + ["SYNCS.ARRIVE"]


@kiln.jit
def every_third(batch, head, query, key):
    return ((query - key) % 7 < 3) & (key <= query)


@pytest.mark.parametrize("size", [64, 128])
def test_lists_of_blocks_keep_64_queries_per_step(size):
    """Walking them takes registers: no first plan fails to compile."""
    q, lse = np.zeros((1, 2, 512, size), np.float16), np.zeros((1, 2, 512), np.float32)
    mask = create_block_mask(every_third, None, None, 512, 512)
    found = launches_of(
        lambda: flex_attention_backward(q, q, q, q, lse, q, block_mask=mask, deterministic=False), of_target("sm_90a")
    )
    (launch,) = (launch for launch in found if launch.kernel.__name__ == "keys_kernel")
    assert launch.options["schedule"] == "rotated"
    launch.compile("sm_90a")


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize(
    ("window", "deterministic", "kernels"),
    [((512, 0), False, 1), ((512, 0), True, 1), ((511, 0), False, 2), ((1024, 1024), False, 1),
     ((1024, 1024), True, 2), ((1024, -1), False, 1)],
    ids=str,
)  # fmt: skip
def test_first_plans_of_windows_fit(size, window, deterministic, kernels):
    """Long ones that end at the query make dq along with dk, in any order others, too."""
    options = {"window": window, "causal": not window[1], "deterministic": deterministic}
    found = launches(size, tokens=32768, **options)  # enough programs for turns
    walking = [found[name] for name in ("keys_kernel", "queries_kernel") if name in found]
    assert len(walking) == kernels
    for launch in walking:
        launch.compile("sm_90a")


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("bias", [False, True])
def test_spills_stay_within_the_allowance(size, bias):
    """Three loops over queries, and what a program needs at its end in addition to 192 registers of sums and scores."""
    options = {"window": (100, 0), "causal": True, "alibi_slopes": np.empty(4, np.float32)}
    if bias:
        options["bias"] = np.empty((1, 4, TOKENS, TOKENS), np.float16)
    for kernel in ("keys_kernel", "queries_kernel"):
        launches(size, **options)[kernel].compile("sm_90a")


@pytest.mark.parametrize("size", [64, 128])
def test_work_overlaps_products(size, tmp_path: Path):
    """A step starts two products and waits for the first. The exponentials come before the wait for the second, after
    which dv's product starts; at the end nothing is in flight."""
    _, sass = compiled(launches(size, apart=True)["keys_kernel"], "sm_90a", tmp_path)
    marks = [(kind, "0x0" in rest) for kind, rest in MARK.findall(sass)]
    kinds = [kind for kind, _ in marks]
    waits = [i for i, kind in enumerate(kinds) if kind == "WARPGROUP.DEPBAR"]
    first, second, *last = waits
    assert [marks[i][1] for i in waits] == [False, False, *[True] * len(last)] and last
    assert kinds[:first] == ["HGMMA"] * (2 * size // 16)
    queries = 2 * kinds[first:second].count("MUFU.EX2")  # of 64 keys, by 128 threads
    assert queries == (96 if size == 64 else 64)
    assert kinds[first:second].index("HGMMA") > 0 and "MUFU.EX2" not in kinds[second:]
    assert kinds[first:second].count("HGMMA") == kinds[second : last[0]].count("HGMMA") == queries // 16


@pytest.mark.parametrize("kernel", ["keys_kernel", "queries_kernel"])
@pytest.mark.parametrize("size", [64, 128])
def test_warps_alone_spill_hardly_anything(size, kernel, tmp_path: Path):
    said, sass = compiled(launches(size, "sm_80", causal=True)[kernel], "sm_80", tmp_path)
    assert "HMMA" in sass
    assert max(map(int, re.findall(r"(\d+) bytes spill", said))) <= 16, said


def test_products_without_registers_are_out_of_a_resource():
    """ptxas would serialise them: no fault of Kiln, and the library takes a plan without roles (Backward.launch)."""
    q, k = np.zeros((2, 777, 3, 96), ml_dtypes.bfloat16), np.zeros((2, 1, 1, 96), ml_dtypes.bfloat16)
    lse, sinks = np.zeros((2, 3, 777), np.float32), np.zeros(3, np.float32)
    out, dout = np.empty_like(q), np.empty_like(q)
    found = launches_of(
        lambda: attention_backward(q, k, np.empty_like(k), out, lse, dout, window=(1000, 5), sinks=sinks),
        of_target("sm_90a"),
    )
    (launch,) = (launch for launch in found if launch.kernel.__name__ == "queries_kernel")
    assert launch.options["schedule"] == "streams"
    with pytest.raises(ResourceError, match="registers per thread for products that go on beside each other"):
        launch.compile("sm_90a")
