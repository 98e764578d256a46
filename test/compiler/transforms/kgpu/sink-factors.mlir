// Operands are converted where they are multiplied, and tiles that are loaded next to a ring behind its first copies.
// RUN: kiln-opt %s --kiln-sink-factors | FileCheck %s

!rows = tensor<64x32xf16, #layout.map<blocked [64, 32] vector 8 warps 4>>
!columns = tensor<32x64xf16, #layout.map<blocked [32, 64] vector 8 warps 4>>
!a = tensor<64x32xf16, #layout.map<mma_a [64, 32] bits 16 warps 2x2>>
!b = tensor<32x64xf16, #layout.map<mma_b [32, 64] bits 16 warps 2x2>>
!c = tensor<64x64xf32, #layout.map<mma_acc [64, 64] warps 2x2>>

// CHECK-LABEL: @sunk
// CHECK: %[[ACC:.*]] = arith.addf
// CHECK-NEXT: %[[A:.*]] = kgpu.convert %arg0
// CHECK-NEXT: %[[B:.*]] = kgpu.convert %arg1
// CHECK-NEXT: kgpu.warp_mma %[[A]], %[[B]], %[[ACC]]
func.func @sunk(%x: !rows, %y: !columns, %c: !c) -> !c {
  %a = kgpu.convert %x : !rows -> !a
  %b = kgpu.convert %y : !columns -> !b
  %acc = arith.addf %c, %c : !c
  %d = kgpu.warp_mma %a, %b, %acc : !a, !b -> !c
  return %d : !c
}

// Two products use one operand, whose conversion stays where it dominates both.
// CHECK-LABEL: @shared
// CHECK-NEXT: %[[A:.*]] = kgpu.convert %arg0
// CHECK-NEXT: arith.addf
// CHECK-NEXT: kgpu.convert %arg1
// CHECK-NEXT: kgpu.warp_mma %[[A]]
func.func @shared(%x: !rows, %y: !columns, %z: !columns, %c: !c) -> !c {
  %a = kgpu.convert %x : !rows -> !a
  %b = kgpu.convert %y : !columns -> !b
  %b2 = kgpu.convert %z : !columns -> !b
  %acc = arith.addf %c, %c : !c
  %d = kgpu.warp_mma %a, %b, %acc : !a, !b -> !c
  %e = kgpu.warp_mma %a, %b2, %d : !a, !b -> !c
  return %e : !c
}

// A loop-invariant operand is converted once, before the loop.
// CHECK-LABEL: @before_the_loop
// CHECK-NEXT: kgpu.convert %arg0
// CHECK: scf.for
func.func @before_the_loop(%x: !rows, %b: !b, %c: !c, %n: i32) -> !c {
  %a = kgpu.convert %x : !rows -> !a
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%acc = %c) -> !c : i32 {
    %d = kgpu.warp_mma %a, %b, %acc : !a, !b -> !c
    scf.yield %d : !c
  }
  return %r : !c
}

!copied = tensor<64x32x!tile.ptr<f16>, #layout.map<blocked [64, 32] vector 8 warps 4>>
!mem = !kgpu.mem<64x32xf16, #layout.map<row_major [64, 32]>>
!ring = !kgpu.channel<2 x (!mem)>

// What is computed from a tile loaded next to a ring moves behind the ring's first copies, which then do not wait for
// the tile; not what they need, nor what is used in front of them, nor what waits for nothing.
// CHECK-LABEL: @behind_copies
// CHECK: %[[X:.*]] = tile.load
// CHECK-NEXT: %[[USED:.*]] = arith.addf %[[X]], %[[X]]
// CHECK-NEXT: tile.store %{{.*}}, %[[USED]]
// CHECK-NEXT: %[[FREE:.*]] = kgpu.convert %arg1
// CHECK-NEXT: kgpu.acquire
// CHECK-NEXT: kgpu.copy_tile
// CHECK-NEXT: kgpu.commit
// CHECK-NEXT: %[[A:.*]] = kgpu.convert %[[X]]
// CHECK-NEXT: %[[TWICE:.*]] = arith.addf %[[A]], %[[A]]
// CHECK-NEXT: return %[[TWICE]], %[[FREE]]
func.func @behind_copies(%p: !copied, %z: !columns, %ch: !ring, %c: !kgpu.cursor<2>) -> (!a, !b) {
  %x = tile.load %p : !copied -> !rows
  %a = kgpu.convert %x : !rows -> !a
  %twice = arith.addf %a, %a : !a
  %used = arith.addf %x, %x : !rows
  tile.store %p, %used : !copied, !rows
  %free = kgpu.convert %z : !columns -> !b
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  kgpu.copy_tile %p to %s of %ch[%c] : !copied, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  return %twice, %free : !a, !b
}

// Behind a loop of them, but not into or behind a loop that waits for copies.
// CHECK-LABEL: @behind_a_loop
// CHECK: tile.load
// CHECK-NEXT: scf.for
// CHECK: kgpu.commit
// CHECK: kgpu.convert
// CHECK-NEXT: scf.for
// CHECK-NEXT: kgpu.receive
func.func @behind_a_loop(%p: !copied, %ch: !ring, %c: !kgpu.cursor<2>, %n: i32) -> !a {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %x = tile.load %p : !copied -> !rows
  %a = kgpu.convert %x : !rows -> !a
  scf.for %i = %zero to %n step %one : i32 {
    %s = kgpu.acquire %ch[%c] : !ring -> !mem
    kgpu.copy_tile %p to %s of %ch[%c] : !copied, !mem, !ring
    kgpu.commit %ch[%c] : !ring
  }
  scf.for %i = %zero to %n step %one : i32 {
    %r = kgpu.receive %ch[%c] : !ring -> !mem
    kgpu.release %ch[%c] : !ring
    %s = kgpu.acquire %ch[%c] : !ring -> !mem
    kgpu.copy_tile %p to %s of %ch[%c] : !copied, !mem, !ring
    kgpu.commit %ch[%c] : !ring
  }
  return %a : !a
}
