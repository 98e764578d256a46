// The choices when a schedule applies: groups, slots, which operand is on the instruction's row side, how results are
// stored.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule))' --verify-diagnostics | FileCheck %s
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse)' | FileCheck %s --check-prefix=MADE
// The chosen schedule fits the machine and is verified.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-pipeline -o /dev/null

// As many groups as the launch's warps form; 64 KB for the result and three slots of 48 KB.
// CHECK-LABEL: func.func @two_groups(
// CHECK-SAME: kgpu.schedule = {apart, consumers = 2 : i32, name = "cooperative", staged_store, stages = 3 : i32}, tile.kernel
// MADE-LABEL: func.func @two_groups(
// MADE: kgpu.roles @load warps 1 registers 40 {
// MADE: } @multiply groups 2 warps 4 registers 232 {
module attributes {kgpu.num_warps = 8 : i32} {
  func.func @two_groups(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x256xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x256xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x256xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x256xf16>> -> tensor<64x256xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    %out = arith.truncf %sum : tensor<128x256xf32> to tensor<128x256xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<128x256xf16>>, tensor<128x256xf16>
    return
  }
}


// -----

// A single group's threads would hold 256 accumulators: two groups are chosen.
// CHECK-LABEL: func.func @more_groups(
// CHECK-SAME: kgpu.schedule = {apart, consumers = 2 : i32, name = "cooperative", staged_store, stages = 3 : i32}, tile.kernel
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @more_groups(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x256xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x256xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x256xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x256xf16>> -> tensor<64x256xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    %out = arith.truncf %sum : tensor<128x256xf32> to tensor<128x256xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<128x256xf16>>, tensor<128x256xf16>
    return
  }
}


// -----

// One group multiplies, followed by the loading warp; no registers are reallocated.
// CHECK-LABEL: func.func @one_group(
// CHECK-SAME: kgpu.schedule = {consumers = 1 : i32, name = "cooperative", staged_store, stages = 6 : i32}, tile.kernel
// MADE-LABEL: func.func @one_group(
// MADE: kgpu.channel {{ *}}bytes fillers 1 readers 4 :
// MADE: kgpu.roles @multiply warps 4 {
// MADE: } @load warps 1 {
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @one_group(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
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
}


// -----

// As requested: fewer slots than fit,
// CHECK-LABEL: func.func @asked_stages(
// CHECK-SAME: kgpu.schedule = {apart, consumers = 2 : i32, name = "cooperative", staged_store, stages = 2 : i32}, tile.kernel
module attributes {kgpu.num_warps = 8 : i32, kgpu.stages = 2 : i32} {
  func.func @asked_stages(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x256xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x256xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x256xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x256xf16>> -> tensor<64x256xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    %out = arith.truncf %sum : tensor<128x256xf32> to tensor<128x256xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<128x256xf16>>, tensor<128x256xf16>
    return
  }
}


// -----

// more slots than fit,
// CHECK-LABEL: func.func @asked_many(
// CHECK-SAME: kgpu.schedule = {apart, consumers = 2 : i32, name = "cooperative", staged_store, stages = 3 : i32}, tile.kernel
module attributes {kgpu.num_warps = 8 : i32, kgpu.stages = 7 : i32} {
  func.func @asked_many(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x256xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x256xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x256xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x256xf16>> -> tensor<64x256xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    %out = arith.truncf %sum : tensor<128x256xf32> to tensor<128x256xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<128x256xf16>>, tensor<128x256xf16>
    return
  }
}


// -----

// A block that may begin before the array and reach into it is stored by threads, as no box can do it.
// CHECK-LABEL: func.func @reaching(
// CHECK-SAME: kgpu.schedule = {consumers = 2 : i32, name = "cooperative", stages = 2 : i32}, tile.kernel
module attributes {kgpu.num_warps = 8 : i32} {
  func.func @reaching(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %j: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x256xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x256xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x256xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x256xf16>> -> tensor<64x256xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    %out = arith.truncf %sum : tensor<128x256xf32> to tensor<128x256xf16>
    tile.desc_store %dc[%i, %j], %out : !tile.desc<tensor<128x256xf16>>, tensor<128x256xf16>
    return
  }
}


// -----

// three groups of 64 rows,
// CHECK-LABEL: func.func @asked_three(
// CHECK-SAME: kgpu.schedule = {apart, consumers = 3 : i32, name = "cooperative", staged_store, stages = 3 : i32}, tile.kernel
// MADE-LABEL: func.func @asked_three(
// MADE: kgpu.roles @load warps 1 registers 32 {
// MADE: } @multiply groups 3 warps 4 registers 160 {
module attributes {kgpu.num_warps = 4 : i32, kgpu.consumers = 3 : i32} {
  func.func @asked_three(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 64 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %known = arith.cmpi sge, %i, %c0 : i32
    tile.assume %known
    %zero = arith.constant dense<0.0> : tensor<192x192xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<192x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x192xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<192x192xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<192x192xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<192x64xf16>> -> tensor<192x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x192xf16>> -> tensor<64x192xf16>
      %d = tile.dot %x, %y, %acc : tensor<192x64xf16>, tensor<64x192xf16> -> tensor<192x192xf32>
      scf.yield %d : tensor<192x192xf32>
    }
    %out = arith.truncf %sum : tensor<192x192xf32> to tensor<192x192xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<192x192xf16>>, tensor<192x192xf16>
    return
  }
}


// -----

// or one group although the warps form two.
// CHECK-LABEL: func.func @asked_one(
// CHECK-SAME: kgpu.schedule = {consumers = 1 : i32, name = "cooperative", staged_store, stages = 6 : i32}, tile.kernel
module attributes {kgpu.num_warps = 8 : i32, kgpu.consumers = 1 : i32} {
  func.func @asked_one(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
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
}


// -----

// 16 rows: the right operand's 128 columns take the instruction's row side, and the sum is transposed after the loop.
// CHECK-LABEL: func.func @swapped(
// CHECK-SAME: kgpu.schedule = {consumers = 1 : i32, name = "cooperative", staged_store, stages = 8 : i32, swapped}, tile.kernel
// MADE-LABEL: func.func @swapped(
// MADE: kgpu.roles @multiply warps 4 {
// MADE: %[[SLOT:.*]]:2 = kgpu.receive
// MADE-DAG: %[[ROWS:.*]] = kgpu.trans %[[SLOT]]#1 [1, 0] : <64x128xf16, #{{.*}}> -> <128x64xf16, #{{.*}}>
// MADE-DAG: %[[COLUMNS:.*]] = kgpu.trans %[[SLOT]]#0 [1, 0] : <16x64xf16, #{{.*}}> -> <64x16xf16, #{{.*}}>
// MADE: kgpu.warpgroup_mma %[[ROWS]], %[[COLUMNS]], %{{.*}} -> tensor<128x16xf32>
// MADE: %[[SUM:.*]] = kgpu.mma_wait %{{.*}} pending 0 : tensor<128x16xf32>
// MADE: tile.trans %[[SUM]] [1, 0] : tensor<128x16xf32> -> tensor<16x128xf32>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @swapped(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<16x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<16x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<16x128xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<16x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<16x64xf16>> -> tensor<16x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<16x64xf16>, tensor<64x128xf16> -> tensor<16x128xf32>
      scf.yield %d : tensor<16x128xf32>
    }
    %out = arith.truncf %sum : tensor<16x128xf32> to tensor<16x128xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<16x128xf16>>, tensor<16x128xf16>
    return
  }
}


// -----

// A cluster of two: each CTA has its 128 rows of the left operand, and all of the right operand, half of which it
// copies to both: boxes of 128 rows, and of 32.
// MADE-DAG: #[[SPLIT:.*]] = #layout.map<swizzled [256, 64] element 2 bytes 128 ctas 2 split 0>
// MADE-DAG: #[[WHOLE:.*]] = #layout.map<swizzled [64, 128] element 2 bytes 128 ctas 2>
// CHECK-LABEL: func.func @split(
// CHECK-SAME: kgpu.schedule = {apart, consumers = 2 : i32, name = "cooperative", staged_store, stages = 6 : i32}, tile.kernel
// MADE-LABEL: func.func @split(
// MADE-DAG: kgpu.tensor_map %{{.*}} box [128, 64] swizzle 128 : <tensor<256x64xf16>>
// MADE-DAG: kgpu.tensor_map %{{.*}} box [32, 64] swizzle 128 : <tensor<64x128xf16>>
// MADE: kgpu.channel {{ *}}bytes fillers 1 readers 8 : <6 x (!kgpu.mem<256x64xf16, #[[SPLIT]]>, !kgpu.mem<64x128xf16, #[[WHOLE]]>)>
module attributes {kgpu.num_warps = 8 : i32, kgpu.cluster = 2 : i32} {
  func.func @split(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<256x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<256x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<256x128xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<256x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<256x64xf16>> -> tensor<256x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<256x64xf16>, tensor<64x128xf16> -> tensor<256x128xf32>
      scf.yield %d : tensor<256x128xf32>
    }
    %out = arith.truncf %sum : tensor<256x128xf32> to tensor<256x128xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<256x128xf16>>, tensor<256x128xf16>
    return
  }
}


// -----

// The same with columns as rows: the right operand is split, the left one whole.
// MADE-DAG: #[[WHOLE:.*]] = #layout.map<swizzled [16, 64] element 2 bytes 128 ctas 2>
// MADE-DAG: #[[SPLIT:.*]] = #layout.map<swizzled [64, 128] element 2 bytes 128 ctas 2 split 1>
// CHECK-LABEL: func.func @split_swapped(
// CHECK-SAME: kgpu.schedule = {consumers = 1 : i32, name = "cooperative", staged_store, stages = 8 : i32, swapped}, tile.kernel
// MADE-LABEL: func.func @split_swapped(
// MADE-DAG: kgpu.tensor_map %{{.*}} box [8, 64] swizzle 128 : <tensor<16x64xf16>>
// MADE-DAG: kgpu.tensor_map %{{.*}} box [64, 64] swizzle 128 : <tensor<64x128xf16>>
// MADE: kgpu.channel {{ *}}bytes fillers 1 readers 4 : <8 x (!kgpu.mem<16x64xf16, #[[WHOLE]]>, !kgpu.mem<64x128xf16, #[[SPLIT]]>)>
module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 2 : i32} {
  func.func @split_swapped(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<16x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<16x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<16x128xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<16x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<16x64xf16>> -> tensor<16x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<16x64xf16>, tensor<64x128xf16> -> tensor<16x128xf32>
      scf.yield %d : tensor<16x128xf32>
    }
    %out = arith.truncf %sum : tensor<16x128xf32> to tensor<16x128xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<16x128xf16>>, tensor<16x128xf16>
    return
  }
}


// -----

// 128 KB of f32 sums leave two slots of 48 KB.
// CHECK-LABEL: func.func @wide_result(
// CHECK-SAME: kgpu.schedule = {apart, consumers = 2 : i32, name = "cooperative", staged_store, stages = 2 : i32}, tile.kernel
module attributes {kgpu.num_warps = 8 : i32} {
  func.func @wide_result(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x256xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x256xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x256xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x256xf16>> -> tensor<64x256xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x256xf32>>, tensor<128x256xf32>
    return
  }
}


// -----

// Rows of the result are not known to begin at multiples of 16 bytes: threads store them, through two tiles of 32 KB.
// CHECK-LABEL: func.func @direct(
// CHECK-SAME: kgpu.schedule = {consumers = 2 : i32, name = "cooperative", stages = 5 : i32}, tile.kernel
// MADE-LABEL: func.func @direct(
// MADE-NOT: kgpu.copy_out
// MADE: tile.desc_store
// MADE-NOT: kgpu.copy_out
module attributes {kgpu.num_warps = 8 : i32} {
  func.func @direct(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32, %t: i64) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%t, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
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
}

// -----

// The same in f32: two tiles of 64 KB.
// CHECK-LABEL: func.func @direct_wide(
// CHECK-SAME: kgpu.schedule = {consumers = 2 : i32, name = "cooperative", stages = 3 : i32}, tile.kernel
module attributes {kgpu.num_warps = 8 : i32} {
  func.func @direct_wide(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32, %t: i64) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%t, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
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

// The instruction reads the leading 11 bits of f32, which is what tf32 asks for.
// CHECK-LABEL: func.func @tf32(
// CHECK-SAME: kgpu.schedule = {apart, consumers = 2 : i32, name = "cooperative", staged_store, stages = 5 : i32}, tile.kernel
// MADE-LABEL: func.func @tf32(
// MADE: kgpu.warpgroup_mma %{{.*}} : !kgpu.mem<128x32xf32, #{{.*}}>, <32x128xf32
module attributes {kgpu.num_warps = 8 : i32} {
  func.func @tf32(%a: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
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
      %d = tile.dot %x, %y, %acc {precision = #tile<precision tf32>} : tensor<128x32xf32>, tensor<32x128xf32> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }
}

// -----

// Ops that only have to keep their position belong to the multiplying role: no program waits for another there.
// CHECK-LABEL: func.func @in_place(
// CHECK-SAME: kgpu.schedule =
// MADE-LABEL: func.func @in_place(
// MADE: @load
// MADE-NOT: tile.barrier
// MADE: @multiply
// MADE: tile.assume
// MADE: tile.barrier
// MADE: tile.launch_dependents
module attributes {kgpu.num_warps = 8 : i32} {
  func.func @in_place(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %some = arith.cmpi sgt, %end, %c0 : i32
    tile.assume %some
    tile.barrier
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    tile.launch_dependents
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
    return
  }
}
