// A tile that is combined into a described array: by the copy engine from shared memory where it can and nobody could
// tell, else by atomics of threads.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-lower-desc-reductions))' | FileCheck %s
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_120a},func.func(kiln-lower-desc-reductions))' | FileCheck %s
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_80},func.func(kiln-lower-desc-reductions))' | FileCheck %s --check-prefix=THREADS
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_89},func.func(kiln-lower-desc-reductions))' | FileCheck %s --check-prefix=THREADS
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=cpu-avx2},func.func(kiln-lower-desc-reductions))' | FileCheck %s --check-prefix=THREADS
// THREADS-NOT: kgpu.copy_out

!p = !tile.ptr<f32>
!d = !tile.desc<tensor<64x64xf32>>
module attributes {kgpu.num_warps = 4 : i32} {
// Two of a kind commute, in a branch too; they leave through one memory, one after the other.
// CHECK-LABEL: func.func @engine
// CHECK: %[[DESC:.*]] = tile.make_desc
// CHECK: %[[MAP:.*]] = kgpu.tensor_map %[[DESC]] box [64, 32] swizzle 128
// CHECK: %[[MEMORY:.*]] = kgpu.alloc : <64x64xf32
// CHECK: %[[V:.*]] = tile.desc_load
// CHECK-NEXT: kgpu.copy_out_wait read 0
// CHECK-NEXT: kgpu.local_store %[[V]], %[[MEMORY]]
// CHECK-NEXT: kgpu.copy_out %[[MEMORY]] by "fadd" to %[[MAP]][%c0_i32, %[[ROW:.*]]]
// CHECK: scf.if
// CHECK: kgpu.copy_out_wait read 0
// CHECK-NEXT: kgpu.local_store %[[V]], %[[MEMORY]]
// CHECK-NEXT: kgpu.copy_out %[[MEMORY]] by "fadd"
// CHECK-NOT: tile.desc_reduce
// CHECK: kgpu.copy_out_wait 0
// CHECK-NEXT: return
// Elements before the first or behind the last of the array touch nothing.
// THREADS-LABEL: func.func @engine
// THREADS: arith.extsi %{{.*}} : i32 to i64
// THREADS: %[[ABOVE:.*]] = arith.cmpi sge
// THREADS: %[[BELOW:.*]] = arith.cmpi slt
// THREADS: arith.andi %[[ABOVE]], %[[BELOW]] : tensor<64xi1>
// THREADS: %[[WHERE:.*]] = tile.addptr
// THREADS-NEXT: tile.atomic_rmw fadd relaxed gpu %[[WHERE]], %{{.*}} mask
// THREADS: scf.if
// THREADS: tile.atomic_rmw fadd
// THREADS-NOT: tile.desc_reduce
  func.func @engine(%x: !p {tile.disjoint, tile.divisibility = 16 : i64}, %y: !p {tile.disjoint, tile.divisibility = 16 : i64}, %n: i64, %s: i64 {tile.divisibility = 16 : i64}, %more: i1) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %p = tile.program_id x : i32
    %row = arith.muli %p, %c64 : i32
    %dx = tile.make_desc %x, shape [%n, %s] strides [%s, %one] : !p -> !d
    %dy = tile.make_desc %y, shape [%n, %s] strides [%s, %one] : !p -> !d
    %v = tile.desc_load %dx[%row, %c0] : !d -> tensor<64x64xf32>
    tile.desc_reduce fadd %dy[%c0, %row], %v : !d, tensor<64x64xf32>
    scf.if %more {
      tile.desc_reduce fadd %dy[%row, %row], %v : !d, tensor<64x64xf32>
    }
    return
  }

// What the kernel reads may be what was combined.
// CHECK-LABEL: func.func @read
// CHECK: tile.atomic_rmw fadd relaxed gpu
// CHECK-NOT: kgpu.copy_out
  func.func @read(%y: !p {tile.disjoint, tile.divisibility = 16 : i64}, %n: i64, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %one = arith.constant 1 : i64
    %dy = tile.make_desc %y, shape [%n, %s] strides [%s, %one] : !p -> !d
    %v = tile.desc_load %dy[%c0, %c0] : !d -> tensor<64x64xf32>
    tile.desc_reduce fadd %dy[%c0, %c0], %v : !d, tensor<64x64xf32>
    return
  }

// Who counts says that this is done.
// CHECK-LABEL: func.func @counted
// CHECK: tile.atomic_rmw fadd relaxed gpu
// CHECK-NOT: kgpu.copy_out
  func.func @counted(%x: !p {tile.disjoint, tile.divisibility = 16 : i64}, %y: !p {tile.disjoint, tile.divisibility = 16 : i64}, %count: !tile.ptr<i32> {tile.disjoint}, %n: i64, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %one = arith.constant 1 : i64
    %dx = tile.make_desc %x, shape [%n, %s] strides [%s, %one] : !p -> !d
    %dy = tile.make_desc %y, shape [%n, %s] strides [%s, %one] : !p -> !d
    %v = tile.desc_load %dx[%c0, %c0] : !d -> tensor<64x64xf32>
    tile.desc_reduce fadd %dy[%c0, %c0], %v : !d, tensor<64x64xf32>
    %old = tile.atomic_rmw add acq_rel gpu %count, %c1 : !tile.ptr<i32>, i32
    return
  }

// Another kind may come in between; the engine knows integers as unsigned; rows of unknown alignment it cannot step by.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-4: tile.atomic_rmw
// CHECK-NOT: kgpu.copy_out
  func.func @others(%x: !tile.ptr<i32> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<i32> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<i32> {tile.disjoint, tile.divisibility = 16 : i64}, %w: !tile.ptr<i32> {tile.disjoint, tile.divisibility = 16 : i64}, %n: i64, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %one = arith.constant 1 : i64
    %dx = tile.make_desc %x, shape [%n, %s] strides [%s, %one] : !tile.ptr<i32> -> !tile.desc<tensor<64x64xi32>>
    %dy = tile.make_desc %y, shape [%n, %s] strides [%s, %one] : !tile.ptr<i32> -> !tile.desc<tensor<64x64xi32>>
    %dz = tile.make_desc %z, shape [%n, %s] strides [%s, %one] : !tile.ptr<i32> -> !tile.desc<tensor<64x64xi32>>
    %dw = tile.make_desc %w, shape [%n, %n] strides [%n, %one] : !tile.ptr<i32> -> !tile.desc<tensor<64x64xi32>>
    %v = tile.desc_load %dx[%c0, %c0] : !tile.desc<tensor<64x64xi32>> -> tensor<64x64xi32>
    tile.desc_reduce add %dy[%c0, %c0], %v : !tile.desc<tensor<64x64xi32>>, tensor<64x64xi32>
    tile.desc_reduce umax %dy[%c0, %c0], %v : !tile.desc<tensor<64x64xi32>>, tensor<64x64xi32>
    tile.desc_reduce max %dz[%c0, %c0], %v : !tile.desc<tensor<64x64xi32>>, tensor<64x64xi32>
    tile.desc_reduce add %dw[%c0, %c0], %v : !tile.desc<tensor<64x64xi32>>, tensor<64x64xi32>
    return
  }
}
