// Few rows' weights: the loading role, having filled a slot, asks for the step a ring later, whole rows of it, unless the
// loop has ended by then. Where that step lies is computed as the copies' position is.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse)' | FileCheck %s
// It is proven, and fits.
// RUN: kiln-opt %s --kiln-set-target=target=sm_90a --kiln-kgpu-pipeline -o /dev/null

// CHECK-LABEL: func.func @product
// CHECK-DAG: %[[PANELS:.*]] = kgpu.tensor_map %{{.*}} box [64, 64] swizzle 128 : <tensor<64x256xf16>>
// CHECK-DAG: %[[ROWS:.*]] = kgpu.tensor_map %{{.*}} box [8, 256] swizzle 0 : <tensor<64x256xf16>>
// CHECK: kgpu.roles
// CHECK: @load
// CHECK:   %[[FAR:.*]] = arith.constant 768 : i32
// CHECK:   scf.for
// CHECK:   scf.for %[[K:.*]] = %{{.*}} to %[[END:.*]] step
// CHECK:     %[[AT:.*]] = arith.addi %[[K]], %[[LATE:.*]]
// CHECK:     kgpu.copy_in %[[PANELS]][%[[ROW:.*]], %[[AT]]]
// CHECK:     kgpu.commit
// CHECK:     %[[NEXT:.*]] = arith.addi %[[K]], %[[FAR]]
// CHECK:     %[[COMES:.*]] = arith.cmpi slt, %[[NEXT]], %[[END]]
// CHECK:     scf.if %[[COMES]]
// CHECK:       %[[THERE:.*]] = arith.addi %[[NEXT]], %[[LATE]]
// CHECK:       kgpu.prefetch %[[ROWS]][%[[ROW]], %[[THERE]]] as !kgpu.mem<64x256xf16,
module attributes {kgpu.num_warps = 4 : i32, kgpu.schedule = "skinny_ahead", kgpu.stages = 3 : i32} {
  func.func @product(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 256 : i64}, %late: i32 {tile.divisibility = 256 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 256 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<16x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<16x256xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x256xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<16x64xf16>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<16x64xf32>) : i32 {
      %at = arith.addi %k, %late : i32
      %x = tile.desc_load %da[%i, %at] : !tile.desc<tensor<16x256xf16>> -> tensor<16x256xf16>
      %w = tile.desc_load %db[%i, %at] : !tile.desc<tensor<64x256xf16>> -> tensor<64x256xf16>
      %y = tile.trans %w [1, 0] : tensor<64x256xf16> -> tensor<256x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<16x256xf16>, tensor<256x64xf16> -> tensor<16x64xf32>
      scf.yield %d : tensor<16x64xf32>
    }
    %out = arith.truncf %sum : tensor<16x64xf32> to tensor<16x64xf16>
    tile.desc_store %dc[%i, %i], %out : !tile.desc<tensor<16x64xf16>>, tensor<16x64xf16>
    return
  }
}
