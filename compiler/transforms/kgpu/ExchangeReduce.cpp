// tile.reduce along warps or ctas: a partial result per warp, one exchange of those, the rest inside each warp.
//
//     %s = tile.reduce(%x) axis 0 { addf } : (tensor<4096xf32, blocked [4096] vector 8 warps 4>) -> f32
//   becomes
//     %0 = kgpu.partial_reduce(%x) axis 0 { addf } : ... -> tensor<4xf32, one element per warp>
//     %1 = kgpu.alloc : <4xf32>
//     kgpu.local_store %0, %1
//     %2 = kgpu.local_load %1 : ... -> tensor<4xf32, replicated [4] warps 4>
//     %s = tile.reduce(%2) axis 0 { addf } : ... -> f32
#include "compiler/transforms/kgpu/Exchange.h"
#include "dialects/kgpu/Combine.h"
#include "dialects/kgpu/PartialLayout.h"
#include "dialects/layout/Memory.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;
using layout::Digit;
using layout::Layout;

/// How the partial results are read. One 16-byte load and three additions finish before a shuffle does; more partials
/// go to lanes. With many rows, all of them do.
static Layout gatheredParts(const Layout &rows, unsigned axis, int64_t places) {
  bool manyRows = rows.registers() >= 8;
  return inEachWarp(rows, axis, places, manyRows ? 0 : llvm::Log2_64(layout::splitSide(places)->power) <= 3 ? 3 : 2);
}

static SmallVector<Type> rowTypes(tile::ReduceOp reduce, const Layout &layout, unsigned axis) {
  SmallVector<Type> types;
  for (Value result : reduce.getResults()) {
    auto tensor = dyn_cast<RankedTensorType>(result.getType());
    types.push_back(tensor ? Type(tileType(tensor.getElementType(), layout.slice(axis))) : result.getType());
  }
  return types;
}

/// Reduces `operands` with the region of `reduce`, and converts the results to its result types.
static void finish(Exchanges &exchanges, tile::ReduceOp reduce, ValueRange operands, const Layout &layout) {
  unsigned axis = reduce.getAxis();
  auto rest = tile::ReduceOp::create(exchanges.b, rowTypes(reduce, layout, axis), operands, axis);
  rest.getCombine().takeBody(reduce.getCombine());
  SmallVector<Value> results;
  for (auto [result, original] : llvm::zip(rest.getResults(), reduce.getResults()))
    results.push_back(isa<RankedTensorType>(original.getType())
                          ? exchanges.convert(result, layoutOf(original.getType()))
                          : Value(result));
  exchanges.replace(reduce, results);
}

/// Partials from all ctas can be counted as they arrive, which costs less than a cluster barrier. No sender is told
/// that its partial was read. In a loop, what each warp sends in the next iteration implies it, so two slots are
/// enough.
static bool fitsMbarrier(tile::ReduceOp reduce, const Layout &parts, Type element) {
  if (int64_t bytes = tile::memoryBytes(element); bytes != 4 && bytes != 8)
    return false;
  Operation *parent = reduce->getParentOp();
  if (isa<func::FuncOp>(parent))
    return true;
  bool everyWarpSends = llvm::none_of(ArrayRef{Coord::Warp, Coord::Group, Coord::Cta},
                                      [&](Coord coord) { return parts.isReplicated(coord); });
  return isa<scf::ForOp>(parent) && isa<func::FuncOp>(parent->getParentOp()) && everyWarpSends;
}

static LogicalResult exchangeReduce(Exchanges &exchanges, Operation *op) {
  auto reduce = cast<tile::ReduceOp>(op);
  unsigned axis = reduce.getAxis();
  Layout layout = layoutOf(reduce.getOperand(0).getType());
  bool commutative = isCommutative(reduce.getCombine());
  WarpSpread spread = warpSpread(layout, axis);
  bool ordered = spread.inPieces && !commutative;
  SmallVector<Value> operands(reduce.getOperands());
  // Operands may have different layouts; tuples are combined in one layout.
  if (!spread.ownDigits || (ordered && !partialLayout(layout, axis, ordered))) {
    layout = axisInWarp(layout, axis, 4);
    spread = warpSpread(layout, axis);
    ordered = false;
  }
  bool moved = false;
  for (Value &operand : operands) {
    Value converted = exchanges.convert(operand, layout);
    moved |= converted != operand;
    operand = converted;
  }
  if (spread.places == 1) {
    bool sameRows = llvm::equal(rowTypes(reduce, layout, axis), reduce.getResultTypes());
    if (moved || !sameRows)
      finish(exchanges, reduce, operands, layout);
    return success();
  }
  spread = warpSpread(layout, axis, ordered);
  Layout parts = *partialLayout(layout, axis, ordered);
  SmallVector<Type> types;
  for (Value operand : operands)
    types.push_back(tileType(cast<RankedTensorType>(operand.getType()).getElementType(), parts));
  auto partial = PartialReduceOp::create(exchanges.b, types, operands, axis, ordered);
  exchanges.copyCombine(reduce.getCombine(), partial.getCombine());
  Layout gathered = gatheredParts(layout.slice(axis), axis, spread.places);
  // All stores before all loads: one barrier for all operands.
  SmallVector<Value> places, loaded;
  for (Value part : partial.getResults()) {
    Type element = cast<RankedTensorType>(part.getType()).getElementType();
    bool split = !spread.overCtas &&
                 llvm::any_of(layout.digits(Coord::Cta), [](const Digit &digit) { return !digit.replicates(); });
    Layout memory = split ? layout::chooseMemory(parts, gathered, tile::memoryBytes(element))
                          : exchanges.wholeInEachCta(parts.shape(), axis);
    places.push_back(exchanges.allocate(element, memory, spread.overCtas && fitsMbarrier(reduce, parts, element)));
    exchanges.store(part, places.back());
  }
  for (Value place : places)
    if (place.getDefiningOp<AllocOp>().getMbarrier())
      AwaitOp::create(exchanges.b, place);
  for (Value place : places)
    loaded.push_back(exchanges.load(place, gathered));
  finish(exchanges, reduce, loaded, gathered);
  return success();
}

void kgpu::addReduceExchange(ExchangeTable &table) { table[tile::ReduceOp::getOperationName()] = exchangeReduce; }
