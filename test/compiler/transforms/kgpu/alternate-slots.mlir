// Slots that the iterations of a loop use in turn.
// RUN: kiln-opt %s --split-input-file --kiln-lower-exchanges --kiln-alternate-slots | FileCheck %s

// A loop with one exchange: two slots, used in turn.
// CHECK-LABEL: @loop
// CHECK: %[[R:.*]]:2 = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[PHASE:.*]] = %c0_i32{{.*}}) -> (f32, i32)
// CHECK: %[[M:.*]] = kgpu.alloc {slots = 2 : i32}
// CHECK: %[[S:.*]] = kgpu.slot %[[M]][%[[PHASE]]]
// CHECK: kgpu.local_store %{{.*}}, %[[S]]
// CHECK: kgpu.local_load %[[S]]
// CHECK: %[[NEXT:.*]] = arith.xori %[[PHASE]], %c1_i32{{.*}}
// CHECK: scf.yield %{{.*}}, %[[NEXT]]
#row = #layout.map<blocked [4096] vector 8 warps 4>
func.func @loop(%x: tensor<4096xf32, #row>, %n: i32) -> f32 {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %start = arith.constant 0.0 : f32
  %r = scf.for %i = %zero to %n step %one iter_args(%sum = %start) -> f32 : i32 {
    %m = tile.splat %sum : f32 -> tensor<4096xf32, #row>
    %y = arith.addf %x, %m : tensor<4096xf32, #row>
    %s = tile.reduce(%y) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<4096xf32, #row>) -> f32
    scf.yield %s : f32
  }
  return %r : f32
}

// -----

// Two exchanges: each one's barrier comes between the accesses of the other.
// CHECK-LABEL: @two_exchanges
// CHECK: scf.for {{.*}} -> (f32) : i32
// CHECK-NOT: slots = 2
#row = #layout.map<blocked [4096] vector 8 warps 4>
func.func @two_exchanges(%x: tensor<4096xf32, #row>, %n: i32) -> f32 {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %start = arith.constant 0.0 : f32
  %r = scf.for %i = %zero to %n step %one iter_args(%sum = %start) -> f32 : i32 {
    %m = tile.splat %sum : f32 -> tensor<4096xf32, #row>
    %y = arith.addf %x, %m : tensor<4096xf32, #row>
    %s = tile.reduce(%y) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<4096xf32, #row>) -> f32
    %k = tile.splat %s : f32 -> tensor<4096xf32, #row>
    %z = arith.mulf %x, %k : tensor<4096xf32, #row>
    %t = tile.reduce(%z) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<4096xf32, #row>) -> f32
    scf.yield %t : f32
  }
  return %r : f32
}
