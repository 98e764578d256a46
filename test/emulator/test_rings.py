"""Kernels in kgpu IR with rings of slots, lowered and run: correct in every order of warps and copies."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest
from kiln import compiler

from emulator.machine import Machine
from emulator.tensor_map import TensorMap

INPUTS = pathlib.Path(__file__).parents[1] / "compiler" / "kgpu_to_nvvm" / "Inputs"


def run(name: str, sides: tuple[int, int, int], tile: tuple[int, int], blocks: int, order: int):
    """Runs a @ b.T by `name`.kgpu.mlir with `blocks` blocks (clusters); returns the result and the expected one."""
    text = (INPUTS / f"{name}.kgpu.mlir").read_text()
    ptx = compiler.compile_text(text, "kgpu", {"target": "sm_90a", "to": "ptx"}).output
    metadata = json.loads(ptx.partition("\n")[0].partition("kiln.metadata: ")[2])
    m, n, k = sides
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    c = np.zeros((m, n), np.float16)
    arrays = [a, b, c]
    cuda = metadata["cuda"]
    words = [np.uint64(array.ctypes.data) for array in arrays] + [np.int32(side) for side in sides]
    words += [np.int32(-(-m // tile[0]) * -(-n // tile[1])), np.int32(1), np.int32(1)]
    parameters = [word.tobytes() for word in words]
    for entry in cuda.get("tensor_maps") or metadata["tensor_maps"]:
        parameters.append(TensorMap.of(arrays[entry["base"]], tuple(entry["box"]), entry["swizzle"]).encode())
    machine = Machine(ptx, order)
    block = b""
    for (_, offset, _), word in zip(machine.kernel.parameters, parameters, strict=True):
        block = block.ljust(offset, b"\0") + word
    for array in arrays:
        machine.memory.add(array)
    machine.launch((blocks * cuda["cluster"], 1, 1), block, cuda["shared_bytes"])
    return c, (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float16)


@pytest.mark.parametrize("order", [1, -1, 2])
def test_blocks_take_several_tiles_each(order):
    """Four tiles for two blocks; five steps in three slots, so that the ring wraps around in the middle of a tile."""
    got, want = run("product", (256, 512, 320), (128, 256), 2, order)
    assert (got == want).all()


@pytest.mark.parametrize("sides", [(200, 256, 72), (64, 256, 8), (128, 256, 64)])
def test_elements_outside_count_as_zero(sides):
    got, want = run("product", sides, (128, 256), 1, 1)
    assert (got == want).all()


@pytest.mark.parametrize("order", [1, -1, 2])
def test_a_cluster_shares_what_it_loads(order):
    got, want = run("product-cluster", (512, 512, 320), (256, 256), 2, order)
    assert (got == want).all()
