// Counts bytes and operations over a sample of program instances.
#include "compiler/explain/Work.h"
#include "compiler/pipeline/Diagnostics.h"
#include "dialects/kgpu/KgpuDialect.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"
#include <cmath>
#include <map>
#include <set>

using namespace mlir;
using namespace kiln;
using namespace kiln::explain;

llvm::json::Array explain::framesOf(Operation *op) {
  llvm::json::Array frames;
  for (const Frame &frame : sourceFrames(op->getLoc()))
    frames.push_back(llvm::json::Array{frame.file, int64_t(frame.line), int64_t(frame.column), frame.function});
  return frames;
}

static int64_t elementsOf(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile ? tile.getNumElements() : 1;
}

/// "f32", "bf16", "i8": as MLIR prints it.
static std::string nameOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << getElementTypeOrSelf(type);
  return text;
}

namespace {

struct Array {
  double read = 0, written = 0;
  int64_t first = INT64_MAX, last = INT64_MIN; ///< bytes from the argument's start
};

struct AccessCount {
  const char *kind = "load";
  std::set<unsigned> arguments;
  double count = 0, bytes = 0;
  bool estimated = false;
};

/// Bytes that one execution moves.
struct Moved {
  double bytes = 0;
  bool estimated = false;
};

class Counter {
public:
  Counter(func::FuncOp kernel, Indices &indices) : kernel(kernel), indices(indices) {}

  void visit(Operation *op, const Indices::Turn &turn);

  std::map<unsigned, Array> arrays;
  llvm::MapVector<Operation *, AccessCount> accesses;
  std::map<std::string, std::map<std::string, double>> operations;
  bool estimated = false;

private:
  void access(Operation *op, const char *kind, const Indices::Turn &turn, bool reads, bool writes, Moved moved);
  Moved pointers(Operation *op, Value addresses, Value mask, bool reads, bool writes, double weight);
  Moved block(Operation *op, Value descriptor, ValueRange offsets, bool reads, bool writes, double weight);
  void touch(Operation *op, int64_t from, int64_t to, double bytes, bool reads, bool writes);

  func::FuncOp kernel;
  Indices &indices;
};

} // namespace

void Counter::touch(Operation *op, int64_t from, int64_t to, double bytes, bool reads, bool writes) {
  auto [argument, first] = Indices::argumentOf(from);
  if (argument >= kernel.getNumArguments())
    return;
  Array &array = arrays[argument];
  array.first = std::min(array.first, first);
  array.last = std::max(array.last, first + (to - from));
  array.read += reads ? bytes : 0;
  array.written += writes ? bytes : 0;
  accesses[op].arguments.insert(argument);
}

Moved Counter::pointers(Operation *op, Value addresses, Value mask, bool reads, bool writes, double weight) {
  auto pointer = cast<tile::PtrType>(getElementTypeOrSelf(addresses.getType()));
  int64_t size = tile::memoryBytes(pointer.getPointee()), count = elementsOf(addresses.getType());
  Known where = indices.get(addresses), kept = mask ? indices.get(mask) : nullptr;
  bool estimated = mask && !kept;
  if (!where)
    return {double(count * size), true};
  // By argument: a tile may select between arrays.
  struct Extent {
    int64_t from = INT64_MAX, to = INT64_MIN, count = 0;
  };
  std::map<unsigned, Extent> extents;
  int64_t active = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (kept && !kept->at(i))
      continue;
    int64_t address = where->at(i);
    Extent &extent = extents[Indices::argumentOf(address).first];
    extent.from = std::min(extent.from, address);
    extent.to = std::max(extent.to, address + size);
    ++extent.count;
    ++active;
  }
  for (auto &[argument, extent] : extents)
    touch(op, extent.from, extent.to, double(extent.count * size) * weight, reads, writes);
  return {double(active * size), estimated};
}

Moved Counter::block(Operation *op, Value descriptor, ValueRange offsets, bool reads, bool writes, double weight) {
  auto type = cast<tile::DescType>(descriptor.getType());
  ArrayRef<int64_t> sides = type.getBlock().getShape();
  int64_t size = tile::memoryBytes(type.getBlock().getElementType());
  double whole = double(type.getBlock().getNumElements() * size);
  auto made = descriptor.getDefiningOp<tile::MakeDescOp>();
  if (!made)
    return {whole, true};
  std::optional<int64_t> base = indices.number(made.getBase());
  int64_t from = base.value_or(0), to = from, inside = 1;
  for (auto [offset, extent, stride, side] : llvm::zip_equal(offsets, made.getShape(), made.getStrides(), sides)) {
    std::optional<int64_t> start = indices.number(offset), most = indices.number(extent), step = indices.number(stride);
    if (!base || !start || !most || !step)
      return {whole, true};
    int64_t first = std::max<int64_t>(*start, 0), last = std::min(*start + side, *most);
    if (last <= first)
      return {0, false};
    inside *= last - first;
    from += first * *step * size;
    to += (last - 1) * *step * size;
  }
  touch(op, from, to + size, double(inside * size) * weight, reads, writes);
  return {double(inside * size), false};
}

void Counter::access(Operation *op, const char *kind, const Indices::Turn &turn, bool reads, bool writes, Moved moved) {
  AccessCount &access = accesses[op];
  access.kind = kind;
  access.count += turn.weight;
  access.bytes += moved.bytes * turn.weight * (reads && writes ? 2 : 1);
  access.estimated |= moved.estimated || turn.estimated;
  estimated |= access.estimated;
}

void Counter::visit(Operation *op, const Indices::Turn &turn) {
  double weight = turn.weight;
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return access(op, "load", turn, true, false, pointers(op, load.getPtr(), load.getMask(), true, false, weight));
  if (auto store = dyn_cast<tile::StoreOp>(op))
    return access(op, "store", turn, false, true, pointers(op, store.getPtr(), store.getMask(), false, true, weight));
  if (auto atomic = dyn_cast<tile::AtomicRMWOp>(op))
    return access(op, "atomic", turn, true, true, pointers(op, atomic.getPtr(), atomic.getMask(), true, true, weight));
  if (auto atomic = dyn_cast<tile::AtomicCASOp>(op))
    return access(op, "atomic", turn, true, true, pointers(op, atomic.getPtr(), Value(), true, true, weight));
  if (auto load = dyn_cast<tile::DescLoadOp>(op))
    return access(op, "load", turn, true, false, block(op, load.getDesc(), load.getOffsets(), true, false, weight));
  if (auto store = dyn_cast<tile::DescStoreOp>(op))
    return access(op, "store", turn, false, true, block(op, store.getDesc(), store.getOffsets(), false, true, weight));
  // What a prefetch asks for is counted where it is read.
  if (!isMemoryEffectFree(op) && !isa<tile::PrefetchOp>(op) && llvm::any_of(op->getOperandTypes(), [](Type type) {
        return isa<tile::DescType, tile::PtrType>(getElementTypeOrSelf(type));
      })) {
    // Another way to access memory: the number of bytes is unknown, but the access is recorded.
    return access(op, "other", turn, true, true, {0, true});
  }

  if (auto dot = dyn_cast<tile::DotOp>(op)) {
    ArrayRef<int64_t> left = cast<RankedTensorType>(dot.getLhs().getType()).getShape();
    operations["tensor"][nameOf(dot.getLhs().getType())] +=
        2.0 * double(elementsOf(dot.getResult().getType())) * double(left.back()) * weight;
    return;
  }
  if (isa<tile::ReduceOp, tile::ScanOp>(op)) {
    operations["float"][nameOf(op->getOperand(0).getType())] +=
        double(elementsOf(op->getOperand(0).getType())) * weight;
    return;
  }
  if (op->getNumResults() != 1 || !isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
    return;
  double count = double(elementsOf(op->getResult(0).getType())) * weight;
  std::string type = nameOf(op->getResult(0).getType());
  if (isa<math::FmaOp>(op))
    operations["float"][type] += 2 * count;
  else if (isa<math::AbsFOp, math::FloorOp, math::CeilOp, math::CopySignOp>(op))
    operations["float"][type] += count;
  else if (isa<math::MathDialect>(op->getDialect()) || isa<arith::DivFOp>(op))
    operations["special"][type] += count;
  else if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
               arith::MinNumFOp, arith::NegFOp>(op))
    operations["float"][type] += count;
}

//===----------------------------------------------------------------------===//
// The sample
//===----------------------------------------------------------------------===//

/// Up to `most` of `count` numbers, evenly spread, including the first and the last.
static SmallVector<int64_t> spread(int64_t count, int64_t most) {
  SmallVector<int64_t> numbers;
  int64_t taken = std::min(count, most);
  for (int64_t i = 0; i < taken; ++i)
    numbers.push_back(taken < 2 ? 0 : int64_t(double(i) * double(count - 1) / double(taken - 1)));
  return numbers;
}

llvm::json::Object explain::describeWork(func::FuncOp kernel, const Launch &launch, Effort effort) {
  int64_t programs = launch.grid[0] * launch.grid[1] * launch.grid[2];
  Indices indices(kernel, launch);
  Counter counter(kernel, indices);
  SmallVector<int64_t> sample = spread(programs, effort.programs);
  double share = sample.empty() ? 0 : double(programs) / double(sample.size());
  for (int64_t number : sample) {
    std::array<int64_t, 3> program = {number % launch.grid[0], number / launch.grid[0] % launch.grid[1],
                                      number / launch.grid[0] / launch.grid[1]};
    indices.run(program, effort.turns, [&](Operation *op, const Indices::Turn &turn) {
      counter.visit(op, {turn.weight * share, turn.estimated});
    });
  }

  auto argumentName = [&](unsigned index) {
    auto name = kernel.getArgAttrOfType<StringAttr>(index, "tile.name");
    return name ? name.getValue().str() : std::to_string(index);
  };
  llvm::json::Array arrays, accesses, loops;
  for (auto &[argument, array] : counter.arrays)
    arrays.push_back(llvm::json::Object{{"argument", argumentName(argument)},
                                        {"read", std::llround(array.read)},
                                        {"written", std::llround(array.written)},
                                        {"span", array.last - array.first}});
  for (auto &[op, access] : counter.accesses) {
    llvm::json::Array names;
    for (unsigned argument : access.arguments)
      names.push_back(argumentName(argument));
    accesses.push_back(llvm::json::Object{{"frames", framesOf(op)},
                                          {"kind", access.kind},
                                          {"arguments", std::move(names)},
                                          {"count", std::llround(access.count)},
                                          {"bytes", std::llround(access.bytes)},
                                          {"estimated", access.estimated}});
  }
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto it = indices.loops().find(op);
    if (it == indices.loops().end())
      return;
    const Indices::Loop &loop = it->second;
    loops.push_back(llvm::json::Object{{"frames", framesOf(op)},
                                       {"turns", loop.entries ? loop.turns / loop.entries : 0.0},
                                       {"estimated", loop.estimated}});
  });
  llvm::json::Object operations;
  for (auto &[kind, types] : counter.operations) {
    llvm::json::Object counts;
    for (auto &[type, count] : types)
      counts[type] = std::llround(count);
    operations[kind] = std::move(counts);
  }
  return llvm::json::Object{
      {"programs", programs},        {"sampled", int64_t(sample.size())}, {"estimated", counter.estimated},
      {"arrays", std::move(arrays)}, {"accesses", std::move(accesses)},   {"operations", std::move(operations)},
      {"loops", std::move(loops)}};
}
