// Fragments move between registers and shared memory as matrices of eight rows if both layouts allow it; warp products
// use them.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm | FileCheck %s
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_80 --kiln-kgpu-to-nvvm | FileCheck %s --check-prefix=OLD

// Four matrices per instruction: 64 x 64 two-byte elements on four warps take 8 instructions. Without stmatrix, words
// are stored.
// CHECK-LABEL: llvm.func @kiln_stored(
// CHECK-COUNT-4: llvm.call_intrinsic "llvm.nvvm.stmatrix.sync.aligned.m8n8.x4.b16"
// CHECK-NOT: stmatrix
// OLD-LABEL: llvm.func @kiln_stored(
// OLD-COUNT-16: llvm.store %{{.*}} {alignment = 4 : i64} : vector<2xf16>, !llvm.ptr<3>
#c = #layout.map<mma_acc [64, 64] warps 4x1>
#m = #layout.map<swizzled [64, 64] element 2 bytes 128>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @stored(%x: f16) attributes {tile.kernel, kgpu.shared_bytes = 8192 : i64} {
    %t = tile.splat %x : f16 -> tensor<64x64xf16, #c>
    %m = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #m>
    kgpu.local_store %t, %m : tensor<64x64xf16, #c>, !kgpu.mem<64x64xf16, #m>
    return
  }
}

// -----

// An operand whose rows are along K is loaded as it is, one whose rows are across K is transposed. Then come products
// of 16 by 8 by 16, each added to the previous one along K. Matrices are loaded at the first product that uses them,
// and none is held longer than needed.
// CHECK-LABEL: llvm.func @kiln_product(
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.b16
// CHECK: ldmatrix.sync.aligned.m8n8.x4.b16
// CHECK: llvm.inline_asm "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};", "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3"
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.b16
// CHECK: mma.sync
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.b16
// CHECK: mma.sync
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.b16
// CHECK: mma.sync
// CHECK: ldmatrix.sync.aligned.m8n8.x4.b16
// CHECK-COUNT-4: mma.sync
// CHECK: ldmatrix.sync.aligned.m8n8.x4.b16
// CHECK-COUNT-4: mma.sync
// CHECK: ldmatrix.sync.aligned.m8n8.x4.b16
// CHECK-COUNT-4: mma.sync
// CHECK-NOT: ldmatrix
// CHECK-NOT: mma.sync
// OLD-LABEL: llvm.func @kiln_product(
// OLD: ldmatrix.sync.aligned.m8n8.x4.trans.b16
// OLD: ldmatrix.sync.aligned.m8n8.x4.b16
// OLD: mma.sync.aligned.m16n8k16
#a = #layout.map<mma_a [64, 32] bits 16 warps 2x2>
#b = #layout.map<mma_b [32, 64] bits 16 warps 2x2>
#c = #layout.map<mma_acc [64, 64] warps 2x2>
#ma = #layout.map<swizzled [64, 32] element 2 bytes 64>
#mb = #layout.map<swizzled [32, 64] element 2 bytes 128>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @product(%p: !tile.ptr<f32>) attributes {tile.kernel, kgpu.shared_bytes = 8192 : i64} {
    %ma = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x32xf16, #ma>
    %mb = kgpu.alloc {offset = 4096 : i64} : !kgpu.mem<32x64xf16, #mb>
    %a = kgpu.local_load %ma : !kgpu.mem<64x32xf16, #ma> -> tensor<64x32xf16, #a>
    %b = kgpu.local_load %mb : !kgpu.mem<32x64xf16, #mb> -> tensor<32x64xf16, #b>
    %z = arith.constant dense<0.0> : tensor<64x64xf32, #c>
    %d = kgpu.warp_mma %a, %b, %z : tensor<64x32xf16, #a>, tensor<32x64xf16, #b> -> tensor<64x64xf32, #c>
    %q = tile.splat %p : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>, #c>
    tile.store %q, %d : tensor<64x64x!tile.ptr<f32>, #c>, tensor<64x64xf32, #c>
    return
  }
}

// -----

// Two batches, 8-bit integers, and words of four elements.
// CHECK-LABEL: llvm.func @kiln_batches(
// CHECK-COUNT-4: llvm.inline_asm "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32
// CHECK-SAME: "=r,=r,=r,=r,r,r,r,r,r,r,0,1,2,3"
// CHECK-NOT: mma.sync
#a = #layout.map<mma_a [2, 16, 32] bits 8 warps 1x1>
#b = #layout.map<mma_b [2, 32, 16] bits 8 warps 1x1>
#c = #layout.map<mma_acc [2, 16, 16] warps 1x1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @batches(%p: !tile.ptr<i32>, %x: i8, %y: i8) attributes {tile.kernel} {
    %a = tile.splat %x : i8 -> tensor<2x16x32xi8, #a>
    %b = tile.splat %y : i8 -> tensor<2x32x16xi8, #b>
    %z = arith.constant dense<0> : tensor<2x16x16xi32, #c>
    %d = kgpu.warp_mma %a, %b, %z : tensor<2x16x32xi8, #a>, tensor<2x32x16xi8, #b> -> tensor<2x16x16xi32, #c>
    %q = tile.splat %p : !tile.ptr<i32> -> tensor<2x16x16x!tile.ptr<i32>, #c>
    tile.store %q, %d : tensor<2x16x16x!tile.ptr<i32>, #c>, tensor<2x16x16xi32, #c>
    return
  }
}

// -----

// Four batches on four warps: each warp multiplies one.
// CHECK-LABEL: llvm.func @kiln_batch_of_a_warp(
// CHECK-COUNT-2: llvm.inline_asm "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// CHECK-NOT: mma.sync
#a = #layout.map<digits [4, 16, 16] reg (0, 0, 1) (0, 8, 0) (0, 0, 8) lane (0, 0, 2) (0, 0, 4) (0, 1, 0) (0, 2, 0) (0, 4, 0) warp (1, 0, 0) (2, 0, 0)>
#b = #layout.map<digits [4, 16, 16] reg (0, 1, 0) (0, 8, 0) (0, 0, 8) lane (0, 2, 0) (0, 4, 0) (0, 0, 1) (0, 0, 2) (0, 0, 4) warp (1, 0, 0) (2, 0, 0)>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @batch_of_a_warp(%p: !tile.ptr<f32>, %x: f16) attributes {tile.kernel} {
    %a = tile.splat %x : f16 -> tensor<4x16x16xf16, #a>
    %b = tile.splat %x : f16 -> tensor<4x16x16xf16, #b>
    %z = arith.constant dense<0.0> : tensor<4x16x16xf32, #a>
    %d = kgpu.warp_mma %a, %b, %z : tensor<4x16x16xf16, #a>, tensor<4x16x16xf16, #b> -> tensor<4x16x16xf32, #a>
    %q = tile.splat %p : !tile.ptr<f32> -> tensor<4x16x16x!tile.ptr<f32>, #a>
    tile.store %q, %d : tensor<4x16x16x!tile.ptr<f32>, #a>, tensor<4x16x16xf32, #a>
    return
  }
}

// -----

// Operands that a loop carries only for products are carried in words, also in another shape: four and two instead of
// eight and four halves.
// CHECK-LABEL: llvm.func @kiln_carried(
// CHECK: scf.for {{.*}} -> (f32, f32, f32, f32, i32, i32, i32, i32, i32, i32) : i32 {
// CHECK: mma.sync
#a = #layout.map<mma_a [16, 16] bits 16 warps 1x1>
#b = #layout.map<mma_b [16, 8] bits 16 warps 1x1>
#t = #layout.map<digits [8, 16] reg (0, 1) (0, 8) lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
#c = #layout.map<mma_acc [16, 8] warps 1x1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @carried(%pp: !tile.ptr<f16>, %rp: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 0 : i64} {
    %p = tile.splat %pp : !tile.ptr<f16> -> tensor<16x16x!tile.ptr<f16>, #a>
    %q = tile.splat %pp : !tile.ptr<f16> -> tensor<8x16x!tile.ptr<f16>, #t>
    %r = tile.splat %rp : !tile.ptr<f32> -> tensor<16x8x!tile.ptr<f32>, #c>
    %sum = arith.constant dense<0.0> : tensor<16x8xf32, #c>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x0 = tile.load %p : tensor<16x16x!tile.ptr<f16>, #a> -> tensor<16x16xf16, #a>
    %w0 = tile.load %q : tensor<8x16x!tile.ptr<f16>, #t> -> tensor<8x16xf16, #t>
    %t:3 = scf.for %i = %c0 to %n step %c1 iter_args(%s = %sum, %x = %x0, %w = %w0)
        -> (tensor<16x8xf32, #c>, tensor<16x16xf16, #a>, tensor<8x16xf16, #t>) : i32 {
      %k = tile.trans %w [1, 0] : tensor<8x16xf16, #t> -> tensor<16x8xf16, #b>
      %u = kgpu.warp_mma %x, %k, %s : tensor<16x16xf16, #a>, tensor<16x8xf16, #b> -> tensor<16x8xf32, #c>
      %x1 = tile.load %p : tensor<16x16x!tile.ptr<f16>, #a> -> tensor<16x16xf16, #a>
      %w1 = tile.load %q : tensor<8x16x!tile.ptr<f16>, #t> -> tensor<8x16xf16, #t>
      scf.yield %u, %x1, %w1 : tensor<16x8xf32, #c>, tensor<16x16xf16, #a>, tensor<8x16xf16, #t>
    }
    tile.store %r, %t#0 : tensor<16x8x!tile.ptr<f32>, #c>, tensor<16x8xf32, #c>
    return
  }
}

// -----

// What a branch gives and a loop carries on to products is joined in words, which the first branch moves once more: LLVM
// would otherwise join what is rounded, in twice as many registers. A result that anything else uses, or that is not
// carried in words, is joined as it is.
// CHECK-LABEL: llvm.func @kiln_joined(
// CHECK: scf.for {{.*}} -> (f32, f32, f32, f32, i32, i32, i32, i32, i32, i32, f16, f16, f16, f16) : i32 {
// CHECK: mma.sync
// CHECK: scf.if %{{.*}} -> (f16, f16, f16, f16, i32, i32, i32, i32, f16, f16, f16, f16) {
// CHECK: llvm.bitcast %{{.*}} : vector<2xf16> to i32
// CHECK-COUNT-4: llvm.inline_asm "mov.b32 $0, $1;", "=r,r" %{{.*}} : (i32) -> i32
// CHECK-NEXT: scf.yield %{{.*}} : f16, f16, f16, f16, i32, i32, i32, i32, f16, f16, f16, f16
// CHECK-NEXT: } else {
// CHECK-NOT: mov.b32
// CHECK: scf.yield %{{.*}} : f16, f16, f16, f16, i32, i32, i32, i32, f16, f16, f16, f16
// CHECK-NEXT: }
// CHECK-NOT: mov.b32
// CHECK: scf.yield %{{.*}} : f32, f32, f32, f32, i32, i32, i32, i32, i32, i32, f16, f16, f16, f16
#a = #layout.map<mma_a [16, 16] bits 16 warps 1x1>
#b = #layout.map<mma_b [16, 8] bits 16 warps 1x1>
#c = #layout.map<mma_acc [16, 8] warps 1x1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @joined(%pp: !tile.ptr<f16>, %rp: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 0 : i64} {
    %p = tile.splat %pp : !tile.ptr<f16> -> tensor<16x16x!tile.ptr<f16>, #a>
    %q = tile.splat %pp : !tile.ptr<f16> -> tensor<16x8x!tile.ptr<f16>, #b>
    %r = tile.splat %rp : !tile.ptr<f32> -> tensor<16x8x!tile.ptr<f32>, #c>
    %sum = arith.constant dense<0.0> : tensor<16x8xf32, #c>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x0 = tile.load %p : tensor<16x16x!tile.ptr<f16>, #a> -> tensor<16x16xf16, #a>
    %w0 = tile.load %q : tensor<16x8x!tile.ptr<f16>, #b> -> tensor<16x8xf16, #b>
    %t:4 = scf.for %i = %c0 to %n step %c1 iter_args(%s = %sum, %x = %x0, %w = %w0, %v = %w0)
        -> (tensor<16x8xf32, #c>, tensor<16x16xf16, #a>, tensor<16x8xf16, #b>, tensor<16x8xf16, #b>) : i32 {
      tile.store %q, %v : tensor<16x8x!tile.ptr<f16>, #b>, tensor<16x8xf16, #b>
      %u = kgpu.warp_mma %x, %w, %s : tensor<16x16xf16, #a>, tensor<16x8xf16, #b> -> tensor<16x8xf32, #c>
      %odd = arith.cmpi sgt, %i, %c1 : i32
      %y:3 = scf.if %odd -> (tensor<16x8xf16, #b>, tensor<16x16xf16, #a>, tensor<16x8xf16, #b>) {
        %w1 = tile.load %q : tensor<16x8x!tile.ptr<f16>, #b> -> tensor<16x8xf16, #b>
        %x1 = tile.load %p : tensor<16x16x!tile.ptr<f16>, #a> -> tensor<16x16xf16, #a>
        scf.yield %w1, %x1, %w0 : tensor<16x8xf16, #b>, tensor<16x16xf16, #a>, tensor<16x8xf16, #b>
      } else {
        scf.yield %w0, %x0, %v : tensor<16x8xf16, #b>, tensor<16x16xf16, #a>, tensor<16x8xf16, #b>
      }
      tile.store %q, %y#0 : tensor<16x8x!tile.ptr<f16>, #b>, tensor<16x8xf16, #b>
      scf.yield %u, %y#1, %y#0, %y#2 : tensor<16x8xf32, #c>, tensor<16x16xf16, #a>, tensor<16x8xf16, #b>, tensor<16x8xf16, #b>
    }
    tile.store %r, %t#0 : tensor<16x8x!tile.ptr<f32>, #c>, tensor<16x8xf32, #c>
    return
  }
}

// -----

// In a branch that a warp takes rarely, products take few registers: two columns of fragments at a time, two steps along
// K of each, held apart from the next. In any other branch they are not.
// CHECK-LABEL: llvm.func @kiln_rare(
// CHECK: vote.any
// CHECK: scf.if
// CHECK-NOT: pmevent
// CHECK: mma.sync
// CHECK-NOT: pmevent
// CHECK: mma.sync
// CHECK-NOT: pmevent
// CHECK: ldmatrix
// CHECK: mma.sync
// CHECK-NOT: {{pmevent|ldmatrix}}
// CHECK: mma.sync
// CHECK-NOT: {{mma.sync|ldmatrix}}
// CHECK: "pmevent 0;"
// CHECK: mma.sync
// CHECK-NOT: pmevent
// CHECK: mma.sync
// CHECK-NOT: pmevent
// CHECK: mma.sync
// CHECK-NOT: pmevent
// CHECK: mma.sync
// CHECK-NOT: mma.sync
// CHECK: "pmevent 0;"
// CHECK-NEXT: scf.yield
// CHECK-NEXT: } else {
// CHECK: scf.if
// CHECK-COUNT-8: mma.sync
// CHECK-NOT: pmevent
// CHECK: } else {
#a = #layout.map<mma_a [16, 64] bits 16 warps 1x1>
#b = #layout.map<mma_b [64, 16] bits 16 warps 1x1>
#c = #layout.map<mma_acc [16, 16] warps 1x1>
#ma = #layout.map<swizzled [16, 64] element 2 bytes 128>
#mb = #layout.map<swizzled [64, 16] order [0, 1] element 2 bytes 128>
#t = #layout.map<blocked [32] vector 1 warps 1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @rare(%p: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, kgpu.shared_bytes = 4096 : i64} {
    %ma = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<16x64xf16, #ma>
    %mb = kgpu.alloc {offset = 2048 : i64} : !kgpu.mem<64x16xf16, #mb>
    %z = arith.constant dense<0.0> : tensor<16x16xf32, #c>
    %r = tile.make_range 0 to 32 : tensor<32xi32, #t>
    %most = tile.splat %n : i32 -> tensor<32xi32, #t>
    %much = arith.cmpi sgt, %r, %most : tensor<32xi32, #t>
    %any = kgpu.any %much : tensor<32xi1, #t>
    %d = scf.if %any -> tensor<16x16xf32, #c> {
      %a = kgpu.local_load %ma : !kgpu.mem<16x64xf16, #ma> -> tensor<16x64xf16, #a>
      %b = kgpu.local_load %mb : !kgpu.mem<64x16xf16, #mb> -> tensor<64x16xf16, #b>
      %e = kgpu.warp_mma %a, %b, %z : tensor<16x64xf16, #a>, tensor<64x16xf16, #b> -> tensor<16x16xf32, #c>
      scf.yield %e : tensor<16x16xf32, #c>
    } else {
      scf.yield %z : tensor<16x16xf32, #c>
    }
    %zero = arith.constant 0 : i32
    %more = arith.cmpi sgt, %n, %zero : i32
    %f = scf.if %more -> tensor<16x16xf32, #c> {
      %a = kgpu.local_load %ma : !kgpu.mem<16x64xf16, #ma> -> tensor<16x64xf16, #a>
      %b = kgpu.local_load %mb : !kgpu.mem<64x16xf16, #mb> -> tensor<64x16xf16, #b>
      %e = kgpu.warp_mma %a, %b, %d : tensor<16x64xf16, #a>, tensor<64x16xf16, #b> -> tensor<16x16xf32, #c>
      scf.yield %e : tensor<16x16xf32, #c>
    } else {
      scf.yield %d : tensor<16x16xf32, #c>
    }
    %q = tile.splat %p : !tile.ptr<f32> -> tensor<16x16x!tile.ptr<f32>, #c>
    tile.store %q, %f : tensor<16x16x!tile.ptr<f32>, #c>, tensor<16x16xf32, #c>
    return
  }
}
