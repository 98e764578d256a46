"""Compiling without arguments, for this machine and for a GPU."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr, SCALE: tl.constexpr = 2):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * SCALE, mask=i < n)


signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
src = ASTSource(kernel, signature, {"BLOCK": 256}, {(0,): [["tt.divisibility", 16]]})
here = triton.compile(src)
assert here.metadata.target.backend == "cpu"
assert "tile.load" in here.asm["ttir"] and "define" in here.asm["llir"]
there = triton.compile(ASTSource(kernel, signature, {(3,): 256}), GPUTarget("cuda", 90, 32), {"num_warps": 8})
assert there.metadata.num_warps == 8 and there.metadata.target.arch == 90
assert ".reqntid 256" in there.asm["ptx"] or ".maxntid 256" in there.asm["ptx"], there.asm["ptx"][:2000]
assert src.hash() != ASTSource(kernel, signature, {"BLOCK": 128}).hash()
assert here.src.signature == {**signature, "SCALE": "constexpr"} and here.src.constants == {(3,): 256, (4,): 2}
