// The box of an array that a tile of pointers walks: where a descriptor would have it.
#pragma once
#include "compiler/analysis/Alignment.h"
#include "compiler/transforms/describe/Polynomial.h"

namespace kiln::describe {

/// One dimension of the array.
struct BoxDim {
  Polynomial stride; ///< in elements: a constant, or an argument of the kernel
  Polynomial start;  ///< where the box begins: from 0 to what 32 bits with a sign hold, and so is its end
  Polynomial extent; ///< of the array: a constant, or an argument; without a bound what boxes may reach
  /// The tile's dimension that runs along it; none: one matrix of a batch.
  std::optional<unsigned> dim;
  /// Elements of the tile that lie behind the extent are some others of the array, and not zero.
  bool folds = false;
};

struct Box {
  mlir::BlockArgument base;
  llvm::SmallVector<BoxDim, 4> dims; ///< outermost first; the last one has stride 1

  /// The tile's columns are contiguous: the box lies across.
  bool isTurned() const { return *dims.back().dim == 0; }
};

/// The box that a load or store of `pointers` under `mask` (null: none) reads or writes: the elements of the tile that
/// lie inside of the array are those whose mask is true, each at the address that the pointer has. Nothing, with the
/// first reason in `why`, where that cannot be shown, or no tensor map could describe the array.
std::optional<Box> findBox(mlir::Value pointers, mlir::Value mask, Polynomials &polynomials,
                           const AlignmentAnalysis &alignment, std::string &why);

/// Nothing of what is loaded into the elements of `load` behind the extent of `dim` is ever stored or decides anything:
/// they may as well be zero. Otherwise false, with a sentence in `why`.
bool isMaskedOff(mlir::Value load, const BoxDim &dim, Polynomials &polynomials, std::string &why);

} // namespace kiln::describe
