// Operands are converted where they are multiplied.
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
