// Several branches on one condition, which only the last steps take: earlier steps contain none of them, the last ones
// all. Or which only the first step takes. An assumption about a step is kept wherever the step is computed.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s

module attributes {kgpu.num_warps = 8 : i32} {
// CHECK-LABEL: func.func @branches
// CHECK: } @multiply
// The first step may be of either kind.
// CHECK:   kgpu.mma_wait %{{.*}} pending 0
// CHECK:   scf.if
// CHECK:   scf.for
// CHECK:     kgpu.mma_wait %{{.*}} pending 1
// CHECK:     tile.assume
// CHECK-NOT: arith.mulf
// CHECK-NOT: math.absf
// CHECK-NOT: scf.if
// CHECK:     scf.yield
// CHECK:   scf.for
// CHECK:     kgpu.mma_wait %{{.*}} pending 1
// CHECK:     tile.assume
// CHECK-NOT: scf.if
// CHECK:     arith.mulf
// CHECK:     math.absf
// CHECK-NOT: scf.if
// CHECK:     scf.yield
  func.func @branches(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %far = arith.constant 4096 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %near = arith.cmpi sle, %at, %far : i32
      tile.assume %near
      %after = arith.addi %at, %step : i32
      %late = arith.cmpi sgt, %after, %i : i32
      %a = scf.if %late -> (tensor<128x64xf32>) {
        %squared = arith.mulf %s, %s : tensor<128x64xf32>
        scf.yield %squared : tensor<128x64xf32>
      } else {
        scf.yield %s : tensor<128x64xf32>
      }
      %e = math.exp2 %a : tensor<128x64xf32>
      %b = scf.if %late -> (tensor<128x64xf32>) {
        %positive = math.absf %e : tensor<128x64xf32>
        scf.yield %positive : tensor<128x64xf32>
      } else {
        scf.yield %e : tensor<128x64xf32>
      }
      %p = arith.truncf %b : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32} {
// Where sums are wide, all steps but the first are one loop, with the branches.
// CHECK-LABEL: func.func @wide
// CHECK: } @multiply
// CHECK:   kgpu.mma_wait %{{.*}} pending 0
// CHECK:   scf.for
// CHECK:     kgpu.mma_wait %{{.*}} pending 1
// CHECK:     %[[LATE:.*]] = arith.cmpi sgt
// CHECK:     scf.if %[[LATE]]
// CHECK-NEXT:  arith.mulf
// CHECK:     scf.if %[[LATE]]
// CHECK-NEXT:  math.absf
// CHECK:     kgpu.mma_wait %{{.*}} pending 0
// CHECK-NOT: scf.for
// CHECK:   kgpu.end_role
  func.func @wide(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %far = arith.constant 4096 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x256xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x256xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x256xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %near = arith.cmpi sle, %at, %far : i32
      tile.assume %near
      %after = arith.addi %at, %step : i32
      %late = arith.cmpi sgt, %after, %i : i32
      %a = scf.if %late -> (tensor<128x64xf32>) {
        %squared = arith.mulf %s, %s : tensor<128x64xf32>
        scf.yield %squared : tensor<128x64xf32>
      } else {
        scf.yield %s : tensor<128x64xf32>
      }
      %e = math.exp2 %a : tensor<128x64xf32>
      %b = scf.if %late -> (tensor<128x64xf32>) {
        %positive = math.absf %e : tensor<128x64xf32>
        scf.yield %positive : tensor<128x64xf32>
      } else {
        scf.yield %e : tensor<128x64xf32>
      }
      %p = arith.truncf %b : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x256xf16>> -> tensor<64x256xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x256xf32>>, tensor<128x256xf32>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32} {
// CHECK-LABEL: func.func @first
// CHECK: } @multiply
// CHECK-NOT: scf.for %{{.*}} -> (tensor
// CHECK:   scf.for %[[PROGRAM:[^ ]*]] =
// The step's number is not one that programs share.
// CHECK:   %[[AT:.*]] = tile.inline_asm "mov.b32 $0, $1;" "=r,r,r" (%{{.*}}, %[[PROGRAM]])
// CHECK:   kgpu.mma_wait %{{.*}} pending 0
// CHECK-NOT: scf.if
// CHECK-NOT: math.sin
// CHECK:   arith.sitofp %[[AT]]
// CHECK:   arith.addf
// CHECK:   math.exp2
// CHECK:   math.absf
// All other steps are one loop, without the branches.
// CHECK:   scf.for
// CHECK:     kgpu.mma_wait %{{.*}} pending 1
// CHECK-NOT: scf.if
// CHECK:     math.sin
// CHECK:     math.exp2
// CHECK-NOT: math.absf
// CHECK:     kgpu.mma_wait %{{.*}} pending 0
// CHECK-NOT: scf.for
// CHECK:   kgpu.end_role
  func.func @first(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %first: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %begins = arith.cmpi eq, %at, %c0 : i32
      %a = scf.if %begins -> (tensor<128x64xf32>) {
        %f = arith.sitofp %at : i32 to f32
        %row = tile.splat %f : f32 -> tensor<128x64xf32>
        %moved = arith.addf %s, %row : tensor<128x64xf32>
        scf.yield %moved : tensor<128x64xf32>
      } else {
        %turned = math.sin %s : tensor<128x64xf32>
        scf.yield %turned : tensor<128x64xf32>
      }
      %e = math.exp2 %a : tensor<128x64xf32>
      %b = scf.if %begins -> (tensor<128x64xf32>) {
        %positive = math.absf %e : tensor<128x64xf32>
        scf.yield %positive : tensor<128x64xf32>
      } else {
        scf.yield %e : tensor<128x64xf32>
      }
      %p = arith.truncf %b : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32} {
// The first step need not be the first of all, and sums may be wide.
// CHECK-LABEL: func.func @from_somewhere
// CHECK: } @multiply
// CHECK-NOT: scf.for %{{.*}} -> (tensor
// CHECK:   scf.for %[[PROGRAM:[^ ]*]] =
// The step's number is not one that programs share.
// CHECK:   %[[AT:.*]] = tile.inline_asm "mov.b32 $0, $1;" "=r,r,r" (%{{.*}}, %[[PROGRAM]])
// CHECK:   kgpu.mma_wait %{{.*}} pending 0
// CHECK-NOT: scf.if
// CHECK-NOT: math.sin
// CHECK:   arith.sitofp %[[AT]]
// CHECK:   arith.addf
// CHECK:   math.exp2
// CHECK:   math.absf
// All other steps are one loop, without the branches.
// CHECK:   scf.for
// CHECK:     kgpu.mma_wait %{{.*}} pending 1
// CHECK-NOT: scf.if
// CHECK:     math.sin
// CHECK:     math.exp2
// CHECK-NOT: math.absf
// CHECK:     kgpu.mma_wait %{{.*}} pending 0
// CHECK-NOT: scf.for
// CHECK:   kgpu.end_role
  func.func @from_somewhere(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %first: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x256xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x256xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x256xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %first to %end step %step iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %begins = arith.cmpi eq, %at, %first : i32
      %a = scf.if %begins -> (tensor<128x64xf32>) {
        %f = arith.sitofp %at : i32 to f32
        %row = tile.splat %f : f32 -> tensor<128x64xf32>
        %moved = arith.addf %s, %row : tensor<128x64xf32>
        scf.yield %moved : tensor<128x64xf32>
      } else {
        %turned = math.sin %s : tensor<128x64xf32>
        scf.yield %turned : tensor<128x64xf32>
      }
      %e = math.exp2 %a : tensor<128x64xf32>
      %b = scf.if %begins -> (tensor<128x64xf32>) {
        %positive = math.absf %e : tensor<128x64xf32>
        scf.yield %positive : tensor<128x64xf32>
      } else {
        scf.yield %e : tensor<128x64xf32>
      }
      %p = arith.truncf %b : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x256xf16>> -> tensor<64x256xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x256xf32>>, tensor<128x256xf32>
    return
  }
}
