// What a thread says to the host, in the KilnDeviceLog of the launch (runtime/launch/Abi.h says what it means), and
// what becomes of a thread whose assertion has failed.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Place.h"

namespace kiln::nvvm {

class DeviceLog {
public:
  DeviceLog(mlir::func::FuncOp kernel, CodeBuilder &b, Place &place);

  /// Some op of the kernel prints or asserts.
  bool isNeeded() const { return needed; }
  /// The parameter that holds the log's address (i64).
  void setParameter(mlir::Value parameter) { hooks = parameter; }
  /// `offset` bytes into the log.
  mlir::Value address(int64_t offset);
  /// Index of the site of a print or assert.
  int64_t siteOf(mlir::Operation *op);
  llvm::ArrayRef<mlir::Attribute> sites() const { return described; }
  /// How many prints this instance has executed (i32); one more from here on.
  mlir::Value nextSequence();

  /// An assertion failed in this thread; of a scalar: in all threads of the program.
  void recordFailure(bool ofAll);
  /// `mask` (or null: always) where no assertion of this thread has failed yet. Tiles of global memory are accessed
  /// under it: what a thread goes on with after a failure may be an address out of bounds.
  mlir::Value unlessFailed(mlir::Value mask);

private:
  mlir::Value failureCell();

  mlir::func::FuncOp kernel;
  CodeBuilder &b;
  Place &place;
  mlir::Value hooks;
  llvm::DenseMap<mlir::Operation *, int64_t> siteIds;
  llvm::SmallVector<mlir::Attribute> described;
  bool needed = false;
  bool failuresEnd = true; ///< nobody waits for what a program has still to do
                           ///< when an assertion of it fails
  bool mayGoOn = false;    ///< a thread may go on after an assertion that failed
  mlir::Value cell;        ///< where it is kept that one has
  struct Held {
    mlir::Value printCount; ///< where the number of prints executed so far is kept
  };
  PerTeam<Held, /*shared=*/false> held;
};

} // namespace kiln::nvvm
