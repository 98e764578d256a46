// Maps between digits: composition and inversion. Product and division of layouts.
#include "dialects/layout/Algebra.h"
#include "dialects/layout/Bits.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace kiln::layout {

//===-- Maps -----------------------------------------------------------------------------------------------------===//

static uint64_t bitDigits(const Map::Radices &radices) {
  uint64_t mask = 0;
  for (const auto &[i, radix] : llvm::enumerate(radices))
    mask |= uint64_t(radix == 2) << i;
  return mask;
}

std::optional<Map> Map::create(Radices domain, Radices codomain, ArrayRef<uint64_t> images) {
  if (domain.size() > 64 || codomain.size() > 64 || images.size() != domain.size())
    return std::nullopt;
  auto legal = [](int64_t radix) { return radix == 2 || (radix > 2 && radix % 2 == 1); };
  if (!llvm::all_of(domain, legal) || !llvm::all_of(codomain, legal))
    return std::nullopt;
  uint64_t targetBits = bitDigits(codomain), oddTaken = 0;
  for (auto [radix, image] : llvm::zip_equal(domain, images)) {
    if (image & ~llvm::maskTrailingOnes<uint64_t>(codomain.size()))
      return std::nullopt;
    if (radix == 2
            ? (image & ~targetBits) != 0
            : image && (!isPowerOf2_64(image) || codomain[llvm::countr_zero(image)] != radix || (oddTaken & image)))
      return std::nullopt;
    if (radix != 2)
      oddTaken |= image;
  }
  return Map{std::move(domain), std::move(codomain), SmallVector<uint64_t, 24>(images)};
}

Map Map::identity(const Radices &digits) {
  Map map{digits, digits, {}};
  for (unsigned i = 0; i < digits.size(); ++i)
    map.images.push_back(uint64_t(1) << i);
  return map;
}

SmallVector<int64_t, 24> Map::operator()(ArrayRef<int64_t> digits) const {
  SmallVector<int64_t, 24> result(codomain.size(), 0);
  for (unsigned i = 0; i < domain.size(); ++i)
    for (unsigned j = 0; j < codomain.size(); ++j)
      if (images[i] >> j & 1)
        result[j] ^= digits[i];
  return result;
}

std::optional<Map> compose(const Map &outer, const Map &inner) {
  if (inner.codomain != outer.domain)
    return std::nullopt;
  SmallVector<uint64_t, 24> images;
  for (uint64_t middle : inner.images) {
    uint64_t image = 0;
    for (unsigned j = 0; j < outer.domain.size(); ++j)
      if (middle >> j & 1)
        image ^= outer.images[j];
    images.push_back(image);
  }
  return Map::create(inner.domain, outer.codomain, images);
}

std::optional<Map> rightInverse(const Map &map) {
  Span reached;
  SmallVector<uint64_t, 24> generators, images;
  for (unsigned i = 0; i < map.domain.size(); ++i)
    if (map.domain[i] == 2 && reached.insert(map.images[i]))
      generators.push_back(uint64_t(1) << i);
  for (unsigned j = 0; j < map.codomain.size(); ++j) {
    uint64_t target = uint64_t(1) << j, source = 0;
    if (map.codomain[j] != 2) {
      for (unsigned i = 0; i < map.domain.size() && !source; ++i)
        if (map.domain[i] != 2 && map.images[i] == target)
          source = uint64_t(1) << i;
      if (!source)
        return std::nullopt;
    } else {
      std::optional<uint64_t> members = reached.express(target);
      if (!members)
        return std::nullopt;
      for (unsigned i = 0; i < generators.size(); ++i)
        if (*members >> i & 1)
          source ^= generators[i];
    }
    images.push_back(source);
  }
  return Map::create(map.codomain, map.domain, images);
}

//===-- Layouts as maps ------------------------------------------------------------------------------------------===//

Map mapOf(const Layout &layout, ArrayRef<Coord> coords) {
  Map map;
  SmallVector<unsigned, 3> first;
  for (int64_t side : layout.shape()) {
    Side parts = *splitSide(side);
    first.push_back(map.codomain.size());
    map.codomain.append(llvm::countr_zero(uint64_t(parts.power)), 2);
    if (parts.odd > 1)
      map.codomain.push_back(parts.odd);
  }
  for (Coord coord : coords)
    for (const Digit &digit : layout.digits(coord)) {
      // A step of 2^i is the i-th digit of its dimension: a bit, or the odd part, which is above all bits.
      uint64_t image = 0;
      for (unsigned d = 0; d < layout.rank(); ++d)
        image |= uint64_t(digit.basis[d]) << first[d];
      map.domain.push_back(digit.radix);
      map.images.push_back(image);
    }
  return map;
}

Map mapOf(const Layout &layout) {
  SmallVector<Coord, kNumCoords> all;
  for (unsigned c = 0; c < kNumCoords; ++c)
    all.push_back(Coord(c));
  return mapOf(layout, all);
}

std::optional<Layout> compose(const Layout &outer, const Layout &inner) {
  if (inner.rank() != 1 || outer.size(Coord::Offset) != inner.shape()[0])
    return std::nullopt;
  std::optional<Map> map = compose(mapOf(outer, {Coord::Offset}), mapOf(inner));
  if (!map)
    return std::nullopt;
  SmallVector<Index, 24> steps; // per digit of the outer tile
  for (const auto &[d, side] : llvm::enumerate(outer.shape())) {
    Side parts = *splitSide(side);
    for (int64_t weight = 1; weight <= parts.power; weight *= 2)
      if (weight < parts.power || parts.odd > 1) {
        steps.push_back(Index(outer.rank(), 0));
        steps.back()[d] = weight;
      }
  }
  std::array<Digits, kNumCoords> digits;
  unsigned position = 0;
  for (unsigned c = 0; c < kNumCoords; ++c)
    for (const Digit &digit : inner.digits(Coord(c))) {
      Index basis(outer.rank(), 0);
      for (unsigned j = 0; j < steps.size(); ++j)
        for (unsigned d = 0; d < outer.rank() && (map->images[position] >> j & 1); ++d)
          basis[d] += steps[j][d];
      digits[c].push_back({digit.radix, basis});
      ++position;
    }
  return Layout::create(outer.shape(), digits);
}

//===-- Product and division -------------------------------------------------------------------------------------===//

std::optional<Layout> product(const Layout &inner, const Layout &outer) {
  if (inner.rank() != outer.rank())
    return std::nullopt;
  SmallVector<int64_t, 3> shape;
  for (auto [a, b] : llvm::zip_equal(inner.shape(), outer.shape())) {
    if (b != 1 && splitSide(a)->odd > 1)
      return std::nullopt;
    shape.push_back(a * b);
  }
  std::array<Digits, kNumCoords> digits;
  for (unsigned c = 0; c < kNumCoords; ++c) {
    llvm::append_range(digits[c], inner.digits(Coord(c)));
    for (Digit digit : outer.digits(Coord(c))) {
      for (unsigned d = 0; d < shape.size(); ++d)
        digit.basis[d] *= inner.shape()[d];
      digits[c].push_back(digit);
    }
  }
  return Layout::create(shape, digits);
}

std::optional<Layout> divide(const Layout &layout, const Layout &inner) {
  if (inner.rank() != layout.rank())
    return std::nullopt;
  SmallVector<int64_t, 3> shape;
  for (auto [whole, part] : llvm::zip_equal(layout.shape(), inner.shape())) {
    if (whole % part)
      return std::nullopt;
    shape.push_back(whole / part);
  }
  std::array<Digits, kNumCoords> digits;
  for (unsigned c = 0; c < kNumCoords; ++c) {
    ArrayRef<Digit> all = layout.digits(Coord(c)), first = inner.digits(Coord(c));
    if (all.take_front(first.size()) != first)
      return std::nullopt;
    for (Digit digit : all.drop_front(first.size())) {
      for (unsigned d = 0; d < shape.size(); ++d) {
        if (digit.basis[d] % inner.shape()[d])
          return std::nullopt;
        digit.basis[d] /= inner.shape()[d];
      }
      digits[c].push_back(digit);
    }
  }
  std::optional<Layout> outer = Layout::create(shape, digits);
  if (!outer || product(inner, *outer) != layout)
    return std::nullopt;
  return outer;
}

} // namespace kiln::layout
