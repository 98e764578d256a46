// What is known of each access to global memory: which elements lie side by side, and how wide one instruction may be.
#pragma once
#include "compiler/analysis/Alignment.h"
#include "dialects/layout/Layout.h"

namespace kiln::assign {

/// Along one dimension of the tile.
struct AccessDim {
  int64_t run = 1;    ///< elements per aligned group that lie next to each other in memory
  int64_t vector = 1; ///< elements one instruction may move: a power of two
  int64_t same = 1;   ///< elements per aligned group at one address
};

struct AccessShape {
  llvm::SmallVector<AccessDim, 3> dims;
  int64_t bytes = 1; ///< of an element
  bool stores = false;
  bool atomic = false;
  bool copies = false; ///< past registers
  /// The addresses depend on the program id, a loop or memory: not the same few lines in every program.
  bool streams = true;

  /// The dimension along which memory is contiguous (the last, when none is).
  unsigned fastest() const;
  /// Dimensions from the one with the longest run on; ties: the last first.
  llvm::SmallVector<int32_t> order() const;
};

/// The access an op makes (tile.load and store, descriptors, atomics), of at most `widest` bytes an instruction;
/// std::nullopt for ops that do not access memory by tiles.
std::optional<AccessShape> accessOf(mlir::Operation *op, const AlignmentAnalysis &analysis, int64_t widest);

} // namespace kiln::assign
