// In which order a kernel adds: a digest that is equal for two forms of one kernel only if they give the same bits.
//
// Configurations of a kernel compute the same function on tiles of different sizes. What can tell their results apart
// is how floats are combined: how many elements of K one product takes, how long a reduced dimension is, what the loops
// that carry floats go through, which types values pass through. The sides of a tile along which nothing is combined do
// not: an element's result is the same whichever elements stand beside it.
//
// So each float is described by what it is computed from, without shapes but where elements are combined, and without
// addresses but for what changes from one iteration of a loop that carries floats to the next: that says which elements
// each iteration takes. Integers count as exact. A description that holds more than it must makes digests differ that
// could be equal; that they are equal where bits differ is what it must not do. What the target does is no part of it,
// but `describeProducts` says what tile IR with layouts does.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>
#include <vector>

namespace kiln {

struct Numerics {
  std::string digest;             ///< of all results that the kernel stores
  std::vector<std::string> facts; ///< what in it is about order, for people: products, reductions, loops, atomics
};

/// Of a kernel in tile IR, inlined.
Numerics describeNumerics(mlir::func::FuncOp kernel);

/// Of a kernel with layouts: its products by instruction, and reductions with the layouts that decide how they pair
/// elements. Sorted, each once.
std::vector<std::string> describeProducts(mlir::func::FuncOp kernel);

} // namespace kiln
