"""Kernels written by hand, and what runs them on arrays of the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .machine import Machine
from .tensor_map import TensorMap

HEAD = """.version 8.3
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 memory[];
.visible .entry kernel(
{parameters}
)
.reqntid {threads}
{form}
{{
.reg .pred %p<32>;
.reg .b16 %h<64>;
.reg .b32 %r<512>;
.reg .b64 %d<64>;
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
mov.u32 %r3, memory;
and.b32 %r4, %r1, 31;
{arguments}
"""


@dataclass(frozen=True)
class Mapped:
    """An array and the tensor map that describes it to the copy engine."""

    array: np.ndarray
    map: TensorMap


def mapped(array, box, swizzle=0, nan=False):
    return Mapped(array, TensorMap.of(array, box, swizzle, nan))


def launch(body, *arguments, threads=32, cluster=1, order=1, shared=2048, form="", grid=(1, 1, 1),
           skips=False):  # fmt: skip
    """Runs `body`. Argument i is an array, whose address is in %d(i+40), or a mapped one, the address of whose map is.

    Throughout: %r1 is the thread, %r2 its warp, %r3 the start of shared memory, %r4 the lane.
    """
    parameters, loads = [], []
    for i, argument in enumerate(arguments):
        is_map = isinstance(argument, Mapped)
        parameters.append(f".param .align 64 .b8 a{i}[128]" if is_map else f".param .u64 a{i}")
        loads.append(f"mov.b64 %d{40 + i}, a{i};" if is_map else f"ld.param.b64 %d{40 + i}, [a{i}];")
    if cluster > 1:
        form += f" .explicitcluster .reqnctapercluster {cluster}, 1, 1"
    head = HEAD.format(parameters=",\n".join(parameters), threads=threads, form=form, arguments="\n".join(loads))
    machine = Machine(f"{head}{body}\nret;\n}}\n", order)
    machine.skips = skips
    block = b""
    for (_, offset, _), argument in zip(machine.kernel.parameters, arguments, strict=True):
        is_map = isinstance(argument, Mapped)
        machine.memory.add(argument.array if is_map else argument)
        word = argument.map.encode() if is_map else np.uint64(argument.ctypes.data).tobytes()
        block = block.ljust(offset, b"\0") + word
    machine.launch(grid, block, shared)
    return machine
