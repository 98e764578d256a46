// Runs only the index arithmetic of a kernel: which addresses it touches, how often its loops iterate, which branches
// it takes. Given the scalar arguments and a grid this needs no data, unless an address is itself read from memory;
// such a value is unknown here, and so is everything that depends on it.
//
//   Indices indices(kernel, {.arguments = {{3, 4096}}, .grid = {977, 1, 1}});
//   indices.run({5, 0, 0}, /*turns=*/64,
//               [&](mlir::Operation *op, const Indices::Turn &) { ... indices.get(op->getOperand(0)) ... });
#pragma once
#include "compiler/analysis/KernelInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <array>
#include <memory>

namespace kiln::explain {

/// The integers (addresses, booleans) of a tile, row-major; a scalar is a tile of one element. If all are equal, one
/// element stands for all.
struct Numbers {
  llvm::SmallVector<int64_t, 3> shape;
  std::vector<int64_t> elements;

  int64_t size() const;
  bool uniform() const { return elements.size() == 1; }
  int64_t at(int64_t index) const { return elements[uniform() ? 0 : size_t(index)]; }
};
/// Null: unknown.
using Known = std::shared_ptr<const Numbers>;

struct Launch {
  llvm::DenseMap<unsigned, int64_t> arguments; ///< integers by index of the kernel's argument
  std::array<int64_t, 3> grid = {1, 1, 1};
};

class Indices {
public:
  Indices(mlir::func::FuncOp kernel, Launch launch);

  /// How often something happened; estimates are upper bounds where a condition was unknown.
  struct Turn {
    double weight = 1;      ///< the number of executions it stands for
    bool estimated = false; ///< inside a branch or loop whose condition is unknown
  };
  /// Runs one program instance. `visit` is called in order for each op that touches global memory or computes on tiles;
  /// meanwhile the current values can be queried. At most `turns` iterations of each loop are run, evenly spread over
  /// the loop if its values depend on the induction variable alone, otherwise the first ones; each stands for its
  /// share.
  void run(std::array<int64_t, 3> program, int64_t turns,
           llvm::function_ref<void(mlir::Operation *, const Turn &)> visit);

  Known get(mlir::Value value) const { return values.lookup(value); }
  /// The one integer of a known scalar.
  std::optional<int64_t> number(mlir::Value value) const;
  /// Iterations of each loop that were seen, and how many times the loop was entered.
  struct Loop {
    double turns = 0, entries = 0;
    bool estimated = false;
  };
  const llvm::DenseMap<mlir::Operation *, Loop> &loops() const { return loopTable; }

  /// The kernel argument that an address made by this class points into, and the offset from its start in bytes.
  static std::pair<unsigned, int64_t> argumentOf(int64_t address);

private:
  void findNeeded();
  void runBlock(mlir::Block &block, const Turn &turn);
  void runFor(mlir::scf::ForOp loop, const Turn &turn);
  void runWhile(mlir::scf::WhileOp loop, const Turn &turn);
  void runIf(mlir::scf::IfOp branch, const Turn &turn);
  Known evaluate(mlir::Operation &op);
  void copy(mlir::ValueRange from, mlir::ValueRange to);

  mlir::func::FuncOp kernel;
  Launch launch;
  llvm::DenseSet<mlir::Value> needed; ///< what some address, mask, bound or condition depends on
  llvm::DenseMap<mlir::Value, Known> values;
  llvm::DenseMap<mlir::Operation *, Loop> loopTable;
  std::array<int64_t, 3> program = {0, 0, 0};
  int64_t mostTurns = 1;
  llvm::function_ref<void(mlir::Operation *, const Turn &)> visit;
};

} // namespace kiln::explain
