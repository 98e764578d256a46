// The algebra of layouts. A layout is a Map from the digits of hardware coordinates to the digits of tile coordinates;
// maps compose and invert. What falls outside the class answers nothing: nobody has to ask first.
#pragma once
#include "dialects/layout/Layout.h"

namespace kiln::layout {

/// A function between numbers written in digits (radix 2 or odd). A bit goes to the XOR of some bits; an odd digit to
/// one digit of its radix, which nothing else goes to, or nowhere.
struct Map {
  using Radices = llvm::SmallVector<int64_t, 24>;
  Radices domain, codomain;
  llvm::SmallVector<uint64_t, 24> images; ///< of each digit of the domain: a mask over the digits of the codomain

  /// Checks the form above; at most 64 digits on either side.
  static std::optional<Map> create(Radices domain, Radices codomain, llvm::ArrayRef<uint64_t> images);
  static Map identity(const Radices &digits);
  /// Values of the codomain's digits, of values of the domain's.
  llvm::SmallVector<int64_t, 24> operator()(llvm::ArrayRef<int64_t> digits) const;
  bool operator==(const Map &other) const {
    return domain == other.domain && codomain == other.codomain && images == other.images;
  }
};

/// First `inner`, then `outer`; std::nullopt unless the digits between them are the same.
std::optional<Map> compose(const Map &outer, const Map &inner);
/// compose(map, rightInverse(map)) is the identity; nullopt unless the map reaches everything. Of places that repeat an
/// element it names the owner: that of the earliest digits.
std::optional<Map> rightInverse(const Map &map);

/// From the digits of all coordinates, in the order of Coord, to those of the tile: dimension 0 first, in each the bits
/// from the lowest, then the odd part.
Map mapOf(const Layout &layout);
/// From the digits of the coordinates named, the others being zero.
Map mapOf(const Layout &layout, llvm::ArrayRef<Coord> coords);

/// `inner` places a row of elements; `outer` says which element of another tile each of its offsets is. nullopt unless
/// the row is cut into digits as the offsets are.
std::optional<Layout> compose(const Layout &outer, const Layout &inner);

/// `inner` repeated as `outer` says: sides multiply, an element of the product is (inner + inner's side * outer) in
/// each dimension, and each coordinate's digits are inner's, then outer's. std::nullopt where an odd part would not be
/// outermost.
std::optional<Layout> product(const Layout &inner, const Layout &outer);
/// The `outer` with product(inner, outer) == layout: what a fragment is repeated over; nullopt if it is none of it.
std::optional<Layout> divide(const Layout &layout, const Layout &inner);

} // namespace kiln::layout
