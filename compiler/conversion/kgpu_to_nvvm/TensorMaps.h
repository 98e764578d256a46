// The maps that the launch derives from the arguments. Each distinct map is one parameter of the kernel, after all
// others.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Place.h"
#include "compiler/target/Target.h"

namespace kiln::nvvm {

class TensorMaps {
public:
  TensorMaps(CodeBuilder &b, Place &place) : b(b), place(place) {}

  /// Finds the kernel's maps and how the launch derives them; fails, reported, where it cannot.
  mlir::LogicalResult collect(mlir::func::FuncOp kernel, const Target &target);
  unsigned size() const { return unsigned(maps.size()); }
  /// Sets the attributes of the last parameters of `entry`, which start after `offset` bytes of others, and prefetches
  /// the maps into the processor's cache. Returns what the metadata says of them, or null.
  mlir::ArrayAttr bind(mlir::LLVM::LLVMFuncOp entry, int64_t offset);
  /// The address of a map among the parameters (!llvm.ptr, generic: "l" in PTX).
  mlir::Value parameter(mlir::LLVM::LLVMFuncOp entry, mlir::Operation *map) const {
    return entry.getArgument(entry.getNumArguments() - size() + ids.at(map));
  }

private:
  CodeBuilder &b;
  Place &place;
  llvm::SmallVector<mlir::DictionaryAttr, 4> maps; ///< as the metadata describes them, without the offset
  llvm::DenseMap<mlir::Operation *, unsigned> ids;
};

} // namespace kiln::nvvm
