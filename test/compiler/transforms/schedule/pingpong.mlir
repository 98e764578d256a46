// Two groups take turns, one program each: one multiplies while the other writes its result. The loading role fills the
// slots of both; each group skips the other's. A group takes its turn once everything else is ready, and hands it over
// once all its products have started, if there is another program. Results
// leave through memory that the groups use in turn, too.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse)' | FileCheck %s
// The schedule is verified, and fits.
// RUN: kiln-opt %s --kiln-set-target=target=sm_90a --kiln-kgpu-pipeline -o /dev/null

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "pingpong", kgpu.stages = 4 : i32} {
// CHECK-LABEL: func.func @product
// CHECK: %[[RING:.*]] = kgpu.channel {{ *}}bytes fillers 1 readers 4 : <4 x (
// CHECK: %[[EVEN:.*]] = kgpu.channel {{ *}}threads fillers 4 readers 4 : <1 x ()>
// CHECK: %[[ODD:.*]] = kgpu.channel {{ *}}threads fillers 4 readers 4 : <1 x ()>
// CHECK: %[[EVENREAD:.*]] = kgpu.channel {{ *}}threads fillers 4 readers 4 : <1 x ()>
// CHECK: %[[ODDREAD:.*]] = kgpu.channel {{ *}}threads fillers 4 readers 4 : <1 x ()>
// CHECK: arith.muli
// CHECK: %[[COUNT:.*]] = arith.muli
// CHECK: %[[FIRST:.*]] = kgpu.first_program
// CHECK: %[[STEP:.*]] = kgpu.program_step
// CHECK: kgpu.roles @load warps 1 registers 40 {
// CHECK:   %[[TWICE:.*]] = arith.addi %[[STEP]], %[[STEP]]
// CHECK:   scf.for %[[P:.*]] = %[[FIRST]] to %[[COUNT]] step %[[TWICE]]
// CHECK:     %[[Q:.*]] = arith.addi %[[P]], %[[STEP]]
// CHECK:     %[[THERE:.*]] = arith.cmpi slt, %[[Q]], %[[COUNT]]
// CHECK:     scf.for
// CHECK:       kgpu.commit %[[RING]]
// CHECK:     scf.if %[[THERE]]
// CHECK:       scf.for
// CHECK:         kgpu.commit %[[RING]]
// CHECK: } @multiply_even warps 4 registers 232 {
// CHECK:   scf.for %[[P:.*]] = %[[FIRST]]
// CHECK:     %[[Q:.*]] = arith.addi %[[P]], %[[STEP]]
// CHECK:     %[[THERE:.*]] = arith.cmpi slt, %[[Q]], %[[COUNT]]
// CHECK:     %[[AGAIN:.*]] = arith.cmpi ne, %[[P]], %[[FIRST]]
// CHECK:     scf.if %[[AGAIN]]
// CHECK-NEXT:  kgpu.receive %[[ODD]]
// CHECK-NEXT:  kgpu.release %[[ODD]]
// CHECK:     %[[LOOP:.*]]:3 = scf.for
// CHECK:       kgpu.receive %[[RING]]
// CHECK:       kgpu.warpgroup_mma
// CHECK:     scf.if %[[THERE]]
// CHECK-NEXT:  kgpu.acquire %[[EVEN]]
// CHECK-NEXT:  kgpu.commit %[[EVEN]]
// CHECK:     kgpu.mma_wait %{{.*}} pending 0
// CHECK:     scf.if %[[AGAIN]]
// CHECK-NEXT:  kgpu.receive %[[ODDREAD]]
// CHECK-NEXT:  kgpu.release %[[ODDREAD]]
// CHECK:     kgpu.alloc {turn = 0 : i32}
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.copy_out
// CHECK-NEXT: kgpu.copy_out_wait read 0
// CHECK-NEXT: scf.if %[[THERE]]
// CHECK-NEXT:  kgpu.acquire %[[EVENREAD]]
// CHECK-NEXT:  kgpu.commit %[[EVENREAD]]
// CHECK:       kgpu.skip %[[LOOP]]#1 for
// CHECK: } @multiply_odd warps 4 registers 232 {
// CHECK:   scf.for %[[P:.*]] = %[[FIRST]]
// CHECK:     kgpu.skip
// CHECK:     scf.if
// CHECK:       %[[NEXT:.*]] = arith.addi %{{.*}}, %[[STEP]]
// CHECK:       %[[FOLLOWS:.*]] = arith.cmpi slt, %[[NEXT]], %[[COUNT]]
// CHECK:       kgpu.receive %[[EVEN]]
// CHECK:       kgpu.release %[[EVEN]]
// CHECK:       scf.for
// CHECK:         kgpu.warpgroup_mma
// CHECK:       scf.if %[[FOLLOWS]]
// CHECK-NEXT:    kgpu.acquire %[[ODD]]
// CHECK-NEXT:    kgpu.commit %[[ODD]]
// CHECK:       kgpu.receive %[[EVENREAD]]
// CHECK:       kgpu.alloc {turn = 0 : i32}
// CHECK:       kgpu.copy_out_wait read 0
// CHECK-NEXT:  scf.if %[[FOLLOWS]]
// CHECK-NEXT:    kgpu.acquire %[[ODDREAD]]
// CHECK-NEXT:    kgpu.commit %[[ODDREAD]]
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
