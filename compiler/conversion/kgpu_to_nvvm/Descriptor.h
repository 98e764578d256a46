// Where the elements of a block of a described array lie, and which of them are inside the array, register by register.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "mlir/IR/Matchers.h"
#include <map>

namespace kiln::nvvm {

/// Collects all make_desc ops that a descriptor may come from; returns false if one is not known.
bool collectOrigins(mlir::Value desc, llvm::SmallVectorImpl<tile::MakeDescOp> &origins);

/// The operands and the layout of an access to a block.
struct BlockAccess {
  mlir::Value desc;
  mlir::ValueRange offsets;
  std::optional<llvm::ArrayRef<int32_t>> boundary;
  const layout::Layout *layout;

  bool checks(unsigned dim) const { return !boundary || llvm::is_contained(*boundary, int32_t(dim)); }
};

/// Addresses and predicates of the registers of a block.
class BlockAddresses {
public:
  BlockAddresses(Lowering &lowering, const BlockAccess &block, mlir::Type element)
      : lowering(lowering), b(lowering.b), block(block), bytes(memoryBytes(element)), rank(block.layout->rank()),
        parts(lowering.get(block.desc)) {
    for (mlir::Value offset : block.offsets) {
      mlir::Value value = lowering.scalar(offset);
      starts.push_back(
          value.getType().isInteger(64) ? value : mlir::arith::ExtSIOp::create(b, b.getI64Type(), value).getResult());
    }
  }

  /// The widest access along a dimension of stride 1 that alignment allows and that bounds do not cut; with `mayEnd`,
  /// the array may end inside it.
  int64_t width(bool mayEnd = false) {
    llvm::SmallVector<tile::MakeDescOp> origins;
    if (!collectOrigins(block.desc, origins) || origins.empty())
      return 1;
    const AlignmentAnalysis &alignment = lowering.alignment;
    auto divides = [&](mlir::Value value, int64_t divisor) {
      return alignment.get(value).everyElement() % divisor == 0;
    };
    int64_t best = 1;
    for (unsigned dim = 0; dim < rank; ++dim) {
      int64_t count = block.layout->contiguity(dim);
      count = std::min(count & -count, lowering.target.vectorBytes / bytes);
      auto fits = [&](int64_t count) {
        for (tile::MakeDescOp origin : origins) {
          if (!mlir::matchPattern(origin.getStrides()[dim], mlir::m_One()))
            return false;
          if (!divides(origin.getBase(), count * bytes) || !divides(block.offsets[dim], count))
            return false;
          if (!mayEnd && block.checks(dim) && !divides(origin.getShape()[dim], count))
            return false;
          for (unsigned other = 0; other < rank; ++other)
            if (other != dim && !divides(origin.getStrides()[other], count) && !isZero(block, other))
              return false;
        }
        return true;
      };
      while (count > 1 && !fits(count))
        count /= 2;
      best = std::max(best, count);
    }
    return best;
  }

  mlir::Value address(int64_t reg) {
    // The parts due to the thread and the offsets are one sum for all registers; a register adds a constant times a
    // stride.
    std::vector<void *> key;
    llvm::SmallVector<std::pair<mlir::Value, int64_t>> coordinates;
    for (unsigned dim = 0; dim < rank; ++dim) {
      coordinates.push_back(lowering.coordinates.inParts(*block.layout, reg, dim));
      key.push_back(coordinates.back().first.getAsOpaquePointer());
    }
    mlir::Value &base = bases[key];
    if (!base) {
      base = parts[0];
      for (unsigned dim = 0; dim < rank; ++dim) {
        mlir::Value place = starts[dim];
        if (mlir::Value thread = coordinates[dim].first)
          place = mlir::arith::AddIOp::create(b, place, mlir::arith::ExtUIOp::create(b, b.getI64Type(), thread));
        base = lowering.b.offsetBy(base, mlir::arith::MulIOp::create(b, place, strideBytes(dim)).getResult());
      }
    }
    mlir::Value address = base;
    for (unsigned dim = 0; dim < rank; ++dim)
      if (int64_t constant = coordinates[dim].second) {
        mlir::Value &distance = distances[{dim, constant}];
        if (!distance)
          distance = mlir::arith::MulIOp::create(b, strideBytes(dim), lowering.b.i64(constant));
        address = lowering.b.offsetBy(address, distance);
      }
    return address;
  }

  /// The predicate of a register; null if all elements are inside.
  mlir::Value mask(int64_t reg) {
    mlir::Value all;
    for (unsigned dim = 0; dim < rank; ++dim) {
      if (!block.checks(dim))
        continue;
      auto [thread, constant] = lowering.coordinates.inParts(*block.layout, reg, dim);
      mlir::Value &inside = insides[{dim, {thread.getAsOpaquePointer(), constant}}];
      if (!inside) {
        mlir::Value place = positionOf(dim, thread, constant);
        // Compared as unsigned numbers, negative positions are beyond every extent.
        inside = mlir::arith::CmpIOp::create(b, mlir::arith::CmpIPredicate::ult, place, parts[1 + dim]);
      }
      all = all ? mlir::arith::AndIOp::create(b, all, inside).getResult() : inside;
    }
    return all;
  }

  /// i32: how many of `count` elements along `dim`, starting at the register's, are inside, provided that the first one
  /// is; null if always all of them.
  mlir::Value inside(int64_t reg, unsigned dim, int64_t count) {
    llvm::SmallVector<tile::MakeDescOp> origins;
    bool known = collectOrigins(block.desc, origins) && !origins.empty();
    auto divides = [&](mlir::Value value) { return lowering.alignment.get(value).everyElement() % count == 0; };
    if (!block.checks(dim) ||
        (known && divides(block.offsets[dim]) &&
         llvm::all_of(origins, [&](tile::MakeDescOp made) { return divides(made.getShape()[dim]); })))
      return {};
    auto [thread, constant] = lowering.coordinates.inParts(*block.layout, reg, dim);
    mlir::Value &held = counts[{dim, {thread.getAsOpaquePointer(), constant}}];
    if (!held) {
      mlir::Value left = mlir::arith::SubIOp::create(b, parts[1 + dim], positionOf(dim, thread, constant));
      left = mlir::arith::MinUIOp::create(b, left, lowering.b.i64(count));
      held = mlir::arith::TruncIOp::create(b, b.getI32Type(), left);
    }
    return held;
  }

private:
  static bool isZero(const BlockAccess &block, unsigned dim) {
    return block.layout->shape()[dim] == 1 && mlir::matchPattern(block.offsets[dim], mlir::m_Zero());
  }
  mlir::Value positionOf(unsigned dim, mlir::Value thread, int64_t constant) {
    mlir::Value place = starts[dim];
    if (thread)
      place = mlir::arith::AddIOp::create(b, place, mlir::arith::ExtUIOp::create(b, b.getI64Type(), thread));
    if (constant)
      place = mlir::arith::AddIOp::create(b, place, lowering.b.i64(constant));
    return place;
  }
  mlir::Value strideBytes(unsigned dim) {
    mlir::Value &stride = strides[dim];
    if (!stride)
      stride = mlir::arith::MulIOp::create(b, parts[1 + rank + dim], lowering.b.i64(bytes));
    return stride;
  }

  Lowering &lowering;
  CodeBuilder &b;
  const BlockAccess &block;
  int64_t bytes;
  unsigned rank;
  llvm::ArrayRef<mlir::Value> parts; ///< base, extents, strides
  llvm::SmallVector<mlir::Value> starts;
  std::map<unsigned, mlir::Value> strides;
  std::map<std::vector<void *>, mlir::Value> bases;
  std::map<std::pair<unsigned, int64_t>, mlir::Value> distances;
  std::map<std::pair<unsigned, std::pair<void *, int64_t>>, mlir::Value> insides, counts;
};

} // namespace kiln::nvvm
