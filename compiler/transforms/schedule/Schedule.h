// A schedule as recorded on a kernel, and the memory it takes.
#pragma once
#include "compiler/target/Target.h"
#include "compiler/transforms/schedule/ProductLoop.h"

namespace kiln::schedule {

struct Schedule {
  std::string name;
  /// Groups of four warps that multiply, sharing one tile or taking turns with a tile each; 0: all threads do
  /// everything.
  int32_t consumers = 0;
  int32_t stages = 2;       ///< slots of the channel
  int32_t queries = 1;      ///< attention: slots of the queries' channel
  bool heldQueries = false; ///< attention: products read a program's queries from registers
  bool swapped = false;     ///< the right operand's columns are the instruction's rows: sum' = rhs' lhs'
  bool stagedStore = false; ///< results leave through shared memory and the copy engine
  bool split = false;       ///< the CTAs of a cluster split K, not the tile: each has a partial sum, and they add those
  bool fetched = false;     ///< addends arrive through their own channels
  /// The result leaves through the memory in which the first addend of its shape arrived; streams: results leave
  /// through the memory of held blocks.
  bool reused = false;
  bool ordered = false; ///< attention: groups issue a step's products in turn
  bool rotated = false; ///< streams: a step's first product begins under the last ones of the step before
  bool apart = false;   ///< each group stores its own rows of the result without waiting for other groups

  /// The rows of boxes that a result leaves in, of which a CTA has `rows`: those of one group where each stores its own
  /// (0: any).
  int64_t rowsOfBoxes(int64_t rows) const { return apart ? rows / consumers : 0; }
  /// While one group writes its result the other multiplies.
  bool inTurns() const { return name == "pingpong"; }
  /// The dimension of the left or right operand's block, as it is loaded, that is divided among the CTAs of a cluster;
  /// std::nullopt: each has the whole block.
  std::optional<unsigned> cutOf(const Factor &factor, bool isLeft) const {
    if (split)
      return 1 - factor.across;
    return isLeft != swapped ? std::optional<unsigned>(factor.across) : std::nullopt;
  }
  /// Results are divided along their columns, not their rows: where those are the instruction's rows, or, if CTAs add
  /// partial sums, where each thread holds something for every CTA.
  bool cutsColumns() const { return swapped != split; }

  mlir::DictionaryAttr toAttr(mlir::MLIRContext *context) const;
  static std::optional<Schedule> ofKernel(mlir::func::FuncOp kernel);
};

/// Memory of one slot for an operand, as it is loaded, in each of `ctas`: divided along a dimension, or whole in each.
/// std::nullopt if no swizzle fits the block.
std::optional<kgpu::MemType> slotMemory(Factor &factor, int64_t ctas, std::optional<unsigned> cut);
/// Memory of a matrix that a tile of the result leaves through, or an addend arrives in: divided among the CTAs.
std::optional<kgpu::MemType> storeMemory(mlir::RankedTensorType tile, int64_t ctas, bool cutsColumns);
/// Whether each of several groups can have the copy engine store its own rows of a result. Nothing then orders the
/// copies of one group with respect to those of another.
bool mayStoreApart(mlir::RankedTensorType tile, int64_t ctas, int64_t groups);
/// Memory through which CTAs send each other accumulators: each has its own columns of all rows, in blocks of eight by
/// eight, as a warp holds them. std::nullopt if the rows, or a CTA's columns, are not a power of two.
std::optional<kgpu::MemType> sumMemory(mlir::RankedTensorType sums, int64_t ctas);
/// Memory of a matrix in panels of at most `columns` columns.
std::optional<kgpu::MemType> panelMemory(mlir::RankedTensorType tile, int64_t columns);

/// The stores of the product's result through a descriptor that the copy engine could perform.
llvm::SmallVector<tile::DescStoreOp> copyableStores(mlir::func::FuncOp kernel, ProductLoop &product,
                                                    const AlignmentAnalysis &alignment);

/// Memory that a tile leaves through if the copy engine reduces it; std::nullopt if threads have to.
std::optional<kgpu::MemType> reductionMemory(tile::DescReduceOp op, llvm::ArrayRef<Turn> turns,
                                             const AlignmentAnalysis &alignment);

/// Blocks of the product's shape, loaded outside the product's loop, that the copy engine could prefetch: the kernel
/// must not store anything there.
llvm::SmallVector<tile::DescLoadOp> fetchableLoads(mlir::func::FuncOp kernel, ProductLoop &product,
                                                   const AlignmentAnalysis &alignment);

/// The first of these loads whose memory the result can leave through: it has the result's type, and is loaded between
/// the product and the store. Null if there is none.
tile::DescLoadOp replaceableLoad(const ProductLoop &product, tile::DescStoreOp store,
                                 llvm::ArrayRef<tile::DescLoadOp> loads);

} // namespace kiln::schedule
