// How ldmatrix and stmatrix move a warp's tile between registers and shared memory: in matrices of eight rows of 16
// bytes. Each lane gives the address of one row and holds four bytes of a row.
#pragma once
#include "dialects/layout/Layout.h"

namespace kiln::layout {

/// A tile in registers, as these instructions see it.
struct MatrixRows {
  /// The same tile with one row per lane: first the registers along the row, then one register digit per instruction.
  /// Its addresses (memoryAddress, bankUse) are those that the lanes have to provide.
  Layout rows;
  unsigned matrices; ///< per instruction: 1, 2 or 4; lanes beyond theirs give addresses that are not used
  /// The tile's registers in each word, lowest bits first. Matrix m of instruction i is word i * matrices + m.
  llvm::SmallVector<llvm::SmallVector<int64_t, 4>, 0> words;

  int64_t instructions() const { return int64_t(words.size()) / matrices; }
};

/// Without `transposed`, the words of four adjacent lanes make a row; with it (elements of 2 bytes), the halves of the
/// words of eight lanes do. std::nullopt where the layout is not made of such matrices.
std::optional<MatrixRows> matrixRows(const Layout &registers, int64_t elementBytes, bool transposed);

/// True when the memory keeps each row as 16 bytes in order, in the cta's own memory.
bool keepsRows(const MatrixRows &matrix, const Layout &memory, int64_t elementBytes);

} // namespace kiln::layout
