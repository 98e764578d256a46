"""ptxas notes that mean wrong or slow code fail the compile; each note with a kernel that triggers it."""

from __future__ import annotations

import pathlib
import re

import kiln
import kiln.language as kl
import pytest
from kiln import compiler, errors
from kiln.kernels.case import blank
from kiln.kernels.launches import launches_of

INPUTS = pathlib.Path(__file__).parents[1] / "compiler" / "kgpu_to_nvvm" / "Inputs"

# A role whose threads have 24 registers holds 64 elements of a row across a sum.
SPILLING = """
module {
  func.func @crowded(%p: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    kgpu.roles @idle warps 4 registers 24 {
      kgpu.end_role
    } @sum warps 4 registers REGISTERS {
      %r = tile.make_range 0 to 8192 : tensor<8192xi32>
      %b = tile.splat %p : !tile.ptr<f32> -> tensor<8192x!tile.ptr<f32>>
      %a = tile.addptr %b, %r : tensor<8192x!tile.ptr<f32>>, tensor<8192xi32>
      %x = tile.load %a : tensor<8192x!tile.ptr<f32>> -> tensor<8192xf32>
      %s = tile.reduce(%x) axis 0 {
      ^bb0(%u: f32, %v: f32):
        %w = arith.addf %u, %v : f32
        tile.yield %w : f32
      } : (tensor<8192xf32>) -> f32
      %t = tile.splat %s : f32 -> tensor<8192xf32>
      %y = arith.mulf %x, %t : tensor<8192xf32>
      tile.store %a, %y : tensor<8192x!tile.ptr<f32>>, tensor<8192xf32>
      kgpu.end_role
    }
    return
  }
}
"""


def product() -> str:
    """PTX of a product with roles, as scheduled."""
    text = (INPUTS / "product.kgpu.mlir").read_text()
    return compiler.compile_text(text, "kgpu", {"target": "sm_90a", "to": "ptx"}).output


def refused(ptx: str) -> errors.InternalError:
    with pytest.raises(errors.InternalError) as caught:
        compiler.compile_text(ptx, "ptx", {"target": "sm_90a"})
    assert "ptxas says of the kernel 'product': " in str(caught.value)
    assert "-arch=sm_90a -O3 -v" in (caught.value.reproduce or "")
    return caught.value


def test_the_product_assembles():
    assert compiler.compile_text(product(), "ptx", {"target": "sm_90a"}).output


def test_missing_register_reallocation():
    """A role is left with fewer registers than its sums need."""
    ptx = product().replace("setmaxnreg.inc.sync.aligned.u32 232;", "setmaxnreg.dec.sync.aligned.u32 104;")
    assert "Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum" in str(refused(ptx))


def test_an_unknown_register_count():
    """Nothing declares the number of registers at entry."""
    ptx = re.sub(r"^\.(maxnreg|reqntid) .*\n", "", product(), flags=re.MULTILINE)
    assert "(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine" in str(refused(ptx))


def test_serialised_products():
    """The sum of a product in flight is read."""
    ptx = product()
    under_way = re.search(r"wgmma\.mma_async\S*\s*\{\s*(%[\w$]+)", ptx)
    assert under_way
    wait = re.search(r"wgmma\.wait_group\.sync\.aligned 1;", ptx)
    assert wait
    touched = ptx[: wait.end()] + f"\n\tadd.f32 {under_way[1]}, {under_way[1]}, {under_way[1]};" + ptx[wait.end() :]
    assert "instructions are serialized due to" in str(refused(touched))


def test_a_wait_that_is_missing():
    ptx = re.sub(r"wgmma\.wait_group\.sync\.aligned \d+;", "", product())
    assert re.search("serialized due to|warpgroup.wait is injected", str(refused(ptx)))


def test_a_role_that_spills():
    with pytest.raises(errors.ResourceError) as caught:
        compiler.compile_text(SPILLING.replace("REGISTERS", "24"), "opt", {"target": "sm_90a"})
    assert caught.value.resource == "bytes per thread beyond the registers of its role"
    assert caught.value.required > 0 and caught.value.available == 0
    assert "consumers=" in caught.value.option


def test_a_role_that_does_not():
    assert compiler.compile_text(SPILLING.replace("REGISTERS", "0"), "opt", {"target": "sm_90a"}).output


@kiln.jit
def sums_of_one_row(x, y, out, k, SIDE: kl.constexpr, SUMS: kl.constexpr):
    """Products all carried by one loop: SIDE registers per thread for each, with four warps."""
    i, j = kl.arange(0, 64), kl.arange(0, SIDE)
    first = kl.zeros((64, SIDE), kl.float32)
    sums = kl.tuple([first for _ in kl.static_range(SUMS)])
    for at in range(0, k, 64):
        d = at + kl.arange(0, 64)
        a = kl.load(x + i[:, None] * k + d[None, :])
        sums = kl.tuple([kl.dot(a, kl.load(y + (n * SIDE + j)[None, :] * k + d[:, None]), sums[n])
                         for n in kl.static_range(SUMS)])  # fmt: skip
    for n in kl.static_range(SUMS):
        kl.store(out + i[:, None] * (SUMS * SIDE) + (n * SIDE + j)[None, :], sums[n])


@pytest.mark.parametrize("sums, products", [(1, "wgmma.mma_async"), (3, "mma.sync")])
def test_products_with_too_few_registers_to_overlap_use_single_warps(sums, products):
    """No schedule was requested: the compiler uses products of single warps instead, and a remark says so."""
    arrays = [blank((64, 4096), "float16"), blank((1024, 4096), "float16"), blank((64, 1024), "float32")]
    (launch,) = launches_of(lambda: sums_of_one_row[1](*arrays, 4096, 256, sums, num_warps=4))
    artifact = launch.compile("sm_90a", keep_stages=True)
    assert products in artifact.text("ptx")
    said = any("products of single warps" in diagnostic["message"] for diagnostic in artifact.diagnostics)
    assert said == (products == "mma.sync")
