// Calls into the runtime (KilnHooks): print, assert, checked accesses; and the list of sites they refer to.
#pragma once
#include "compiler/conversion/tile_to_cpu/Nest.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/launch/Abi.h"

namespace kiln::cpu {

class Hooks {
public:
  Hooks(mlir::func::FuncOp kernel, CodeBuilder &b, Nests &nests) : kernel(kernel), b(b), nests(nests) {}

  /// Sets the launch and its table of hooks; setProgram() sets the number of the program instance that runs.
  void begin(mlir::Value theLaunch, mlir::Value theTable) {
    launch = theLaunch;
    table = theTable;
  }
  void setProgram(mlir::Value number) { program = number; }
  llvm::ArrayRef<mlir::Attribute> sites() const { return described; }

  /// `list` points to an array of pointers to the operands.
  void print(mlir::Operation *op, mlir::Value list);
  void fail(mlir::Operation *op, mlir::Value element);
  /// The lanes of a vector are `strideBytes` apart (null: contiguous), or at `addresses`.
  void access(mlir::Operation *op, KilnAccess kind, mlir::Value address, mlir::Value mask, mlir::Type element,
              const Index &at, mlir::ArrayRef<int64_t> shape, mlir::Value strideBytes, mlir::Value addresses);
  /// Checks that an index of a tile is below `side`.
  void checkIndex(mlir::Operation *op, mlir::Value index, int64_t side, const Index &at, llvm::ArrayRef<int64_t> shape);
  /// Precedes the accesses of one store of a tile.
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
