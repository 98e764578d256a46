// Where the elements of a tile live: an immutable value, plain C++ without MLIR.
//
// A layout maps hardware coordinates to tile coordinates. Registers: (reg, lane, warp, group, cta); shared memory:
// (offset, cta). Each hardware coordinate is a number written in digits, fastest first, and each digit says how far a
// step of it moves in the tile:
//   - a bit (radix 2) is XOR-linear: its basis, one entry per tile dimension, is XORed into the low bits of the tile
//     coordinates. The bits together are the linear part: an mma fragment, a swizzle, a coalesced vector.
//   - an odd digit (radix 3, 5 … 31) is plain: value v adds v * 2^k to the one dimension whose side is 2^k * radix, or
//     adds nothing (it replicates). It repeats the linear part, to make tiles whose sides are not powers of two.
// So the coordinate along a dimension of side 2^k * m is  (XOR of the bits' bases, below 2^k) + 2^k * (the odd digit).
//
// Eight elements in four lanes, two registers each, neighbours in one lane (`blocked [8] vector 2`):
//
//              lane 0  lane 1  lane 2  lane 3      digits   reg:  a bit with basis 1
//     reg 0       0       2       4       6                 lane: a bit with basis 2, a bit with basis 4
//     reg 1       1       3       5       7
//
// Lane 3 is 11 in binary and holds, in register 1, element 1 ^ 2 ^ 4 = 7. With bases 4 and 2 for the lane, lanes 1 and
// 2 would change places; a basis with several bits set (3 for the lane's first) makes a swizzle. In a tile of four
// elements the lane's second bit has basis 0: lanes 2 and 3 repeat what lanes 0 and 1, the owners, hold.
//
// A layout is a surjection: every element of the tile has a place, and several places may repeat an element
// (replication). Exactly one place of each element is its owner, which stores, sums and does atomics.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace kiln::layout {

enum class Coord : uint8_t { Reg, Lane, Warp, Group, Cta, Offset };
constexpr unsigned kNumCoords = 6;
llvm::StringRef coordName(Coord coord); ///< "reg", "lane", "warp", "group", "cta", "offset"

/// Tile coordinates, one per dimension.
using Index = llvm::SmallVector<int64_t, 3>;
/// One number per hardware coordinate, in the order of Coord.
using Point = std::array<int64_t, kNumCoords>;

/// One digit of a hardware coordinate.
struct Digit {
  int64_t radix = 2;
  Index basis; ///< for a bit: XORed in; for an odd digit: 2^k in its dimension, zero elsewhere

  /// True when stepping this digit stays at the same element.
  bool replicates() const;
  bool operator==(const Digit &other) const { return radix == other.radix && basis == other.basis; }
};
using Digits = llvm::SmallVector<Digit, 8>;

/// 2^k and m of a side 2^k * m.
struct Side {
  int64_t power = 1; ///< 2^k
  int64_t odd = 1;   ///< m
};
/// std::nullopt when m is over 31, which the language does not allow.
std::optional<Side> splitSide(int64_t side);

class Layout {
public:
  /// Checks the form above and that every element has a place. If not: std::nullopt, and a sentence in `error`.
  static std::optional<Layout> create(llvm::ArrayRef<int64_t> shape, std::array<Digits, kNumCoords> digits,
                                      std::string *error = nullptr);

  llvm::ArrayRef<int64_t> shape() const { return sides; }
  unsigned rank() const { return sides.size(); }
  llvm::ArrayRef<Digit> digits(Coord coord) const { return table[unsigned(coord)]; }
  /// The number of values of the coordinate: the product of its radices (1 when it has no digits).
  int64_t size(Coord coord) const;
  int64_t registers() const { return size(Coord::Reg); }
  bool isMemory() const { return size(Coord::Offset) > 1; }

  /// The element at a hardware point.
  Index at(const Point &point) const;
  /// The element at `value` of one coordinate, all others zero. at(point) is the combine() of these over the
  /// coordinates of the point, because low bits are XORed and each odd part has one source.
  Index at(Coord coord, int64_t value) const;
  /// at(a and b) from at(a) and at(b), for points that differ from zero in different coordinates.
  Index combine(const Index &a, const Index &b) const;

  bool operator==(const Layout &other) const { return sides == other.sides && table == other.table; }
  bool operator!=(const Layout &other) const { return !(*this == other); }
  friend llvm::hash_code hash_value(const Layout &layout);
  /// One line of text: the constructor form if one fits, else the digits. parse() reads both.
  std::string print() const;
  static std::optional<Layout> parse(llvm::StringRef text, std::string *error = nullptr);

  //===-- Replication ----------------------------------------------------------------------------------------===//
  /// The digits of `coord` that must be zero at an element's owner, as a mask (bit i = digit i).
  uint64_t ownerMask(Coord coord) const;
  bool isReplicated(Coord coord) const { return ownerMask(coord) != 0; }
  /// Drops registers that repeat an element of the same thread; the others stay in ascending order of the first place.
  Layout withoutReplicatedRegisters() const;

  //===-- Runs -----------------------------------------------------------------------------------------------===//
  /// Length of the aligned runs of registers that step by one element along `dim`: the widest vector that one access
  /// can move.
  int64_t contiguity(unsigned dim) const;

  //===-- Layouts of related tiles ---------------------------------------------------------------------------===//
  /// For the tile without dimension `dim` (the result of a reduction along it): coordinates along it replicate;
  /// registers that would repeat an element are dropped.
  Layout slice(unsigned dim) const;
  /// For the tile with a dimension of side 1 inserted at `dim`.
  Layout expand(unsigned dim) const;
  /// For the tile with side 1 along `dim`: what a broadcast along it reads.
  Layout collapse(unsigned dim) const;
  /// For the tile whose side of 1 along `dim` becomes `side`, all of it in registers (as their slowest digits).
  Layout grow(unsigned dim, int64_t side) const;
  /// Dimension i of the result is dimension order[i] of this.
  Layout transpose(llvm::ArrayRef<int32_t> order) const;
  /// The same row-major sequence of elements in another shape; std::nullopt when a digit would have to be cut.
  std::optional<Layout> reshape(llvm::ArrayRef<int64_t> shape) const;
  /// For two such tiles joined: a last dimension of side 2 in the fastest register digit.
  Layout join() const;
  /// Undoes join(); std::nullopt unless the last dimension (of side 2) is one register digit.
  std::optional<Layout> split() const;

  //===-- Algebra --------------------------------------------------------------------------------------------===//
  // compose, rightInverse, divide, product: see Algebra.h. Bank conflicts and memory layouts: Memory.h. Conversions:
  // Conversion.h. Constructors: Constructors.h.

private:
  Layout() = default;
  llvm::SmallVector<int64_t, 3> sides;
  std::array<Digits, kNumCoords> table;
};

} // namespace kiln::layout
