// The algebra of layouts. A layout is a Map from the digits of hardware coordinates to the digits of tile coordinates;
// maps compose and invert. A result that is not expressible as a layout is std::nullopt, so callers need no checks.
#pragma once
#include "dialects/layout/Layout.h"

namespace kiln::layout {

/// A function between numbers written in digits (radix 2 or odd). A bit maps to the XOR of some bits. An odd digit maps
/// to one digit of its own radix, to which nothing else maps, or to nothing.
struct Map {
  using Radices = llvm::SmallVector<int64_t, 24>;
  Radices domain, codomain;
  llvm::SmallVector<uint64_t, 24> images; ///< per digit of the domain: a mask over the digits of the codomain

  /// Checks the form above; at most 64 digits on either side.
  static std::optional<Map> create(Radices domain, Radices codomain, llvm::ArrayRef<uint64_t> images);
  static Map identity(const Radices &digits);
  /// The values of the codomain's digits, given those of the domain's.
  llvm::SmallVector<int64_t, 24> operator()(llvm::ArrayRef<int64_t> digits) const;
  bool operator==(const Map &other) const {
    return domain == other.domain && codomain == other.codomain && images == other.images;
  }
};

/// First `inner`, then `outer`; std::nullopt unless the digits between them are the same.
std::optional<Map> compose(const Map &outer, const Map &inner);
/// compose(map, rightInverse(map)) is the identity; std::nullopt unless the map is surjective. Where several places
/// hold an element, the inverse picks the owner: the place with the earliest digits.
std::optional<Map> rightInverse(const Map &map);

/// The map from the digits of all coordinates, in the order of Coord, to those of the tile: dimension 0 first; within a
/// dimension the bits from the lowest up, then the odd part.
Map mapOf(const Layout &layout);
/// The same from the digits of the named coordinates only, all others being zero.
Map mapOf(const Layout &layout, llvm::ArrayRef<Coord> coords);

/// `inner` maps places to the elements of a one-dimensional tile. Each of these is taken as an offset of `outer`, which
/// maps it to an element of another tile. std::nullopt unless inner's tile is cut into the same digits as the offsets.
std::optional<Layout> compose(const Layout &outer, const Layout &inner);

/// `inner` repeated as `outer` says. Sides multiply; in each dimension the element is inner + inner's side * outer;
/// each coordinate has inner's digits, then outer's. std::nullopt where an odd part would not be outermost.
std::optional<Layout> product(const Layout &inner, const Layout &outer);
/// The `outer` with product(inner, outer) == layout, i.e. how a fragment is repeated; std::nullopt if there is none.
std::optional<Layout> divide(const Layout &layout, const Layout &inner);

} // namespace kiln::layout
