"""Every kernel of the library assembles for every GPU of the target table without a spill, or is rejected by name.

Plans are made for a machine of that row. Register counts are checked against what the block may use, so that a launch
cannot fail because of them.
"""

from __future__ import annotations

import importlib
import json
import re

import code_of_ptx as code
import pytest
from kiln import _kiln, errors, toolchain
from kiln.kernels import FAMILIES
from kiln.kernels.case import blank
from kiln.kernels.gemm import linear
from kiln.kernels.launches import launches_of
from kiln.kernels.machine import of_target
from kiln.kernels.norm import rms_norm
from kiln.kernels.softmax import softmax

ROWS = [row["name"] for row in _kiln.targets() if row["kind"] == "cuda"]
# Data passes through the registers once, in wide accesses: these kernels cost their memory traffic.
STREAMING = ("elementwise", "softmax", "norm", "activation", "rope", "optimizer")


def calls(family: str):
    return importlib.import_module(f"kiln.kernels.{family}.cases").calls()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("row", ROWS)
def test_every_kernel_assembles_without_spills(row: str, family: str):
    limits = _kiln.target(row)["limits"]
    problems = []
    for name, run in calls(family):
        for launch in launches_of(run, of_target(row)):
            cuda = json.loads(launch.compile(row).metadata)["cuda"]
            usage, what = cuda["usage"], f"{name} ({launch.kernel.__name__})"
            assert cuda["form"] == "cubin"
            spilt = usage["spill_stores"] + usage["spill_loads"]
            if spilt:
                problems.append(f"{what}: {spilt} bytes of spills with {usage['registers']} registers")
            # Registers are allocated in groups of eight per thread.
            if -(-usage["registers"] // 8) * 8 * cuda["threads"] > limits["registers_per_processor"]:
                problems.append(f"{what}: {usage['registers']} registers for {cuda['threads']} threads")
            if cuda["shared_bytes"] + usage["shared"] > limits["max_shared_bytes"]:
                problems.append(f"{what}: {cuda['shared_bytes']} bytes of shared memory")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("family", STREAMING)
def test_long_rows_move_in_wide_pieces(family: str):
    """For lengths of many full accesses, accesses of 16 bytes move nearly all bytes."""
    checked = 0
    for name, run in calls(family):
        if not any(size in name for size in ("4096×4096", "16384×4096", "2048×16384", "16777216", "8192×14336")):
            continue
        for row in ("sm_80", "sm_90a"):
            for launch in launches_of(run, of_target(row)):
                ptx = launch.compile(row, to="ptx").output
                # Evict-first streams suffer from what other kernels left in the L2 (kernels/README.md).
                assert "evict_first" not in ptx, f"{name} for {row} has streams that give way"
                widths = code.widths(ptx)
                for kind, counts in widths.items():
                    # Tiles of different types share one layout: the narrower type then moves in accesses of 8 bytes.
                    least = 8 if "/" in name else 16
                    wide = code.share(counts, least)
                    assert wide >= 0.9, f"{name} for {row}: {kind} by bytes of one access: {counts}"
                checked += 1
    assert checked or family in ("rope", "optimizer"), "no call of this family has a long row"


@pytest.mark.parametrize("m, registers", [(1, 40), (2, 56)])
@pytest.mark.parametrize("n, k", [(28672, 4096), (4096, 14336), (6144, 4096)])
def test_streamed_weights_fill_a_multiprocessor(m: int, n: int, k: int, registers: int):
    """No spills, accesses of 16 bytes, and few enough registers for the threads that the bytes in flight need: 6 to 12
    blocks."""
    x, weights = blank((m, k), "float32"), blank((n, k), "float32")
    (launch,) = launches_of(lambda: linear(x, weights), of_target("sm_90a"))
    assert launch.kernel.__name__ == "gemv_kernel"
    cuda = json.loads(launch.compile("sm_90a").metadata)["cuda"]
    assert cuda["usage"]["spill_stores"] == 0 and cuda["usage"]["registers"] <= registers
    assert code.share(code.widths(launch.compile("sm_90a", to="ptx").output)["ld"], 16) == 1.0


@pytest.mark.parametrize("row", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("m", [1, 3, 8])
def test_few_rows_are_multiplied_while_the_next_step_arrives(m: int, row: str):
    """Between its first products and its last ones, the loop asks for the elements of a later step; what a thread reads
    is what it multiplies, so nothing crosses threads before the sums do."""
    x, weights = blank((m, 14336), "float16"), blank((4096, 14336), "float16")
    (launch,) = launches_of(lambda: linear(x, weights), of_target(row))
    assert launch.kernel.__name__ == "direct_kernel"
    artifact = launch.compile(row)
    usage = json.loads(artifact.metadata)["cuda"]["usage"]
    assert usage["spill_stores"] + usage["spill_loads"] == 0 and usage["registers"] <= 168
    assert code.share(code.widths(launch.compile(row, to="ptx").output)["ld"], 16) == 1.0
    sass = toolchain.disassemble(artifact.output)
    last = [at.start() for at in re.finditer(r"\bHMMA\b", sass)][-1]
    assert not re.search(r"\b(SHFL|STS|LDS|LDSM|MOVM|BAR)\b", sass[:last]), "an exchange between threads"
    loops = [body for body in re.findall(r"^(\.L_x_\d+):(.*?)BRA `\(\1\)", sass, re.M | re.S) if "HMMA" in body[1]]
    assert len(loops) == 1
    kinds = re.findall(r"\b(LDG|HMMA)\b", loops[0][1])
    first = kinds.index("LDG")
    assert 0 < kinds[:first].count("HMMA") <= kinds.count("HMMA") // 2, kinds
    assert kinds[first:].count("HMMA") >= kinds.count("HMMA") // 2, "a step's products come after reads of a later one"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "family, rows, n, blocks",
    [("norm", 4096, 131072, 3), ("norm", 4096, 32768, 6), ("softmax", 8192, 32768, 8), ("softmax", 2048, 131072, 4)],
)
def test_wide_rows_leave_room_for_more_blocks(family: str, rows: int, n: int, blocks: int, dtype: str):
    """A row waits for its statistics in its own type, 64 elements per thread; in a norm, together with its weights."""
    x = blank((rows, n), dtype)
    weight = blank((n,), dtype)
    (launch,) = launches_of(lambda: rms_norm(x, weight) if family == "norm" else softmax(x), of_target("sm_90a"))
    artifact = launch.compile("sm_90a")
    cuda = json.loads(artifact.metadata)["cuda"]
    assert n == 64 * cuda["threads"] * launch.options["cluster"]
    usage = cuda["usage"]
    assert usage["spill_stores"] + usage["spill_loads"] == 0
    # Registers are allocated in groups of eight per thread.
    share = _kiln.target("sm_90a")["limits"]["registers_per_processor"] // (-(-usage["registers"] // 8) * 8)
    assert share // cuda["threads"] >= blocks, usage


def test_a_cluster_is_refused_where_there_is_none():
    """An H200's plan on earlier machines: the plan is valid but does not fit, and the error names the option that is
    too large."""
    refused = 0
    for _, run in calls("norm"):
        for launch in launches_of(run, of_target("sm_90a")):
            if launch.options.get("cluster", 1) == 1:
                continue
            with pytest.raises(errors.ResourceError, match="blocks per cluster on sm_80") as caught:
                launch.compile("sm_80")
            assert (caught.value.available, caught.value.option) == (1, "cluster")
            assert caught.value.required == launch.options["cluster"]
            refused += 1
    assert refused
