// Plans how to convert a tile from one register layout to another, by composing one layout with the other's inverse.
#pragma once
#include "dialects/layout/Layout.h"

namespace kiln::layout {

enum class ConversionKind : uint8_t {
  None,      ///< the same registers hold the same elements
  Registers, ///< each thread already has what it needs, in other registers
  Shuffle,   ///< elements stay inside their warp
  Shared,    ///< through shared memory (between ctas: through distributed shared memory)
};

/// A bit of a thread: digit `digit` (of radix 2) of coordinate `coord`. For lanes and warps: bit `digit` of the number.
struct ThreadBit {
  Coord coord = Coord::Lane;
  unsigned digit = 0;
  bool operator==(const ThreadBit &other) const { return coord == other.coord && digit == other.digit; }
};
/// The XOR of some bits of a thread (mostly one).
using Parity = llvm::SmallVector<ThreadBit, 1>;

/// One of 2^bits.size() choices, selected by bits of the thread; bits[0] is the index's lowest. No bits: choices[0].
struct Select {
  llvm::SmallVector<int64_t, 2> choices;
  llvm::SmallVector<Parity, 1> bits;
};

/// One shuffle (shfl.idx): every lane sends a register, which it selects by its own bits, and receives what lane
/// `source(receiver) ^ laneXor` sends.
struct ShuffleStep {
  Select from;          ///< registers of the source layout
  int64_t laneXor = 0;  ///< XORed into the source lane that Conversion::laneMap gives
  bool shuffles = true; ///< false: every lane takes its own
};

struct Conversion {
  ConversionKind kind = ConversionKind::None;
  /// Registers: source register of each destination register.
  llvm::SmallVector<int64_t, 8> registers;

  // Shuffle: perform `steps`, each of which gives every lane one value; then destination register r is the value of the
  // step that results[r] selects by the receiver's bits.
  llvm::SmallVector<ShuffleStep, 8> steps;
  llvm::SmallVector<Select, 8> results;
  /// source(receiver): the XOR of these numbers over the bits that are set in the receiver.
  llvm::SmallVector<std::pair<ThreadBit, int64_t>, 6> laneMap;
  /// source(receiver) is the receiver's own lane, so shfl.bfly by laneXor does it.
  bool laneMapIsIdentity() const;

  bool crossesCtas = false; ///< only for kind Shared
  /// Instructions per thread, roughly: the number that layout inference minimises.
  int64_t cost = 0;
};

/// The cheapest kind of conversion that does it; `elementBytes` weighs shared memory against shuffles. Both layouts
/// have the same shape and the same numbers of lanes, warps, groups and ctas.
Conversion planConversion(const Layout &from, const Layout &to, int64_t elementBytes = 4);

/// The plan by shuffles, whatever its cost; std::nullopt if an element would have to come from another warp.
std::optional<Conversion> planShuffles(const Layout &from, const Layout &to);

/// For each register of `to`, a register of `from` in the same thread that holds the same element; std::nullopt
/// if some element is held only by other threads.
std::optional<llvm::SmallVector<int64_t, 8>> registerMap(const Layout &from, const Layout &to);

} // namespace kiln::layout
