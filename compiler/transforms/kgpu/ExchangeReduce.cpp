// tile.reduce along warps or ctas: each warp's part, one exchange of those parts, the rest inside each warp.
#include "compiler/transforms/kgpu/Exchange.h"
#include "dialects/kgpu/Combine.h"
#include "dialects/kgpu/PartialLayout.h"
#include "dialects/layout/Memory.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;
using layout::Digit;
using layout::Digits;
using layout::kNumCoords;
using layout::Layout;

/// How the parts are read: each thread has the rows that `rows` (the operand's layout without the axis) gives it, with
/// the parts of a row in its fastest registers and, when there are many, in lanes that would only repeat.
static Layout gatheredParts(const Layout &rows, unsigned axis, int64_t places) {
  Layout whole = rows.expand(axis);
  std::array<Digits, kNumCoords> digits;
  for (unsigned c = 0; c < kNumCoords; ++c)
    digits[c].assign(whole.digits(Coord(c)).begin(), whole.digits(Coord(c)).end());
  layout::Side side = *layout::splitSide(places);
  unsigned bits = llvm::Log2_64(side.power);
  // One 16-byte load and three sums are done before a shuffle is; more parts go to lanes. With many rows, all of them
  // do.
  bool manyRows = rows.registers() >= 8;
  unsigned inRegisters = bits <= 3 && !manyRows ? bits : manyRows ? 0 : 2;
  uint64_t repeats = whole.ownerMask(Coord::Lane);
  auto axisDigit = [&](int64_t radix, int64_t step) {
    Digit digit{radix, layout::Index(whole.rank(), 0)};
    digit.basis[axis] = step;
    return digit;
  };
  unsigned bit = inRegisters;
  for (auto [i, digit] : llvm::enumerate(digits[unsigned(Coord::Lane)]))
    if (bit < bits && (repeats >> i & 1) && digit.replicates())
      digit = axisDigit(2, int64_t(1) << bit++);
  Digits registers;
  for (unsigned i = 0; i < inRegisters; ++i)
    registers.push_back(axisDigit(2, int64_t(1) << i));
  for (; bit < bits; ++bit)
    registers.push_back(axisDigit(2, int64_t(1) << bit));
  if (side.odd > 1)
    registers.push_back(axisDigit(side.odd, side.power));
  llvm::append_range(registers, digits[unsigned(Coord::Reg)]);
  digits[unsigned(Coord::Reg)] = registers;
  SmallVector<int64_t, 3> shape(whole.shape());
  shape[axis] = places;
  return *Layout::create(shape, digits);
}

static SmallVector<Type> rowTypes(tile::ReduceOp reduce, const Layout &layout, unsigned axis) {
  SmallVector<Type> types;
  for (Value result : reduce.getResults()) {
    auto tensor = dyn_cast<RankedTensorType>(result.getType());
    types.push_back(tensor ? Type(tileType(tensor.getElementType(), layout.slice(axis))) : result.getType());
  }
  return types;
}

/// A reduction of `operands` with the region of `reduce`, brought to the types of its results.
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

/// The region of `from` as that of a kgpu op.
static void copyCombine(Region &from, Region &to, OpBuilder &builder) {
  IRMapping map;
  from.cloneInto(&to, map);
  Operation *end = to.front().getTerminator();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(end);
  YieldOp::create(builder, end->getLoc(), end->getOperands());
  end->erase();
}

static LogicalResult exchangeReduce(Exchanges &exchanges, Operation *op) {
  auto reduce = cast<tile::ReduceOp>(op);
  unsigned axis = reduce.getAxis();
  Layout layout = layoutOf(reduce.getOperand(0).getType());
  bool commutative = isCommutative(reduce.getCombine());
  WarpSpread spread = warpSpread(layout, axis);
  bool ordered = spread.inPieces && !commutative;
  SmallVector<Value> operands(reduce.getOperands());
  // Operands may come in layouts of their own; tuples are combined in one.
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
  copyCombine(reduce.getCombine(), partial.getCombine(), exchanges.b);
  Layout gathered = gatheredParts(layout.slice(axis), axis, spread.places);
  // Stores first, then loads: one barrier for all operands.
  SmallVector<Value> places, loaded;
  for (Value part : partial.getResults()) {
    Type element = cast<RankedTensorType>(part.getType()).getElementType();
    bool split = !spread.overCtas &&
                 llvm::any_of(layout.digits(Coord::Cta), [](const Digit &digit) { return !digit.replicates(); });
    Layout memory = split ? layout::chooseMemory(parts, gathered, elementBytes(element))
                          : exchanges.wholeInEachCta(parts.shape(), axis);
    places.push_back(exchanges.allocate(element, memory));
    exchanges.store(part, places.back());
  }
  for (Value place : places)
    loaded.push_back(exchanges.load(place, gathered));
  finish(exchanges, reduce, loaded, gathered);
  return success();
}

void kgpu::addReduceExchange(ExchangeTable &table) { table[tile::ReduceOp::getOperationName()] = exchangeReduce; }
