// Two chained products in one loop, as in attention: S = Q K, then O = f(S) V + O, where Q is invariant and K and V are
// loaded in each step.
#pragma once
#include "compiler/transforms/schedule/Schedule.h"

namespace kiln::schedule {

/// The name of the schedule.
constexpr llvm::StringLiteral kAttention = "attention";

/// An operand loaded through a descriptor: a block of rank 2, or of a higher rank with all other sides 1.
struct Block2D {
  tile::DescLoadOp load;
  tile::ReshapeOp reshape;     ///< null: the block has rank 2
  tile::TransOp transposition; ///< null: multiplied as loaded
  tile::MakeDescOp desc;
  mlir::RankedTensorType type; ///< rank 2, as loaded

  bool isPart(mlir::Operation *op);
};

struct ChainedProducts {
  mlir::scf::ForOp loop;
  tile::DotOp scores, sums;
  Block2D query, keys, values;
  unsigned accumulator = 0; ///< index of the loop-carried value that the second product accumulates into
  /// Ops applied to the accumulator before the second product adds to it.
  llvm::DenseSet<mlir::Operation *> rescaling;
  /// The op that rounds the second product's left operand; null if it is not rounded.
  mlir::Operation *rounding = nullptr;
  /// A branch that only the first step or the last ones take (masking of scores), the first if several share its
  /// condition; null if all steps are alike.
  mlir::scf::IfOp masks;

  /// One of the products, or part of loading their operands.
  bool isPart(mlir::Operation *op);
};

struct Guess;

/// The chained products of a kernel. Nothing, with a sentence in `why`, if there are none or if the loop contains more
/// than the schedule can separate.
std::optional<ChainedProducts> findChainedProducts(mlir::func::FuncOp kernel, std::string &why);

/// Every op of the loop's body that depends on `from`.
llvm::DenseSet<mlir::Operation *> dependents(mlir::Value from, mlir::scf::ForOp loop);
/// The condition holds in the first step alone: the induction variable equals the lower bound.
bool isFirst(mlir::scf::IfOp branch, mlir::scf::ForOp loop);
/// It holds in the first step alone, or from some step on.
bool isOfSomeSteps(mlir::scf::IfOp branch, mlir::scf::ForOp loop);

/// A store after the loop, of a block of the second product's shape (of rank 2 or reshaped from it), that the copy
/// engine could perform; null if there is none.
tile::DescStoreOp copyableStore(ChainedProducts &chain, const AlignmentAnalysis &alignment);
/// The tile of rank 2 that a block was reshaped from; the block itself if it was not.
mlir::Value storedTile(mlir::Value block);

/// The schedule with its parameters; std::nullopt, with a sentence in `why`, if it does not fit.
std::optional<Schedule> chooseAttention(mlir::func::FuncOp kernel, ChainedProducts &chain, const Target &target,
                                        const AlignmentAnalysis &alignment, std::optional<int64_t> stages,
                                        std::optional<int64_t> consumers, std::string &why);

/// Writes the schedule out. Steps without a mask are those of `guess`, if there is one.
void materializeAttention(mlir::func::FuncOp kernel, const Schedule &schedule, ChainedProducts chain,
                          std::optional<Guess> guess);

} // namespace kiln::schedule
