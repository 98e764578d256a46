// The plan of a kernel's CPU code, made on tile IR before any code is emitted: which tiles live in memory, which ops
// share a loop nest, which results overwrite an operand, and to which buffer each loop-carried tile moves.
//
//   block ──▶ steps: [op] [group of roots] [op] [group of roots] ... [group of carries] terminator
//
// A *root* is work that must be emitted (a store, a reduction, writing a tile to memory). All other tiles are lazy: the
// roots that need them evaluate them. Consecutive roots over one index space form a *group*, which is one loop nest.
#pragma once
#include "compiler/conversion/tile_to_cpu/Shape.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace kiln::cpu {

struct Root {
  enum Kind {
    Materialise, ///< write `value` to memory
    Store,       ///< tile.store, tile.desc_store
    Reduce,      ///< tile.reduce
    Atomic,      ///< tile.atomic_rmw, tile.atomic_cas on tiles: element by element
    Assert,      ///< tile.assert on a tile
    Carry        ///< write `value`, which is operand `operand` of the terminator or loop `op`, to its carried buffer
  };
  Kind kind;
  mlir::Operation *op;
  mlir::Value value;
  unsigned operand = 0;

  llvm::SmallVector<mlir::Value> reads() const;
  llvm::ArrayRef<int64_t> space() const;
};

struct Step {
  mlir::Operation *op = nullptr; ///< a single op, or null: a group
  llvm::SmallVector<Root> roots;
  int reduceAxis = -1;
};

/// Where a carried tile is at the end of the block: slots [0, tile arguments) are the buffers of the block's tile
/// arguments in order, the following ones are spares.
struct CarrySlot {
  int slot = -1;
  bool copy = false; ///< the terminator copies it there (otherwise a Carry root writes it, or it is there already)
};

/// How one block with carried tiles uses its buffers.
struct CarryPlan {
  llvm::SmallVector<int64_t> argumentBytes; ///< of the block's tile arguments
  llvm::SmallVector<CarrySlot> slots;       ///< per tile operand of the terminator
  llvm::SmallVector<int64_t> spareBytes;    ///< spares this block needs
};

int64_t tileBytes(mlir::Type type);

class Plan {
public:
  Plan(mlir::func::FuncOp kernel, Shapes &shapes);

  /// True when the value has a buffer (once its step is done).
  bool stored(mlir::Value value) const;
  llvm::ArrayRef<Step> steps(mlir::Block *block) const;
  /// The value whose buffer this one takes over, or null.
  mlir::Value inPlaceOf(mlir::Value value) const { return inPlace.lookup(value); }
  /// The spare slot to which a stored value is written directly, or -1.
  int targetSlot(mlir::Value value) const;
  /// For blocks of scf.for and scf.while.
  const CarryPlan &carries(mlir::Block *block) const;
  /// True for an init of a for/while whose buffer becomes the loop's own (because no op reads it again).
  bool adopts(mlir::OpOperand &init) const { return adopted.contains(&init); }
  /// The value into whose buffer a branch writes what it yields; null: into a buffer of its own.
  mlir::Value branchTarget(mlir::Operation *yield, unsigned operand) const {
    return branchTargets.lookup({yield, operand});
  }
  /// True if the dot accumulates in its operand's buffer.
  bool accumulatesInPlace(mlir::Operation *dot) const { return inPlace.count(dot->getResult(0)); }

private:
  struct Reader {
    mlir::Block *block;
    unsigned step;
    bool identity;
  };
  struct Visit {
    bool identity = true, amplified = false;
  };
  using Visitor = llvm::function_ref<void(mlir::Value, Visit)>;

  void require(mlir::Value value);
  void requireByUse();
  void requireAcrossWrites();
  /// Stores values that would be computed twice and are expensive (one value per call) or long; false if there are
  /// none.
  bool requireShared();
  /// True if computing it takes so many ops that storing and loading it is cheaper.
  bool isLong(mlir::Value value) const;
  static constexpr unsigned kLong = 64;
  void buildSteps(mlir::Block *block);
  void buildAll();
  void collectReaders();
  /// Visits every tile that the root evaluates, once for each way in which it is read.
  void walk(const Root &root, Visitor visit) const;
  void walkValue(mlir::Value value, Visit state, bool descend, Visitor visit) const;
  void walkValue(mlir::Value value, Visit state, bool descend, Visitor visit,
                 llvm::DenseSet<std::pair<mlir::Value, unsigned>> &seen) const;
  void forEachRead(llvm::function_ref<void(const Root &, mlir::Block *, unsigned)> fn) const;
  bool joins(const Step &group, const Root &root) const;

  void planInPlace();
  void planBranches();
  void planCarries(mlir::Block *block);
  void planAdoption();
  bool mayOverwrite(mlir::Value old, mlir::Block *block, unsigned step) const;
  bool finishedBefore(const Reader &reader, mlir::Block *block, unsigned step) const;
  int slotOf(mlir::Value value, mlir::Block *body) const;

  mlir::func::FuncOp kernel;
  Shapes &shapes;
  llvm::DenseSet<mlir::Value> required;
  llvm::DenseMap<mlir::Block *, llvm::SmallVector<Step>> plans;
  llvm::DenseMap<mlir::Operation *, unsigned> stepOfOp;
  llvm::DenseMap<mlir::Value, unsigned> stepOfValue; ///< the step that writes a stored value
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Reader>> readers;
  llvm::DenseMap<mlir::Value, mlir::Value> inPlace;
  llvm::DenseMap<std::pair<mlir::Operation *, unsigned>, mlir::Value> branchTargets;
  /// Values whose buffer another value takes over.
  llvm::DenseSet<mlir::Value> claimed;
  /// Pairs of values of which one may be a pointer to the other's buffer, with the terminator that forwards it.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<std::pair<mlir::Value, mlir::Operation *>>> aliases;
  llvm::DenseMap<mlir::Value, int> targets;
  llvm::DenseMap<mlir::Block *, CarryPlan> carryPlans;
  llvm::DenseSet<mlir::OpOperand *> adopted;
};

} // namespace kiln::cpu
