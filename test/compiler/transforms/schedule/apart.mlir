// Groups that end a tile separately: each stores its own rows with its own boxes, after barriers of its own threads.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse)' | FileCheck %s
// Nothing in the role waits for the other group.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-pipeline | FileCheck %s --check-prefix=BARRIERS

// CHECK-LABEL: func.func @product
// CHECK: %[[MAP:.*]] = kgpu.tensor_map %{{.*}} box [64, 64] swizzle 128 : <tensor<128x256xf16>>
// CHECK: kgpu.channel {{ *}}bytes fillers 1 readers 8
// CHECK: } @multiply groups 2 warps 4 registers 232 {
// CHECK:     %[[OUT:.*]] = kgpu.alloc
// CHECK:     kgpu.copy_out_wait read 0
// CHECK:     kgpu.local_store %{{.*}}, %[[OUT]]
// CHECK:     kgpu.copy_out %[[OUT]] to %[[MAP]][%{{.*}}, %{{.*}}] by_group
// CHECK:   kgpu.copy_out_wait read 0
// BARRIERS-LABEL: func.func @product
// BARRIERS: @multiply groups 2
// BARRIERS-NOT: kgpu.barrier
// BARRIERS: kgpu.copy_out_wait read 0
// BARRIERS-NEXT: kgpu.barrier group
// BARRIERS-NEXT: kgpu.local_store
// BARRIERS-NOT: kgpu.barrier
// BARRIERS: kgpu.fence_async
// BARRIERS-NEXT: kgpu.barrier group
// BARRIERS-NEXT: kgpu.copy_out %{{.*}} by_group
// BARRIERS-NOT: kgpu.barrier
// BARRIERS: kgpu.end_role
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "cooperative"} {
  func.func @product(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %side = arith.constant 256 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x256xf32>
    %p = tile.program_id x : i32
    %i = arith.muli %p, %side : i32
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

// Each CTA of the cluster has two groups of 64 rows each.
// CHECK-LABEL: func.func @cluster
// CHECK: kgpu.tensor_map %{{.*}} box [64, 64] swizzle 128 : <tensor<256x64xf16>>
// CHECK: kgpu.copy_out {{.*}} by_group
// BARRIERS-LABEL: func.func @cluster
// BARRIERS: @multiply groups 2
// BARRIERS-NOT: kgpu.barrier role
// BARRIERS-COUNT-2: kgpu.barrier group
// BARRIERS-NOT: kgpu.barrier role
// BARRIERS: kgpu.end_role
module attributes {kgpu.num_warps = 8 : i32, kgpu.cluster = 2 : i32, kgpu.schedule = "cooperative"} {
  func.func @cluster(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %side = arith.constant 256 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<256x64xf32>
    %p = tile.program_id x : i32
    %i = arith.muli %p, %side : i32
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<256x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<256x64xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<256x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<256x64xf16>> -> tensor<256x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<256x64xf16>, tensor<64x64xf16> -> tensor<256x64xf32>
      scf.yield %d : tensor<256x64xf32>
    }
    %out = arith.truncf %sum : tensor<256x64xf32> to tensor<256x64xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<256x64xf16>>, tensor<256x64xf16>
    return
  }
}

// -----

// Two results: nothing would order what one group writes of the first before what another group writes of the second.
// CHECK-LABEL: func.func @two_results
// CHECK: } @multiply groups 2
// CHECK-NOT: by_group
// CHECK: kgpu.end_role
// BARRIERS-LABEL: func.func @two_results
// BARRIERS: @multiply groups 2
// BARRIERS: kgpu.barrier role
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "cooperative"} {
  func.func @two_results(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %side = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %p = tile.program_id x : i32
    %i = arith.muli %p, %side : i32
    %j = arith.addi %i, %side : i32
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    %out = arith.truncf %sum : tensor<128x64xf32> to tensor<128x64xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<128x64xf16>>, tensor<128x64xf16>
    tile.desc_store %dc[%i, %j], %out : !tile.desc<tensor<128x64xf16>>, tensor<128x64xf16>
    return
  }
}
