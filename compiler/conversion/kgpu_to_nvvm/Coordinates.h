// Which element of a tile a register of this thread holds: what lane, warp, group and cta owe is computed once, at the
// entry; what the register adds is a constant.
//
//     blocked [256] vector 2 warps 4: register 1 of lane 3 in warp 2 holds element 2·64 + 3·2 + 1
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Place.h"

namespace kiln::nvvm {

class Coordinates {
public:
  Coordinates(CodeBuilder &b, Place &place) : b(b), place(place), parts(place) {}

  /// The part of the coordinate along `dim` that this thread's lane, warp, group and cta owe (i32; null when none do).
  mlir::Value threadPart(const layout::Layout &layout, unsigned dim);
  /// The coordinate of register `reg` along `dim`: thread part and constant. Where their bits do not overlap they are
  /// added without wrapping, so that the constant folds into addresses.
  mlir::Value of(const layout::Layout &layout, int64_t reg, unsigned dim);
  /// The same in two parts, to be added: a value (or null) and a constant.
  std::pair<mlir::Value, int64_t> inParts(const layout::Layout &layout, int64_t reg, unsigned dim);
  /// Row-major index of register `reg` in the tile (i32), constants folded likewise.
  mlir::Value linearIndex(const layout::Layout &layout, int64_t reg);
  /// i1: this thread owns the elements of its owner registers; null when every thread does.
  mlir::Value isOwner(const layout::Layout &layout);
  /// Value of a linear function of one hardware coordinate: digits of `coord` mapped by their bases along one
  /// dimension. `basis(digit index)` is what one step adds (bits: XORs). Null when all are zero.
  mlir::Value digitsValue(const layout::Layout &layout, layout::Coord coord,
                          llvm::function_ref<int64_t(unsigned)> basis);

private:
  /// What is known of a layout.
  struct Part {
    const layout::Layout layout;
    llvm::SmallVector<mlir::Value, 3> dims;
    llvm::SmallVector<bool, 3> known;
    mlir::Value owner;
    bool ownerKnown = false;
  };
  struct Parts {
    llvm::DenseMap<unsigned, llvm::SmallVector<std::unique_ptr<Part>, 1>> byHash;
  };
  Part &partOf(const layout::Layout &layout);

  CodeBuilder &b;
  Place &place;
  PerTeam<Parts, /*shared=*/false> parts;
};

} // namespace kiln::nvvm
