// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize --cse | FileCheck %s

// Narrow floats are loaded as integers of their width; a mask that is uniform over a row becomes a branch.
// CHECK-LABEL: func.func @kiln_row_mask
// CHECK:         scf.for
// CHECK:           scf.if %{{.*}} -> (vector<16xf16>)
// CHECK:             llvm.load %{{.*}} {alignment = 2 : i64} : !llvm.ptr -> vector<16xi16>
// CHECK:           } else {
// CHECK:             scf.yield %{{.*}} : vector<16xf16>
func.func @row_mask(%x: !tile.ptr<f16>, %o: !tile.ptr<f16>, %keep: i1) attributes {tile.kernel} {
  %r = tile.make_range 0 to 64 : tensor<64xi32>
  %m = tile.splat %keep : i1 -> tensor<64xi1>
  %xs = tile.splat %x : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
  %p = tile.addptr %xs, %r : tensor<64x!tile.ptr<f16>>, tensor<64xi32>
  %v = tile.load %p mask %m : tensor<64x!tile.ptr<f16>> mask tensor<64xi1> -> tensor<64xf16>
  %os = tile.splat %o : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
  %q = tile.addptr %os, %r : tensor<64x!tile.ptr<f16>>, tensor<64xi32>
  tile.store %q, %v : tensor<64x!tile.ptr<f16>>, tensor<64xf16>
  return
}

// Indices loaded from memory need a gather; the store is contiguous.
// CHECK-LABEL: func.func @kiln_indirect
// CHECK:         %[[I:.*]] = llvm.load %{{.*}} : !llvm.ptr -> vector<16xi32>
// CHECK:         arith.extsi %[[I]]
// CHECK:         llvm.intr.masked.gather
// CHECK:         llvm.store %{{.*}} : vector<16xf32>
func.func @indirect(%x: !tile.ptr<f32>, %ix: !tile.ptr<i32>, %o: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 64 : tensor<64xi32>
  %is = tile.splat %ix : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>>
  %ip = tile.addptr %is, %r : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
  %i = tile.load %ip : tensor<64x!tile.ptr<i32>> -> tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %p = tile.addptr %xs, %i : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %v = tile.load %p : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %q = tile.addptr %os, %r : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  tile.store %q, %v : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}

// A block: the row test is outside the loop over columns, and the columns are a masked load. One innermost stride is
// known to be 1 from its type, the other only at run time.
// CHECK-LABEL: func.func @kiln_box
// CHECK:         scf.for
// CHECK:           arith.cmpi ult
// CHECK:           scf.for
// CHECK:             llvm.intr.masked.load
// CHECK-NOT:         gather
// CHECK:             llvm.intr.masked.store
func.func @box(%x: !tile.ptr<f32>, %h: i64, %w: i64, %i: i32, %j: i32) attributes {tile.kernel} {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %x, shape [%h, %w] strides [%w, %one] : !tile.ptr<f32> -> !tile.desc<tensor<16x64xf32>>
  %v = tile.desc_load %d[%i, %j] : !tile.desc<tensor<16x64xf32>> -> tensor<16x64xf32>
  %y = arith.addf %v, %v : tensor<16x64xf32>
  tile.desc_store %d[%i, %j], %y : !tile.desc<tensor<16x64xf32>>, tensor<16x64xf32>
  return
}

// An unknown innermost stride is tested: contiguous or gathered.
// CHECK-LABEL: func.func @kiln_strided_box
// CHECK:         arith.cmpi eq, %{{.*}}, %c4_i64
// CHECK:         scf.if
// CHECK:           llvm.intr.masked.load
// CHECK:         } else {
// CHECK:           llvm.intr.masked.gather
func.func @strided_box(%x: !tile.ptr<f32>, %o: !tile.ptr<f32>, %w: i64, %s: i64, %j: i32) attributes {tile.kernel} {
  %d = tile.make_desc %x, shape [%w] strides [%s] : !tile.ptr<f32> -> !tile.desc<tensor<64xf32>>
  %v = tile.desc_load %d[%j] : !tile.desc<tensor<64xf32>> -> tensor<64xf32>
  %r = tile.make_range 0 to 64 : tensor<64xi32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %q = tile.addptr %os, %r : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  tile.store %q, %v : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}
