// What the earlier passes should have removed is refused by name, never half converted.
// RUN: not kiln-opt %s --kiln-to-llvm 2>&1 | FileCheck %s
// CHECK: failed to legalize operation 'tile.program_id'
func.func @left_over() -> i32 {
  %0 = tile.program_id x : i32
  return %0 : i32
}
