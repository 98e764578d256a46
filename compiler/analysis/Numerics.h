// The order in which a kernel adds: a digest that is equal for two variants of a kernel only if they give the same
// bits.
//
// Configurations of a kernel compute the same function on tiles of different sizes. Their results can differ only in
// how floats are combined: how many elements of K one product takes, how long a reduced dimension is, what the loops
// that carry floats iterate over, which types values pass through. The sides of a tile along which nothing is combined
// do not matter: an element's result does not depend on its neighbours.
//
// So each float is described by what it is computed from. Shapes are included only where elements are combined, and
// addresses only as far as they change between iterations of a loop that carries floats, which says which elements each
// iteration takes. Integers count as exact. A description with too much detail may make digests differ that could be
// equal; digests must never be equal where bits differ. The target's choices are not covered, except that
// `describeProducts` covers those visible in tile IR with layouts.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>
#include <vector>

namespace kiln {

struct Numerics {
  std::string digest;             ///< of all results that the kernel stores
  std::vector<std::string> facts; ///< the parts about order, for people: products, reductions, loops, atomics
};

/// For a kernel in tile IR, after inlining.
Numerics describeNumerics(mlir::func::FuncOp kernel);

/// For a kernel with layouts: its products by instruction, and its reductions with the layouts that determine how they
/// pair elements. Sorted and without duplicates.
std::vector<std::string> describeProducts(mlir::func::FuncOp kernel);

} // namespace kiln
