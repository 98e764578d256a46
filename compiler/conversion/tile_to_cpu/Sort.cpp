// sort and topk: bitonic networks whose comparisons are vector minima and maxima.
//
// A row lies in scratch memory as `count` vectors of `width` lanes and is read by columns: element lane * count + i is
// lane `lane` of vector i. A comparison of elements less than `count` apart then compares whole vectors; only the last
// log2(width) merges compare lanes. Keys are integers that compare as the elements do.
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

/// The number of vectors that are sorted in registers, and that one pass over memory compares together.
static constexpr int64_t kBlock = 8;

namespace {
struct Network {
  CodeBuilder &b;
  Type element;
  IntegerType key;
  int64_t bytes, width = 1;
  bool descending, asUnsigned;

  Network(CodeBuilder &b, Type element, bool descending, bool isUnsigned)
      : b(b), element(element),
        key(IntegerType::get(element.getContext(), memoryType(element).getIntOrFloatBitWidth())),
        bytes(memoryBytes(element)), descending(descending), asUnsigned(isUnsigned) {}

  //--- Keys
  Type keys(int64_t lanes) const { return lanes > 1 ? Type(VectorType::get({lanes}, key)) : Type(key); }
  Value constant(int64_t lanes, const APInt &value) {
    return b.splatConstant(keys(lanes), b.getIntegerAttr(key, value));
  }
  /// A key that no other key follows.
  Value last(int64_t lanes) {
    unsigned bits = key.getWidth();
    if (asUnsigned)
      return constant(lanes, descending ? APInt::getZero(bits) : APInt::getMaxValue(bits));
    return constant(lanes, descending ? APInt::getSignedMinValue(bits) : APInt::getSignedMaxValue(bits));
  }
  /// Floats compare like sign-magnitude integers; this maps them to two's complement, and back. toKeys() makes every
  /// NaN positive, and so the largest.
  Value turnNegative(Value bits, int64_t lanes) {
    Value sign = arith::ShRSIOp::create(b, bits, constant(lanes, APInt(key.getWidth(), key.getWidth() - 1)));
    return arith::XOrIOp::create(
        b, bits, arith::AndIOp::create(b, sign, constant(lanes, APInt::getSignedMaxValue(key.getWidth()))));
  }
  Value toKeys(Value bits, int64_t lanes) {
    auto type = dyn_cast<FloatType>(element);
    if (!type)
      return bits;
    const llvm::fltSemantics &semantics = type.getFloatSemantics();
    APInt largest = (APFloat::semanticsHasInf(semantics) ? APFloat::getInf(semantics) : APFloat::getLargest(semantics))
                        .bitcastToAPInt();
    Value magnitude = arith::AndIOp::create(b, bits, constant(lanes, APInt::getSignedMaxValue(key.getWidth())));
    Value isNaN = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, magnitude, constant(lanes, largest));
    return arith::SelectOp::create(b, isNaN, magnitude, turnNegative(bits, lanes));
  }
  Value fromKeys(Value keys, int64_t lanes) { return isa<FloatType>(element) ? turnNegative(keys, lanes) : keys; }

  //--- Memory
  Value address(Value base, Value position) {
    return LLVM::GEPOp::create(b, b.ptrType, key, base, ArrayRef<LLVM::GEPArg>{position});
  }
  Value load(Value base, Value position, int64_t lanes) {
    return LLVM::LoadOp::create(b, keys(lanes), address(base, position), bytes);
  }
  void store(Value base, Value position, Value value) {
    LLVM::StoreOp::create(b, value, address(base, position), bytes);
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value vectors(Value count) { return arith::MulIOp::create(b, count, b.i64(width)); }
  /// Runs `body` on `elements` elements from `begin` on, in whole vectors, then one by one for the rest.
  void pieces(int64_t begin, int64_t elements, function_ref<void(Value, int64_t)> body) {
    int64_t whole = elements / width * width;
    auto run = [&](int64_t from, int64_t count, int64_t lanes) {
      if (count)
        b.loop(count, lanes, {}, [&](Value position, ValueRange) -> SmallVector<Value> {
          body(add(position, b.i64(from)), lanes);
          return {};
        });
    };
    run(begin, whole, width);
    run(begin + whole, elements - whole, 1);
  }
  /// Copies a row of `length` elements as keys, padded to `padded`.
  void copyIn(Value row, int64_t length, Value scratch, int64_t padded) {
    int64_t whole = length / width * width;
    pieces(whole, padded - whole, [&](Value at, int64_t lanes) { store(scratch, at, last(lanes)); });
    pieces(0, length, [&](Value at, int64_t lanes) { store(scratch, at, toKeys(load(row, at, lanes), lanes)); });
  }
  void copyOut(Value scratch, Value row, int64_t length) {
    pieces(0, length, [&](Value at, int64_t lanes) { store(row, at, fromKeys(load(scratch, at, lanes), lanes)); });
  }

  //--- Comparisons
  Value pick(Value x, Value y, bool first) {
    bool smaller = first != descending;
    if (asUnsigned)
      return smaller ? arith::MinUIOp::create(b, x, y).getResult() : arith::MaxUIOp::create(b, x, y).getResult();
    return smaller ? arith::MinSIOp::create(b, x, y).getResult() : arith::MaxSIOp::create(b, x, y).getResult();
  }
  void compare(Value &x, Value &y) {
    Value first = pick(x, y, true);
    y = pick(x, y, false);
    x = first;
  }
  /// Lane l becomes lane l ^ mask.
  Value exchanged(Value value, int64_t mask) {
    SmallVector<int64_t> lanes(width);
    for (int64_t lane = 0; lane < width; ++lane)
      lanes[lane] = lane ^ mask;
    return vector::ShuffleOp::create(b, value, value, lanes);
  }
  /// In lanes without `bit` the earlier of own and other, in lanes with it the later.
  Value pickByLane(Value own, Value other, int64_t bit) {
    SmallVector<bool> later(width);
    for (int64_t lane = 0; lane < width; ++lane)
      later[lane] = lane & bit;
    Value mask = arith::ConstantOp::create(b, DenseElementsAttr::get(VectorType::get({width}, b.getI1Type()), later));
    return arith::SelectOp::create(b, mask, pick(own, other, false), pick(own, other, true));
  }
  /// Batcher's odd-even merge sort of a few vectors in registers.
  void sortRegisters(MutableArrayRef<Value> values) {
    int64_t count = values.size();
    for (int64_t run = 1; run < count; run *= 2)
      for (int64_t apart = run; apart >= 1; apart /= 2)
        for (int64_t start = apart % run; start + apart < count; start += 2 * apart)
          for (int64_t i = start; i < std::min(start + apart, count - apart); ++i)
            if (i / (2 * run) == (i + apart) / (2 * run))
              compare(values[i], values[i + apart]);
  }
  /// Sorts a bitonic sequence of vectors in registers.
  void cleanRegisters(MutableArrayRef<Value> values) {
    int64_t count = values.size();
    for (int64_t apart = count / 2; apart >= 1; apart /= 2)
      for (int64_t i = 0; i < count; ++i)
        if (!(i & apart))
          compare(values[i], values[i + apart]);
  }

  //--- Passes over `count` vectors in memory
  SmallVector<Value> runtimeLoop(Value count, ValueRange inits, function_ref<SmallVector<Value>(ValueRange)> body) {
    auto loop = scf::ForOp::create(b, b.i64(0), count, b.i64(1), inits);
    if (!loop.getBody()->empty())
      loop.getBody()->back().erase();
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(loop.getBody());
    scf::YieldOp::create(b, body(loop.getRegionIterArgs()));
    return {loop.getResults().begin(), loop.getResults().end()};
  }
  void when(Value condition, function_ref<void()> then, function_ref<void()> otherwise = nullptr) {
    auto filled = [](function_ref<void()> fn) {
      return [fn]() -> SmallVector<Value> {
        fn();
        return {};
      };
    };
    if (otherwise)
      b.branch(condition, {}, filled(then), filled(otherwise));
    else
      b.branch(condition, {}, filled(then), nullptr);
  }
  Value equal(Value value, int64_t constant) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, value, b.i64(constant));
  }
  /// Loads the vectors at `places`, runs `body` on them, stores them.
  void update(Value base, ArrayRef<Value> places, function_ref<void(MutableArrayRef<Value>)> body) {
    SmallVector<Value> values;
    for (Value place : places)
      values.push_back(load(base, vectors(place), width));
    body(values);
    for (auto [place, value] : llvm::zip(places, values))
      store(base, vectors(place), value);
  }
  /// Compares vectors at distances `apart`, apart / 2, ..., 2^stages vectors at a time.
  void pass(Value base, int64_t count, int64_t stages, Value apart) {
    int64_t group = int64_t(1) << stages;
    if (count < group)
      return;
    Value step = arith::ShRUIOp::create(b, apart, b.i64(stages - 1));
    Value inStep = sub(step, b.i64(1));
    b.loop(count / group, 1, {}, [&](Value number, ValueRange) -> SmallVector<Value> {
      Value low = arith::AndIOp::create(b, number, inStep);
      Value place = add(arith::ShLIOp::create(b, sub(number, low), b.i64(stages)), low);
      SmallVector<Value> places{place};
      while (static_cast<int64_t>(places.size()) < group)
        places.push_back(add(places.back(), step));
      update(base, places, [&](MutableArrayRef<Value> values) { cleanRegisters(values); });
      return {};
    });
  }
  /// Sorts bitonic sequences of 2 * apart = 2^stages vectors.
  void clean(Value base, int64_t count, Value apart, Value stages) {
    Value rest = arith::RemUIOp::create(b, stages, b.i64(3));
    runtimeLoop(arith::DivUIOp::create(b, stages, b.i64(3)), apart, [&](ValueRange carried) {
      pass(base, count, 3, carried[0]);
      return SmallVector<Value>{arith::ShRUIOp::create(b, carried[0], b.i64(3))};
    });
    when(equal(rest, 2), [&] { pass(base, count, 2, b.i64(2)); });
    when(equal(rest, 1), [&] { pass(base, count, 1, b.i64(1)); });
  }
  /// The first two stages of merging adjacent runs of `run` vectors: mirrored, then half a run apart.
  void mirror(Value base, int64_t count, Value run) {
    Value half = arith::ShRUIOp::create(b, run, b.i64(1));
    b.loop(count / 4, 1, {}, [&](Value number, ValueRange) -> SmallVector<Value> {
      Value low = arith::AndIOp::create(b, number, sub(half, b.i64(1)));
      Value begin = arith::ShLIOp::create(b, sub(number, low), b.i64(2));
      Value place = add(begin, low);
      Value mirrored = sub(sub(add(begin, arith::ShLIOp::create(b, run, b.i64(1))), low), b.i64(1));
      update(base, {place, add(place, half), sub(mirrored, half), mirrored}, [&](MutableArrayRef<Value> values) {
        compare(values[0], values[3]);
        compare(values[1], values[2]);
        compare(values[0], values[1]);
        compare(values[2], values[3]);
      });
      return {};
    });
  }
  /// The stages between lanes of merging adjacent runs of `run` lanes.
  void mergeLanes(Value base, int64_t count, int64_t run) {
    b.loop(count / 2, 1, {}, [&](Value number, ValueRange) -> SmallVector<Value> {
      update(base, {number, sub(b.i64(count - 1), number)}, [&](MutableArrayRef<Value> values) {
        Value x = values[0];
        values[0] = pickByLane(x, exchanged(values[1], 2 * run - 1), run);
        values[1] = pickByLane(values[1], exchanged(x, 2 * run - 1), run);
        for (int64_t apart = run / 2; apart >= 1; apart /= 2)
          for (Value &value : values)
            value = pickByLane(value, exchanged(value, apart), apart);
      });
      return {};
    });
  }
  /// Reads `count` vectors of keys (`raw`: of elements that are not yet keys) and writes sorted blocks of them.
  void sortBlocks(Value from, bool raw, Value to, int64_t count) {
    b.loop(count, kBlock, {}, [&](Value place, ValueRange) -> SmallVector<Value> {
      SmallVector<Value> values;
      auto position = [&](int64_t i) { return vectors(add(place, b.i64(i))); };
      for (int64_t i = 0; i < kBlock; ++i) {
        Value value = load(from, position(i), width);
        values.push_back(raw ? toKeys(value, width) : value);
      }
      sortRegisters(values);
      for (auto [i, value] : llvm::enumerate(values))
        store(to, position(i), value);
      return {};
    });
  }
  /// Merges sorted blocks into sorted columns, and with `acrossLanes` the columns into one run.
  void mergeBlocks(Value base, int64_t count, bool acrossLanes) {
    int64_t columns = llvm::Log2_64(count), lanes = acrossLanes ? llvm::Log2_64(width) : 0;
    int64_t blocks = llvm::Log2_64(kBlock), levels = columns - blocks + lanes;
    if (levels == 0)
      return;
    b.loop(levels, 1, b.i64(kBlock), [&](Value level, ValueRange carried) -> SmallVector<Value> {
      Value run = carried[0];
      Value down = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, run, b.i64(count));
      when(
          down, [&] { mirror(base, count, run); },
          [&] {
            for (int64_t i = 0; i < lanes; ++i)
              when(equal(run, count << i), [&] { mergeLanes(base, count, int64_t(1) << i); });
          });
      Value apart = arith::SelectOp::create(b, down, arith::ShRUIOp::create(b, run, b.i64(2)), b.i64(count / 2));
      Value stages = arith::SelectOp::create(b, down, add(level, b.i64(blocks - 1)), b.i64(columns));
      clean(base, count, apart, stages);
      return {arith::ShLIOp::create(b, run, b.i64(1))};
    });
  }
  /// Writes the columns one after the other.
  void writeColumns(Value scratch, int64_t count, Value to, bool raw) {
    b.loop(count, width, {}, [&](Value place, ValueRange) -> SmallVector<Value> {
      SmallVector<Value> values;
      for (int64_t i = 0; i < width; ++i) {
        Value value = load(scratch, vectors(add(place, b.i64(i))), width);
        values.push_back(raw ? fromKeys(value, width) : value);
      }
      b.turnOver(values);
      for (auto [lane, value] : llvm::enumerate(values))
        store(to, add(place, b.i64(lane * count)), value);
      return {};
    });
  }

  /// Keeps, in each lane and in the lane `mask` away, the first `count` of both; then sorts them again.
  void pruneLanes(MutableArrayRef<Value> values, int64_t mask) {
    SmallVector<Value> others;
    for (Value value : values)
      others.push_back(exchanged(value, mask));
    for (auto [value, other] : llvm::zip(values, llvm::reverse(others)))
      value = pick(value, other, true);
  }

  //--- Rows
  /// Sorts a row; the first `wanted` elements go to `target`.
  void sortRow(Value row, int64_t length, Value target, int64_t wanted, Value scratch, Value turned, int64_t padded) {
    int64_t count = padded / width;
    bool direct = length == padded, straight = width > 1 && wanted == padded;
    if (!direct)
      copyIn(row, length, scratch, padded);
    sortBlocks(direct ? row : scratch, direct, scratch, count);
    mergeBlocks(scratch, count, /*acrossLanes=*/true);
    if (width > 1)
      writeColumns(scratch, count, straight ? target : turned, straight);
    if (!straight)
      copyOut(width > 1 ? turned : scratch, target, wanted);
  }

  /// Keeps the first 2^n >= wanted vectors of each column in registers and merges further blocks of that size into
  /// them.
  void selectInRegisters(Value from, bool raw, int64_t padded, Value target, int64_t wanted) {
    int64_t block = llvm::PowerOf2Ceil(wanted);
    SmallVector<Value> best(block, last(width));
    best = b.loop(padded / width, block, best, [&](Value place, ValueRange carried) -> SmallVector<Value> {
      SmallVector<Value> values, kept;
      for (int64_t i = 0; i < block; ++i) {
        Value value = load(from, vectors(add(place, b.i64(i))), width);
        values.push_back(raw ? toKeys(value, width) : value);
      }
      sortRegisters(values);
      for (auto [old, value] : llvm::zip(carried, llvm::reverse(values)))
        kept.push_back(pick(old, value, true));
      cleanRegisters(kept);
      return kept;
    });
    for (int64_t mask = 1; mask < width; mask *= 2) {
      pruneLanes(best, mask);
      cleanRegisters(best);
    }
    for (int64_t i = 0; i < wanted; ++i) {
      Value value = width > 1 ? vector::ExtractOp::create(b, best[i], ArrayRef<int64_t>{0}).getResult() : best[i];
      store(target, b.i64(i), fromKeys(value, 1));
    }
  }

  /// The same in memory, for larger numbers: `best` and `scratch` hold one block each.
  void select(Value from, bool raw, int64_t padded, Value target, int64_t wanted, Value best, Value scratch) {
    int64_t block = llvm::PowerOf2Ceil(wanted), stages = llvm::Log2_64(block);
    auto cleanBest = [&] { clean(best, block, b.i64(block / 2), b.i64(stages)); };
    b.loop(block, 1, {}, [&](Value place, ValueRange) -> SmallVector<Value> {
      store(best, vectors(place), last(width));
      return {};
    });
    b.loop(padded / width, block, {}, [&](Value start, ValueRange) -> SmallVector<Value> {
      sortBlocks(address(from, vectors(start)), raw, scratch, block);
      mergeBlocks(scratch, block, /*acrossLanes=*/false);
      b.loop(block, 1, {}, [&](Value place, ValueRange) -> SmallVector<Value> {
        Value mirrored = sub(b.i64(block - 1), place);
        Value value = load(scratch, vectors(mirrored), width);
        update(best, place, [&](MutableArrayRef<Value> values) { values[0] = pick(values[0], value, true); });
        return {};
      });
      cleanBest();
      return {};
    });
    b.loop(llvm::Log2_64(width), 1, b.i64(1), [&](Value, ValueRange carried) -> SmallVector<Value> {
      for (int64_t mask = 1; mask < width; mask *= 2)
        when(equal(carried[0], mask), [&] {
          b.loop(block / 2, 1, {}, [&](Value place, ValueRange) -> SmallVector<Value> {
            update(best, {place, sub(b.i64(block - 1), place)},
                   [&](MutableArrayRef<Value> values) { pruneLanes(values, mask); });
            return {};
          });
        });
      cleanBest();
      return {arith::ShLIOp::create(b, carried[0], b.i64(1))};
    });
    b.loop(wanted, 1, {}, [&](Value i, ValueRange) -> SmallVector<Value> {
      store(target, i, fromKeys(load(best, vectors(i), 1), 1));
      return {};
    });
  }
};
} // namespace

/// The first elements of each sorted row, as many as the rows of `target` hold.
static void firstOfRows(KernelLowering &lowering, const Storage &source, const Storage &target, bool descending,
                        bool isUnsigned) {
  CodeBuilder &b = lowering.b;
  int64_t length = source.shape.back(), wanted = target.shape.back(), rows = 1;
  for (int64_t side : ArrayRef<int64_t>(source.shape).drop_back())
    rows *= side;
  lowering.frame.advance();
  lowering.frame.touch(source.lifetime);
  lowering.frame.touch(target.lifetime);
  Network network(b, source.element, descending, isUnsigned || source.element.isInteger(1));
  int64_t bytes = network.bytes, widest = std::min<int64_t>(lowering.target.vectorLanes(bytes), lowering.lanes());
  int64_t padded = std::max<int64_t>(llvm::PowerOf2Ceil(length), kBlock), block = llvm::PowerOf2Ceil(wanted);
  // Selecting costs as much as sorting if there are only few lanes per wanted element.
  bool selects = block * std::min<int64_t>(widest, 4) <= padded && wanted < length;
  if (selects) {
    network.width = std::min(widest, padded / block);
    padded = llvm::alignTo(length, block * network.width);
  } else {
    // Columns must be at least as long as a block, and as a square that is transposed.
    while (network.width * 2 <= widest && network.width * 2 * kBlock <= padded &&
           network.width * network.width * 4 <= padded)
      network.width *= 2;
  }
  auto scratch = [&](int64_t elements) {
    int lifetime;
    Value pointer = lowering.frame.buffer(elements * bytes, lifetime);
    lowering.frame.touch(lifetime);
    return pointer;
  };
  bool direct = length == padded, inRegisters = selects && block <= kBlock;
  Value row = selects && direct ? Value() : scratch(padded), first, second;
  if (selects && !inRegisters) {
    first = scratch(block * network.width);
    second = scratch(block * network.width);
  } else if (!selects && network.width > 1 && wanted != padded) {
    first = scratch(padded);
  }
  b.loop(rows, 1, {}, [&](Value number, ValueRange) -> SmallVector<Value> {
    Value from = network.address(source.pointer, arith::MulIOp::create(b, number, b.i64(length)));
    Value to = network.address(target.pointer, arith::MulIOp::create(b, number, b.i64(wanted)));
    if (!selects) {
      network.sortRow(from, length, to, wanted, row, first, padded);
      return {};
    }
    if (!direct)
      network.copyIn(from, length, row, padded);
    if (inRegisters)
      network.selectInRegisters(direct ? from : row, direct, padded, to, wanted);
    else
      network.select(direct ? from : row, direct, padded, to, wanted, first, second);
    return {};
  });
}

LogicalResult cpu::emitSort(KernelLowering &lowering, tile::SortOp op) {
  const Storage source = lowering.frame.storageOf(op.getValue());
  Storage target = lowering.allocateFor(op.getResult());
  firstOfRows(lowering, source, target, op.getDescending(), op.getIsUnsigned());
  lowering.frame.assign(op.getResult(), target);
  return success();
}

LogicalResult cpu::emitTopk(KernelLowering &lowering, tile::TopkOp op) {
  const Storage source = lowering.frame.storageOf(op.getValue());
  Storage target = lowering.allocateFor(op.getResult());
  firstOfRows(lowering, source, target, !op.getAscending(), op.getIsUnsigned());
  lowering.frame.assign(op.getResult(), target);
  return success();
}
