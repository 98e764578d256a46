// A block that is added to the product is also copied by the loading role, through a channel of one slot; but not if
// the kernel may store there.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s

module attributes {kgpu.num_warps = 8 : i32} {
// CHECK-LABEL: @added
// CHECK: %[[RING:.*]] = kgpu.channel {{ *}}bytes fillers 1 readers 8 : <4 x
// CHECK: %[[ADDED:.*]] = kgpu.channel {{ *}}bytes fillers 1 readers 8 : <1 x
// CHECK: kgpu.roles @load
// CHECK:   iter_args(%{{.*}} = %{{.*}}, %[[AT:.*]] = %{{.*}}) -> (!kgpu.cursor<4>, !kgpu.cursor<1>)
// CHECK:     scf.for
// CHECK:     %[[SLOT:.*]] = kgpu.acquire %[[ADDED]][%[[AT]]]
// CHECK:     kgpu.copy_in %{{.*}} to %[[SLOT]] of %[[ADDED]][%[[AT]]]
// CHECK:     kgpu.commit %[[ADDED]][%[[AT]]]
// CHECK:     kgpu.advance %[[AT]]
// CHECK: @multiply
// CHECK:     kgpu.mma_wait %{{.*}} pending 0
// CHECK:     %[[SLOT:.*]] = kgpu.receive %[[ADDED]][%[[AT:.*]]]
// CHECK:     kgpu.local_load %[[SLOT]]
// CHECK:     kgpu.release %[[ADDED]][%[[AT]]]
  func.func @added(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %out: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %side = arith.extsi %n : i32 to i64
    %apart = arith.constant 256 : i32
    %program = tile.program_id x : i32
    %i = arith.muli %program, %apart : i32
    %da = tile.make_desc %a, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %do = tile.make_desc %out, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %sum = scf.for %at = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %at] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%at, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    %added = tile.desc_load %dc[%i, %i] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %wide = arith.extf %added : tensor<128x128xf16> to tensor<128x128xf32>
    %both = arith.addf %sum, %wide : tensor<128x128xf32>
    %narrow = arith.truncf %both : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %do[%i, %i], %narrow : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 8 : i32} {
// CHECK-LABEL: @in_place
// CHECK: kgpu.channel
// CHECK-NOT: kgpu.channel
// CHECK: @multiply
// CHECK: tile.desc_load
  func.func @in_place(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %side = arith.extsi %n : i32 to i64
    %apart = arith.constant 256 : i32
    %program = tile.program_id x : i32
    %i = arith.muli %program, %apart : i32
    %da = tile.make_desc %a, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dc = tile.make_desc %c, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %sum = scf.for %at = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = tile.desc_load %da[%i, %at] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%at, %i] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %d = tile.dot %x, %y, %acc : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    %added = tile.desc_load %dc[%i, %i] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %wide = arith.extf %added : tensor<128x128xf16> to tensor<128x128xf32>
    %both = arith.addf %sum, %wide : tensor<128x128xf32>
    %narrow = arith.truncf %both : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dc[%i, %i], %narrow : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}
