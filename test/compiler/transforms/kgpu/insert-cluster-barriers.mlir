// Cluster barriers: what other CTAs access, in their own memory or in global memory, needs a barrier of all CTAs;
// before the first write to another CTA, all CTAs must be running.
// RUN: kiln-opt %s --split-input-file --kiln-insert-barriers --kiln-verify-barriers | FileCheck %s

#row = #layout.map<blocked [128] vector 1 warps 4 ctas 2 split 0>
#each = #layout.map<digits [128] cta (0) offset (1) (2) (4) (8) (16) (32) (64)>

module attributes {kgpu.cluster = 2 : i32} {

// A barrier before the first such store: no CTA arrives there without having waited.
// CHECK-LABEL: @cluster_barrier_before_stores
// CHECK-NEXT: kgpu.cluster_arrive
// CHECK-NEXT: kgpu.alloc
// CHECK-NEXT: kgpu.cluster_wait
// CHECK-NEXT: kgpu.barrier cluster
// CHECK-NEXT: kgpu.local_store
// CHECK-NOT: kgpu.cluster_wait
  func.func @cluster_barrier_before_stores(%x: tensor<128xf32, #row>) {
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #each>
    kgpu.barrier cluster
    kgpu.local_store %x, %a : tensor<128xf32, #row>, !kgpu.mem<128xf32, #each>
    return
  }

// The user's barrier counts too, wherever it is.
// CHECK-LABEL: @user_barrier_before_stores
// CHECK-NEXT: kgpu.cluster_arrive
// CHECK: kgpu.cluster_wait
// CHECK-NEXT: scf.if
// CHECK: tile.barrier
// CHECK: kgpu.local_store
// CHECK-NOT: kgpu.cluster_wait
  func.func @user_barrier_before_stores(%c: i1, %x: tensor<128xf32, #row>) {
    scf.if %c {
      tile.barrier
    }
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #each>
    kgpu.local_store %x, %a : tensor<128xf32, #row>, !kgpu.mem<128xf32, #each>
    return
  }

// An atomic that orders memory brings one too.
// CHECK-LABEL: @cluster_atomic_before_stores
// CHECK-NEXT: kgpu.cluster_arrive
// CHECK: kgpu.cluster_wait
// CHECK-NEXT: tile.atomic_rmw
// CHECK: kgpu.local_store
// CHECK-NOT: kgpu.cluster_wait
  func.func @cluster_atomic_before_stores(%p: !tile.ptr<i32>, %one: i32, %x: tensor<128xf32, #row>) {
    %old = tile.atomic_rmw add acq_rel gpu %p, %one : !tile.ptr<i32>, i32
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #each>
    kgpu.local_store %x, %a : tensor<128xf32, #row>, !kgpu.mem<128xf32, #each>
    return
  }

// Stores into other CTAs: all must run first, and the barrier is the cluster's.
// CHECK-LABEL: @cluster
// CHECK-NEXT: kgpu.cluster_arrive
// CHECK: kgpu.cluster_wait
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.barrier cluster
// CHECK-NEXT: kgpu.local_load
// After memory of a remote store was read, a CTA barrier is not enough. The program's own barrier is the cluster's.
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.barrier cluster
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: kgpu.local_load
// CHECK-NEXT: tile.atomic_rmw
// CHECK-NEXT: kgpu.local_store
  func.func @cluster(%p: !tile.ptr<i32>, %one: i32, %x: tensor<128xf32, #row>) {
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #each>
    kgpu.local_store %x, %a : tensor<128xf32, #row>, !kgpu.mem<128xf32, #each>
    %y = kgpu.local_load %a : !kgpu.mem<128xf32, #each> -> tensor<128xf32, #row>
    kgpu.barrier cta
    kgpu.local_store %y, %a : tensor<128xf32, #row>, !kgpu.mem<128xf32, #each>
    tile.barrier
    %z = kgpu.local_load %a : !kgpu.mem<128xf32, #each> -> tensor<128xf32, #row>
    %old = tile.atomic_rmw add release gpu %p, %one : !tile.ptr<i32>, i32
    kgpu.local_store %z, %a : tensor<128xf32, #row>, !kgpu.mem<128xf32, #each>
    return
  }

// The wait for all CTAs to run comes before a loop whose barriers would arrive a second time.
// CHECK-LABEL: @barrier_in_a_loop
// CHECK-NEXT: kgpu.cluster_arrive
// CHECK: kgpu.cluster_wait
// CHECK-NEXT: scf.for
// CHECK-NEXT: tile.barrier
// CHECK-NOT: kgpu.cluster_wait
  func.func @barrier_in_a_loop(%n: i32, %x: tensor<128xf32, #row>) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #each>
    scf.for %i = %zero to %n step %one : i32 {
      tile.barrier
    }
    kgpu.local_store %x, %a : tensor<128xf32, #row>, !kgpu.mem<128xf32, #each>
    return
  }
}
