// Independent reductions are merged; ops that need the first move after the second.
// RUN: kiln-opt %s --split-input-file --kiln-merge-reductions | FileCheck %s
// RUN: kiln-opt %s --split-input-file --kiln-merge-reductions --kiln-lower-exchanges | FileCheck %s --check-prefix=LOWERED

// Mean and mean of squares: one exchange, all stores before all loads.
// CHECK-LABEL: @merged
// CHECK: %[[SQUARES:.*]] = arith.mulf %arg0, %arg0
// CHECK: %[[R:.*]]:2 = tile.reduce(%arg0, %[[SQUARES]]) axis 0 {
// CHECK: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32, %[[C:.*]]: f32, %[[D:.*]]: f32):
// CHECK: %[[X:.*]] = arith.addf %[[A]], %[[C]]
// CHECK: %[[Y:.*]] = arith.maximumf %[[B]], %[[D]]
// CHECK: tile.yield %[[X]], %[[Y]]
// CHECK: %[[MEAN:.*]] = arith.mulf %[[R]]#0
// CHECK: return %[[MEAN]], %[[R]]#1
// LOWERED-LABEL: @merged
// LOWERED: kgpu.partial_reduce(%{{.*}}, %{{.*}}) axis 0 {
// LOWERED: kgpu.local_store
// LOWERED: kgpu.local_store
// LOWERED: kgpu.local_load
// LOWERED: kgpu.local_load
// LOWERED: tile.reduce(
#row = #layout.map<blocked [4096] vector 8 warps 4>
func.func @merged(%x: tensor<4096xf32, #row>, %k: f32) -> (f32, f32) {
  %s = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4096xf32, #row>) -> f32
  %mean = arith.mulf %s, %k : f32
  %y = arith.mulf %x, %x : tensor<4096xf32, #row>
  %t = tile.reduce(%y) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4096xf32, #row>) -> f32
  return %mean, %t : f32, f32
}

// -----

// The second needs the first.
// CHECK-LABEL: @one_after_the_other
// CHECK: tile.reduce(%arg0)
// CHECK: tile.splat
// CHECK: tile.reduce(
#row = #layout.map<blocked [4096] vector 8 warps 4>
func.func @one_after_the_other(%x: tensor<4096xf32, #row>) -> f32 {
  %s = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4096xf32, #row>) -> f32
  %m = tile.splat %s : f32 -> tensor<4096xf32, #row>
  %y = arith.subf %x, %m : tensor<4096xf32, #row>
  %t = tile.reduce(%y) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4096xf32, #row>) -> f32
  return %t : f32
}

// -----

// A store in between needs the first and cannot move.
// CHECK-LABEL: @with_an_effect_between
// CHECK: tile.reduce(%arg0)
// CHECK: tile.store
// CHECK: tile.reduce(
#row = #layout.map<blocked [4096] vector 8 warps 4>
func.func @with_an_effect_between(%x: tensor<4096xf32, #row>, %p: !tile.ptr<f32>) -> f32 {
  %s = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4096xf32, #row>) -> f32
  tile.store %p, %s : !tile.ptr<f32>, f32
  %y = arith.mulf %x, %x : tensor<4096xf32, #row>
  %t = tile.reduce(%y) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4096xf32, #row>) -> f32
  return %t : f32
}

// -----

// Inside a warp there is no exchange, and nothing to gain.
// CHECK-LABEL: @in_one_warp
// CHECK-COUNT-2: tile.reduce(%{{[a-z0-9]*}}) axis 0
#row = #layout.map<blocked [4096] vector 8 warps 1>
func.func @in_one_warp(%x: tensor<4096xf32, #row>) -> (f32, f32) {
  %s = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4096xf32, #row>) -> f32
  %y = arith.mulf %x, %x : tensor<4096xf32, #row>
  %t = tile.reduce(%y) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4096xf32, #row>) -> f32
  return %s, %t : f32, f32
}

// -----

// The third merges with the first, and the second, which needs the first, moves after both.
// CHECK-LABEL: @one_moves
// CHECK: %[[R:.*]]:2 = tile.reduce(%arg0, %arg1) axis 0 {
// CHECK: %[[M:.*]] = tile.splat %[[R]]#0
// CHECK: %[[Y:.*]] = arith.subf %arg0, %[[M]]
// CHECK: %[[S:.*]] = tile.reduce(%[[Y]]) axis 0 {
// CHECK: return %[[S]], %[[R]]#1
// LOWERED-LABEL: @one_moves
#row = #layout.map<blocked [4096] vector 8 warps 4>
func.func @one_moves(%x: tensor<4096xf32, #row>, %z: tensor<4096xf32, #row>) -> (f32, f32) {
  %s = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4096xf32, #row>) -> f32
  %m = tile.splat %s : f32 -> tensor<4096xf32, #row>
  %y = arith.subf %x, %m : tensor<4096xf32, #row>
  %t = tile.reduce(%y) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4096xf32, #row>) -> f32
  %u = tile.reduce(%z) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4096xf32, #row>) -> f32
  return %t, %u : f32, f32
}
