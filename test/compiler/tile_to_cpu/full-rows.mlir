// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize --cse | FileCheck %s

// A mask that compares a range with a bound is tested once per row, at both ends: if it holds there, the row uses a
// loop without masks.
// CHECK-LABEL: func.func @kiln_bounded
// CHECK:         %[[FIRST:.*]] = arith.cmpi slt
// CHECK:         %[[LAST:.*]] = arith.cmpi slt
// CHECK:         %[[BOTH:.*]] = arith.andi %[[FIRST]], %[[LAST]] : i1
// CHECK:         %[[GROWS:.*]] = arith.cmpi sle
// CHECK:         %[[FULL:.*]] = arith.andi %[[BOTH]], %[[GROWS]] : i1
// CHECK:         scf.if %[[FULL]] {
// CHECK:           scf.for
// CHECK-NOT:         masked
// CHECK:             llvm.load %{{.*}} -> vector<16xf32>
// CHECK:             llvm.store %{{.*}} : vector<16xf32>
// CHECK:         } else {
// CHECK:           scf.for
// CHECK:             llvm.intr.masked.load
// CHECK:             llvm.intr.masked.store
// CHECK-NOT:       scf.for
// CHECK:           return
func.func @bounded(%x: !tile.ptr<f32>, %o: !tile.ptr<f32> {tile.disjoint}, %n: i32) attributes {tile.kernel} {
  %pid = tile.program_id x : i32
  %c64 = arith.constant 64 : i32
  %base = arith.muli %pid, %c64 : i32
  %b = tile.splat %base : i32 -> tensor<64xi32>
  %r = tile.make_range 0 to 64 : tensor<64xi32>
  %i = arith.addi %b, %r : tensor<64xi32>
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  %m = arith.cmpi slt, %i, %ns : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %p = tile.addptr %xs, %i : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %v = tile.load %p mask %m : tensor<64x!tile.ptr<f32>> mask tensor<64xi1> -> tensor<64xf32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %q = tile.addptr %os, %i : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  tile.store %q, %v mask %m : tensor<64x!tile.ptr<f32>>, tensor<64xf32> mask tensor<64xi1>
  return
}

// Equality at the ends says nothing about what lies between.
// CHECK-LABEL: func.func @kiln_holes
// CHECK-NOT:     scf.if
// CHECK:         llvm.intr.masked.store
func.func @holes(%o: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %r = tile.make_range 0 to 64 : tensor<64xi32>
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  %m = arith.cmpi ne, %r, %ns : tensor<64xi32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %q = tile.addptr %os, %r : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %v = arith.constant dense<1.0> : tensor<64xf32>
  tile.store %q, %v mask %m : tensor<64x!tile.ptr<f32>>, tensor<64xf32> mask tensor<64xi1>
  return
}
