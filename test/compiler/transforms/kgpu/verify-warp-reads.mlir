// Receives that are marked `by_warp` by hand: kiln-verify-channels looks up who has copied each element that a warp
// reads.
// RUN: kiln-opt %s --split-input-file --kiln-verify-channels --verify-diagnostics

// Warps have 16 rows each, in another order of rows and columns.
#copied = #layout.map<digits [64, 32] reg (0, 1) (0, 2) (0, 4) (8, 0) lane (0, 8) (0, 16) (1, 0) (2, 0) (4, 0) warp (16, 0) (32, 0)>
#swizzled = #layout.map<digits [32, 64] reg (0, 1) (0, 8) (8, 0) (16, 0) lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0) warp (4, 17) (8, 32)>
!mem = !kgpu.mem<64x32xf16, #layout.map<row_major [64, 32]>>
!view = !kgpu.mem<32x64xf16, #layout.map<row_major [32, 64] order [0, 1]>>
!ring = !kgpu.channel<2 x (!mem)>
module attributes {kgpu.num_warps = 4 : i32} {
func.func @own(%p: tensor<64x32x!tile.ptr<f16>, #copied>) {
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  kgpu.copy_tile %p to %s of %ch[%c] : tensor<64x32x!tile.ptr<f16>, #copied>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] by_warp : !ring -> !mem
  %v = kgpu.trans %r [1, 0] : !mem -> !view
  %y = kgpu.local_load %v : !view -> tensor<32x64xf16, #swizzled>
  kgpu.release %ch[%c] : !ring
  return
}
}

// -----

#copied = #layout.map<digits [64, 32] reg (0, 1) (0, 2) (0, 4) (8, 0) lane (0, 8) (0, 16) (1, 0) (2, 0) (4, 0) warp (16, 0) (32, 0)>
#crossed = #layout.map<digits [64, 32] reg (0, 1) (0, 2) (0, 4) (8, 0) lane (0, 8) (0, 16) (1, 0) (2, 0) (4, 0) warp (32, 0) (16, 0)>
!mem = !kgpu.mem<64x32xf16, #layout.map<row_major [64, 32]>>
!ring = !kgpu.channel<2 x (!mem, !mem)>
module attributes {kgpu.num_warps = 4 : i32} {
func.func @reads_of_others(%p: tensor<64x32x!tile.ptr<f16>, #copied>) {
  %ch = kgpu.channel groups warps_apart fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s:2 = kgpu.acquire %ch[%c] : !ring -> !mem, !mem
  kgpu.copy_tile %p to %s#0 of %ch[%c] : tensor<64x32x!tile.ptr<f16>, #copied>, !mem, !ring
  // expected-note @below {{the copy}}
  kgpu.copy_tile %p to %s#1 of %ch[%c] : tensor<64x32x!tile.ptr<f16>, #copied>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %r:2 = kgpu.receive %ch[%c] by_warp : !ring -> !mem, !mem
  %x = kgpu.local_load %r#0 : !mem -> tensor<64x32xf16, #copied>
  // expected-error @below {{expected each warp to read only what it has copied (because the slot is received by_warp, so no warp waits for the copies of others), got warp 1 reading element [32, 0] of part #1, which warp 2 copies}}
  %y = kgpu.local_load %r#1 : !mem -> tensor<64x32xf16, #crossed>
  kgpu.release %ch[%c] : !ring
  return
}
}

// -----

// The dimensions of the view are those of the part in the other order.
#copied = #layout.map<digits [64, 64] reg (0, 1) (0, 2) (0, 4) (8, 0) (0, 32) lane (0, 8) (0, 16) (1, 0) (2, 0) (4, 0) warp (16, 0) (32, 0)>
!mem = !kgpu.mem<64x64xf16, #layout.map<row_major [64, 64]>>
!view = !kgpu.mem<64x64xf16, #layout.map<row_major [64, 64] order [0, 1]>>
!ring = !kgpu.channel<2 x (!mem)>
module attributes {kgpu.num_warps = 4 : i32} {
func.func @turned(%p: tensor<64x64x!tile.ptr<f16>, #copied>) {
  %ch = kgpu.channel groups warps_apart fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  // expected-note @below {{the copy}}
  kgpu.copy_tile %p to %s of %ch[%c] : tensor<64x64x!tile.ptr<f16>, #copied>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] by_warp : !ring -> !mem
  %v = kgpu.trans %r [1, 0] : !mem -> !view
  // expected-error @below {{got warp 0 reading element [32, 0] of part #0, which warp 2 copies}}
  %y = kgpu.local_load %v : !view -> tensor<64x64xf16, #copied>
  kgpu.release %ch[%c] : !ring
  return
}
}

// -----

// A slot that is received with a barrier, and read by all warps: a warp that does not wait behind it overwrites what
// another still reads.
#copied = #layout.map<digits [64] reg (1) lane (2) (4) (8) (0) (0) warp (16) (32)>
#whole = #layout.map<replicated [64] warps 4>
!mem = !kgpu.mem<64xf16, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!mem)>
module attributes {kgpu.num_warps = 4 : i32} {
func.func @another_receive(%p: tensor<64x!tile.ptr<f16>, #copied>) {
  %ch = kgpu.channel groups warps_apart fillers 4 readers 4 : !ring
  %c0 = kgpu.cursor : !kgpu.cursor<2>
  %s0 = kgpu.acquire %ch[%c0] : !ring -> !mem
  kgpu.copy_tile %p to %s0 of %ch[%c0] : tensor<64x!tile.ptr<f16>, #copied>, !mem, !ring
  kgpu.commit %ch[%c0] : !ring
  %r0 = kgpu.receive %ch[%c0] : !ring -> !mem
  // expected-error @below {{got warp 0 reading element [16] of part #0, which warp 1 copies}}
  %x = kgpu.local_load %r0 : !mem -> tensor<64xf16, #whole>
  kgpu.release %ch[%c0] : !ring
  %c1 = kgpu.advance %c0 : !kgpu.cursor<2>
  %s1 = kgpu.acquire %ch[%c1] : !ring -> !mem
  // expected-note @below {{the copy}}
  kgpu.copy_tile %p to %s1 of %ch[%c1] : tensor<64x!tile.ptr<f16>, #copied>, !mem, !ring
  kgpu.commit %ch[%c1] : !ring
  %r1 = kgpu.receive %ch[%c1] by_warp : !ring -> !mem
  %y = kgpu.local_load %r1 : !mem -> tensor<64xf16, #copied>
  kgpu.release %ch[%c1] : !ring
  return
}
}

// -----

// Of the warps that have an element only the owner copies it.
#shared = #layout.map<digits [64] reg (1) lane (2) (4) (8) (16) (0) warp (32) (0)>
!mem = !kgpu.mem<64xf16, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!mem)>
module attributes {kgpu.num_warps = 4 : i32} {
func.func @shared(%p: tensor<64x!tile.ptr<f16>, #shared>) {
  %ch = kgpu.channel groups warps_apart fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  // expected-error @below {{expected one warp to copy each element (because its slot is received by_warp), got warps 0 and 2 copying element [0] of part #0}}
  kgpu.copy_tile %p to %s of %ch[%c] : tensor<64x!tile.ptr<f16>, #shared>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] by_warp : !ring -> !mem
  %x = kgpu.local_load %r : !mem -> tensor<64xf16, #shared>
  kgpu.release %ch[%c] : !ring
  return
}
}

// -----

#row = #layout.map<digits [64] reg (1) lane (2) (4) (8) (0) (0) warp (16) (32)>
!mem = !kgpu.mem<64xf16, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!mem)>
module attributes {kgpu.num_warps = 4 : i32} {
func.func @stored(%x: tensor<64xf16, #row>) {
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  // expected-error @below {{expected a kgpu.copy_tile with a layout to fill slots that are received by_warp (because the layout says which warp copies what), got another op or no layout}}
  kgpu.local_store %x, %s : tensor<64xf16, #row>, !mem
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] by_warp : !ring -> !mem
  %y = kgpu.local_load %r : !mem -> tensor<64xf16, #row>
  kgpu.release %ch[%c] : !ring
  return
}
}

// -----

#row = #layout.map<digits [64] reg (1) lane (2) (4) (8) (0) (0) warp (16) (32)>
!mem = !kgpu.mem<64xf16, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!mem)>
module attributes {kgpu.num_warps = 4 : i32} {
func.func @gathered(%p: tensor<64x!tile.ptr<f16>, #row>, %i: tensor<64xi32, #row>) {
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  kgpu.copy_tile %p to %s of %ch[%c] : tensor<64x!tile.ptr<f16>, #row>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] by_warp : !ring -> !mem
  // expected-error @below {{expected slots that are received by_warp to be read by a kgpu.local_load with a layout (because the layout says which warp reads what), got another op or no layout}}
  %y = kgpu.local_gather %r[%i] 0 : !mem, tensor<64xi32, #row> -> tensor<64xf16, #row>
  kgpu.release %ch[%c] : !ring
  return
}
}
