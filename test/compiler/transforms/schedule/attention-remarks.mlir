// If attention's schedule does not apply, a remark says why, and the products stay in place.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule))' --verify-diagnostics -o /dev/null

module attributes {kgpu.num_warps = 8 : i32} {
  // expected-remark @below {{no schedule: the products are not in a loop directly in the kernel}}
  func.func @in_a_loop(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    scf.for %j = %c0 to %end step %c1 : i32 {
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
    }
    return
  }

  // expected-remark @below {{no schedule: the second product's left factor is not computed from the first product}}
  func.func @of_another(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
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
      %p = arith.truncf %none : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }

  // expected-remark @below {{no schedule: the second product is not added to an accumulator that the loop carries}}
  func.func @not_added(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
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
      %p = arith.truncf %s : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %more = arith.addf %d, %d : tensor<128x64xf32>
      scf.yield %more : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }

  // expected-remark @below {{no schedule: a factor is not a block that is loaded through a descriptor for this product only, keys and values in the loop, queries in front of it}}
  func.func @keys_outside(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %k = tile.desc_load %dk[%c0, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
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

  // expected-remark @below {{no schedule: a factor's descriptor is not known, or does not pad with zeros}}
  func.func @padded(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] {padding = #tile<padding nan>} : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
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

  // expected-remark @below {{no schedule: the loop carries scalars}}
  func.func @scalars(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o:2 = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero, %n = %c0) -> (tensor<128x64xf32>, i32) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %p = arith.truncf %s : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %next = arith.addi %n, %c1 : i32
      scf.yield %d, %next : tensor<128x64xf32>, i32
    }
    tile.desc_store %dy[%i, %c0], %o#0 : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }

  // expected-remark @below {{no schedule: the second product's accumulator has other uses}}
  func.func @other_uses(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o:2 = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero, %last = %zero) -> (tensor<128x64xf32>, tensor<128x64xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %p = arith.truncf %s : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %twice = arith.addf %acc, %acc : tensor<128x64xf32>
      %d = tile.dot %p, %v, %twice : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d, %twice : tensor<128x64xf32>, tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o#0 : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }

  // expected-remark @below {{no schedule: the loop does more than load, multiply and compute}}
  func.func @stores(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32, %f: f32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
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
      tile.store %y, %f : !tile.ptr<f32>, f32
      %p = arith.truncf %s : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }

  // expected-remark @below {{no schedule: the loop contains a loop, or a branch that is not taken only by its first iteration or its last ones}}
  func.func @branches(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
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
      %even = arith.cmpi eq, %at, %i : i32
      %b = scf.if %even -> (tensor<128x64xf32>) {
        scf.yield %none : tensor<128x64xf32>
      } else {
        scf.yield %s : tensor<128x64xf32>
      }
      %p = arith.truncf %b : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }

  // expected-remark @below {{no schedule: the position or number of the loads depends on tiles or on memory}}
  func.func @loaded_end(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32, %n: !tile.ptr<i32> {tile.disjoint}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %length = tile.load %n : !tile.ptr<i32> -> i32
    tile.store %n, %i : !tile.ptr<i32>, i32
    %o = scf.for %at = %c0 to %length step %step iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
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

  // expected-remark @below {{no schedule: chained products need 16-bit elements and f32 sums}}
  func.func @wide(%q: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf32>> -> tensor<128x64xf32>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf32>> -> tensor<64x64xf32>
      %t = tile.trans %k [1, 0] : tensor<64x64xf32> -> tensor<64x64xf32>
      %s = tile.dot %x, %t, %none : tensor<128x64xf32>, tensor<64x64xf32> -> tensor<128x64xf32>
      %p = arith.negf %s : tensor<128x64xf32>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf32>> -> tensor<64x64xf32>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf32>, tensor<64x64xf32> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }

  // expected-remark @below {{no schedule: base or strides of a described array are not known to be multiples of 16 bytes}}
  func.func @strides(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 , %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
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
      %p = arith.truncf %s : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }

  // expected-remark @below {{no schedule: the queries do not divide into 64 rows per group of four warps, or scores and sums do not fit in registers}}
  func.func @few_rows(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<32x64xf32>
    %zero = arith.constant dense<0.0> : tensor<32x64xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<32x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<32x64xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<32x64xf16>, tensor<64x64xf16> -> tensor<32x64xf32>
      %p = arith.truncf %s : tensor<32x64xf32> to tensor<32x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %acc : tensor<32x64xf16>, tensor<64x64xf16> -> tensor<32x64xf32>
      scf.yield %d : tensor<32x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<32x64xf32>>, tensor<32x64xf32>
    return
  }

  // expected-remark @below {{no schedule: the queries do not divide into 64 rows per group of four warps, or scores and sums do not fit in registers}}
  func.func @too_many(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %step = arith.constant 256 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x256xf32>
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<256x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<256x128xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<256x64xf16>> -> tensor<256x64xf16>
      %t = tile.trans %k [1, 0] : tensor<256x64xf16> -> tensor<64x256xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
      %p = arith.truncf %s : tensor<128x256xf32> to tensor<128x256xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<256x128xf16>> -> tensor<256x128xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x256xf16>, tensor<256x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }

  // expected-remark @below {{no schedule: the copy engine cannot write the blocks in the layout that products read}}
  func.func @narrow(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x8xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x8xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x8xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x8xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %t = tile.trans %k [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %x, %t, %none : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %p = arith.truncf %s : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x8xf16>> -> tensor<64x8xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf16>, tensor<64x8xf16> -> tensor<128x8xf32>
      scf.yield %d : tensor<128x8xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x8xf32>>, tensor<128x8xf32>
    return
  }

  // expected-remark @below {{no schedule: one stage does not fit in shared memory}}
  func.func @large(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %step = arith.constant 256 : i32
    %one = arith.constant 1 : i64
    %none = arith.constant dense<0.0> : tensor<64x256xf32>
    %zero = arith.constant dense<0.0> : tensor<64x16xf32>
    %dq = tile.make_desc %q, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x512xf16>>
    %dk = tile.make_desc %kp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<256x512xf16>>
    %dv = tile.make_desc %vp, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f16> -> !tile.desc<tensor<256x16xf16>>
    %dy = tile.make_desc %y, shape [%s0, %s0] strides [%s0, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x16xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<64x512xf16>> -> tensor<64x512xf16>
    %o = scf.for %at = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x16xf32>) : i32 {
      %k = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<256x512xf16>> -> tensor<256x512xf16>
      %t = tile.trans %k [1, 0] : tensor<256x512xf16> -> tensor<512x256xf16>
      %s = tile.dot %x, %t, %none : tensor<64x512xf16>, tensor<512x256xf16> -> tensor<64x256xf32>
      %p = arith.truncf %s : tensor<64x256xf32> to tensor<64x256xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<256x16xf16>> -> tensor<256x16xf16>
      %d = tile.dot %p, %v, %acc : tensor<64x256xf16>, tensor<256x16xf16> -> tensor<64x16xf32>
      scf.yield %d : tensor<64x16xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<64x16xf32>>, tensor<64x16xf32>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32, kgpu.cluster = 2 : i32} {
  // expected-remark @below {{no schedule: chained products do not support clusters}}
  func.func @cluster(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %kp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %vp: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s0: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
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
      %p = arith.truncf %s : tensor<128x64xf32> to tensor<128x64xf16>
      %v = tile.desc_load %dv[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %p, %v, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}
