// Which element of a tile a register of this thread holds. The part that depends on lane, warp, group and cta is
// computed once, at the entry; the register's part is a constant.
//
//     blocked [256] vector 2 warps 4: register 1 of lane 3 in warp 2 holds element 2·64 + 3·2 + 1
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Place.h"

namespace kiln::nvvm {

class Coordinates {
public:
  Coordinates(CodeBuilder &b, Place &place) : b(b), place(place), parts(place) {}

  /// The part of the coordinate along `dim` due to this thread's lane, warp, group and cta (i32; null if it is zero).
  mlir::Value threadPart(const layout::Layout &layout, unsigned dim);
  /// The coordinate of register `reg` along `dim`: thread part plus constant. If their bits do not overlap, the
  /// addition is marked as not wrapping, so that the constant folds into addresses.
  mlir::Value of(const layout::Layout &layout, int64_t reg, unsigned dim);
  /// The same as two summands: a value (or null) and a constant.
  std::pair<mlir::Value, int64_t> inParts(const layout::Layout &layout, int64_t reg, unsigned dim);
  /// Row-major index of register `reg` in the tile (i32), with constants folded in the same way.
  mlir::Value linearIndex(const layout::Layout &layout, int64_t reg);
  /// i1: this thread owns the elements of its owner registers; null when every thread does.
  mlir::Value isOwner(const layout::Layout &layout);
  /// A linear function of one hardware coordinate: the digits of `coord`, mapped by bases along one dimension.
  /// `basis(digit index)` is what one step adds (a bit's is XORed). Null if all are zero.
  mlir::Value digitsValue(const layout::Layout &layout, layout::Coord coord,
                          llvm::function_ref<int64_t(unsigned)> basis);

private:
  /// What has been computed for a layout.
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
