// Shuffles of registers of any type between the lanes of a warp: registers are split into 32-bit words or packed into
// them.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/layout/Conversion.h"

namespace kiln::nvvm {

/// Each value as lane ^ laneXor holds it. Narrow values share words, so pass values that belong together in one call.
Registers shuffleXor(Lowering &lowering, llvm::ArrayRef<mlir::Value> values, int64_t laneXor);
/// Each value as lane `source` holds it (i32, 0 to 31, chosen by each lane for itself).
Registers shuffleFrom(Lowering &lowering, llvm::ArrayRef<mlir::Value> values, mlir::Value source);

/// i1: the XOR of some bits of this thread's number.
mlir::Value parityOf(Lowering &lowering, const layout::Parity &parity);
/// One of `values`, selected by this thread's bits.
mlir::Value selectBy(Lowering &lowering, const layout::Select &select, llvm::ArrayRef<mlir::Value> values);

} // namespace kiln::nvvm
