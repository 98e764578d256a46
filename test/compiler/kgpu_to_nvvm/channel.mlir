// Channels: mbarriers after the slots, initialised before the first barrier; all lanes wait; one arrival per warp.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// Two slots of 1024 bytes at 2048, mbarriers at 4096: full (one arrival), empty (four warps). The fence makes them
// visible to the copy engine; one barrier of all threads follows the last channel.
// CHECK-LABEL: llvm.func @kiln_bytes(
// CHECK: %[[SHARED:.*]] = llvm.mlir.addressof @shared_memory
// CHECK: %[[ADDRESS:.*]] = llvm.ptrtoint %[[SHARED]] : !llvm.ptr<3> to i32
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i32
// CHECK: scf.if %[[FIRST]] {
// CHECK-NEXT: %[[F0:.*]] = arith.addi %[[ADDRESS]], %c4096_i32
// CHECK-NEXT: "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}" %[[F0]], %c1_i32
// CHECK-NEXT: %[[E0:.*]] = arith.addi %[[ADDRESS]], %c4104_i32
// CHECK-NEXT: "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}" %[[E0]], %c4_i32
// CHECK-NEXT: %[[F1:.*]] = arith.addi %[[ADDRESS]], %c4112_i32
// CHECK-NEXT: mbarrier.init{{.*}} %[[F1]], %c1_i32
// CHECK-NEXT: %[[E1:.*]] = arith.addi %[[ADDRESS]], %c4120_i32
// CHECK-NEXT: mbarrier.init{{.*}} %[[E1]], %c4_i32
// CHECK-NEXT: "fence.mbarrier_init.release.cluster;"
// CHECK-NOT: barrier.cta
// CHECK: scf.if
// CHECK: mbarrier.init
// CHECK: "llvm.nvvm.barrier.cta.sync.aligned.all"
// CHECK-NOT: barrier.cta
// The producer waits on its slot's empty barrier, with the opposite parity; one elected lane announces the expected
// bytes.
// CHECK: %[[ELECTED:.*]] = llvm.call_intrinsic "llvm.nvvm.elect.sync"
// CHECK: %[[LEADER:.*]] = llvm.extractvalue %[[ELECTED]][1]
// CHECK: scf.for {{.*}} iter_args(%[[SLOT:.*]] = %c0_i32, %[[PARITY:.*]] = %c0_i32)
// CHECK: %[[OTHER:.*]] = arith.xori %[[PARITY]], %c1_i32
// CHECK: %[[AT:.*]] = arith.muli %[[SLOT]], %c16_i32 overflow<nsw, nuw>
// CHECK: %[[EMPTY:.*]] = arith.addi %{{.*}}, %[[AT]]
// CHECK: "{\0A\09.reg .pred over;\0A\09WAIT:\0A\09mbarrier.try_wait.parity.shared::cta.b64 over, [$0], $1;\0A\09@!over bra WAIT;\0A\09}", "r,r,~{memory}" %[[EMPTY]], %[[OTHER]]
// CHECK: "@$2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,b,~{memory}" %{{.*}}, %c1024_i32, %[[LEADER]]
// CHECK: %[[NEXT:.*]] = arith.addi %[[SLOT]], %c1_i32 overflow<nsw, nuw>
// CHECK: %[[AROUND:.*]] = arith.cmpi eq, %[[NEXT]], %c2_i32
// CHECK: %[[S:.*]] = arith.select %[[AROUND]], %c0_i32, %[[NEXT]]
// CHECK: %[[FLIP:.*]] = arith.extui %[[AROUND]]
// CHECK: %[[P:.*]] = arith.xori %[[PARITY]], %[[FLIP]]
// CHECK: scf.yield %[[S]], %[[P]]
// The consumer: waits on the full barrier with its parity, then reads the slot; each warp's elected lane arrives once
// the other lanes have read, if the op releases.
// CHECK: } else {
// CHECK: %[[ELECTED:.*]] = llvm.call_intrinsic "llvm.nvvm.elect.sync"
// CHECK: %[[LEADER:.*]] = llvm.extractvalue %[[ELECTED]][1]
// CHECK: scf.for %[[I:.*]] = {{.*}} iter_args(%[[SLOT:.*]] = %c0_i32, %[[PARITY:.*]] = %c0_i32)
// CHECK: mbarrier.try_wait.parity.shared::cta.b64 {{.*}}, %[[PARITY]] :
// CHECK: %[[AT:.*]] = arith.muli %[[SLOT]], %c1024_i32 overflow<nsw, nuw>
// CHECK: llvm.getelementptr %{{.*}}[%[[AT]]]
// CHECK: llvm.load
// CHECK: %[[SECOND:.*]] = arith.cmpi ne, %[[I]]
// CHECK: "llvm.nvvm.bar.warp.sync"
// CHECK: %[[TELLS:.*]] = arith.andi %[[LEADER]], %[[SECOND]]
// CHECK: "@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", "r,b,~{memory}" %{{.*}}, %[[TELLS]]
#m = #layout.map<row_major [256]>
#t = #layout.map<blocked [256] vector 2 warps 4>
!ring = !kgpu.channel<2 x (!kgpu.mem<256xf32, #m>)>
module {
  func.func public @bytes(%p: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 9000 : i64} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %c = kgpu.channel bytes fillers 1 readers 4 {offset = 2048 : i64} : !ring
    %other = kgpu.channel bytes fillers 1 readers 4 {offset = 6144 : i64} : !ring
    kgpu.roles @load warps 1 {
      %start = kgpu.cursor : !kgpu.cursor<2>
      %end = scf.for %i = %zero to %n step %one iter_args(%at = %start) -> (!kgpu.cursor<2>) : i32 {
        %s = kgpu.acquire %c[%at] : !ring -> !kgpu.mem<256xf32, #m>
        kgpu.commit %c[%at] : !ring
        %next = kgpu.advance %at : !kgpu.cursor<2>
        scf.yield %next : !kgpu.cursor<2>
      }
      kgpu.end_role
    } @read warps 4 {
      %start = kgpu.cursor : !kgpu.cursor<2>
      %q = tile.splat %p : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #t>
      %end = scf.for %i = %zero to %n step %one iter_args(%at = %start) -> (!kgpu.cursor<2>) : i32 {
        %s = kgpu.receive %c[%at] : !ring -> !kgpu.mem<256xf32, #m>
        %x = kgpu.local_load %s : !kgpu.mem<256xf32, #m> -> tensor<256xf32, #t>
        tile.store %q, %x : tensor<256x!tile.ptr<f32>, #t>, tensor<256xf32, #t>
        %second = arith.cmpi ne, %i, %zero : i32
        kgpu.release %c[%at] when %second : !ring
        %next = kgpu.advance %at : !kgpu.cursor<2>
        scf.yield %next : !kgpu.cursor<2>
      }
      kgpu.end_role
    }
    return
  }
}

// -----

// Filled by threads: each warp arrives when its lanes have stored, after a fence if products read the slot. A single
// slot has a parity and no number. The whole warp waits for products, so the arrival need not wait.
// CHECK-LABEL: llvm.func @kiln_threads(
// CHECK: mbarrier.init{{.*}}, %c2_i32
// CHECK: mbarrier.init{{.*}}, %c4_i32
// CHECK-NOT: mbarrier.init
// CHECK: llvm.store
// CHECK: "fence.proxy.async.shared::cta;"
// CHECK-NEXT: "llvm.nvvm.bar.warp.sync"
// CHECK-NEXT: "@$1 mbarrier.arrive.shared::cta.b64 _, [$0];"
// CHECK: } else {
// CHECK: mbarrier.try_wait.parity
// CHECK: wgmma.mma_async
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK-NOT: bar.warp.sync
// CHECK: "@$1 mbarrier.arrive.shared::cta.b64 _, [$0];"
#a = #layout.map<swizzled [64, 64] element 2 bytes 128>
#b = #layout.map<swizzled [64, 8] order [0, 1] element 2 bytes 128>
#t = #layout.map<blocked [64, 8] vector 8 warps 2 order [0, 1]>
#acc = #layout.map<wgmma_acc [64, 8] groups 1>
!ring = !kgpu.channel<1 x (!kgpu.mem<64x8xf16, #b>)>
module {
  func.func public @threads(%p: !tile.ptr<f32>) attributes {tile.kernel, kgpu.shared_bytes = 10000 : i64} {
    %c = kgpu.channel threads fillers 2 readers 4 {offset = 8192 : i64} : !ring
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #a>
    kgpu.roles @store warps 2 {
      %x = arith.constant dense<1.0> : tensor<64x8xf16, #t>
      %at = kgpu.cursor : !kgpu.cursor<1>
      %s = kgpu.acquire %c[%at] : !ring -> !kgpu.mem<64x8xf16, #b>
      kgpu.local_store %x, %s : tensor<64x8xf16, #t>, !kgpu.mem<64x8xf16, #b>
      kgpu.commit %c[%at] : !ring
      kgpu.end_role
    } @multiply warps 4 {
      %z = arith.constant dense<0.0> : tensor<64x8xf32, #acc>
      %at = kgpu.cursor : !kgpu.cursor<1>
      %s = kgpu.receive %c[%at] : !ring -> !kgpu.mem<64x8xf16, #b>
      %d = kgpu.warpgroup_mma %a, %s, %z : !kgpu.mem<64x64xf16, #a>, !kgpu.mem<64x8xf16, #b> -> tensor<64x8xf32, #acc>
      %e = kgpu.mma_wait %d pending 0 : tensor<64x8xf32, #acc>
      kgpu.release %c[%at] : !ring
      %q = tile.splat %p : !tile.ptr<f32> -> tensor<64x8x!tile.ptr<f32>, #acc>
      tile.store %q, %e : tensor<64x8x!tile.ptr<f32>, #acc>, tensor<64x8xf32, #acc>
      kgpu.end_role
    }
    return
  }
}

// -----

// The same stores, with a fence in the program: one fence is enough.
// CHECK-LABEL: llvm.func @kiln_fenced(
// CHECK: llvm.store
// CHECK: "fence.proxy.async.shared::cta;"
// CHECK-NOT: fence
// CHECK: "llvm.nvvm.bar.warp.sync"
#a = #layout.map<swizzled [64, 64] element 2 bytes 128>
#b = #layout.map<swizzled [64, 8] order [0, 1] element 2 bytes 128>
#t = #layout.map<blocked [64, 8] vector 8 warps 2 order [0, 1]>
#acc = #layout.map<wgmma_acc [64, 8] groups 1>
!ring = !kgpu.channel<1 x (!kgpu.mem<64x8xf16, #b>)>
module {
  func.func public @fenced(%p: !tile.ptr<f32>) attributes {tile.kernel, kgpu.shared_bytes = 10000 : i64} {
    %c = kgpu.channel threads fillers 2 readers 4 {offset = 8192 : i64} : !ring
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #a>
    kgpu.roles @store warps 2 {
      %x = arith.constant dense<1.0> : tensor<64x8xf16, #t>
      %at = kgpu.cursor : !kgpu.cursor<1>
      %s = kgpu.acquire %c[%at] : !ring -> !kgpu.mem<64x8xf16, #b>
      kgpu.local_store %x, %s : tensor<64x8xf16, #t>, !kgpu.mem<64x8xf16, #b>
      kgpu.fence_async
      kgpu.commit %c[%at] : !ring
      kgpu.end_role
    } @multiply warps 4 {
      %z = arith.constant dense<0.0> : tensor<64x8xf32, #acc>
      %at = kgpu.cursor : !kgpu.cursor<1>
      %s = kgpu.receive %c[%at] : !ring -> !kgpu.mem<64x8xf16, #b>
      %d = kgpu.warpgroup_mma %a, %s, %z : !kgpu.mem<64x64xf16, #a>, !kgpu.mem<64x8xf16, #b> -> tensor<64x8xf32, #acc>
      %e = kgpu.mma_wait %d pending 0 : tensor<64x8xf32, #acc>
      kgpu.release %c[%at] : !ring
      kgpu.end_role
    }
    return
  }
}

// -----

// In a cluster of two that shares a part: the slot is empty when the eight warps of both CTAs have arrived, lane i at
// CTA i, without the GPU-wide fence that a cluster scope would cause. The cluster barrier comes before the first use,
// and before any CTA exits.
// CHECK-LABEL: llvm.func @kiln_shared_part(
// CHECK: mbarrier.init{{.*}}, %c1_i32
// CHECK: mbarrier.init{{.*}}, %c8_i32
// CHECK: "fence.mbarrier_init.release.cluster;"
// CHECK: "llvm.nvvm.barrier.cluster.arrive.relaxed.aligned"
// CHECK-NEXT: "llvm.nvvm.barrier.cluster.wait.aligned"
// CHECK: mbarrier.try_wait.parity.shared::cta.b64
// CHECK: } else {
// CHECK: %[[LANE:.*]] = arith.andi %{{.*}}, %c31_i32
// CHECK: %[[TELLS:.*]] = arith.cmpi ult, %[[LANE]], %c2_i32
// CHECK: %[[CTA:.*]] = arith.andi %[[LANE]], %c1_i32
// CHECK: %[[THERE:.*]] = llvm.inline_asm "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r" %{{.*}}, %[[CTA]]
// CHECK: mbarrier.try_wait.parity.shared::cta.b64
// CHECK: "@$1 mbarrier.arrive.shared::cluster.b64 _, [$0];", "r,b,~{memory}" %[[THERE]], %[[TELLS]]
// CHECK: "llvm.nvvm.barrier.cluster.arrive.relaxed.aligned"
// CHECK-NEXT: "llvm.nvvm.barrier.cluster.wait.aligned"
// CHECK-NEXT: llvm.return
#m = #layout.map<digits [256] cta (0) offset (1) (2) (4) (8) (16) (32) (64) (128)>
#t = #layout.map<blocked [256] vector 2 warps 4 ctas 2>
!ring = !kgpu.channel<1 x (!kgpu.mem<256xf32, #m>)>
module attributes {kgpu.cluster = 2 : i32} {
  func.func public @shared_part(%p: !tile.ptr<f32>) attributes {tile.kernel, kgpu.shared_bytes = 9000 : i64} {
    %c = kgpu.channel bytes fillers 1 readers 4 {offset = 0 : i64} : !ring
    kgpu.roles @load warps 1 {
      %at = kgpu.cursor : !kgpu.cursor<1>
      %s = kgpu.acquire %c[%at] : !ring -> !kgpu.mem<256xf32, #m>
      kgpu.commit %c[%at] : !ring
      kgpu.end_role
    } @read warps 4 {
      %at = kgpu.cursor : !kgpu.cursor<1>
      %q = tile.splat %p : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #t>
      %s = kgpu.receive %c[%at] : !ring -> !kgpu.mem<256xf32, #m>
      %x = kgpu.local_load %s : !kgpu.mem<256xf32, #m> -> tensor<256xf32, #t>
      kgpu.release %c[%at] : !ring
      tile.store %q, %x : tensor<256x!tile.ptr<f32>, #t>, tensor<256xf32, #t>
      kgpu.end_role
    }
    return
  }
}

// -----

// For the cursor after a loop with these bounds: the slot is a remainder, the parity follows from the number of rounds.
// A channel without parts has only barriers.
// CHECK-LABEL: llvm.func @kiln_skip(
// CHECK: mbarrier.init
// CHECK: %[[LENGTH:.*]] = arith.maxsi
// CHECK: %[[UP:.*]] = arith.addi %[[LENGTH]]
// CHECK: %[[TRIPS:.*]] = arith.divui %[[UP]]
// CHECK: %[[ROUNDS:.*]] = arith.divui %[[TRIPS]]
// CHECK: %[[ODD:.*]] = arith.andi %[[ROUNDS]]
// CHECK: arith.remui %[[TRIPS]]
// CHECK: mbarrier.try_wait.parity{{.*}}" %{{.*}}, %{{.*}} : (i32, i32)
!ring = !kgpu.channel<3 x ()>
module {
  func.func public @skip(%n: i32) attributes {tile.kernel, kgpu.shared_bytes = 9000 : i64} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %c = kgpu.channel threads fillers 1 readers 1 {offset = 2048 : i64} : !ring
    kgpu.roles @one warps 1 {
      %start = kgpu.cursor : !kgpu.cursor<3>
      %p = kgpu.skip %start for %zero to %n step %step : !kgpu.cursor<3>, i32
      kgpu.acquire %c[%p] : !ring
      kgpu.commit %c[%p] : !ring
      kgpu.end_role
    } @other warps 1 {
      %start = kgpu.cursor : !kgpu.cursor<3>
      %p = kgpu.skip %start for %zero to %n step %step : !kgpu.cursor<3>, i32
      kgpu.receive %c[%p] : !ring
      kgpu.release %c[%p] : !ring
      kgpu.end_role
    }
    return
  }
}

// -----

// A slot that the role holds is received again without a wait.
// CHECK-LABEL: llvm.func @kiln_held(
// CHECK-COUNT-2: mbarrier.try_wait.parity
// CHECK-NOT: mbarrier.try_wait
// CHECK: llvm.load
#m = #layout.map<row_major [256]>
#t = #layout.map<blocked [256] vector 2 warps 4>
!ring = !kgpu.channel<2 x (!kgpu.mem<256xf32, #m>)>
module {
  func.func public @held(%p: !tile.ptr<f32>) attributes {tile.kernel, kgpu.shared_bytes = 9000 : i64} {
    %c = kgpu.channel bytes fillers 1 readers 4 {offset = 2048 : i64} : !ring
    kgpu.roles @load warps 1 {
      %at = kgpu.cursor : !kgpu.cursor<2>
      %s = kgpu.acquire %c[%at] : !ring -> !kgpu.mem<256xf32, #m>
      kgpu.commit %c[%at] : !ring
      kgpu.end_role
    } @read warps 4 {
      %at = kgpu.cursor : !kgpu.cursor<2>
      %q = tile.splat %p : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #t>
      %s = kgpu.receive %c[%at] : !ring -> !kgpu.mem<256xf32, #m>
      %r = kgpu.receive %c[%at] again : !ring -> !kgpu.mem<256xf32, #m>
      %x = kgpu.local_load %r : !kgpu.mem<256xf32, #m> -> tensor<256xf32, #t>
      tile.store %q, %x : tensor<256x!tile.ptr<f32>, #t>, tensor<256xf32, #t>
      kgpu.release %c[%at] : !ring
      kgpu.end_role
    }
    return
  }
}
