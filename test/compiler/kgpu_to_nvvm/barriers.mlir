// Each op emits the barriers that it declares: of the warp, the CTA or the cluster, whichever the program instance is.
// An atomic's barriers are outside its fences.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// CHECK-LABEL: llvm.func @kiln_one_warp(
// CHECK: "llvm.nvvm.bar.warp.sync"(%c-1_i32)
// CHECK: fence.acq_rel.gpu
// CHECK-NEXT: red.relaxed.gpu.global.add
// CHECK-NEXT: fence.acq_rel.gpu
// CHECK-NEXT: "llvm.nvvm.bar.warp.sync"(%c-1_i32)
// CHECK-NEXT: "llvm.nvvm.bar.warp.sync"(%c-1_i32)
// CHECK-NEXT: llvm.return
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @one_warp(%x: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
    %0 = tile.atomic_rmw add acq_rel gpu %x, %n : !tile.ptr<i32>, i32
    tile.barrier
    return
  }
}

// -----

// CHECK-LABEL: llvm.func @kiln_cta(
// CHECK: "llvm.nvvm.barrier.cta.sync.aligned.all"
// CHECK-NEXT: fence.acq_rel.gpu
// CHECK-NEXT: red.relaxed.gpu.global.add
// CHECK-NEXT: red.relaxed.gpu.global.add
// CHECK-NEXT: fence.acq_rel.gpu
// CHECK-NEXT: "llvm.nvvm.barrier.cta.sync.aligned.all"
// CHECK-NEXT: red.relaxed.gpu.global.add
// CHECK-NEXT: "llvm.nvvm.barrier.cta.sync.aligned.all"
// CHECK-NEXT: llvm.return
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @cta(%x: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
    %0 = tile.atomic_rmw add release gpu %x, %n : !tile.ptr<i32>, i32
    %1 = tile.atomic_rmw add acquire gpu %x, %n : !tile.ptr<i32>, i32
    %2 = tile.atomic_rmw add relaxed gpu %x, %n : !tile.ptr<i32>, i32
    tile.barrier
    return
  }
}

// -----

// CHECK-LABEL: llvm.func @kiln_cluster(
// CHECK: "llvm.nvvm.barrier.cluster.arrive.aligned"
// CHECK-NEXT: "llvm.nvvm.barrier.cluster.wait.aligned"
// CHECK-NEXT: fence.acq_rel.cta
// CHECK-NEXT: atom.acquire.cta.global.cas
// CHECK-NEXT: "llvm.nvvm.barrier.cluster.arrive.aligned"
// CHECK-NEXT: "llvm.nvvm.barrier.cluster.wait.aligned"
// CHECK-NEXT: "llvm.nvvm.barrier.cluster.arrive.aligned"
// CHECK-NEXT: "llvm.nvvm.barrier.cluster.wait.aligned"
// CHECK-NEXT: "llvm.nvvm.barrier.cta.sync.aligned.all"
// CHECK-NEXT: llvm.return
module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 2 : i32} {
  func.func public @cluster(%x: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
    %0 = tile.atomic_cas acq_rel cta %x, %n, %n : !tile.ptr<i32>, i32
    tile.barrier
    kgpu.barrier cta
    return
  }
}
