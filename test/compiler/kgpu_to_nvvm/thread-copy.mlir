// Copies by threads: cp.async of as many bytes as the alignment allows, limited to what is inside the array, with zeros
// outside; groups are committed and waited for by number, then there is a barrier.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_80 --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm | FileCheck %s --check-prefix=HOPPER
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_80 --kiln-kgpu-to-nvvm 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: sed 's/channel groups/channel groups warps_apart/' %s | kiln-opt --split-input-file --kiln-set-target=target=sm_80 --kiln-kgpu-to-nvvm 2>&1 >/dev/null | FileCheck %s --check-prefix=LANES

// 16 KiB by 128 threads: eight copies of 16 bytes each, rows of 64 elements over 128 bytes. If a row ends within a
// copy, the rest of the row is read.
#a = #layout.map<swizzled [128, 64] element 2 bytes 128>
#t = #layout.map<blocked [128, 64] vector 8 warps 4>
!mem = !kgpu.mem<128x64xf16, #a>
!ring = !kgpu.channel<2 x (!mem)>
// CHECK-LABEL: llvm.func @kiln_block(
// CHECK-DAG: %[[EIGHT:.*]] = arith.constant 8 : i64
// CHECK-DAG: %[[TWO:.*]] = arith.constant 2 : i32
// CHECK: %[[LEFT:.*]] = arith.subi %[[EXTENT:.*]], %[[AT:.*]] : i64
// CHECK: %[[COUNT:.*]] = arith.minui %[[LEFT]], %[[EIGHT]]
// CHECK: %[[ELEMENTS:.*]] = arith.trunci %[[COUNT]] : i64 to i32
// CHECK: %[[BYTES:.*]] = arith.muli %[[ELEMENTS]], %[[TWO]]
// CHECK: %[[READ:.*]] = arith.select %{{.*}}, %[[BYTES]], %{{.*}}
// CHECK: "@$3 cp.async.cg.shared.global.L2::128B [$0], [$1], 16, $2;", "r,l,r,b,~{memory}" %{{.*}}, %{{.*}}, %[[READ]], %[[WHEN:.*]] :
// CHECK-COUNT-7: cp.async.cg.shared.global.L2::128B
// CHECK-NOT: cp.async.cg
// CHECK: "cp.async.commit_group;"
// CHECK: "cp.async.wait_group 0;"
// CHECK-NOT: fence
// CHECK: "llvm.nvvm.barrier.cta.sync.aligned.all"
// CHECK: llvm.load
module attributes {kgpu.num_warps = 4 : i32} {
func.func @block(%p: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i64, %s: i64 {tile.divisibility = 16 : i64}, %i: i32, %k: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel, kgpu.shared_bytes = 32768 : i64} {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %p, shape [%n, %n] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %out = tile.make_desc %q, shape [%n, %n] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16, #t>>
  %ch = kgpu.channel groups fillers 4 readers 4 {offset = 0 : i64} : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %when = arith.cmpi slt, %k, %end : i32
  %slot = kgpu.acquire %ch[%c] : !ring -> !mem
  kgpu.copy_block %d[%i, %k] when %when to %slot of %ch[%c] : !tile.desc<tensor<128x64xf16>>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !mem
  %x = kgpu.local_load %r : !mem -> tensor<128x64xf16, #t>
  kgpu.release %ch[%c] : !ring
  tile.desc_store %out[%i, %k], %x : !tile.desc<tensor<128x64xf16, #t>>, tensor<128x64xf16, #t>
  return
}
}

// -----

// Rows of multiples of 8 bytes: pieces of 8, through the L1. An eviction hint has a policy instead of the prefetch, but
// not where the assembler miscompiles it.
#a = #layout.map<row_major [32, 64]>
#t = #layout.map<blocked [32, 64] vector 4 warps 4>
!mem = !kgpu.mem<32x64xf16, #a>
!ring = !kgpu.channel<2 x (!mem)>
// CHECK-LABEL: llvm.func @kiln_narrow(
// CHECK-COUNT-4: "cp.async.ca.shared.global.L2::cache_hint [$0], [$1], 8, $2, $3;"
// CHECK-NOT: cp.async.ca
// HOPPER-LABEL: llvm.func @kiln_narrow(
// HOPPER-COUNT-4: "cp.async.ca.shared.global [$0], [$1], 8, $2;"
// HOPPER-NOT: cache_hint
module attributes {kgpu.num_warps = 4 : i32} {
func.func @narrow(%p: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i64 {tile.divisibility = 4 : i64}, %i: i32, %k: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel, kgpu.shared_bytes = 8192 : i64} {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %p, shape [%n, %n] strides [%n, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
  %ch = kgpu.channel groups fillers 4 readers 4 {offset = 0 : i64} : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %slot = kgpu.acquire %ch[%c] : !ring -> !mem
  kgpu.copy_block %d[%i, %k] to %slot of %ch[%c] {evict = 1 : i32} : !tile.desc<tensor<32x64xf16>>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !mem
  kgpu.release %ch[%c] : !ring
  return
}
}

// -----

// Pointers with a mask: adjacent elements are one copy, and nothing is read where the mask is false. Nothing is known
// about the second tile: each element goes through a register, which a remark says.
// REMARK-NOT: remark
// REMARK: remark: schedule simple: this block passes through registers, 2 bytes at a time, because its addresses are not known to be multiples of 4 bytes
// LANES: remark: schedule lanes: this block passes through registers
// REMARK-NOT: remark
#v = #layout.map<blocked [64] vector 4 warps 1>
#w = #layout.map<blocked [64] vector 2 warps 1>
#m = #layout.map<row_major [64]>
!mem = !kgpu.mem<64xf32, #m>
!half = !kgpu.mem<64xf16, #m>
!ring = !kgpu.channel<2 x (!mem, !half)>
// CHECK-LABEL: llvm.func @kiln_pointers(
// CHECK: %[[READ:.*]] = arith.select %{{.*}}, %c16_i32, %c0_i32
// CHECK: "@$3 cp.async.cg.shared.global.L2::128B [$0], [$1], 16, $2;", "r,l,r,b,~{memory}" %{{.*}}, %{{.*}}, %[[READ]]
// CHECK-NOT: cp.async.c
// CHECK-COUNT-2: llvm.store %{{.*}} {alignment = 2 : i64} : f16, !llvm.ptr<3>
// CHECK: "cp.async.commit_group;"
module attributes {kgpu.num_warps = 1 : i32} {
func.func @pointers(%p: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %q: !tile.ptr<f16>, %n: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel, kgpu.shared_bytes = 4096 : i64} {
  %range = tile.make_range 0 to 64 : tensor<64xi32, #v>
  %limit = tile.splat %n : i32 -> tensor<64xi32, #v>
  %inside = arith.cmpi slt, %range, %limit : tensor<64xi32, #v>
  %ps = tile.splat %p : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #v>
  %x = tile.addptr %ps, %range : tensor<64x!tile.ptr<f32>, #v>, tensor<64xi32, #v>
  %other = tile.make_range 0 to 64 : tensor<64xi32, #w>
  %qs = tile.splat %q : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>, #w>
  %y = tile.addptr %qs, %other : tensor<64x!tile.ptr<f16>, #w>, tensor<64xi32, #w>
  %ch = kgpu.channel groups fillers 1 readers 1 {offset = 0 : i64} : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %slot:2 = kgpu.acquire %ch[%c] : !ring -> !mem, !half
  kgpu.copy_tile %x mask %inside to %slot#0 of %ch[%c] : tensor<64x!tile.ptr<f32>, #v> mask tensor<64xi1, #v>, !mem, !ring
  kgpu.copy_tile %y to %slot#1 of %ch[%c] : tensor<64x!tile.ptr<f16>, #w>, !half, !ring
  kgpu.commit %ch[%c] : !ring
  %r:2 = kgpu.receive %ch[%c] : !ring -> !mem, !half
  kgpu.release %ch[%c] : !ring
  return
}
}
