// Groups elements that are adjacent both in a thread's registers and in memory, and that the mask treats alike.
#include "compiler/analysis/Grouping.h"
#include "dialects/kgpu/KgpuDialect.h"
#include "dialects/tile/TileOps.h"

using namespace mlir;
using namespace kiln;

Grouping kiln::groupPointers(const AlignmentAnalysis &alignment, Value pointers, Value mask, int64_t widest) {
  const layout::Layout &layout = kgpu::layoutOf(pointers.getType());
  auto pointer = cast<tile::PtrType>(cast<RankedTensorType>(pointers.getType()).getElementType());
  int64_t bytes = tile::memoryBytes(pointer.getPointee());
  Grouping best{1, bytes};
  for (unsigned dim = 0; dim < layout.rank(); ++dim) {
    int64_t side = layout.shape()[dim];
    int64_t run = alignment.contiguousElements(pointers, dim);
    int64_t count = std::min({powerOf2Factor(layout.contiguity(dim)), powerOf2Factor(run),
                              powerOf2Factor(alignment.maskConstancy(mask, dim, side)), widest / bytes});
    int64_t known = powerOf2Factor(alignment.alignmentInBytes(pointers, dim));
    while (count > 1 && count * bytes > known)
      count /= 2;
    if (count > best.count)
      best = {count, count * bytes};
  }
  return best;
}
