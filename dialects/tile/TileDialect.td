// The tile dialect: programs over tiles, with no threads, no layout and no target. See RATIONALE.md.
#ifndef KILN_TILE_DIALECT_TD
#define KILN_TILE_DIALECT_TD

include "mlir/IR/OpBase.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::kiln::tile";
  let summary = "kernels as programs over tiles";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
    "::mlir::func::FuncDialect", "::mlir::tensor::TensorDialect", "::mlir::ub::UBDialect"
  ];
}

#endif // KILN_TILE_DIALECT_TD
