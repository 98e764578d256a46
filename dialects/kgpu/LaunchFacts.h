// What the launch says of itself and no code can show: unit attributes of the module that passes read.
#pragma once
#include "llvm/ADT/StringRef.h"

namespace kiln::kgpu {

/// All programs of the launch run at once.
constexpr llvm::StringLiteral kSingleWaveAttrName = "kgpu.single_wave";
/// The launch reads several times what the L2 holds, most of it once.
constexpr llvm::StringLiteral kStreamingAttrName = "kgpu.streaming";

} // namespace kiln::kgpu
