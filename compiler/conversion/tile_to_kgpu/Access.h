// Facts about each access to global memory: which elements are contiguous, and how wide one instruction may be.
#pragma once
#include "compiler/analysis/Alignment.h"
#include "dialects/layout/Layout.h"

namespace kiln::assign {

/// An access along one dimension of the tile.
struct AccessDim {
  int64_t run = 1;    ///< elements per aligned group that are contiguous in memory
  int64_t vector = 1; ///< elements that one instruction may move: a power of two
  int64_t same = 1;   ///< elements per aligned group that have one address
};

struct AccessShape {
  llvm::SmallVector<AccessDim, 3> dims;
  int64_t bytes = 1; ///< per element
  bool stores = false;
  bool atomic = false;
  bool copies = false;     ///< bypasses registers
  bool warpsApart = false; ///< each warp should copy what it reads later: one piece of the slowest dimension
  /// The addresses depend on the program id, a loop or memory, so programs do not all access the same few lines.
  bool streams = true;

  /// The dimension along which memory is contiguous (the last one if there is none).
  unsigned fastest() const;
  /// The dimensions by length of run, the longest first; ties: the last dimension first.
  llvm::SmallVector<int32_t> order() const;
};

/// The access that an op makes (tile.load and store, descriptors, atomics), with at most `widest` bytes per
/// instruction; std::nullopt for ops that do not access memory by tiles.
std::optional<AccessShape> accessOf(mlir::Operation *op, const AlignmentAnalysis &analysis, int64_t widest);

} // namespace kiln::assign
