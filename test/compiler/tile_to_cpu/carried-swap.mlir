// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize --cse | FileCheck %s

// a, b = b, a + b on 128 KiB tiles: three buffers, no copy. The loop's body is one nest that writes a + b into the
// spare buffer; the pointers rotate.
// CHECK-LABEL: func.func @kiln_swap
// CHECK-SAME:    kiln.frame_bytes = 393216 : i64
// CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}, %[[SPARE:.*]] = %{{.*}}) -> (!llvm.ptr, !llvm.ptr, !llvm.ptr)
// CHECK-COUNT-2:   llvm.load
// CHECK:           %[[SUM:.*]] = arith.addf
// CHECK:           llvm.store %[[SUM]]
// CHECK-NOT:       llvm.store
// CHECK-NOT:       llvm.load
// CHECK:           scf.yield %[[B]], %[[SPARE]], %[[A]] : !llvm.ptr, !llvm.ptr, !llvm.ptr
func.func @swap(%x: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %i = tile.make_range 0 to 128 : tensor<128xi32>
  %j = tile.make_range 0 to 256 : tensor<256xi32>
  %ic = tile.expand_dims %i 1 : tensor<128xi32> -> tensor<128x1xi32>
  %jr = tile.expand_dims %j 0 : tensor<256xi32> -> tensor<1x256xi32>
  %c256 = arith.constant dense<256> : tensor<128x1xi32>
  %row = arith.muli %ic, %c256 : tensor<128x1xi32>
  %rb = tile.broadcast %row : tensor<128x1xi32> -> tensor<128x256xi32>
  %jb = tile.broadcast %jr : tensor<1x256xi32> -> tensor<128x256xi32>
  %off = arith.addi %rb, %jb : tensor<128x256xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<128x256x!tile.ptr<f32>>
  %p = tile.addptr %xs, %off : tensor<128x256x!tile.ptr<f32>>, tensor<128x256xi32>
  %a0 = tile.load %p : tensor<128x256x!tile.ptr<f32>> -> tensor<128x256xf32>
  %b0 = arith.constant dense<1.0> : tensor<128x256xf32>
  %r:2 = scf.for %k = %zero to %n step %one iter_args(%a = %a0, %b = %b0)
      -> (tensor<128x256xf32>, tensor<128x256xf32>) : i32 {
    %s = arith.addf %a, %b : tensor<128x256xf32>
    scf.yield %b, %s : tensor<128x256xf32>, tensor<128x256xf32>
  }
  tile.store %p, %r#0 : tensor<128x256x!tile.ptr<f32>>, tensor<128x256xf32>
  tile.store %p, %r#1 : tensor<128x256x!tile.ptr<f32>>, tensor<128x256xf32>
  return
}

// An accumulator is updated in place: one buffer (and 1 KiB for the column sums).
// CHECK-LABEL: func.func @kiln_accumulate
// CHECK-SAME:    kiln.frame_bytes = 132096 : i64
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK:             scf.for
// CHECK:               llvm.store
// CHECK:           scf.for
// CHECK:             scf.for
// CHECK:               scf.for
// CHECK:                 %[[OLD:.*]] = llvm.load %[[P:.*]] {alignment
// CHECK:                 %[[NEW:.*]] = arith.mulf %[[OLD]]
// CHECK:                 llvm.store %[[NEW]], %[[P]]
func.func @accumulate(%x: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %init = arith.constant dense<1.0> : tensor<128x256xf32>
  %factor = arith.constant dense<1.5> : tensor<128x256xf32>
  %r = scf.for %k = %zero to %n step %one iter_args(%a = %init) -> (tensor<128x256xf32>) : i32 {
    %s = arith.mulf %a, %factor : tensor<128x256xf32>
    scf.yield %s : tensor<128x256xf32>
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

// Carried pointers that advance by a scalar are a carried scalar: nothing in memory, contiguous vector loads.
// CHECK-LABEL: func.func @kiln_pointers
// CHECK-SAME:    kiln.frame_bytes = 0 : i64
// CHECK:         scf.for %{{.*}} iter_args(%[[SUM:.*]] = %{{.*}}, %[[STEP:.*]] = %c0_i64{{.*}}) -> (f32, i64)
// CHECK-NOT:       gather
// CHECK:           llvm.load %{{.*}} : !llvm.ptr -> vector<64xf32>
// CHECK:           arith.addi %[[STEP]], %{{.*}} : i64
func.func @pointers(%x: !tile.ptr<f32>, %o: !tile.ptr<f32>, %n: i32, %stride: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %f0 = arith.constant 0.0 : f32
  %j = tile.make_range 0 to 256 : tensor<256xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
  %p0 = tile.addptr %xs, %j : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
  %d = tile.splat %stride : i32 -> tensor<256xi32>
  %r:2 = scf.for %k = %zero to %n step %one iter_args(%acc = %f0, %p = %p0) -> (f32, tensor<256x!tile.ptr<f32>>) : i32 {
    %v = tile.load %p : tensor<256x!tile.ptr<f32>> -> tensor<256xf32>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<256xf32>) -> f32
    %t = arith.addf %acc, %s : f32
    %q = tile.addptr %p, %d : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
    scf.yield %t, %q : f32, tensor<256x!tile.ptr<f32>>
  }
  tile.store %o, %r#0 : !tile.ptr<f32>, f32
  return
}
