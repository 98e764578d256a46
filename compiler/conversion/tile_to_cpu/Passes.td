// Passes that turn tile IR into CPU code.
#ifndef KILN_TILE_TO_CPU_PASSES_TD
#define KILN_TILE_TO_CPU_PASSES_TD

include "mlir/Pass/PassBase.td"

def TileToCpuPass : Pass<"kiln-tile-to-cpu", "::mlir::ModuleOp"> {
  let summary = "turn each tile kernel into a native entry: loops over vectors in a planned frame";
  let description = [{
    Replaces every function that has `tile.kernel` by `@kiln_NAME(arguments, launch, begin, end)`, the `KilnEntry` of
    runtime/launch/Abi.h. Needs IR after the tile passes: no calls, no block pointers. Leaves func, scf, arith, math,
    vector and llvm ops; math and narrow floats are not expanded. Tiles that have to be in memory live in the worker's
    frame.

    ```mlir
    func.func @copy(%x: !tile.ptr<f32>, %o: !tile.ptr<f32>) attributes {tile.kernel} {
      %v = tile.load %xp : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
      tile.store %op, %v : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
    ```
    becomes, with AVX-512,
    ```mlir
    func.func @kiln_copy(%arguments: !llvm.ptr, %launch: !llvm.ptr, %begin: i64, %end: i64) {
      scf.for %program = %begin to %end step %c1 : i64 {
        scf.for %j = %c0 to %c1024 step %c16 : i64 {
          %v = llvm.load %xj : !llvm.ptr -> vector<16xf32>
          llvm.store %v, %oj : vector<16xf32>, !llvm.ptr
    ```

    Sets on the function: `kiln.name`, `kiln.arguments` (array of dictionaries), `kiln.arguments_bytes`,
    `kiln.frame_bytes`, `kiln.workspace_bytes`, `kiln.sites`, `kiln.check`.

    Numeric effect: dot accumulates in f32 (f64, i32) with fused multiply-add; reductions are combined in an order that
    depends on shape and target, and is the same in every run.
  }];
  let options = [Option<"check", "check", "std::string", "\"none\"",
                        "none, or bounds or races: report every memory access to the runtime">];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::vector::VectorDialect", "::mlir::LLVM::LLVMDialect"];
}

def VerifyVectorsPass : Pass<"kiln-verify-vectors", "::mlir::ModuleOp"> {
  let summary = "reject vectors that no register tile holds";
  let description = [{
    Fails on any value whose vector type is larger than the target's register tile, or has a rank other than 1: LLVM's
    compile time grows with the square of such vectors. Runs before the conversion to the LLVM dialect. Changes nothing.
  }];
}

#endif // KILN_TILE_TO_CPU_PASSES_TD
