// Accesses with a constant mask lose the mask, or are removed; conditions known to hold are not checked.
// RUN: kiln-opt %s -canonicalize | FileCheck %s

// CHECK-LABEL: @load_all(
// CHECK: %[[V:.*]] = tile.load %{{[^ ]*}} {evict = #tile<evict evict_first>} : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
// CHECK-NEXT: return %[[V]]
func.func @load_all(%p: tensor<8x!tile.ptr<f32>>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %m = arith.constant dense<true> : tensor<8xi1>
  %v = tile.load %p mask %m other %o {evict = #tile<evict evict_first>}
    : tensor<8x!tile.ptr<f32>> mask tensor<8xi1> other tensor<8xf32> -> tensor<8xf32>
  return %v : tensor<8xf32>
}

// CHECK-LABEL: @load_all_scalar(
// CHECK: tile.load %{{[^ ]*}} : !tile.ptr<f32> -> f32
func.func @load_all_scalar(%p: !tile.ptr<f32>) -> f32 {
  %m = arith.constant true
  %v = tile.load %p mask %m : !tile.ptr<f32> mask i1 -> f32
  return %v : f32
}

// CHECK-LABEL: @load_none_other(
// CHECK-SAME: %[[O:.*]]: tensor<8xf32>
// CHECK-NEXT: return %[[O]]
func.func @load_none_other(%o: tensor<8xf32>, %p: tensor<8x!tile.ptr<f32>>) -> tensor<8xf32> {
  %m = arith.constant dense<false> : tensor<8xi1>
  %v = tile.load %p mask %m other %o {isVolatile}
    : tensor<8x!tile.ptr<f32>> mask tensor<8xi1> other tensor<8xf32> -> tensor<8xf32>
  return %v : tensor<8xf32>
}

// CHECK-LABEL: @load_none_zero(
// CHECK-NEXT: %[[Z:.*]] = arith.constant dense<0.000000e+00> : tensor<8xf8E5M2>
// CHECK-NEXT: return %[[Z]]
func.func @load_none_zero(%p: tensor<8x!tile.ptr<f8E5M2>>) -> tensor<8xf8E5M2> {
  %m = arith.constant dense<false> : tensor<8xi1>
  %v = tile.load %p mask %m : tensor<8x!tile.ptr<f8E5M2>> mask tensor<8xi1> -> tensor<8xf8E5M2>
  return %v : tensor<8xf8E5M2>
}

// CHECK-LABEL: @load_none_null(
// CHECK-NEXT: %[[Z:.*]] = arith.constant 0 : i64
// CHECK-NEXT: %[[N:.*]] = tile.int_to_ptr %[[Z]] : i64 -> !tile.ptr<f32>
// CHECK-NEXT: return %[[N]]
func.func @load_none_null(%p: !tile.ptr<!tile.ptr<f32>>) -> !tile.ptr<f32> {
  %m = arith.constant false
  %v = tile.load %p mask %m : !tile.ptr<!tile.ptr<f32>> mask i1 -> !tile.ptr<f32>
  return %v : !tile.ptr<f32>
}

// CHECK-LABEL: @load_mixed(
// CHECK: tile.load %{{.*}} mask
func.func @load_mixed(%p: tensor<2x!tile.ptr<f32>>) -> tensor<2xf32> {
  %m = arith.constant dense<[true, false]> : tensor<2xi1>
  %v = tile.load %p mask %m : tensor<2x!tile.ptr<f32>> mask tensor<2xi1> -> tensor<2xf32>
  return %v : tensor<2xf32>
}

// CHECK-LABEL: @load_unused(
// CHECK-NEXT: tile.load {{.*}} {isVolatile}
// CHECK-NEXT: return
func.func @load_unused(%p: !tile.ptr<f32>) {
  %v = tile.load %p : !tile.ptr<f32> -> f32
  %w = tile.load %p {isVolatile} : !tile.ptr<f32> -> f32
  return
}

// CHECK-LABEL: @store_masks(
// CHECK-SAME: %[[P:.*]]: !tile.ptr<f32>, %[[V:.*]]: f32
// CHECK-NEXT: tile.store %[[P]], %[[V]] : !tile.ptr<f32>, f32
// CHECK-NEXT: return
func.func @store_masks(%p: !tile.ptr<f32>, %v: f32) {
  %true = arith.constant true
  %false = arith.constant false
  tile.store %p, %v mask %true : !tile.ptr<f32>, f32 mask i1
  tile.store %p, %v mask %false : !tile.ptr<f32>, f32 mask i1
  return
}

// Nobody sees what a prefetch did, and still it stays.
// CHECK-LABEL: @prefetch_masks(
// CHECK-SAME: %[[P:.*]]: !tile.ptr<f32>
// CHECK-NEXT: tile.prefetch %[[P]] : !tile.ptr<f32>
// CHECK-NEXT: return
func.func @prefetch_masks(%p: !tile.ptr<f32>) {
  %true = arith.constant true
  %false = arith.constant false
  tile.prefetch %p mask %true : !tile.ptr<f32> mask i1
  tile.prefetch %p mask %false : !tile.ptr<f32> mask i1
  return
}

// CHECK-LABEL: @atomic_masks(
// CHECK-NEXT: %[[Z:.*]] = arith.constant 0 : i32
// CHECK-NEXT: %[[A:.*]] = tile.atomic_rmw add relaxed gpu %{{.*}}, %{{[^ ]*}} : !tile.ptr<i32>, i32
// CHECK-NEXT: return %[[A]], %[[Z]]
func.func @atomic_masks(%p: !tile.ptr<i32>, %v: i32) -> (i32, i32) {
  %true = arith.constant true
  %false = arith.constant false
  %a = tile.atomic_rmw add relaxed gpu %p, %v mask %true : !tile.ptr<i32>, i32 mask i1
  %b = tile.atomic_rmw add relaxed gpu %p, %v mask %false : !tile.ptr<i32>, i32 mask i1
  return %a, %b : i32, i32
}

// CHECK-LABEL: @conditions_that_hold(
// CHECK-NEXT: return
func.func @conditions_that_hold() {
  %t = arith.constant true
  %s = tile.splat %t : i1 -> tensor<8xi1>
  tile.assert %s, "never" : tensor<8xi1>
  tile.assume %t
  return
}

// CHECK-LABEL: @conditions_that_fail(
// CHECK: tile.assert
// CHECK: tile.assume
func.func @conditions_that_fail() {
  %f = arith.constant false
  tile.assert %f, "always" : i1
  tile.assume %f
  return
}
