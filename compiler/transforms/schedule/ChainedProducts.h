// Two chained products in one loop, as attention has them: S = Q K, then O = f(S) V + O, where Q stays and K and V are
// loaded in each step.
#pragma once
#include "compiler/transforms/schedule/Schedule.h"

namespace kiln::schedule {

/// The name of the schedule.
constexpr llvm::StringLiteral kAttention = "attention";

/// A factor that comes through a descriptor: a block of rank 2, or of more whose other sides are 1.
struct Block2D {
  tile::DescLoadOp load;
  tile::ReshapeOp reshape;     ///< null: the block has rank 2
  tile::TransOp transposition; ///< null: multiplied as it is loaded
  tile::MakeDescOp desc;
  mlir::RankedTensorType type; ///< of rank 2, as loaded

  bool isPart(mlir::Operation *op);
};

struct ChainedProducts {
  mlir::scf::ForOp loop;
  tile::DotOp scores, sums;
  Block2D query, keys, values;
  unsigned accumulator = 0; ///< which of the values the loop carries is the second product's
  /// What the accumulator goes through before the second product adds to it.
  llvm::DenseSet<mlir::Operation *> rescaling;
  /// The last step to the second product's left factor: it is rounded. Null where it is not.
  mlir::Operation *rounding = nullptr;
  /// What only the last steps do (scores that are masked), or the first branch of several on one condition; null where
  /// all steps are alike.
  mlir::scf::IfOp late;

  /// Part of the loads and products themselves.
  bool isPart(mlir::Operation *op);
};

/// The chained products of a kernel. Nothing, with a sentence in `why`, where there are none, or where the loop holds
/// more than the schedule can take apart.
std::optional<ChainedProducts> findChainedProducts(mlir::func::FuncOp kernel, std::string &why);

/// The store of a block of the second product's sides behind the loop, of rank 2 or reshaped from it, which the copy
/// engine could make; null without one.
tile::DescStoreOp copyableStore(ChainedProducts &chain, const AlignmentAnalysis &alignment);
/// The tile of rank 2 that a block has been reshaped from, if it has; else the block.
mlir::Value storedTile(mlir::Value block);

/// The schedule with its numbers; std::nullopt, with a sentence in `why`, where it does not fit.
std::optional<Schedule> chooseAttention(mlir::func::FuncOp kernel, ChainedProducts &chain, const Target &target,
                                        const AlignmentAnalysis &alignment, std::optional<int64_t> stages,
                                        std::optional<int64_t> consumers, std::string &why);

/// Writes it out.
void materializeAttention(mlir::func::FuncOp kernel, const Schedule &schedule, ChainedProducts chain);

} // namespace kiln::schedule
