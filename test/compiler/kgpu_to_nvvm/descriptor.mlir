// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

#m = #layout.map<blocked [16, 64] order [1, 0] vector 4 warps 4>

// Extents, strides and base are multiples of the vector size: one predicate for four elements, false outside the array.
// Rows outside are NaN.
// CHECK-LABEL: llvm.func @kiln_box(
// CHECK: arith.cmpi ult
// CHECK: "@$5 ld.global.v4.b32 {$0, $1, $2, $3}, [$4];", "=r,=r,=r,=r,l,b,0,1,2,3,~{memory}"
// CHECK-SAME: %[[NAN:[a-z0-9_]+]], %[[NAN]], %[[NAN]], %[[NAN]]
// CHECK: "@$5 st.global.v4.b32 [$0], {$1, $2, $3, $4};"
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @box(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %M: i64, %N: i64 {tile.divisibility = 16 : i64},
                        %i: i32) attributes {tile.kernel} {
    %one = arith.constant 1 : i64
    %c0 = arith.constant 0 : i32
    %d = tile.make_desc %x, shape [%M, %N] strides [%N, %one] {padding = #tile<padding nan>}
      : !tile.ptr<f32> -> !tile.desc<tensor<16x64xf32>>
    %v = tile.desc_load %d[%i, %c0] : !tile.desc<tensor<16x64xf32>> -> tensor<16x64xf32, #m>
    tile.desc_store %d[%i, %c0], %v : !tile.desc<tensor<16x64xf32>>, tensor<16x64xf32, #m>
    return
  }
}

// -----

#m = #layout.map<blocked [16, 64] order [1, 0] vector 4 warps 4>

// Nothing is checked: no predicate. With nothing known about the column, it is read element by element.
// CHECK-LABEL: llvm.func @kiln_unchecked(
// CHECK-NOT: @$
// CHECK: "ld.global.b32 $0, [$1];"
// CHECK-NOT: arith.cmpi ult
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @unchecked(%x: !tile.ptr<f32>, %M: i64, %N: i64, %i: i32) attributes {tile.kernel} {
    %one = arith.constant 1 : i64
    %d = tile.make_desc %x, shape [%M, %N] strides [%N, %one] : !tile.ptr<f32> -> !tile.desc<tensor<16x64xf32>>
    %v = tile.desc_load %d[%i, %i] {boundary = array<i32>} : !tile.desc<tensor<16x64xf32>> -> tensor<16x64xf32, #m>
    tile.desc_store %d[%i, %i], %v {boundary = array<i32>} : !tile.desc<tensor<16x64xf32>>, tensor<16x64xf32, #m>
    return
  }
}
