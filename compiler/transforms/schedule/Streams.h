// Several products in loops, as gradients of attention have them: what is multiplied comes in blocks through
// descriptors, stays (a block of keys) or is walked (blocks of queries), and what a product gives another one
// multiplies.
#pragma once
#include "compiler/transforms/schedule/Schedule.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/MapVector.h"

namespace kiln::schedule {

/// The name of the schedule.
constexpr llvm::StringLiteral kStreams = "streams";

/// A block that products alone use, or a row of numbers that comes beside some.
struct Stream {
  tile::DescLoadOp load;
  tile::ReshapeOp reshape; ///< null: the block is a matrix or row as it is loaded
  tile::MakeDescOp desc;
  mlir::RankedTensorType type; ///< without sides of 1: a matrix or a row

  bool isRow() const { return type.getRank() == 1; }
  mlir::Value value() { return reshape ? reshape.getResult() : load.getResult(); }
};

/// What a product multiplies: a block as it came, or transposed (`load`); else a tile that was computed, from
/// registers, or through memory of its own where it is the right factor or `transposed`.
struct StreamFactor {
  mlir::Operation *load = nullptr;
  mlir::Value tile; ///< as it was before it was transposed
  bool transposed = false;
};

struct Streams {
  llvm::SmallVector<tile::DotOp> dots;
  llvm::MapVector<mlir::Operation *, Stream> blocks; ///< by what loads them, in the order of the program
  llvm::DenseSet<mlir::Operation *> parts;           ///< loads, what shapes and transposes them, and products

  StreamFactor factorOf(mlir::Value value) const;
  bool isStored(tile::DotOp dot, bool right) const {
    StreamFactor factor = factorOf(right ? dot.getRhs() : dot.getLhs());
    return !factor.load && (right || factor.transposed);
  }
  /// Too few rows for all groups to have 64 of their own: they have columns.
  static bool isCutByColumns(tile::DotOp dot, int64_t groups) {
    return dot.getType().getShape()[0] % (64 * groups) != 0;
  }
  /// Memory for a computed factor of this type; std::nullopt where there is none that products can read.
  std::optional<kgpu::MemType> factorMemory(mlir::RankedTensorType type, int64_t groups) const;
  /// Memory for computed factors that are read from there, as many of a type as there are at once.
  llvm::SmallVector<mlir::Type> storedFactors() const;
  /// Loads of one block of ops, in its order: they come in one slot.
  using Group = llvm::SmallVector<mlir::Operation *, 4>;
  /// Groups by the ring that they come through: loops that walk the same blocks of the same arrays share one.
  llvm::SmallVector<llvm::SmallVector<Group>> rings() const;
  /// In front of all loops: loaded once by a program.
  bool isHeld(mlir::Operation *load) const { return mlir::isa<mlir::FunctionOpInterface>(load->getParentOp()); }
};

/// The products of a kernel and what streams past them. Nothing, with a sentence in `why`, where there are fewer than
/// two, or where loops do what the schedule cannot take apart.
std::optional<Streams> findStreams(mlir::func::FuncOp kernel, std::string &why);

/// Memory of one slot; std::nullopt where the copy engine cannot lay it out.
std::optional<kgpu::MemType> slotMemory(const Stream &stream);

/// Stores of blocks of rank 2 (or reshaped from it) behind the loops, which the copy engine could make.
llvm::SmallVector<tile::DescStoreOp> copyableStores(mlir::func::FuncOp kernel, const AlignmentAnalysis &alignment);

/// Reductions of blocks, in the loops or behind them, which the copy engine can make.
llvm::SmallVector<tile::DescReduceOp> copyableReductions(mlir::func::FuncOp kernel, const AlignmentAnalysis &alignment);

/// The schedule with its numbers; std::nullopt, with a sentence in `why`, where it does not fit.
std::optional<Schedule> chooseStreams(mlir::func::FuncOp kernel, Streams &streams, const Target &target,
                                      const AlignmentAnalysis &alignment, std::optional<int64_t> stages,
                                      std::optional<int64_t> consumers, std::string &why);

/// Writes it out.
void materializeStreams(mlir::func::FuncOp kernel, const Schedule &schedule, Streams streams);

} // namespace kiln::schedule
