// One access of one thread to global memory: a vector of contiguous elements under one predicate.
#pragma once
#include "compiler/analysis/Grouping.h"
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"

namespace kiln::nvvm {

struct VectorAccess {
  mlir::Type element;    ///< of the tile; memoryType() is its type in memory
  int64_t count = 1;     ///< elements, a power of two; count * bytes is at most the target's widest access
  int64_t alignment = 1; ///< of the address, in bytes
  tile::CacheModifier cache = tile::CacheModifier::None;
  tile::Eviction evict = tile::Eviction::Normal;
  bool isVolatile = false;
  bool isReadOnly = false; ///< nothing writes this memory while the kernel runs
  /// Part of a tile: stays where the program put it among other accesses and barriers. LLVM and ptxas would sink a read
  /// of constant memory to its first use, past the very reduction whose latency it is there to hide.
  bool isOrdered = false;
  /// A write may precede it: then a read of constant memory is marked as such, so that it need not wait for the write.
  bool mayFollowStore = false;

  int64_t bytes() const { return count * memoryBytes(element); }
};

/// Reads `access.count` registers. `mask` (i1) may be null; where it is false the registers are `others`, or zero if
/// that is empty. Without a mask and hints it is an LLVM load; otherwise PTX with a predicate, which costs no branch.
Registers loadVector(Lowering &lowering, const VectorAccess &access, mlir::Value address, mlir::Value mask,
                     llvm::ArrayRef<mlir::Value> others);
void storeVector(Lowering &lowering, const VectorAccess &access, mlir::Value address, mlir::Value mask,
                 llvm::ArrayRef<mlir::Value> values);

/// The registers of an access as the words that PTX moves: 32 bits (64 for 8-byte elements, fewer for smaller
/// accesses).
Registers packWords(Lowering &lowering, const VectorAccess &access, llvm::ArrayRef<mlir::Value> values);

} // namespace kiln::nvvm
