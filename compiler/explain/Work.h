// The work of a kernel's launch: bytes from and to each array, operations by kind, loop iterations. Computed from tile
// IR after the tile passes (stage opt), so that it is the program's own work, on whatever target it runs.
#pragma once
#include "compiler/explain/Indices.h"
#include "llvm/Support/JSON.h"

namespace kiln::explain {

struct Effort {
  int64_t programs = 128; ///< program instances to run; each stands for its share of the grid
  int64_t turns = 64;     ///< iterations of each loop
};

/// {"programs": in the grid, "sampled": run, "estimated": a condition or an address was not known,
///  "arrays": [{"argument", "read", "written": bytes asked for, "span": bytes between the first and the last touched}],
///  "accesses": [{"frames", "kind", "argument", "count": executions in the grid, "bytes", "estimated"}],
///  "operations": {"tensor": {"f16": ...}, "float": {"f32": ...}, "special": {"f32": ...}},
///  "loops": [{"frames", "turns": a mean per entry, "estimated"}]}
llvm::json::Object describeWork(mlir::func::FuncOp kernel, const Launch &launch, Effort effort = {});

/// The positions of an op as JSON: [[file, line, column, function], ...], innermost first.
llvm::json::Array framesOf(mlir::Operation *op);

} // namespace kiln::explain
