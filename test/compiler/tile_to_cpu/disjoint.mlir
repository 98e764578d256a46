// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize | FileCheck %s

// If storages may overlap, both operands are read completely before the first element is written.
// CHECK-LABEL: @kiln_apart
// CHECK: llvm.load {{.*}}vector<16xf32>
// CHECK: llvm.store {{.*}}vector<16xf32>
// CHECK: scf.for
// CHECK: arith.addf
// CHECK: llvm.store {{.*}}vector<16xf32>
func.func @apart(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.kernel} {
  %range = tile.make_range 0 to 64 : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %from = tile.addptr %xs, %range : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %to = tile.addptr %ys, %range : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %value = tile.load %from : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %twice = arith.addf %value, %value : tensor<64xf32>
  tile.store %to, %twice : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}

// One of the two is marked disjoint: a single loop reads, adds and writes.
// CHECK-LABEL: @kiln_fused
// CHECK: scf.for {{.*}} step %c16_i64
// CHECK: %[[V:.*]] = llvm.load {{.*}}vector<16xf32>
// CHECK-NEXT: %[[T:.*]] = arith.addf %[[V]], %[[V]]
// CHECK-NEXT: arith.muli
// CHECK-NEXT: %[[P:.*]] = llvm.getelementptr
// CHECK-NEXT: llvm.store %[[T]], %[[P]]
// CHECK-NEXT: {{^ *}$}}
// CHECK-NEXT: {{^ *}$}}
// CHECK-NEXT: return
func.func @fused(%x: !tile.ptr<f32>, %y: !tile.ptr<f32> {tile.disjoint}) attributes {tile.kernel} {
  %range = tile.make_range 0 to 64 : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %from = tile.addptr %xs, %range : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %to = tile.addptr %ys, %range : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %value = tile.load %from : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %twice = arith.addf %value, %value : tensor<64xf32>
  tile.store %to, %twice : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}

// A pointer loaded from memory may point anywhere, even into storage marked disjoint: reads come first.
// CHECK-LABEL: @kiln_loaded
// CHECK: llvm.inttoptr
// CHECK: scf.for
// CHECK: llvm.store {{.*}}vector<16xf32>
// CHECK: scf.for
// CHECK: arith.addf
func.func @loaded(%x: !tile.ptr<i64>, %y: !tile.ptr<f32> {tile.disjoint}) attributes {tile.kernel} {
  %range = tile.make_range 0 to 64 : tensor<64xi32>
  %address = tile.load %x : !tile.ptr<i64> -> i64
  %pointer = tile.int_to_ptr %address : i64 -> !tile.ptr<f32>
  %xs = tile.splat %pointer : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %from = tile.addptr %xs, %range : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %to = tile.addptr %ys, %range : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %value = tile.load %from : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %twice = arith.addf %value, %value : tensor<64xf32>
  tile.store %to, %twice : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}
