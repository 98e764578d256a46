// RUN: kiln-opt %s --split-input-file --kiln-close-reads | FileCheck %s

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// The op is placed after the last of several reads, before the first later use; uses of earlier reads may come in
// between.
// CHECK-LABEL: func.func public @run(
// CHECK: tile.load
// CHECK-NEXT: arith.addi
// CHECK-NEXT: tile.load
// CHECK-NEXT: kgpu.close_reads
// CHECK-NEXT: arith.addi
// CHECK-NOT: close_reads
// CHECK: return
func.func public @run(%xp: !tile.ptr<i32>, %yp: !tile.ptr<i32>) attributes {tile.kernel} {
  %x = tile.splat %xp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
  %y = tile.splat %yp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
  %v = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
  %d = arith.addi %v, %v : tensor<128xi32, #b>
  %w = tile.load %y : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
  %s = arith.addi %d, %w : tensor<128xi32, #b>
  tile.store %x, %s : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
  return
}

// -----

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// A single read has no other to be kept together with; a read after a possible write is in no run.
// CHECK-LABEL: func.func public @one(
// CHECK-NOT: close_reads
// CHECK: return
func.func public @one(%xp: !tile.ptr<i32>) attributes {tile.kernel} {
  %x = tile.splat %xp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
  %v = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
  tile.store %x, %v : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
  %w = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
  %u = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
  %s = arith.addi %w, %u : tensor<128xi32, #b>
  tile.store %x, %s : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
  return
}

// -----

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// Where the next launch may begin, the reads keep their place as well.
// CHECK-LABEL: func.func public @begins(
// CHECK: tile.load
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.launch_dependents
// CHECK-NEXT: arith.addi
module attributes {kgpu.pdl} {
  func.func public @begins(%xp: !tile.ptr<i32>) attributes {tile.kernel} {
    %x = tile.splat %xp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %v = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    %w = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    tile.launch_dependents
    %s = arith.addi %v, %w : tensor<128xi32, #b>
    tile.store %x, %s : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    return
  }
}

// -----

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// If launches do not overlap, launch_dependents has no effect, so close_reads is still needed.
// CHECK-LABEL: func.func public @begins_alone(
// CHECK: tile.load
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.launch_dependents
// CHECK-NEXT: kgpu.close_reads
// CHECK-NEXT: arith.addi
module {
  func.func public @begins_alone(%xp: !tile.ptr<i32>) attributes {tile.kernel} {
    %x = tile.splat %xp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %v = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    %w = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    tile.launch_dependents
    %s = arith.addi %v, %w : tensor<128xi32, #b>
    tile.store %x, %s : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    return
  }
}

// -----

#a = #layout.map<mma_a [16, 16] bits 16 warps 1x1>
#b = #layout.map<mma_b [16, 8] bits 16 warps 1x1>
#c = #layout.map<mma_acc [16, 8] warps 1x1>

// In a loop whose products read registers, the reads of the next step are issued before the product that needs none of
// them; other loops are left alone.
// CHECK-LABEL: func.func public @ahead(
// CHECK: kgpu.close_reads
// CHECK: scf.for
// CHECK: kgpu.warp_mma
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.load
// CHECK-NEXT: kgpu.close_reads
// CHECK-NEXT: kgpu.warp_mma
// CHECK-NEXT: scf.yield
// CHECK: scf.for
// CHECK-NOT: close_reads
// CHECK: return
func.func public @ahead(%pp: !tile.ptr<f16>, %rp: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %p = tile.splat %pp : !tile.ptr<f16> -> tensor<16x16x!tile.ptr<f16>, #a>
  %q = tile.splat %pp : !tile.ptr<f16> -> tensor<16x8x!tile.ptr<f16>, #b>
  %r = tile.splat %rp : !tile.ptr<f32> -> tensor<16x8x!tile.ptr<f32>, #c>
  %sum = arith.constant dense<0.0> : tensor<16x8xf32, #c>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %x0 = tile.load %p : tensor<16x16x!tile.ptr<f16>, #a> -> tensor<16x16xf16, #a>
  %w0 = tile.load %q : tensor<16x8x!tile.ptr<f16>, #b> -> tensor<16x8xf16, #b>
  %t:3 = scf.for %i = %c0 to %n step %c1 iter_args(%s = %sum, %x = %x0, %w = %w0)
      -> (tensor<16x8xf32, #c>, tensor<16x16xf16, #a>, tensor<16x8xf16, #b>) : i32 {
    %u = kgpu.warp_mma %x, %w, %s : tensor<16x16xf16, #a>, tensor<16x8xf16, #b> -> tensor<16x8xf32, #c>
    %x1 = tile.load %p : tensor<16x16x!tile.ptr<f16>, #a> -> tensor<16x16xf16, #a>
    %w1 = tile.load %q : tensor<16x8x!tile.ptr<f16>, #b> -> tensor<16x8xf16, #b>
    %v = kgpu.warp_mma %x, %w, %u : tensor<16x16xf16, #a>, tensor<16x8xf16, #b> -> tensor<16x8xf32, #c>
    scf.yield %v, %x1, %w1 : tensor<16x8xf32, #c>, tensor<16x16xf16, #a>, tensor<16x8xf16, #b>
  }
  %d = scf.for %i = %c0 to %n step %c1 iter_args(%s = %t#0) -> (tensor<16x8xf32, #c>) : i32 {
    %f = tile.load %r : tensor<16x8x!tile.ptr<f32>, #c> -> tensor<16x8xf32, #c>
    %g = tile.load %r : tensor<16x8x!tile.ptr<f32>, #c> -> tensor<16x8xf32, #c>
    %h = arith.addf %f, %g : tensor<16x8xf32, #c>
    %k = arith.addf %s, %h : tensor<16x8xf32, #c>
    scf.yield %k : tensor<16x8xf32, #c>
  }
  tile.store %r, %d : tensor<16x8x!tile.ptr<f32>, #c>, tensor<16x8xf32, #c>
  return
}

// -----

#b = #layout.map<blocked [64, 32] vector 8 warps 4>
!copied = tensor<64x32x!tile.ptr<f16>, #b>
!mem = !kgpu.mem<64x32xf16, #layout.map<row_major [64, 32]>>
!ring = !kgpu.channel<2 x (!mem)>

// A read that is issued before a ring's first copies stays there: behind them it would be answered after the last.
// CHECK-LABEL: func.func public @before_copies(
// CHECK: tile.load
// CHECK-NEXT: kgpu.acquire
// CHECK-NEXT: kgpu.close_reads
// CHECK-NEXT: kgpu.copy_tile
// CHECK-NEXT: kgpu.commit
// CHECK-NOT: close_reads
// CHECK: return
func.func public @before_copies(%at: !tile.ptr<f16>, %from: !tile.ptr<f16>) attributes {tile.kernel} {
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %p = tile.splat %at : !tile.ptr<f16> -> !copied
  %q = tile.splat %from : !tile.ptr<f16> -> !copied
  %x = tile.load %p : !copied -> tensor<64x32xf16, #b>
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  kgpu.copy_tile %q to %s of %ch[%c] : !copied, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %y = arith.addf %x, %x : tensor<64x32xf16, #b>
  tile.store %p, %y : !copied, tensor<64x32xf16, #b>
  return
}

// Also before a loop of them, but not before a loop that waits for copies.
// CHECK-LABEL: func.func public @before_a_loop(
// CHECK: tile.load
// CHECK-NEXT: kgpu.close_reads
// CHECK-NEXT: scf.for
// CHECK: kgpu.commit
// CHECK: tile.load
// CHECK-NEXT: scf.for
// CHECK-NEXT: kgpu.receive
func.func public @before_a_loop(%at: !tile.ptr<f16>, %from: !tile.ptr<f16>, %n: i32) attributes {tile.kernel} {
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %p = tile.splat %at : !tile.ptr<f16> -> !copied
  %q = tile.splat %from : !tile.ptr<f16> -> !copied
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %x = tile.load %p : !copied -> tensor<64x32xf16, #b>
  scf.for %i = %zero to %n step %one : i32 {
    %s = kgpu.acquire %ch[%c] : !ring -> !mem
    kgpu.copy_tile %q to %s of %ch[%c] : !copied, !mem, !ring
    kgpu.commit %ch[%c] : !ring
  }
  %z = tile.load %p : !copied -> tensor<64x32xf16, #b>
  scf.for %i = %zero to %n step %one : i32 {
    %r = kgpu.receive %ch[%c] : !ring -> !mem
    kgpu.release %ch[%c] : !ring
    %s = kgpu.acquire %ch[%c] : !ring -> !mem
    kgpu.copy_tile %q to %s of %ch[%c] : !copied, !mem, !ring
    kgpu.commit %ch[%c] : !ring
  }
  %y = arith.addf %x, %z : tensor<64x32xf16, #b>
  tile.store %p, %y : !copied, tensor<64x32xf16, #b>
  return
}
