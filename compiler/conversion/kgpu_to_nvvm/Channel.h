// Shared by the lowerings of channels and of copies: the addresses of slots and their barriers.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/kgpu/KgpuOps.h"

namespace kiln::nvvm {

/// Offsets of the full and of the empty barrier from a slot's barriers.
constexpr int64_t kFull = 0, kEmpty = 8;

kgpu::ChannelOp channelOf(mlir::Value channel);
/// The 32-bit address of the full or empty barrier of the cursor's slot.
mlir::Value barrierOf(Lowering &lowering, mlir::Value channel, mlir::Value cursor, int64_t barrier);
/// The address in the cursor's slot, given the `address` in the first slot and the bytes from one slot to the next.
mlir::Value inSlot(Lowering &lowering, mlir::Value address, mlir::Value cursor, int64_t stride);

/// In Copy.cpp. Emitted where a thread's work in `region` ends. Copies to global memory read shared memory, which goes
/// away with the block, so they complete before the thread that issued them ends.
void finishCopies(Lowering &lowering, mlir::Region &region);

/// In Barrier.cpp. Where a role whose groups take turns starts, the last group lets the first begin (`opens`). Where it
/// ends, the first takes the turn that nobody needs, so that no group has come to a barrier alone.
void openTurns(Lowering &lowering, bool opens);

} // namespace kiln::nvvm
