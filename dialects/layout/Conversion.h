// How to bring a tile from one register layout to another: composed with an inverse, and read off the result.
#pragma once
#include "dialects/layout/Layout.h"

namespace kiln::layout {

enum class ConversionKind : uint8_t {
  None,      ///< the same registers hold the same elements
  Registers, ///< each thread already has what it needs, in other registers
  Shuffle,   ///< elements stay inside their warp
  Shared,    ///< through shared memory (between warps; between ctas it is distributed shared memory)
};

/// One shuffle: every lane sends a register and takes one. For destination register `to`, the lane reads from lane
/// `sourceLane(lane)` = lane ^ laneXor the register `from[...]`, chosen by the value of the selected lane bits.
struct ShuffleStep {
  int64_t to = 0;
  int64_t laneXor = 0;                ///< 0: no shuffle, a register of this lane
  llvm::SmallVector<int64_t, 4> from; ///< 2^selectors.size() candidates
  llvm::SmallVector<unsigned, 2> selectors; ///< lane bits (of the source lane) that index `from`
};

struct Conversion {
  ConversionKind kind = ConversionKind::None;
  llvm::SmallVector<int64_t, 8> registers;   ///< Registers: source register of each destination register
  llvm::SmallVector<ShuffleStep, 8> shuffles; ///< Shuffle: one per destination register
  bool crossesCtas = false;                   ///< Shared
  /// Instructions per thread, roughly: what inference minimises.
  int64_t cost = 0;
};

/// Both layouts are of the same shape and the same numbers of lanes, warps, groups and ctas.
Conversion planConversion(const Layout &from, const Layout &to);

/// For each register of `to`, a register of `from` of the same thread that holds the same element; nothing if a thread
/// would have to ask another one.
std::optional<llvm::SmallVector<int64_t, 8>> registerMap(const Layout &from, const Layout &to);

} // namespace kiln::layout
