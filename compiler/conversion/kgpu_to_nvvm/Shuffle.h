// Registers handed between the lanes of a warp, whatever their type: cut into 32-bit words or packed into them.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/layout/Conversion.h"

namespace kiln::nvvm {

/// Each value as held by lane ^ laneXor. Narrow values share a word, so hand over what belongs together at once.
Registers shuffleXor(Lowering &lowering, llvm::ArrayRef<mlir::Value> values, int64_t laneXor);
/// Each value as held by lane `source` (i32, 0 to 31, each lane its own).
Registers shuffleFrom(Lowering &lowering, llvm::ArrayRef<mlir::Value> values, mlir::Value source);

/// i1: the XOR of some bits of this thread; true when there are none that are clear.
mlir::Value parityOf(Lowering &lowering, const layout::Parity &parity);
/// One of `values`, as this thread's bits choose.
mlir::Value selectBy(Lowering &lowering, const layout::Select &select, llvm::ArrayRef<mlir::Value> values);

} // namespace kiln::nvvm
