// The cost of a layout to the ops that use it, in approximate issue slots and memory wavefronts of one warp.
#pragma once
#include "compiler/conversion/tile_to_kgpu/Access.h"
#include "mlir/IR/BuiltinTypes.h"

namespace kiln::assign {

double accessCost(const AccessShape &access, const layout::Layout &layout);
/// A reduction along an axis, of `values` operands.
double reduceCost(const layout::Layout &layout, unsigned axis, unsigned values);
double scanCost(const layout::Layout &layout, unsigned axis, unsigned values);
/// A sort along the last dimension, where every element may have to meet every other.
double sortCost(const layout::Layout &layout);
/// A dot that sums over `depth` into an accumulator of this layout, with operands read from shared memory.
double dotCost(const layout::Layout &accumulator, int64_t depth);
/// A kgpu.convert of such elements: nothing if the layouts agree; prohibitive for a tile that would have to go through
/// shared memory and is larger than `sharedBytes`.
double conversionCost(const layout::Layout &from, const layout::Layout &to, mlir::Type element, int64_t sharedBytes);
/// A conversion of which only the number of registers, and that it goes through shared memory, is known.
double exchangeCost(int64_t registers);

} // namespace kiln::assign
