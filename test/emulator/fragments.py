"""Matrices in the registers of a warp: which lane holds which element, ldmatrix and stmatrix, products by warps (mma).

A register of an operand holds as many elements as fit in 32 bits, consecutive along K (for f64: one in 64 bits).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from .communication import check_together
from .memory import addresses_of
from .operation import Run, operation
from .ptx import SHARED_BASE, Fault, Instruction, Unsupported

LANE = np.arange(32)
GROUP, MEMBER = LANE // 4, LANE % 4
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "f64": 64}
_EIGHT_BITS = {kind: np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
               for kind, dtype in (("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2),
                                   ("s8", np.int8), ("u8", np.uint8))}  # fmt: skip


def numbers(kind: str, raw: np.ndarray) -> np.ndarray:
    """Converts bytes, the last dimension, to numbers of an operand."""
    if kind in _EIGHT_BITS:
        return _EIGHT_BITS[kind][raw]
    if kind == "tf32":
        # The low bits are ignored.
        return (raw.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if kind == "bf16":
        return (raw.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return raw.view({"f16": np.float16, "f64": np.float64}[kind]).astype(np.float64)


@lru_cache
def left_places(registers: int, rows: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and K of [register, lane, element] of a left operand of `rows` rows: groups of eight rows first, then along
    K."""
    register, lane, element = np.ogrid[:registers, :32, :each]
    halves = rows // 8
    row = GROUP[lane] + 8 * (register % halves) + 0 * element
    return row, register // halves * 4 * each + MEMBER[lane] * each + element


@lru_cache
def right_places(registers: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    """K and column of [register, lane, element] of a right operand of 8 columns."""
    register, lane, element = np.ogrid[:registers, :32, :each]
    return register * 4 * each + MEMBER[lane] * each + element, GROUP[lane] + 0 * (register + element)


def read_left(machine: Any, rows: tuple[int, ...], kind: str, height: int, lanes: Any) -> np.ndarray:
    raw = _register_bytes(machine, rows, kind, lanes)
    values = numbers(kind, raw)
    row, depth = left_places(len(rows), height, values.shape[-1])
    matrix = np.empty((height, int(depth.max()) + 1))
    matrix[row, depth] = values
    return matrix


def read_right(machine: Any, rows: tuple[int, ...], kind: str, lanes: Any) -> np.ndarray:
    values = numbers(kind, _register_bytes(machine, rows, kind, lanes))
    depth, column = right_places(len(rows), values.shape[-1])
    matrix = np.empty((int(depth.max()) + 1, 8))
    matrix[depth, column] = values
    return matrix


@lru_cache(maxsize=4096)
def _numbers_of(rows: tuple[int, ...]) -> np.ndarray:
    return np.array(rows)[:, None]


def _registers(machine: Any, rows: tuple[int, ...], kind: str, lanes: Any) -> np.ndarray:
    """A copy of registers, as [register, lane]."""
    return machine.views[kind][_numbers_of(rows), machine.all_lanes(lanes)]


def _register_bytes(machine: Any, rows: tuple[int, ...], kind: str, lanes: Any) -> np.ndarray:
    """Bytes of an operand's registers, as [register, lane, byte]."""
    return _registers(machine, rows, "b64" if kind == "f64" else "b32", lanes)[..., None].view(np.uint8)


# The sums of a warp: of each eight columns, for each eight rows, lanes hold pairs of columns, one row after the other.
# A pair of float16 is in one register.


def read_sum(machine: Any, rows: tuple[int, ...], kind: str, columns: int, height: int, lanes: Any) -> np.ndarray:
    eights, halves = columns // 8, height // 8
    if kind == "f16":
        pairs = _registers(machine, rows, "f16x2", lanes).reshape(eights, halves, 8, 4, 2).transpose(1, 2, 0, 3, 4)
    else:
        pairs = _registers(machine, rows, kind, lanes).reshape(eights, halves, 2, 8, 4).transpose(1, 3, 0, 4, 2)
    return pairs.astype(np.float64).reshape(height, columns)


def write_sum(machine: Any, rows: tuple[int, ...], kind: str, matrix: np.ndarray, lanes: Any) -> None:
    height, columns = matrix.shape
    pairs = matrix.reshape(height // 8, 8, columns // 8, 4, 2)
    index = _numbers_of(rows), machine.all_lanes(lanes)
    if kind == "f16":
        machine.views["f16x2"][index] = pairs.transpose(2, 0, 1, 3, 4).reshape(len(rows), 32, 2)
    else:
        machine.views[kind][index] = pairs.transpose(2, 0, 4, 1, 3).reshape(len(rows), 32)


def check_integers(kind: str, matrix: np.ndarray, saturate: bool) -> np.ndarray:
    """Sums of integers wrap around, or saturate."""
    if kind != "s32":
        return matrix
    if saturate:
        return np.clip(matrix, -(2**31), 2**31 - 1)
    return (matrix.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32).astype(np.float64)


SHAPES = "m16n8k4 m16n8k8 m16n8k16 m16n8k32 m8n8k4"


@operation("mma", "sync aligned row col satfinite " + SHAPES)
def _warp_product(ins: Instruction) -> Run:
    """Exact here and rounded once; the intermediate rounding of real machines varies."""
    to, left, right, added = (rows if isinstance(rows, tuple) else (rows,) for rows in ins.operands)
    kind, left_kind, right_kind, added_kind = ins.types
    height, columns, depth = (int(n) for n in re.findall(r"\d+", ins.one_of(*SHAPES.split())))
    if "row" not in ins.modifiers or "col" not in ins.modifiers or (height == 8 and left_kind != "f64"):
        raise Unsupported(f"{ins}: a product of this form")
    wide = 64 if left_kind == "f64" else 32
    bits = [height * 8 * BITS_OF_SUM[kind], height * depth * BITS[left_kind], depth * 8 * BITS[right_kind],
            height * 8 * BITS_OF_SUM[added_kind]]  # fmt: skip
    expected = [count // (32 * wide) for count in bits]
    if [len(to), len(left), len(right), len(added)] != expected:
        raise Unsupported(f"{ins}: expected {expected} registers")

    def run(machine: Any, lanes: Any) -> None:
        check_together(machine, None, lanes)
        a = read_left(machine, left, left_kind, height, lanes)
        b = read_right(machine, right, right_kind, lanes)
        c = read_sum(machine, added, added_kind, columns, height, lanes)
        write_sum(machine, to, kind, check_integers(kind, a @ b + c, "satfinite" in ins.modifiers), lanes)

    return run


BITS_OF_SUM = {"f16": 16, "f32": 32, "s32": 32, "f64": 64}


# --- ldmatrix, stmatrix -----------------------------------------------------------------------------------------------


def _matrix_rows(machine: Any, ins: Instruction, address: Any, count: int, lanes: Any) -> tuple[Any, np.ndarray]:
    """The block and 16 bytes for each row of `count` matrices of eight rows: the lanes' addresses, in order."""
    check_together(machine, None, lanes)
    addresses = addresses_of(machine, address, lanes, True)[: 8 * count]
    owners, offsets = machine.shared.place(addresses, np.full(len(addresses), machine.warp.block))
    if (owners != machine.warp.block).any():
        raise Fault("a matrix in another block's memory")
    return machine.shared.blocks[machine.warp.block], machine.shared.chunks(machine.warp.block, offsets)


def _count_of(ins: Instruction, rows: Any) -> int:
    count = int(ins.one_of("x1", "x2", "x4")[1])
    if len(rows) != count or "m8n8" not in ins.modifiers:
        raise Unsupported(f"{ins}: {len(rows)} registers")
    return count


@operation("ldmatrix", "sync aligned m8n8 x1 x2 x4 trans shared shared::cta")
def _load_matrices(ins: Instruction) -> Run:
    to, address = ins.operands
    rows = to if isinstance(to, tuple) else (to,)
    count = _count_of(ins, rows)

    def run(machine: Any, lanes: Any) -> None:
        block, chunks = _matrix_rows(machine, ins, address, count, lanes)
        if block.shadow is not None:
            machine.ordering.load(machine.warp.index, block.shadow, chunks, 16, ins)
        matrices = block.words[1].reshape(-1, 16)[chunks].view(np.uint16).reshape(count, 8, 8)
        if "trans" in ins.modifiers:
            matrices = matrices.transpose(0, 2, 1)
        words = np.ascontiguousarray(matrices).reshape(count, 64).view(np.uint32)
        for row, word in zip(rows, words, strict=True):
            machine.write("b32", row, lanes, word)

    return run


@operation("stmatrix", "sync aligned m8n8 x1 x2 x4 trans shared shared::cta")
def _store_matrices(ins: Instruction) -> Run:
    address, source = ins.operands
    rows = source if isinstance(source, tuple) else (source,)
    count = _count_of(ins, rows)

    def run(machine: Any, lanes: Any) -> None:
        block, chunks = _matrix_rows(machine, ins, address, count, lanes)
        if block.shadow is not None:
            machine.ordering.store(machine.warp.index, block.shadow, chunks, 16, ins, 0xFFFFFFFF)
        words = np.stack([machine.read("b32", row, lanes) for row in rows])
        matrices = words.view(np.uint16).reshape(count, 8, 8)
        if "trans" in ins.modifiers:
            matrices = np.ascontiguousarray(matrices.transpose(0, 2, 1))
        block.words[1].reshape(-1, 16)[chunks] = matrices.reshape(count * 8, 8).view(np.uint8)

    return run


@operation("movmatrix", "sync aligned m8n8 trans")
def _transpose(ins: Instruction) -> Run:
    to, source = ins.operands

    def run(machine: Any, lanes: Any) -> None:
        check_together(machine, None, lanes)
        matrix = np.ascontiguousarray(machine.read("b32", source, lanes)).view(np.uint16).reshape(8, 8)
        machine.write("b32", to, lanes, np.ascontiguousarray(matrix.T).reshape(64).view(np.uint32))

    return run


assert SHARED_BASE % 1024 == 0  # swizzles apply to absolute addresses
