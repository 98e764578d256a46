// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize --cse | FileCheck %s

// An if yields a pointer, to the tile that it was given or to the one it makes. Nothing is copied.
// CHECK-LABEL: func.func @kiln_yield_if
// CHECK:         scf.for
// CHECK:           %[[P:.*]] = arith.select %{{.*}}, %[[FRESH:[^,]*]], %[[GIVEN:[^ ]*]] : !llvm.ptr
// CHECK:           scf.if
// CHECK:             arith.addf
// CHECK:             llvm.store
// CHECK-NOT:         llvm.store
// CHECK-NOT:       else
// CHECK:           scf.for
// CHECK:             llvm.getelementptr %[[P]]
func.func @yield_if(%x: !tile.ptr<f32>, %c: i1) attributes {tile.kernel} {
  %j = tile.make_range 0 to 32768 : tensor<32768xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<32768x!tile.ptr<f32>>
  %p = tile.addptr %xs, %j : tensor<32768x!tile.ptr<f32>>, tensor<32768xi32>
  %v = tile.load %p : tensor<32768x!tile.ptr<f32>> -> tensor<32768xf32>
  %cum = tile.scan(%v) axis 0 {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    tile.yield %s : f32
  } : (tensor<32768xf32>) -> tensor<32768xf32>
  %r = scf.if %c -> (tensor<32768xf32>) {
    %t = arith.addf %cum, %v : tensor<32768xf32>
    scf.yield %t : tensor<32768xf32>
  } else {
    scf.yield %cum : tensor<32768xf32>
  }
  %y = arith.mulf %r, %cum : tensor<32768xf32>
  tile.store %p, %y : tensor<32768x!tile.ptr<f32>>, tensor<32768xf32>
  return
}

// An if that updates a carried tile in one branch and keeps it in the other uses the one buffer (and 1 KiB for the
// column sums).
// CHECK-LABEL: func.func @kiln_update_or_keep
// CHECK-SAME:    kiln.frame_bytes = 132096 : i64
// CHECK:           scf.if
// CHECK:             %[[OLD:.*]] = llvm.load %[[P:.*]] {alignment
// CHECK:             %[[NEW:.*]] = arith.mulf %[[OLD]]
// CHECK:             llvm.store %[[NEW]], %[[P]]
// CHECK-NOT:       else
func.func @update_or_keep(%x: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %init = arith.constant dense<1.0> : tensor<128x256xf32>
  %factor = arith.constant dense<1.5> : tensor<128x256xf32>
  %r = scf.for %k = %zero to %n step %one iter_args(%a = %init) -> (tensor<128x256xf32>) : i32 {
    %c = arith.cmpi eq, %k, %one : i32
    %t = scf.if %c -> (tensor<128x256xf32>) {
      %s = arith.mulf %a, %factor : tensor<128x256xf32>
      scf.yield %s : tensor<128x256xf32>
    } else {
      scf.yield %a : tensor<128x256xf32>
    }
    scf.yield %t : tensor<128x256xf32>
  }
  %sum = tile.reduce(%r) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<128x256xf32>) -> tensor<256xf32>
  %j = tile.make_range 0 to 256 : tensor<256xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
  %p = tile.addptr %xs, %j : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
  tile.store %p, %sum : tensor<256x!tile.ptr<f32>>, tensor<256xf32>
  return
}

// A while that swaps its tiles: both regions pass pointers on.
// CHECK-LABEL: func.func @kiln_yield_while
// CHECK-SAME:    kiln.frame_bytes = 394240 : i64
// CHECK:         scf.while (%{{.*}}) : (i32, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> (i32, !llvm.ptr, !llvm.ptr, !llvm.ptr) {
// CHECK:           scf.condition(%{{.*}}) %[[K:[^,]*]], %[[A:[^,]*]], %[[B:[^,]*]], %[[S:[^,]*]] :
// CHECK:         } do {
// CHECK:         ^bb0(%{{.*}}: i32, %[[A:.*]]: !llvm.ptr, %[[B:.*]]: !llvm.ptr, %[[S:.*]]: !llvm.ptr):
// CHECK:           %[[SUM:.*]] = arith.addf
// CHECK:           llvm.store %[[SUM]]
// CHECK-NOT:       llvm.store
// CHECK:           scf.yield %{{.*}}, %[[B]], %[[S]], %[[A]]
func.func @yield_while(%x: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a0 = arith.constant dense<2.0> : tensor<128x256xf32>
  %b0 = arith.constant dense<1.0> : tensor<128x256xf32>
  %r:3 = scf.while (%k = %zero, %a = %a0, %b = %b0)
      : (i32, tensor<128x256xf32>, tensor<128x256xf32>) -> (i32, tensor<128x256xf32>, tensor<128x256xf32>) {
    %c = arith.cmpi slt, %k, %n : i32
    scf.condition(%c) %k, %a, %b : i32, tensor<128x256xf32>, tensor<128x256xf32>
  } do {
  ^bb0(%k: i32, %a: tensor<128x256xf32>, %b: tensor<128x256xf32>):
    %s = arith.addf %a, %b : tensor<128x256xf32>
    %next = arith.addi %k, %one : i32
    scf.yield %next, %b, %s : i32, tensor<128x256xf32>, tensor<128x256xf32>
  }
  %d = arith.subf %r#1, %r#2 : tensor<128x256xf32>
  %sum = tile.reduce(%d) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<128x256xf32>) -> tensor<256xf32>
  %j = tile.make_range 0 to 256 : tensor<256xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
  %p = tile.addptr %xs, %j : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
  tile.store %p, %sum : tensor<256x!tile.ptr<f32>>, tensor<256xf32>
  return
}
