// Copies by the copy engine: one per box, issued by one thread; coordinates innermost first.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// A panel is 128 bytes of a row: 64 rows by 128 elements are two boxes, 8192 bytes apart. The boxes of the second slot
// are 16384 bytes further; all count at that slot's full barrier. Data that is read once gets evict-first in the L2.
// CHECK-LABEL: llvm.func @kiln_boxes(
// CHECK-SAME: %{{.*}}: !llvm.ptr<1>, %{{.*}}: i32, %[[MAP:.*]]: !llvm.ptr {llvm.align = 64 : i64
// CHECK-DAG: %[[POLICY:.*]] = llvm.inline_asm "createpolicy.fractional.L2::evict_first.b64 $0, 1.0;"
// CHECK-DAG: %[[LEADER:.*]] = llvm.extractvalue %{{.*}}[1]
// CHECK: scf.for %[[I:.*]] = {{.*}} iter_args(%[[SLOT:[^ ]*]] = %c0_i32
// CHECK: mbarrier.try_wait
// CHECK: %[[FAR:.*]] = arith.muli %[[SLOT]], %c16384_i32
// CHECK: %[[PLACE:.*]] = arith.addi %{{.*}}, %[[FAR]]
// CHECK: arith.addi %{{.*}}, %c32768_i32
// CHECK-NEXT: %[[FULL:.*]] = arith.addi
// CHECK: "@$6 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [$0], [$1, {$2, $3}], [$4], $5;", "r,l,r,r,r,l,b,~{memory}" %[[PLACE]], %[[MAP]], %c7_i32, %[[I]], %[[FULL]], %[[POLICY]], %[[LEADER]]
// CHECK: %[[BEHIND:.*]] = arith.addi %[[PLACE]], %c8192_i32
// CHECK: complete_tx::bytes.L2::cache_hint {{.*}} %[[BEHIND]], %[[MAP]], %c71_i32, %[[I]], %[[FULL]], %[[POLICY]], %[[LEADER]]
// CHECK-NOT: cp.async
// CHECK: mbarrier.arrive.expect_tx{{.*}}, %c16384_i32
#m = #layout.map<swizzled [64, 128] element 2 bytes 128>
!ring = !kgpu.channel<2 x (!kgpu.mem<64x128xf16, #m>)>
module {
  func.func public @boxes(%p: !tile.ptr<f16>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 32800 : i64} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 1 : i32
    %seven = arith.constant 7 : i32
    %one = arith.constant 1 : i64
    %side = arith.constant 4096 : i64
    %d = tile.make_desc %p, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %map = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x128xf16>>
    %c = kgpu.channel bytes fillers 1 readers 4 {offset = 0 : i64} : !ring
    kgpu.roles @load warps 1 {
      %start = kgpu.cursor : !kgpu.cursor<2>
      %end = scf.for %i = %zero to %n step %step iter_args(%at = %start) -> (!kgpu.cursor<2>) : i32 {
        %s = kgpu.acquire %c[%at] : !ring -> !kgpu.mem<64x128xf16, #m>
        kgpu.copy_in %map[%i, %seven] to %s of %c[%at] {evict = 1 : i32} : !kgpu.mem<64x128xf16, #m>, !ring
        kgpu.commit %c[%at] : !ring
        %next = kgpu.advance %at : !kgpu.cursor<2>
        scf.yield %next : !kgpu.cursor<2>
      }
      kgpu.end_role
    }
    return
  }
}

// -----

// Boxes of fewer rows than the largest: both panels of the first 32 rows, 8192 bytes apart, then those of the other 32
// rows, 4096 bytes further.
// CHECK-LABEL: llvm.func @kiln_runs(
// CHECK: scf.for %[[I:.*]] = {{.*}} iter_args(
// CHECK: mbarrier::complete_tx::bytes [$0], {{.*}} %[[PLACE:[0-9]+]], %{{[^,]*}}, %c7_i32, %[[I]],
// CHECK: %[[NEXT:.*]] = arith.addi %[[PLACE]], %c8192_i32
// CHECK: mbarrier::complete_tx::bytes [$0], {{.*}} %[[NEXT]], %{{[^,]*}}, %c71_i32, %[[I]],
// CHECK: %[[ROW:.*]] = arith.addi %[[I]], %c32_i32
// CHECK: %[[NEXT:.*]] = arith.addi %[[PLACE]], %c4096_i32
// CHECK: mbarrier::complete_tx::bytes [$0], {{.*}} %[[NEXT]], %{{[^,]*}}, %c7_i32, %[[ROW]],
// CHECK: %[[NEXT:.*]] = arith.addi %[[PLACE]], %c12288_i32
// CHECK: mbarrier::complete_tx::bytes [$0], {{.*}} %[[NEXT]], %{{[^,]*}}, %c71_i32, %{{.*}},
// CHECK-NOT: cp.async
// CHECK: mbarrier.arrive.expect_tx{{.*}}, %c16384_i32
#m = #layout.map<swizzled [64, 128] element 2 bytes 128>
!ring = !kgpu.channel<2 x (!kgpu.mem<64x128xf16, #m>)>
module {
  func.func public @runs(%p: !tile.ptr<f16>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 32800 : i64} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 1 : i32
    %seven = arith.constant 7 : i32
    %one = arith.constant 1 : i64
    %side = arith.constant 4096 : i64
    %d = tile.make_desc %p, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %map = kgpu.tensor_map %d box [32, 64] swizzle 128 : !tile.desc<tensor<64x128xf16>>
    %c = kgpu.channel bytes fillers 1 readers 4 {offset = 0 : i64} : !ring
    kgpu.roles @load warps 1 {
      %start = kgpu.cursor : !kgpu.cursor<2>
      %end = scf.for %i = %zero to %n step %step iter_args(%at = %start) -> (!kgpu.cursor<2>) : i32 {
        %s = kgpu.acquire %c[%at] : !ring -> !kgpu.mem<64x128xf16, #m>
        kgpu.copy_in %map[%i, %seven] to %s of %c[%at] : !kgpu.mem<64x128xf16, #m>, !ring
        kgpu.commit %c[%at] : !ring
        %next = kgpu.advance %at : !kgpu.cursor<2>
        scf.yield %next : !kgpu.cursor<2>
      }
      kgpu.end_role
    }
    return
  }
}

// -----

// A cluster of two: the left operand is split, so each CTA loads the rows that it keeps. Each CTA has the whole right
// operand, and sends half of its rows to both, to the same address and barrier. 8192 + 8192 bytes arrive at each CTA.
// CHECK-LABEL: llvm.func @kiln_cluster(
// CHECK: %[[RANK:.*]] = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.cluster.ctarank"
// CHECK: %[[MINE:.*]] = arith.muli %[[RANK]], %c64_i32
// CHECK-DAG: %[[PLACE:.*]] = arith.muli %[[RANK]], %c4096_i32
// CHECK-DAG: %[[HALF:.*]] = arith.muli %[[RANK]], %c32_i32
// CHECK: %[[ROW:.*]] = arith.addi %{{.*}}, %[[MINE]]
// CHECK: "@$5 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], [$1, {$2, $3}], [$4];", {{.*}} %c0_i32, %[[ROW]],
// CHECK: %[[THERE:.*]] = arith.addi %{{.*}}, %[[PLACE]]
// CHECK: %[[ROW:.*]] = arith.addi %{{.*}}, %[[HALF]]
// CHECK: "@$6 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [$0], [$1, {$2, $3}], [$4], $5;", "r,l,r,r,r,h,b,~{memory}" %[[THERE]], %{{.*}}, %c0_i32, %[[ROW]], %{{.*}}, %c3_i16,
// CHECK: mbarrier.arrive.expect_tx{{.*}}, %c16384_i32
// CHECK: "llvm.nvvm.barrier.cluster.arrive.relaxed.aligned"
// CHECK-NEXT: "llvm.nvvm.barrier.cluster.wait.aligned"
#a = #layout.map<digits [128, 64] cta (64, 0) offset (0, 1) (0, 2) (0, 4) (0, 8) (0, 16) (0, 32) (1, 8) (2, 16) (4, 32) (8, 0) (16, 0) (32, 0)>
#b = #layout.map<digits [64, 64] cta (0, 0) offset (0, 1) (0, 2) (0, 4) (0, 8) (0, 16) (0, 32) (1, 8) (2, 16) (4, 32) (8, 0) (16, 0) (32, 0)>
!ring = !kgpu.channel<1 x (!kgpu.mem<128x64xf16, #a>, !kgpu.mem<64x64xf16, #b>)>
module attributes {kgpu.cluster = 2 : i32} {
  func.func public @cluster(%p: !tile.ptr<f16>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 32800 : i64} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i64
    %side = arith.constant 4096 : i64
    %da = tile.make_desc %p, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %ma = kgpu.tensor_map %da box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %p, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %mb = kgpu.tensor_map %db box [32, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
    %c = kgpu.channel bytes fillers 1 readers 4 {offset = 0 : i64} : !ring
    kgpu.roles @load warps 1 {
      %at = kgpu.cursor : !kgpu.cursor<1>
      %s:2 = kgpu.acquire %c[%at] : !ring -> !kgpu.mem<128x64xf16, #a>, !kgpu.mem<64x64xf16, #b>
      kgpu.copy_in %ma[%n, %zero] to %s#0 of %c[%at] : !kgpu.mem<128x64xf16, #a>, !ring
      kgpu.copy_in %mb[%n, %zero] to %s#1 of %c[%at] : !kgpu.mem<64x64xf16, #b>, !ring
      kgpu.commit %c[%at] : !ring
      kgpu.end_role
    }
    return
  }
}

// -----

// To global memory: the threads that issue the copies commit their group. As the copies read memory that is freed with
// the block, they must have read it before the role ends.
// CHECK-LABEL: llvm.func @kiln_out(
// CHECK: %[[ISSUES:.*]] = arith.andi
// CHECK: "cp.async.bulk.wait_group.read 1;"
// CHECK: "fence.proxy.async.shared::cta;"
// A box that begins before the array is skipped: an H200 would end the launch.
// CHECK: %[[INSIDE:.*]] = arith.cmpi sge, %{{.*}}, %c0_i32 : i32
// CHECK: %[[WRITES:.*]] = arith.andi %[[ISSUES]], %[[INSIDE]] : i1
// CHECK: "@$4 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [$0, {$1, $2}], [$3];", "l,r,r,r,b,~{memory}" %{{.*}}, %c0_i32, %{{.*}}, %{{.*}}, %[[WRITES]]
// CHECK: %[[SIGN:.*]] = arith.ori %{{.*}}, %c64_i32 : i32
// CHECK: arith.cmpi sge, %[[SIGN]], %c0_i32 : i32
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group {{.*}} %c64_i32,
// CHECK-NEXT: "@$0 cp.async.bulk.commit_group;", "b,~{memory}" %[[ISSUES]]
// CHECK: "cp.async.bulk.wait_group.read 0;"
// CHECK-NOT: wait_group
// CHECK: llvm.return
#m = #layout.map<swizzled [64, 128] element 2 bytes 128>
module {
  func.func public @out(%p: !tile.ptr<f16>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 16384 : i64} {
    %one = arith.constant 1 : i64
    %side = arith.constant 4096 : i64
    %d = tile.make_desc %p, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %map = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x128xf16>>
    %zero = arith.constant 0 : i32
    kgpu.roles @store warps 4 {
      %c = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x128xf16, #m>
      kgpu.copy_out_wait read 1
      kgpu.fence_async
      kgpu.copy_out %c to %map[%n, %zero] : !kgpu.mem<64x128xf16, #m>
      kgpu.end_role
    }
    return
  }
}

// -----

// Without roles, the kernel's end waits for them, unless the kernel already has.
// CHECK-LABEL: llvm.func @kiln_alone(
// CHECK: commit_group
// CHECK: "cp.async.bulk.wait_group 0;"
// CHECK-NOT: wait_group
// CHECK: llvm.return
#m = #layout.map<row_major [64]>
module {
  func.func public @alone(%p: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 256 : i64} {
    %one = arith.constant 1 : i64
    %side = arith.constant 4096 : i64
    %d = tile.make_desc %p, shape [%side] strides [%one] : !tile.ptr<f32> -> !tile.desc<tensor<64xf32>>
    %map = kgpu.tensor_map %d box [64] swizzle 0 : !tile.desc<tensor<64xf32>>
    %c = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64xf32, #m>
    kgpu.fence_async
    kgpu.copy_out %c to %map[%n] : !kgpu.mem<64xf32, #m>
    kgpu.copy_out_wait 0
    return
  }
}

// -----

// For leading dimensions that the memory lacks, each box has one element, at the block's position.
// CHECK-LABEL: llvm.func @kiln_of_a_head(
// CHECK-SAME: %{{.*}}: !llvm.ptr<1>, %[[N:.*]]: i32,
// CHECK: "@$6 cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [$0, {$1, $2, $3, $4}], [$5];", "l,r,r,r,r,r,b,~{memory}" %{{.*}}, %c0_i32, %[[N]], %c3_i32, %c5_i32,
// CHECK: "@$6 cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [$0, {$1, $2, $3, $4}], [$5];", "l,r,r,r,r,r,b,~{memory}" %{{.*}}, %c64_i32, %[[N]], %c3_i32, %c5_i32,
#m = #layout.map<swizzled [64, 128] element 2 bytes 128>
module {
  func.func public @of_a_head(%p: !tile.ptr<f16>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 16384 : i64} {
    %one = arith.constant 1 : i64
    %side = arith.constant 4096 : i64
    %d = tile.make_desc %p, shape [%side, %side, %side, %side] strides [%side, %side, %side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x1x64x128xf16>>
    %map = kgpu.tensor_map %d box [1, 1, 64, 64] swizzle 128 : !tile.desc<tensor<1x1x64x128xf16>>
    %zero = arith.constant 0 : i32
    %head = arith.constant 3 : i32
    %batch = arith.constant 5 : i32
    %c = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x128xf16, #m>
    kgpu.fence_async
    kgpu.copy_out %c to %map[%batch, %head, %n, %zero] : !kgpu.mem<64x128xf16, #m>
    kgpu.copy_out_wait 0
    return
  }
}

// -----

// The engine combines the data with what is in memory, box by box.
// CHECK-LABEL: llvm.func @kiln_combined(
// CHECK: "@$4 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [$0, {$1, $2}], [$3];", "l,r,r,r,b,~{memory}" %{{.*}}, %c0_i32,
// CHECK: "@$4 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group
// CHECK: commit_group
#m = #layout.map<swizzled [64, 64] element 4 bytes 128>
module {
  func.func public @combined(%p: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 16384 : i64} {
    %one = arith.constant 1 : i64
    %side = arith.constant 4096 : i64
    %zero = arith.constant 0 : i32
    %d = tile.make_desc %p, shape [%side, %side] strides [%side, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %map = kgpu.tensor_map %d box [64, 32] swizzle 128 : !tile.desc<tensor<64x64xf32>>
    %c = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf32, #m>
    kgpu.fence_async
    kgpu.copy_out %c by "fadd" to %map[%n, %zero] : !kgpu.mem<64x64xf32, #m>
    kgpu.copy_out_wait 0
    return
  }
}

// -----

// CHECK-LABEL: llvm.func @kiln_least(
// CHECK: cp.reduce.async.bulk.tensor.1d.global.shared::cta.min.tile.bulk_group
#m = #layout.map<row_major [64]>
module {
  func.func public @least(%p: !tile.ptr<i32>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 256 : i64} {
    %one = arith.constant 1 : i64
    %side = arith.constant 4096 : i64
    %d = tile.make_desc %p, shape [%side] strides [%one] : !tile.ptr<i32> -> !tile.desc<tensor<64xi32>>
    %map = kgpu.tensor_map %d box [64] swizzle 0 : !tile.desc<tensor<64xi32>>
    %c = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64xi32, #m>
    kgpu.fence_async
    kgpu.copy_out %c by "umin" to %map[%n] : !kgpu.mem<64xi32, #m>
    kgpu.copy_out_wait 0
    return
  }
}

// -----

// Of 128 rows each of two groups has 64, and one thread that copies the boxes of both panels; the second group's are
// 8192 bytes and 64 rows further. Each of these threads commits the group of its copies.
// CHECK-LABEL: llvm.func @kiln_of_groups(
// CHECK-DAG: %[[GROUP:.*]] = arith.divui %{{.*}}, %c4_i32
// CHECK-DAG: %[[WARP:.*]] = arith.remui %{{.*}}, %c4_i32
// CHECK-DAG: %[[FIRST:.*]] = arith.cmpi eq, %[[WARP]], %c0_i32
// CHECK-DAG: %[[ISSUER:.*]] = arith.andi %[[FIRST]], %{{.*}}
// CHECK-DAG: %[[BEHIND:.*]] = arith.muli %[[GROUP]], %c8192_i32
// CHECK-DAG: %[[ROWS:.*]] = arith.muli %[[GROUP]], %c64_i32
// CHECK: %[[PLACE:.*]] = arith.addi %{{.*}}, %[[BEHIND]]
// CHECK: %[[ROW:.*]] = arith.addi %{{.*}}, %[[ROWS]]
// CHECK: arith.andi %[[ISSUER]]
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [$0, {$1, $2}], [$3];", "l,r,r,r,b,~{memory}" %{{[^,]*}}, %c7_i32, %[[ROW]], %[[PLACE]], %{{.*}} :
// CHECK: %[[SECOND:.*]] = arith.addi %[[PLACE]], %c16384_i32
// CHECK: bulk_group {{.*}} %c71_i32, %{{[^,]*}}, %[[SECOND]],
// CHECK-NOT: bulk_group
// CHECK: "@$0 cp.async.bulk.commit_group;", "b,~{memory}" %[[ISSUER]]
#m = #layout.map<swizzled [128, 128] element 2 bytes 128>
module {
  func.func public @of_groups(%p: !tile.ptr<f16>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 32768 : i64} {
    %seven = arith.constant 7 : i32
    %one = arith.constant 1 : i64
    %side = arith.constant 4096 : i64
    %d = tile.make_desc %p, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %map = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<128x128xf16>>
    kgpu.roles @multiply groups 2 warps 4 {
      %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x128xf16, #m>
      kgpu.copy_out %a to %map[%n, %seven] by_group : !kgpu.mem<128x128xf16, #m>
      kgpu.copy_out_wait 0
      kgpu.end_role
    }
    return
  }
}
