// Random layouts: a random basis of the tile's bits, spread over the coordinates, with repeats and odd digits inserted.
#include "Random.h"
#include "dialects/layout/Bits.h"
#include <algorithm>
#include <cstdlib>

using namespace llvm;

namespace kiln::layout {

int64_t pick(Rng &rng, int64_t low, int64_t high) {
  return low + int64_t(rng() % uint64_t(high - low + 1)); // gives the same sequence on every standard library
}

SmallVector<int64_t, 3> randomShape(Rng &rng, unsigned maxBits) {
  SmallVector<int64_t, 3> shape;
  unsigned rank = pick(rng, 1, 3), left = maxBits;
  for (unsigned d = 0; d < rank; ++d) {
    unsigned bits = pick(rng, 0, std::min<unsigned>(left, 6));
    left -= bits;
    int64_t odd = pick(rng, 0, 2) ? 1 : 2 * pick(rng, 1, 5) + 1;
    shape.push_back((int64_t(1) << bits) * odd);
  }
  return shape;
}

template <typename T> static void shuffle(Rng &rng, T &values) {
  for (size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[pick(rng, 0, i - 1)]);
}

static SmallVector<uint64_t, 24> randomBasis(Rng &rng, unsigned bits, bool mix) {
  SmallVector<uint64_t, 24> basis;
  for (unsigned i = 0; i < bits; ++i)
    basis.push_back(uint64_t(1) << i);
  shuffle(rng, basis);
  for (unsigned step = 0; mix && bits > 1 && step < bits; ++step) {
    unsigned a = pick(rng, 0, bits - 1), b = pick(rng, 0, bits - 1);
    if (a != b)
      basis[a] ^= basis[b];
  }
  return basis;
}

static Digits oddDigits(ArrayRef<int64_t> shape) {
  Digits digits;
  for (unsigned d = 0; d < shape.size(); ++d) {
    Side parts = *splitSide(shape[d]);
    Index step(shape.size(), 0);
    step[d] = parts.power;
    if (parts.odd > 1)
      digits.push_back({parts.odd, step});
  }
  return digits;
}

static Layout made(ArrayRef<int64_t> shape, const std::array<Digits, kNumCoords> &digits) {
  std::string error;
  std::optional<Layout> layout = Layout::create(shape, digits, &error);
  if (!layout) {
    fprintf(stderr, "random layout: %s\n", error.c_str());
    abort();
  }
  return *layout;
}

static void addRegisters(Rng &rng, ArrayRef<int64_t> shape, Digits &registers, ArrayRef<uint64_t> steps, bool odd) {
  TileBits bits(shape);
  for (uint64_t step : steps)
    registers.push_back({2, bits.unpack(step)});
  if (odd)
    for (const Digit &digit : oddDigits(shape))
      registers.insert(registers.begin() + pick(rng, 0, registers.size()), digit);
}

Layout randomLayout(Rng &rng, ArrayRef<int64_t> shape, const RandomForm &form) {
  TileBits bits(shape);
  SmallVector<uint64_t, 24> steps = randomBasis(rng, bits.total, form.mix);
  unsigned threads = 5 + form.warpBits + form.groupBits + form.ctaBits;
  size_t count = std::max<size_t>(threads, steps.size() + pick(rng, 0, form.repeats));
  while (steps.size() < count) {
    // A repeat is zero, or a XOR of two earlier steps.
    uint64_t step = 0;
    if (!steps.empty() && form.mix && pick(rng, 0, 1))
      step = steps[pick(rng, 0, steps.size() - 1)] ^ steps[pick(rng, 0, steps.size() - 1)];
    steps.push_back(step);
  }
  shuffle(rng, steps);
  std::array<Digits, kNumCoords> digits;
  unsigned position = 0;
  auto take = [&](Coord coord, unsigned count) {
    for (unsigned i = 0; i < count; ++i)
      digits[unsigned(coord)].push_back({2, bits.unpack(steps[position++])});
  };
  take(Coord::Lane, 5);
  take(Coord::Warp, form.warpBits);
  take(Coord::Group, form.groupBits);
  take(Coord::Cta, form.ctaBits);
  addRegisters(rng, shape, digits[unsigned(Coord::Reg)], ArrayRef<uint64_t>(steps).drop_front(position), true);
  return made(shape, digits);
}

Layout randomMemory(Rng &rng, ArrayRef<int64_t> shape) {
  std::array<Digits, kNumCoords> digits;
  addRegisters(rng, shape, digits[unsigned(Coord::Offset)], randomBasis(rng, TileBits(shape).total, true), true);
  return made(shape, digits);
}

Layout shuffledInWarp(Rng &rng, const Layout &layout) {
  TileBits bits(layout.shape());
  std::array<Digits, kNumCoords> digits;
  for (Coord coord : {Coord::Warp, Coord::Group, Coord::Cta})
    digits[unsigned(coord)].assign(layout.digits(coord).begin(), layout.digits(coord).end());
  Span reached;
  SmallVector<uint64_t, 24> steps;
  for (Coord coord : {Coord::Reg, Coord::Lane})
    for (const Digit &digit : layout.digits(coord))
      if (digit.radix == 2 && reached.insert(bits.pack(digit.basis)))
        steps.push_back(bits.pack(digit.basis));
  // Now and then a warp's bit is also XORed with another of the steps.
  if (!steps.empty() && pick(rng, 0, 3) == 0)
    for (Digit &digit : digits[unsigned(Coord::Warp)])
      digit.basis = bits.unpack(bits.pack(digit.basis) ^ steps[pick(rng, 0, steps.size() - 1)]);
  for (unsigned i = 0, n = steps.size(); n > 1 && i < n * unsigned(pick(rng, 0, 1)); ++i) {
    unsigned a = pick(rng, 0, n - 1), b = pick(rng, 0, n - 1);
    if (a != b)
      steps[a] ^= steps[b];
  }
  size_t count = std::max<size_t>(5, steps.size() + pick(rng, 0, 2));
  while (steps.size() < count)
    steps.push_back(!steps.empty() && pick(rng, 0, 1) ? steps[pick(rng, 0, steps.size() - 1)] : 0);
  shuffle(rng, steps);
  for (unsigned i = 0; i < 5; ++i)
    digits[unsigned(Coord::Lane)].push_back({2, bits.unpack(steps[i])});
  addRegisters(rng, layout.shape(), digits[unsigned(Coord::Reg)], ArrayRef<uint64_t>(steps).drop_front(5), true);
  return made(layout.shape(), digits);
}

void forEachPoint(const Layout &layout, const std::function<void(const Point &)> &visit) {
  Point point = {};
  std::function<void(unsigned)> walk = [&](unsigned coord) {
    if (coord == kNumCoords)
      return visit(point);
    for (point[coord] = 0; point[coord] < layout.size(Coord(coord)); ++point[coord])
      walk(coord + 1);
    point[coord] = 0;
  };
  walk(0);
}

int64_t linear(ArrayRef<int64_t> shape, const Index &element) {
  int64_t sum = 0;
  for (unsigned d = 0; d < shape.size(); ++d)
    sum = sum * shape[d] + element[d];
  return sum;
}

int64_t elements(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t side : shape)
    count *= side;
  return count;
}

} // namespace kiln::layout
