"""A tensor map in the fake driver's own 128-byte format."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .ptx import Fault

MAGIC = 0x314D544B
# FakeTensorMap in FakeCuda.cpp: magic; rank, element, its bytes, swizzle, promotion, fill; base; sizes and strides in
# bytes, innermost first (the innermost stride is implicit); box.
FORM = struct.Struct("<I6B6xQ5Q4Q5H")
# CUtensorMapDataType: bytes and, for nan, the type.
ELEMENTS = {0: (1, None), 1: (2, None), 2: (4, None), 3: (4, None), 4: (8, None), 5: (8, None), 6: (2, np.float16),
            7: (4, np.float32), 8: (8, np.float64), 9: (2, ml_dtypes.bfloat16), 10: (4, np.float32),
            11: (4, np.float32), 12: (4, np.float32)}  # fmt: skip
# The types that the copy engine can reduce.
NUMBERS = {2: np.uint32, 3: np.int32, 4: np.uint64, 5: np.int64, 6: np.float16, 7: np.float32, 9: ml_dtypes.bfloat16}
SWIZZLES = {0: 0, 1: 32, 2: 64, 3: 128}


@dataclass(frozen=True)
class TensorMap:
    """Sides, strides in bytes and box, innermost first. `swizzle`: bytes of a swizzled row."""

    base: int
    element: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    nan: bool

    @property
    def row_bytes(self) -> int:
        return self.box[0] * ELEMENTS[self.element][0]

    @property
    def numbers(self) -> Any:
        """The elements' type in a reduction; None if the engine cannot reduce them."""
        return NUMBERS.get(self.element)

    @property
    def box_bytes(self) -> int:
        return int(np.prod(self.box)) * ELEMENTS[self.element][0]

    @staticmethod
    def of(array: np.ndarray, box: tuple[int, ...], swizzle: int = 0, nan: bool = False) -> TensorMap:
        """The map of a host array; `box` in the order of numpy shapes."""
        kind = {"f2": 6, "f4": 7, "f8": 8, "u1": 0, "i1": 0, "u2": 1, "u4": 2, "i4": 3}.get(array.dtype.str[1:], 9)
        return TensorMap(array.ctypes.data, kind, array.shape[::-1], array.strides[::-1], box[::-1], swizzle, nan)

    def encode(self) -> bytes:
        def padded(values: tuple[int, ...], count: int) -> tuple[int, ...]:
            return values + (0,) * (count - len(values))

        swizzle = next(number for number, span in SWIZZLES.items() if span == self.swizzle)
        numbers = *padded(self.sizes, 5), *padded(self.strides[1:], 4), *padded(self.box, 5)
        head = MAGIC, len(self.box), self.element, ELEMENTS[self.element][0], swizzle, 0, int(self.nan), self.base
        return FORM.pack(*head, *numbers).ljust(128, b"\0")

    def rows(self, coordinates: tuple[int, ...]) -> tuple[np.ndarray, int, int]:
        """For each row of the box, where its first element inside is, or 0; and which elements of rows are inside."""
        count = int(np.prod(self.box[1:], dtype=np.int64))
        inside, address = np.ones(count, bool), np.full(count, self.base, np.int64)
        place = np.arange(count)
        for dim in range(1, len(self.box)):
            at = place % self.box[dim] + coordinates[dim]
            place = place // self.box[dim]
            inside &= (at >= 0) & (at < self.sizes[dim])
            address += at * self.strides[dim]
        first = max(0, -coordinates[0])
        last = min(self.box[0], self.sizes[0] - coordinates[0])
        address += (coordinates[0] + first) * ELEMENTS[self.element][0]
        return np.where(inside, address, 0), first, max(last, first)

    def filling(self) -> np.ndarray:
        """A row of the values read outside the array."""
        kind = ELEMENTS[self.element][1]
        if not self.nan:
            return np.zeros(self.row_bytes, np.uint8)
        if kind is None:
            raise Fault("a tensor map fills integers with nan")
        return np.full(self.box[0], np.nan).astype(kind).view(np.uint8)


def decode(data: bytes) -> TensorMap:
    magic, rank, element, _, swizzle, _, fill, base, *rest = FORM.unpack(data[: FORM.size])
    if magic != MAGIC:
        raise Fault("no tensor map is there")
    sizes, strides, box = tuple(rest[:rank]), tuple(rest[5 : 5 + rank - 1]), tuple(rest[9 : 9 + rank])
    size = ELEMENTS[element][0]
    made = TensorMap(base, element, sizes, (size, *strides), box, SWIZZLES[swizzle], bool(fill))
    if base % 16 or any(stride % 16 for stride in strides):
        raise Fault(f"a tensor map whose base or strides are no multiples of 16 bytes: {made}")
    if made.row_bytes % 16 or any(not 1 <= side <= 256 for side in box):
        raise Fault(f"a tensor map whose box cannot be copied: {made}")
    if made.swizzle and made.row_bytes != made.swizzle:
        raise Fault(f"rows of {made.row_bytes} bytes and a swizzle of {made.swizzle}: where they lie is not documented")
    return made


def swizzled(addresses: np.ndarray, span: int) -> np.ndarray:
    """XORs address bits 7 to 9 into bits 4 to 6 (64-byte swizzle: two bits, 4 and 5; 32-byte: bit 4)."""
    return addresses ^ (addresses >> 7 & (span // 16 - 1 if span else 0)) << 4
