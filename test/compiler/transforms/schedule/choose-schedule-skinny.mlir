// A launch that asks for `skinny` puts columns on the instruction's side of 64 rows, even if rows would fill it;
// without 64 columns a remark says why it cannot. If not asked, rows stay where they are.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule))' --verify-diagnostics | FileCheck %s

module attributes {kgpu.num_warps = 4 : i32, kgpu.schedule = "skinny"} {
  // CHECK-LABEL: func.func @asked
  // CHECK-SAME: kgpu.schedule = {consumers = 1 : i32, name = "cooperative", {{.*}}swapped}
  func.func @asked(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
      scf.yield %d : tensor<64x128xf32>
    }
    %out = arith.truncf %sum : tensor<64x128xf32> to tensor<64x128xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<64x128xf16>>, tensor<64x128xf16>
    return
  }

  // CHECK-LABEL: func.func @does_not_fit
  // CHECK-SAME: kgpu.schedule = {name = "simple"
  // expected-remark @below {{schedule simple: the tile's rows do not divide into 64 per group of four warps, or their accumulators do not fit in registers}}
  func.func @does_not_fit(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x32xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x32xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x64xf16>, tensor<64x32xf16> -> tensor<64x32xf32>
      scf.yield %d : tensor<64x32xf32>
    }
    %out = arith.truncf %sum : tensor<64x32xf32> to tensor<64x32xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<64x32xf16>>, tensor<64x32xf16>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 4 : i32} {
  // CHECK-LABEL: func.func @not_asked
  // CHECK-NOT: swapped
  // CHECK: return
  func.func @not_asked(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
      scf.yield %d : tensor<64x128xf32>
    }
    %out = arith.truncf %sum : tensor<64x128xf32> to tensor<64x128xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<64x128xf16>>, tensor<64x128xf16>
    return
  }
}
