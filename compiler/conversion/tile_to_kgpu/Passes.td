// Passes that give every tile of a kernel a layout, and check that layouts fit together.
#ifndef KILN_TILE_TO_KGPU_PASSES_TD
#define KILN_TILE_TO_KGPU_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignLayoutsPass : Pass<"kiln-assign-layouts", "::mlir::func::FuncOp"> {
  let summary = "say for every tile which thread holds which element";
  let description = [{
    Tile IR becomes kgpu IR: each tile type gets a `#layout.map`, and `kgpu.convert` stands where a tile is wanted in
    another layout than it is made in. Layouts are chosen once, over the whole function:

    - tiles that an op keeps in one layout (elementwise ops, accesses to memory, what a loop carries) form classes;
    - what is cheap to compute anywhere (ranges, splats, address arithmetic and comparisons on them) belongs to no class
      and is computed in each layout it is wanted in;
    - accesses to memory, reductions, scans, sorts and dots propose layouts for their class. Each proposal, and each
      layout that follows from a class that has one, is judged by what accesses (instructions, lines, sectors),
      exchanges between lanes and warps, and conversions at the edges would cost, weighted by loop depth; heaviest class
      first;
    - an access that is better off in its own layout, conversion included, leaves its class.

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
  let summary = "refuse ops whose tiles' layouts do not fit together";
  let description = [{
    Every tile has a layout for the module's threads (`kgpu.num_warps`, `kgpu.cluster`), and each op's operands and
    results obey its rule: one layout for all tiles of an elementwise op or an access; for ops that change the shape,
    the operand's layout is the one that follows from the result's (but for registers that repeat an element). The rules are
    those inference works with, in LayoutRules.h. Changes nothing.
  }];
}

#endif // KILN_TILE_TO_KGPU_PASSES_TD
