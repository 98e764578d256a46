// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize --cse | FileCheck %s

// Offsets that wrap around are contiguous in nearly every vector: the code tests that on the 32-bit offsets.
// CHECK-LABEL: func.func @kiln_wrapped
// CHECK:         %[[AT:.*]] = arith.remsi {{.*}} : vector<16xi32>
// CHECK:         %[[FIRST:.*]] = vector.extract %[[AT]][0]
// CHECK:         %[[ALL:.*]] = vector.broadcast %[[FIRST]]
// CHECK:         %[[NEXT:.*]] = arith.addi %[[ALL]], %{{.*}} : vector<16xi32>
// CHECK:         %[[SAME:.*]] = arith.cmpi eq, %[[AT]], %[[NEXT]]
// CHECK:         %[[NEAR:.*]] = vector.reduction <and>, %[[SAME]]
// CHECK:         scf.if %[[NEAR]] -> (vector<16xf32>) {
// CHECK-NEXT:      llvm.load %{{.*}} -> vector<16xf32>
// CHECK:         } else {
// CHECK:           llvm.intr.masked.gather
// CHECK:         llvm.store %{{.*}} : vector<16xf32>
// CHECK-NOT:     scatter
// CHECK:         return
func.func @wrapped(%x: !tile.ptr<f32>, %o: !tile.ptr<f32> {tile.disjoint}, %n: i32, %start: i32) attributes {tile.kernel} {
  %r = tile.make_range 0 to 64 : tensor<64xi32>
  %s = tile.splat %start : i32 -> tensor<64xi32>
  %i = arith.addi %s, %r : tensor<64xi32>
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  %w = arith.remsi %i, %ns : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %p = tile.addptr %xs, %w : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %v = tile.load %p : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %q = tile.addptr %os, %r : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  tile.store %q, %v : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}

// Every second element is never contiguous, and a byte may wrap around on its own: no test.
// CHECK-LABEL: func.func @kiln_never
// CHECK-NOT:     scf.if
// CHECK:         llvm.intr.masked.gather
// CHECK-NOT:     scf.if
// CHECK:         llvm.intr.masked.scatter
// CHECK-NOT:     scf.if
// CHECK:         return
func.func @never(%x: !tile.ptr<f32>, %ix: !tile.ptr<i8>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 64 : tensor<64xi32>
  %two = arith.constant dense<2> : tensor<64xi32>
  %even = arith.muli %r, %two : tensor<64xi32>
  %is = tile.splat %ix : !tile.ptr<i8> -> tensor<64x!tile.ptr<i8>>
  %ip = tile.addptr %is, %r : tensor<64x!tile.ptr<i8>>, tensor<64xi32>
  %i = tile.load %ip : tensor<64x!tile.ptr<i8>> -> tensor<64xi8>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %p = tile.addptr %xs, %even : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %v = tile.load %p : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %q = tile.addptr %xs, %i : tensor<64x!tile.ptr<f32>>, tensor<64xi8>
  tile.store %q, %v : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}
