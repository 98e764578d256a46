// The kernel's dynamic shared memory: where it begins.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Place.h"

namespace kiln::nvvm {

class SharedWindow {
public:
  SharedWindow(mlir::func::FuncOp kernel, CodeBuilder &b, Place &place)
      : kernel(kernel), b(b), place(place), held(place) {}

  /// A !llvm.ptr<3> to its start.
  mlir::Value base();
  /// The 32-bit address, as PTX takes it, `offset` bytes after the start.
  mlir::Value address(int64_t offset);

private:
  mlir::func::FuncOp kernel;
  CodeBuilder &b;
  Place &place;
  struct Held {
    mlir::Value base, address;
  };
  PerTeam<Held, /*shared=*/true> held;
};

} // namespace kiln::nvvm
