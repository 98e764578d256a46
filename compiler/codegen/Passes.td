// Passes on the way from loops over vectors to LLVM IR.
#ifndef KILN_CODEGEN_PASSES_TD
#define KILN_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def AllowContractionPass : Pass<"kiln-allow-contraction", "::mlir::ModuleOp"> {
  let summary = "allow the user's products and sums to fuse into fma";
  let description = [{
    Adds the fast-math flag `contract` to every `arith.mulf`, `arith.addf` and `arith.subf` of the module; nothing else
    is relaxed. It runs on the user's program, before math is expanded, so that expansions that rely on exact rounding
    (Cody-Waite reduction, two-sum) are never contracted. Changes results by at most the rounding of one product per
    sum, and only where the target has fma.

    ```mlir
    %m = arith.mulf %x, %y : tensor<8xf32>
    %a = arith.addf %m, %z : tensor<8xf32>
    ```
    becomes
    ```mlir
    %m = arith.mulf %x, %y fastmath<contract> : tensor<8xf32>
    %a = arith.addf %m, %z fastmath<contract> : tensor<8xf32>
    ```
    of which LLVM makes one fma.
  }];
}

def ToLLVMPass : Pass<"kiln-to-llvm", "::mlir::ModuleOp"> {
  let summary = "convert scf, cf, arith, math, rank-1 vectors and functions to the LLVM dialect";
  let description = [{
    Structured control flow becomes branches first; then one full conversion takes the rest, so that no cast between the
    two worlds survives. An `scf.for` ends even if the step that passes its upper bound leaves the type. Needs: no
    `tile`, no memref, vectors of rank at most 1, math reduced to single instructions (`kiln-expand-math`). Guarantees:
    the module holds only `llvm` operations, and `nvvm` ones that have an intrinsic. Numerically neutral.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::cf::ControlFlowDialect"];
}

def LineInfoPass : Pass<"kiln-line-info", "::mlir::ModuleOp"> {
  let summary = "keep source lines: give each function a debug scope";
  let description = [{
    Needs the LLVM dialect. Each `llvm.func` gets a subprogram named after the kernel's source, in a compile unit with
    line tables only (for a GPU, only directives: tables would make ptxas compile for a debugger). Each operation gets
    one line and column in it: for inlined calls, the outermost position, in the kernel itself. Changes no operation.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // KILN_CODEGEN_PASSES_TD
