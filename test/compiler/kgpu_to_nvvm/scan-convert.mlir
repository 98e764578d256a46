// Scans inside a warp, and conversions that need no shared memory.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// Two registers of each thread in a chain, then five exchanges of totals, then what came before is added.
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

// Registers change places with lanes: shuffles, no shared memory. Two halves travel in one word.
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
