// The part of kiln-verify-barriers that checks barriers by themselves, regardless of what they order.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::kgpu {

/// Fails unless, on every path from entry to return, arrivals at the cluster barrier and waits for it alternate (an
/// arrival first, a wait last, a whole barrier only between pairs), all threads reach every barrier, and all warps get
/// to what several of them do together, with the same scalars.
llvm::LogicalResult verifyBarrierOrder(mlir::func::FuncOp function);

} // namespace kiln::kgpu
