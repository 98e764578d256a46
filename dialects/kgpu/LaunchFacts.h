// Facts that the launch states and that no analysis of the code can find: unit attributes of the module.
#pragma once
#include "llvm/ADT/StringRef.h"

namespace kiln::kgpu {

/// All programs of the launch run at once.
constexpr llvm::StringLiteral kSingleWaveAttrName = "kgpu.single_wave";
/// The launch reads several times what the L2 holds, most of it once.
constexpr llvm::StringLiteral kStreamingAttrName = "kgpu.streaming";

} // namespace kiln::kgpu
