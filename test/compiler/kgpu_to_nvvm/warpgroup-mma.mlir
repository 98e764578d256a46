// Products of groups of four warps: descriptors as constants added to the start address, pieces of 64 rows and up to
// 256 columns, a predicate for the first step only, and accumulators that enter and leave in the same registers.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// Both operands are contiguous along K, rows of 128 bytes: LBO 1 (unused), SBO 1024 >> 4 = 64, swizzle 1. Each step of
// K is 32 bytes further (2 units), the fifth in the next panel: 64 rows of 128 bytes for the left, 128 for the right
// operand.
// CHECK-LABEL: llvm.func @kiln_along_k(
// CHECK: %[[A:.*]] = llvm.ptrtoint
// CHECK: %[[A1:.*]] = arith.andi %[[A]], %c262143_i32
// CHECK: %[[A2:.*]] = arith.shrui %[[A1]], %c4_i32
// CHECK: %[[A3:.*]] = arith.ori %[[A2]], %c65536_i32
// CHECK: llvm.inline_asm has_side_effects
// CHECK-SAME: setp.ne.b32 adds, 1, 0;
// CHECK-SAME: wgmma.fence.sync.aligned;
// CHECK-SAME: add.s32 start, $128, 0;\0Amov.b64 left, {start, 1073741888};\0Aadd.s32 start, $129, 0;\0Amov.b64 right, {start, 1073741888};
// CHECK-SAME: wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {$0, $1, {{[^}]*}}, $63}, left, right, adds, 1, 1, 0, 0;
// CHECK-SAME: add.s32 start, $128, 2;{{[^;]*;[^;]*}}add.s32 start, $129, 2;
// CHECK-SAME: m64n128k16{{[^;]*}}, right, 1, 1, 1, 0, 0;
// CHECK-SAME: add.s32 start, $128, 512;{{[^;]*;[^;]*}}add.s32 start, $129, 1024;
// CHECK-SAME: wgmma.commit_group.sync.aligned;
// CHECK-SAME: "=f,=f
// CHECK-SAME: ,0,1,2
// CHECK-SAME: ,63,r,r,~{memory}"
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK-SAME: "=f,
// CHECK-SAME: ,63,~{memory}"
#a = #layout.map<swizzled [64, 128] element 2 bytes 128>
#b = #layout.map<swizzled [128, 128] order [0, 1] element 2 bytes 128>
#c = #layout.map<wgmma_acc [64, 128] groups 1>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @along_k(%p: !tile.ptr<f32>) attributes {tile.kernel, kgpu.shared_bytes = 49152 : i64} {
    %z = arith.constant dense<1.0> : tensor<64x128xf32, #c>
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x128xf16, #a>
    %b = kgpu.alloc {offset = 16384 : i64} : !kgpu.mem<128x128xf16, #b>
    %d = kgpu.warpgroup_mma %a, %b, %z : !kgpu.mem<64x128xf16, #a>, !kgpu.mem<128x128xf16, #b> -> tensor<64x128xf32, #c>
    %e = kgpu.mma_wait %d pending 0 : tensor<64x128xf32, #c>
    %q = tile.splat %p : !tile.ptr<f32> -> tensor<64x128x!tile.ptr<f32>, #c>
    tile.store %q, %e : tensor<64x128x!tile.ptr<f32>, #c>, tensor<64x128xf32, #c>
    return
  }
}

// -----

// Both are contiguous along M and N: the next 64 of them are a panel away (LBO: K rows of 128 bytes), the next eight
// rows of K 1024 bytes. Each group has its own 64 rows: one panel; N = 192 is one instruction. Without an addend the
// accumulator is not read.
// CHECK-LABEL: llvm.func @kiln_along_mn(
// CHECK: arith.muli %{{.*}}, %c4096_i32
// CHECK: arith.ori %{{.*}}, %c16777216_i32
// CHECK: llvm.inline_asm has_side_effects
// CHECK-SAME: setp.ne.b32 adds, 0, 0;
// CHECK-SAME: m64n192k16.f32.bf16.bf16 {{[^;]*}}, left, right, adds, 1, 1, 1, 1;
// CHECK-SAME: add.s32 start, $96, 128;
// CHECK-SAME: m64n192k16.f32.bf16.bf16 {{[^;]*}}, left, right, 1, 1, 1, 1, 1;
// CHECK-SAME: "=&f,=&f
// CHECK-SAME: ,=&f,r,r,~{memory}" %{{[^,]*}}, %{{[^,]*}} :
#a = #layout.map<swizzled [192, 32] order [0, 1] element 2 bytes 128>
#b = #layout.map<swizzled [32, 192] element 2 bytes 128>
#c = #layout.map<wgmma_acc [192, 192] groups 3>
module attributes {kgpu.num_warps = 4 : i32, kgpu.num_groups = 3 : i32} {
  func.func public @along_mn(%p: !tile.ptr<f32>) attributes {tile.kernel, kgpu.shared_bytes = 24576 : i64} {
    %z = arith.constant dense<0.0> : tensor<192x192xf32, #c>
    %no = arith.constant false
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<192x32xbf16, #a>
    %b = kgpu.alloc {offset = 12288 : i64} : !kgpu.mem<32x192xbf16, #b>
    %d = kgpu.warpgroup_mma %a, %b, %z accumulate %no : !kgpu.mem<192x32xbf16, #a>, !kgpu.mem<32x192xbf16, #b> -> tensor<192x192xf32, #c>
    %e = kgpu.mma_wait %d pending 0 : tensor<192x192xf32, #c>
    %q = tile.splat %p : !tile.ptr<f32> -> tensor<192x192x!tile.ptr<f32>, #c>
    tile.store %q, %e : tensor<192x192x!tile.ptr<f32>, #c>, tensor<192x192xf32, #c>
    return
  }
}

// -----

// The left operand is in registers, two 16-bit elements per word, four words per step; two blocks of 64 rows, one after
// the other.
// CHECK-LABEL: llvm.func @kiln_in_registers(
// CHECK: llvm.bitcast %{{.*}} : vector<2xf16> to i32
// CHECK: llvm.inline_asm has_side_effects
// CHECK-SAME: m64n8k16.f32.f16.f16 {$0, $1, $2, $3}, {$[[#FIRST:]], {{[^}]*}}}, right, [[P:\$[0-9]+]], 1, 1, 0;
// CHECK-SAME: m64n8k16.f32.f16.f16 {$0, $1, $2, $3}, {$[[#FIRST+4]], {{[^}]*}}}, right, 1, 1, 1, 0;
// CHECK-SAME: m64n8k16.f32.f16.f16 {$4, $5, $6, $7}, {$[[#FIRST+8]], {{[^}]*}}}, right, [[P]], 1, 1, 0;
// CHECK-SAME: m64n8k16.f32.f16.f16 {$4, $5, $6, $7}, {$[[#FIRST+12]], {{[^}]*}}}, right, 1, 1, 1, 0;
// CHECK-SAME: ,b,r,
#a = #layout.map<wgmma_a [128, 32] bits 16 groups 1>
#b = #layout.map<swizzled [32, 8] order [0, 1] element 2 bytes 64>
#c = #layout.map<wgmma_acc [128, 8] groups 1>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @in_registers(%p: !tile.ptr<f16>, %r: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 512 : i64} {
    %z = arith.constant dense<0.0> : tensor<128x8xf32, #c>
    %b = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<32x8xf16, #b>
    %s = tile.splat %p : !tile.ptr<f16> -> tensor<128x32x!tile.ptr<f16>, #a>
    %a = tile.load %s : tensor<128x32x!tile.ptr<f16>, #a> -> tensor<128x32xf16, #a>
    %zero = arith.constant 0 : i32
    %more = arith.cmpi sgt, %n, %zero : i32
    %d = kgpu.warpgroup_mma %a, %b, %z accumulate %more : tensor<128x32xf16, #a>, !kgpu.mem<32x8xf16, #b> -> tensor<128x8xf32, #c>
    %e = kgpu.mma_wait %d pending 0 : tensor<128x8xf32, #c>
    %q = tile.splat %r : !tile.ptr<f32> -> tensor<128x8x!tile.ptr<f32>, #c>
    tile.store %q, %e : tensor<128x8x!tile.ptr<f32>, #c>, tensor<128x8xf32, #c>
    return
  }
}

// -----

// Bytes: no scales, no transposes; a width that integer instructions lack is split in two.
// CHECK-LABEL: llvm.func @kiln_integers(
// CHECK: llvm.inline_asm has_side_effects
// CHECK-SAME: m64n32k32.s32.s8.s8 {$0, {{[^}]*}}, $15}, left, right, adds;
// CHECK-SAME: m64n32k32.s32.s8.s8 {$0, {{[^}]*}}, $15}, left, right, 1;
// CHECK-SAME: m64n8k32.s32.s8.s8 {$16, $17, $18, $19}, left, right, adds;
// CHECK-SAME: "=r,
#a = #layout.map<swizzled [64, 64] element 1 bytes 64>
#b = #layout.map<swizzled [64, 40] order [0, 1] element 1 bytes 64>
#c = #layout.map<wgmma_acc [64, 40] groups 1>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @integers(%p: !tile.ptr<i32>) attributes {tile.kernel, kgpu.shared_bytes = 8192 : i64} {
    %z = arith.constant dense<0> : tensor<64x40xi32, #c>
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xi8, #a>
    %b = kgpu.alloc {offset = 4096 : i64} : !kgpu.mem<64x40xi8, #b>
    %d = kgpu.warpgroup_mma %a, %b, %z : !kgpu.mem<64x64xi8, #a>, !kgpu.mem<64x40xi8, #b> -> tensor<64x40xi32, #c>
    %e = kgpu.mma_wait %d pending 0 : tensor<64x40xi32, #c>
    %q = tile.splat %p : !tile.ptr<i32> -> tensor<64x40x!tile.ptr<i32>, #c>
    tile.store %q, %e : tensor<64x40x!tile.ptr<i32>, #c>, tensor<64x40xi32, #c>
    return
  }
}

// -----

// 16-bit accumulators: two per register. 8-bit floats of two kinds. 512 columns are two instructions.
// CHECK-LABEL: llvm.func @kiln_narrow(
// CHECK: llvm.inline_asm has_side_effects
// CHECK-SAME: m64n256k32.f16.e4m3.e5m2 {$0, {{[^}]*}}, $63}, left, right, adds, 1, 1;
// CHECK-SAME: m64n256k32.f16.e4m3.e5m2 {$64, {{[^}]*}}, $127}, left, right, adds, 1, 1;
// CHECK: llvm.bitcast %{{.*}} : i32 to vector<2xf16>
#a = #layout.map<swizzled [64, 32] element 1 bytes 32>
#b = #layout.map<swizzled [32, 512] order [0, 1] element 1 bytes 32>
#c = #layout.map<wgmma_acc [64, 512] groups 1>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @narrow(%p: !tile.ptr<f16>) attributes {tile.kernel, kgpu.shared_bytes = 20480 : i64} {
    %z = arith.constant dense<0.0> : tensor<64x512xf16, #c>
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x32xf8E4M3FN, #a>
    %b = kgpu.alloc {offset = 2048 : i64} : !kgpu.mem<32x512xf8E5M2, #b>
    %d = kgpu.warpgroup_mma %a, %b, %z : !kgpu.mem<64x32xf8E4M3FN, #a>, !kgpu.mem<32x512xf8E5M2, #b> -> tensor<64x512xf16, #c>
    %e = kgpu.mma_wait %d pending 0 : tensor<64x512xf16, #c>
    %q = tile.splat %p : !tile.ptr<f16> -> tensor<64x512x!tile.ptr<f16>, #c>
    tile.store %q, %e : tensor<64x512x!tile.ptr<f16>, #c>, tensor<64x512xf16, #c>
    return
  }
}

// -----

// A cluster of two: each CTA has 64 of the 128 rows, and all columns.
// CHECK-LABEL: llvm.func @kiln_cluster(
// CHECK: m64n64k8.f32.tf32.tf32 {$0, {{[^}]*}}, $31}, left, right, adds, 1, 1;
// CHECK-NOT: cluster.ctarank
#a = #layout.map<swizzled [128, 32] element 4 bytes 128 ctas 2 split 0>
#b = #layout.map<swizzled [32, 64] order [0, 1] element 4 bytes 128 ctas 2>
#c = #layout.map<wgmma_acc [128, 64] groups 1 ctas 2 split 0>
module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 2 : i32} {
  func.func public @cluster() attributes {tile.kernel, kgpu.shared_bytes = 16384 : i64} {
    %z = arith.constant dense<0.0> : tensor<128x64xf32, #c>
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x32xf32, #a>
    %b = kgpu.alloc {offset = 8192 : i64} : !kgpu.mem<32x64xf32, #b>
    %d = kgpu.warpgroup_mma %a, %b, %z : !kgpu.mem<128x32xf32, #a>, !kgpu.mem<32x64xf32, #b> -> tensor<128x64xf32, #c>
    %e = kgpu.mma_wait %d pending 0 : tensor<128x64xf32, #c>
    return
  }
}

// -----

// 16-bit sums that a loop carries in flight stay packed in words, as products hold them: unpacking would read them, and
// ptxas would serialise the products.
// CHECK-LABEL: llvm.func @kiln_narrow_in_flight(
// CHECK: scf.for {{.*}} -> (i32, i32) : i32 {
// CHECK: m64n8k16.f16.f16.f16 {$0, $1}, left, right
// CHECK: wgmma.wait_group.sync.aligned 1;
#a = #layout.map<swizzled [64, 16] element 2 bytes 32>
#b = #layout.map<swizzled [16, 8] order [0, 1] element 2 bytes 32>
#c = #layout.map<wgmma_acc [64, 8] groups 1>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @narrow_in_flight(%p: !tile.ptr<f16>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 3072 : i64} {
    %z = arith.constant dense<0.0> : tensor<64x8xf16, #c>
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x16xf16, #a>
    %b = kgpu.alloc {offset = 2048 : i64} : !kgpu.mem<16x8xf16, #b>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %z) -> (tensor<64x8xf16, #c>) : i32 {
      %d = kgpu.warpgroup_mma %a, %b, %s : !kgpu.mem<64x16xf16, #a>, !kgpu.mem<16x8xf16, #b> -> tensor<64x8xf16, #c>
      %e = kgpu.mma_wait %d pending 1 : tensor<64x8xf16, #c>
      scf.yield %e : tensor<64x8xf16, #c>
    }
    %e = kgpu.mma_wait %r pending 0 : tensor<64x8xf16, #c>
    %q = tile.splat %p : !tile.ptr<f16> -> tensor<64x8x!tile.ptr<f16>, #c>
    tile.store %q, %e : tensor<64x8x!tile.ptr<f16>, #c>, tensor<64x8xf16, #c>
    return
  }
}

// -----

// A 16-bit operand that a loop carries only for products stays packed in words too. What is computed while a product is
// in flight is held before its wait; without such work nothing is held.
// CHECK-LABEL: llvm.func @kiln_chained(
// CHECK: scf.for {{.*}} -> (i32, i32, i32, i32, f32, f32, f32, f32) : i32 {
// CHECK: m64n16k16.f32.f16.f16 {$0, $1, $2, $3, $4, $5, $6, $7}, left, right
// CHECK: m64n8k16.f32.f16.f16 {$0, $1, $2, $3}, {$8, $9, $10, $11}, right
// CHECK-NOT: pmevent
// CHECK: wgmma.wait_group.sync.aligned 1;
// CHECK: arith.addf
// CHECK: "pmevent 0;"
// CHECK-NEXT: wgmma.wait_group.sync.aligned 0;
// CHECK: llvm.insertelement
// CHECK-NOT: pmevent
// CHECK: llvm.return
#q = #layout.map<swizzled [64, 16] element 2 bytes 32>
#k = #layout.map<swizzled [16, 16] order [0, 1] element 2 bytes 32>
#v = #layout.map<swizzled [16, 8] order [0, 1] element 2 bytes 32>
#s = #layout.map<wgmma_acc [64, 16] groups 1>
#o = #layout.map<wgmma_acc [64, 8] groups 1>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @chained(%p: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 4096 : i64} {
    %none = arith.constant dense<0.0> : tensor<64x16xf32, #s>
    %first = arith.constant dense<1.0> : tensor<64x16xf16, #s>
    %zero = arith.constant dense<0.0> : tensor<64x8xf32, #o>
    %q = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x16xf16, #q>
    %k = kgpu.alloc {offset = 2048 : i64} : !kgpu.mem<16x16xf16, #k>
    %v = kgpu.alloc {offset = 3072 : i64} : !kgpu.mem<16x8xf16, #v>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%factor = %first, %sum = %zero) -> (tensor<64x16xf16, #s>, tensor<64x8xf32, #o>) : i32 {
      %a = kgpu.warpgroup_mma %q, %k, %none : !kgpu.mem<64x16xf16, #q>, !kgpu.mem<16x16xf16, #k> -> tensor<64x16xf32, #s>
      %b = kgpu.warpgroup_mma %factor, %v, %sum : tensor<64x16xf16, #s>, !kgpu.mem<16x8xf16, #v> -> tensor<64x8xf32, #o>
      %c = kgpu.mma_wait %a pending 1 : tensor<64x16xf32, #s>
      %d = arith.addf %c, %c : tensor<64x16xf32, #s>
      %e = kgpu.mma_wait %b pending 0 : tensor<64x8xf32, #o>
      %f = arith.truncf %d : tensor<64x16xf32, #s> to tensor<64x16xf16, #s>
      scf.yield %f, %e : tensor<64x16xf16, #s>, tensor<64x8xf32, #o>
    }
    %t = tile.splat %p : !tile.ptr<f32> -> tensor<64x8x!tile.ptr<f32>, #o>
    tile.store %t, %r#1 : tensor<64x8x!tile.ptr<f32>, #o>, tensor<64x8xf32, #o>
    return
  }
}
