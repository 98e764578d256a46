// A product with fewer rows than warp groups need multiplies from registers: its other operand takes no shared memory,
// and the ring has one more slot.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule))' | FileCheck %s

module attributes {kgpu.num_warps = 4 : i32, kgpu.stages = 4 : i32, kgpu.schedule = "simple"} {
  // CHECK-LABEL: func.func @few_rows
  // CHECK-SAME: kgpu.schedule = {name = "simple", stages = 3 : i32}
  func.func @few_rows(%b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 576 : i32
    %one = arith.constant 1 : i64
    %left = arith.constant dense<1.0> : tensor<16x576xf16>
    %zero = arith.constant dense<0.0> : tensor<16x64xf32>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<576x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<16x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<16x64xf32>) : i32 {
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<576x64xf16>> -> tensor<576x64xf16>
      %d = tile.dot %left, %y, %acc : tensor<16x576xf16>, tensor<576x64xf16> -> tensor<16x64xf32>
      scf.yield %d : tensor<16x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<16x64xf32>>, tensor<16x64xf32>
    return
  }
}
