// The loop that a schedule is about: it multiplies what it loads through descriptors and adds to an accumulator.
#pragma once
#include "compiler/analysis/Alignment.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kiln::schedule {

/// A tile's type without the dimensions of size 1 that it has in front of its last two: one matrix of a batch.
mlir::RankedTensorType asMatrix(mlir::RankedTensorType tile);

/// One factor of the product: a block that the loop loads, maybe transposed before it is multiplied.
struct Factor {
  tile::DescLoadOp load;
  tile::ReshapeOp reshape;     ///< to a matrix; null: it is loaded as one
  tile::TransOp transposition; ///< null: multiplied as it is loaded
  tile::MakeDescOp desc;
  unsigned across = 0; ///< the dimension of the block that is not summed over

  mlir::RankedTensorType block() { return asMatrix(load.getType()); }
  bool isPart(mlir::Operation *op) { return op == load || op == reshape || op == transposition; }
};

struct ProductLoop {
  mlir::scf::ForOp loop;
  tile::DotOp dot;
  unsigned accumulator = 0; ///< which of the values the loop carries
  Factor lhs, rhs;
  /// Loops around it, outermost first.
  llvm::SmallVector<mlir::scf::ForOp, 2> around;

  /// The product, its factors, and what is between.
  bool isPart(mlir::Operation *op) { return op == dot || lhs.isPart(op) || rhs.isPart(op); }
  /// Products are sums of their own, which are added to the accumulator in f32: of 8-bit floats the instruction sums
  /// less exactly, and the program allows that for a step of the loop at most.
  bool isSummedApart();
  /// The accumulators of a cluster whose ctas have a sum each, one below the other; `swapped`: of the product turned
  /// over.
  mlir::RankedTensorType stackedSums(bool swapped, int64_t ctas);
};

/// The one product loop of a kernel. Nothing, with a sentence in `why`, where there is none, or where it holds more
/// than loads, a product and scalars.
std::optional<ProductLoop> findProductLoop(mlir::func::FuncOp kernel, std::string &why);

/// The copy engine can describe the array (made of the kernel's arguments, rows contiguous, base and strides in 16
/// bytes), and takes the block's position: in 16 bytes along rows. Nothing in `why` then.
bool mayFetch(tile::DescLoadOp load, const AlignmentAnalysis &alignment, std::string &why);
/// The same for a block that is written. Its position is not before the array, or all of the block is, in each
/// dimension: boxes at a negative position are left out.
bool mayCopyOut(tile::DescStoreOp store, const AlignmentAnalysis &alignment, std::string &why);
bool mayCopyOut(tile::DescReduceOp op, const AlignmentAnalysis &alignment, std::string &why);

/// Every op that `values` are computed from can be computed without tiles and without effects, in any role; with
/// `reads` also from scalars in memory that the kernel does not write.
bool isScalarWork(mlir::ValueRange values, mlir::func::FuncOp kernel, bool reads = false);

/// Programs of the kernel know nothing of each other, and what they store these loads do not read: one block may run
/// several of them, loading for the next while it stores.
bool mayRunAhead(mlir::func::FuncOp kernel, llvm::ArrayRef<mlir::Operation *> loads, std::string &why);

} // namespace kiln::schedule
