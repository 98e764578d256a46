// kiln-opt's pipelines are the compiler's own. This list changes together with Pipeline.cpp, so that a pass that moves
// or disappears is noticed.
// RUN: kiln-opt %s --kiln-tile-pipeline --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=TILE
// RUN: kiln-opt %s --kiln-tile-pipeline=enable-fp-fusion=false --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=EXACT
// RUN: kiln-opt %s --kiln-cpu-pipeline=check=bounds --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=CPU
// RUN: kiln-opt %s --kiln-kgpu-pipeline --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=KGPU
// RUN: kiln-opt %s --kiln-thread-pipeline --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=THREAD
// RUN: kiln-opt %s --kiln-llvm-pipeline --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=LLVM
// RUN: kiln-opt %s --kiln-llvm-pipeline=line-info=true --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=LINES
// TILE: builtin.module(
// TILE-NEXT: inline{
// TILE-NEXT: symbol-dce,
// TILE-NEXT: func.func(
// TILE-NEXT: kiln-expand-maps
// TILE-NEXT: ),
// TILE-NEXT: canonicalize{
// TILE-NEXT: cse,
// TILE-NEXT: kiln-allow-contraction,
// TILE-NEXT: func.func(
// TILE-NEXT: kiln-lower-block-pointers,
// TILE-NEXT: kiln-drop-masks,
// TILE-NEXT: kiln-combine-tiles,
// TILE-NEXT: kiln-unroll-loops,
// TILE-NEXT: kiln-hoist-invariants
// TILE-NEXT: ),
// TILE-NEXT: canonicalize{
// TILE-NEXT: cse,
// TILE-NEXT: func.func(
// TILE-NEXT: kiln-widen-offsets
// TILE-NEXT: )
// TILE-NEXT: )
// EXACT: kiln-widen-offsets
// EXACT-NOT: kiln-allow-contraction
// CPU: builtin.module(
// CPU-NEXT: func.func(
// CPU-NEXT: kiln-take-unlikely
// CPU-NEXT: ),
// CPU-NEXT: canonicalize{
// CPU-NEXT: cse,
// CPU-NEXT: func.func(
// CPU-NEXT: kiln-lower-desc-reductions
// CPU-NEXT: ),
// CPU-NEXT: kiln-tile-to-cpu{check=bounds},
// CPU-NEXT: canonicalize{
// CPU-NEXT: cse,
// CPU-NEXT: kiln-expand-math,
// CPU-NEXT: cse,
// CPU-NEXT: kiln-verify-vectors
// CPU-NEXT: )
// KGPU: builtin.module(
// KGPU-NEXT: cse,
// KGPU-NEXT: func.func(
// KGPU-NEXT: kiln-require-divisors,
// KGPU-NEXT: kiln-describe-pointers{all=false},
// KGPU-NEXT: kiln-choose-schedule,
// KGPU-NEXT: kiln-materialize-schedule,
// KGPU-NEXT: kiln-take-unlikely,
// KGPU-NEXT: kiln-lower-desc-reductions
// KGPU-NEXT: ),
// KGPU-NEXT: canonicalize{
// KGPU-NEXT: cse,
// KGPU-NEXT: kiln-select-products{by-warps=false},
// KGPU-NEXT: func.func(
// KGPU-NEXT: kiln-assign-layouts
// KGPU: kiln-check-registers
// KGPU: kiln-verify-layouts
// KGPU: kiln-lower-sorts
// KGPU-NEXT: kiln-merge-reductions
// KGPU-NEXT: kiln-sink-factors
// KGPU-NEXT: kiln-lower-exchanges
// KGPU-NEXT: kiln-wait-by-warp
// KGPU-NEXT: kiln-alternate-slots
// KGPU: kiln-verify-layouts
// KGPU: cse,
// KGPU-NEXT: kiln-recompute-after-exchange,
// KGPU-NEXT: kiln-hint-streams
// KGPU-NEXT: kiln-hoist-reads
// KGPU-NEXT: kiln-plan-shared-memory
// KGPU-NOT: canonicalize
// KGPU: kiln-insert-barriers
// KGPU-NEXT: kiln-verify-barriers
// KGPU-NEXT: kiln-verify-channels
// KGPU-NEXT: kiln-overlap-launches
// KGPU-NEXT: kiln-close-reads
// THREAD: builtin.module(
// THREAD-NEXT: kiln-kgpu-to-nvvm,
// THREAD-NEXT: canonicalize{
// THREAD-NEXT: cse,
// THREAD-NEXT: kiln-expand-math,
// THREAD-NEXT: cse
// THREAD-NEXT: )
// LLVM: builtin.module(
// LLVM-NEXT: kiln-to-llvm,
// LLVM-NEXT: cse
// LLVM-NEXT: )
// LINES: kiln-to-llvm,
// LINES-NEXT: cse,
// LINES-NEXT: kiln-line-info
module {
}
