// 8-bit floats in a ring: the instruction accumulates about 14 bits, so the program decides for how long it may.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule))' --verify-diagnostics | FileCheck %s
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse)' 2>/dev/null | FileCheck %s --check-prefix=MADE

module attributes {kgpu.num_warps = 8 : i32} {
  // Accumulated across products, like 16-bit floats.
  // CHECK-LABEL: func.func @unlimited(
  // CHECK-SAME: kgpu.schedule = {apart, consumers = 2 : i32, name = "cooperative", staged_store, stages = 3 : i32}, tile.kernel
  // MADE-LABEL: func.func @unlimited(
  // MADE: %[[SUM:.*]] = kgpu.warpgroup_mma %{{.*}}, %{{.*}}, %[[ACC:.*]] : !kgpu.mem<128x128xf8E4M3FN
  // MADE-NEXT: kgpu.mma_wait %[[SUM]] pending 1
  func.func @unlimited(%a: !tile.ptr<f8E4M3FN> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f8E4M3FN> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<bf16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x256xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E4M3FN> -> !tile.desc<tensor<128x128xf8E4M3FN>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E4M3FN> -> !tile.desc<tensor<256x128xf8E4M3FN>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<bf16> -> !tile.desc<tensor<128x256xbf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x128xf8E4M3FN>> -> tensor<128x128xf8E4M3FN>
      %u = tile.desc_load %db[%i, %k] : !tile.desc<tensor<256x128xf8E4M3FN>> -> tensor<256x128xf8E4M3FN>
      %y = tile.trans %u [1, 0] : tensor<256x128xf8E4M3FN> -> tensor<128x256xf8E4M3FN>
      %d = tile.dot %x, %y, %acc {maxImpreciseAcc = 1073741824 : i32} : tensor<128x128xf8E4M3FN>, tensor<128x256xf8E4M3FN> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    %out = arith.truncf %sum : tensor<128x256xf32> to tensor<128x256xbf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<128x256xbf16>>, tensor<128x256xbf16>
    return
  }

  // Each step of the loop is a separate sum; its slot is free as soon as it ends.
  // CHECK-LABEL: func.func @step_by_step(
  // CHECK-SAME: kgpu.schedule = {apart, consumers = 2 : i32, name = "cooperative", staged_store, stages = 6 : i32}, tile.kernel
  // MADE-LABEL: func.func @step_by_step(
  // MADE: } @multiply
  // MADE: scf.for %{{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %[[AT:.*]] = %{{.*}})
  // MADE: kgpu.receive %[[RING:.*]][%[[AT]]]
  // MADE: %[[BEGUN:.*]] = kgpu.warpgroup_mma %{{.*}}, %{{.*}}, %{{.*}} accumulate %false {depth = array<i64: 0, 128>}
  // MADE: %[[OWN:.*]] = kgpu.mma_wait %[[BEGUN]] pending 0
  // MADE: kgpu.release %[[RING]][%[[AT]]] :
  // MADE: %[[SUM:.*]] = arith.addf %[[ACC]], %[[OWN]]
  // MADE: %[[NEXT:.*]] = kgpu.advance %[[AT]]
  // MADE: scf.yield %[[SUM]], %[[NEXT]]
  // MADE-NOT: kgpu.mma_wait
  // MADE: kgpu.end_role
  func.func @step_by_step(%a: !tile.ptr<f8E4M3FN> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f8E5M2> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<bf16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E4M3FN> -> !tile.desc<tensor<128x128xf8E4M3FN>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E5M2> -> !tile.desc<tensor<128x128xf8E5M2>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<bf16> -> !tile.desc<tensor<128x128xbf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x128xf8E4M3FN>> -> tensor<128x128xf8E4M3FN>
      %u = tile.desc_load %db[%i, %k] : !tile.desc<tensor<128x128xf8E5M2>> -> tensor<128x128xf8E5M2>
      %y = tile.trans %u [1, 0] : tensor<128x128xf8E5M2> -> tensor<128x128xf8E5M2>
      %d = tile.dot %x, %y, %acc {maxImpreciseAcc = 128 : i32} : tensor<128x128xf8E4M3FN>, tensor<128x128xf8E5M2> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    %out = arith.truncf %sum : tensor<128x128xf32> to tensor<128x128xbf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<128x128xbf16>>, tensor<128x128xbf16>
    return
  }

  // f16 sums are what was asked for.
  // CHECK-LABEL: func.func @half_sums(
  // CHECK-SAME: kgpu.schedule =
  // MADE-LABEL: func.func @half_sums(
  // MADE: kgpu.mma_wait %{{.*}} pending 1
  func.func @half_sums(%a: !tile.ptr<f8E4M3FN> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f8E4M3FN> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf16>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E4M3FN> -> !tile.desc<tensor<128x128xf8E4M3FN>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E4M3FN> -> !tile.desc<tensor<128x128xf8E4M3FN>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf16>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x128xf8E4M3FN>> -> tensor<128x128xf8E4M3FN>
      %u = tile.desc_load %db[%i, %k] : !tile.desc<tensor<128x128xf8E4M3FN>> -> tensor<128x128xf8E4M3FN>
      %y = tile.trans %u [1, 0] : tensor<128x128xf8E4M3FN> -> tensor<128x128xf8E4M3FN>
      %d = tile.dot %x, %y, %acc : tensor<128x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<128x128xf16>
      scf.yield %d : tensor<128x128xf16>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }

  // Several sums in a step; the slot is free after the last.
  // CHECK-LABEL: func.func @within_a_step(
  // CHECK-SAME: kgpu.schedule =
  // MADE-LABEL: func.func @within_a_step(
  // MADE: kgpu.receive %[[RING:.*]][%[[AT:.*]]]
  // MADE: %[[BEGUN:.*]] = kgpu.warpgroup_mma %[[A:.*]], %[[B:.*]], %{{.*}} accumulate %false {depth = array<i64: 0, 64>}
  // MADE: %[[OWN:.*]] = kgpu.mma_wait %[[BEGUN]] pending 0
  // MADE-NOT: kgpu.release
  // MADE: %[[FIRST:.*]] = arith.addf %{{.*}}, %[[OWN]]
  // MADE: %[[BEGUN:.*]] = kgpu.warpgroup_mma %[[A]], %[[B]], %{{.*}} accumulate %false {depth = array<i64: 64, 128>}
  // MADE: %[[OWN:.*]] = kgpu.mma_wait %[[BEGUN]] pending 0
  // MADE: kgpu.release %[[RING]][%[[AT]]] :
  // MADE: arith.addf %[[FIRST]], %[[OWN]]
  func.func @within_a_step(%a: !tile.ptr<f8E4M3FN> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f8E4M3FN> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<bf16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E4M3FN> -> !tile.desc<tensor<128x128xf8E4M3FN>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E4M3FN> -> !tile.desc<tensor<128x128xf8E4M3FN>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<bf16> -> !tile.desc<tensor<128x128xbf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x128xf8E4M3FN>> -> tensor<128x128xf8E4M3FN>
      %u = tile.desc_load %db[%i, %k] : !tile.desc<tensor<128x128xf8E4M3FN>> -> tensor<128x128xf8E4M3FN>
      %y = tile.trans %u [1, 0] : tensor<128x128xf8E4M3FN> -> tensor<128x128xf8E4M3FN>
      %d = tile.dot %x, %y, %acc {maxImpreciseAcc = 90 : i32} : tensor<128x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    %out = arith.truncf %sum : tensor<128x128xf32> to tensor<128x128xbf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<128x128xbf16>>, tensor<128x128xbf16>
    return
  }

  // One instruction sums 32.
  // expected-remark @below {{schedule simple: no instruction multiplies these types from shared memory with the requested precision}}
  func.func @within_an_instruction(%a: !tile.ptr<f8E4M3FN> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f8E4M3FN> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<bf16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E4M3FN> -> !tile.desc<tensor<128x128xf8E4M3FN>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E4M3FN> -> !tile.desc<tensor<128x128xf8E4M3FN>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<bf16> -> !tile.desc<tensor<128x128xbf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x128xf8E4M3FN>> -> tensor<128x128xf8E4M3FN>
      %u = tile.desc_load %db[%i, %k] : !tile.desc<tensor<128x128xf8E4M3FN>> -> tensor<128x128xf8E4M3FN>
      %y = tile.trans %u [1, 0] : tensor<128x128xf8E4M3FN> -> tensor<128x128xf8E4M3FN>
      %d = tile.dot %x, %y, %acc {maxImpreciseAcc = 31 : i32} : tensor<128x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    %out = arith.truncf %sum : tensor<128x128xf32> to tensor<128x128xbf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<128x128xbf16>>, tensor<128x128xbf16>
    return
  }

  // The sum of one step and that of all steps: 256 registers.
  // expected-remark @below {{schedule simple: the tile's rows do not divide into 64 per group of four warps, or their accumulators do not fit in registers}}
  func.func @too_many_sums(%a: !tile.ptr<f8E4M3FN> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f8E4M3FN> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<bf16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x256xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E4M3FN> -> !tile.desc<tensor<128x128xf8E4M3FN>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E4M3FN> -> !tile.desc<tensor<256x128xf8E4M3FN>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<bf16> -> !tile.desc<tensor<128x256xbf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x128xf8E4M3FN>> -> tensor<128x128xf8E4M3FN>
      %u = tile.desc_load %db[%i, %k] : !tile.desc<tensor<256x128xf8E4M3FN>> -> tensor<256x128xf8E4M3FN>
      %y = tile.trans %u [1, 0] : tensor<256x128xf8E4M3FN> -> tensor<128x256xf8E4M3FN>
      %d = tile.dot %x, %y, %acc {maxImpreciseAcc = 128 : i32} : tensor<128x128xf8E4M3FN>, tensor<128x256xf8E4M3FN> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    %out = arith.truncf %sum : tensor<128x256xf32> to tensor<128x256xbf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<128x256xbf16>>, tensor<128x256xbf16>
    return
  }

  // expected-remark @below {{schedule simple: a factor is not contiguous along K, which is required unless elements have 16 bits}}
  func.func @across(%a: !tile.ptr<f8E4M3FN> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f8E4M3FN> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<bf16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E4M3FN> -> !tile.desc<tensor<128x128xf8E4M3FN>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f8E4M3FN> -> !tile.desc<tensor<128x128xf8E4M3FN>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<bf16> -> !tile.desc<tensor<128x128xbf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x128xf8E4M3FN>> -> tensor<128x128xf8E4M3FN>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<128x128xf8E4M3FN>> -> tensor<128x128xf8E4M3FN>
      %d = tile.dot %x, %y, %acc {maxImpreciseAcc = 1073741824 : i32} : tensor<128x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    %out = arith.truncf %sum : tensor<128x128xf32> to tensor<128x128xbf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<128x128xbf16>>, tensor<128x128xbf16>
    return
  }

  // expected-remark @below {{schedule simple: a factor is not contiguous along K, which is required unless elements have 16 bits}}
  func.func @integers_across(%a: !tile.ptr<i8> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<i8> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<i32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0> : tensor<128x128xi32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<i8> -> !tile.desc<tensor<128x128xi8>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<i8> -> !tile.desc<tensor<128x128xi8>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<i32> -> !tile.desc<tensor<128x128xi32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xi32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x128xi8>> -> tensor<128x128xi8>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<128x128xi8>> -> tensor<128x128xi8>
      %d = tile.dot %x, %y, %acc : tensor<128x128xi8>, tensor<128x128xi8> -> tensor<128x128xi32>
      scf.yield %d : tensor<128x128xi32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xi32>>, tensor<128x128xi32>
    return
  }
}
