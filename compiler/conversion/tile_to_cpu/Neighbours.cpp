// Addresses that may be contiguous: `(start + range) % n` is one run almost everywhere, but no analysis can prove it.
// Each vector of such addresses is tested where it becomes known; only those that really are scattered are gathered.
//
//     %w = arith.remsi (%start + range), %n : tensor<64xi32>;   %v = tile.load (%x + %w)
//   becomes, for each vector of 16,
//     %near = vector.reduction <and>, (%w == %w[0] + [0, 1, ..., 15])
//     %v = scf.if %near { llvm.load %x + %w[0] : vector<16xf32> } else { llvm.intr.masked.gather %x + %w }
#include "compiler/conversion/tile_to_cpu/Tiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

namespace {
/// The part of an address whose stride no rule gives, and the stride from lane to lane that it needs.
struct Unknown {
  Value tile;
  Index at;
  int64_t step;
};
} // namespace

/// Strips terms of known stride until only an unknown part is left. Returns false if its stride can never be as needed.
static bool peel(Shapes &shapes, const Frame &frame, Unknown &rest) {
  auto strideOf = [&](Value value) -> std::optional<int64_t> {
    return isTile(value) ? shapes.stride(value, rest.at.vectorDim) : 0;
  };
  while (true) {
    Operation *op = rest.tile.getDefiningOp();
    // A known stride would have been found by the analyses, so what gets here is not contiguous.
    if (strideOf(rest.tile))
      return false;
    if (!op || frame.holds(rest.tile))
      return true;
    if (isa<tile::AddPtrOp, arith::AddIOp, arith::SubIOp>(op)) {
      int64_t scale = 1;
      if (isa<tile::AddPtrOp>(op))
        scale = memoryBytes(cast<tile::PtrType>(elementOf(rest.tile)).getPointee());
      else if (isa<arith::SubIOp>(op))
        scale = -1;
      Value lhs = op->getOperand(0), rhs = op->getOperand(1);
      if (std::optional<int64_t> known = strideOf(rhs)) {
        rest.tile = lhs;
        rest.step -= *known * scale;
      } else if (std::optional<int64_t> known = strideOf(lhs)) {
        if ((rest.step - *known) % scale)
          return false;
        rest.tile = rhs;
        rest.step = (rest.step - *known) / scale;
      } else {
        return true;
      }
    } else if (isa<arith::MulIOp>(op)) {
      std::optional<int64_t> factor = constantOf(op->getOperand(1));
      if (!factor || *factor == 0)
        return true;
      if (rest.step % *factor)
        return false;
      rest.tile = op->getOperand(0);
      rest.step /= *factor;
    } else if (isa<arith::ExtSIOp, tile::HintOp, tile::PtrCastOp>(op)) {
      rest.tile = op->getOperand(0);
    } else if (isRenaming(op)) {
      rest.at = operandIndex(op, rest.at);
      rest.tile = op->getOperand(0);
    } else {
      return true;
    }
  }
}

Value Tiles::neighbours(Value pointers, const Index &at) {
  if (at.width < 4)
    return {};
  Unknown rest{pointers, at, memoryBytes(cast<tile::PtrType>(elementOf(pointers)).getPointee())};
  if (!peel(shapes, frame, rest))
    return {};
  Type element = isa<tile::PtrType>(elementOf(rest.tile)) ? b.getI64Type() : elementOf(rest.tile);
  // Narrow integers wrap around in normal programs.
  if (element.getIntOrFloatBitWidth() < 32)
    return {};
  Value lanes = evalVector(rest.tile, rest.at);
  // Test at the level where the lanes are known, once for everything that depends on them.
  Index known = rest.at;
  for (unsigned dim = 0; dim < known.at.size(); ++dim)
    if (shapes.uniform(rest.tile, dim))
      known.at[dim] = {};
  int level = nests.levelOf(known);
  std::vector<uintptr_t> key = keyOf(rest.tile, known);
  key.push_back(rest.step);
  Value &test = nests.cache(level)[key];
  if (test)
    return test;
  OpBuilder::InsertionGuard guard(b);
  nests.insertAt(level);
  Value first = vector::ExtractOp::create(b, lanes, 0);
  Value steps = arith::MulIOp::create(
      b, b.iota(element, at.width),
      b.splatConstant(VectorType::get({at.width}, element), b.getIntegerAttr(element, rest.step)));
  Value run = arith::AddIOp::create(b, b.toVector(first, at.width), steps);
  Value equal = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lanes, run);
  return test = vector::ReductionOp::create(b, vector::CombiningKind::AND, equal);
}
