// What the lowerings of channels and of copies share: where a slot and its barriers are.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/kgpu/KgpuOps.h"

namespace kiln::nvvm {

/// From a slot's barriers: the full one and the empty one.
constexpr int64_t kFull = 0, kEmpty = 8;

kgpu::ChannelOp channelOf(mlir::Value channel);
/// The 32-bit address of the full or empty barrier of the cursor's slot.
mlir::Value barrierOf(Lowering &lowering, mlir::Value channel, mlir::Value cursor, int64_t barrier);
/// `address` in the cursor's slot, given that of the first and the bytes from one to the next.
mlir::Value inSlot(Lowering &lowering, mlir::Value address, mlir::Value cursor, int64_t stride);

/// Copy.cpp: where a thread's work in `region` ends. Copies to global memory read memory that goes away with the block,
/// so they are over before the thread that issued them ends.
void finishCopies(Lowering &lowering, mlir::Region &region);

} // namespace kiln::nvvm
