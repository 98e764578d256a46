// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize --cse | FileCheck %s

// log2(n) merging passes between the row and a scratch row; NaN sorts last.
// CHECK-LABEL: func.func @kiln_sort
// CHECK:         scf.for {{.*}} = %c0_i64 to %c12_i64 step %c1_i64 iter_args
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c4096_i64 step
// CHECK:             scf.for {{.*}} iter_args
// CHECK:               arith.cmpf ult
// CHECK:               arith.cmpf ord
func.func @sort(%x: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 4096 : tensor<4096xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<4096x!tile.ptr<f32>>
  %p = tile.addptr %xs, %r : tensor<4096x!tile.ptr<f32>>, tensor<4096xi32>
  %v = tile.load %p : tensor<4096x!tile.ptr<f32>> -> tensor<4096xf32>
  %s = tile.sort %v : tensor<4096xf32>
  tile.store %p, %s : tensor<4096x!tile.ptr<f32>>, tensor<4096xf32>
  return
}

// A histogram counts what lies in [0, bins).
// CHECK-LABEL: func.func @kiln_histogram
// CHECK:         arith.cmpi ult, %{{.*}}, %c16_i64
// CHECK:         scf.if
// CHECK:           arith.addi %{{.*}}, %c1_i32
func.func @histogram(%x: !tile.ptr<i32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 64 : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>>
  %p = tile.addptr %xs, %r : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
  %v = tile.load %p : tensor<64x!tile.ptr<i32>> -> tensor<64xi32>
  %h = tile.histogram %v : tensor<64xi32> -> tensor<16xi32>
  %j = tile.make_range 0 to 16 : tensor<16xi32>
  %xj = tile.splat %x : !tile.ptr<i32> -> tensor<16x!tile.ptr<i32>>
  %q = tile.addptr %xj, %j : tensor<16x!tile.ptr<i32>>, tensor<16xi32>
  tile.store %q, %h : tensor<16x!tile.ptr<i32>>, tensor<16xi32>
  return
}

// A gather reads its source's buffer, inside its bounds whatever the index.
// CHECK-LABEL: func.func @kiln_gather
// CHECK:         arith.minui
// CHECK:         llvm.intr.masked.gather
func.func @gather(%x: !tile.ptr<f32>, %ix: !tile.ptr<i32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 64 : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %p = tile.addptr %xs, %r : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %is = tile.splat %ix : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>>
  %ip = tile.addptr %is, %r : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
  %v = tile.load %p : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %i = tile.load %ip : tensor<64x!tile.ptr<i32>> -> tensor<64xi32>
  %g = tile.gather %v[%i] 0 : tensor<64xf32>, tensor<64xi32> -> tensor<64xf32>
  tile.store %p, %g : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}

// A scan runs in order; backwards if asked to.
// CHECK-LABEL: func.func @kiln_scan
// CHECK:         scf.for %[[I:.*]] = %c0_i64 to %c64_i64 step %c1_i64 iter_args(%[[A:.*]] = %{{.*}}) -> (f32)
// CHECK:           arith.subi %c63_i64, %[[I]]
// CHECK:           %[[S:.*]] = arith.addf %[[A]]
// CHECK:           arith.select %{{.*}}, %{{.*}}, %[[S]]
func.func @scan(%x: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 64 : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %p = tile.addptr %xs, %r : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %v = tile.load %p : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %s = tile.scan(%v) axis 0 reverse {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<64xf32>) -> tensor<64xf32>
  tile.store %p, %s : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}
