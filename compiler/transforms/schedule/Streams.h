// Several products in loops, as in gradients of attention: operands come in blocks through descriptors, held (a block
// of keys) or streamed (blocks of queries), and some products multiply the results of others.
#pragma once
#include "compiler/transforms/schedule/Schedule.h"
#include "compiler/transforms/schedule/Turns.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace kiln::schedule {

/// The name of the schedule.
constexpr llvm::StringLiteral kStreams = "streams";
/// The same, with loops rotated.
constexpr llvm::StringLiteral kRotated = "rotated";

/// A block that only products use, or a vector of numbers that arrives together with one.
struct Stream {
  tile::DescLoadOp load;
  tile::ReshapeOp reshape; ///< null: the block is loaded as a matrix or vector
  tile::MakeDescOp desc;
  mlir::RankedTensorType type; ///< without sides of 1: a matrix or a vector

  bool isRow() const { return type.getRank() == 1; }
  mlir::Value value() { return reshape ? reshape.getResult() : load.getResult(); }
};

/// An operand of a product: a block as loaded, or transposed (`load`); or else a computed tile, which is read from
/// registers, or from its own shared memory if it is the right operand or `transposed`.
struct StreamFactor {
  mlir::Operation *load = nullptr;
  mlir::Value tile; ///< before transposition
  bool transposed = false;
};

/// A loop whose next step's first product begins under the last ones of this step.
struct RotatedLoop {
  mlir::scf::ForOp loop;
  llvm::SmallVector<mlir::Operation *, 4> group; ///< the blocks it streams
  tile::DotOp lead;                              ///< a product of loaded blocks, not added to anything
  /// A product that is put off to the next step, where no group has to wait for what others store: of an operand that
  /// groups share and a block from outside the loop, for a block that is added to memory. Null if there is none.
  tile::DotOp deferred;
  llvm::SetVector<mlir::Operation *> uses; ///< what uses its result, in program order; the last op adds to memory
};

struct Streams {
  llvm::SmallVector<tile::DotOp> dots;
  llvm::MapVector<mlir::Operation *, Stream> blocks; ///< by load, in program order
  llvm::DenseSet<mlir::Operation *> parts;           ///< loads, their reshapes and transpositions, and products
  llvm::SmallVector<Turn> turns;                     ///< of reductions

  StreamFactor factorOf(mlir::Value value) const;
  bool isStored(tile::DotOp dot, bool right) const {
    StreamFactor factor = factorOf(right ? dot.getRhs() : dot.getLhs());
    return !factor.load && (right || factor.transposed);
  }
  /// Too few rows for every group to have 64 of its own: the groups split the columns.
  static bool isCutByColumns(tile::DotOp dot, int64_t groups) {
    return dot.getType().getShape()[0] % (64 * groups) != 0;
  }
  /// Memory for a computed operand of this type; std::nullopt if products could not read any.
  std::optional<kgpu::MemType> factorMemory(mlir::RankedTensorType type, int64_t groups) const;
  /// The types of the computed operands that need shared memory, each as often as operands of it are live together.
  llvm::SmallVector<mlir::Type> storedFactors() const;
  /// Loads in the same block of ops, in program order: they arrive in one slot.
  using Group = llvm::SmallVector<mlir::Operation *, 4>;
  /// Groups by ring: loops that stream the same blocks of the same arrays share one.
  llvm::SmallVector<llvm::SmallVector<Group>> rings() const;
  /// std::nullopt if the loop's first product is no product of loaded blocks, or if nothing else reads what the loop
  /// loads: its slot would be free before the next iteration.
  std::optional<RotatedLoop> rotated(mlir::scf::ForOp loop) const;
  /// The type of the operands that groups share: each computes a part, and a product reads all of it from shared
  /// memory. Null if there are none, if their types differ, or if a block of ops has several.
  mlir::RankedTensorType sharedType() const;
  /// The product in this block that reads such an operand; null if there is none.
  tile::DotOp sharedIn(mlir::Block *block) const;
  /// That operand.
  mlir::Value sharedTile(tile::DotOp dot) const {
    return factorOf(isStored(dot, /*right=*/true) ? dot.getRhs() : dot.getLhs()).tile;
  }
  /// Loaded outside all loops, once per program.
  bool isHeld(mlir::Operation *load) const { return mlir::isa<mlir::FunctionOpInterface>(load->getParentOp()); }
};

/// The products of a kernel and the blocks they use. Nothing, with a sentence in `why`, if there are fewer than two, or
/// if loops do something that the schedule cannot separate.
std::optional<Streams> findStreams(mlir::func::FuncOp kernel, std::string &why);

/// Memory of one slot; std::nullopt if the copy engine cannot lay it out.
std::optional<kgpu::MemType> slotMemory(const Stream &stream);

/// Stores after the loops, of blocks of rank 2 (or reshaped from it), that the copy engine could perform.
llvm::SmallVector<tile::DescStoreOp> copyableStores(mlir::func::FuncOp kernel, const AlignmentAnalysis &alignment);

/// Reductions of blocks, in or after the loops, that the copy engine can perform, in turns or in any order.
llvm::SmallVector<tile::DescReduceOp> copyableReductions(mlir::func::FuncOp kernel, llvm::ArrayRef<Turn> turns,
                                                         const AlignmentAnalysis &alignment);

/// The schedule with its parameters; std::nullopt, with a sentence in `why`, if it does not fit.
std::optional<Schedule> chooseStreams(mlir::func::FuncOp kernel, Streams &streams, const Target &target,
                                      const AlignmentAnalysis &alignment, std::optional<int64_t> stages,
                                      std::optional<int64_t> consumers, std::string &why);

/// Groups share an operand through a channel of two slots, so that one may be a step ahead of another.
bool sharesBySlots(mlir::func::FuncOp kernel, const Streams &streams, const AlignmentAnalysis &alignment);

/// For each copyable store, the load of the held block through whose memory it leaves. Nothing if one has none.
llvm::MapVector<mlir::Operation *, mlir::Operation *>
storesThroughHeld(mlir::func::FuncOp kernel, const Streams &streams, const AlignmentAnalysis &alignment);

/// There are no registers for a vector of numbers beside a step's products: threads load it where they use it.
bool loadsVectorsLate(const Streams &streams, int64_t consumers, bool bySlots);

/// Some loop can be rotated, there are registers for it, and no threads exchange what they add to memory: that would
/// take memory that the operands of products have while those are in flight.
bool mayRotate(mlir::func::FuncOp kernel, const Streams &streams, int64_t consumers,
               const AlignmentAnalysis &alignment);

/// Writes the schedule out.
void materializeStreams(mlir::func::FuncOp kernel, const Schedule &schedule, Streams streams);

} // namespace kiln::schedule
