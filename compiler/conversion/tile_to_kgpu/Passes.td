// Passes that give every tile of a kernel a layout, and check that layouts match.
#ifndef KILN_TILE_TO_KGPU_PASSES_TD
#define KILN_TILE_TO_KGPU_PASSES_TD

include "mlir/Pass/PassBase.td"

def SelectProductsPass : Pass<"kiln-select-products", "::mlir::ModuleOp"> {
  let summary = "turn every tile.dot into products on tensor cores, where the target has them";
  let description = [{
    If every product of a kernel suits groups of four warps (rows in 64s, columns in 8s, no batch, rows of memory of at
    least 32 bytes), both operands are stored to swizzled memory where they are computed, so that one that is invariant
    in a loop is stored once. A left operand that is computed from another product stays in registers. The kernel's
    warps then form groups (`kgpu.num_groups`):

    ```mlir
    %d = tile.dot %a, %b, %c : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
    ```
    becomes
    ```mlir
    %ma = kgpu.alloc : !kgpu.mem<128x64xf16, #layout.map<swizzled [128, 64] element 2 bytes 128>>
    kgpu.local_store %a, %ma : ...
    %mb = kgpu.alloc : ...
    kgpu.local_store %b, %mb : ...
    %s = kgpu.warpgroup_mma %ma, %mb, %c : ...
    %d = kgpu.mma_wait %s pending 0 : tensor<128x128xf32>
    ```
    Otherwise `%d = kgpu.warp_mma %a, %b, %c`, on tiles in registers, for each product that instructions can be tiled
    over and that has a fragment for each warp. The rest (f64, f32 with IEEE precision, tiny tiles) stays a `tile.dot`.

    Needs: tile IR before `kiln-assign-layouts`, with schedules materialised. Guarantees: the operands of
    `kgpu.warpgroup_mma` and `kgpu.warp_mma` are as these demand. Numeric effect: as `tile.dot` allows. f32 operands are
    rounded to tf32 (to nearest, ties away from zero), or are sums of two or three tf32 or bf16 parts, whose products
    are added from the smallest up. f16 accumulators are summed in f32 and rounded once. 8-bit floats are multiplied as
    f16 unless a whole dot may be summed in less than the accumulator's precision: then each dot is a sum of its own,
    added in f32.
  }];
  let options = [Option<"byWarps", "by-warps", "bool", "false", "take no products of groups of warps">];
  let dependentDialects = ["::kiln::kgpu::KgpuDialect", "::mlir::arith::ArithDialect"];
}

def AssignLayoutsPass : Pass<"kiln-assign-layouts", "::mlir::func::FuncOp"> {
  let summary = "determine for every tile which thread holds which element";
  let description = [{
    Tile IR becomes kgpu IR: each tile type gets a `#layout.map`, and a `kgpu.convert` is inserted where a tile is used
    in another layout than it is computed in. Layouts are chosen once, over the whole function:

    - tiles that ops keep in one layout (elementwise ops, accesses to memory, values that a loop carries) form classes;
    - what is cheap to compute anywhere (ranges, splats, address arithmetic and comparisons on them) belongs to no class
      and is computed in each layout that its uses need;
    - accesses to memory, reductions, scans, sorts and dots propose layouts for their class. Each proposal, and each
      layout that follows from a class that has one already, is judged by the cost of accesses (instructions, lines,
      sectors), of exchanges between lanes and warps, and of conversions at the edges, weighted by loop depth; the
      heaviest class comes first;
    - an access that is cheaper in its own layout, conversions included, leaves its class.

    ```mlir
    %r = tile.make_range 0 to 1024 : tensor<1024xi32>
    %p = tile.addptr ... : tensor<1024x!tile.ptr<f16>>, tensor<1024xi32>
    %v = tile.load %p : tensor<1024x!tile.ptr<f16>> -> tensor<1024xf16>
    ```
    becomes, for 4 warps,
    ```mlir
    %r = tile.make_range 0 to 1024 : tensor<1024xi32, #layout.map<blocked [1024] order [0] vector 8 warps 4>>
    ...
    ```
    Needs: stage opt; `kgpu.num_warps` (4 without it) and `kgpu.cluster` (1 without it) on the module; no tile has a
    layout yet. Guarantees: every tile has one, `kiln-verify-layouts` holds. Exact.
  }];
  let dependentDialects = ["::kiln::kgpu::KgpuDialect", "::kiln::layout::LayoutDialect", "::mlir::arith::ArithDialect"];
}

def VerifyLayoutsPass : Pass<"kiln-verify-layouts", "::mlir::func::FuncOp"> {
  let summary = "reject ops whose tiles' layouts do not match";
  let description = [{
    Every tile has a layout for the module's threads (`kgpu.num_warps`, `kgpu.cluster`), and each op's operands and
    results obey its rule: one layout for all tiles of an elementwise op or an access; for ops that change the shape,
    the operand's layout is the one that follows from the result's (except for registers that repeat an element). The
    rules are those that inference uses, in LayoutRules.h. Changes nothing.
  }];
}

#endif // KILN_TILE_TO_KGPU_PASSES_TD
