// Memory with mbarriers: shared memory that ctas of the cluster send to, and the counter behind each slot (an mbarrier)
// that says when all has come. A barrier of the cluster would order all memory of every thread, GPU-wide, for about a
// microsecond.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/kgpu/KgpuOps.h"

namespace kiln::nvvm {

/// Sends `values`, neighbours from `pointer` (!llvm.ptr<3>) on, to the same place in cta `cta`; the slot starts at
/// `slot`. `distance`: bytes from there to where they go; `asOne`: two or four words go together, to a multiple of
/// theirs.
void sendToCta(Lowering &lowering, llvm::ArrayRef<mlir::Value> values, mlir::Value pointer, int64_t elementBytes,
               mlir::Value cta, mlir::Value slot, int64_t tileBytes, int64_t distance = 0, bool asOne = false);

/// Sets up the counters of every mbarrier; before the cluster's first barrier.
void openMbarriers(Lowering &lowering);

} // namespace kiln::nvvm
