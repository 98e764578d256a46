// How a warp moves a tile between registers and shared memory by ldmatrix and stmatrix: matrices of eight rows of 16
// bytes, of which each lane gives the address of one, and each thread holds four bytes of one.
#pragma once
#include "dialects/layout/Layout.h"

namespace kiln::layout {

/// A tile in registers as such instructions see it.
struct MatrixRows {
  /// The same tile with a row in each lane: the registers along the row come first, then those of one instruction after
  /// the other. What it says of addresses (memoryAddress, bankUse) is what the lanes have to give.
  Layout rows;
  unsigned matrices; ///< of one instruction: 1, 2 or 4. Those of a row beyond them are not asked for.
  /// Registers of the tile in a word, the first in its low bits: of matrix m of instruction i the word i * matrices +
  /// m.
  llvm::SmallVector<llvm::SmallVector<int64_t, 4>, 0> words;

  int64_t instructions() const { return int64_t(words.size()) / matrices; }
};

/// Without `transposed` the words of four lanes next to each other make a row; with it (elements of 2 bytes) the halves
/// of words of eight lanes do. std::nullopt where the layout is not made of such matrices.
std::optional<MatrixRows> matrixRows(const Layout &registers, int64_t elementBytes, bool transposed);

/// The memory keeps each row as 16 bytes in order, in the own cta.
bool keepsRows(const MatrixRows &matrix, const Layout &memory, int64_t elementBytes);

} // namespace kiln::layout
