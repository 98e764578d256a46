// The names of the attributes that modules and kernels carry on the way to a GPU, and the one way to read the numbers.
#pragma once
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace mlir {
class Operation;
} // namespace mlir

namespace kiln::kgpu {

// Of the module, what the launch chose. Integers: warps of a group, groups of a cta, ctas of a program instance, the
// most registers of a thread, the version of PTX. Unit attributes: the launch overlaps with its neighbours; it asks for
// descriptors in place of pointers.
constexpr llvm::StringLiteral kNumWarpsAttrName = "kgpu.num_warps";
constexpr llvm::StringLiteral kNumGroupsAttrName = "kgpu.num_groups";
constexpr llvm::StringLiteral kClusterAttrName = "kgpu.cluster";
constexpr llvm::StringLiteral kMaxRegistersAttrName = "kgpu.max_registers";
constexpr llvm::StringLiteral kPtxVersionAttrName = "kgpu.ptx_version";
constexpr llvm::StringLiteral kPdlAttrName = "kgpu.pdl";
constexpr llvm::StringLiteral kDescribePointersAttrName = "kgpu.describe_pointers";
// How products are scheduled (a string, integers); absent where the compiler chooses. On a kernel the first is what was
// chosen, a dictionary.
constexpr llvm::StringLiteral kScheduleAttrName = "kgpu.schedule";
constexpr llvm::StringLiteral kStagesAttrName = "kgpu.stages";
constexpr llvm::StringLiteral kConsumersAttrName = "kgpu.consumers";

// Of a kernel. Unit attributes: pointers have become descriptors, so that the code holds for bounded launches alone
// (artifact::kMostCount, kMostPrograms); a block runs many program instances. An integer: bytes of shared memory in
// each cta, once planned.
constexpr llvm::StringLiteral kDescribedAttrName = "kgpu.described";
/// Numbers of the launch that are positive (artifact::LaunchNumber), or the code does not hold: strings.
constexpr llvm::StringLiteral kPositiveAttrName = "kgpu.positive";
constexpr llvm::StringLiteral kPersistentAttrName = "kgpu.persistent";
constexpr llvm::StringLiteral kSharedBytesAttrName = "kgpu.shared_bytes";

/// What the module that `op` is or stands in says of a launch; `otherwise` where it says nothing.
int64_t moduleNumber(mlir::Operation *op, llvm::StringRef name, int64_t otherwise);
bool moduleHas(mlir::Operation *op, llvm::StringRef name);

} // namespace kiln::kgpu
