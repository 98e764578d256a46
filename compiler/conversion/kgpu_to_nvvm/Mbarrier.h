// Memory with mbarriers: shared memory that ctas of the cluster send to, and the mbarrier after each slot, which tells
// when everything has arrived. A barrier of the cluster would instead order all memory of every thread, GPU-wide, for
// about a microsecond.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/kgpu/KgpuOps.h"

namespace kiln::nvvm {

/// Sends `values`, which are contiguous from `pointer` (!llvm.ptr<3>) on, to the same place in cta `cta`; the slot
/// starts at `slot`. `distance`: bytes from `pointer` to their destination. `asOne`: two or four words are sent as one
/// vector, to an address that is a multiple of its size.
void sendToCta(Lowering &lowering, llvm::ArrayRef<mlir::Value> values, mlir::Value pointer, int64_t elementBytes,
               mlir::Value cta, mlir::Value slot, int64_t tileBytes, int64_t distance = 0, bool asOne = false);

/// Initialises the counters of every mbarrier; precedes the cluster's first barrier.
void openMbarriers(Lowering &lowering);

} // namespace kiln::nvvm
