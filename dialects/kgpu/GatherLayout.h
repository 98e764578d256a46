// What a gather along a dimension takes, given the layouts of its source and its indices.
#pragma once
#include "dialects/layout/Layout.h"

namespace kiln::kgpu {

/// Attribute of a tile.gather whose indices are the same in every row and known: one per place along the axis.
constexpr llvm::StringLiteral kKnownIndicesAttrName = "kgpu.indices";

enum class GatherKind : uint8_t {
  Registers, ///< every thread has the elements its indices can name: moves or choices of registers
  Flip,      ///< known indices, index i being i ^ c: moves of registers and shuffles by a constant
  Shuffle,   ///< lanes ask lanes of their warp
  Memory,    ///< anything
};

/// `known`: the indices along the axis, empty where they are data.
GatherKind gatherKind(const layout::Layout &source, const layout::Layout &indices, unsigned axis,
                      llvm::ArrayRef<int32_t> known);

/// The digits of registers and lanes that step along `axis`: for each its number and its step.
struct GatherDigits {
  llvm::SmallVector<std::pair<unsigned, int64_t>, 6> registers, lanes;
};
GatherDigits gatherDigits(const layout::Layout &source, unsigned axis);

} // namespace kiln::kgpu
