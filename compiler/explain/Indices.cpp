// The interpreter of index arithmetic: first finds a slice of the kernel, then runs it op by op.
#include "compiler/explain/Indices.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::explain;

// Each pointer argument has 16 TiB of addresses to itself and starts in their middle.
static constexpr unsigned kArgumentShift = 44;
static constexpr int64_t kMiddle = int64_t(1) << (kArgumentShift - 1);

static int64_t addressOf(unsigned argument) { return ((int64_t(argument) + 1) << kArgumentShift) + kMiddle; }

std::pair<unsigned, int64_t> Indices::argumentOf(int64_t address) {
  int64_t argument = (address >> kArgumentShift) - 1;
  return {unsigned(argument), address - addressOf(unsigned(argument))};
}

int64_t Numbers::size() const {
  int64_t size = 1;
  for (int64_t side : shape)
    size *= side;
  return size;
}

static SmallVector<int64_t, 3> shapeOf(Type type) {
  if (auto tile = dyn_cast<RankedTensorType>(type))
    return SmallVector<int64_t, 3>(tile.getShape());
  return {};
}

static bool isIndexing(Type type) { return isa<IntegerType, IndexType, tile::PtrType>(getElementTypeOrSelf(type)); }

/// The value as `type` represents it: sign-extended from its width, booleans as 0 and 1.
static int64_t wrapped(int64_t value, Type type) {
  auto integer = dyn_cast<IntegerType>(getElementTypeOrSelf(type));
  if (!integer || integer.getWidth() >= 64)
    return value;
  if (integer.getWidth() == 1)
    return value & 1;
  return llvm::SignExtend64(uint64_t(value), integer.getWidth());
}

static uint64_t unsignedOf(int64_t value, Type type) {
  auto integer = dyn_cast<IntegerType>(getElementTypeOrSelf(type));
  if (!integer || integer.getWidth() >= 64)
    return uint64_t(value);
  return uint64_t(value) & ((uint64_t(1) << integer.getWidth()) - 1);
}

Indices::Indices(func::FuncOp kernel, Launch launch) : kernel(kernel), launch(std::move(launch)) { findNeeded(); }

std::optional<int64_t> Indices::number(Value value) const {
  Known known = get(value);
  if (!known || !known->uniform())
    return std::nullopt;
  return known->elements[0];
}

//===----------------------------------------------------------------------===//
// Slicing
//===----------------------------------------------------------------------===//

void Indices::findNeeded() {
  SmallVector<Value> open;
  auto need = [&](Value value) {
    if (value && isIndexing(value.getType()) && needed.insert(value).second)
      open.push_back(value);
  };
  kernel.walk([&](Operation *op) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      need(loop.getLowerBound());
      need(loop.getUpperBound());
      need(loop.getStep());
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      need(branch.getCondition());
    } else if (auto condition = dyn_cast<scf::ConditionOp>(op)) {
      need(condition.getCondition());
    } else if (auto describe = dyn_cast<tile::MakeDescOp>(op)) {
      for (Value operand : op->getOperands())
        need(operand);
    } else if (!isMemoryEffectFree(op) && op->getNumRegions() == 0) {
      // Addresses, masks and offsets, but not the data that is written.
      for (OpOperand &operand : op->getOpOperands()) {
        if (auto store = dyn_cast<tile::StoreOp>(op); store && operand.get() == store.getValue())
          continue;
        if (auto load = dyn_cast<tile::LoadOp>(op); load && operand.get() == load.getOther())
          continue;
        if (auto atomic = dyn_cast<tile::AtomicRMWOp>(op); atomic && operand.get() == atomic.getValue())
          continue;
        need(operand.get());
      }
    }
  });
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      Operation *parent = argument.getOwner()->getParentOp();
      if (auto loop = dyn_cast<scf::ForOp>(parent)) {
        if (OpOperand *init = loop.getTiedLoopInit(argument)) {
          need(init->get());
          need(loop.getTiedLoopYieldedValue(argument)->get());
        }
      } else if (auto loop = dyn_cast<scf::WhileOp>(parent)) {
        // Everything that its values depend on: uncounted loops are rare and small.
        for (Value init : loop.getInits())
          need(init);
        for (Value passed : loop.getConditionOp().getArgs())
          need(passed);
        for (Value yielded : loop.getYieldOp()->getOperands())
          need(yielded);
      }
      continue;
    }
    Operation *op = value.getDefiningOp();
    unsigned index = cast<OpResult>(value).getResultNumber();
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      need(loop.getRegionIterArg(index));
      need(loop.getYieldedValues()[index]);
      need(loop.getInits()[index]);
    } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
      for (BlockArgument argument : loop.getBeforeArguments())
        need(argument);
      for (Value passed : loop.getConditionOp().getArgs())
        need(passed);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      for (Region *region : {&branch.getThenRegion(), &branch.getElseRegion()})
        if (!region->empty())
          need(region->front().getTerminator()->getOperand(index));
    } else if (isMemoryEffectFree(op)) {
      for (Value operand : op->getOperands())
        need(operand);
    }
  }
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

void Indices::run(std::array<int64_t, 3> which, int64_t turns, function_ref<void(Operation *, const Turn &)> callback) {
  program = which;
  mostTurns = turns;
  visit = callback;
  values.clear();
  for (BlockArgument argument : kernel.getArguments()) {
    if (!needed.contains(argument))
      continue;
    unsigned index = argument.getArgNumber();
    Numbers numbers;
    if (isa<tile::PtrType>(argument.getType()))
      numbers.elements = {addressOf(index)};
    else if (auto it = launch.arguments.find(index); it != launch.arguments.end())
      numbers.elements = {wrapped(it->second, argument.getType())};
    else
      continue;
    values[argument] = std::make_shared<Numbers>(std::move(numbers));
  }
  runBlock(kernel.getBody().front(), Turn());
}

void Indices::copy(ValueRange from, ValueRange to) {
  // All at once: a loop may swap the values it carries.
  SmallVector<Known> taken;
  for (Value value : from)
    taken.push_back(get(value));
  for (auto [known, value] : llvm::zip_equal(taken, to))
    values[value] = known;
}

void Indices::runBlock(Block &block, const Turn &turn) {
  for (Operation &op : block.without_terminator()) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      runFor(loop, turn);
    } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
      runWhile(loop, turn);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      runIf(branch, turn);
    } else if (auto roles = dyn_cast<kgpu::RolesOp>(op)) {
      for (Region &region : roles->getRegions())
        runBlock(region.front(), turn);
    } else {
      for (Value result : op.getResults())
        if (needed.contains(result))
          values[result] = op.getNumResults() == 1 ? evaluate(op) : nullptr;
      visit(&op, turn);
    }
  }
}

void Indices::runFor(scf::ForOp loop, const Turn &turn) {
  Loop &seen = loopTable[loop];
  seen.entries += turn.weight;
  copy(loop.getInits(), loop.getRegionIterArgs());
  std::optional<int64_t> lower = number(loop.getLowerBound()), upper = number(loop.getUpperBound()),
                         step = number(loop.getStep());
  if (!lower || !upper || !step || *step <= 0) {
    // One iteration stands for all; loop-carried values are unknown after the loop.
    seen.turns += turn.weight;
    seen.estimated = true;
    values[loop.getInductionVar()] = nullptr;
    for (BlockArgument argument : loop.getRegionIterArgs())
      values[argument] = nullptr;
    runBlock(*loop.getBody(), {turn.weight, true});
    for (Value result : loop.getResults())
      values[result] = nullptr;
    return;
  }
  int64_t count = *upper > *lower ? llvm::divideCeil(uint64_t(*upper - *lower), uint64_t(*step)) : 0;
  seen.turns += turn.weight * double(count);
  bool carries = llvm::any_of(loop.getRegionIterArgs(), [&](BlockArgument value) { return needed.contains(value); });
  int64_t ran = std::min(count, mostTurns);
  for (int64_t i = 0; i < ran; ++i) {
    // If the loop carries nothing, sample iterations from the first to the last.
    int64_t which = carries || ran < 2 ? i : i * (count - 1) / (ran - 1);
    Numbers index;
    index.elements = {*lower + which * *step};
    values[loop.getInductionVar()] = std::make_shared<Numbers>(std::move(index));
    runBlock(*loop.getBody(), {turn.weight * double(count) / double(ran), turn.estimated});
    copy(loop.getYieldedValues(), loop.getRegionIterArgs());
  }
  copy(loop.getRegionIterArgs(), loop.getResults());
  if (ran < count && carries)
    for (Value result : loop.getResults())
      values[result] = nullptr;
}

void Indices::runWhile(scf::WhileOp loop, const Turn &turn) {
  Loop &seen = loopTable[loop];
  seen.entries += turn.weight;
  copy(loop.getInits(), loop.getBeforeArguments());
  scf::ConditionOp condition = loop.getConditionOp();
  for (int64_t i = 0;; ++i) {
    Turn inside = turn;
    runBlock(loop.getBefore().front(), inside);
    std::optional<int64_t> goesOn = number(condition.getCondition());
    if (goesOn && !*goesOn)
      break;
    copy(condition.getArgs(), loop.getAfterArguments());
    bool known = goesOn && i < mostTurns;
    inside.estimated |= !known;
    seen.turns += turn.weight;
    seen.estimated |= !known;
    runBlock(loop.getAfter().front(), inside);
    if (!known) {
      for (Value result : loop.getResults())
        values[result] = nullptr;
      return;
    }
    copy(loop.getYieldOp()->getOperands(), loop.getBeforeArguments());
  }
  copy(condition.getArgs(), loop.getResults());
}

void Indices::runIf(scf::IfOp branch, const Turn &turn) {
  std::optional<int64_t> condition = number(branch.getCondition());
  for (Region *region : {&branch.getThenRegion(), &branch.getElseRegion()}) {
    if (region->empty() || (condition && (*condition != 0) != (region == &branch.getThenRegion())))
      continue;
    runBlock(region->front(), {turn.weight, turn.estimated || !condition});
    copy(region->front().getTerminator()->getOperands(), branch.getResults());
  }
  if (!condition)
    for (Value result : branch.getResults())
      values[result] = nullptr;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

namespace {

/// One element of the result from one element of each operand; std::nullopt if undefined (a division by zero).
std::optional<int64_t> apply(Operation &op, ArrayRef<int64_t> in) {
  using Result = std::optional<int64_t>;
  Type type = op.getOperand(0).getType();
  auto u = [&](int64_t value) { return unsignedOf(value, type); };
  return TypeSwitch<Operation *, Result>(&op)
      .Case([&](arith::AddIOp) -> Result { return int64_t(uint64_t(in[0]) + uint64_t(in[1])); })
      .Case([&](arith::SubIOp) -> Result { return int64_t(uint64_t(in[0]) - uint64_t(in[1])); })
      .Case([&](arith::MulIOp) -> Result { return int64_t(uint64_t(in[0]) * uint64_t(in[1])); })
      .Case([&](arith::DivSIOp) -> Result { return in[1] ? Result(in[0] / in[1]) : std::nullopt; })
      .Case([&](arith::RemSIOp) -> Result { return in[1] ? Result(in[0] % in[1]) : std::nullopt; })
      .Case([&](arith::DivUIOp) -> Result { return in[1] ? Result(u(in[0]) / u(in[1])) : std::nullopt; })
      .Case([&](arith::RemUIOp) -> Result { return in[1] ? Result(u(in[0]) % u(in[1])) : std::nullopt; })
      .Case([&](arith::CeilDivSIOp) -> Result {
        return in[1] ? Result(llvm::divideCeilSigned(in[0], in[1])) : std::nullopt;
      })
      .Case([&](arith::FloorDivSIOp) -> Result {
        return in[1] ? Result(llvm::divideFloorSigned(in[0], in[1])) : std::nullopt;
      })
      .Case([&](arith::AndIOp) -> Result { return in[0] & in[1]; })
      .Case([&](arith::OrIOp) -> Result { return in[0] | in[1]; })
      .Case([&](arith::XOrIOp) -> Result { return in[0] ^ in[1]; })
      .Case([&](arith::ShLIOp) -> Result { return u(in[1]) < 64 ? Result(uint64_t(in[0]) << u(in[1])) : std::nullopt; })
      .Case([&](arith::ShRSIOp) -> Result { return u(in[1]) < 64 ? Result(in[0] >> u(in[1])) : std::nullopt; })
      .Case([&](arith::ShRUIOp) -> Result { return u(in[1]) < 64 ? Result(u(in[0]) >> u(in[1])) : std::nullopt; })
      .Case([&](arith::MinSIOp) -> Result { return std::min(in[0], in[1]); })
      .Case([&](arith::MaxSIOp) -> Result { return std::max(in[0], in[1]); })
      .Case([&](arith::MinUIOp) -> Result { return std::min(u(in[0]), u(in[1])); })
      .Case([&](arith::MaxUIOp) -> Result { return std::max(u(in[0]), u(in[1])); })
      .Case([&](arith::SelectOp) -> Result { return in[0] ? in[1] : in[2]; })
      .Case([&](arith::CmpIOp compare) -> Result {
        switch (compare.getPredicate()) {
        case arith::CmpIPredicate::eq:
          return in[0] == in[1];
        case arith::CmpIPredicate::ne:
          return in[0] != in[1];
        case arith::CmpIPredicate::slt:
          return in[0] < in[1];
        case arith::CmpIPredicate::sle:
          return in[0] <= in[1];
        case arith::CmpIPredicate::sgt:
          return in[0] > in[1];
        case arith::CmpIPredicate::sge:
          return in[0] >= in[1];
        case arith::CmpIPredicate::ult:
          return u(in[0]) < u(in[1]);
        case arith::CmpIPredicate::ule:
          return u(in[0]) <= u(in[1]);
        case arith::CmpIPredicate::ugt:
          return u(in[0]) > u(in[1]);
        case arith::CmpIPredicate::uge:
          return u(in[0]) >= u(in[1]);
        }
        return std::nullopt;
      })
      .Case([&](arith::ExtUIOp) -> Result { return int64_t(u(in[0])); })
      .Case<arith::ExtSIOp>([&](auto) -> Result {
        return cast<IntegerType>(getElementTypeOrSelf(type)).getWidth() == 1 ? -in[0] : in[0];
      })
      .Case<arith::TruncIOp, arith::IndexCastOp, tile::PtrToIntOp, tile::IntToPtrOp, tile::PtrCastOp, tile::HintOp>(
          [&](auto) -> Result { return in[0]; })
      .Case([&](tile::AddPtrOp add) -> Result {
        auto pointer = cast<tile::PtrType>(getElementTypeOrSelf(add.getPtr().getType()));
        return in[0] + in[1] * tile::memoryBytes(pointer.getPointee());
      })
      .Default([](Operation *) -> Result { return std::nullopt; });
}

/// Gathers result elements: `map` gives the source position for the coordinates of a result element.
template <typename Map> std::vector<int64_t> gathered(const Numbers &source, ArrayRef<int64_t> shape, Map map) {
  int64_t size = 1;
  for (int64_t side : shape)
    size *= side;
  std::vector<int64_t> result(size);
  SmallVector<int64_t, 4> index(shape.size(), 0);
  for (int64_t i = 0; i < size; ++i) {
    result[i] = source.at(map(index));
    for (unsigned d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
  return result;
}

} // namespace

Known Indices::evaluate(Operation &op) {
  Type type = op.getResult(0).getType();
  Numbers result;
  result.shape = shapeOf(type);

  // Ops without operands.
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto asNumber = [&](const APInt &value) { return wrapped(int64_t(value.getZExtValue()), type); };
    if (auto integer = dyn_cast<IntegerAttr>(constant.getValue()))
      result.elements = {asNumber(integer.getValue().sextOrTrunc(64))};
    else if (auto dense = dyn_cast<DenseIntElementsAttr>(constant.getValue()); dense && dense.isSplat())
      result.elements = {asNumber(dense.getSplatValue<APInt>().sextOrTrunc(64))};
    else if (dense)
      for (const APInt &value : dense.getValues<APInt>())
        result.elements.push_back(asNumber(value.sextOrTrunc(64)));
    else
      return nullptr;
    return std::make_shared<Numbers>(std::move(result));
  }
  if (auto id = dyn_cast<tile::ProgramIdOp>(op))
    return std::make_shared<Numbers>(Numbers{{}, {program[unsigned(id.getAxis())]}});
  if (auto count = dyn_cast<tile::NumProgramsOp>(op))
    return std::make_shared<Numbers>(Numbers{{}, {launch.grid[unsigned(count.getAxis())]}});
  // A block of a persistent grid runs several program instances; here each instance has a block of its own.
  if (isa<kgpu::FirstProgramOp>(op))
    return std::make_shared<Numbers>(
        Numbers{{}, {program[0] + launch.grid[0] * (program[1] + launch.grid[1] * program[2])}});
  if (isa<kgpu::ProgramStepOp>(op))
    return std::make_shared<Numbers>(Numbers{{}, {launch.grid[0] * launch.grid[1] * launch.grid[2]}});
  if (auto range = dyn_cast<tile::MakeRangeOp>(op)) {
    for (int64_t i = range.getStart(); i < int64_t(range.getEnd()); ++i)
      result.elements.push_back(i);
    return std::make_shared<Numbers>(std::move(result));
  }

  SmallVector<Known, 3> in;
  for (Value operand : op.getOperands()) {
    in.push_back(get(operand));
    if (!in.back())
      return nullptr;
  }
  if (in.empty())
    return nullptr;

  // Ops that move elements. Uniform tiles stay uniform.
  const Numbers &source = *in[0];
  if (isa<tile::SplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp, tile::TransOp, tile::UnsplatOp,
          kgpu::ConvertOp, kgpu::KeepOp>(op)) {
    if (source.uniform()) {
      result.elements = source.elements;
    } else if (auto broadcast = dyn_cast<tile::BroadcastOp>(op)) {
      result.elements = gathered(source, result.shape, [&](ArrayRef<int64_t> index) {
        int64_t place = 0;
        for (auto [i, side] : llvm::zip_equal(index, source.shape))
          place = place * side + (side == 1 ? 0 : i);
        return place;
      });
    } else if (auto trans = dyn_cast<tile::TransOp>(op)) {
      ArrayRef<int32_t> order = trans.getOrder();
      result.elements = gathered(source, result.shape, [&](ArrayRef<int64_t> index) {
        SmallVector<int64_t, 4> from(index.size());
        for (auto [i, dim] : llvm::enumerate(order))
          from[dim] = index[i];
        int64_t place = 0;
        for (auto [i, side] : llvm::zip_equal(from, source.shape))
          place = place * side + i;
        return place;
      });
    } else {
      result.elements = source.elements; // the same elements in row-major order
    }
    return std::make_shared<Numbers>(std::move(result));
  }

  // Elementwise.
  bool uniform = llvm::all_of(in, [](const Known &operand) { return operand->uniform(); });
  int64_t size = uniform ? 1 : result.size();
  result.elements.reserve(size);
  SmallVector<int64_t, 3> element(in.size());
  for (int64_t i = 0; i < size; ++i) {
    for (auto [slot, operand] : llvm::zip_equal(element, in))
      slot = operand->at(i);
    std::optional<int64_t> value = apply(op, element);
    if (!value)
      return nullptr;
    result.elements.push_back(wrapped(*value, type));
  }
  return std::make_shared<Numbers>(std::move(result));
}
