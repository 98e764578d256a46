// The box of an array that a tile of pointers walks, as a descriptor would describe it.
#pragma once
#include "compiler/analysis/Alignment.h"
#include "compiler/transforms/describe/Polynomial.h"

namespace kiln::describe {

/// One dimension of the array.
struct BoxDim {
  Polynomial stride; ///< in elements: a constant, or an argument of the kernel
  Polynomial start;  ///< where the box begins; it and the end of the box fit 32 bits with a sign
  Polynomial extent; ///< of the array: a constant or an argument; without a bound, what boxes may reach
  /// The tile's dimension along this dimension of the array; none: one matrix of a batch.
  std::optional<unsigned> dim;
  /// Elements of the tile beyond the extent are other elements of the array, not zero.
  bool folds = false;
};

struct Box {
  mlir::BlockArgument base;
  llvm::SmallVector<BoxDim, 4> dims; ///< outermost first; the last one has stride 1

  /// The tile's columns are contiguous, so the box is transposed.
  bool isTurned() const { return *dims.back().dim == 0; }
};

/// The box that a load or store of `pointers` under `mask` (null: none) accesses: the tile's elements inside the array
/// are those whose mask is true, each at its pointer's address. Nothing, with the first reason in `why`, if that cannot
/// be proven, or if no tensor map could describe the array.
std::optional<Box> findBox(mlir::Value pointers, mlir::Value mask, Polynomials &polynomials,
                           const AlignmentAnalysis &alignment, std::string &why);

/// The values loaded into elements of `load` beyond the extent of `dim` are never stored and affect nothing, so they
/// may as well be zero. Otherwise false, with a sentence in `why`.
bool isMaskedOff(mlir::Value load, const BoxDim &dim, Polynomials &polynomials, std::string &why);

} // namespace kiln::describe
