"""How many blocks of a kernel a multiprocessor holds at once, and what stops it from holding more."""

from __future__ import annotations

from typing import Any, NamedTuple

from kiln.explain.machines import Machine

# Registers are handed to warps in pieces of this many; each block takes so much shared memory for the system.
_REGISTER_PIECE = 256
_SYSTEM_SHARED = 1024
_SHARED_PIECE = 128


class Occupancy(NamedTuple):
    """`blocks` and `warps` at once on a multiprocessor of `most` warps; `limiter`: what runs out first."""

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
