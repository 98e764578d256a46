// The alignment analysis: maps each op of tile IR to the arithmetic of AxisTransfer.h.
#include "compiler/analysis/Alignment.h"
#include "compiler/analysis/AxisTransfer.h"
#include "compiler/analysis/Exchanged.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"
#include <numeric>

using namespace mlir;
using llvm::APInt;

namespace kiln {

static llvm::SmallVector<int64_t, 2> shapeOf(Type type) {
  if (auto shaped = dyn_cast<RankedTensorType>(type))
    if (shaped.getRank() > 0)
      return llvm::to_vector<2>(shaped.getShape());
  return {1};
}

static AxisInfo uniformInfo(Type type, int64_t divisibility) {
  AxisInfo info;
  for (int64_t side : shapeOf(type))
    info.dims.push_back({side, 0, divisibility});
  return info;
}

static AxisInfo constantInfo(Type type, int64_t value) {
  AxisInfo info = uniformInfo(type, axis::powerOfTwoIn(value));
  info.constant = value;
  return info;
}

/// Strengthens group facts with a divisor known to hold for each element individually.
static AxisInfo withEveryElement(AxisInfo info, int64_t divisibility) {
  for (AxisDim &dim : info.dims)
    dim.divisibility = std::max(dim.divisibility, divisibility);
  return info;
}

static std::optional<int64_t> pointeeBytes(Type pointers) {
  if (auto pointer = dyn_cast<tile::PtrType>(getElementTypeOrSelf(pointers)))
    return tile::memoryBytes(pointer.getPointee());
  return std::nullopt;
}

AxisDim AxisDim::refined(int64_t size) const {
  if (size == group)
    return *this;
  int64_t stride = int64_t(uint64_t(step) * uint64_t(size));
  return {size, size == 1 ? 0 : step, std::min(divisibility, axis::powerOfTwoIn(stride))};
}

int64_t AxisInfo::everyElement() const {
  int64_t best = 1;
  for (const AxisDim &dim : dims)
    best = std::max(best, dim.refined(1).divisibility);
  return best;
}

AlignmentAnalysis::AlignmentAnalysis(Operation *root, bool believeHints)
    : believeHints(believeHints), rangeAnalysis(root) {
  collectAssumptions(root);
  run(root);
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

int64_t AlignmentAnalysis::contiguousElements(Value pointers, unsigned dim) const {
  std::optional<int64_t> bytes = pointeeBytes(pointers.getType());
  return bytes ? get(pointers).steppingBy(dim, *bytes) : 1;
}

int64_t AlignmentAnalysis::alignmentInBytes(Value pointers, unsigned dim) const {
  return get(pointers).dims[dim].refined(contiguousElements(pointers, dim)).divisibility;
}

int64_t AlignmentAnalysis::maskConstancy(Value mask, unsigned dim, int64_t side) const {
  if (!mask)
    return side;
  const AxisInfo &info = get(mask);
  // A scalar mask applies to the whole tile.
  return isa<ShapedType>(mask.getType()) ? info.constancy(dim) : side;
}

bool AlignmentAnalysis::alwaysTrue(Value mask) const {
  std::optional<APInt> value = mask ? rangeAnalysis.constant(mask) : APInt(1, 1);
  return value && !value->isZero();
}

bool AlignmentAnalysis::alwaysFalse(Value mask) const {
  std::optional<APInt> value = mask ? rangeAnalysis.constant(mask) : std::nullopt;
  return value && value->isZero();
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

AxisInfo AlignmentAnalysis::pessimistic(Value value) const {
  AxisInfo info;
  info.dims.resize(shapeOf(value.getType()).size());
  return info;
}

AxisInfo AlignmentAnalysis::join(Value value, const AxisInfo &a, const AxisInfo &b) const {
  return withKnown(value, axis::meet(a, b));
}

AxisInfo AlignmentAnalysis::entry(BlockArgument argument) {
  AxisInfo info = pessimistic(argument);
  if (auto func = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()))
    if (auto promise = func.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), "tile.divisibility"))
      if (!isa<ShapedType>(argument.getType()) && promise.getInt() != 0)
        info = uniformInfo(argument.getType(), axis::powerOfTwoIn(promise.getInt()));
  return withKnown(argument, info);
}

AxisInfo AlignmentAnalysis::inductionVariable(scf::ForOp op) {
  int64_t divisibility = std::min(get(op.getLowerBound()).everyElement(), get(op.getStep()).everyElement());
  return withKnown(op.getInductionVar(), uniformInfo(op.getInductionVar().getType(), divisibility));
}

AxisInfo AlignmentAnalysis::withKnown(Value value, AxisInfo info) const {
  if (std::optional<APInt> constant = rangeAnalysis.constant(value))
    if (constant->getBitWidth() <= 64)
      return constantInfo(value.getType(), constant->getSExtValue());
  if (auto promise = promised.find(value); promise != promised.end())
    info = withEveryElement(std::move(info), promise->second);
  return info;
}

void AlignmentAnalysis::collectAssumptions(Operation *root) {
  auto note = [&](Value condition, Block *where, auto &self) -> void {
    Operation *op = condition.getDefiningOp();
    if (op && isa<arith::AndIOp>(op)) {
      self(op->getOperand(0), where, self);
      self(op->getOperand(1), where, self);
      return;
    }
    auto compare = dyn_cast_or_null<arith::CmpIOp>(op);
    if (!compare || compare.getPredicate() != arith::CmpIPredicate::eq || !matchPattern(compare.getRhs(), m_Zero()))
      return;
    Operation *rest = compare.getLhs().getDefiningOp();
    APInt constant;
    if (!rest || rest->getNumOperands() != 2 || rest->getOperand(0).getParentBlock() != where ||
        !matchPattern(rest->getOperand(1), m_ConstantInt(&constant)) || constant.isZero())
      return;
    int64_t divisor = 1;
    if (isa<arith::RemSIOp, arith::RemUIOp>(rest))
      divisor = axis::powerOfTwoIn(constant.getSExtValue());
    else if (isa<arith::AndIOp>(rest))
      divisor = axis::powerOfTwoIn(constant.getSExtValue() + 1);
    int64_t &known = promised.try_emplace(rest->getOperand(0), 1).first->second;
    known = std::max(known, divisor);
  };
  root->walk([&](tile::AssumeOp op) { note(op.getCondition(), op->getBlock(), note); });
}

//===----------------------------------------------------------------------===//
// Transfer
//===----------------------------------------------------------------------===//

AxisInfo AlignmentAnalysis::inferExtension(Value operand, bool isSigned) const {
  unsigned width = integerWidth(operand.getType());
  const ConstantIntRanges &range = rangeAnalysis.get(operand);
  // A span below 2^(width - 1) leaves no room for a wrap between two elements.
  unsigned wide = width + 1;
  APInt span =
      isSigned ? range.smax().sext(wide) - range.smin().sext(wide) : range.umax().zext(wide) - range.umin().zext(wide);
  return axis::extend(get(operand), width, width > 1 && span.ult(APInt::getOneBitSet(wide, width - 1)));
}

AxisInfo AlignmentAnalysis::inferHint(Operation *op) const {
  auto hint = cast<tile::HintOp>(op);
  AxisInfo info = get(hint.getValue());
  if (!believeHints)
    return info;
  info.constant.reset();
  llvm::SmallVector<int64_t, 2> shape = shapeOf(hint.getType());
  int64_t unit = pointeeBytes(hint.getType()).value_or(1);
  auto entryOf = [&](std::optional<ArrayRef<int64_t>> list, unsigned dim) -> int64_t {
    return list && list->size() == shape.size() && (*list)[dim] > 0 ? (*list)[dim] : 1;
  };
  for (unsigned dim = 0; dim < shape.size(); ++dim) {
    int64_t side = shape[dim];
    AxisDim &here = info.dims[dim];
    auto believe = [&](int64_t group, int64_t step) {
      group = std::gcd(group, side);
      if (group <= here.group)
        return;
      bool extends = here.step == step && group % here.group == 0;
      here = {group, step, extends ? here.divisibility : here.refined(1).divisibility};
    };
    believe(entryOf(hint.getContiguity(), dim), unit);
    believe(entryOf(hint.getConstancy(), dim), 0);
    // Divisors promised by this hint and by the hints it is stacked on, for the groups known so far.
    int64_t divisor = 1;
    for (auto at = hint; at; at = at.getValue().getDefiningOp<tile::HintOp>())
      divisor = std::max(divisor, axis::powerOfTwoIn(entryOf(at.getDivisibility(), dim)));
    if (here.group == side || (here.group > 1 && here.step == 0))
      here.divisibility = std::max(here.divisibility, divisor);
    else if (here.group > 1) // the promise may be about longer runs than the known ones
      here.divisibility = std::max(here.divisibility, std::min(divisor, axis::powerOfTwoIn(here.step * here.group)));
  }
  return info;
}

AxisInfo AlignmentAnalysis::infer(Operation *op, Value result) const {
  Type type = result.getType();
  unsigned width = isIntegerLike(type) ? integerWidth(type) : 64;
  auto of = [&](unsigned index) -> const AxisInfo & { return get(op->getOperand(index)); };
  auto elementwise = [&]() -> AxisInfo {
    llvm::SmallVector<const AxisInfo *> infos;
    llvm::SmallVector<AxisInfo> spread;
    spread.reserve(op->getNumOperands());
    for (Value operand : op->getOperands()) {
      // A scalar among tiles (the condition of a select) is the same for every element.
      if (!isa<ShapedType>(operand.getType()) && isa<ShapedType>(type)) {
        spread.push_back(uniformInfo(type, 1));
        infos.push_back(&spread.back());
      } else {
        infos.push_back(&get(operand));
      }
    }
    return infos.empty() ? pessimistic(result) : axis::elementwise(infos);
  };
  auto nonNegative = [&](unsigned index) { return !rangeAnalysis.get(op->getOperand(index)).smin().isNegative(); };
  auto constantOf = [&](unsigned index) { return of(index).constant; };
  auto leastDivisor = [&] { return std::min(of(0).everyElement(), of(1).everyElement()); };
  auto powerOf = [&](unsigned index) -> std::optional<AxisInfo> {
    std::optional<int64_t> shift = constantOf(index);
    if (!shift || *shift < 0 || *shift >= int64_t(std::min(width, 62u)))
      return std::nullopt;
    return constantInfo(type, int64_t(1) << *shift);
  };

  return llvm::TypeSwitch<Operation *, AxisInfo>(op)
      .Case([&](arith::ConstantOp constant) {
        auto elements = dyn_cast<DenseIntElementsAttr>(constant.getValue());
        auto shaped = dyn_cast<ShapedType>(type);
        if (shaped && isa<SplatElementsAttr>(constant.getValue()))
          return uniformInfo(type, 1);
        if (!elements || !shaped || shaped.getRank() != 1 || width > 64)
          return pessimistic(result);
        // A literal row: one run if its differences agree.
        llvm::SmallVector<int64_t> values;
        for (const APInt &value : elements.getValues<APInt>())
          values.push_back(value.getSExtValue());
        AxisDim dim{1, 0, AxisInfo::kMaxDivisibility};
        for (int64_t value : values)
          dim.divisibility = std::min(dim.divisibility, axis::powerOfTwoIn(value));
        auto stepAt = [&](size_t i) {
          return axis::wrapStep(int64_t(uint64_t(values[i]) - uint64_t(values[i - 1])), width);
        };
        bool run = values.size() > 1;
        for (size_t i = 2; i < values.size(); ++i)
          run &= stepAt(i) == stepAt(1);
        if (run)
          dim = {int64_t(values.size()), stepAt(1), axis::powerOfTwoIn(values[0])};
        AxisInfo info;
        info.dims.push_back(dim);
        return info;
      })
      .Case([&](tile::MakeRangeOp range) {
        AxisInfo info;
        int64_t side = shapeOf(type)[0];
        info.dims.push_back({side, side == 1 ? 0 : 1, axis::powerOfTwoIn(int32_t(range.getStart()))});
        return info;
      })
      .Case<tile::SplatOp, tile::UnsplatOp>([&](Operation *) { return uniformInfo(type, of(0).everyElement()); })
      .Case([&](tile::ExpandDimsOp expand) {
        AxisInfo info = of(0);
        info.dims.insert(info.dims.begin() + int32_t(expand.getAxis()), AxisDim{1, 0, of(0).everyElement()});
        return info;
      })
      .Case([&](tile::BroadcastOp broadcast) {
        AxisInfo info = of(0);
        llvm::SmallVector<int64_t, 2> from = shapeOf(broadcast.getValue().getType()), to = shapeOf(type);
        for (auto [dim, sides] : llvm::enumerate(llvm::zip(from, to)))
          if (std::get<0>(sides) != std::get<1>(sides))
            info.dims[dim].group = std::get<1>(sides);
        return info;
      })
      .Case([&](tile::TransOp trans) {
        AxisInfo info;
        for (int32_t source : trans.getOrder())
          info.dims.push_back(of(0).dims[source]);
        return info;
      })
      .Case([&](tile::ReshapeOp reshape) {
        return axis::reshape(of(0), shapeOf(reshape.getValue().getType()), shapeOf(type), width);
      })
      .Case([&](tile::JoinOp) {
        AxisInfo info = axis::meet(of(0), of(1));
        info.dims.push_back({1, 0, leastDivisor()});
        return info;
      })
      .Case([&](tile::SplitOp) {
        AxisInfo info = of(0);
        int64_t every = info.everyElement();
        info.dims.pop_back();
        if (info.dims.empty())
          info.dims.push_back({1, 0, every});
        return info;
      })
      .Case([&](tile::CatOp) { return axis::meet(of(0), of(1)); })
      .Case([&](tile::HintOp) { return inferHint(op); })
      // The same elements, held by other threads.
      .Case([&](kgpu::ConvertOp) { return of(0); })
      .Case([&](kgpu::LocalLoadOp load) {
        Value tile = exchangedTile(load);
        return tile ? get(tile) : pessimistic(result);
      })
      .Case([&](tile::AddPtrOp addptr) {
        AxisInfo offset = inferExtension(addptr.getOffset(), /*isSigned=*/true);
        if (integerWidth(addptr.getOffset().getType()) == 64)
          offset = of(1);
        int64_t bytes = *pointeeBytes(type);
        return axis::add(of(0), axis::mul(offset, constantInfo(type, bytes), 64), 64);
      })
      .Case<tile::PtrToIntOp, tile::IntToPtrOp, tile::PtrCastOp>([&](Operation *) { return of(0); })
      .Case([&](arith::AddIOp) { return axis::add(of(0), of(1), width); })
      .Case([&](arith::SubIOp) { return axis::sub(of(0), of(1), width); })
      .Case([&](arith::MulIOp) { return axis::mul(of(0), of(1), width); })
      .Case([&](arith::ShLIOp) {
        if (std::optional<AxisInfo> factor = powerOf(1))
          return axis::mul(of(0), *factor, width);
        return withEveryElement(elementwise(), of(0).everyElement());
      })
      .Case<arith::ShRSIOp, arith::ShRUIOp>([&](Operation *) {
        std::optional<AxisInfo> divisor = powerOf(1);
        // 2^(width - 1) is not a positive number of this width, but the shift rounds down all the same.
        return divisor ? axis::divide(of(0), *divisor, width) : elementwise();
      })
      .Case([&](arith::DivUIOp) { return axis::divide(of(0), of(1), width); })
      .Case([&](arith::FloorDivSIOp) { return nonNegative(1) ? axis::divide(of(0), of(1), width) : elementwise(); })
      .Case([&](arith::DivSIOp) {
        return nonNegative(0) && nonNegative(1) ? axis::divide(of(0), of(1), width) : elementwise();
      })
      .Case([&](arith::RemUIOp) { return axis::remainder(of(0), of(1), width); })
      .Case([&](arith::RemSIOp) {
        return nonNegative(0) ? axis::remainder(of(0), of(1), width) : withEveryElement(elementwise(), leastDivisor());
      })
      .Case([&](arith::AndIOp) {
        if (constantOf(1))
          return axis::maskedBits(of(0), *constantOf(1), width);
        if (constantOf(0))
          return axis::maskedBits(of(1), *constantOf(0), width);
        return withEveryElement(elementwise(), std::max(of(0).everyElement(), of(1).everyElement()));
      })
      .Case<arith::OrIOp, arith::XOrIOp>(
          [&](Operation *) { return withEveryElement(axis::changedBits(of(0), of(1), width), leastDivisor()); })
      .Case<arith::MinSIOp, arith::MinUIOp, arith::MaxSIOp, arith::MaxUIOp>(
          [&](Operation *) { return withEveryElement(elementwise(), leastDivisor()); })
      .Case([&](arith::SelectOp select) {
        AxisInfo both = axis::meet(of(1), of(2));
        for (auto [dim, info] : llvm::enumerate(both.dims)) {
          int64_t side = shapeOf(type)[dim];
          int64_t agree = isa<ShapedType>(select.getCondition().getType()) ? of(0).constancy(dim) : side;
          info = info.refined(std::gcd(info.group, agree));
        }
        return both;
      })
      .Case([&](arith::CmpIOp compare) {
        switch (compare.getPredicate()) {
        case arith::CmpIPredicate::eq:
        case arith::CmpIPredicate::ne:
          return axis::equal(of(0), of(1));
        case arith::CmpIPredicate::slt:
        case arith::CmpIPredicate::ult:
        case arith::CmpIPredicate::sge:
        case arith::CmpIPredicate::uge:
          return axis::lessThan(of(0), of(1), integerWidth(compare.getLhs().getType()));
        default: // a > b and a <= b are comparisons of b < a
          return axis::lessThan(of(1), of(0), integerWidth(compare.getLhs().getType()));
        }
      })
      .Case([&](arith::ExtSIOp ext) { return inferExtension(ext.getIn(), true); })
      .Case([&](arith::ExtUIOp ext) { return inferExtension(ext.getIn(), false); })
      .Case<arith::TruncIOp, arith::IndexCastOp, arith::IndexCastUIOp>([&](Operation *cast) {
        if (integerWidth(cast->getOperand(0).getType()) < width)
          return inferExtension(cast->getOperand(0), !isa<arith::IndexCastUIOp>(cast));
        AxisInfo info = of(0);
        info.constant.reset();
        for (AxisDim &dim : info.dims)
          dim.step = axis::wrapStep(dim.step, width);
        return info;
      })
      .Default([&](Operation *other) {
        bool pointwise = OpTrait::hasElementwiseMappableTraits(other) && other->getNumRegions() == 0;
        return pointwise ? elementwise() : pessimistic(result);
      });
}

void AlignmentAnalysis::transfer(Operation *op) {
  for (Value result : op->getResults())
    set(result, withKnown(result, infer(op, result)));
}

} // namespace kiln
