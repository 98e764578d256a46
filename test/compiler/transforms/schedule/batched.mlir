// One matrix of a batch: the array has one more dimension than the block's memory, at the front, where a box has side
// 1.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-pipeline --kiln-kgpu-to-nvvm | FileCheck %s --check-prefix=PTX

module attributes {kgpu.num_warps = 8 : i32} {
// CHECK-DAG: #[[A:.*]] = #layout.map<swizzled [128, 64] element 2 bytes 128>
// CHECK-LABEL: func.func @batched(
// CHECK-DAG: %[[MA:.*]] = kgpu.tensor_map %{{.*}} box [1, 128, 64] swizzle 128 : <tensor<1x128x64xf16>>
// CHECK-DAG: %[[MC:.*]] = kgpu.tensor_map %{{.*}} box [1, 64, 64] swizzle 128 : <tensor<1x128x128xf16>>
// CHECK: kgpu.channel {{ *}}bytes fillers 1 readers 8 : <5 x (!kgpu.mem<128x64xf16, #[[A]]>, !kgpu.mem<128x64xf16, #[[A]]>)>
// CHECK: kgpu.roles @load
// CHECK: kgpu.copy_in %[[MA]][%[[BATCH:.*]], %{{.*}}, %{{.*}}] to
// CHECK: kgpu.copy_in %{{.*}}[%[[BATCH]], %{{.*}}, %{{.*}}] to
// CHECK: kgpu.copy_in %{{.*}}[%[[BATCH]], %{{.*}}, %{{.*}}] to
// CHECK: @multiply
// CHECK: kgpu.warpgroup_mma
// CHECK: kgpu.local_load %{{.*}} -> tensor<128x128xf16>
// CHECK-NOT: tile.reshape
// CHECK: kgpu.local_store
// CHECK: kgpu.copy_out %{{.*}} to %[[MC]][%{{.*}}, %{{.*}}, %{{.*}}] by_group
// The next panel of 64 columns is 16 KB further, and its box 64 elements further.
// PTX-LABEL: llvm.func @kiln_batched
// PTX: cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], [$1, {$2, $3, $4}], [$5];
// PTX: cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [$0, {$1, $2, $3}], [$4];
  func.func @batched(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %e: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %t: i64 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %batch = tile.program_id y : i32
    %apart = arith.constant 256 : i32
    %program = tile.program_id x : i32
    %i = arith.muli %program, %apart : i32
    %da = tile.make_desc %a, shape [%s, %s, %s] strides [%t, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s, %s] strides [%t, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x128x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s, %s] strides [%t, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x128x128xf16>>
    %de = tile.make_desc %e, shape [%s, %s, %s] strides [%t, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x128x128xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %u = tile.desc_load %da[%batch, %i, %k] : !tile.desc<tensor<1x128x64xf16>> -> tensor<1x128x64xf16>
      %x = tile.reshape %u : tensor<1x128x64xf16> -> tensor<128x64xf16>
      %v = tile.desc_load %db[%batch, %i, %k] : !tile.desc<tensor<1x128x64xf16>> -> tensor<1x128x64xf16>
      %w = tile.reshape %v : tensor<1x128x64xf16> -> tensor<128x64xf16>
      %y = tile.trans %w [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    %z = tile.desc_load %de[%batch, %i, %i] : !tile.desc<tensor<1x128x128xf16>> -> tensor<1x128x128xf16>
    %flat = tile.reshape %z : tensor<1x128x128xf16> -> tensor<128x128xf16>
    %wide = arith.extf %flat : tensor<128x128xf16> to tensor<128x128xf32>
    %both = arith.addf %sum, %wide : tensor<128x128xf32>
    %out = arith.truncf %both : tensor<128x128xf32> to tensor<128x128xf16>
    %back = tile.reshape %out : tensor<128x128xf16> -> tensor<1x128x128xf16>
    tile.desc_store %dc[%batch, %i, %i], %back : !tile.desc<tensor<1x128x128xf16>>, tensor<1x128x128xf16>
    return
  }
}

// -----

// One right operand for all. (The kernel's name must not clash with a symbol of ours.)
// CHECK-LABEL: func.func @shared(
// CHECK-DAG: kgpu.tensor_map %{{.*}} box [1, 128, 64] swizzle 128
// CHECK-DAG: kgpu.tensor_map %{{.*}} box [128, 64] swizzle 128
// CHECK: kgpu.copy_in %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] to
// CHECK: kgpu.copy_in %{{.*}}[%{{.*}}, %{{.*}}] to
module attributes {kgpu.num_warps = 8 : i32} {
  func.func @shared(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %e: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %t: i64 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %batch = tile.program_id y : i32
    %apart = arith.constant 256 : i32
    %program = tile.program_id x : i32
    %i = arith.muli %program, %apart : i32
    %da = tile.make_desc %a, shape [%s, %s, %s] strides [%t, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x128x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s, %s] strides [%t, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x128x128xf16>>
    %de = tile.make_desc %e, shape [%s, %s, %s] strides [%t, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x128x128xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %u = tile.desc_load %da[%batch, %i, %k] : !tile.desc<tensor<1x128x64xf16>> -> tensor<1x128x64xf16>
      %x = tile.reshape %u : tensor<1x128x64xf16> -> tensor<128x64xf16>
      %w = tile.desc_load %db[%i, %k] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.trans %w [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    %out = arith.truncf %sum : tensor<128x128xf32> to tensor<128x128xf16>
    %back = tile.reshape %out : tensor<128x128xf16> -> tensor<1x128x128xf16>
    tile.desc_store %dc[%batch, %i, %i], %back : !tile.desc<tensor<1x128x128xf16>>, tensor<1x128x128xf16>
    return
  }
}

// -----

// In a cluster of two each CTA copies 64 rows of the right operand to both: along the second of three dimensions.
// CHECK-LABEL: func.func @cluster(
// CHECK-DAG: kgpu.tensor_map %{{.*}} box [1, 128, 64] swizzle 128 : <tensor<1x256x64xf16>>
// CHECK-DAG: kgpu.tensor_map %{{.*}} box [1, 64, 64] swizzle 128 : <tensor<1x128x64xf16>>
// PTX-LABEL: llvm.func @kiln_cluster
// PTX: cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
module attributes {kgpu.num_warps = 8 : i32, kgpu.cluster = 2 : i32} {
  func.func @cluster(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %e: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %t: i64 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<256x128xf32>
    %batch = tile.program_id y : i32
    %apart = arith.constant 256 : i32
    %program = tile.program_id x : i32
    %i = arith.muli %program, %apart : i32
    %da = tile.make_desc %a, shape [%s, %s, %s] strides [%t, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x256x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s, %s] strides [%t, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x128x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s, %s] strides [%t, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x256x128xf16>>
    %de = tile.make_desc %e, shape [%s, %s, %s] strides [%t, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x256x128xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<256x128xf32>) : i32 {
      %u = tile.desc_load %da[%batch, %i, %k] : !tile.desc<tensor<1x256x64xf16>> -> tensor<1x256x64xf16>
      %x = tile.reshape %u : tensor<1x256x64xf16> -> tensor<256x64xf16>
      %v = tile.desc_load %db[%batch, %i, %k] : !tile.desc<tensor<1x128x64xf16>> -> tensor<1x128x64xf16>
      %w = tile.reshape %v : tensor<1x128x64xf16> -> tensor<128x64xf16>
      %y = tile.trans %w [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<256x64xf16>, tensor<64x128xf16> -> tensor<256x128xf32>
      scf.yield %d : tensor<256x128xf32>
    }
    %out = arith.truncf %sum : tensor<256x128xf32> to tensor<256x128xf16>
    %back = tile.reshape %out : tensor<256x128xf16> -> tensor<1x256x128xf16>
    tile.desc_store %dc[%batch, %i, %i], %back : !tile.desc<tensor<1x256x128xf16>>, tensor<1x256x128xf16>
    return
  }
}

// -----

// CHECK-LABEL: func.func @swapped(
// CHECK: kgpu.trans %{{.*}} [1, 0] : <16x64xf16
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @swapped(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %e: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %t: i64 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<16x128xf32>
    %batch = tile.program_id y : i32
    %apart = arith.constant 256 : i32
    %program = tile.program_id x : i32
    %i = arith.muli %program, %apart : i32
    %da = tile.make_desc %a, shape [%s, %s, %s] strides [%t, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x16x64xf16>>
    %db = tile.make_desc %b, shape [%s, %s, %s] strides [%t, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x128x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s, %s] strides [%t, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x16x128xf16>>
    %de = tile.make_desc %e, shape [%s, %s, %s] strides [%t, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x16x128xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<16x128xf32>) : i32 {
      %u = tile.desc_load %da[%batch, %i, %k] : !tile.desc<tensor<1x16x64xf16>> -> tensor<1x16x64xf16>
      %x = tile.reshape %u : tensor<1x16x64xf16> -> tensor<16x64xf16>
      %v = tile.desc_load %db[%batch, %i, %k] : !tile.desc<tensor<1x128x64xf16>> -> tensor<1x128x64xf16>
      %w = tile.reshape %v : tensor<1x128x64xf16> -> tensor<128x64xf16>
      %y = tile.trans %w [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<16x64xf16>, tensor<64x128xf16> -> tensor<16x128xf32>
      scf.yield %d : tensor<16x128xf32>
    }
    %out = arith.truncf %sum : tensor<16x128xf32> to tensor<16x128xf16>
    %back = tile.reshape %out : tensor<16x128xf16> -> tensor<1x16x128xf16>
    tile.desc_store %dc[%batch, %i, %i], %back : !tile.desc<tensor<1x16x128xf16>>, tensor<1x16x128xf16>
    return
  }
}
