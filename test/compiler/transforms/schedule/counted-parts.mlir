// Programs may signal what they have done, as long as none of them waits: the one that counts the last part continues
// with it. That belongs to the multiplying role; the loading role has neither the atomic nor what depends on it.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse)' | FileCheck %s

module attributes {kgpu.num_warps = 8 : i32} {
// CHECK-LABEL: func.func @last_of_parts
// CHECK: kgpu.roles @load
// CHECK-NOT: tile.atomic_rmw
// CHECK-NOT: arith.select
// CHECK-NOT: scf.if
// CHECK: kgpu.end_role
// CHECK: } @multiply
// CHECK: kgpu.mma_wait %{{.*}} pending 0
// CHECK: tile.store
// CHECK: %[[BEFORE:.*]] = tile.atomic_rmw add acq_rel gpu
// CHECK: %[[LAST:.*]] = arith.cmpi eq, %[[BEFORE]], %{{.*}}
// CHECK: scf.if %[[LAST]]
// CHECK:   tile.load
// CHECK: %[[ROW:.*]] = arith.select %[[LAST]]
// CHECK: kgpu.copy_out %{{.*}} to %{{.*}}[%[[ROW]], %{{.*}}]
// CHECK: kgpu.end_role
  func.func @last_of_parts(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32, %flag: !tile.ptr<i32> {tile.disjoint}, %part: !tile.ptr<f32> {tile.disjoint}, %parts: i32, %rows: i32 {tile.divisibility = 256 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    %one_f32 = arith.constant 1.0 : f32
    tile.store %part, %one_f32 : !tile.ptr<f32>, f32
    %c1 = arith.constant 1 : i32
    %before = tile.atomic_rmw add acq_rel gpu %flag, %c1 : !tile.ptr<i32>, i32
    %last = arith.cmpi eq, %before, %parts : i32
    %all = scf.if %last -> (tensor<128x128xf32>) {
      %other = tile.load %part : !tile.ptr<f32> -> f32
      %others = tile.splat %other : f32 -> tensor<128x128xf32>
      %both = arith.addf %sum, %others : tensor<128x128xf32>
      scf.yield %both : tensor<128x128xf32>
    } else {
      scf.yield %sum : tensor<128x128xf32>
    }
    %to = arith.select %last, %i, %rows : i32
    tile.desc_store %dc[%to, %i], %all : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }
}
