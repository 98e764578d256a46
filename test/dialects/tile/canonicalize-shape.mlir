// Shapes: constants and splats move through, chains collapse, no-ops are removed.
// RUN: kiln-opt %s -canonicalize | FileCheck %s

// CHECK-LABEL: @splat_constant(
// CHECK-DAG: %[[I:.*]] = arith.constant dense<3> : tensor<8x4xi32>
// CHECK-DAG: %[[F:.*]] = arith.constant dense<2.000000e+00> : tensor<8xf8E4M3FN>
// CHECK-DAG: %[[B:.*]] = arith.constant dense<true> : tensor<8xi1>
// CHECK: return %[[I]], %[[F]], %[[B]]
func.func @splat_constant() -> (tensor<8x4xi32>, tensor<8xf8E4M3FN>, tensor<8xi1>) {
  %i = arith.constant 3 : i32
  %f = arith.constant 2.0 : f8E4M3FN
  %b = arith.constant true
  %is = tile.splat %i : i32 -> tensor<8x4xi32>
  %fs = tile.splat %f : f8E4M3FN -> tensor<8xf8E4M3FN>
  %bs = tile.splat %b : i1 -> tensor<8xi1>
  return %is, %fs, %bs : tensor<8x4xi32>, tensor<8xf8E4M3FN>, tensor<8xi1>
}

// CHECK-LABEL: @splat_of_unsplat(
// CHECK-SAME: %[[X:.*]]: tensor<1x1xf32>
// CHECK-NEXT: return %[[X]]
func.func @splat_of_unsplat(%x: tensor<1x1xf32>) -> tensor<1x1xf32> {
  %s = tile.unsplat %x : tensor<1x1xf32> -> f32
  %t = tile.splat %s : f32 -> tensor<1x1xf32>
  return %t : tensor<1x1xf32>
}

// CHECK-LABEL: @unsplat_of_splat(
// CHECK-SAME: %[[X:.*]]: f32
// CHECK-NEXT: return %[[X]]
func.func @unsplat_of_splat(%x: f32) -> f32 {
  %t = tile.splat %x : f32 -> tensor<1xf32>
  %s = tile.unsplat %t : tensor<1xf32> -> f32
  return %s : f32
}

// CHECK-LABEL: @unsplat_constant(
// CHECK-NEXT: %[[C:.*]] = arith.constant 5 : i32
// CHECK-NEXT: return %[[C]]
func.func @unsplat_constant() -> i32 {
  %t = tile.make_range 5 to 6 : tensor<1xi32>
  %s = tile.unsplat %t : tensor<1xi32> -> i32
  return %s : i32
}

// CHECK-LABEL: @unsplat_of_shape(
// CHECK-SAME: %[[X:.*]]: tensor<1xf32>
// CHECK-NEXT: %[[S:.*]] = tile.unsplat %[[X]] : tensor<1xf32> -> f32
// CHECK-NEXT: return %[[S]]
func.func @unsplat_of_shape(%x: tensor<1xf32>) -> f32 {
  %y = tile.expand_dims %x 0 : tensor<1xf32> -> tensor<1x1xf32>
  %z = tile.trans %y [1, 0] : tensor<1x1xf32> -> tensor<1x1xf32>
  %s = tile.unsplat %z : tensor<1x1xf32> -> f32
  return %s : f32
}

// CHECK-LABEL: @range_of_many(
// CHECK: tile.make_range 0 to 2
func.func @range_of_many() -> tensor<2xi32> {
  %t = tile.make_range 0 to 2 : tensor<2xi32>
  return %t : tensor<2xi32>
}

// CHECK-LABEL: @shape_of_splat(
// CHECK-SAME: %[[X:.*]]: f32
// CHECK-NEXT: %[[S:.*]] = tile.splat %[[X]] : f32 -> tensor<32x8xf32>
// CHECK-NEXT: return %[[S]]
func.func @shape_of_splat(%x: f32) -> tensor<32x8xf32> {
  %a = tile.splat %x : f32 -> tensor<8xf32>
  %b = tile.expand_dims %a 1 : tensor<8xf32> -> tensor<8x1xf32>
  %c = tile.broadcast %b : tensor<8x1xf32> -> tensor<8x32xf32>
  %d = tile.trans %c [1, 0] : tensor<8x32xf32> -> tensor<32x8xf32>
  %e = tile.reshape %d : tensor<32x8xf32> -> tensor<16x16xf32>
  %f = tile.reshape %e : tensor<16x16xf32> -> tensor<32x8xf32>
  return %f : tensor<32x8xf32>
}

// Pointers are not constants, yet their splats move.
// CHECK-LABEL: @shape_of_pointer_splat(
// CHECK-NEXT: tile.splat %{{.*}} : !tile.ptr<f32> -> tensor<8x4x!tile.ptr<f32>>
// CHECK-NEXT: return
func.func @shape_of_pointer_splat(%p: !tile.ptr<f32>) -> tensor<8x4x!tile.ptr<f32>> {
  %a = tile.splat %p : !tile.ptr<f32> -> tensor<8x1x!tile.ptr<f32>>
  %b = tile.broadcast %a : tensor<8x1x!tile.ptr<f32>> -> tensor<8x4x!tile.ptr<f32>>
  return %b : tensor<8x4x!tile.ptr<f32>>
}

// CHECK-LABEL: @shape_of_constant(
// CHECK-DAG: %[[A:.*]] = arith.constant dense<{{\[}}[1, 2, 3, 4]]> : tensor<1x4xi32>
// CHECK-DAG: %[[B:.*]] = arith.constant dense<{{\[}}[1, 2], [3, 4]]> : tensor<2x2xi32>
// CHECK-DAG: %[[C:.*]] = arith.constant dense<7> : tensor<4x8xi32>
// CHECK: return %[[A]], %[[B]], %[[C]]
func.func @shape_of_constant() -> (tensor<1x4xi32>, tensor<2x2xi32>, tensor<4x8xi32>) {
  %x = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %a = tile.expand_dims %x 0 : tensor<4xi32> -> tensor<1x4xi32>
  %b = tile.reshape %x : tensor<4xi32> -> tensor<2x2xi32>
  %y = arith.constant dense<7> : tensor<8x1xi32>
  %c = tile.broadcast %y : tensor<8x1xi32> -> tensor<8x4xi32>
  %d = tile.trans %c [1, 0] : tensor<8x4xi32> -> tensor<4x8xi32>
  return %a, %b, %d : tensor<1x4xi32>, tensor<2x2xi32>, tensor<4x8xi32>
}

// CHECK-LABEL: @identities(
// CHECK-SAME: %[[X:.*]]: tensor<8x4xf32>
// CHECK-NEXT: return %[[X]]
func.func @identities(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %a = tile.broadcast %x : tensor<8x4xf32> -> tensor<8x4xf32>
  %b = tile.reshape %a : tensor<8x4xf32> -> tensor<8x4xf32>
  %c = tile.trans %b [0, 1] : tensor<8x4xf32> -> tensor<8x4xf32>
  %d = tile.trans %c [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
  %e = tile.trans %d [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  return %e : tensor<8x4xf32>
}

// CHECK-LABEL: @broadcast_of_broadcast(
// CHECK-SAME: %[[X:.*]]: tensor<1x1xf32>
// CHECK-NEXT: %[[Y:.*]] = tile.broadcast %[[X]] : tensor<1x1xf32> -> tensor<8x4xf32>
// CHECK-NEXT: return %[[Y]]
func.func @broadcast_of_broadcast(%x: tensor<1x1xf32>) -> tensor<8x4xf32> {
  %a = tile.broadcast %x : tensor<1x1xf32> -> tensor<8x1xf32>
  %b = tile.broadcast %a : tensor<8x1xf32> -> tensor<8x4xf32>
  return %b : tensor<8x4xf32>
}

// CHECK-LABEL: @reshape_of_expand(
// CHECK-SAME: %[[X:.*]]: tensor<8xf32>
// CHECK-NEXT: %[[Y:.*]] = tile.reshape %[[X]] : tensor<8xf32> -> tensor<2x4xf32>
// CHECK-NEXT: return %[[Y]]
func.func @reshape_of_expand(%x: tensor<8xf32>) -> tensor<2x4xf32> {
  %a = tile.expand_dims %x 0 : tensor<8xf32> -> tensor<1x8xf32>
  %b = tile.reshape %a : tensor<1x8xf32> -> tensor<2x4xf32>
  return %b : tensor<2x4xf32>
}

// (2, 0, 1) twice is (1, 2, 0).
// CHECK-LABEL: @trans_of_trans(
// CHECK-SAME: %[[X:.*]]: tensor<2x4x8xf32>
// CHECK-NEXT: %[[Y:.*]] = tile.trans %[[X]] [1, 2, 0] : tensor<2x4x8xf32> -> tensor<4x8x2xf32>
// CHECK-NEXT: return %[[Y]]
func.func @trans_of_trans(%x: tensor<2x4x8xf32>) -> tensor<4x8x2xf32> {
  %a = tile.trans %x [2, 0, 1] : tensor<2x4x8xf32> -> tensor<8x2x4xf32>
  %b = tile.trans %a [2, 0, 1] : tensor<8x2x4xf32> -> tensor<4x8x2xf32>
  return %b : tensor<4x8x2xf32>
}

// CHECK-LABEL: @split_of_join(
// CHECK-SAME: %[[A:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>
// CHECK-NEXT: return %[[A]], %[[B]]
func.func @split_of_join(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %t = tile.join %a, %b : tensor<8xf32> -> tensor<8x2xf32>
  %c, %d = tile.split %t : tensor<8x2xf32> -> tensor<8xf32>
  return %c, %d : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: @join_of_split(
// CHECK-SAME: %[[T:.*]]: tensor<8x2xf32>
// CHECK-NEXT: return %[[T]]
func.func @join_of_split(%t: tensor<8x2xf32>) -> tensor<8x2xf32> {
  %a, %b = tile.split %t : tensor<8x2xf32> -> tensor<8xf32>
  %u = tile.join %a, %b : tensor<8xf32> -> tensor<8x2xf32>
  return %u : tensor<8x2xf32>
}

// CHECK-LABEL: @join_of_split_swapped(
// CHECK: tile.split
// CHECK: tile.join
func.func @join_of_split_swapped(%t: tensor<8x2xf32>) -> tensor<8x2xf32> {
  %a, %b = tile.split %t : tensor<8x2xf32> -> tensor<8xf32>
  %u = tile.join %b, %a : tensor<8xf32> -> tensor<8x2xf32>
  return %u : tensor<8x2xf32>
}

// CHECK-LABEL: @join_and_split_constant(
// CHECK-DAG: %[[J:.*]] = arith.constant dense<1> : tensor<8x2xi32>
// CHECK-DAG: %[[S:.*]] = arith.constant dense<2> : tensor<8xi32>
// CHECK: return %[[J]], %[[S]]
func.func @join_and_split_constant() -> (tensor<8x2xi32>, tensor<8xi32>) {
  %x = arith.constant dense<1> : tensor<8xi32>
  %j = tile.join %x, %x : tensor<8xi32> -> tensor<8x2xi32>
  %y = arith.constant dense<2> : tensor<8x2xi32>
  %a, %b = tile.split %y : tensor<8x2xi32> -> tensor<8xi32>
  return %j, %b : tensor<8x2xi32>, tensor<8xi32>
}
