// The CTAs of a cluster share K: each multiplies its part of every step into its own accumulators. After the loop each
// sends every CTA that one's columns, and adds what arrives in CTA order. No cluster barrier is in a role.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse)' | FileCheck %s

// CHECK-DAG: #[[A:.*]] = #layout.map<swizzled [128, 128] element 2 bytes 128 ctas 2 split 1>
// CHECK-DAG: #[[B:.*]] = #layout.map<swizzled [64, 128] element 2 bytes 128 ctas 2 split 1>
// CHECK-DAG: #[[BT:.*]] = #layout.map<swizzled [128, 64] order [0, 1] element 2 bytes 128 ctas 2 split 0>
// Eight by eight elements are adjacent; the second CTA has the second half of the columns.
// CHECK-DAG: #[[SUMS:.*]] = #layout.map<digits [256, 64] cta (0, 32) offset (0, 1) (0, 2) (0, 4) (1, 0) (2, 0) (4, 0) (0, 8) (0, 16) (8, 0) (16, 0) (32, 0) (64, 0) (128, 0)>
// CHECK-DAG: #[[ONE:.*]] = #layout.map<digits [128, 64] cta (0, 32) offset (0, 1) (0, 2) (0, 4) (1, 0) (2, 0) (4, 0) (0, 8) (0, 16) (8, 0) (16, 0) (32, 0) (64, 0)>
// CHECK-DAG: #[[C:.*]] = #layout.map<swizzled [128, 64] element 2 bytes 64 ctas 2 split 1>
// CHECK-LABEL: func.func @product
// CHECK-DAG: kgpu.tensor_map %{{.*}} box [128, 64] swizzle 128 : <tensor<128x128xf16>>
// CHECK-DAG: kgpu.tensor_map %{{.*}} box [64, 64] swizzle 128 : <tensor<64x128xf16>>
// CHECK-DAG: %[[MC:.*]] = kgpu.tensor_map %{{.*}} box [128, 32] swizzle 64 : <tensor<128x64xf16>>
// CHECK: kgpu.channel {{ *}}bytes fillers 1 readers 8 : <4 x (!kgpu.mem<128x128xf16, #[[A]]>, !kgpu.mem<64x128xf16, #[[B]]>)>
// CHECK: kgpu.roles @load
// CHECK: } @multiply groups 2 warps 4
// CHECK:   %[[PRODUCT:.*]]:3 = scf.for {{.*}} -> (tensor<256x64xf32>,
// CHECK:     %[[SLOT:.*]]:2 = kgpu.receive
// CHECK:     %[[T:.*]] = kgpu.trans %[[SLOT]]#1 [1, 0] : <64x128xf16, #[[B]]> -> <128x64xf16, #[[BT]]>
// CHECK:     kgpu.warpgroup_mma %[[SLOT]]#0, %[[T]], %{{.*}} -> tensor<256x64xf32>
// CHECK:   %[[OWN:.*]] = kgpu.mma_wait %[[PRODUCT]]#0 pending 0
// CHECK:   %[[MAIL:.*]] = kgpu.alloc {mbarrier} : <256x64xf32, #[[SUMS]]>
// CHECK:   kgpu.local_store %[[OWN]], %[[MAIL]]
// CHECK:   kgpu.await %[[MAIL]]
// CHECK:   %[[V:.*]] = kgpu.view %[[MAIL]] offset 0 : {{.*}} -> <128x64xf32, #[[ONE]]>
// CHECK:   %[[FIRST:.*]] = kgpu.local_load %[[V]]
// CHECK:   %[[W:.*]] = kgpu.view %[[MAIL]] offset 4096 :
// CHECK:   %[[SECOND:.*]] = kgpu.local_load %[[W]]
// CHECK:   %[[SUM:.*]] = arith.addf %[[FIRST]], %[[SECOND]] : tensor<128x64xf32>
// CHECK:   %[[OUT:.*]] = arith.truncf %[[SUM]]
// CHECK:   %[[PLACE:.*]] = kgpu.alloc : <128x64xf16, #[[C]]>
// CHECK:   kgpu.local_store %[[OUT]], %[[PLACE]]
// CHECK:   kgpu.copy_out %[[PLACE]] to %[[MC]]
module attributes {kgpu.num_warps = 8 : i32, kgpu.cluster = 2 : i32, kgpu.schedule = "split", kgpu.stages = 4 : i32} {
  func.func @product(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
      %w = tile.desc_load %db[%i, %k] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %y = tile.trans %w [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    %out = arith.truncf %sum : tensor<128x64xf32> to tensor<128x64xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<128x64xf16>>, tensor<128x64xf16>
    return
  }
}

// -----

// Few rows: weights take the side of 64 rows, and each of four CTAs adds up eight of 32 columns.
// CHECK-LABEL: func.func @few_rows
// CHECK:   scf.for {{.*}} -> (tensor<256x32xf32>,
// CHECK:     kgpu.warpgroup_mma {{.*}} -> tensor<256x32xf32>
// CHECK-COUNT-4: kgpu.local_load {{.*}} -> tensor<64x32xf32>
// CHECK:   arith.addf
// CHECK:   tile.trans %{{.*}} [1, 0] : tensor<64x32xf32> -> tensor<32x64xf32>
module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 4 : i32, kgpu.schedule = "split"} {
  func.func @few_rows(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 256 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<32x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x256xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<256x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<32x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<32x256xf16>> -> tensor<32x256xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<256x64xf16>> -> tensor<256x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<32x256xf16>, tensor<256x64xf16> -> tensor<32x64xf32>
      scf.yield %d : tensor<32x64xf32>
    }
    %out = arith.truncf %sum : tensor<32x64xf32> to tensor<32x64xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<32x64xf16>>, tensor<32x64xf16>
    return
  }
}
