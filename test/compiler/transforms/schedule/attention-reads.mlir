// Two chained products that read, through pointers, what the kernel does not write: lengths, which the loading role
// reads too, and a row that is added to scores, which is read together with softmax.
// RUN: kiln-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s

module attributes {kgpu.num_warps = 8 : i32} {
// CHECK-LABEL: func.func @lengths
// CHECK: kgpu.roles @load
// CHECK:   %[[END:.*]] = tile.load
// CHECK-NOT: tensor<1x64xf32>
// CHECK:   scf.if
// CHECK:     scf.for %{{.*}} = %{{.*}} to %[[END]] step
// CHECK:   kgpu.end_role
// CHECK: } @multiply
// CHECK:   %[[END:.*]] = tile.load
// CHECK:   scf.if
// CHECK:     scf.for %{{.*}} = %{{.*}} to %[[END]] step
// CHECK:       kgpu.mma_wait %{{.*}} pending 1
// CHECK:       tile.load {{.*}} -> tensor<1x64xf32>
// CHECK:       kgpu.mma_wait %{{.*}} pending 0
// CHECK:   kgpu.end_role
  func.func @lengths(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %lengths: !tile.ptr<i32>, %row: !tile.ptr<f32>, %s0: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %i = tile.program_id x : i32
    %at_length = tile.addptr %lengths, %i : !tile.ptr<i32>, i32
    %end = tile.load %at_length : !tile.ptr<i32> -> i32
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %r = tile.make_range 0 to 64 : tensor<64xi32>
      %r2 = tile.expand_dims %r 0 : tensor<64xi32> -> tensor<1x64xi32>
      %first = tile.addptr %row, %at : !tile.ptr<f32>, i32
      %base = tile.splat %first : !tile.ptr<f32> -> tensor<1x64x!tile.ptr<f32>>
      %places = tile.addptr %base, %r2 : tensor<1x64x!tile.ptr<f32>>, tensor<1x64xi32>
      %bias = tile.load %places : tensor<1x64x!tile.ptr<f32>> -> tensor<1x64xf32>
      %b = tile.broadcast %bias : tensor<1x64xf32> -> tensor<128x64xf32>
      %sum = arith.addf %s, %b : tensor<128x64xf32>
      %p = arith.truncf %sum : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}

// -----

// What the kernel writes may have changed when the other role reads it.
module attributes {kgpu.num_warps = 8 : i32} {
// CHECK-LABEL: func.func @written
// CHECK-NOT: kgpu.roles
  // expected-remark @below {{no schedule: the position or number of the loads depends on tiles or on memory}}
  func.func @written(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %lengths: !tile.ptr<i32>, %s0: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %i = tile.program_id x : i32
    %end = tile.load %lengths : !tile.ptr<i32> -> i32
    tile.store %lengths, %i : !tile.ptr<i32>, i32
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %p = arith.truncf %s : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}

// -----

// A scalar that the kernel writes, and what is computed from it: the loading role has neither.
module attributes {kgpu.num_warps = 8 : i32} {
// CHECK-LABEL: func.func @counted
// CHECK: kgpu.roles @load
// CHECK-NOT: tile.load
// CHECK-NOT: arith.sitofp
// CHECK: } @multiply
// CHECK:   tile.load
// CHECK:   arith.sitofp
  func.func @counted(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %count: !tile.ptr<i32>, %s0: i64 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %i = tile.program_id x : i32
    %number = tile.load %count : !tile.ptr<i32> -> i32
    %scale = arith.sitofp %number : i32 to f32
    %begin = tile.splat %scale : f32 -> tensor<128x64xf32>
    tile.store %count, %i : !tile.ptr<i32>, i32
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %begin) -> (tensor<128x64xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %p = arith.truncf %s : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}
