// A product whose result a loop carries is waited for before the loop, and at the end of each of its iterations.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams"} {
// CHECK-LABEL: func.func @ahead
// CHECK:   } @multiply
// CHECK:     %[[FIRST:.*]] = kgpu.warpgroup_mma
// CHECK:     %[[BEFORE:.*]] = kgpu.mma_wait %[[FIRST]] pending 0
// CHECK:     scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[SCORE:.*]] = %[[BEFORE]]
// CHECK:       %[[FACTOR:.*]] = arith.truncf %[[SCORE]]
// CHECK:       kgpu.warpgroup_mma %[[FACTOR]]
// CHECK:       %[[NEXT:.*]] = kgpu.warpgroup_mma
// CHECK:       %[[DONE:.*]] = kgpu.mma_wait %[[NEXT]] pending 0
// CHECK:       scf.yield %{{.*}}, %[[DONE]]
  func.func @ahead(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %tokens: i32, %heads: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %block = tile.program_id x : i32
    %first = arith.muli %block, %c128 : i32
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dq = tile.make_desc %q, shape [%s, %s, %s] strides [%s, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x64x64xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %key = tile.desc_load %dk[%first, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %all = scf.for %head = %c0 to %heads step %c1 iter_args(%a = %zero) -> (tensor<128x64xf32>) : i32 {
      %p3 = tile.desc_load %dq[%head, %c0, %c0] : !tile.desc<tensor<1x64x64xf16>> -> tensor<1x64x64xf16>
      %p2 = tile.reshape %p3 : tensor<1x64x64xf16> -> tensor<64x64xf16>
      %turned_first = tile.trans %p2 [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %begin = tile.dot %key, %turned_first, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %most:2 = scf.for %at = %c64 to %tokens step %c64 iter_args(%sum = %a, %score = %begin) -> (tensor<128x64xf32>, tensor<128x64xf32>) : i32 {
        %q3 = tile.desc_load %dq[%head, %at, %c0] : !tile.desc<tensor<1x64x64xf16>> -> tensor<1x64x64xf16>
        %query = tile.reshape %q3 : tensor<1x64x64xf16> -> tensor<64x64xf16>
        %factor = arith.truncf %score : tensor<128x64xf32> to tensor<128x64xf16>
        %next = tile.dot %factor, %query, %sum : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
        %turned = tile.trans %query [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
        %coming = tile.dot %key, %turned, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
        scf.yield %next, %coming : tensor<128x64xf32>, tensor<128x64xf32>
      }
      scf.yield %most#0 : tensor<128x64xf32>
    }
    %wide = arith.truncf %all : tensor<128x64xf32> to tensor<128x64xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x64xf16>>, tensor<128x64xf16>
    return
  }
}
