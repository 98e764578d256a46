// The ops of the kgpu dialect.
#pragma once
#include "dialects/kgpu/KgpuDialect.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace kiln::kgpu {

/// Shared memory of the program instance: accesses are unordered with those to global memory.
struct SharedMemory : mlir::SideEffects::Resource::Base<SharedMemory> {
  llvm::StringRef getName() final { return "kgpu.shared"; }
};

/// Checks kgpu_c1 on every tensor among the operands and results of `op`.
llvm::LogicalResult verifyLayouts(mlir::Operation *op);

template <typename ConcreteType> struct LayoutRule : mlir::OpTrait::TraitBase<ConcreteType, LayoutRule> {
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) { return verifyLayouts(op); }
};

} // namespace kiln::kgpu

#define GET_OP_CLASSES
#include "dialects/kgpu/KgpuOps.h.inc"

namespace kiln::kgpu {

/// The mailbox that this memory is, or is a slot of; null if it is none.
AllocOp mailboxOf(mlir::Value memory);

} // namespace kiln::kgpu
