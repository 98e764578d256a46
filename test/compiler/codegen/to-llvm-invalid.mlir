// Ops that earlier passes should have removed are rejected by name, never half converted.
// RUN: not kiln-opt %s --kiln-to-llvm -split-input-file 2>&1 | FileCheck %s
// CHECK: failed to legalize operation 'tile.program_id'
func.func @left_over() -> i32 {
  %0 = tile.program_id x : i32
  return %0 : i32
}

// -----

// CHECK: 'vector.broadcast' op expected vectors of at most 65536 elements (because vectors stand for registers), got 'vector<2147483648xf32>'
func.func @too_long(%s: f32) {
  %0 = vector.broadcast %s : f32 to vector<2147483648xf32>
  return
}
