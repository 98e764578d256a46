// Layouts of tiles derived from a tile: sliced, expanded, collapsed, grown, transposed, reshaped, joined, split.
#include "dialects/layout/Bits.h"
#include "dialects/layout/Layout.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace kiln::layout {

Layout Layout::slice(unsigned dim) const {
  Layout result = *this;
  result.sides.erase(result.sides.begin() + dim);
  for (Digits &digits : result.table)
    for (Digit &digit : digits)
      digit.basis.erase(digit.basis.begin() + dim);
  return result.withoutReplicatedRegisters();
}

Layout Layout::expand(unsigned dim) const {
  Layout result = *this;
  result.sides.insert(result.sides.begin() + dim, 1);
  for (Digits &digits : result.table)
    for (Digit &digit : digits)
      digit.basis.insert(digit.basis.begin() + dim, 0);
  return result;
}

Layout Layout::collapse(unsigned dim) const { return slice(dim).expand(dim); }

Layout Layout::grow(unsigned dim, int64_t side) const {
  Layout result = *this;
  result.sides[dim] = side;
  Side parts = *splitSide(side);
  Digits &registers = result.table[unsigned(Coord::Reg)];
  Index step(rank(), 0);
  for (int64_t bit = 1; bit < parts.power; bit *= 2) {
    step[dim] = bit;
    registers.push_back({2, step});
  }
  step[dim] = parts.power;
  if (parts.odd > 1)
    registers.push_back({parts.odd, step});
  return result;
}

Layout Layout::transpose(ArrayRef<int32_t> order) const {
  Layout result = *this;
  for (auto [to, from] : llvm::enumerate(order))
    result.sides[to] = sides[from];
  for (unsigned c = 0; c < kNumCoords; ++c)
    for (auto [digit, source] : llvm::zip_equal(result.table[c], table[c]))
      for (auto [to, from] : llvm::enumerate(order))
        digit.basis[to] = source.basis[from];
  return result;
}

namespace {
/// One digit of a row-major number: its radix, the dimension it belongs to and its weight there.
struct Place {
  int64_t radix;
  unsigned dim;
  int64_t weight;
};
} // namespace

/// The digits of row-major order, fastest first.
static SmallVector<Place, 20> rowMajorPlaces(ArrayRef<int64_t> shape) {
  SmallVector<Place, 20> places;
  for (unsigned d = shape.size(); d-- > 0;) {
    Side parts = *splitSide(shape[d]);
    for (int64_t weight = 1; weight < parts.power; weight *= 2)
      places.push_back({2, d, weight});
    if (parts.odd > 1)
      places.push_back({parts.odd, d, parts.power});
  }
  return places;
}

std::optional<Layout> Layout::reshape(ArrayRef<int64_t> shape) const {
  if (!llvm::all_of(shape, [](int64_t side) { return splitSide(side).has_value(); }))
    return std::nullopt;
  SmallVector<Place, 20> from = rowMajorPlaces(sides), to = rowMajorPlaces(shape);
  if (from.size() != to.size())
    return std::nullopt;
  for (auto [a, b] : llvm::zip_equal(from, to))
    if (a.radix != b.radix)
      return std::nullopt;
  Layout result = *this;
  result.sides.assign(shape.begin(), shape.end());
  for (unsigned c = 0; c < kNumCoords; ++c)
    for (auto [digit, source] : llvm::zip_equal(result.table[c], table[c])) {
      digit.basis.assign(shape.size(), 0);
      for (auto [a, b] : llvm::zip_equal(from, to)) {
        bool moves = a.radix == 2 ? (source.radix == 2 && (source.basis[a.dim] & a.weight))
                                  : (source.radix == a.radix && source.basis[a.dim] == a.weight);
        if (moves)
          digit.basis[b.dim] |= b.weight;
      }
    }
  return result;
}

Layout Layout::join() const {
  Layout result = expand(rank());
  result.sides.back() = 2;
  Index step(rank() + 1, 0);
  step.back() = 1;
  Digits &registers = result.table[unsigned(Coord::Reg)];
  registers.insert(registers.begin(), Digit{2, step});
  return result;
}

std::optional<Layout> Layout::split() const {
  if (rank() == 0 || sides.back() != 2)
    return std::nullopt;
  Index pair(rank(), 0);
  pair.back() = 1;
  unsigned found = 0, position = 0;
  for (unsigned c = 0; c < kNumCoords; ++c)
    for (const auto &[i, digit] : llvm::enumerate(table[c])) {
      if (digit.basis.back() == 0)
        continue;
      if (Coord(c) != Coord::Reg || digit.basis != pair || found++)
        return std::nullopt;
      position = i;
    }
  Layout result = *this;
  Digits &registers = result.table[unsigned(Coord::Reg)];
  registers.erase(registers.begin() + position);
  result.sides.pop_back();
  for (Digits &digits : result.table)
    for (Digit &digit : digits)
      digit.basis.pop_back();
  return result;
}

} // namespace kiln::layout
