// Where copies and loads of every part give each warp the same elements, receives of slots that are read wait for each
// warp alone. Otherwise they stay as they are, and a remark says where.
// RUN: kiln-opt %s --split-input-file --kiln-wait-by-warp --verify-diagnostics | FileCheck %s

// Warps have 16 rows each, whatever their lanes and registers have. The other part is read with its dimensions turned.
// The second receive gives nothing that is read.
#copied = #layout.map<digits [64, 32] reg (0, 1) (0, 2) (0, 4) (8, 0) lane (0, 8) (0, 16) (1, 0) (2, 0) (4, 0) warp (16, 0) (32, 0)>
#read = #layout.map<digits [64, 32] reg (1, 0) (8, 0) (0, 8) (0, 16) lane (2, 0) (4, 0) (0, 1) (0, 2) (0, 4) warp (16, 0) (32, 0)>
#turned = #layout.map<digits [32, 64] reg (0, 1) (0, 8) (8, 0) (16, 0) lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0) warp (0, 16) (0, 32)>
!mem = !kgpu.mem<64x32xf16, #layout.map<row_major [64, 32]>>
!view = !kgpu.mem<32x64xf16, #layout.map<row_major [32, 64] order [0, 1]>>
!ring = !kgpu.channel<2 x (!mem, !mem)>
module attributes {kgpu.num_warps = 4 : i32} {
// CHECK-LABEL: func.func @agree
// CHECK: kgpu.receive %{{.*}} pending 1 by_warp :
// CHECK: kgpu.receive %{{[^ ]*}}[%{{[^ ]*}}] :
func.func @agree(%p: tensor<64x32x!tile.ptr<f16>, #copied>) -> (tensor<64x32xf16, #read>, tensor<32x64xf16, #turned>) {
  %ch = kgpu.channel groups warps_apart fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s:2 = kgpu.acquire %ch[%c] : !ring -> !mem, !mem
  kgpu.copy_tile %p to %s#0 of %ch[%c] : tensor<64x32x!tile.ptr<f16>, #copied>, !mem, !ring
  kgpu.copy_tile %p to %s#1 of %ch[%c] : tensor<64x32x!tile.ptr<f16>, #copied>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %r:2 = kgpu.receive %ch[%c] pending 1 : !ring -> !mem, !mem
  %x = kgpu.local_load %r#0 : !mem -> tensor<64x32xf16, #read>
  %v = kgpu.trans %r#1 [1, 0] : !mem -> !view
  %y = kgpu.local_load %v : !view -> tensor<32x64xf16, #turned>
  kgpu.release %ch[%c] : !ring
  %d = kgpu.advance %c : !kgpu.cursor<2>
  %e:2 = kgpu.receive %ch[%d] : !ring -> !mem, !mem
  kgpu.release %ch[%d] : !ring
  return %x, %y : tensor<64x32xf16, #read>, tensor<32x64xf16, #turned>
}

// The channel does not ask for it.
// CHECK-LABEL: func.func @not_asked
// CHECK-NOT: by_warp
func.func @not_asked(%p: tensor<64x32x!tile.ptr<f16>, #copied>) -> tensor<64x32xf16, #read> {
  %ch = kgpu.channel groups fillers 4 readers 4 : !kgpu.channel<2 x (!mem)>
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !kgpu.channel<2 x (!mem)> -> !mem
  kgpu.copy_tile %p to %s of %ch[%c] : tensor<64x32x!tile.ptr<f16>, #copied>, !mem, !kgpu.channel<2 x (!mem)>
  kgpu.commit %ch[%c] : !kgpu.channel<2 x (!mem)>
  %r = kgpu.receive %ch[%c] : !kgpu.channel<2 x (!mem)> -> !mem
  %x = kgpu.local_load %r : !mem -> tensor<64x32xf16, #read>
  return %x : tensor<64x32xf16, #read>
}
}

// -----

// One of two parts is read by warps that have not copied it: warp 1 reads what warp 2 copies.
#copied = #layout.map<digits [64, 32] reg (0, 1) (0, 2) (0, 4) (8, 0) lane (0, 8) (0, 16) (1, 0) (2, 0) (4, 0) warp (16, 0) (32, 0)>
#others = #layout.map<digits [64, 32] reg (0, 1) (0, 2) (0, 4) (8, 0) lane (0, 8) (0, 16) (1, 0) (2, 0) (4, 0) warp (32, 0) (16, 0)>
!mem = !kgpu.mem<64x32xf16, #layout.map<row_major [64, 32]>>
!ring = !kgpu.channel<2 x (!mem, !mem)>
module attributes {kgpu.num_warps = 4 : i32} {
// CHECK-LABEL: func.func @one_part_of_others
// CHECK-NOT: by_warp
func.func @one_part_of_others(%p: tensor<64x32x!tile.ptr<f16>, #copied>) -> (tensor<64x32xf16, #copied>, tensor<64x32xf16, #others>) {
  %ch = kgpu.channel groups warps_apart fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s:2 = kgpu.acquire %ch[%c] : !ring -> !mem, !mem
  kgpu.copy_tile %p to %s#0 of %ch[%c] : tensor<64x32x!tile.ptr<f16>, #copied>, !mem, !ring
  kgpu.copy_tile %p to %s#1 of %ch[%c] : tensor<64x32x!tile.ptr<f16>, #copied>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %r:2 = kgpu.receive %ch[%c] pending 1 : !ring -> !mem, !mem
  %x = kgpu.local_load %r#0 : !mem -> tensor<64x32xf16, #copied>
  // expected-remark @below {{schedule lanes: warps wait for each other in each step, because not every warp reads what it alone has copied here}}
  %y = kgpu.local_load %r#1 : !mem -> tensor<64x32xf16, #others>
  return %x, %y : tensor<64x32xf16, #copied>, tensor<64x32xf16, #others>
}
}

// -----

// What a lane adds to the bits that tell warps apart makes it another warp's, and so does a register's.
#copied = #layout.map<digits [64, 32] reg (0, 1) (0, 2) (0, 4) (8, 0) lane (0, 8) (0, 16) (1, 0) (2, 0) (4, 0) warp (16, 0) (32, 0)>
#swizzled = #layout.map<digits [64, 32] reg (0, 1) (0, 2) (0, 4) (8, 0) lane (0, 8) (0, 16) (1, 0) (2, 0) (20, 0) warp (16, 0) (32, 0)>
!mem = !kgpu.mem<64x32xf16, #layout.map<row_major [64, 32]>>
!ring = !kgpu.channel<2 x (!mem)>
module attributes {kgpu.num_warps = 4 : i32} {
// CHECK-LABEL: func.func @lanes_cross
// CHECK-NOT: by_warp
func.func @lanes_cross(%p: tensor<64x32x!tile.ptr<f16>, #copied>) -> tensor<64x32xf16, #swizzled> {
  %ch = kgpu.channel groups warps_apart fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  kgpu.copy_tile %p to %s of %ch[%c] : tensor<64x32x!tile.ptr<f16>, #copied>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !mem
  // expected-remark @below {{not every warp reads what it alone has copied here}}
  %x = kgpu.local_load %r : !mem -> tensor<64x32xf16, #swizzled>
  return %x : tensor<64x32xf16, #swizzled>
}
}

// -----

// Half of the warps copy nothing, since their elements are the others' too.
#copied = #layout.map<digits [64] reg (1) lane (2) (4) (8) (16) (0) warp (32) (0)>
!mem = !kgpu.mem<64xf16, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!mem)>
module attributes {kgpu.num_warps = 4 : i32} {
// CHECK-LABEL: func.func @shared_by_warps
// CHECK-NOT: by_warp
func.func @shared_by_warps(%p: tensor<64x!tile.ptr<f16>, #copied>) -> tensor<64xf16, #copied> {
  %ch = kgpu.channel groups warps_apart fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  // expected-remark @below {{not every warp reads what it alone has copied here}}
  kgpu.copy_tile %p to %s of %ch[%c] : tensor<64x!tile.ptr<f16>, #copied>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !mem
  %x = kgpu.local_load %r : !mem -> tensor<64xf16, #copied>
  return %x : tensor<64xf16, #copied>
}
}

// -----

// Two copies fill a part: of those before the loop and in it, one has other warps.
#copied = #layout.map<digits [64] reg (1) lane (2) (4) (8) (0) (0) warp (16) (32)>
#others = #layout.map<digits [64] reg (1) lane (2) (4) (8) (0) (0) warp (32) (16)>
!mem = !kgpu.mem<64xf16, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!mem)>
module attributes {kgpu.num_warps = 4 : i32} {
// CHECK-LABEL: func.func @copies_differ
// CHECK-NOT: by_warp
func.func @copies_differ(%p: tensor<64x!tile.ptr<f16>, #copied>, %q: tensor<64x!tile.ptr<f16>, #others>) -> tensor<64xf16, #copied> {
  %ch = kgpu.channel groups warps_apart fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  // expected-remark @below {{not every warp reads what it alone has copied here}}
  kgpu.copy_tile %p to %s of %ch[%c] : tensor<64x!tile.ptr<f16>, #copied>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %d = kgpu.advance %c : !kgpu.cursor<2>
  %t = kgpu.acquire %ch[%d] : !ring -> !mem
  kgpu.copy_tile %q to %t of %ch[%d] : tensor<64x!tile.ptr<f16>, #others>, !mem, !ring
  kgpu.commit %ch[%d] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !mem
  %x = kgpu.local_load %r : !mem -> tensor<64xf16, #copied>
  return %x : tensor<64xf16, #copied>
}
}

// -----

// Only code emission decides which thread copies what of a described block.
#read = #layout.map<digits [64, 32] reg (1, 0) (8, 0) (0, 8) (0, 16) lane (2, 0) (4, 0) (0, 1) (0, 2) (0, 4) warp (16, 0) (32, 0)>
!mem = !kgpu.mem<64x32xf16, #layout.map<row_major [64, 32]>>
!ring = !kgpu.channel<2 x (!mem)>
module attributes {kgpu.num_warps = 4 : i32} {
// CHECK-LABEL: func.func @block
// CHECK-NOT: by_warp
func.func @block(%d: !tile.desc<tensor<64x32xf16>>, %i: i32) -> tensor<64x32xf16, #read> {
  %ch = kgpu.channel groups warps_apart fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  // expected-remark @below {{not every warp reads what it alone has copied here}}
  kgpu.copy_block %d[%i, %i] to %s of %ch[%c] : !tile.desc<tensor<64x32xf16>>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !mem
  %x = kgpu.local_load %r : !mem -> tensor<64x32xf16, #read>
  return %x : tensor<64x32xf16, #read>
}
}
