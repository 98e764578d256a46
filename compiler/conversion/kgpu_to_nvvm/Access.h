// One access to global memory by one thread: a vector of neighbouring elements under one predicate.
#pragma once
#include "compiler/analysis/Grouping.h"
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"

namespace kiln::nvvm {

struct VectorAccess {
  mlir::Type element;    ///< of the tile: memoryType() says how it lies in memory
  int64_t count = 1;     ///< elements, a power of two; count * bytes is at most the target's widest access
  int64_t alignment = 1; ///< bytes the address is a multiple of
  tile::CacheModifier cache = tile::CacheModifier::None;
  tile::Eviction evict = tile::Eviction::Normal;
  bool isVolatile = false;
  bool isReadOnly = false; ///< nothing writes this memory while the kernel runs
  /// Part of a tile: stays where the program put it among other accesses and barriers. LLVM and ptxas would sink a read
  /// of constant memory to its first use, behind the very reduction whose wait it is there to fill.
  bool isOrdered = false;
  /// A write may come before: then a read of constant memory is said to be one, so that it need not wait for the write.
  bool mayFollowStore = false;

  int64_t bytes() const { return count * memoryBytes(element); }
};

/// Reads `access.count` registers. `mask` (i1) may be null; where it is false the registers are `others`, or zero if
/// that is empty. Without mask and hints it is an LLVM load; otherwise PTX with a predicate, which costs no branch.
Registers loadVector(Lowering &lowering, const VectorAccess &access, mlir::Value address, mlir::Value mask,
                     llvm::ArrayRef<mlir::Value> others);
void storeVector(Lowering &lowering, const VectorAccess &access, mlir::Value address, mlir::Value mask,
                 llvm::ArrayRef<mlir::Value> values);

/// The registers of an access as the words that PTX moves: 32 bits (64 for elements of 8 bytes, less for what is less).
Registers packWords(Lowering &lowering, const VectorAccess &access, llvm::ArrayRef<mlir::Value> values);

} // namespace kiln::nvvm
