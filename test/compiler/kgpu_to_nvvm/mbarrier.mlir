// RUN: kiln-opt %s --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// One mbarrier after each slot, with one arrival per warp, initialised before the cluster barrier; the first arrival is
// relaxed.
// CHECK-LABEL: llvm.func @kiln_mbarrier(
// CHECK: scf.if
// CHECK: "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}" %{{.*}}, %c4_i32
// CHECK: "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}" %{{.*}}, %c4_i32
// CHECK-NOT: mbarrier.init
// CHECK: "fence.mbarrier_init.release.cluster;"
// CHECK: "llvm.nvvm.barrier.cluster.arrive.relaxed.aligned"
// CHECK: "llvm.nvvm.barrier.cluster.wait.aligned"
// CHECK: scf.for
// Lane i sends the partial to CTA i and counts it there; there is no store and no cluster barrier.
// CHECK-COUNT-2: mapa.shared::cluster.u32
// CHECK: "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [$0], $1, [$2];"
// CHECK-NOT: barrier.cluster
// CHECK: mbarrier.arrive.expect_tx.shared::cta.b64
// CHECK-SAME: mbarrier.try_wait.acquire.cluster.shared::cta.b64
// CHECK-SAME: bar.warp.sync
// CHECK: llvm.load %{{.*}} : !llvm.ptr<3> -> vector<4xf32>
// CHECK-NOT: barrier.cluster
#part = #layout.map<digits [16] lane (0) (0) (0) (0) (0) warp (1) (2) cta (4) (8)>
#all = #layout.map<replicated [16] warps 4 ctas 4>
#m = #layout.map<digits [16] cta (0) (0) offset (1) (2) (4) (8)>
module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 4 : i32} {
  func.func public @mbarrier(%p: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 160 : i64} {
    kgpu.cluster_arrive relaxed
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %z = arith.constant dense<1.0> : tensor<16xf32, #part>
    %q = tile.splat %p : !tile.ptr<f32> -> tensor<16x!tile.ptr<f32>, #all>
    kgpu.cluster_wait
    scf.for %i = %zero to %n step %one iter_args(%phase = %zero) -> (i32) : i32 {
      %m = kgpu.alloc {mbarrier, offset = 0 : i64, slots = 2 : i32} : !kgpu.mem<16xf32, #m>
      %s = kgpu.slot %m[%phase] : !kgpu.mem<16xf32, #m>
      kgpu.local_store %z, %s : tensor<16xf32, #part>, !kgpu.mem<16xf32, #m>
      kgpu.await %s : !kgpu.mem<16xf32, #m>
      %y = kgpu.local_load %s : !kgpu.mem<16xf32, #m> -> tensor<16xf32, #all>
      tile.store %q, %y : tensor<16x!tile.ptr<f32>, #all>, tensor<16xf32, #all>
      %next = arith.xori %phase, %one : i32
      scf.yield %next : i32
    }
    return
  }

  // What is awaited once is armed when it is initialised: one arrival, with the bytes of all ctas, and none later. All
  // lanes wait for the first phase. What a loop awaits is not.
  // CHECK-LABEL: llvm.func @kiln_once(
  // CHECK: "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}" %{{.*}}, %c1_i32
  // CHECK: "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}" %{{.*}}, %c1_i32
  // CHECK: "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}" %{{.*}}, %c4_i32
  // CHECK: "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}" %{{.*}}, %c4_i32
  // CHECK: "fence.mbarrier_init.release.cluster;"
  // CHECK-COUNT-2: "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}" %{{.*}}, %c64_i32
  // CHECK-NOT: mbarrier.arrive
  // Both are awaited together, from one address.
  // CHECK: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 over, [$0+64], 0;
  // CHECK-SAME: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 over, [$0+144], 0;
  // CHECK-NOT: bar.warp.sync
  // CHECK: scf.for
  // Each lane that waits has arrived at both before it waits for either.
  // CHECK: mbarrier.arrive.expect_tx.shared::cta.b64 phase0, [$1], $3;
  // CHECK-SAME: mbarrier.arrive.expect_tx.shared::cta.b64 phase1, [$2], $4;
  // CHECK-SAME: mbarrier.try_wait.acquire.cluster.shared::cta.b64 over, [$1], phase0;
  // CHECK-SAME: mbarrier.try_wait.acquire.cluster.shared::cta.b64 over, [$2], phase1;
  // CHECK-SAME: bar.warp.sync
  // CHECK-NOT: mbarrier.try_wait
  func.func public @once(%p: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 384 : i64} {
    kgpu.cluster_arrive relaxed
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %z = arith.constant dense<1.0> : tensor<16xf32, #part>
    %q = tile.splat %p : !tile.ptr<f32> -> tensor<16x!tile.ptr<f32>, #all>
    kgpu.cluster_wait
    %a = kgpu.alloc {mbarrier, offset = 0 : i64} : !kgpu.mem<16xf32, #m>
    %b = kgpu.alloc {mbarrier, offset = 80 : i64} : !kgpu.mem<16xf32, #m>
    kgpu.local_store %z, %a : tensor<16xf32, #part>, !kgpu.mem<16xf32, #m>
    kgpu.local_store %z, %b : tensor<16xf32, #part>, !kgpu.mem<16xf32, #m>
    kgpu.await %a : !kgpu.mem<16xf32, #m>
    kgpu.await %b : !kgpu.mem<16xf32, #m>
    %x = kgpu.local_load %a : !kgpu.mem<16xf32, #m> -> tensor<16xf32, #all>
    %y = kgpu.local_load %b : !kgpu.mem<16xf32, #m> -> tensor<16xf32, #all>
    tile.store %q, %x : tensor<16x!tile.ptr<f32>, #all>, tensor<16xf32, #all>
    tile.store %q, %y : tensor<16x!tile.ptr<f32>, #all>, tensor<16xf32, #all>
    scf.for %i = %zero to %n step %one  : i32 {
      %c = kgpu.alloc {mbarrier, offset = 160 : i64} : !kgpu.mem<16xf32, #m>
      %d = kgpu.alloc {mbarrier, offset = 240 : i64} : !kgpu.mem<16xf32, #m>
      kgpu.local_store %z, %c : tensor<16xf32, #part>, !kgpu.mem<16xf32, #m>
      kgpu.local_store %z, %d : tensor<16xf32, #part>, !kgpu.mem<16xf32, #m>
      kgpu.await %c : !kgpu.mem<16xf32, #m>
      kgpu.await %d : !kgpu.mem<16xf32, #m>
      %v = kgpu.local_load %c : !kgpu.mem<16xf32, #m> -> tensor<16xf32, #all>
      %w = kgpu.local_load %d : !kgpu.mem<16xf32, #m> -> tensor<16xf32, #all>
      tile.store %q, %v : tensor<16x!tile.ptr<f32>, #all>, tensor<16xf32, #all>
      tile.store %q, %w : tensor<16x!tile.ptr<f32>, #all>, tensor<16xf32, #all>
    }
    return
  }
}
