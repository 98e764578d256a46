// The loop that a schedule overlaps: it multiplies what it loads through descriptors and adds to an accumulator.
#pragma once
#include "compiler/analysis/Alignment.h"
#include "compiler/transforms/schedule/Turns.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kiln::schedule {

/// A tile's type without leading dimensions of size 1 before its last two: one matrix of a batch.
mlir::RankedTensorType asMatrix(mlir::RankedTensorType tile);

/// One operand of the product: a block that the loop loads, possibly transposed before it is multiplied.
struct Factor {
  tile::DescLoadOp load;
  tile::ReshapeOp reshape;     ///< to a matrix; null: it is loaded as one
  tile::TransOp transposition; ///< null: multiplied as loaded
  tile::MakeDescOp desc;
  unsigned across = 0; ///< the dimension of the block that is not summed over

  mlir::RankedTensorType block() { return asMatrix(load.getType()); }
  bool isPart(mlir::Operation *op) { return op == load || op == reshape || op == transposition; }
};

struct ProductLoop {
  mlir::scf::ForOp loop;
  tile::DotOp dot;
  unsigned accumulator = 0; ///< index of the loop-carried value
  Factor lhs, rhs;
  /// Enclosing loops, outermost first.
  llvm::SmallVector<mlir::scf::ForOp, 2> around;

  /// The product, its operands, and the ops between.
  bool isPart(mlir::Operation *op) { return op == dot || lhs.isPart(op) || rhs.isPart(op); }
  /// Products are accumulated separately and added to the accumulator in f32: the instruction accumulates 8-bit floats
  /// less exactly, and the program allows that for one step of the loop at most.
  bool isSummedApart();
  /// The accumulators of a cluster whose CTAs have a partial sum each, stacked one below the other; `swapped`: of the
  /// product with swapped operands.
  mlir::RankedTensorType stackedSums(bool swapped, int64_t ctas);
};

/// The one product loop of a kernel. Nothing, with a sentence in `why`, if there is none or if it contains more than
/// loads, a product and scalars.
std::optional<ProductLoop> findProductLoop(mlir::func::FuncOp kernel, std::string &why);

/// The copy engine can describe the array (made of the kernel's arguments, rows contiguous, base and strides multiples
/// of 16 bytes) and accepts the block's position (a multiple of 16 bytes along rows). Otherwise `why` says why not.
bool mayFetch(tile::DescLoadOp load, const AlignmentAnalysis &alignment, std::string &why);
/// The same for a block that is written. In each dimension its position must be nonnegative, or the whole block must
/// lie before the array: boxes at a negative position are skipped.
bool mayCopyOut(tile::DescStoreOp store, const AlignmentAnalysis &alignment, std::string &why);
bool mayCopyOut(tile::DescReduceOp op, const AlignmentAnalysis &alignment, std::string &why);

/// Every op that `values` depend on can be computed in any role, without tiles and without effects; with `reads` also
/// from scalars in memory that the kernel does not write.
bool isScalarWork(mlir::ValueRange values, mlir::func::FuncOp kernel, bool reads = false);

/// Programs of the kernel are independent but for `turns`, and do not store what these loads read: one block may run
/// several of them, loading for the next while it stores.
bool mayRunAhead(mlir::func::FuncOp kernel, llvm::ArrayRef<mlir::Operation *> loads, std::string &why,
                 llvm::ArrayRef<Turn> turns = {});

} // namespace kiln::schedule
