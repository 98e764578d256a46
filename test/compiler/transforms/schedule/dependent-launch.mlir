// If launches overlap, the first copies into the ring that do not depend on the previous launch are issued before the
// wait for it; then each role waits separately, before its first access.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s
// RUN: kiln-opt %s --kiln-set-target=target=sm_90a --kiln-kgpu-pipeline --kiln-kgpu-to-nvvm | FileCheck %s --check-prefix=PTX
// Without overlap, none of it is there.
// RUN: sed 's/, kgpu.pdl//' %s | kiln-opt - --kiln-set-target=target=sm_90a --kiln-kgpu-pipeline --kiln-kgpu-to-nvvm | FileCheck %s --check-prefix=ALONE

// ALONE-NOT: bulk.prefetch
// ALONE-NOT: griddepcontrol

module attributes {kgpu.num_warps = 8 : i32, kgpu.pdl} {
// CHECK-LABEL: func.func @product(
// CHECK-DAG: %[[MA:.*]] = kgpu.tensor_map %{{.*}} box [128, 64] swizzle 128
// CHECK-DAG: %[[MB:.*]] = kgpu.tensor_map %{{.*}} box [256, 64] swizzle 128
// CHECK: kgpu.roles @load
// CHECK:   %[[ANY:.*]] = arith.cmpi slt, %[[FIRST:.*]], %[[COUNT:.*]] : i32
// CHECK:   scf.if %[[ANY]] {
// CHECK:     arith.remui %[[FIRST]]
// CHECK:     %[[END:.*]] = arith.minsi %{{.*}}, %c192_i32
// CHECK:     scf.for %[[K:.*]] = %c0_i32 to %[[END]] step %c64_i32
// CHECK-NEXT:  kgpu.prefetch %[[MA]][%{{.*}}, %[[K]]] as !kgpu.mem<128x64xf16
// CHECK-NEXT:  kgpu.prefetch %[[MB]][%{{.*}}, %[[K]]] as !kgpu.mem<256x64xf16
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK:   scf.for %{{.*}} = %[[FIRST]] to %[[COUNT]]
// CHECK:   kgpu.copy_in
// CHECK: @multiply
// CHECK-NOT: kgpu.prefetch

// PTX-LABEL: llvm.func @kiln_product
// The next launch may begin at once: this one's blocks leave no room anyway.
// PTX: griddepcontrol.launch_dependents
// PTX-NOT: griddepcontrol.wait
// PTX: cp.async.bulk.prefetch.tensor.2d.L2.global.tile
// PTX-NOT: cp.async.bulk.tensor
// PTX: griddepcontrol.wait
// PTX: cp.async.bulk.tensor.2d.shared::cluster.global
// PTX-NOT: cp.async.bulk.tensor.2d.global
// PTX: griddepcontrol.wait
// PTX: cp.async.bulk.tensor.2d.global.shared::cta
// Warps that do nothing wait too: the next launch waits only for this one.
// PTX: griddepcontrol.wait
// PTX-NEXT: llvm.return
  func.func @product(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %m: i32 {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}, %k: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %c256 = arith.constant 256 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x256xf32>
    %rows = arith.extsi %m : i32 to i64
    %columns = arith.extsi %n : i32 to i64
    %depth = arith.extsi %k : i32 to i64
    %program = tile.program_id x : i32
    %across = arith.divsi %n, %c256 : i32
    %i = arith.divsi %program, %across : i32
    %j = arith.remsi %program, %across : i32
    %row = arith.muli %i, %c128 : i32
    %column = arith.muli %j, %c256 : i32
    %da = tile.make_desc %a, shape [%rows, %depth] strides [%depth, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%columns, %depth] strides [%depth, %one] : !tile.ptr<f16> -> !tile.desc<tensor<256x64xf16>>
    %dc = tile.make_desc %c, shape [%rows, %columns] strides [%columns, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x256xf16>>
    %sum = scf.for %at = %c0 to %k step %c64 iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i32 {
      %x = tile.desc_load %da[%row, %at] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%column, %at] : !tile.desc<tensor<256x64xf16>> -> tensor<256x64xf16>
      %t = tile.trans %y [1, 0] : tensor<256x64xf16> -> tensor<64x256xf16>
      %d = tile.dot %x, %t, %acc : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    %out = arith.truncf %sum : tensor<128x256xf32> to tensor<128x256xf16>
    tile.desc_store %dc[%row, %column], %out : !tile.desc<tensor<128x256xf16>>, tensor<128x256xf16>
    return
  }
}
