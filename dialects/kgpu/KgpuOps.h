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

/// The order of what is asynchronous: barriers of channels, groups of copies, products in flight.
struct Asynchrony : mlir::SideEffects::Resource::Base<Asynchrony> {
  llvm::StringRef getName() final { return "kgpu.asynchrony"; }
};

/// Checks kgpu_c1 on every tensor among the operands and results of `op`.
llvm::LogicalResult verifyLayouts(mlir::Operation *op);

template <typename ConcreteType> struct LayoutRule : mlir::OpTrait::TraitBase<ConcreteType, LayoutRule> {
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) { return verifyLayouts(op); }
};

/// The same where layouts are assigned; before that, no tensor of `op` has one.
llvm::LogicalResult verifyEarlyLayouts(mlir::Operation *op);

template <typename ConcreteType> struct EarlyLayoutRule : mlir::OpTrait::TraitBase<ConcreteType, EarlyLayoutRule> {
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) { return verifyEarlyLayouts(op); }
};

} // namespace kiln::kgpu

#define GET_OP_CLASSES
#include "dialects/kgpu/KgpuOps.h.inc"

namespace kiln::kgpu {

/// The roles op and region that `op` stands in; null outside of roles.
std::pair<RolesOp, unsigned> roleAround(mlir::Operation *op);

/// How copies fill a memory: boxes of `box` elements (one number per dimension), whose rows are swizzled over `swizzle`
/// bytes (0: plain rows); `starts` are the elements that the boxes of one cta begin with, in the order of memory, each
/// `boxBytes` behind the one before.
struct BoxPlan {
  llvm::SmallVector<int64_t> box;
  int32_t swizzle = 0;
  llvm::SmallVector<layout::Index> starts;
  int64_t boxBytes = 0;
};
/// For a memory whose layout the copy engine knows: swizzled or row-major, of one cta or of a cluster's ctas. `pieces`:
/// in how many parts the box is cut, so that each cta of a cluster can send one to all. `rows`: of a box, fewer than as
/// many as a copy may have (0: as many). std::nullopt for any other.
std::optional<BoxPlan> planBoxes(MemType type, int64_t pieces = 1, int64_t rows = 0);

/// What the offset of an allocation is a multiple of: where copies or products reach it and not threads alone, they
/// swizzle by the address.
int64_t addressAlignment(AllocOp alloc);
/// The result is the operand's memory, or part of it, seen otherwise.
bool isView(mlir::Operation *op);
/// The memory itself, its slots, parts of them, and any of those with its dimensions in another order.
llvm::SmallVector<mlir::Value> viewsOf(mlir::Value memory);
/// Products or the copy engine read a memory or a view of it: past the threads, until they are waited for.
bool isReadAsynchronously(mlir::Value memory);

/// The receive behind which nothing goes on in a ring that completes by groups, outside of roles: its barrier is the
/// last, what was copied has come, and nobody fills or reads a slot any more. Null where there is none such.
ReceiveOp lastBarrierAt(ChannelOp channel);

/// An argument of the kernel, a constant, or such an integer extended: what a launch can work out.
bool isDerivedFromArguments(mlir::Value value);

/// K of the instruction that multiplies these element types (of warpgroup_mma or warp_mma); 0: there is none.
int64_t productDepth(mlir::Type lhs, mlir::Type rhs, mlir::Type acc, bool warpgroup);

/// A factor in memory as warpgroup_mma reads it: the swizzle, whether K (dimension `depthDim`) is contiguous, and the
/// sides of what one cta has. Nothing for memory that it cannot read.
struct FactorMemory {
  int32_t swizzle;
  bool depthFastest;
  std::array<int64_t, 2> sides;
};
std::optional<FactorMemory> factorMemory(MemType type, unsigned depthDim);

/// How many ctas the factors of warpgroup_mma are split over along K: each has a sum of its own. 1: over none.
int64_t depthPieces(mlir::Type lhs, MemType rhs);

/// How many groups have columns of their own of an accumulator of warpgroup_mma, where they have no rows of their own.
int64_t groupsAlongColumns(const layout::Layout &acc);

/// Such a group reads every so manieth panel of the right factor, whose elements have so many bytes. std::nullopt where
/// panels are not cut as columns are.
std::optional<int64_t> panelsBetween(const layout::Layout &acc, const FactorMemory &right, int64_t elementBytes);

/// The mbarrier that this memory is, or is a slot of; null if it is none.
AllocOp mbarrierOf(mlir::Value memory);

/// Memory of which each cta has a piece, and which one has an element, an element's register says: each thread deals
/// out what it holds of the tile to all ctas.
bool isDealt(const layout::Layout &tile, const layout::Layout &memory);

} // namespace kiln::kgpu
