// Reductions and scans of one element fold to that element; others stay.
// RUN: kiln-opt %s -canonicalize | FileCheck %s

// CHECK-LABEL: @reduce_one(
// CHECK-SAME: %[[X:.*]]: tensor<8x1xf32>, %[[Y:.*]]: tensor<1xi32>
// CHECK-NEXT: %[[R:.*]] = tile.reshape %[[X]] : tensor<8x1xf32> -> tensor<8xf32>
// CHECK-NEXT: %[[S:.*]] = tile.unsplat %[[Y]] : tensor<1xi32> -> i32
// CHECK-NEXT: return %[[R]], %[[S]]
func.func @reduce_one(%x: tensor<8x1xf32>, %y: tensor<1xi32>) -> (tensor<8xf32>, i32) {
  %r = tile.reduce(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<8x1xf32>) -> tensor<8xf32>
  %s = tile.reduce(%y) axis 0 {
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    tile.yield %c : i32
  } : (tensor<1xi32>) -> i32
  return %r, %s : tensor<8xf32>, i32
}

// CHECK-LABEL: @scan_one(
// CHECK-SAME: %[[X:.*]]: tensor<8x1xf32>
// CHECK-NEXT: return %[[X]]
func.func @scan_one(%x: tensor<8x1xf32>) -> tensor<8x1xf32> {
  %r = tile.scan(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<8x1xf32>) -> tensor<8x1xf32>
  return %r : tensor<8x1xf32>
}

// CHECK-LABEL: @reduce_many(
// CHECK: tile.reduce
// CHECK: tile.scan
func.func @reduce_many(%x: tensor<1x2xf32>) -> (tensor<1xf32>, tensor<1x2xf32>) {
  %r = tile.reduce(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1x2xf32>) -> tensor<1xf32>
  %s = tile.scan(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1x2xf32>) -> tensor<1x2xf32>
  return %r, %s : tensor<1xf32>, tensor<1x2xf32>
}
