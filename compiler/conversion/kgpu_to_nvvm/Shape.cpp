// Ops that make tiles or change their shape: registers are renamed. Where renaming is not enough, an earlier pass has
// inserted a conversion.
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/layout/Builder.h"
#include "dialects/layout/Conversion.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Coord;
using layout::Layout;

/// `result` as a layout of another shape with the same register numbers; `basis` maps each digit's basis to that shape.
static std::optional<Layout> project(const Layout &result, ArrayRef<int64_t> shape,
                                     llvm::function_ref<layout::Index(const layout::Index &)> basis) {
  layout::LayoutBuilder projected(shape);
  for (unsigned i = 0; i < layout::kNumCoords; ++i)
    for (const layout::Digit &digit : result.digits(Coord(i)))
      projected[Coord(i)].push_back({digit.radix, basis(digit.basis)});
  return projected.finish();
}

/// Sets `value` from the registers of `source`; `wanted` is the layout of `value`, expressed in the source's shape.
static LogicalResult rename(Lowering &lowering, Operation *op, Value source, Value value,
                            const std::optional<Layout> &wanted) {
  auto map = wanted ? layout::registerMap(*layoutOf(source.getType()), *wanted) : std::nullopt;
  if (!map)
    return op->emitOpError("expected a result with the operand's elements in each thread (because only a kgpu.convert "
                           "moves data between threads), got another layout");
  ArrayRef<Value> from = lowering.get(source);
  lowering.set(value, llvm::map_to_vector<8>(*map, [&](int64_t reg) { return from[reg]; }));
  return success();
}

static LogicalResult emitMakeRange(Lowering &lowering, tile::MakeRangeOp op) {
  const Layout &layout = *layoutOf(op.getType());
  Registers registers;
  int64_t start = int32_t(op.getStart());
  // All values are within [0, end), so no sum wraps. A negative start excludes nuw.
  auto flags = arith::IntegerOverflowFlags::nsw;
  if (start >= 0)
    flags = flags | arith::IntegerOverflowFlags::nuw;
  for (int64_t reg = 0; reg < layout.registers(); ++reg) {
    auto [thread, constant] = lowering.coordinates.inParts(layout, reg, 0);
    if (!thread)
      registers.push_back(lowering.b.i32(start + constant));
    else if (start + constant == 0)
      registers.push_back(thread);
    else
      registers.push_back(arith::AddIOp::create(lowering.b, thread, lowering.b.i32(start + constant), flags));
  }
  lowering.set(op.getResult(), std::move(registers));
  return success();
}

static LogicalResult emitSplat(Lowering &lowering, tile::SplatOp op) {
  lowering.set(op.getResult(), Registers(registerCount(op.getType()), lowering.scalar(op.getValue())));
  return success();
}

static LogicalResult emitUnsplat(Lowering &lowering, tile::UnsplatOp op) {
  // Every register of every thread holds the tile's one element.
  lowering.set(op.getResult(), {lowering.scalar(op.getValue())});
  return success();
}

static LogicalResult emitExpandDims(Lowering &lowering, tile::ExpandDimsOp op) {
  unsigned axis = op.getAxis();
  auto wanted = project(*layoutOf(op.getType()), shapeOf(op.getValue()), [&](layout::Index basis) {
    basis.erase(basis.begin() + axis);
    return basis;
  });
  return rename(lowering, op, op.getValue(), op.getResult(), wanted);
}

static LogicalResult emitBroadcast(Lowering &lowering, tile::BroadcastOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getValue());
  auto wanted = project(*layoutOf(op.getType()), shape, [&](layout::Index basis) {
    for (unsigned dim = 0; dim < shape.size(); ++dim)
      if (shape[dim] == 1)
        basis[dim] = 0;
    return basis;
  });
  return rename(lowering, op, op.getValue(), op.getResult(), wanted);
}

static LogicalResult emitTrans(Lowering &lowering, tile::TransOp op) {
  ArrayRef<int32_t> order = op.getOrder();
  auto wanted = project(*layoutOf(op.getType()), shapeOf(op.getValue()), [&](const layout::Index &basis) {
    layout::Index back(basis.size());
    for (unsigned dim = 0; dim < basis.size(); ++dim)
      back[order[dim]] = basis[dim];
    return back;
  });
  return rename(lowering, op, op.getValue(), op.getResult(), wanted);
}

static LogicalResult emitReshape(Lowering &lowering, tile::ReshapeOp op) {
  // Try from both sides: one layout may be expressible in the other's shape.
  const Layout &from = *layoutOf(op.getValue().getType()), &to = *layoutOf(op.getType());
  if (auto seen = from.reshape(to.shape()); seen && seen->registers() == from.registers())
    if (auto map = layout::registerMap(*seen, to)) {
      ArrayRef<Value> values = lowering.get(op.getValue());
      lowering.set(op.getResult(), llvm::map_to_vector<8>(*map, [&](int64_t reg) { return values[reg]; }));
      return success();
    }
  auto wanted = to.reshape(from.shape());
  if (wanted && wanted->registers() != to.registers())
    wanted = std::nullopt;
  return rename(lowering, op, op.getValue(), op.getResult(), wanted);
}

static LogicalResult emitJoin(Lowering &lowering, tile::JoinOp op) {
  const Layout &to = *layoutOf(op.getType());
  unsigned last = to.rank() - 1;
  for (Coord coord : {Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta})
    for (const layout::Digit &digit : to.digits(coord))
      if (digit.basis[last] != 0)
        return op->emitOpError(
            "expected both elements of a pair in one thread (because join moves no data), got another layout");
  auto wanted = project(to, shapeOf(op.getLhs()), [&](layout::Index basis) {
    basis.pop_back();
    return basis;
  });
  if (failed(rename(lowering, op, op.getLhs(), op.getResult(), wanted)))
    return failure();
  Registers registers(lowering.get(op.getResult()));
  auto map = layout::registerMap(*layoutOf(op.getRhs().getType()), *wanted);
  ArrayRef<Value> rhs = lowering.get(op.getRhs());
  for (int64_t reg = 0; reg < to.registers(); ++reg)
    if (to.at(Coord::Reg, reg)[last] == 1)
      registers[reg] = rhs[(*map)[reg]];
  lowering.set(op.getResult(), std::move(registers));
  return success();
}

static LogicalResult emitSplit(Lowering &lowering, tile::SplitOp op) {
  // Join two such results: registers 2r and 2r + 1 of the pair hold what register r of each half holds.
  const Layout &half = *layoutOf(op.getLhs().getType());
  auto map = layout::registerMap(*layoutOf(op.getValue().getType()), half.join());
  if (!map || int64_t(map->size()) != 2 * half.registers())
    return op->emitOpError(
        "expected both elements of a pair in one thread (because split moves no data), got another layout");
  ArrayRef<Value> from = lowering.get(op.getValue());
  for (unsigned side : {0, 1}) {
    Registers registers;
    for (int64_t reg = 0; reg < half.registers(); ++reg)
      registers.push_back(from[(*map)[2 * reg + side]]);
    lowering.set(op->getResult(side), std::move(registers));
  }
  return success();
}

static LogicalResult emitCat(Lowering &lowering, tile::CatOp op) {
  // If the threads are spread alike in both inputs and the result, registers alone distinguish the halves.
  const Layout &to = *layoutOf(op.getType());
  unsigned axis = op.getAxis();
  int64_t first = shapeOf(op.getLhs())[axis], threadBits = 0;
  bool alike = true;
  for (Coord coord : {Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta}) {
    for (Value input : {op.getLhs(), op.getRhs()})
      alike &= to.digits(coord) == layoutOf(input.getType())->digits(coord);
    for (const layout::Digit &digit : to.digits(coord))
      threadBits |= digit.basis[axis];
  }
  // No thread's part crosses the seam: it is at a multiple of all that threads add.
  alike &= first % (llvm::PowerOf2Ceil(threadBits + 1)) == 0;
  Registers registers;
  for (int64_t reg = 0; alike && reg < to.registers(); ++reg) {
    layout::Index at = to.at(Coord::Reg, reg);
    bool isLeft = at[axis] < first;
    Value input = isLeft ? op.getLhs() : op.getRhs();
    if (!isLeft)
      at[axis] -= first;
    const Layout &from = *layoutOf(input.getType());
    int64_t source = 0;
    while (source < from.registers() && from.at(Coord::Reg, source) != at)
      ++source;
    alike &= source < from.registers();
    if (alike)
      registers.push_back(lowering.get(input)[source]);
  }
  if (!alike)
    return op->emitOpError("expected inputs and result distributed over the threads in the same way (because cat moves "
                           "no data), got other layouts");
  lowering.set(op.getResult(), std::move(registers));
  return success();
}

void nvvm::addShape(EmitTable &table) {
  table.add<tile::MakeRangeOp, emitMakeRange>();
  table.add<tile::SplatOp, emitSplat>();
  table.add<tile::UnsplatOp, emitUnsplat>();
  table.add<tile::ExpandDimsOp, emitExpandDims>();
  table.add<tile::BroadcastOp, emitBroadcast>();
  table.add<tile::TransOp, emitTrans>();
  table.add<tile::ReshapeOp, emitReshape>();
  table.add<tile::JoinOp, emitJoin>();
  table.add<tile::SplitOp, emitSplit>();
  table.add<tile::CatOp, emitCat>();
}
