// The layouts that are tried for a class of tiles.
#pragma once
#include "compiler/conversion/tile_to_kgpu/Access.h"
#include "dialects/layout/Constructors.h"

namespace kiln::assign {

/// The proposals of a class's members.
struct Wishes {
  llvm::SmallVector<int64_t, 3> shape;
  llvm::SmallVector<llvm::SmallVector<int32_t>, 2> orders; ///< per access: the dimensions, fastest first
  int64_t widest = 1;                                      ///< elements of the widest access of any member
  llvm::SmallVector<int32_t, 2> reduced;                   ///< axes that are reduced, scanned or sorted
  bool product = false;                                    ///< accumulates a dot
  bool warpsApart = false;                                 ///< each warp should have one piece of the slowest dimension
};

/// Without duplicates, in a fixed order; never empty.
llvm::SmallVector<layout::Layout, 16> candidates(const Wishes &wishes, const layout::Threads &threads);

/// Whether each warp has one piece of the slowest dimension: the first that is longer than one.
bool areWarpsApart(const layout::Layout &layout);

/// The default layout, for tiles about which nothing is known.
layout::Layout plainLayout(llvm::ArrayRef<int64_t> shape, const layout::Threads &threads);

} // namespace kiln::assign
