"""How many blocks of a kernel are resident on a multiprocessor at once, and which resource limits that."""

from __future__ import annotations

from typing import Any, NamedTuple

from kiln.explain.machines import Machine

# The granularity in which registers are allocated to a warp, and the shared memory that the system reserves per block.
_REGISTER_PIECE = 256
_SYSTEM_SHARED = 1024
_SHARED_PIECE = 128


class Occupancy(NamedTuple):
    """`blocks` and `warps` resident at once on a multiprocessor that holds `most` warps; `limiter`: the resource that
    runs out first."""

    blocks: int
    warps: int
    most: int
    limiter: str


def compute(limits: dict[str, Any], machine: Machine, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """`limits`: of the target's row; `threads` and `shared_bytes` of a block, `registers` of a thread."""
    warps = -(-threads // 32)
    per_warp = -(-registers * 32 // _REGISTER_PIECE) * _REGISTER_PIECE
    shared = -(-(shared_bytes + _SYSTEM_SHARED) // _SHARED_PIECE) * _SHARED_PIECE
    most = {
        "threads": limits["threads_per_processor"] // (32 * warps),
        "registers": limits["registers_per_processor"] // (per_warp * warps),
        "shared memory": limits["shared_bytes_per_processor"] // shared,
        "blocks": machine.blocks_per_processor,
    }
    blocks = min(most.values())
    limiter = " and ".join(name for name in most if most[name] == blocks)
    return Occupancy(blocks, blocks * warps, limits["threads_per_processor"] // 32, limiter)
