// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize --cse | FileCheck %s --check-prefixes=CHECK,WIDE
// RUN: kiln-opt %s --kiln-set-target=target=cpu-avx2 --kiln-tile-to-cpu --canonicalize --cse | FileCheck %s --check-prefixes=CHECK,NARROW

// The register tile is 8 x 32 (4 x 16 with AVX2), accumulated in place over the whole depth; f16 operands are converted
// once, when they are written to the frame.
// CHECK-LABEL: func.func @kiln_dot
// CHECK:         arith.extf
// CHECK:         llvm.store
// CHECK:         arith.extf
// CHECK:         llvm.store
// WIDE:          scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c32_i64
// WIDE:            scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c8_i64
// WIDE-COUNT-16:     llvm.load %{{.*}} : !llvm.ptr -> vector<16xf32>
// WIDE:              scf.for {{.*}} step %c2_i64 iter_args
// WIDE-COUNT-32:       math.fma %{{.*}} : vector<16xf32>
// WIDE-NOT:            math.fma
// WIDE-COUNT-16:     llvm.store %{{.*}} : vector<16xf32>, !llvm.ptr
// NARROW:        scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c16_i64
// NARROW:          scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c4_i64
// NARROW-COUNT-16:     math.fma %{{.*}} : vector<8xf32>
// NARROW-NOT:          math.fma
func.func @dot(%a: !tile.ptr<f16>, %b: !tile.ptr<f16>, %c: !tile.ptr<f32>) attributes {tile.kernel} {
  %s0 = arith.constant 0 : i32
  %n32 = arith.constant 32 : i64
  %n64 = arith.constant 64 : i64
  %one = arith.constant 1 : i64
  %da = tile.make_desc %a, shape [%n32, %n32] strides [%n32, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x32xf16>>
  %db = tile.make_desc %b, shape [%n32, %n64] strides [%n64, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
  %dc = tile.make_desc %c, shape [%n32, %n64] strides [%n64, %one] : !tile.ptr<f32> -> !tile.desc<tensor<32x64xf32>>
  %va = tile.desc_load %da[%s0, %s0] {boundary = array<i32>} : !tile.desc<tensor<32x32xf16>> -> tensor<32x32xf16>
  %vb = tile.desc_load %db[%s0, %s0] {boundary = array<i32>} : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
  %zero = arith.constant dense<0.0> : tensor<32x64xf32>
  %d = tile.dot %va, %vb, %zero : tensor<32x32xf16>, tensor<32x64xf16> -> tensor<32x64xf32>
  tile.desc_store %dc[%s0, %s0], %d {boundary = array<i32>} : !tile.desc<tensor<32x64xf32>>, tensor<32x64xf32>
  return
}

// A transposed operand is transposed back in registers, in 8 x 8 blocks.
// CHECK-LABEL: func.func @kiln_transposed
// CHECK-COUNT-24: vector.shuffle
// CHECK-NOT:      gather
// CHECK:          math.fma
func.func @transposed(%a: !tile.ptr<f32>, %b: !tile.ptr<f32>, %c: !tile.ptr<f32>) attributes {tile.kernel} {
  %s0 = arith.constant 0 : i32
  %n = arith.constant 32 : i64
  %one = arith.constant 1 : i64
  %da = tile.make_desc %a, shape [%n, %n] strides [%n, %one] : !tile.ptr<f32> -> !tile.desc<tensor<32x32xf32>>
  %db = tile.make_desc %b, shape [%n, %n] strides [%n, %one] : !tile.ptr<f32> -> !tile.desc<tensor<32x32xf32>>
  %dc = tile.make_desc %c, shape [%n, %n] strides [%n, %one] : !tile.ptr<f32> -> !tile.desc<tensor<32x32xf32>>
  %va = tile.desc_load %da[%s0, %s0] {boundary = array<i32>} : !tile.desc<tensor<32x32xf32>> -> tensor<32x32xf32>
  %vb = tile.desc_load %db[%s0, %s0] {boundary = array<i32>} : !tile.desc<tensor<32x32xf32>> -> tensor<32x32xf32>
  %t = tile.trans %vb [1, 0] : tensor<32x32xf32> -> tensor<32x32xf32>
  %zero = arith.constant dense<0.0> : tensor<32x32xf32>
  %d = tile.dot %va, %t, %zero : tensor<32x32xf32>, tensor<32x32xf32> -> tensor<32x32xf32>
  tile.desc_store %dc[%s0, %s0], %d {boundary = array<i32>} : !tile.desc<tensor<32x32xf32>>, tensor<32x32xf32>
  return
}
