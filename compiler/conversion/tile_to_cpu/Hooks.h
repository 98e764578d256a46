// Calls into the runtime (KilnHooks): print, assert, checked accesses; and the list of sites they refer to.
#pragma once
#include "compiler/conversion/tile_to_cpu/Nest.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/launch/Abi.h"

namespace kiln::cpu {

class Hooks {
public:
  Hooks(mlir::func::FuncOp kernel, CodeBuilder &b, Nests &nests) : kernel(kernel), b(b), nests(nests) {}

  /// The launch, its table of hooks, and the number of the program instance that runs.
  void begin(mlir::Value theLaunch, mlir::Value theTable) {
    launch = theLaunch;
    table = theTable;
  }
  void setProgram(mlir::Value number) { program = number; }
  llvm::ArrayRef<mlir::Attribute> sites() const { return described; }

  /// `list` points at pointers to the operands.
  void print(mlir::Operation *op, mlir::Value list);
  void fail(mlir::Operation *op, mlir::Value element);
  /// Lanes of a vector are `strideBytes` apart (null: one behind the other), or at `addresses`.
  void access(mlir::Operation *op, KilnAccess kind, mlir::Value address, mlir::Value mask, mlir::Type element,
              const Index &at, mlir::ArrayRef<int64_t> shape, mlir::Value strideBytes, mlir::Value addresses);
  /// An index of a tile that must be below `side`.
  void checkIndex(mlir::Operation *op, mlir::Value index, int64_t side, const Index &at, llvm::ArrayRef<int64_t> shape);
  /// Before the elements of one store of a tile.
  void storeBegins(mlir::Operation *op);

private:
  int siteOf(mlir::Operation *op);
  void call(int64_t hook, llvm::ArrayRef<mlir::Value> arguments);

  mlir::func::FuncOp kernel;
  CodeBuilder &b;
  Nests &nests;
  mlir::Value launch, table, program;
  llvm::SmallVector<mlir::Attribute> described;
  llvm::DenseMap<mlir::Operation *, int> siteIds;
};

} // namespace kiln::cpu
