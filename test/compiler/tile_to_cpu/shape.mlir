// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize --cse | FileCheck %s

// Pairs are split and joined by shuffles of wider vectors: only the loaded row is in memory, and there is no gather.
// CHECK-LABEL: func.func @kiln_pairs
// CHECK-SAME:    kiln.frame_bytes = 1024 : i64
// CHECK-NOT:     gather
// CHECK:         scf.for
// CHECK:         scf.for
// CHECK:         scf.for
// CHECK:         %[[BOTH:.*]] = llvm.load %{{.*}} : !llvm.ptr -> vector<16xf32>
// CHECK-DAG:     %[[EVEN:.*]] = vector.shuffle %[[BOTH]], %[[BOTH]] [0, 2, 4, 6, 8, 10, 12, 14]
// CHECK-DAG:     %[[ODD:.*]] = vector.shuffle %[[BOTH]], %[[BOTH]] [1, 3, 5, 7, 9, 11, 13, 15]
// CHECK-DAG:     %[[NEG:.*]] = arith.negf %[[ODD]]
// CHECK:         vector.interleave %[[NEG]], %[[EVEN]]
// CHECK:         llvm.store %{{.*}} : vector<16xf32>
func.func @pairs(%x: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 256 : tensor<256xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
  %p = tile.addptr %xs, %r : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
  %v = tile.load %p : tensor<256x!tile.ptr<f32>> -> tensor<256xf32>
  %pairs = tile.reshape %v : tensor<256xf32> -> tensor<128x2xf32>
  %a, %b = tile.split %pairs : tensor<128x2xf32> -> tensor<128xf32>
  %n = arith.negf %b : tensor<128xf32>
  %j = tile.join %n, %a : tensor<128xf32> -> tensor<128x2xf32>
  %w = tile.reshape %j : tensor<128x2xf32> -> tensor<256xf32>
  tile.store %p, %w : tensor<256x!tile.ptr<f32>>, tensor<256xf32>
  return
}

// Any other reshape reads the operand's buffer as another shape.
// CHECK-LABEL: func.func @kiln_view
// CHECK-SAME:    kiln.frame_bytes = 1088 : i64
func.func @view(%x: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 256 : tensor<256xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
  %p = tile.addptr %xs, %r : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
  %v = tile.load %p : tensor<256x!tile.ptr<f32>> -> tensor<256xf32>
  %m = tile.reshape %v : tensor<256xf32> -> tensor<16x16xf32>
  %s = tile.reduce(%m) axis 1 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<16x16xf32>) -> tensor<16xf32>
  %t = tile.reduce(%s) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<16xf32>) -> f32
  tile.store %x, %t : !tile.ptr<f32>, f32
  return
}

// Each join read through another doubles the vector: the third is read from memory.
// CHECK-LABEL: func.func @kiln_pairs_of_pairs
// CHECK-NOT: vector<128x
// CHECK-NOT: vector<256x
// CHECK: return
func.func @pairs_of_pairs(%x: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 1024 : tensor<1024xi32>
  %p = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %q = tile.addptr %p, %r : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %v = tile.load %q : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %p0 = tile.reshape %v : tensor<1024xf32> -> tensor<512x2xf32>
  %a0, %b0 = tile.split %p0 : tensor<512x2xf32> -> tensor<512xf32>
  %s0 = arith.addf %a0, %b0 : tensor<512xf32>
  %p1 = tile.reshape %s0 : tensor<512xf32> -> tensor<256x2xf32>
  %a1, %b1 = tile.split %p1 : tensor<256x2xf32> -> tensor<256xf32>
  %s1 = arith.addf %a1, %b1 : tensor<256xf32>
  %p2 = tile.reshape %s1 : tensor<256xf32> -> tensor<128x2xf32>
  %a2, %b2 = tile.split %p2 : tensor<128x2xf32> -> tensor<128xf32>
  %s2 = arith.addf %a2, %b2 : tensor<128xf32>
  %p3 = tile.reshape %s2 : tensor<128xf32> -> tensor<64x2xf32>
  %a3, %b3 = tile.split %p3 : tensor<64x2xf32> -> tensor<64xf32>
  %s3 = arith.addf %a3, %b3 : tensor<64xf32>
  %w = tile.make_range 0 to 64 : tensor<64xi32>
  %y = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %z = tile.addptr %y, %w : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  tile.store %z, %s3 : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}
