"""Products of the schedule `simple`: what ptxas makes of async copies followed by mma.sync; and the fallback when a
schedule that nobody asked for runs out of registers."""

from __future__ import annotations

import json
import re

import kiln
import kiln.language as kl
import pytest
from kiln import _kiln, compiler, errors, frontend, toolchain
from kiln.cli.signature import parse_signature

ROWS = [row["name"] for row in _kiln.targets() if row["kind"] == "cuda"]
NUMBERS = "m=i32:16, n=i32:16, k=i32:16"


@kiln.jit
def product(a, b, c, m, n, k, M: kl.constexpr, N: kl.constexpr, K: kl.constexpr):
    rows = kl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
    columns = kl.make_tensor_descriptor(b, [k, n], [n, 1], [K, N])
    out = kl.make_tensor_descriptor(c, [m, n], [n, 1], [M, N])
    row, column = kl.program_id(0) * M, kl.program_id(1) * N
    total = kl.zeros((M, N), kl.float32)
    for i in range(0, k, K):
        total = kl.dot(rows.load([row, i]), columns.load([i, column]), total)
    out.store([row, column], total.to(c.dtype.element_ty))


@kiln.jit
def to_rows_of_any_length(a, b, c, stride, m, n, k, M: kl.constexpr, N: kl.constexpr, K: kl.constexpr):
    """The rows of the result are not multiples of 16 bytes: the copy engine cannot store it."""
    rows = kl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
    columns = kl.make_tensor_descriptor(b, [n, k], [k, 1], [N, K])
    row, column = kl.program_id(0) * M, kl.program_id(1) * N
    total = kl.zeros((M, N), kl.float32)
    for i in range(0, k, K):
        total = kl.dot(rows.load([row, i]), columns.load([column, i]).T, total)
    i, j = row + kl.arange(0, M)[:, None], column + kl.arange(0, N)[None, :]
    kl.store(c + i * stride + j, total, mask=(i < m) & (j < n))


def compiled(kernel, signature, target, to="cubin", **options):
    module = frontend.emit(kernel, parse_signature(signature, kernel), kernel.__name__, disjoint=[True] * 3)
    return compiler.compile(module, {"target": target, "to": to, **options})


def loop_of(sass: str) -> str:
    """The loop that multiplies."""
    for start in re.finditer(r"^(\.L_x_\d+):", sass, re.MULTILINE):
        end = re.search(rf"BRA\b.*`\({re.escape(start[1])}\)", sass[start.end() :])
        text = sass[start.end() : start.end() + end.end()] if end else ""
        if "HMMA" in text and "LDGSTS" in text and not re.search(r"^\.L_x_\d+:", text, re.MULTILINE):
            return text
    raise AssertionError("no loop multiplies and copies")


@pytest.mark.parametrize("tile, warps", [((128, 128, 32), 4), ((128, 128, 64), 8), ((64, 64, 64), 4)], ids=str)
@pytest.mark.parametrize("row", [row for row in ROWS if row != "sm_90a"])
def test_copies_and_products_take_turns(row, tile, warps):
    m, n, k = tile
    signature = f"a=*fp16:16, b=*fp16:16, c=*fp16:16, {NUMBERS}, M={m}, N={n}, K={k}"
    options = {"num_warps": warps, "schedule": "simple"}
    artifact = compiled(product, signature, row, **options)
    usage = json.loads(artifact.metadata)["cuda"]["usage"]
    assert usage["spill_stores"] + usage["spill_loads"] == 0, usage
    if toolchain.nvdisasm() is None:
        pytest.skip("no nvdisasm (package nvidia-cuda-nvdisasm)")
    loop = loop_of(artifact.text("sass"))
    assert not re.search(r"\bLDL|\bSTL|\bLDG\b|\bLDS R\d", loop)
    # Each thread copies its share of the blocks, 16 bytes at a time; each warp loads its share of the fragments, four
    # matrices at a time.
    assert len(re.findall(r"LDGSTS\.E\.BYPASS\S*\.128", loop)) == (m + n) * k * 2 // 16 // (32 * warps)
    assert len(re.findall(r"HMMA\.16816\.F32", loop)) == m * n * k // (16 * 8 * 16) // warps
    assert set(re.findall(r"LDSM\S*", loop)) == {"LDSM.16.M88.4", "LDSM.16.MT88.4"}
    assert len(re.findall(r"BAR\.SYNC", loop)) == 1 and len(re.findall(r"\bDEPBAR", loop)) == 1
    # Fragments of the next step along K are loaded while those of this step are multiplied.
    order = re.findall(r"LDSM|HMMA", loop)
    assert "LDSM" in order[order.index("HMMA") :]


@pytest.mark.parametrize("stages", [2, 4])
def test_groups_multiply_from_slots(stages):
    """If four warps together read shared memory, they read what was copied, after a fence."""
    signature = f"a=*fp16:16, b=*fp16:16, c=*fp16:16, {NUMBERS}, M=128, N=128, K=64"
    artifact = compiled(product, signature, "sm_90a", schedule="simple", stages=stages, num_warps=8)
    cuda = json.loads(artifact.metadata)["cuda"]
    assert cuda["usage"]["spill_stores"] + cuda["usage"]["spill_loads"] == 0
    ptx = compiled(product, signature, "sm_90a", to="ptx", schedule="simple", stages=stages, num_warps=8).output
    begin = ptx.index("wgmma.mma_async")
    assert "ldmatrix" not in ptx[:begin] and "mma.sync" not in ptx
    assert re.search(rf"cp\.async\.wait_group {stages - 2};.*fence\.proxy\.async\.shared::cta;.*(bar|barrier)\S*sync",
                     ptx[:begin], re.S)  # fmt: skip


SPILLING = f"a=*fp16:16, b=*fp16:16, c=*fp16, stride=i32, {NUMBERS}, M=128, N=192, K=64"


def test_a_default_schedule_is_dropped_if_its_role_spills():
    with pytest.raises(errors.ResourceError, match="beyond the registers of its role"):
        compiled(to_rows_of_any_length, SPILLING, "sm_90a", num_warps=4, schedule="cooperative")
    artifact = compiled(to_rows_of_any_length, SPILLING, "sm_90a", num_warps=4)
    cuda = json.loads(artifact.metadata)["cuda"]
    assert not cuda.get("roles")
    # Of the alternatives, the one that spills less.
    spilt = [cuda["usage"]["spill_stores"]]
    for schedule in ("simple", "none"):
        simpler = compiled(to_rows_of_any_length, SPILLING, "sm_90a", num_warps=4, schedule=schedule)
        spilt.append(json.loads(simpler.metadata)["cuda"]["usage"]["spill_stores"])
    assert spilt[0] == min(spilt[1:]), spilt
