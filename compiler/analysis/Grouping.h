// How the elements of a pointer tile that one thread holds form accesses: vectors of adjacent elements under one
// predicate.
#pragma once
#include "compiler/analysis/Alignment.h"

namespace kiln {

/// The largest power of two that divides `value`.
inline int64_t powerOf2Factor(int64_t value) { return value & -value; }

/// `count` consecutive registers, a power of two, whose first address is a multiple of `alignment` bytes.
struct Grouping {
  int64_t count = 1;
  int64_t alignment = 1;
};
/// The widest provably correct grouping of at most `widest` bytes. `pointers` have a layout; `mask` may be null.
Grouping groupPointers(const AlignmentAnalysis &alignment, mlir::Value pointers, mlir::Value mask, int64_t widest);

} // namespace kiln
