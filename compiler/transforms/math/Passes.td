// Passes that replace elementary functions and narrow floats by operations the target has.
#ifndef KILN_MATH_PASSES_TD
#define KILN_MATH_PASSES_TD

include "mlir/Pass/PassBase.td"

def ExpandMathPass : Pass<"kiln-expand-math", "::mlir::ModuleOp"> {
  let summary = "expand elementary functions and narrow floats";
  let description = [{
    Replaces every `math` operation for which the target has no instruction, every operation on f16, bf16, f8E4M3FN and
    f8E5M2, `arith.remf` and wide integer multiplications by `arith`, `scf` and the `math` operations that are
    instructions (sqrt, fma, absf, copysign, floor, ceil, trunc, roundeven), so that generated code calls neither libm
    nor libgcc. Works on scalars, vectors and static tensors alike. `kiln.target` decides what is legal. On the CPU, an
    elementary function of f32 or f64 that occurs 32 times or more on one type in a module is expanded once, in a
    function that is called: LLVM spends 10 ms on each expansion. On a GPU this applies to sin, cos and tan, from 64
    occurrences on.

    ```mlir
    %y = math.exp %x : vector<16xf32>
    // becomes: clamp, n = round(x log2 e), r = x - n ln 2, a polynomial in r, two multiplications by powers of two
    ```

    Needs: element types f32, f64, the four narrow floats and integers up to 64 bits. Guarantees: no other operation
    of `math` is left; the pass fails, naming operation and type, where it has no expansion.
    Numeric effect: results are within the bounds of compiler/transforms/math/README.md of the exact value; each
    operation on a narrow type is computed in f32 and rounded to nearest, ties to even; fma is rounded once.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect", "::mlir::LLVM::LLVMDialect"];
}

#endif // KILN_MATH_PASSES_TD
