// Shared memory is accessed in the widest vectors that registers and memory have in common; other CTAs; slots, views,
// counters.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// A transpose: stored along rows, 16 bytes at a time; swizzled, so that reading along columns has no bank conflicts.
// CHECK-LABEL: llvm.func @kiln_vectors(
// CHECK-COUNT-4: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>
// CHECK: llvm.nvvm.barrier.cta.sync.aligned.all
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
#t = #layout.map<blocked [32, 64] vector 4 warps 4>
#m = #layout.map<swizzled [32, 64] element 4 bytes 128>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @vectors(%p: !tile.ptr<f32>) attributes {tile.kernel, kgpu.shared_bytes = 8192 : i64} {
    %z = arith.constant dense<1.0> : tensor<32x64xf32, #t>
    %m = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<32x64xf32, #m>
    kgpu.local_store %z, %m : tensor<32x64xf32, #t>, !kgpu.mem<32x64xf32, #m>
    kgpu.barrier cta
    %y = kgpu.local_load %m : !kgpu.mem<32x64xf32, #m> -> tensor<32x64xf32, #t>
    %q = tile.splat %p : !tile.ptr<f32> -> tensor<32x64x!tile.ptr<f32>, #t>
    tile.store %q, %y : tensor<32x64x!tile.ptr<f32>, #t>, tensor<32x64xf32, #t>
    return
  }
}

// -----

// A view that starts at byte 8 allows no wider vectors. The slot is a multiple of its bytes away.
// CHECK-LABEL: llvm.func @kiln_views(
// CHECK: %[[STEP:.*]] = arith.muli %{{.*}}, %c64_i32
// CHECK: llvm.getelementptr %{{.*}}[%[[STEP]]] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
// CHECK: llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<2xf32>
#t = #layout.map<replicated [8] warps 4>
#m = #layout.map<row_major [16]>
#v = #layout.map<row_major [8]>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @views(%p: !tile.ptr<f32>, %i: i32) attributes {tile.kernel, kgpu.shared_bytes = 128 : i64} {
    %m = kgpu.alloc {offset = 0 : i64, slots = 2 : i32} : !kgpu.mem<16xf32, #m>
    %s = kgpu.slot %m[%i] : !kgpu.mem<16xf32, #m>
    %v = kgpu.view %s offset 2 : !kgpu.mem<16xf32, #m> -> !kgpu.mem<8xf32, #v>
    %y = kgpu.local_load %v : !kgpu.mem<8xf32, #v> -> tensor<8xf32, #t>
    %q = tile.splat %p : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>, #t>
    tile.store %q, %y : tensor<8x!tile.ptr<f32>, #t>, tensor<8xf32, #t>
    return
  }
}

// -----

// Partials for every CTA: lane i sends them to CTA i; a cluster barrier has two halves.
// CHECK-LABEL: llvm.func @kiln_cluster(
// CHECK: "llvm.nvvm.barrier.cluster.arrive.aligned"
// CHECK: "llvm.nvvm.barrier.cluster.wait.aligned"
// CHECK: scf.if
// CHECK: "llvm.nvvm.mapa.shared.cluster"({{.*}}) : (!llvm.ptr<3>, i32) -> !llvm.ptr<7>
// CHECK-NEXT: llvm.store %{{.*}} : f32, !llvm.ptr<7>
// CHECK-NOT: llvm.store
// CHECK: "llvm.nvvm.barrier.cluster.arrive.aligned"
// CHECK-NEXT: "llvm.nvvm.barrier.cluster.wait.aligned"
// CHECK: llvm.load %{{.*}} : !llvm.ptr<3> -> vector<4xf32>
#part = #layout.map<digits [16] lane (0) (0) (0) (0) (0) warp (1) (2) cta (4) (8)>
#all = #layout.map<replicated [16] warps 4 ctas 4>
#m = #layout.map<digits [16] cta (0) (0) offset (1) (2) (4) (8)>
module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 4 : i32} {
  func.func public @cluster(%p: !tile.ptr<f32>) attributes {tile.kernel, kgpu.shared_bytes = 64 : i64} {
    kgpu.cluster_arrive
    %z = arith.constant dense<1.0> : tensor<16xf32, #part>
    %m = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<16xf32, #m>
    kgpu.cluster_wait
    kgpu.local_store %z, %m : tensor<16xf32, #part>, !kgpu.mem<16xf32, #m>
    kgpu.barrier cluster
    %y = kgpu.local_load %m : !kgpu.mem<16xf32, #m> -> tensor<16xf32, #all>
    %q = tile.splat %p : !tile.ptr<f32> -> tensor<16x!tile.ptr<f32>, #all>
    tile.store %q, %y : tensor<16x!tile.ptr<f32>, #all>, tensor<16xf32, #all>
    return
  }
}

// -----

// Counters: an index out of range counts nothing. A gather clamps its index, so that it never leaves the memory.
// CHECK-LABEL: llvm.func @kiln_by_index(
// CHECK: arith.cmpi ult, %{{.*}}, %c128_i32
// CHECK: scf.if
// CHECK: llvm.atomicrmw add %{{.*}} monotonic : !llvm.ptr<3>, i32
// CHECK: arith.minui %{{.*}}, %c127_i32
// CHECK: llvm.load %{{.*}} : !llvm.ptr<3> -> i32
#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @by_index(%p: !tile.ptr<i32>) attributes {tile.kernel, kgpu.shared_bytes = 512 : i64} {
    %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
    %ps = tile.splat %p : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #t>
    %pp = tile.addptr %ps, %r : tensor<128x!tile.ptr<i32>, #t>, tensor<128xi32, #t>
    %i = tile.load %pp : tensor<128x!tile.ptr<i32>, #t> -> tensor<128xi32, #t>
    %m = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xi32, #m>
    kgpu.local_atomic_add %m[%i], %i : !kgpu.mem<128xi32, #m>, tensor<128xi32, #t>, tensor<128xi32, #t>
    kgpu.barrier cta
    %y = kgpu.local_gather %m[%i] 0 : !kgpu.mem<128xi32, #m>, tensor<128xi32, #t> -> tensor<128xi32, #t>
    tile.store %pp, %y : tensor<128x!tile.ptr<i32>, #t>, tensor<128xi32, #t>
    return
  }
}
