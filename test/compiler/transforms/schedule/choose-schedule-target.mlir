// Targets that multiply from registers also copy asynchronously: with as many slots as leave room for a second block,
// and no more than memory holds.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_80},func.func(kiln-choose-schedule))' | FileCheck %s --check-prefixes=CHECK,LARGE
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_86},func.func(kiln-choose-schedule))' | FileCheck %s --check-prefixes=CHECK,SMALL
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_89},func.func(kiln-choose-schedule))' | FileCheck %s --check-prefixes=CHECK,SMALL
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_100a},func.func(kiln-choose-schedule))' | FileCheck %s --check-prefixes=CHECK,SMALL
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_120a},func.func(kiln-choose-schedule))' | FileCheck %s --check-prefixes=CHECK,SMALL

module attributes {kgpu.num_warps = 4 : i32} {
  // CHECK-LABEL: func.func @wide
  // LARGE-SAME: kgpu.schedule = {name = "simple", stages = 4 : i32}
  // SMALL-SAME: kgpu.schedule = {name = "simple", stages = 3 : i32}
  func.func @wide(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    %out = arith.truncf %sum : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }

  // CHECK-LABEL: func.func @narrow
  // LARGE-SAME: kgpu.schedule = {name = "simple", stages = 4 : i32}
  // SMALL-SAME: kgpu.schedule = {name = "simple", stages = 4 : i32}
  func.func @narrow(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    %out = arith.truncf %sum : tensor<64x64xf32> to tensor<64x64xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<64x64xf16>>, tensor<64x64xf16>
    return
  }
}
