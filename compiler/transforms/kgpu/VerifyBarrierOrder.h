// The part of kiln-verify-barriers that is about barriers by themselves, whatever they are there for.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::kgpu {

/// Fails unless, on every path from entry to return, the arrivals at the barrier of the cluster and the waits for it
/// take turns (an arrival first, a wait last, a whole barrier only between pairs), and every barrier stands where all
/// threads come by.
llvm::LogicalResult verifyBarrierOrder(mlir::func::FuncOp function);

} // namespace kiln::kgpu
