// Reports of a thread to the host, in the launch's KilnDeviceLog (runtime/launch/Abi.h describes it), and how a thread
// continues after its assertion has failed.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Place.h"

namespace kiln::nvvm {

class DeviceLog {
public:
  DeviceLog(mlir::func::FuncOp kernel, CodeBuilder &b, Place &place);

  /// True if some op of the kernel prints or asserts.
  bool isNeeded() const { return needed; }
  /// The parameter that holds the log's address (i64).
  void setParameter(mlir::Value parameter) { hooks = parameter; }
  /// `offset` bytes into the log.
  mlir::Value address(int64_t offset);
  /// Index of the site of a print or assert.
  int64_t siteOf(mlir::Operation *op);
  llvm::ArrayRef<mlir::Attribute> sites() const { return described; }
  /// The number of prints that this instance has executed so far (i32); increments it.
  mlir::Value nextSequence();

  /// An assertion failed in this thread; with `ofAll`, an assertion on a scalar: in all threads of the program.
  void recordFailure(bool ofAll);
  /// `mask` (null: always) restricted to threads in which no assertion has failed. Accesses to tiles of global memory
  /// use it: after a failure, the addresses that a thread continues with may be out of bounds.
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
  bool failuresEnd = true; ///< a program may end when its assertion fails,
                           ///< because no other program waits for the rest of its work
  bool mayGoOn = false;    ///< a thread may continue after a failed assertion
  mlir::Value cell;        ///< the flag that one has failed
  struct Held {
    mlir::Value printCount; ///< the cell that counts the prints executed so far
  };
  PerTeam<Held, /*shared=*/false> held;
};

} // namespace kiln::nvvm
