// How to lower a gather along a dimension, given the layouts of its source and its indices.
#pragma once
#include "dialects/layout/Layout.h"

namespace kiln::kgpu {

/// Attribute of a tile.gather whose indices are constants and the same in every row: one index per place along the
/// axis.
constexpr llvm::StringLiteral kKnownIndicesAttrName = "kgpu.indices";

enum class GatherKind : uint8_t {
  Registers, ///< every thread holds all elements that its indices can name: register moves or selects
  Flip,      ///< constant indices of the form i ^ c: register moves, and shuffles by a constant
  Shuffle,   ///< lanes read from lanes of their warp
  Memory,    ///< any other gather
};

/// `known`: the indices along the axis if they are constants, else empty.
GatherKind gatherKind(const layout::Layout &source, const layout::Layout &indices, unsigned axis,
                      llvm::ArrayRef<int32_t> known);

/// The digits of registers and lanes that step along `axis`, each as a pair of its number and its step.
struct GatherDigits {
  llvm::SmallVector<std::pair<unsigned, int64_t>, 6> registers, lanes;
};
GatherDigits gatherDigits(const layout::Layout &source, unsigned axis);

} // namespace kiln::kgpu
