// Loop nests over index spaces: how they are walked, opened and closed, and at which of their levels code is emitted. A
// value is emitted once, at the outermost level where its index is known.
#pragma once
#include "compiler/conversion/tile_to_cpu/CodeBuilder.h"
#include <map>

namespace kiln::cpu {

/// How a group's nest walks its index space.
struct Walk {
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<int> order; ///< dimensions, outermost first
  int vectorDim = -1;           ///< or -1: one element at a time
  int64_t width = 1;
  int blockDim = -1; ///< a second dimension walked in steps of `block`, or -1
  int64_t block = 1;
};

/// The loops around the code being emitted, outermost first; level 0 is the block that contains the nest.
struct Nest {
  using Cache = std::map<std::vector<uintptr_t>, mlir::Value>;
  struct Level {
    mlir::Block *block = nullptr;
    mlir::Operation *before = nullptr; ///< the next inner loop; null: insert at the block's end
    Cache cache;
  };
  llvm::SmallVector<Level> levels;
  llvm::DenseMap<mlir::Value, int> levelOf;
};

/// A nest whose loops are open.
struct OpenNest {
  Nest nest;
  Index at;
  llvm::SmallVector<mlir::scf::ForOp> loops;
  llvm::SmallVector<mlir::Value> carried; ///< the values in the innermost body (or the inits, if there is no such loop)
  bool innermostLoops = false;            ///< the order's last dimension has a loop
  Nest *outer = nullptr;
};

/// The nest into which code is being emitted, and arithmetic on coordinates in it.
class Nests {
public:
  explicit Nests(CodeBuilder &b) : b(b) {}

  /// Opens the loops of a walk; the innermost one carries `inits`. Code then goes to the innermost body. With `all`
  /// false the innermost loop is left to innermost().
  void open(OpenNest &open, const Walk &walk, mlir::ValueRange inits, bool all = true);
  llvm::SmallVector<mlir::Value> innermost(OpenNest &open, const Walk &walk, mlir::ValueRange inits,
                                           CodeBuilder::Body body);
  /// Closes the innermost loop; code then goes after it. Returns its results (or `yields`).
  llvm::SmallVector<mlir::Value> closeInnermost(OpenNest &open, mlir::ValueRange yields);
  void close(OpenNest &open);
  /// Runs `body` at each index of the walk.
  mlir::LogicalResult forEach(const Walk &walk, llvm::function_ref<mlir::LogicalResult(const Index &)> body);

  int levelOf(const Coord &coord) const;
  int levelOf(const Index &at) const;
  void insertAt(int level);
  /// The values that have been emitted at a level.
  Nest::Cache &cache(int level) { return nest->levels[level].cache; }

  //--- Coordinates
  mlir::Value value(const Coord &coord);
  Coord total(const Coord &a, const Coord &c);
  Coord scaled(const Coord &coord, int64_t factor);
  Coord derived(const Coord &coord, llvm::function_ref<mlir::Value(mlir::Value)> fn);
  Coord quotient(const Coord &coord, int64_t divisor);
  Coord remainder(const Coord &coord, int64_t divisor);
  /// The row-major number of the element (i64).
  mlir::Value linearElement(const Index &at, llvm::ArrayRef<int64_t> shape);

private:
  CodeBuilder &b;
  Nest *nest = nullptr;
};

} // namespace kiln::cpu
