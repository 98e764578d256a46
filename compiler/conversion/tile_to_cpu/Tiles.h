// Lazy tiles: the value of a tile at an index, as a scalar or as one vector along a dimension; and stores of tiles,
// which trigger the evaluation.
//
// First, dimensions along which a value is uniform are dropped from the index. A value whose index then depends only on
// outer loops is emitted there, once: the index determines the loop depth.
//
//     store(y[i, j], x[i] + w[j])     in the loop over j: load w; add; store. In the loop over i: load x, once per row.
#pragma once
#include "compiler/analysis/Alignment.h"
#include "compiler/conversion/tile_to_cpu/Frame.h"
#include "compiler/conversion/tile_to_cpu/Hooks.h"
#include "compiler/conversion/tile_to_cpu/ScalarOps.h"
#include "compiler/conversion/tile_to_cpu/Values.h"
#include "llvm/ADT/SmallSet.h"

namespace kiln::cpu {

enum class Check { None, Bounds, Races };

class Tiles {
public:
  Tiles(CodeBuilder &b, Values &values, Frame &frame, Nests &nests, Buffers &buffers, Hooks &hooks, Shapes &shapes,
        const AlignmentAnalysis &alignment, Check check)
      : b(b), values(values), frame(frame), nests(nests), buffers(buffers), hooks(hooks), shapes(shapes),
        alignment(alignment), check(check) {}

  mlir::Value eval(mlir::Value tile, Index at);
  mlir::Value evalVector(mlir::Value tile, const Index &at);
  /// Evaluates outside of any nest.
  mlir::Value evalAlone(mlir::Value tile, Index at);
  /// Stores one or several elements.
  void store(mlir::Operation *op, const Index &at);
  /// Applies the region of a reduction or scan.
  llvm::SmallVector<mlir::Value> combine(mlir::Region &region, llvm::ArrayRef<mlir::Value> arguments);

  /// True if `width` elements, starting at a multiple of it, are contiguous.
  bool contiguous(mlir::Value pointers, unsigned dim, int64_t width);
  /// Masks known to be true in the loop being emitted.
  llvm::SmallDenseSet<mlir::Value> trueMasks;

private:
  mlir::Value evalOp(mlir::Value tile, const Index &at);
  mlir::Value evalConstant(mlir::arith::ConstantOp op, const Index &at);
  mlir::Value evalElementwise(mlir::Value tile, const Index &at);
  mlir::Value evalRange(tile::MakeRangeOp op, const Index &at);
  mlir::Value evalInlineAsm(mlir::Value tile, const Index &at);
  void memoise(mlir::Value tile, const Index &at, mlir::Value lowered);
  std::vector<uintptr_t> keyOf(mlir::Value tile, const Index &at) const;

  //--- EvaluateShape.cpp
  mlir::Value evalReshape(tile::ReshapeOp op, const Index &at);
  mlir::Value evalSplit(mlir::Value tile, const Index &at);
  mlir::Value evalJoin(tile::JoinOp op, const Index &at);
  mlir::Value evalCat(tile::CatOp op, const Index &at);

  //--- Memory.cpp
  mlir::Value evalLoad(tile::LoadOp op, const Index &at);
  mlir::Value evalDescLoad(tile::DescLoadOp op, const Index &at);
  void storeBox(tile::DescStoreOp op, const Index &at);
  mlir::Value addressOf(mlir::Value pointers, const Index &at);
  struct BoxPart {
    mlir::Value address, mask, stride; ///< of lane 0; i1 scalar, vector or null; bytes per step, or null (contiguous)
  };
  BoxPart boxPart(const Descriptor &desc, mlir::ValueRange offsets, std::optional<llvm::ArrayRef<int32_t>> boundary,
                  mlir::Type element, const Index &at);
  /// In Neighbours.cpp: an i1 that says whether this vector's pointers are contiguous; null if they never are.
  mlir::Value neighbours(mlir::Value pointers, const Index &at);

  CodeBuilder &b;
  Values &values;
  Frame &frame;
  Nests &nests;
  Buffers &buffers;
  Hooks &hooks;
  Shapes &shapes;
  const AlignmentAnalysis &alignment;
  const Check check;
};

} // namespace kiln::cpu
