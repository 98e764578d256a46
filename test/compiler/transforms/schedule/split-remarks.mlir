// If CTAs cannot share K, a remark says why, and the next simpler schedule is tried; a cluster has none.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule))' --verify-diagnostics

module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 2 : i32, kgpu.schedule = "split"} {
  // expected-remark @below {{no schedule: ctas that split K start from zero, but the product is added to something else; and not simple}}
  func.func @begins_elsewhere(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %from = arith.constant dense<1.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %from) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x128xf16>, tensor<128x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

  // Two CTAs would have 48 columns each.
  // expected-remark @below {{no schedule: the instruction's rows, or a cta's share of its columns, are not 8 times a power of two; and not simple}}
  func.func @odd_columns(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x96xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<96x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x96xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x96xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %w = tile.desc_load %db[%i, %k] : !tile.desc<tensor<96x128xf16>> -> tensor<96x128xf16>
      %y = tile.trans %w [1, 0] : tensor<96x128xf16> -> tensor<128x96xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x128xf16>, tensor<128x96xf16> -> tensor<64x96xf32>
      scf.yield %d : tensor<64x96xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x96xf32>>, tensor<64x96xf32>
    return
  }

  // CTAs do not send each other 16-bit sums.
  // expected-remark @below {{no schedule: ctas that split K exchange only 32-bit sums; and not simple}}
  func.func @narrow_sums(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf16>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf16>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x128xf16>, tensor<128x64xf16> -> tensor<64x64xf16>
      scf.yield %d : tensor<64x64xf16>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf16>>, tensor<64x64xf16>
    return
  }

  // A program would accumulate several sums, one per outer iteration.
  // expected-remark @below {{no schedule: ctas add their sums once per program, but the product's loop is inside another loop; and not simple}}
  func.func @in_a_loop(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    scf.for %j = %c0 to %i step %step : i32 {
      %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
        %x = tile.desc_load %da[%j, %k] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
        %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
        %d = tile.dot %x, %y, %acc : tensor<64x128xf16>, tensor<128x64xf16> -> tensor<64x64xf32>
        scf.yield %d : tensor<64x64xf32>
      }
      tile.desc_store %dc[%j, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    }
    return
  }
}
