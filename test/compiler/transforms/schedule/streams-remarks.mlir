// If the schedule of streamed products does not apply, a remark says why, and a simpler one is used.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule))' --verify-diagnostics -o /dev/null

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams"} {
  // expected-remark @below {{schedule simple: there is no second product}}
  func.func @one(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %s: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %b = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %n = tile.dot %x, %b, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %n : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams"} {
  // expected-remark @below {{schedule simple: a product is not in a loop, or is added to something other than an accumulator that its loop carries}}
  func.func @scaled(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %s: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %b = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %x, %b, %zero : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %p = arith.truncf %d : tensor<128x64xf32> to tensor<128x64xf16>
      %twice = arith.addf %acc, %acc : tensor<128x64xf32>
      %n = tile.dot %p, %b, %twice : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %n : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams"} {
  // expected-remark @below {{schedule simple: a factor is carried by a loop}}
  func.func @carried(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %s: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %half = arith.truncf %zero : tensor<128x64xf32> to tensor<128x64xf16>
    %o:2 = scf.for %at = %c0 to %end step %c64 iter_args(%acc = %zero, %f = %half) -> (tensor<128x64xf32>, tensor<128x64xf16>) : i32 {
      %b = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %x, %b, %zero : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %p = arith.truncf %d : tensor<128x64xf32> to tensor<128x64xf16>
      %n = tile.dot %f, %b, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %n, %p : tensor<128x64xf32>, tensor<128x64xf16>
    }
    tile.desc_store %dy[%i, %c0], %o#0 : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams"} {
  // expected-remark @below {{schedule simple: both factors of a product are computed}}
  func.func @computed(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %s: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %o = scf.for %at = %c0 to %end step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %b = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %x, %b, %zero : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %p = arith.truncf %d : tensor<128x64xf32> to tensor<128x64xf16>
      %c = arith.extf %b : tensor<64x64xf16> to tensor<64x64xf32>
      %r = arith.truncf %c : tensor<64x64xf32> to tensor<64x64xf16>
      %n = tile.dot %p, %r, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %n : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams"} {
  // expected-remark @below {{schedule simple: the position or number of the loads depends on tiles, on memory that is written or on a branch}}
  func.func @branch(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %s: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %dq = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %often = tile.load %y : !tile.ptr<f32> -> f32
    %many = arith.fptosi %often : f32 to i32
    %o = scf.for %at = %c0 to %many step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %b = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %x, %b, %zero : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %p = arith.truncf %d : tensor<128x64xf32> to tensor<128x64xf16>
      %n = tile.dot %p, %b, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %n : tensor<128x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams"} {
  // expected-remark @below {{schedule simple: the rows of a product do not divide into 64 per group of four warps, or sums and products do not fit in registers}}
  func.func @rows(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %s: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<32x64xf32>
    %dq = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<32x64xf32>>
    %x = tile.desc_load %dq[%i, %c0] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
    %o = scf.for %at = %c0 to %end step %c64 iter_args(%acc = %zero) -> (tensor<32x64xf32>) : i32 {
      %b = tile.desc_load %dk[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %x, %b, %zero : tensor<32x64xf16>, tensor<64x64xf16> -> tensor<32x64xf32>
      %p = arith.truncf %d : tensor<32x64xf32> to tensor<32x64xf16>
      %n = tile.dot %p, %b, %acc : tensor<32x64xf16>, tensor<64x64xf16> -> tensor<32x64xf32>
      scf.yield %n : tensor<32x64xf32>
    }
    tile.desc_store %dy[%i, %c0], %o : !tile.desc<tensor<32x64xf32>>, tensor<32x64xf32>
    return
  }
}
