// The tile dialect: programs over tiles, without threads, layouts or targets. See RATIONALE.md.
#ifndef KILN_TILE_DIALECT_TD
#define KILN_TILE_DIALECT_TD

include "mlir/IR/OpBase.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::kiln::tile";
  let summary = "kernels as programs over tiles";
  let description = [{
    A tile is a ranked tensor of static shape. Arithmetic on tiles is `arith` and `math`, control flow is `scf`, functions
    are `func`; this dialect adds what those lack. Tiles among the operands and results of every tile op obey:

    - `tile_c1`: a tile has at least one dimension (a single element is a scalar, not a tile).
    - `tile_c2`: each side is 2^k * m with m odd and at most 31, so that every target can give it a layout.
    - `tile_c3`: a tile has at most 2^20 elements.
    - `tile_c4`: a tile type carries no encoding, or a `#layout.map` once layouts are assigned.

    A function with the attribute `tile.kernel` is an entry point; its arguments may state `tile.divisibility`. Loop hints
    are attributes of `scf.for`.

    - `kernel_c1`: `tile.kernel` is a unit attribute of a function.
    - `kernel_c2`: a kernel's arguments are numbers and pointers (what a launch can pass).
    - `kernel_c3`: a kernel has no results.
    - `kernel_c4`: `tile.divisibility` is a positive integer on an integer or pointer argument.
    - `kernel_c5`: `tile.disjoint` is a unit attribute on a pointer argument: no valid access through another argument
      reaches its storage (the launch finds this from the arrays' storages; reads may be moved past such writes).
    - `loop_c1`: `tile.unroll` is an i32 from 1 to 4096, on a counted loop.
    - `loop_c2`: `tile.num_stages` is an i32 from 0 to 4096, on a counted loop.

    ```mlir
    func.func public @scale(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32) attributes {tile.kernel} {
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %two = arith.constant 2.0 : f32
      scf.for %i = %zero to %n step %one : i32 {
        %p = tile.addptr %x, %i : !tile.ptr<f32>, i32
        %v = tile.load %p : !tile.ptr<f32> -> f32
        %w = arith.mulf %v, %two : f32
        tile.store %p, %w : !tile.ptr<f32>, f32
      } {tile.unroll = 4 : i32, tile.num_stages = 2 : i32}
      return
    }
    ```
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let dependentDialects = [
    "::kiln::layout::LayoutDialect",
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
    "::mlir::func::FuncDialect", "::mlir::tensor::TensorDialect", "::mlir::ub::UBDialect"
  ];
}

#endif // KILN_TILE_DIALECT_TD
