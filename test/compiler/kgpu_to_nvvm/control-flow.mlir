// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

#b = #layout.map<blocked [256] order [0] vector 2 warps 4>

// A loop carries one scalar per register.
// CHECK-LABEL: llvm.func @kiln_loops(
// CHECK: scf.for %{{.*}} iter_args(%{{.*}} = %cst, %{{.*}} = %cst) -> (f32, f32)  : i32
// CHECK: scf.if %{{.*}} -> (f32, f32)
// CHECK: scf.while (%{{.*}}, %{{.*}}, %{{.*}}) : (i32, f32, f32) -> (i32, f32, f32)
// CHECK: scf.condition(%{{.*}}) %{{.*}}, %{{.*}}, %{{.*}} : i32, f32, f32
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @loops(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %z = arith.constant dense<0.0> : tensor<256xf32, #b>
    %r = tile.make_range 0 to 256 : tensor<256xi32, #b>
    %s = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #b>
    %p = tile.addptr %s, %r : tensor<256x!tile.ptr<f32>, #b>, tensor<256xi32, #b>
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%a = %z) -> tensor<256xf32, #b> : i32 {
      %v = tile.load %p : tensor<256x!tile.ptr<f32>, #b> -> tensor<256xf32, #b>
      %w = arith.addf %a, %v : tensor<256xf32, #b>
      scf.yield %w : tensor<256xf32, #b>
    }
    %odd = arith.cmpi sgt, %n, %c1 : i32
    %y = scf.if %odd -> tensor<256xf32, #b> {
      %v = arith.mulf %sum, %sum : tensor<256xf32, #b>
      scf.yield %v : tensor<256xf32, #b>
    } else {
      scf.yield %sum : tensor<256xf32, #b>
    }
    %l:2 = scf.while (%k = %n, %t = %y) : (i32, tensor<256xf32, #b>) -> (i32, tensor<256xf32, #b>) {
      %more = arith.cmpi sgt, %k, %c0 : i32
      scf.condition(%more) %k, %t : i32, tensor<256xf32, #b>
    } do {
    ^bb0(%k: i32, %t: tensor<256xf32, #b>):
      %u = arith.addf %t, %t : tensor<256xf32, #b>
      %k1 = arith.subi %k, %c1 : i32
      scf.yield %k1, %u : i32, tensor<256xf32, #b>
    }
    tile.store %p, %l#1 : tensor<256x!tile.ptr<f32>, #b>, tensor<256xf32, #b>
    return
  }
}

// -----

#b = #layout.map<blocked [256] order [0] vector 2 warps 4>

// A divisor that may be zero is guarded; one that cannot be is not. Sums that cannot overflow are marked so.
// CHECK-LABEL: llvm.func @kiln_scalars(
// CHECK: %[[ZERO:.*]] = arith.cmpi eq, %[[D:arg[0-9]+]], %c0_i32
// CHECK: %[[SAFE:.*]] = arith.select %[[ZERO]], %c1_i32, %[[D]]
// CHECK: arith.divui %{{.*}}, %[[SAFE]]
// CHECK-NOT: arith.select
// CHECK: arith.remui %{{.*}}, %c10_i32
// CHECK: arith.addi %{{.*}}, %c5_i32 overflow<nsw>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @scalars(%x: !tile.ptr<i32>, %n: i32, %d: i32) attributes {tile.kernel} {
    %c5 = arith.constant 5 : i32
    %c10 = arith.constant 10 : i32
    %q = arith.divui %n, %d : i32
    %r = arith.remui %q, %c10 : i32
    %s = arith.addi %r, %c5 : i32
    tile.store %x, %s : !tile.ptr<i32>, i32
    return
  }
}

// -----

// The wait for a product that a loop leaves in flight is in the branch where the loop runs: after the branch the
// accumulator may come from other registers, and ptxas serialises such products.
// CHECK-LABEL: llvm.func @kiln_in_flight(
// CHECK: %[[RUNS:.*]] = arith.cmpi sgt, %arg1, %c0_i32
// CHECK: %[[SUM:.*]]:4 = scf.if %[[RUNS]] -> (f32, f32, f32, f32) {
// CHECK:   scf.for
// CHECK:     wgmma.mma_async
// CHECK:     wgmma.wait_group.sync.aligned 1;
// CHECK:     scf.yield
// CHECK:   wgmma.wait_group.sync.aligned 0;
// CHECK:   scf.yield
// CHECK: } else {
// CHECK:   scf.yield %cst, %cst, %cst, %cst
// CHECK: wgmma.wait_group.sync.aligned 0;{{.*}} %[[SUM]]#0
#a = #layout.map<swizzled [64, 64] element 2 bytes 128>
#b = #layout.map<swizzled [64, 8] order [0, 1] element 2 bytes 128>
#c = #layout.map<wgmma_acc [64, 8] groups 1>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @in_flight(%p: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 9216 : i64} {
    %lb = arith.constant 0 : i32
    %step = arith.constant 1 : i32
    %z = arith.constant dense<0.0> : tensor<64x8xf32, #c>
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #a>
    %b = kgpu.alloc {offset = 8192 : i64} : !kgpu.mem<64x8xf16, #b>
    %sum = scf.for %i = %lb to %n step %step iter_args(%acc = %z) -> (tensor<64x8xf32, #c>) : i32 {
      %d = kgpu.warpgroup_mma %a, %b, %acc : !kgpu.mem<64x64xf16, #a>, !kgpu.mem<64x8xf16, #b> -> tensor<64x8xf32, #c>
      %e = kgpu.mma_wait %d pending 1 : tensor<64x8xf32, #c>
      scf.yield %e : tensor<64x8xf32, #c>
    }
    %done = kgpu.mma_wait %sum pending 0 : tensor<64x8xf32, #c>
    %q = tile.splat %p : !tile.ptr<f32> -> tensor<64x8x!tile.ptr<f32>, #c>
    tile.store %q, %done : tensor<64x8x!tile.ptr<f32>, #c>, tensor<64x8xf32, #c>
    return
  }
}

// -----

// Pointers are carried as they are: a register cannot hold two.
// CHECK-LABEL: llvm.func @kiln_carried_pointers(
// CHECK: scf.for %{{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> ({{i64|!llvm.ptr<1>}}, {{i64|!llvm.ptr<1>}})
#b = #layout.map<blocked [256] order [0] vector 2 warps 4>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @carried_pointers(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %one = arith.constant dense<1.0> : tensor<256xf16, #b>
    %r = tile.make_range 0 to 256 : tensor<256xi32, #b>
    %s = tile.splat %x : !tile.ptr<f16> -> tensor<256x!tile.ptr<f16>, #b>
    %p = tile.addptr %s, %r : tensor<256x!tile.ptr<f16>, #b>, tensor<256xi32, #b>
    %end = scf.for %i = %c0 to %n step %c1 iter_args(%at = %p) -> tensor<256x!tile.ptr<f16>, #b> : i32 {
      tile.store %at, %one : tensor<256x!tile.ptr<f16>, #b>, tensor<256xf16, #b>
      %next = tile.addptr %at, %r : tensor<256x!tile.ptr<f16>, #b>, tensor<256xi32, #b>
      scf.yield %next : tensor<256x!tile.ptr<f16>, #b>
    }
    return
  }
}
