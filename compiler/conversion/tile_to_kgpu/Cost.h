// What a layout costs the ops that use it: roughly, issue slots and memory wavefronts of one warp.
#pragma once
#include "compiler/conversion/tile_to_kgpu/Access.h"
#include "mlir/IR/BuiltinTypes.h"

namespace kiln::assign {

double accessCost(const AccessShape &access, const layout::Layout &layout);
/// Combining along an axis; `values`: operands of the reduction.
double reduceCost(const layout::Layout &layout, unsigned axis, unsigned values);
double scanCost(const layout::Layout &layout, unsigned axis, unsigned values);
/// Sorting along the last dimension, where every element may have to meet every other.
double sortCost(const layout::Layout &layout);
/// Products summed over `depth` into an accumulator of this layout, operands read from shared memory.
double dotCost(const layout::Layout &accumulator, int64_t depth);
/// Of a kgpu.convert of such elements; layouts that agree cost nothing, and a tile larger than `sharedBytes` does not
/// fit the shared memory it would have to go through.
double conversionCost(const layout::Layout &from, const layout::Layout &to, mlir::Type element, int64_t sharedBytes);
/// Of a conversion nothing more is known of than that it goes through shared memory.
double exchangeCost(int64_t registers);

} // namespace kiln::assign
