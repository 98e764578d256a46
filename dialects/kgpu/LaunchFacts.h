// What a launch says of itself, which no code shows: unit attributes of the module that passes decide by.
#pragma once
#include "llvm/ADT/StringRef.h"

namespace kiln::kgpu {

/// All programs of the launch run at once.
constexpr llvm::StringLiteral kSingleWaveAttrName = "kgpu.single_wave";
/// The launch reads several times what the L2 holds, most of it once.
constexpr llvm::StringLiteral kStreamingAttrName = "kgpu.streaming";

} // namespace kiln::kgpu
