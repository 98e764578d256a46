// The part of kiln-verify-channels that checks receives by which each warp waits for itself alone.
#pragma once
#include "dialects/kgpu/KgpuOps.h"

namespace kiln::kgpu {

/// Fails unless each warp reads only those elements of the channel's slots that it alone copies, if any receive of the
/// channel is `by_warp`: the order of one warp's reads and copies is then all that matters, at every receive.
llvm::LogicalResult verifyWarpReads(ChannelOp channel);

} // namespace kiln::kgpu
