// If no schedule applies, a remark says why, and the products stay in place.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule))' --verify-diagnostics -o /dev/null

module attributes {kgpu.num_warps = 8 : i32} {
  // expected-remark @below {{no schedule: the second product's left factor is not computed from the first product}}
  func.func @several(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
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
      %e = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %d = tile.dot %x, %y, %e : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // expected-remark @below {{no schedule: the product is not in a loop}}
  func.func @alone(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %x = tile.desc_load %da[%i, %end] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %y = tile.desc_load %db[%end, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
    %sum = tile.dot %x, %y, %zero : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // expected-remark @below {{schedule simple: the product is not added to an accumulator that the loop carries}}
  func.func @no_accumulator(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
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
      %e = tile.dot %x, %y, %zero : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %d = arith.addf %acc, %e : tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // The left operand is loaded before the loop.
  // expected-remark @below {{schedule simple: a factor is not a block that the loop loads through a descriptor for this product only}}
  func.func @invariant_factor(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %x = tile.desc_load %da[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // The operand is modified between load and product.
  // expected-remark @below {{schedule simple: a factor is not a block that the loop loads through a descriptor for this product only}}
  func.func @scaled_factor(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %u = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %x = arith.negf %u : tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // expected-remark @below {{no schedule: a factor's descriptor is not known, or does not pad with zeros}}
  func.func @padded_with_nan(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] {padding = #tile<padding nan>} : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // expected-remark @below {{schedule simple: the loop does more than load, multiply and count}}
  func.func @busy(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
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
      %seen = arith.negf %zero : tensor<128x128xf32>
      tile.desc_store %dc[%k, %i], %seen : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // expected-remark @below {{schedule simple: the loop carries other tiles}}
  func.func @two_tiles(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum:2 = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero, %t = %zero) -> (tensor<128x128xf32>, tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d, %t : tensor<128x128xf32>, tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum#0 : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    tile.desc_store %dc[%i, %end], %sum#1 : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // expected-remark @below {{no schedule: the loop is inside a branch}}
  func.func @in_a_branch(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32, %yes: i1) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.if %yes -> (tensor<128x128xf32>) {
      %s0 = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
        %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
        %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
        %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
        scf.yield %d : tensor<128x128xf32>
      }
      scf.yield %s0 : tensor<128x128xf32>
    } else {
      scf.yield %zero : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // expected-remark @below {{schedule simple: a loop around it carries tiles}}
  func.func @around(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %j = %c0 to %end step %step iter_args(%o = %zero) -> (tensor<128x128xf32>) : i32 {
      %s0 = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
        %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
        %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
        %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
        scf.yield %d : tensor<128x128xf32>
      }
      %p = arith.addf %o, %s0 : tensor<128x128xf32>
      scf.yield %p : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // expected-remark @below {{schedule simple: the position or number of the loads depends on tiles or on memory}}
  func.func @counted_by_memory(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32, %counts: !tile.ptr<i32> {tile.disjoint}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %count = tile.load %counts : !tile.ptr<i32> -> i32
    %sum = scf.for %k = %c0 to %count step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // expected-remark @below {{no schedule: programs may wait for each other}}
  func.func @meets(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32, %flag: !tile.ptr<i32> {tile.disjoint}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    scf.while : () -> () {
      %old = tile.atomic_rmw add acquire gpu %flag, %c0 : !tile.ptr<i32>, i32
      %again = arith.cmpi eq, %old, %c0 : i32
      scf.condition(%again)
    } do {
      scf.yield
    }
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // Nothing is known about inline assembly: it may contain a loop.
  // expected-remark @below {{no schedule: programs may wait for each other}}
  func.func @does_what_it_wants(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32, %flag: !tile.ptr<i32> {tile.disjoint}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    tile.inline_asm "membar.gl;" "" () : () -> ()
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // A volatile read in a loop without a count polls what another program writes.
  // expected-remark @below {{schedule simple: programs may wait for each other}}
  func.func @polls(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32, %flag: !tile.ptr<i32> {tile.disjoint}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    scf.while : () -> () {
      %seen = tile.load %flag {isVolatile} : !tile.ptr<i32> -> i32
      %again = arith.cmpi eq, %seen, %c0 : i32
      scf.condition(%again)
    } do {
      scf.yield
    }
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // expected-remark @below {{schedule simple: the kernel says itself where it waits for the launch before}}
  func.func @waits_itself(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    tile.wait_for_grid
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // Rows of two matrices are not rows of one.
  // expected-remark @below {{schedule simple: a factor is not a block that the loop loads through a descriptor for this product only}}
  func.func @two_matrices(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s, %s] strides [%s, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<2x64x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %u = tile.desc_load %da[%i, %i, %k] : !tile.desc<tensor<2x64x64xf16>> -> tensor<2x64x64xf16>
      %x = tile.reshape %u : tensor<2x64x64xf16> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // A separate product for each of several matrices.
  // expected-remark @below {{no schedule: no instruction multiplies these types from shared memory with the requested precision}}
  func.func @product_of_batches(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<1x128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s, %s] strides [%s, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s, %s] strides [%s, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s, %s] strides [%s, %s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<1x128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<1x128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %i, %k] : !tile.desc<tensor<1x128x64xf16>> -> tensor<1x128x64xf16>
      %y = tile.desc_load %db[%i, %k, %i] : !tile.desc<tensor<1x64x128xf16>> -> tensor<1x64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<1x128x64xf16>, tensor<1x64x128xf16> -> tensor<1x128x128xf32>
      scf.yield %d : tensor<1x128x128xf32>
    }
    tile.desc_store %dc[%i, %i, %i], %sum : !tile.desc<tensor<1x128x128xf32>>, tensor<1x128x128xf32>
    return
  }

  // In a loop that runs until a condition fails: the two roles do not know how often it runs.
  // expected-remark @below {{no schedule: the loop is inside a branch}}
  func.func @in_a_while(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %last = scf.while (%j = %i) : (i32) -> i32 {
      %more = arith.cmpi slt, %j, %end : i32
      scf.condition(%more) %j : i32
    } do {
    ^bb0(%j: i32):
      %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
        %x = tile.desc_load %da[%j, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
        %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
        %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
        scf.yield %d : tensor<128x128xf32>
      }
      tile.desc_store %dc[%j, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
      %next = arith.addi %j, %step : i32
      scf.yield %next : i32
    }
    return
  }

  // expected-remark @below {{no schedule: the kernel's stores may overlap the factors that it loads}}
  func.func @may_alias(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
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
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // Sums of 8-bit floats keep 14 bits.
  // expected-remark @below {{schedule simple: no instruction multiplies these types from shared memory with the requested precision}}
  func.func @narrow_factors(%a: !tile.ptr<f8E4M3FN> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f8E4M3FN> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E4M3FN> -> !tile.desc<tensor<128x64xf8E4M3FN>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E4M3FN> -> !tile.desc<tensor<64x128xf8E4M3FN>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf8E4M3FN>> -> tensor<128x64xf8E4M3FN>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf8E4M3FN>> -> tensor<64x128xf8E4M3FN>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf8E4M3FN>, tensor<64x128xf8E4M3FN> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // f32 products would run as tf32, which is less precise than requested.
  // expected-remark @below {{no schedule: no instruction multiplies these types from shared memory with the requested precision}}
  func.func @wide_factors(%a: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x32xf32>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<32x128xf32>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x32xf32>> -> tensor<128x32xf32>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x128xf32>> -> tensor<32x128xf32>
      %d = tile.dot %x, %y, %acc : tensor<128x32xf32>, tensor<32x128xf32> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // Parts of an operand are computed in registers.
  // expected-remark @below {{schedule simple: no instruction multiplies these types from shared memory with the requested precision}}
  func.func @parts_of_factors(%a: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x32xf32>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x32xf32>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x32xf32>> -> tensor<128x32xf32>
      %u = tile.desc_load %db[%i, %k] : !tile.desc<tensor<128x32xf32>> -> tensor<128x32xf32>
      %y = tile.trans %u [1, 0] : tensor<128x32xf32> -> tensor<32x128xf32>
      %d = tile.dot %x, %y, %acc {precision = #tile<precision tf32x3>} : tensor<128x32xf32>, tensor<32x128xf32> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // Instructions multiply 16 elements along K at a time.
  // expected-remark @below {{no schedule: no instruction multiplies these types from shared memory with the requested precision}}
  func.func @odd_depth(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 24 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<24x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<24x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
      %u = tile.desc_load %da[%k, %i] : !tile.desc<tensor<24x64xf16>> -> tensor<24x64xf16>
      %x = tile.trans %u [1, 0] : tensor<24x64xf16> -> tensor<64x24xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<24x128xf16>> -> tensor<24x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x24xf16>, tensor<24x128xf16> -> tensor<64x128xf32>
      scf.yield %d : tensor<64x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x128xf32>>, tensor<64x128xf32>
    return
  }

  // expected-remark @below {{schedule simple: a descriptor is not made of the kernel's arguments}}
  func.func @stepped_base(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %q = tile.addptr %a, %i : !tile.ptr<f16>, i32
    %da = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // expected-remark @below {{no schedule: the rows of a described array are not contiguous}}
  func.func @strided_rows(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %s] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // expected-remark @below {{schedule simple: base or strides of a described array are not known to be multiples of 16 bytes}}
  func.func @unaligned_rows(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 4 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
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
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // expected-remark @below {{schedule simple: the position of a block along its rows is not known to be a multiple of 16 bytes}}
  func.func @unaligned_position(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %j: i32 {tile.divisibility = 4 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %j] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // expected-remark @below {{no schedule: base or strides of a described array are not known to be multiples of 16 bytes}}
  func.func @unaligned_base(%a: !tile.ptr<f16> {tile.disjoint}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
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
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // 96 rows are one and a half times 64.
  // expected-remark @below {{schedule simple: the tile's rows do not divide into 64 per group of four warps, or their accumulators do not fit in registers}}
  func.func @odd_rows(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<96x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<96x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<96x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<96x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<96x64xf16>> -> tensor<96x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<96x64xf16>, tensor<64x128xf16> -> tensor<96x128xf32>
      scf.yield %d : tensor<96x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<96x128xf32>>, tensor<96x128xf32>
    return
  }

  // 256 rows of 256 columns take 256 registers in each of two groups, and do not divide by three.
  // expected-remark @below {{schedule simple: the tile's rows do not divide into 64 per group of four warps, or their accumulators do not fit in registers}}
  func.func @too_large(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<256x256xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<256x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x256xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<256x256xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<256x256xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<256x32xf16>> -> tensor<256x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x256xf16>> -> tensor<32x256xf16>
      %d = tile.dot %x, %y, %acc : tensor<256x32xf16>, tensor<32x256xf16> -> tensor<256x256xf32>
      scf.yield %d : tensor<256x256xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<256x256xf32>>, tensor<256x256xf32>
    return
  }

  // Rows of 48 bytes fit no swizzle.
  // expected-remark @below {{schedule simple: the copy engine cannot write the blocks in the layout that products read}}
  func.func @narrow_rows(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x24xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x24xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x24xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x24xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x24xf16>> -> tensor<64x24xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x24xf16> -> tensor<128x24xf32>
      scf.yield %d : tensor<128x24xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x24xf32>>, tensor<128x24xf32>
    return
  }

  // Slots of 256 KB.
  // expected-remark @below {{no schedule: two stages do not fit in shared memory}}
  func.func @deep(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 512 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x512xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<512x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x512xf16>> -> tensor<128x512xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<512x128xf16>> -> tensor<512x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x512xf16>, tensor<512x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // Two slots of 96 KB fit alone, but not together with the 64 KB of the result.
  // expected-remark @below {{schedule simple: two stages do not fit in shared memory}}
  func.func @deep_and_wide(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x256xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x256xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x256xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<128x256xf16>> -> tensor<128x256xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x128xf16>, tensor<128x256xf16> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    %out = arith.truncf %sum : tensor<128x256xf32> to tensor<128x256xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<128x256xf16>>, tensor<128x256xf16>
    return
  }
}


// -----

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "none"} {
  // expected-remark @below {{no schedule: the launch set schedule=none}}
  func.func @asked_none(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
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
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }
}


// -----

module attributes {kgpu.num_warps = 8 : i32, kgpu.stages = 1 : i32} {
  // expected-remark @below {{no schedule: the launch set stages=1, but a slot is read until the next product is in flight}}
  func.func @one_stage(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
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
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }
}


// -----

module attributes {kgpu.num_warps = 8 : i32, kgpu.consumers = 3 : i32} {
  // Two groups would work; three were requested.
  // expected-remark @below {{schedule simple: the tile's rows do not divide into 64 per group of four warps, or their accumulators do not fit in registers}}
  func.func @asked_three(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
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
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // Three groups have 160 registers per thread: 192 rows of 128 columns need 192 accumulators.
  // expected-remark @below {{schedule simple: the tile's rows do not divide into 64 per group of four warps, or their accumulators do not fit in registers}}
  func.func @three_full(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 16 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<576x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<576x16xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<16x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<576x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<576x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<576x16xf16>> -> tensor<576x16xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<16x128xf16>> -> tensor<16x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<576x16xf16>, tensor<16x128xf16> -> tensor<576x128xf32>
      scf.yield %d : tensor<576x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<576x128xf32>>, tensor<576x128xf32>
    return
  }

  // No instruction of 64 by 256 fits the 128 registers with which 16 warps start.
  // expected-remark @below {{schedule simple: the tile's rows do not divide into 64 per group of four warps, or their accumulators do not fit in registers}}
  func.func @three_wide(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<192x256xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<192x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x256xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<192x256xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<192x256xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<192x32xf16>> -> tensor<192x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x256xf16>> -> tensor<32x256xf16>
      %d = tile.dot %x, %y, %acc : tensor<192x32xf16>, tensor<32x256xf16> -> tensor<192x256xf32>
      scf.yield %d : tensor<192x256xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<192x256xf32>>, tensor<192x256xf32>
    return
  }
}

// -----

// A role of several CTAs has no barrier.
module attributes {kgpu.num_warps = 8 : i32, kgpu.cluster = 2 : i32} {
  // expected-remark @below {{no schedule: a role of a cluster has no barrier to order its accesses by}}
  func.func @counts_in_a_cluster(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32, %flag: !tile.ptr<i32> {tile.disjoint}) attributes {tile.kernel} {
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
    %old = tile.atomic_rmw add acq_rel gpu %flag, %step : !tile.ptr<i32>, i32
    tile.desc_store %dc[%i, %old], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }
}
