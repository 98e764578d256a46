"""Decoding's rings as GPU code: keys and values arrive in asynchronous copies of 16 bytes, whatever the pages."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import code_of_ptx as code
import pytest
from kiln.kernels.attention import decode_attention
from kiln.kernels.attention.decode_configs import DecodePlan, decode_plan
from kiln.kernels.case import blank
from kiln.kernels.launches import launches_of
from kiln.kernels.machine import of_target

TOKENS = 4096


def ring_of(row: str, page_size: int, size: int, batch: int = 1, **changes) -> tuple[DecodePlan, object]:
    """The default plan of a paged cache, 32 heads over 8, with changes, and its code as PTX."""
    pages = -(-TOKENS // page_size)
    q, k, v = blank((batch, 32, size), "float16"), *(blank((8, page_size, 8, size), "float16") for _ in range(2))
    table, lengths = blank((batch, pages), "int32"), blank((batch,), "int32")
    machine = of_target(row)
    plan = replace(decode_plan(batch, 8, 4, 1, size, 2, pages * page_size, machine, paged=True), **changes)
    given = plan if changes else None
    (launch,) = launches_of(lambda: decode_attention(q, k, v, lengths, block_table=table, plan=given), machine)
    assert launch.options["schedule"] == plan.schedule and launch.options["stages"] == plan.stages
    return plan, launch.compile(row, to="ptx")


def check_ring(plan: DecodePlan, artifact, slots: int | None = None) -> None:
    ptx = artifact.output
    assert not [d["message"] for d in artifact.diagnostics if "registers" in d["message"]]
    # Rings are filled in a loop before the products, and by one step in each step.
    pieces = 2 * 2 * plan.tokens * plan.side * 2 // 16 // (32 * plan.num_warps)
    copies = re.findall(r"cp\.async\.c[ag]\.shared\.global\S* \[\S+, \[\S+, (\d+)", ptx)
    assert copies == ["16"] * pieces
    assert f"cp.async.wait_group {(slots or plan.stages) - 2};" in ptx
    # Other loads are of queries, 16 bytes at a time, of the table, and of 32-bit results.
    widths = code.widths(ptx)["ld"]
    assert not any(size < 4 for size in widths), widths


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("page_size", [1, 4, 5, 16, 17, 48, 64, 96, 100])
def test_pages_of_any_size_are_copied_in_wide_pieces(page_size: int, size: int):
    """Where rows of a step find their pages in registers of other warps, addresses pass through shared memory: what is
    known of their alignment must pass with them."""
    plan, artifact = ring_of("sm_90a", page_size, size)
    # Heads of 128 begin early, and know the pages of all steps.
    assert plan.in_turns and (plan.known in (4, 5) if size == 128 else plan.ahead)
    check_ring(plan, artifact)


@pytest.mark.parametrize("page_size", [1, 16])
def test_pages_known_in_advance_stay_in_registers(page_size: int):
    """As many steps as any plan knows: the table is read before the loop and never in it, and nothing is spilled."""
    q, k, v = blank((8, 32, 128), "float16"), *(blank((8, page_size, 8, 128), "float16") for _ in range(2))
    table, lengths = blank((8, TOKENS // page_size), "int32"), blank((8,), "int32")
    (launch,) = launches_of(lambda: decode_attention(q, k, v, lengths, block_table=table), of_target("sm_90a"))
    artifact = launch.compile("sm_90a")
    usage = json.loads(artifact.metadata)["cuda"]["usage"]
    assert usage["spill_stores"] == usage["spill_loads"] == 0
    ptx = launch.compile("sm_90a", to="ptx").output
    assert ptx.count("ld.global.b32") == 1 + 32, "the length, and an entry for each step"
    assert ptx.rindex("ld.global.b32") < ptx.index("cp.async.c")


@pytest.mark.parametrize("page_size", [1, 5, 48])
@pytest.mark.parametrize("row, slots", [("sm_80", None), ("sm_89", 2), ("sm_120a", 2)])
def test_on_other_targets(row: str, slots: int | None, page_size: int):
    """Where a block has at most 99 KB of shared memory, two slots fit."""
    check_ring(*ring_of(row, page_size, 128), slots)


@pytest.mark.parametrize("page_size", [1, 48])
def test_where_one_program_reads_a_sequence(page_size: int):
    """Pages are looked up ahead there, too, or in the step that needs them."""
    plan, artifact = ring_of("sm_90a", page_size, 128, batch=64)
    assert plan.ahead and plan.stages == 3
    check_ring(plan, artifact)
    check_ring(*ring_of("sm_90a", page_size, 128, batch=64, ahead=False, stages=2))
