// The ops of the kgpu dialect.
#pragma once
#include "dialects/kgpu/KgpuDialect.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace kiln::kgpu {

/// Shared memory of the program instance: its accesses are not ordered with those to global memory.
struct SharedMemory : mlir::SideEffects::Resource::Base<SharedMemory> {
  llvm::StringRef getName() final { return "kgpu.shared"; }
};

/// The order of asynchronous operations: barriers of channels, groups of copies, products in flight.
struct Asynchrony : mlir::SideEffects::Resource::Base<Asynchrony> {
  llvm::StringRef getName() final { return "kgpu.asynchrony"; }
};

/// Checks kgpu_c1 on every tensor among the operands and results of `op`.
llvm::LogicalResult verifyLayouts(mlir::Operation *op);

template <typename ConcreteType> struct LayoutRule : mlir::OpTrait::TraitBase<ConcreteType, LayoutRule> {
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) { return verifyLayouts(op); }
};

/// The same rule where layouts are assigned; before that, no tensor of `op` has one.
llvm::LogicalResult verifyEarlyLayouts(mlir::Operation *op);

template <typename ConcreteType> struct EarlyLayoutRule : mlir::OpTrait::TraitBase<ConcreteType, EarlyLayoutRule> {
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) { return verifyEarlyLayouts(op); }
};

} // namespace kiln::kgpu

#define GET_OP_CLASSES
#include "dialects/kgpu/KgpuOps.h.inc"

namespace kiln::kgpu {

/// The roles op around `op`, and which of its regions `op` is in; null outside of roles.
std::pair<RolesOp, unsigned> roleAround(mlir::Operation *op);

/// How copies fill a memory: in boxes of `box` elements (one number per dimension), whose rows are swizzled over
/// `swizzle` bytes (0: plain rows). `starts` are the first elements of the boxes of one cta, in the order of memory;
/// each box begins `boxBytes` after the one before.
struct BoxPlan {
  llvm::SmallVector<int64_t> box;
  int32_t swizzle = 0;
  llvm::SmallVector<layout::Index> starts;
  int64_t boxBytes = 0;
};
/// The plan for a memory whose layout the copy engine supports: swizzled or row-major, of one cta or of a cluster's
/// ctas; std::nullopt for any other. `pieces`: the number of parts that the rows are cut into, so that each cta of a
/// cluster can send one to all. `rows`: the rows of a box (0: as many as a copy may have).
std::optional<BoxPlan> planBoxes(MemType type, int64_t pieces = 1, int64_t rows = 0);

/// The alignment of an allocation's offset. Copies and products need more than threads do, since they swizzle by the
/// address.
int64_t addressAlignment(AllocOp alloc);
/// True when the result is the operand's memory, or part of it, seen differently.
bool isView(mlir::Operation *op);
/// The memory itself, its slots, parts of them, and any of those with the dimensions in another order.
llvm::SmallVector<mlir::Value> viewsOf(mlir::Value memory);
/// True when products or the copy engine read the memory or a view of it: asynchronously, until they are waited for.
bool isReadAsynchronously(mlir::Value memory);

/// In a ring that completes by groups, outside of roles: the receive after which nothing of the ring is in flight.
/// After its barrier all copies have arrived and no thread fills or reads a slot any more. Null where there is none.
ReceiveOp lastBarrierAt(ChannelOp channel);

/// True for an argument of the kernel, a constant, or such an integer extended: what a launch can compute.
bool isDerivedFromArguments(mlir::Value value);

/// K of the instruction (of warpgroup_mma or warp_mma) that multiplies these element types; 0 if there is none.
int64_t productDepth(mlir::Type lhs, mlir::Type rhs, mlir::Type acc, bool warpgroup);

/// An operand in memory as warpgroup_mma reads it: its swizzle, whether K (dimension `depthDim`) is contiguous, and the
/// sides of what one cta holds. std::nullopt for memory that the instruction cannot read.
struct FactorMemory {
  int32_t swizzle;
  bool depthFastest;
  std::array<int64_t, 2> sides;
};
std::optional<FactorMemory> factorMemory(MemType type, unsigned depthDim);

/// The number of ctas over which the operands of warpgroup_mma are split along K, each with a sum of its own; 1: not
/// split.
int64_t depthPieces(mlir::Type lhs, MemType rhs);

/// The number of groups that have their own columns of a warpgroup_mma accumulator, where they have no rows of their
/// own.
int64_t groupsAlongColumns(const layout::Layout &acc);

/// Such a group reads every n-th panel of the right operand: returns n, for elements of `elementBytes`. std::nullopt
/// where panels are not cut as columns are.
std::optional<int64_t> panelsBetween(const layout::Layout &acc, const FactorMemory &right, int64_t elementBytes);

/// The allocation with an mbarrier that this memory is, or is a slot of; null if it is neither.
AllocOp mbarrierOf(mlir::Value memory);

/// Memory of which each cta has a piece, where an element's register determines whose piece it is in: each thread
/// distributes what it holds of the tile over all ctas.
bool isDealt(const layout::Layout &tile, const layout::Layout &memory);

} // namespace kiln::kgpu
