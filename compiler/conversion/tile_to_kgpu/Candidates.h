// The layouts that are tried for a class of tiles.
#pragma once
#include "compiler/conversion/tile_to_kgpu/Access.h"
#include "dialects/layout/Constructors.h"

namespace kiln::assign {

/// What the members of a class ask for.
struct Wishes {
  llvm::SmallVector<int64_t, 3> shape;
  llvm::SmallVector<llvm::SmallVector<int32_t>, 2> orders; ///< dimensions, fastest first, of each access
  int64_t widest = 1;                                      ///< elements per access anyone can use
  llvm::SmallVector<int32_t, 2> reduced;                   ///< axes that are reduced, scanned or sorted
  bool product = false;                                    ///< accumulates a dot
};

/// Without repetition, in a fixed order; never empty.
llvm::SmallVector<layout::Layout, 16> candidates(const Wishes &wishes, const layout::Threads &threads);

/// The plain layout of tiles nothing is known about.
layout::Layout plainLayout(llvm::ArrayRef<int64_t> shape, const layout::Threads &threads);

} // namespace kiln::assign
