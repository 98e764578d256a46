// Rows that wait for an exchange are kept in 16 bits if a few cheap ops compute their float32 form.
// RUN: kiln-opt %s --split-input-file --kiln-recompute-after-exchange | FileCheck %s

// The converted row is summed before the exchange and scaled after it.
// CHECK-LABEL: @converted
// CHECK-SAME: %[[X:.*]]: tensor<8192xf16
// CHECK: %[[BEFORE:.*]] = arith.extf %[[X]]
// CHECK: kgpu.partial_reduce(%[[BEFORE]])
// CHECK-NOT: kgpu.keep
// CHECK: kgpu.local_load
// CHECK: %[[KEPT:.*]] = kgpu.keep %[[X]]
// CHECK-NEXT: %[[AGAIN:.*]] = arith.extf %[[KEPT]]
// CHECK-NEXT: arith.mulf %[[AGAIN]],
// CHECK-NOT: kgpu.keep
#row = #layout.map<blocked [8192] vector 8 warps 4>
#parts = #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>
#all = #layout.map<blocked [4] vector 4 warps 4>
func.func @converted(%x: tensor<8192xf16, #row>) -> tensor<8192xf32, #row> {
  %v = arith.extf %x : tensor<8192xf16, #row> to tensor<8192xf32, #row>
  %p = kgpu.partial_reduce(%v) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    kgpu.yield %c : f32
  } : (tensor<8192xf32, #row>) -> (tensor<4xf32, #parts>)
  %m = kgpu.alloc : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
  kgpu.local_store %p, %m : tensor<4xf32, #parts>, !kgpu.mem<4xf32, #layout.map<row_major [4]>>
  %q = kgpu.local_load %m : !kgpu.mem<4xf32, #layout.map<row_major [4]>> -> tensor<4xf32, #all>
  %s = tile.reduce(%q) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4xf32, #all>) -> f32
  %t = tile.splat %s : f32 -> tensor<8192xf32, #row>
  %y = arith.mulf %v, %t : tensor<8192xf32, #row>
  return %y : tensor<8192xf32, #row>
}

// -----

// Two exchanges in a row: what is kept across the second is what was kept across the first. A power is recomputed, once
// per element, as are the ops before it.
// CHECK-LABEL: @twice(
// CHECK-SAME: %[[X:.*]]: tensor<8192xf16
// CHECK: kgpu.local_load
// CHECK: %[[FIRST:.*]] = kgpu.keep %[[X]]
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[FIRST]]
// CHECK-NEXT: %[[LOW:.*]] = arith.subf %[[WIDE]], %[[TOP:.*]]
// CHECK-NEXT: %[[POWER:.*]] = math.exp2 %[[LOW]]
// CHECK-NEXT: kgpu.partial_reduce(%[[POWER]])
// CHECK: kgpu.local_load
// CHECK: %[[SECOND:.*]] = kgpu.keep %[[FIRST]]
// CHECK-NEXT: %[[WIDE2:.*]] = arith.extf %[[SECOND]]
// CHECK-NEXT: %[[LOW2:.*]] = arith.subf %[[WIDE2]], %[[TOP]]
// CHECK-NEXT: %[[POWER2:.*]] = math.exp2 %[[LOW2]]
// CHECK-NEXT: arith.mulf %[[POWER2]],
// With 32 registers nothing is recomputed.
// CHECK-LABEL: @twice_narrow
// CHECK-NOT: kgpu.keep
// CHECK: return
#row = #layout.map<blocked [8192] vector 8 warps 4>
#half = #layout.map<blocked [4096] vector 8 warps 4>
#parts = #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>
#all = #layout.map<blocked [4] vector 4 warps 4>
#line = #layout.map<row_major [4]>
func.func @twice(%x: tensor<8192xf16, #row>) -> tensor<8192xf32, #row> {
  %v = arith.extf %x : tensor<8192xf16, #row> to tensor<8192xf32, #row>
  %p = kgpu.partial_reduce(%v) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maxnumf %a, %b : f32
    kgpu.yield %c : f32
  } : (tensor<8192xf32, #row>) -> (tensor<4xf32, #parts>)
  %m = kgpu.alloc : !kgpu.mem<4xf32, #line>
  kgpu.local_store %p, %m : tensor<4xf32, #parts>, !kgpu.mem<4xf32, #line>
  %q = kgpu.local_load %m : !kgpu.mem<4xf32, #line> -> tensor<4xf32, #all>
  %s = tile.reduce(%q) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maxnumf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4xf32, #all>) -> f32
  %t = tile.splat %s : f32 -> tensor<8192xf32, #row>
  %low = arith.subf %v, %t : tensor<8192xf32, #row>
  %e = math.exp2 %low : tensor<8192xf32, #row>
  %p2 = kgpu.partial_reduce(%e) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    kgpu.yield %c : f32
  } : (tensor<8192xf32, #row>) -> (tensor<4xf32, #parts>)
  %m2 = kgpu.alloc : !kgpu.mem<4xf32, #line>
  kgpu.local_store %p2, %m2 : tensor<4xf32, #parts>, !kgpu.mem<4xf32, #line>
  %q2 = kgpu.local_load %m2 : !kgpu.mem<4xf32, #line> -> tensor<4xf32, #all>
  %s2 = tile.reduce(%q2) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4xf32, #all>) -> f32
  %t2 = tile.splat %s2 : f32 -> tensor<8192xf32, #row>
  %y = arith.mulf %e, %t2 : tensor<8192xf32, #row>
  return %y : tensor<8192xf32, #row>
}
func.func @twice_narrow(%x: tensor<4096xf16, #half>, %m: !kgpu.mem<4096xf32, #layout.map<row_major [4096]>>)
    -> tensor<4096xf32, #half> {
  %v = arith.extf %x : tensor<4096xf16, #half> to tensor<4096xf32, #half>
  kgpu.local_store %v, %m : tensor<4096xf32, #half>, !kgpu.mem<4096xf32, #layout.map<row_major [4096]>>
  %q = kgpu.local_load %m : !kgpu.mem<4096xf32, #layout.map<row_major [4096]>> -> tensor<4096xf32, #half>
  %e = math.exp2 %v : tensor<4096xf32, #half>
  kgpu.local_store %e, %m : tensor<4096xf32, #half>, !kgpu.mem<4096xf32, #layout.map<row_major [4096]>>
  %q2 = kgpu.local_load %m : !kgpu.mem<4096xf32, #layout.map<row_major [4096]>> -> tensor<4096xf32, #half>
  %z = arith.addf %q, %q2 : tensor<4096xf32, #half>
  %y = arith.mulf %e, %z : tensor<4096xf32, #half>
  return %y : tensor<4096xf32, #half>
}

// -----

// Nothing to gain: few registers; no narrow tile to compute it from; two narrow tiles that are as wide together; used
// only after the exchange, or only before it.
// CHECK-LABEL: @small(
// CHECK-NOT: kgpu.keep
#small = #layout.map<blocked [2048] vector 8 warps 4>
#row = #layout.map<blocked [8192] vector 8 warps 4>
#line = #layout.map<row_major [8192]>
func.func @small(%x: tensor<2048xf16, #small>, %m: !kgpu.mem<2048xf32, #layout.map<row_major [2048]>>)
    -> tensor<2048xf32, #small> {
  %v = arith.extf %x : tensor<2048xf16, #small> to tensor<2048xf32, #small>
  kgpu.local_store %v, %m : tensor<2048xf32, #small>, !kgpu.mem<2048xf32, #layout.map<row_major [2048]>>
  %q = kgpu.local_load %m : !kgpu.mem<2048xf32, #layout.map<row_major [2048]>> -> tensor<2048xf32, #small>
  %y = arith.mulf %v, %q : tensor<2048xf32, #small>
  return %y : tensor<2048xf32, #small>
}
// CHECK-LABEL: @wide(
// CHECK-NOT: kgpu.keep
func.func @wide(%x: tensor<8192xf32, #row>, %m: !kgpu.mem<8192xf32, #line>) -> tensor<8192xf32, #row> {
  %v = arith.addf %x, %x : tensor<8192xf32, #row>
  kgpu.local_store %v, %m : tensor<8192xf32, #row>, !kgpu.mem<8192xf32, #line>
  %q = kgpu.local_load %m : !kgpu.mem<8192xf32, #line> -> tensor<8192xf32, #row>
  %y = arith.mulf %v, %q : tensor<8192xf32, #row>
  return %y : tensor<8192xf32, #row>
}
// CHECK-LABEL: @sum_of_two(
// CHECK-NOT: kgpu.keep
func.func @sum_of_two(%x: tensor<8192xf16, #row>, %r: tensor<8192xf16, #row>, %m: !kgpu.mem<8192xf32, #line>)
    -> tensor<8192xf32, #row> {
  %a = arith.extf %x : tensor<8192xf16, #row> to tensor<8192xf32, #row>
  %b = arith.extf %r : tensor<8192xf16, #row> to tensor<8192xf32, #row>
  %v = arith.addf %a, %b : tensor<8192xf32, #row>
  kgpu.local_store %v, %m : tensor<8192xf32, #row>, !kgpu.mem<8192xf32, #line>
  %q = kgpu.local_load %m : !kgpu.mem<8192xf32, #line> -> tensor<8192xf32, #row>
  %y = arith.mulf %v, %q : tensor<8192xf32, #row>
  return %y : tensor<8192xf32, #row>
}
// CHECK-LABEL: @one_side(
// CHECK-NOT: kgpu.keep
func.func @one_side(%x: tensor<8192xf16, #row>, %r: tensor<8192xf16, #row>, %m: !kgpu.mem<8192xf32, #line>)
    -> tensor<8192xf32, #row> {
  %a = arith.extf %x : tensor<8192xf16, #row> to tensor<8192xf32, #row>
  %b = arith.extf %r : tensor<8192xf16, #row> to tensor<8192xf32, #row>
  kgpu.local_store %a, %m : tensor<8192xf32, #row>, !kgpu.mem<8192xf32, #line>
  %q = kgpu.local_load %m : !kgpu.mem<8192xf32, #line> -> tensor<8192xf32, #row>
  %y = arith.mulf %b, %q : tensor<8192xf32, #row>
  return %y : tensor<8192xf32, #row>
}
// The operands of the sum are needed after the exchange anyway: keeping them costs nothing.
// CHECK-LABEL: @sum_of_two_used(
// CHECK: kgpu.local_load
// CHECK-COUNT-2: kgpu.keep
func.func @sum_of_two_used(%x: tensor<8192xf16, #row>, %r: tensor<8192xf16, #row>, %m: !kgpu.mem<8192xf32, #line>)
    -> (tensor<8192xf32, #row>, tensor<8192xf16, #row>) {
  %a = arith.extf %x : tensor<8192xf16, #row> to tensor<8192xf32, #row>
  %b = arith.extf %r : tensor<8192xf16, #row> to tensor<8192xf32, #row>
  %v = arith.addf %a, %b : tensor<8192xf32, #row>
  kgpu.local_store %v, %m : tensor<8192xf32, #row>, !kgpu.mem<8192xf32, #line>
  %q = kgpu.local_load %m : !kgpu.mem<8192xf32, #line> -> tensor<8192xf32, #row>
  %y = arith.mulf %v, %q : tensor<8192xf32, #row>
  return %y, %r : tensor<8192xf32, #row>, tensor<8192xf16, #row>
}
