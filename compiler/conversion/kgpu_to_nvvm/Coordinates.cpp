// Which element of a tile a register of this thread holds; see Coordinates.h.
#include "compiler/conversion/kgpu_to_nvvm/Coordinates.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Coord;
using layout::Layout;

static constexpr Coord kPlaces[] = {Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta};

static constexpr auto kNoWrap = arith::IntegerOverflowFlags::nsw | arith::IntegerOverflowFlags::nuw;

Value Coordinates::digitsValue(const Layout &layout, Coord coord, llvm::function_ref<int64_t(unsigned)> basis) {
  ArrayRef<layout::Digit> digits = layout.digits(coord);
  Value sum;
  int64_t taken = 0; // bits that may be set in `sum`
  auto add = [&](Value term, int64_t bits) {
    if (!sum)
      sum = term;
    else if (taken & bits)
      sum = arith::XOrIOp::create(b, sum, term);
    else
      sum = arith::AddIOp::create(b, sum, term, kNoWrap);
    taken |= bits;
  };
  int64_t stride = 1, total = place.population(coord);
  SmallVector<std::pair<Value, int64_t>> odd;
  for (unsigned i = 0; i < digits.size();) {
    int64_t step = basis(i), radix = digits[i].radix;
    if (step == 0) {
      stride *= radix;
      ++i;
      continue;
    }
    if (radix != 2) {
      Value digit = place.hardware(coord);
      if (stride > 1)
        digit = arith::DivUIOp::create(b, digit, b.i32(stride));
      if (stride * radix < total)
        digit = arith::RemUIOp::create(b, digit, b.i32(radix));
      odd.push_back({arith::MulIOp::create(b, digit, b.i32(step), kNoWrap), step});
      stride *= radix;
      ++i;
      continue;
    }
    // A run of bits that move together takes one shift and one mask.
    unsigned count = 1;
    if (llvm::isPowerOf2_64(step))
      while (i + count < digits.size() && digits[i + count].radix == 2 && basis(i + count) == step << count)
        ++count;
    int64_t mask = (int64_t(1) << count) - 1;
    Value bits = place.hardware(coord);
    bool reachesTop = stride << count >= total;
    if (!llvm::isPowerOf2_64(stride))
      bits = arith::DivUIOp::create(b, bits, b.i32(stride));
    else if (stride > 1)
      bits = arith::ShRUIOp::create(b, bits, b.i32(llvm::Log2_64(stride)));
    if (!reachesTop)
      bits = arith::AndIOp::create(b, bits, b.i32(mask));
    if (step != 1)
      bits = arith::MulIOp::create(b, bits, b.i32(step), kNoWrap);
    add(bits, mask * step | step);
    stride <<= count;
    i += count;
  }
  for (auto [term, step] : odd)
    sum = sum ? arith::AddIOp::create(b, sum, term, kNoWrap).getResult() : term;
  return sum;
}

Coordinates::Part &Coordinates::partOf(const Layout &layout) {
  auto &bucket = parts->byHash[unsigned(size_t(hash_value(layout)))];
  for (auto &part : bucket)
    if (part->layout == layout)
      return *part;
  SmallVector<Value, 3> dims(layout.rank());
  SmallVector<bool, 3> known(layout.rank(), false);
  bucket.push_back(std::make_unique<Part>(Part{layout, dims, known, Value(), false}));
  return *bucket.back();
}

/// The bits, below the power of two of `dim`, that the digits of `coord` may set.
static int64_t bitsAlong(const Layout &layout, Coord coord, unsigned dim) {
  int64_t bits = 0;
  for (const layout::Digit &digit : layout.digits(coord))
    if (digit.radix == 2)
      bits |= digit.basis[dim];
  return bits;
}

static int64_t threadBits(const Layout &layout, unsigned dim) {
  int64_t bits = 0;
  for (Coord coord : kPlaces)
    bits |= bitsAlong(layout, coord, dim);
  return bits;
}

Value Coordinates::threadPart(const Layout &layout, unsigned dim) {
  Part &part = partOf(layout);
  if (part.known[dim])
    return part.dims[dim];
  Value value = place.atEntry([&]() -> Value {
    Value sum, odd;
    int64_t taken = 0;
    for (Coord coord : kPlaces) {
      // Odd digits are added last, since what is below them is XORed.
      Value low = digitsValue(layout, coord, [&](unsigned i) {
        const layout::Digit &digit = layout.digits(coord)[i];
        return digit.radix == 2 ? digit.basis[dim] : 0;
      });
      Value high = digitsValue(layout, coord, [&](unsigned i) {
        const layout::Digit &digit = layout.digits(coord)[i];
        return digit.radix == 2 ? 0 : digit.basis[dim];
      });
      int64_t bits = bitsAlong(layout, coord, dim);
      if (low && sum)
        sum = taken & bits ? arith::XOrIOp::create(b, sum, low).getResult()
                           : arith::AddIOp::create(b, sum, low, kNoWrap).getResult();
      else if (low)
        sum = low;
      taken |= bits;
      if (high)
        odd = odd ? arith::AddIOp::create(b, odd, high, kNoWrap).getResult() : high;
    }
    if (sum && odd)
      return arith::AddIOp::create(b, sum, odd, kNoWrap);
    return sum ? sum : odd;
  });
  // atEntry may have grown the table of parts, so look it up again.
  Part &again = partOf(layout);
  again.known[dim] = true;
  return again.dims[dim] = value;
}

std::pair<Value, int64_t> Coordinates::inParts(const Layout &layout, int64_t reg, unsigned dim) {
  int64_t constant = layout.at(Coord::Reg, reg)[dim];
  Value thread = threadPart(layout, dim);
  if (!thread)
    return {Value(), constant};
  int64_t power = layout::splitSide(layout.shape()[dim])->power;
  int64_t low = constant & (power - 1);
  if (low & threadBits(layout, dim)) {
    thread = arith::XOrIOp::create(b, thread, b.i32(low));
    constant -= low;
  }
  return {thread, constant};
}

Value Coordinates::of(const Layout &layout, int64_t reg, unsigned dim) {
  auto [thread, constant] = inParts(layout, reg, dim);
  if (!thread)
    return b.i32(constant);
  return constant == 0 ? thread : arith::AddIOp::create(b, thread, b.i32(constant), kNoWrap).getResult();
}

Value Coordinates::linearIndex(const Layout &layout, int64_t reg) {
  Value sum;
  int64_t stride = 1, constant = 0;
  for (unsigned dim = layout.rank(); dim-- > 0;) {
    auto [thread, offset] = inParts(layout, reg, dim);
    if (thread) {
      Value term = stride == 1 ? thread : arith::MulIOp::create(b, thread, b.i32(stride), kNoWrap).getResult();
      sum = sum ? arith::AddIOp::create(b, sum, term, kNoWrap).getResult() : term;
    }
    constant += offset * stride;
    stride *= layout.shape()[dim];
  }
  if (!sum)
    return b.i32(constant);
  return constant == 0 ? sum : arith::AddIOp::create(b, sum, b.i32(constant), kNoWrap).getResult();
}

Value Coordinates::isOwner(const Layout &layout) {
  if (Part &part = partOf(layout); part.ownerKnown)
    return part.owner;
  Value value = place.atEntry([&]() -> Value {
    Value all;
    for (Coord coord : kPlaces) {
      uint64_t owned = layout.ownerMask(coord);
      ArrayRef<layout::Digit> digits = layout.digits(coord);
      // The digits that must be zero, and what lies beyond the layout's digits.
      int64_t bits = 0, stride = 1;
      SmallVector<Value> zeros;
      for (unsigned i = 0; i < digits.size(); ++i) {
        if (owned >> i & 1) {
          if (digits[i].radix == 2 && llvm::isPowerOf2_64(stride)) {
            bits |= stride;
          } else {
            Value digit = arith::DivUIOp::create(b, place.hardware(coord), b.i32(stride));
            zeros.push_back(arith::RemUIOp::create(b, digit, b.i32(digits[i].radix)));
          }
        }
        stride *= digits[i].radix;
      }
      if (stride < place.population(coord))
        zeros.push_back(arith::DivUIOp::create(b, place.hardware(coord), b.i32(stride)));
      if (bits)
        zeros.push_back(bits == place.population(coord) - 1
                            ? place.hardware(coord)
                            : arith::AndIOp::create(b, place.hardware(coord), b.i32(bits)).getResult());
      for (Value zero : zeros) {
        Value here = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, zero, b.i32(0));
        all = all ? arith::AndIOp::create(b, all, here).getResult() : here;
      }
    }
    return all;
  });
  Part &part = partOf(layout);
  part.ownerKnown = true;
  return part.owner = value;
}
