// The pass that turns kgpu IR into the code of one thread.
#ifndef KILN_KGPU_TO_NVVM_PASSES_TD
#define KILN_KGPU_TO_NVVM_PASSES_TD

include "mlir/Pass/PassBase.td"

def KgpuToNvvmPass : Pass<"kiln-kgpu-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "turn each kernel into the code of one of its threads";
  let description = [{
    Replaces every function that has `tile.kernel` by the `llvm.func` `@kiln_NAME`: a kernel with one parameter per
    argument, in the order and with the alignment of the packed argument block, followed, if it prints or asserts, by
    the address of a KilnDeviceLog (runtime/launch/Abi.h). Needs kgpu IR after `kiln-lower-exchanges` and
    `kiln-plan-shared-memory`: every tile has a layout, and no op needs memory that it does not name. A tile becomes one
    scalar per register of its layout. Leaves scf, arith, math and llvm ops on scalars (vectors only around memory);
    math and narrow floats are not expanded.

    ```mlir
    func.func public @add(%x: !tile.ptr<f32>, ...) attributes {tile.kernel} {
      %v = tile.load %xp mask %m : tensor<1024x!tile.ptr<f32>, #b> mask tensor<1024xi1, #b> -> tensor<1024xf32, #b>
      %s = arith.addf %v, %w : tensor<1024xf32, #b>
    ```
    becomes, with #b = blocked [1024] vector 4 warps 4 (eight registers per thread),
    ```mlir
    llvm.func @kiln_add(%x: !llvm.ptr<1>, ...) attributes {nvvm.kernel, nvvm.reqntid = array<i32: 128, 1, 1>, ...} {
      %v = llvm.inline_asm "@$5 ld.global.v4.b32 {$0, $1, $2, $3}, [$4];" ...    // twice
      %s0 = arith.addf %v0, %w0 : f32                                            // eight times
    ```

    Reads from the module: `kgpu.num_warps` (4), `kgpu.num_groups` (1), `kgpu.cluster` (1), `kgpu.pdl` (unit: overlap
    with the previous and the next grid), `kgpu.max_registers` (no limit); from the kernel: `kgpu.shared_bytes`.
    Sets on the function: `kiln.name`, `kiln.arguments` (array of dictionaries), `kiln.arguments_bytes`,
    `kiln.workspace_bytes`, `kiln.frame_bytes`, `kiln.sites`, `kiln.check`, and `kiln.cuda`, which the launch needs.

    Numeric effect: none but the order in which atomics of one op happen.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"];
}

#endif // KILN_KGPU_TO_NVVM_PASSES_TD
