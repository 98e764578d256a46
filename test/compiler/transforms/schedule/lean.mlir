// Lean sums and turns: the first products of a tile begin its sum, and a turn comes with the last step's products, by a
// commit that needs no branch while products are under way. Its slot is acquired where none are. A loop that does not run
// hands over behind it.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse)' | FileCheck %s
// It is proven, and fits.
// RUN: kiln-opt %s --kiln-set-target=target=sm_90a --kiln-kgpu-pipeline -o /dev/null

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "pingpong_lean", kgpu.stages = 4 : i32} {
// CHECK-LABEL: func.func @product
// CHECK: %[[EVEN:.*]] = kgpu.channel {{ *}}threads fillers 4 readers 4 : <1 x ()>
// CHECK: %[[ODD:.*]] = kgpu.channel {{ *}}threads fillers 4 readers 4 : <1 x ()>
// CHECK: } @multiply_even warps 4 registers 232 {
// CHECK:     %[[THERE:.*]] = arith.cmpi slt
// CHECK:     scf.if
// CHECK-NEXT:  kgpu.receive %[[ODD]]
// CHECK:     scf.if %[[THERE]]
// CHECK-NEXT:  kgpu.acquire %[[EVEN]]
// CHECK:     scf.for %[[K:.*]] = %[[ZERO:.*]] to %[[END:.*]] step %[[STEP:.*]] iter_args
// CHECK:       %[[AGAIN:.*]] = arith.cmpi ne, %[[K]], %[[ZERO]]
// CHECK:       kgpu.warpgroup_mma {{.*}} accumulate %[[AGAIN]]
// CHECK:       %[[NEXT:.*]] = arith.addi %[[K]], %[[STEP]]
// CHECK:       %[[LAST:.*]] = arith.cmpi sge, %[[NEXT]], %[[END]]
// CHECK:       %[[HANDS:.*]] = arith.andi %[[LAST]], %[[THERE]]
// CHECK:       kgpu.commit %[[EVEN]][%{{.*}}] when %[[HANDS]]
// CHECK:       kgpu.mma_wait %{{.*}} pending 1
// CHECK:       kgpu.release %{{.*}} when %[[AGAIN]]
// CHECK:     kgpu.mma_wait %{{.*}} pending 0
// CHECK:     %[[NEVER:.*]] = arith.cmpi sle, %[[END]], %[[ZERO]]
// CHECK:     %[[HANDS:.*]] = arith.andi %[[NEVER]], %[[THERE]]
// CHECK:     kgpu.commit %[[EVEN]][%{{.*}}] when %[[HANDS]]
// CHECK:     kgpu.copy_out
// CHECK: } @multiply_odd warps 4 registers 232 {
// CHECK:   kgpu.commit %[[ODD]][%{{.*}}] when
  func.func @product(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %side = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %x0 = tile.program_id x : i32
    %i = arith.muli %x0, %side : i32
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
