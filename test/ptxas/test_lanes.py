"""Decoding by the schedule `lanes`: a step has no barrier of all warps, and registers hold as many blocks as by
`simple`."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from kiln.kernels.attention import decode_attention, decode_quantized
from kiln.kernels.attention.quantized import cache_shapes
from kiln.kernels.case import blank
from kiln.kernels.launches import Launch, launches_of
from kiln.kernels.machine import of_target

MACHINE = of_target("sm_90a")
SIZE, K_HEADS = 128, 8
# The types of keys, values and the ranges of both, for caches of so many bits.
TYPES = {8: ["uint8", "uint8", "float16", "float16"], 4: ["uint8", "uint8", "int16", "int16"]}


def decoding(batch: int, tokens: int, bits: int, page: int = 0) -> Launch:
    """The launch of one new token for each sequence, heads in groups of four."""
    q, lengths = blank((batch, 4 * K_HEADS, SIZE), "float16"), blank((batch,), "int32")
    paged = {"block_table": blank((batch, tokens // page), "int32")} if page else {}
    count, side = (batch * tokens // page, page) if page else (batch, tokens)
    if bits == 16:
        k, v = (blank((count, side, K_HEADS, SIZE), "float16") for _ in range(2))
        (launch,) = launches_of(lambda: decode_attention(q, k, v, lengths, **paged), MACHINE)
        return launch
    shapes = cache_shapes(count, side, K_HEADS, SIZE, bits, batch)
    arrays = [blank(shape, dtype) for shape, dtype in zip(shapes[:4], TYPES[bits], strict=True)]
    recent = [shape and blank(shape, "float16") for shape in shapes[4:]]
    options = {"k_recent": recent[0], "v_recent": recent[1], **paged}
    (launch,) = launches_of(lambda: decode_quantized(q, *arrays, lengths, **options), MACHINE)
    return launch


def usage_of(launch: Launch, schedule: str) -> dict[str, int]:
    return json.loads(launch.compile("sm_90a", schedule=schedule).metadata)["cuda"]["usage"]


def blocks_of(usage: dict[str, int], threads: int = 128) -> int:
    """Blocks on a processor of 65536 registers, which threads get in eights."""
    return 65536 // (-(-usage["registers"] // 8) * 8 * threads)


LAUNCHES = [
    (1, 4096, 16), (8, 4096, 16, 16), (8, 4096, 16, 64), (8, 32768, 8), (8, 32768, 4), (8, 32768, 8, 64),
    (8, 32768, 4, 64),
]  # fmt: skip


@pytest.mark.parametrize("about", LAUNCHES, ids=str)
def test_warps_wait_for_themselves_alone(about):
    """Codes, their scales and words, and rows whose pages are looked up: every warp copies all that it reads."""
    launch = decoding(*about)
    artifact = launch.compile("sm_90a", to="ptx", schedule="lanes")
    assert not [d["message"] for d in artifact.diagnostics if "schedule lanes" in d["message"]]
    ptx = artifact.output
    # Of the waits for copies the first is the loop's, and the second follows the loop.
    waits = [match.start() for match in re.finditer(r"cp\.async\.wait_group", ptx)]
    step = ptx[waits[0] : waits[1]]
    assert "mma.sync" in step and "cp.async.cg" in step
    assert re.findall(r"\b(?:bar|barrier)\.\S*sync\S*", step) == ["bar.warp.sync"]
    usage = usage_of(launch, "lanes")
    assert usage["spill_stores"] == usage["spill_loads"] == 0
    assert blocks_of(usage) >= blocks_of(usage_of(launch, "simple"))


def test_copies_share_an_address():
    """Four copies of codes and two of words are a multiple of a lane's place apart each; LLVM would compute the address
    of every copy."""
    code = decoding(64, 4096, 4).compile("sm_90a", to="llvm", schedule="lanes").output
    step = code[code.index("cp.async.wait_group") :]
    copied = re.findall(r"cp\.async\.cg\.\S* .*ptr addrspace\(1\) (%\w+),", step)
    assert len(copied) == 11
    apart = [re.findall(rf"^  {name} = getelementptr .* i64 (\d+)$", step, re.MULTILINE) for name in copied]
    assert sorted(int(more) for found in apart for more in found) == [128, 512, 512, 1024, 1024, 1536, 1536]


def test_rows_that_nobody_reads_are_not_filled():
    """Zeros of four-bit keys are eight of the sixteen rows of their product: the registers of the others, the second
    and fourth of each part of 16 channels, are written nowhere."""
    ptx = decoding(64, 4096, 4).compile("sm_90a", to="ptx").output
    products = re.findall(r"mma\.sync\S*\s*\{[^}]*\},\s*\{([^}]*)\}", ptx)
    uses = Counter(re.findall(r"%r\d+\b", ptx))
    alone = [[uses[name] == 1 for name in re.findall(r"%r\d+", factor)] for factor in products]
    assert Counter(map(tuple, alone))[False, True, False, True] == SIZE // 16
