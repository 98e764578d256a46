// If the schedule `simple` does not apply, a remark says why, and the products stay in place.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_80},func.func(kiln-choose-schedule))' --verify-diagnostics | FileCheck %s

module attributes {kgpu.num_warps = 4 : i32} {
  // expected-remark @below {{no schedule: no factor is a block that the loop loads}}
  func.func @not_in_the_loop(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %x = tile.desc_load %da[%i, %c0] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
    %y = tile.desc_load %db[%c0, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

  // expected-remark @below {{no schedule: the products are in several loops or blocks}}
  func.func @elsewhere(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    %x0 = tile.desc_load %da[%i, %c0] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
    %y0 = tile.desc_load %db[%c0, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
    %d0 = scf.for %k = %c0 to %end step %step iter_args(%acc = %sum) -> (tensor<64x64xf32>) : i32 {
      %d = tile.dot %x0, %y0, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %d0 : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

  // expected-remark @below {{no schedule: rows of a factor, or their ends, are not known to be multiples of 4 bytes}}
  func.func @odd_rows(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 1 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

  // The position of a load comes from memory that changes while the kernel runs.
  // expected-remark @below {{no schedule: the position of a load depends on a branch, on products or on memory that is not read-only}}
  func.func @from_memory(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %at = tile.addptr %a, %k : !tile.ptr<f16>, i32
      %h = tile.load %at {isVolatile} : !tile.ptr<f16> -> f16
      %place = arith.fptosi %h : f16 to i32
      %even = arith.muli %place, %step : i32
      %x = tile.desc_load %da[%i, %even] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

  // A table that the kernel may write.
  // expected-remark @below {{no schedule: the kernel's stores may overlap the memory that positions of loads are read from}}
  func.func @from_what_it_stores(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %table: !tile.ptr<i32>,
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %at = tile.addptr %table, %k : !tile.ptr<i32>, i32
      %place = tile.load %at : !tile.ptr<i32> -> i32
      %even = arith.muli %place, %step : i32
      %x = tile.desc_load %da[%i, %even] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

  // expected-remark @below {{no schedule: the kernel's stores may overlap the factors that it loads}}
  func.func @stores(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

  // expected-remark @below {{no schedule: a factor's descriptor is not known, or does not pad with zeros}}
  func.func @of_nans(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %dn = tile.make_desc %a, shape [%s, %s] strides [%s, %one] {padding = #tile<padding nan>} : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %dn[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

  // expected-remark @below {{no schedule: no instruction multiplies these types from registers with the requested precision}}
  func.func @no_instruction(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %xf = arith.extf %x : tensor<64x32xf16> to tensor<64x32xf32>
      %yf = arith.extf %y : tensor<32x64xf16> to tensor<32x64xf32>
      %d = tile.dot %xf, %yf, %acc {precision = #tile<precision ieee>} : tensor<64x32xf32>, tensor<32x64xf32> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 4 : i32, kgpu.stages = 1 : i32} {
  // expected-remark @below {{no schedule: the launch set stages=1, but one slot is read while the next is filled}}
  func.func @one_stage(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 2 : i32} {
  // expected-remark @below {{no schedule: the loop counter is unsigned, or a cluster shares the loads}}
  func.func @clusters(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }
}

// -----

// The module need not contain anything of kgpu before.
module {
  // Where warps multiply, both products read their operands from one slot.
  // CHECK: func.func @copies_for_both
  // CHECK-SAME: name = "simple"
  func.func @copies_for_both(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %e = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      %d = tile.dot %x, %y, %e : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

  // An assumption about a value reads and writes nothing.
  // CHECK: func.func @promises
  // CHECK-SAME: name = "simple"
  func.func @promises(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %some = arith.cmpi sgt, %end, %c0 : i32
    tile.assume %some
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %e = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %e : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

  // What is loaded ahead is loaded after a wait in front of the loop, but not if that is on one path, or behind it.
  // CHECK: func.func @waits_first
  // CHECK-SAME: name = "simple"
  func.func @waits_first(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    tile.wait_for_grid
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %e = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %e : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

  // expected-remark @below {{no schedule: programs may wait for each other}}
  func.func @waits_perhaps(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %some = arith.cmpi sgt, %end, %c0 : i32
    scf.if %some {
      tile.wait_for_grid
    }
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %e = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %e : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

  // expected-remark @below {{no schedule: programs may wait for each other}}
  func.func @waits_after(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %e = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %e : tensor<64x64xf32>
    }
    tile.wait_for_grid
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }
}
