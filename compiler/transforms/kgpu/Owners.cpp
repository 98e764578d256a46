// The addresses of a tile's elements as numbers, and which threads touch them.
#include "compiler/transforms/kgpu/Owners.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;
using layout::Layout;

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

namespace {
/// A number for each element, in row-major order. Not `exact`: each is off by the same unknown amount. An iteration of
/// the loop in question adds `step` to each.
struct Numbers {
  SmallVector<int64_t> of;
  bool exact = true;
  int64_t step = 0;
};

class Evaluator {
public:
  /// `loop`: the loop whose steps are tracked; anything else that changes in it is unknown.
  explicit Evaluator(scf::ForOp loop = {}) : loop(loop) {}
  /// Numbers such that elements with different numbers differ; std::nullopt if unknown.
  std::optional<Numbers> evaluate(Value value);

private:
  std::optional<Numbers> evaluateArgument(BlockArgument argument);
  std::optional<int64_t> stepOfScalar(Value scalar);
  bool mayRepeat(int64_t step, Type type);
  std::optional<Numbers> repeat(Value scalar, int64_t count);
  std::optional<Numbers> combine(Operation *op);
  std::optional<Numbers> move(Operation *op);

  scf::ForOp loop;
  DenseMap<Value, Numbers> assumed; ///< values of a loop that is being evaluated
};
} // namespace

static int64_t wrapTo(int64_t number, Type type) {
  Type element = getElementTypeOrSelf(type);
  unsigned bits = element.isInteger() ? element.getIntOrFloatBitWidth() : 64;
  return bits >= 64 ? number : llvm::SignExtend64(uint64_t(number), bits);
}

static ArrayRef<int64_t> sidesOf(Value tile) { return cast<RankedTensorType>(tile.getType()).getShape(); }

/// The index of element `linear` of a shape, dimension by dimension.
static SmallVector<int64_t> split(int64_t linear, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> place(shape.size());
  for (unsigned dim = shape.size(); dim-- > 0; linear /= shape[dim])
    place[dim] = linear % shape[dim];
  return place;
}

static int64_t join(ArrayRef<int64_t> place, ArrayRef<int64_t> shape) {
  int64_t linear = 0;
  for (auto [at, side] : llvm::zip(place, shape))
    linear = linear * side + at;
  return linear;
}

/// What an iteration adds to a number; for a pointer, in bytes.
std::optional<int64_t> Evaluator::stepOfScalar(Value scalar) {
  if (loop.isDefinedOutsideOfLoop(scalar))
    return 0;
  APInt number;
  if (scalar == loop.getInductionVar())
    return matchPattern(loop.getStep(), m_ConstantInt(&number)) ? std::optional(number.getSExtValue()) : std::nullopt;
  Operation *op = scalar.getDefiningOp();
  if (isa_and_nonnull<arith::ExtSIOp, tile::HintOp>(op))
    return stepOfScalar(op->getOperand(0));
  if (!isa_and_nonnull<arith::AddIOp, arith::SubIOp, tile::AddPtrOp>(op))
    return std::nullopt;
  std::optional<int64_t> a = stepOfScalar(op->getOperand(0)), b = stepOfScalar(op->getOperand(1));
  if (!a || !b)
    return std::nullopt;
  if (isa<tile::AddPtrOp>(op))
    return *a + *b * tile::memoryBytes(cast<tile::PtrType>(scalar.getType()).getPointee());
  int64_t sum = isa<arith::AddIOp>(op) ? *a + *b : *a - *b;
  return mayRepeat(sum, scalar.getType()) ? std::nullopt : std::optional(sum);
}

/// Whether a number that advances by `step` may wrap and return to an earlier value. It cannot with 64 bits, nor with
/// 32 if it advances no faster than the loop's induction variable, since the loop ends before that. A narrower number
/// wraps by less than a tile may span, into the middle of what another iteration touches.
bool Evaluator::mayRepeat(int64_t step, Type type) {
  Type element = getElementTypeOrSelf(type);
  unsigned bits = element.isInteger() ? element.getIntOrFloatBitWidth() : 64;
  APInt count;
  return step && bits < 64 &&
         (bits < 32 || !matchPattern(loop.getStep(), m_ConstantInt(&count)) ||
          std::abs(step) > std::abs(count.getSExtValue()));
}

std::optional<Numbers> Evaluator::repeat(Value scalar, int64_t count) {
  APInt number;
  if (matchPattern(scalar, m_ConstantInt(&number)))
    return Numbers{SmallVector<int64_t>(count, number.getSExtValue()), true};
  Numbers unknown{SmallVector<int64_t>(count, 0), false};
  if (!loop)
    return unknown;
  std::optional<int64_t> step = stepOfScalar(scalar);
  if (!step)
    return std::nullopt;
  unknown.step = *step;
  return unknown;
}

/// A loop-carried value: its initial value, if an iteration adds the same to every element.
std::optional<Numbers> Evaluator::evaluateArgument(BlockArgument argument) {
  auto carrier = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
  if (!carrier || argument == carrier.getInductionVar())
    return std::nullopt;
  if (loop && loop != carrier && !loop.isDefinedOutsideOfLoop(argument))
    return std::nullopt;
  std::optional<Numbers> first = evaluate(carrier.getTiedLoopInit(argument)->get());
  if (!first)
    return std::nullopt;
  first->exact = false;
  Value yielded = carrier.getTiedLoopYieldedValue(argument)->get();
  assumed[argument] = *first;
  std::optional<Numbers> next = evaluate(yielded);
  assumed.erase(argument);
  if (!next)
    return std::nullopt;
  for (auto [before, after] : llvm::zip(first->of, next->of))
    if (after - before != next->of.front() - first->of.front())
      return std::nullopt;
  if (loop != carrier)
    return first;
  // The check above shows that only sums are involved: starting from zero gives what is added.
  assumed[argument] = {SmallVector<int64_t>(first->of.size(), 0), true};
  std::optional<Numbers> added = evaluate(yielded);
  assumed.erase(argument);
  if (!added || !added->exact || added->step || mayRepeat(added->of.front(), argument.getType()))
    return std::nullopt;
  first->step = added->of.front();
  return first;
}

/// Ops that compute each element from the operands' elements at the same index.
std::optional<Numbers> Evaluator::combine(Operation *op) {
  std::optional<Numbers> a = evaluate(op->getOperand(0)), b = evaluate(op->getOperand(1));
  if (!a || !b)
    return std::nullopt;
  Type type = op->getResult(0).getType();
  bool steps = isa<tile::AddPtrOp>(op), sums = steps || isa<arith::AddIOp, arith::SubIOp>(op);
  if (!sums && !(a->exact && b->exact && !a->step && !b->step))
    return std::nullopt;
  int64_t bytes = steps ? tile::memoryBytes(cast<tile::PtrType>(getElementTypeOrSelf(type)).getPointee()) : 1;
  Numbers result{{}, a->exact && b->exact};
  result.step = isa<arith::SubIOp>(op) ? a->step - b->step : a->step + b->step * bytes;
  if (mayRepeat(result.step, type))
    return std::nullopt;
  for (auto [x, y] : llvm::zip(a->of, b->of)) {
    if ((isa<arith::RemSIOp, arith::DivSIOp>(op)) && y == 0)
      return std::nullopt;
    int64_t number = isa<arith::AddIOp>(op)    ? x + y
                     : isa<arith::SubIOp>(op)  ? x - y
                     : isa<arith::MulIOp>(op)  ? x * y
                     : isa<arith::RemSIOp>(op) ? x % y
                     : isa<arith::DivSIOp>(op) ? x / y
                                               : x + y * bytes;
    result.of.push_back(wrapTo(number, type));
  }
  return result;
}

/// Ops that take each element from some element of the operand.
std::optional<Numbers> Evaluator::move(Operation *op) {
  Value from = op->getOperand(0), to = op->getResult(0);
  std::optional<Numbers> source = evaluate(from);
  if (!source)
    return std::nullopt;
  Numbers result{{}, source->exact, source->step};
  int64_t count = cast<RankedTensorType>(to.getType()).getNumElements();
  for (int64_t i = 0; i < count; ++i) {
    SmallVector<int64_t> place = split(i, sidesOf(to));
    if (auto expand = dyn_cast<tile::ExpandDimsOp>(op))
      place.erase(place.begin() + int32_t(expand.getAxis()));
    if (isa<tile::BroadcastOp>(op))
      for (auto [at, side] : llvm::zip(place, sidesOf(from)))
        at = side == 1 ? 0 : at;
    result.of.push_back(source->of[join(place, sidesOf(from))]);
  }
  return result;
}

std::optional<Numbers> Evaluator::evaluate(Value value) {
  if (auto found = assumed.find(value); found != assumed.end())
    return found->second;
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return std::nullopt;
  if (auto argument = dyn_cast<BlockArgument>(value))
    return evaluateArgument(argument);
  Operation *op = value.getDefiningOp();
  if (auto range = dyn_cast<tile::MakeRangeOp>(op)) {
    Numbers numbers;
    for (int64_t i = 0; i < type.getNumElements(); ++i)
      numbers.of.push_back(int64_t(int32_t(range.getStart())) + i);
    return numbers;
  }
  if (auto splat = dyn_cast<tile::SplatOp>(op))
    return repeat(splat.getValue(), type.getNumElements());
  DenseIntElementsAttr list;
  if (matchPattern(value, m_Constant(&list))) {
    Numbers numbers;
    for (const APInt &number : list)
      numbers.of.push_back(number.getSExtValue());
    return numbers;
  }
  // Extension keeps different numbers different.
  if (isa<arith::ExtSIOp, arith::ExtUIOp, tile::HintOp, ConvertOp>(op))
    return evaluate(op->getOperand(0));
  if (isa<tile::ExpandDimsOp, tile::BroadcastOp>(op))
    return move(op);
  if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::RemSIOp, arith::DivSIOp, tile::AddPtrOp>(op))
    return combine(op);
  return std::nullopt;
}

/// Positions of a block's elements relative to its first. Fails if a stride is unknown, since it may be anything.
static std::optional<Numbers> placesInArray(Value desc, RankedTensorType tile) {
  auto made = desc.getDefiningOp<tile::MakeDescOp>();
  if (!made)
    return std::nullopt;
  SmallVector<int64_t> strides;
  for (Value stride : made.getStrides()) {
    APInt number;
    if (!matchPattern(stride, m_ConstantInt(&number)))
      return std::nullopt;
    strides.push_back(number.getSExtValue());
  }
  Numbers places;
  for (int64_t i = 0; i < tile.getNumElements(); ++i) {
    int64_t place = 0;
    for (auto [at, stride] : llvm::zip(split(i, tile.getShape()), strides))
      place += at * stride;
    places.of.push_back(place);
  }
  return places;
}

/// Iterations of the loop do not overlap: from one to the next all elements' addresses advance together, by at least
/// the distance from the first byte to the last.
static bool goesOn(const MemoryAccess &access, scf::ForOp loop) {
  auto type = access.pointer ? dyn_cast<RankedTensorType>(access.pointer.getType()) : RankedTensorType();
  auto pointer = type ? dyn_cast<tile::PtrType>(type.getElementType()) : tile::PtrType();
  std::optional<Numbers> places = pointer ? Evaluator(loop).evaluate(access.pointer) : std::nullopt;
  if (!places)
    return false;
  // 32-bit offsets may wrap; with a power-of-two step they then coincide with earlier addresses or miss them entirely.
  uint64_t step = std::abs(places->step);
  auto [least, greatest] = std::minmax_element(places->of.begin(), places->of.end());
  return llvm::isPowerOf2_64(step) && uint64_t(*greatest - *least + tile::memoryBytes(pointer.getPointee())) <= step;
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

/// All digits of `value` selected by `mask` are zero.
static bool areZero(const Layout &layout, Coord coord, int64_t value, uint64_t mask) {
  for (auto [number, digit] : llvm::enumerate(layout.digits(coord))) {
    if ((mask >> number & 1) && value % digit.radix)
      return false;
    value /= digit.radix;
  }
  return true;
}

/// Records which thread touches each place; false if a second thread does. Every thread that holds an element reads it;
/// only its owner writes it.
static bool enter(const MemoryAccess &access, ArrayRef<int64_t> places, DenseMap<int64_t, int64_t> &threads) {
  const Layout &layout = layoutOf(access.tile);
  constexpr Coord coords[] = {Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta};
  int64_t count = 1;
  for (Coord coord : coords)
    count *= layout.size(coord);
  SmallVector<layout::Index> registers;
  for (int64_t reg = 0; reg < layout.registers(); ++reg)
    registers.push_back(layout.at(Coord::Reg, reg));
  for (int64_t thread = 0; thread < count; ++thread) {
    layout::Index part(layout.rank(), 0);
    bool owns = true;
    int64_t left = thread;
    for (Coord coord : coords) {
      int64_t value = left % layout.size(coord);
      left /= layout.size(coord);
      part = layout.combine(part, layout.at(coord, value));
      owns &= areZero(layout, coord, value, layout.ownerMask(coord));
    }
    if (!owns && access.kind != MemoryAccess::Read)
      continue;
    for (const layout::Index &reg : registers) {
      layout::Index element = layout.combine(part, reg);
      auto [found, added] = threads.try_emplace(places[join(element, access.tile.getShape())], thread);
      if (!added && found->second != thread)
        return false;
    }
  }
  return true;
}

static bool areOfOneThread(const MemoryAccess &a, const MemoryAccess &b) {
  if (a.isShared() || b.isShared() || a.isAsync() || b.isAsync() || !a.pointer || a.address != b.address)
    return false;
  // Every thread reads a scalar, one writes it.
  if (!a.tile && !b.tile)
    return a.kind != MemoryAccess::Read && b.kind != MemoryAccess::Read;
  if (!a.tile || !b.tile || a.tile.getShape() != b.tile.getShape())
    return false;
  for (Coord coord : {Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta})
    if (layoutOf(a.tile).size(coord) != layoutOf(b.tile).size(coord))
      return false; // the two number their threads differently
  std::optional<Numbers> places =
      isa<tile::DescType>(a.pointer.getType()) ? placesInArray(a.pointer, a.tile) : Evaluator().evaluate(a.pointer);
  if (!places)
    return false;
  DenseMap<int64_t, int64_t> threads;
  return enter(a, places->of, threads) && enter(b, places->of, threads);
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// Records the group that touches an element; false if another group does too.
static bool note(SmallVectorImpl<int32_t> &groups, int64_t element, int64_t group) {
  if (groups[element] >= 0)
    return groups[element] == group;
  groups[element] = int32_t(group);
  return true;
}

/// Records which group's threads touch each element of the memory; for copy-engine reads, the group whose thread issued
/// the copy.
static bool enterGroups(Operation *op, MemType memory, SmallVectorImpl<int32_t> &groups) {
  if (auto copy = dyn_cast<CopyOutOp>(op)) {
    int64_t rows = copy.rowsOfGroup();
    if (!rows)
      return false;
    // Row by row, within each cta's part of the memory.
    const Layout &places = layoutOf(memory);
    int64_t ofGroups = rows * roleAround(op).first.getGroups()[roleAround(op).second];
    for (int64_t cta = 0; cta < places.size(Coord::Cta); ++cta)
      for (int64_t offset = 0; offset < places.size(Coord::Offset); ++offset) {
        layout::Index first = places.at(Coord::Cta, cta), inside = places.at(Coord::Offset, offset);
        if (inside[0] >= ofGroups ||
            !note(groups, join(places.combine(first, inside), memory.getShape()), inside[0] / rows))
          return false;
      }
    return true;
  }
  auto store = dyn_cast<LocalStoreOp>(op);
  if (!store && !isa<LocalLoadOp>(op))
    return false;
  const Layout &layout =
      layoutOf(cast<RankedTensorType>(store ? store.getValue().getType() : op->getResult(0).getType()));
  SmallVector<layout::Index> registers;
  for (int64_t reg = 0; reg < layout.registers(); ++reg)
    registers.push_back(layout.at(Coord::Reg, reg));
  for (int64_t cta = 0; cta < layout.size(Coord::Cta); ++cta)
    for (int64_t group = 0; group < layout.size(Coord::Group); ++group)
      for (int64_t warp = 0; warp < layout.size(Coord::Warp); ++warp) {
        layout::Index part = layout.combine(layout.at(Coord::Cta, cta), layout.at(Coord::Group, group));
        part = layout.combine(part, layout.at(Coord::Warp, warp));
        for (int64_t lane = 0; lane < layout.size(Coord::Lane); ++lane) {
          layout::Index thread = layout.combine(part, layout.at(Coord::Lane, lane));
          for (const layout::Index &reg : registers)
            if (!note(groups, join(layout.combine(thread, reg), memory.getShape()), group))
              return false;
        }
      }
  return true;
}

/// The operand that is the memory the op touches.
static Value touchedBy(Operation *op) {
  for (Value operand : op->getOperands())
    if (isa<MemType>(operand.getType()))
      return operand;
  return {};
}

const SmallVector<int32_t> &Owners::groupsOf(Operation *op, MemType memory) {
  auto [found, added] = groups.try_emplace(op);
  if (added) {
    found->second.assign(ShapedType::getNumElements(memory.getShape()), -1);
    if (!enterGroups(op, memory, found->second))
      found->second.clear();
  }
  return found->second;
}

bool Owners::ofOneGroup(const MemoryAccess &a, const MemoryAccess &b) {
  Value memory = touchedBy(a.op);
  if (!a.isShared() || !b.isShared() || memory != touchedBy(b.op))
    return false;
  auto type = cast<MemType>(memory.getType());
  SmallVector<int32_t> first = groupsOf(a.op, type); // a copy, since the second lookup may invalidate it
  const SmallVector<int32_t> &second = groupsOf(b.op, type);
  return !first.empty() && !second.empty() && llvm::all_of(llvm::zip_equal(first, second), [](auto pair) {
    return std::get<0>(pair) == std::get<1>(pair) || std::get<0>(pair) < 0 || std::get<1>(pair) < 0;
  });
}

bool Owners::ofOneThread(const MemoryAccess &a, const MemoryAccess &b) {
  auto [found, added] = known.try_emplace({&a, &b}, false);
  if (added)
    found->second = areOfOneThread(a, b);
  return found->second;
}

bool Owners::stepsOver(const MemoryAccess &access, Operation *loop) {
  auto counted = dyn_cast<scf::ForOp>(loop);
  if (!counted || access.isShared() || access.isAsync())
    return false;
  auto [found, added] = steps.try_emplace({&access, loop}, false);
  if (added)
    found->second = goesOn(access, counted);
  return found->second;
}
