// Where a compiled kernel keeps its tiles and how it accesses memory: layouts by source line, accesses of a warp to
// global memory and their cost in sectors, exchanges through shared memory, products, roles and channels. Computed from
// kgpu IR (stage kgpu).
#pragma once
#include "compiler/explain/Indices.h"
#include "llvm/Support/JSON.h"

namespace kiln::explain {

/// The smallest unit of global memory traffic, in bytes; a warp's access is counted in these.
constexpr int64_t kSectorBytes = 32;

/// {"layouts": [{"name": text of the layout, "shape", "registers": of a thread, "threads", "owners": the first 32 x 64
///               elements (2-D tiles; 1-D: 64 elements of one row), each [warp, lane, register]}],
///  "values": [{"frames", "op", "type": element type, "layout": index}],
///  "accesses": [{"frames", "kind", "bits": of one thread's access, "instructions": of a warp, "sectors", "ideal":
///                for one warp, null where addresses are not known, "role"}],
///  "exchanges": [{"frames", "kind": "store" | "load" | "shuffle", "bytes", "wavefronts", "minimum", "role"}],
///  "products": [{"frames", "instruction", "shape", "type", "role"}],
///  "roles": [{"name", "warps", "registers"}], "channels": [{"slots", "bytes": of a slot, "frames"}], "barriers": n}
llvm::json::Object describePlacement(mlir::func::FuncOp kernel, const Launch &launch);

} // namespace kiln::explain
