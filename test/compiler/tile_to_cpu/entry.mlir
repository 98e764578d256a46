// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize --cse | FileCheck %s

// The entry reads packed arguments at natural alignment, runs the instances [begin, end), and states what it needs.
// CHECK-LABEL: func.func @kiln_arguments(
// CHECK-SAME:    %[[ARGS:.*]]: !llvm.ptr, %[[LAUNCH:.*]]: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64)
// CHECK-SAME:  {align = 8 : i64, kind = "pointer", name = "out", offset = 0 : i64, size = 8 : i64, type = "*fp32", written = true}
// CHECK-SAME:  {align = 1 : i64, kind = "scalar", name = "arg1", offset = 8 : i64, size = 1 : i64, type = "i1"}
// CHECK-SAME:  {align = 4 : i64, kind = "scalar", name = "n", offset = 12 : i64, size = 4 : i64, type = "u32"}
// CHECK-SAME:  {align = 8 : i64, kind = "scalar", name = "arg3", offset = 16 : i64, size = 8 : i64, type = "fp64"}
// CHECK-SAME:  {align = 2 : i64, kind = "scalar", name = "arg4", offset = 24 : i64, size = 2 : i64, type = "bf16"}
// CHECK-SAME:  {align = 8 : i64, kind = "pointer", name = "arg5", offset = 32 : i64, size = 8 : i64, type = "*fp8e4nv"}
// CHECK-SAME:  kiln.arguments_bytes = 40 : i64
// CHECK-SAME:  kiln.check = "none"
// CHECK-SAME:  kiln.frame_bytes = 0 : i64
// CHECK-SAME:  kiln.name = "arguments"
// CHECK:         scf.for %[[P:.*]] = %[[BEGIN]] to %[[END]]
// CHECK:           llvm.store
// CHECK-NOT:     tile.
func.func @arguments(%out: !tile.ptr<f32> {tile.name = "out"}, %flag: i1, %n: i32 {tile.name = "n", tile.type = "u32"},
                     %x: f64, %h: bf16, %q: !tile.ptr<f8E4M3FN>) attributes {tile.kernel} {
  %f = arith.uitofp %n : i32 to f32
  tile.store %out, %f mask %flag : !tile.ptr<f32>, f32 mask i1
  return
}

// x varies fastest in the linear program id.
// CHECK-LABEL: func.func @kiln_ids
// CHECK:         %[[GX:.*]] = llvm.load %{{.*}} : !llvm.ptr -> i32
// CHECK:         %[[GY:.*]] = llvm.load %{{.*}} : !llvm.ptr -> i32
// CHECK:         scf.for %[[P:.*]] = %arg2 to %arg3
// CHECK:           %[[X:.*]] = arith.extui %[[GX]] : i32 to i64
// CHECK:           %[[Q:.*]] = arith.divui %[[P]], %[[X]]
// CHECK:           %[[Y:.*]] = arith.extui %[[GY]] : i32 to i64
// CHECK:           arith.remui %[[Q]], %[[Y]]
// CHECK:           %[[Z:.*]] = arith.divui %[[Q]], %[[Y]]
// CHECK:           arith.trunci %[[Z]]
func.func @ids(%out: !tile.ptr<i32>) attributes {tile.kernel} {
  %y = tile.program_id y : i32
  %z = tile.program_id z : i32
  %s = arith.addi %y, %z : i32
  tile.store %out, %s : !tile.ptr<i32>, i32
  return
}

// A function that is not a kernel is unchanged.
// CHECK-LABEL: func.func private @helper
func.func private @helper()
