// Scans inside a warp, and conversions that need no shared memory.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// Two registers of each thread in a chain, then five shuffles of totals, then the preceding total is added.
// CHECK-LABEL: llvm.func @kiln_scan(
// CHECK: arith.addi
// CHECK-COUNT-5: llvm.nvvm.shfl.sync.bfly.i32
// CHECK-NOT: shfl
// CHECK: llvm.return
#row = #layout.map<blocked [64] vector 2 warps 1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @scan(%p: !tile.ptr<i32>) attributes {tile.kernel} {
    %r = tile.make_range 0 to 64 : tensor<64xi32, #row>
    %s = tile.scan(%r) axis 0 {
    ^bb0(%a: i32, %b: i32):
      %c = arith.addi %a, %b : i32
      tile.yield %c : i32
    } : (tensor<64xi32, #row>) -> tensor<64xi32, #row>
    %ps = tile.splat %p : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>, #row>
    %pp = tile.addptr %ps, %r : tensor<64x!tile.ptr<i32>, #row>, tensor<64xi32, #row>
    tile.store %pp, %s : tensor<64x!tile.ptr<i32>, #row>, tensor<64xi32, #row>
    return
  }
}

// -----

// Registers and lanes are exchanged by shuffles, without shared memory. Two 16-bit halves share one word.
// CHECK-LABEL: llvm.func @kiln_convert(
// CHECK-NOT: llvm.store {{.*}}!llvm.ptr<3>
// CHECK: llvm.nvvm.shfl.sync
// CHECK-NOT: llvm.store {{.*}}!llvm.ptr<3>
// CHECK: llvm.return
#from = #layout.map<blocked [64] vector 2 warps 1>
#to = #layout.map<blocked [64] vector 1 warps 1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @convert(%p: !tile.ptr<f16>) attributes {tile.kernel} {
    %r = tile.make_range 0 to 64 : tensor<64xi32, #from>
    %ps = tile.splat %p : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>, #from>
    %pp = tile.addptr %ps, %r : tensor<64x!tile.ptr<f16>, #from>, tensor<64xi32, #from>
    %x = tile.load %pp : tensor<64x!tile.ptr<f16>, #from> -> tensor<64xf16, #from>
    %y = kgpu.convert %x : tensor<64xf16, #from> -> tensor<64xf16, #to>
    %t = tile.make_range 0 to 64 : tensor<64xi32, #to>
    %qs = tile.splat %p : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>, #to>
    %qq = tile.addptr %qs, %t : tensor<64x!tile.ptr<f16>, #to>, tensor<64xi32, #to>
    tile.store %qq, %y : tensor<64x!tile.ptr<f16>, #to>, tensor<64xf16, #to>
    return
  }
}

// -----

// From the accumulator of one product to the right operand of the next: 8 x 8 matrices, each transposed by one
// instruction. 32-bit elements are shuffled.
// CHECK-LABEL: llvm.func @kiln_transposes(
// CHECK-NOT: shfl
// CHECK-COUNT-2: "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;"
// CHECK-NOT: movmatrix
// CHECK: llvm.nvvm.shfl.sync
// CHECK-NOT: movmatrix
// CHECK: llvm.return
#from = #layout.map<digits [16, 8] reg (0, 1) (8, 0) lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
#to = #layout.map<digits [16, 8] reg (1, 0) (8, 0) lane (2, 0) (4, 0) (0, 1) (0, 2) (0, 4)>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @transposes(%p: !tile.ptr<f16>, %q: !tile.ptr<f32>) attributes {tile.kernel} {
    %ps = tile.splat %p : !tile.ptr<f16> -> tensor<16x8x!tile.ptr<f16>, #from>
    %x = tile.load %ps : tensor<16x8x!tile.ptr<f16>, #from> -> tensor<16x8xf16, #from>
    %y = kgpu.convert %x : tensor<16x8xf16, #from> -> tensor<16x8xf16, #to>
    %pt = tile.splat %p : !tile.ptr<f16> -> tensor<16x8x!tile.ptr<f16>, #to>
    tile.store %pt, %y : tensor<16x8x!tile.ptr<f16>, #to>, tensor<16x8xf16, #to>
    %qs = tile.splat %q : !tile.ptr<f32> -> tensor<16x8x!tile.ptr<f32>, #from>
    %a = tile.load %qs : tensor<16x8x!tile.ptr<f32>, #from> -> tensor<16x8xf32, #from>
    %b = kgpu.convert %a : tensor<16x8xf32, #from> -> tensor<16x8xf32, #to>
    %qt = tile.splat %q : !tile.ptr<f32> -> tensor<16x8x!tile.ptr<f32>, #to>
    tile.store %qt, %b : tensor<16x8x!tile.ptr<f32>, #to>, tensor<16x8xf32, #to>
    return
  }
}

// -----

// Two digits of the lane exchanged: not a transpose, so shuffled.
// CHECK-LABEL: llvm.func @kiln_crosses(
// CHECK-NOT: movmatrix
// CHECK: llvm.nvvm.shfl.sync
// CHECK: llvm.return
#from = #layout.map<digits [8, 8] reg (0, 1) lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)>
#to = #layout.map<digits [8, 8] reg (1, 0) lane (4, 0) (2, 0) (0, 1) (0, 2) (0, 4)>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @crosses(%p: !tile.ptr<f16>) attributes {tile.kernel} {
    %ps = tile.splat %p : !tile.ptr<f16> -> tensor<8x8x!tile.ptr<f16>, #from>
    %x = tile.load %ps : tensor<8x8x!tile.ptr<f16>, #from> -> tensor<8x8xf16, #from>
    %y = kgpu.convert %x : tensor<8x8xf16, #from> -> tensor<8x8xf16, #to>
    %pt = tile.splat %p : !tile.ptr<f16> -> tensor<8x8x!tile.ptr<f16>, #to>
    tile.store %pt, %y : tensor<8x8x!tile.ptr<f16>, #to>, tensor<8x8xf16, #to>
    return
  }
}
