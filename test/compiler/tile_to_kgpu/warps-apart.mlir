// Copies to a channel whose warps are to be apart: warp digits are the highest of the slowest dimension that is longer
// than one, and pieces stay as wide as memory allows. Lanes for which a small part has no piece repeat others.
// RUN: kiln-opt %s --kiln-assign-layouts | FileCheck %s

!codes = !kgpu.mem<128x32xi8, #layout.map<row_major [128, 32]>>
!scales = !kgpu.mem<1x64xf16, #layout.map<row_major [1, 64]>>
!rows = !kgpu.mem<64x128xf16, #layout.map<row_major [64, 128]>>
!ring = !kgpu.channel<2 x (!codes, !scales)>
module attributes {kgpu.num_warps = 4 : i32} {
// CHECK-DAG: #[[CODES:.*]] = #layout.map<digits [128, 32] reg (0, 1) (0, 2) (0, 4) (0, 8) (16, 0) lane (0, 16) (1, 0) (2, 0) (4, 0) (8, 0) warp (32, 0) (64, 0)>
// CHECK-DAG: #[[SCALES:.*]] = #layout.map<digits [1, 64] reg (0, 1) (0, 2) (0, 4) lane (0, 8) (0, 0) (0, 0) (0, 0) (0, 0) warp (0, 16) (0, 32)>
// CHECK-DAG: #[[ROWS:.*]] = #layout.map<digits [64, 128] reg (0, 1) (0, 2) (0, 4) (0, 64) (4, 0) (8, 0) lane (0, 8) (0, 16) (0, 32) (1, 0) (2, 0) warp (16, 0) (32, 0)>
// CHECK-LABEL: func.func @apart
// CHECK: kgpu.copy_tile %{{.*}} : tensor<128x32x!tile.ptr<i8>, #[[CODES]]>
// CHECK: kgpu.copy_tile %{{.*}} : tensor<1x64x!tile.ptr<f16>, #[[SCALES]]>
func.func @apart(%c: !tile.ptr<i8> {tile.divisibility = 16 : i64}, %s: !tile.ptr<f16> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %ch = kgpu.channel groups warps_apart fillers 4 readers 4 : !ring
  %at = kgpu.cursor : !kgpu.cursor<2>
  %row = tile.make_range 0 to 64 : tensor<64xi32>
  %line = tile.make_range 0 to 128 : tensor<128xi32>
  %rows = tile.expand_dims %line 1 : tensor<128xi32> -> tensor<128x1xi32>
  %width = arith.constant dense<32> : tensor<128x1xi32>
  %down = arith.muli %rows, %width : tensor<128x1xi32>
  %column = tile.make_range 0 to 32 : tensor<32xi32>
  %columns = tile.expand_dims %column 0 : tensor<32xi32> -> tensor<1x32xi32>
  %a = tile.broadcast %down : tensor<128x1xi32> -> tensor<128x32xi32>
  %b = tile.broadcast %columns : tensor<1x32xi32> -> tensor<128x32xi32>
  %place = arith.addi %a, %b : tensor<128x32xi32>
  %base = tile.splat %c : !tile.ptr<i8> -> tensor<128x32x!tile.ptr<i8>>
  %codes = tile.addptr %base, %place : tensor<128x32x!tile.ptr<i8>>, tensor<128x32xi32>
  %token = tile.expand_dims %row 0 : tensor<64xi32> -> tensor<1x64xi32>
  %first = tile.splat %s : !tile.ptr<f16> -> tensor<1x64x!tile.ptr<f16>>
  %scales = tile.addptr %first, %token : tensor<1x64x!tile.ptr<f16>>, tensor<1x64xi32>
  %slot:2 = kgpu.acquire %ch[%at] : !ring -> !codes, !scales
  kgpu.copy_tile %codes to %slot#0 of %ch[%at] : tensor<128x32x!tile.ptr<i8>>, !codes, !ring
  kgpu.copy_tile %scales to %slot#1 of %ch[%at] : tensor<1x64x!tile.ptr<f16>>, !scales, !ring
  kgpu.commit %ch[%at] : !ring
  return
}

// Eight lanes have 128 bytes of a row, and a thread pieces of four rows.
// CHECK: func.func @long_rows
// CHECK: kgpu.copy_tile %{{.*}} : tensor<64x128x!tile.ptr<f16>, #[[ROWS]]>
func.func @long_rows(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %ch = kgpu.channel groups warps_apart fillers 4 readers 4 : !kgpu.channel<2 x (!rows)>
  %at = kgpu.cursor : !kgpu.cursor<2>
  %row = tile.make_range 0 to 64 : tensor<64xi32>
  %rows = tile.expand_dims %row 1 : tensor<64xi32> -> tensor<64x1xi32>
  %width = arith.constant dense<1024> : tensor<64x1xi32>
  %down = arith.muli %rows, %width : tensor<64x1xi32>
  %column = tile.make_range 0 to 128 : tensor<128xi32>
  %columns = tile.expand_dims %column 0 : tensor<128xi32> -> tensor<1x128xi32>
  %a = tile.broadcast %down : tensor<64x1xi32> -> tensor<64x128xi32>
  %b = tile.broadcast %columns : tensor<1x128xi32> -> tensor<64x128xi32>
  %place = arith.addi %a, %b : tensor<64x128xi32>
  %base = tile.splat %x : !tile.ptr<f16> -> tensor<64x128x!tile.ptr<f16>>
  %pointers = tile.addptr %base, %place : tensor<64x128x!tile.ptr<f16>>, tensor<64x128xi32>
  %slot = kgpu.acquire %ch[%at] : !kgpu.channel<2 x (!rows)> -> !rows
  kgpu.copy_tile %pointers to %slot of %ch[%at] : tensor<64x128x!tile.ptr<f16>>, !rows, !kgpu.channel<2 x (!rows)>
  kgpu.commit %ch[%at] : !kgpu.channel<2 x (!rows)>
  return
}

// Without the wish, the first eight lanes copy all of it.
// CHECK: func.func @together
// CHECK-NOT: #[[SCALES]]>
// CHECK: kgpu.copy_tile
// CHECK-NOT: #[[SCALES]]>
func.func @together(%s: !tile.ptr<f16> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %ch = kgpu.channel groups fillers 4 readers 4 : !kgpu.channel<2 x (!scales)>
  %at = kgpu.cursor : !kgpu.cursor<2>
  %row = tile.make_range 0 to 64 : tensor<64xi32>
  %token = tile.expand_dims %row 0 : tensor<64xi32> -> tensor<1x64xi32>
  %first = tile.splat %s : !tile.ptr<f16> -> tensor<1x64x!tile.ptr<f16>>
  %scales = tile.addptr %first, %token : tensor<1x64x!tile.ptr<f16>>, tensor<1x64xi32>
  %slot = kgpu.acquire %ch[%at] : !kgpu.channel<2 x (!scales)> -> !scales
  kgpu.copy_tile %scales to %slot of %ch[%at] : tensor<1x64x!tile.ptr<f16>>, !scales, !kgpu.channel<2 x (!scales)>
  kgpu.commit %ch[%at] : !kgpu.channel<2 x (!scales)>
  return
}
}
