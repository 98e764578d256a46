// A schedule as it is written on a kernel, and the memory it takes.
#pragma once
#include "compiler/target/Target.h"
#include "compiler/transforms/schedule/ProductLoop.h"

namespace kiln::schedule {

struct Schedule {
  std::string name;
  /// Groups of four warps that multiply: one tile together, or each its own by turns; 0: all threads do everything.
  int32_t consumers = 0;
  int32_t stages = 2;       ///< slots of the channel
  int32_t queries = 1;      ///< of attention: slots of the queries' channel
  bool swapped = false;     ///< the right factor's columns go to the instruction's rows: sum' = rhs' lhs'
  bool stagedStore = false; ///< results leave through shared memory and the copy engine
  bool split = false;       ///< the ctas of a cluster share K, not the tile: each has a sum, and they add those
  bool fetched = false;     ///< blocks that are added to results come through channels of their own
  bool apart = false;       ///< each group stores the result's rows that it has, and waits for no other group

  /// While one group writes its result the other multiplies.
  bool inTurns() const { return name == "pingpong"; }
  /// Which dimension of the left and the right factor's block, as it is loaded, the ctas of a cluster cut; nullopt:
  /// each has the whole.
  std::optional<unsigned> cutOf(const Factor &factor, bool isLeft) const {
    if (split)
      return 1 - factor.across;
    return isLeft != swapped ? std::optional<unsigned>(factor.across) : std::nullopt;
  }
  /// Results are cut along their columns, and not along their rows: where the instruction has its rows, or, of sums
  /// that ctas add, where each thread has something for every cta.
  bool cutsColumns() const { return swapped != split; }

  mlir::DictionaryAttr toAttr(mlir::MLIRContext *context) const;
  static std::optional<Schedule> ofKernel(mlir::func::FuncOp kernel);
};

/// Memory of one slot for a factor, as it is loaded, in each of `ctas`: cut along a dimension or whole in each. nullopt
/// where no swizzle fits the block.
std::optional<kgpu::MemType> slotMemory(Factor &factor, int64_t ctas, std::optional<unsigned> cut);
/// Memory, of a matrix, that a tile of the result leaves through, or one of its shape comes by: cut over the ctas.
std::optional<kgpu::MemType> storeMemory(mlir::RankedTensorType tile, int64_t ctas, bool cutsColumns);
/// Memory that ctas send each other accumulators by: each has its columns of all rows, in blocks of eight by eight, as
/// a warp holds them. std::nullopt where rows, or a cta's columns, are no power of two.
std::optional<kgpu::MemType> sumMemory(mlir::RankedTensorType sums, int64_t ctas);
/// Memory of a matrix in panels of at most so many columns.
std::optional<kgpu::MemType> panelMemory(mlir::RankedTensorType tile, int64_t columns);

/// The stores of the product's result through a descriptor, which the copy engine could make.
llvm::SmallVector<tile::DescStoreOp> copyableStores(mlir::func::FuncOp kernel, ProductLoop &product,
                                                    const AlignmentAnalysis &alignment);

/// Memory that the tile of a reduction by the copy engine leaves through; nullopt where threads have to combine it.
std::optional<kgpu::MemType> reductionMemory(tile::DescReduceOp op, const AlignmentAnalysis &alignment);

/// Blocks of the product's shape that the program loads beside the product's loop, which the copy engine could fetch
/// ahead of it: nothing that the kernel stores may be there.
llvm::SmallVector<tile::DescLoadOp> fetchableLoads(mlir::func::FuncOp kernel, ProductLoop &product,
                                                   const AlignmentAnalysis &alignment);

} // namespace kiln::schedule
