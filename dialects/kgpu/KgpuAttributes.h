// The names of the attributes that modules and kernels carry on the way to a GPU; moduleNumber() reads the numbers.
#pragma once
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace mlir {
class Operation;
} // namespace mlir

namespace kiln::kgpu {

// Attributes of the module: the launch's choices. Integers: warps per group, groups per cta, ctas per program instance,
// the most registers per thread, the PTX version. Unit attributes: the launch overlaps with its neighbours (PDL); it
// asks for descriptors in place of pointers.
constexpr llvm::StringLiteral kNumWarpsAttrName = "kgpu.num_warps";
constexpr llvm::StringLiteral kNumGroupsAttrName = "kgpu.num_groups";
constexpr llvm::StringLiteral kClusterAttrName = "kgpu.cluster";
constexpr llvm::StringLiteral kMaxRegistersAttrName = "kgpu.max_registers";
constexpr llvm::StringLiteral kPtxVersionAttrName = "kgpu.ptx_version";
constexpr llvm::StringLiteral kPdlAttrName = "kgpu.pdl";
constexpr llvm::StringLiteral kDescribePointersAttrName = "kgpu.describe_pointers";
// How products are scheduled (a string and two integers); absent where the compiler chooses. On a kernel the first is a
// dictionary: the chosen schedule.
constexpr llvm::StringLiteral kScheduleAttrName = "kgpu.schedule";
constexpr llvm::StringLiteral kStagesAttrName = "kgpu.stages";
constexpr llvm::StringLiteral kConsumersAttrName = "kgpu.consumers";
/// The schedule in which each warp should copy what it multiplies. Layouts of pointers divide copies among warps, so
/// pointers do not become descriptors.
constexpr llvm::StringLiteral kLanes = "lanes";

// Attributes of a kernel. Unit attributes: pointers have become descriptors, so the code is valid only for bounded
// launches (artifact::kMostCount, kMostPrograms); a block runs many program instances. An integer: bytes of shared
// memory per cta, once planned.
constexpr llvm::StringLiteral kDescribedAttrName = "kgpu.described";
/// Strings: numbers of the launch (artifact::LaunchNumber) that must be positive for the code to be valid.
constexpr llvm::StringLiteral kPositiveAttrName = "kgpu.positive";
constexpr llvm::StringLiteral kPersistentAttrName = "kgpu.persistent";
/// A unit attribute: the kernel's loops are those of the schedule `attention`.
constexpr llvm::StringLiteral kAttendsAttrName = "kgpu.attends";
constexpr llvm::StringLiteral kSharedBytesAttrName = "kgpu.shared_bytes";

/// A unit attribute of an atomic that passes a turn on to the next program: copies in flight there may belong to the
/// program's next turn.
constexpr llvm::StringLiteral kPassesTurnAttrName = "kgpu.passes_turn";

/// The integer attribute `name` of the module that `op` is or is in; `otherwise` where the module has none.
int64_t moduleNumber(mlir::Operation *op, llvm::StringRef name, int64_t otherwise);
bool moduleHas(mlir::Operation *op, llvm::StringRef name);

} // namespace kiln::kgpu
