// Where an element of a tile lives: an immutable value, plain C++ without MLIR.
//
// A layout maps hardware coordinates to tile coordinates. Registers: (reg, lane, warp, group, cta); shared memory:
// (offset, cta). Each hardware coordinate is a number written in digits, fastest first, and each digit says where in
// the tile one step of it leads:
//   - a bit (radix 2) is XOR-linear: its basis, one entry per tile dimension, is XORed into the low bits of the tile
//     coordinates. All bits together are the linear atom: an mma fragment, a swizzle, a coalesced vector.
//   - an odd digit (radix 3, 5 … 31) is plain: value v adds v * 2^k to the one dimension whose side is 2^k * radix, or
//     adds nothing (it replicates). It is the repetition that gives tiles which are not powers of two.
// So the coordinate along a dimension of side 2^k * m is  (XOR of the bits' bases, below 2^k) + 2^k * (the odd digit).
//
// Eight elements in four lanes, two registers each, neighbours in one lane (`blocked [8] vector 2`):
//
//              lane 0  lane 1  lane 2  lane 3      digits   reg:  a bit with basis 1
//     reg 0       0       2       4       6                 lane: a bit with basis 2, a bit with basis 4
//     reg 1       1       3       5       7
//
// Lane 3 is 11 in bits and holds, in register 1, element 1 ^ 2 ^ 4 = 7. With bases 4 and 2 for the lane, lanes 1 and 2
// would change places; a basis of several bits (3 for the lane's first) makes a swizzle. Of a tile of four elements the
// lane's second bit has basis 0: lanes 2 and 3 repeat what lanes 0 and 1 hold, who own it.
//
// A layout is a surjection: every element of the tile has a place; places that repeat an element are replication.
// Exactly one place of each element is its owner, which stores, sums and does atomics.
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

  /// Steps of this digit stay at the same element.
  bool replicates() const;
  bool operator==(const Digit &other) const { return radix == other.radix && basis == other.basis; }
};
using Digits = llvm::SmallVector<Digit, 8>;

/// 2^k and m of a side 2^k * m.
struct Side {
  int64_t power = 1; ///< 2^k
  int64_t odd = 1;   ///< m
};
/// std::nullopt when m is over 31: the rule of the language.
std::optional<Side> splitSide(int64_t side);

class Layout {
public:
  /// Checks the form above and that every element has a place; std::nullopt, with a sentence in `error`, if not.
  static std::optional<Layout> create(llvm::ArrayRef<int64_t> shape, std::array<Digits, kNumCoords> digits,
                                      std::string *error = nullptr);

  llvm::ArrayRef<int64_t> shape() const { return sides; }
  unsigned rank() const { return sides.size(); }
  llvm::ArrayRef<Digit> digits(Coord coord) const { return table[unsigned(coord)]; }
  /// How many values the coordinate has: the product of its radices (1 when it has no digits).
  int64_t size(Coord coord) const;
  int64_t registers() const { return size(Coord::Reg); }
  bool isMemory() const { return size(Coord::Offset) > 1; }

  /// The element at a hardware point.
  Index at(const Point &point) const;
  /// The element at `value` of one coordinate, all others zero. Because low bits are XORed and odd parts have one
  /// source, at(point) is combine() over the coordinates of the point.
  Index at(Coord coord, int64_t value) const;
  /// at(a and b) from at(a) and at(b) for points that differ in different coordinates.
  Index combine(const Index &a, const Index &b) const;

  bool operator==(const Layout &other) const { return sides == other.sides && table == other.table; }
  bool operator!=(const Layout &other) const { return !(*this == other); }
  friend llvm::hash_code hash_value(const Layout &layout);
  /// One line for people: the constructor form if one fits, else the digits. parse() reads both.
  std::string print() const;
  static std::optional<Layout> parse(llvm::StringRef text, std::string *error = nullptr);

  //===-- Replication
  //----------------------------------------------------------------------------------------------===//
  /// Digits of `coord` that must be zero at an element's owner: a mask over its digits (bit i = digit i).
  uint64_t ownerMask(Coord coord) const;
  bool isReplicated(Coord coord) const { return ownerMask(coord) != 0; }
  /// Without the registers that repeat an element of the same thread: registers in ascending order of their first
  /// place.
  Layout withoutReplicatedRegisters() const;

  //===-- Runs
  //-----------------------------------------------------------------------------------------------------===//
  /// Length of the aligned runs of registers that step by one element along `dim`: the widest vector one access moves.
  int64_t contiguity(unsigned dim) const;

  //===-- Layouts of related tiles
  //---------------------------------------------------------------------------------===//
  /// Of the tile without dimension `dim` (what a reduction along it leaves): coordinates along it replicate, registers
  /// that would repeat an element are dropped.
  Layout slice(unsigned dim) const;
  /// Of the tile with a dimension of side 1 put in at `dim`.
  Layout expand(unsigned dim) const;
  /// Of the tile whose side along `dim` is 1: what a broadcast along it reads.
  Layout collapse(unsigned dim) const;
  /// Of the tile whose side of 1 along `dim` has become `side`, all of it in registers (the slowest).
  Layout grow(unsigned dim, int64_t side) const;
  /// Result dimension i is dimension order[i] of this.
  Layout transpose(llvm::ArrayRef<int32_t> order) const;
  /// The same row-major elements as another shape; std::nullopt when a digit would have to be cut.
  std::optional<Layout> reshape(llvm::ArrayRef<int64_t> shape) const;
  /// Of the pair of two such tiles: a last dimension of side 2 in the fastest register digit.
  Layout join() const;
  /// The reverse; std::nullopt unless the last dimension (of side 2) is one register digit, which is removed.
  std::optional<Layout> split() const;

  //===-- Algebra
  //--------------------------------------------------------------------------------------------------===//
  // compose, rightInverse, divide, product: see Algebra.h. Bank conflicts and memory layouts: Memory.h. Conversions:
  // Conversion.h. Constructors: Constructors.h.

private:
  Layout() = default;
  llvm::SmallVector<int64_t, 3> sides;
  std::array<Digits, kNumCoords> table;
};

} // namespace kiln::layout
