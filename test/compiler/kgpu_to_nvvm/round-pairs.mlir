// f32 is rounded to bf16 in pairs if more than one op uses the result.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// Stored and widened again: two pair roundings for four elements; both halves are widened from their word.
// CHECK-LABEL: llvm.func @kiln_both(
// CHECK-COUNT-2: arith.truncf %{{.*}} : vector<2xf32> to vector<2xbf16>
// CHECK-NOT: arith.truncf
// CHECK: arith.shli %{{.*}}, %c16_i32
// CHECK: arith.andi %{{.*}}, %c-65536_i32
// CHECK: llvm.return
#row = #layout.map<blocked [128] vector 4 warps 1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @both(%p: !tile.ptr<f32>, %q: !tile.ptr<bf16>) attributes {tile.kernel} {
    %r = tile.make_range 0 to 128 : tensor<128xi32, #row>
    %ps = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #row>
    %pp = tile.addptr %ps, %r : tensor<128x!tile.ptr<f32>, #row>, tensor<128xi32, #row>
    %qs = tile.splat %q : !tile.ptr<bf16> -> tensor<128x!tile.ptr<bf16>, #row>
    %qp = tile.addptr %qs, %r : tensor<128x!tile.ptr<bf16>, #row>, tensor<128xi32, #row>
    %x = tile.load %pp : tensor<128x!tile.ptr<f32>, #row> -> tensor<128xf32, #row>
    %y = arith.truncf %x : tensor<128xf32, #row> to tensor<128xbf16, #row>
    tile.store %qp, %y : tensor<128x!tile.ptr<bf16>, #row>, tensor<128xbf16, #row>
    %z = arith.extf %y : tensor<128xbf16, #row> to tensor<128xf32, #row>
    tile.store %pp, %z : tensor<128x!tile.ptr<f32>, #row>, tensor<128xf32, #row>
    return
  }
}

// -----

// Not for f16, whose arithmetic LLVM narrows, nor for values that are only stored, which ptxas pairs. Equal registers
// are rounded once.
// CHECK-LABEL: llvm.func @kiln_stored(
// CHECK-COUNT-4: arith.truncf %{{.*}} : f32 to bf16
// CHECK-NOT: arith.truncf
// CHECK: llvm.return
// CHECK-LABEL: llvm.func @kiln_alike(
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK-NOT: arith.truncf
// CHECK: llvm.return
// CHECK-LABEL: llvm.func @kiln_half(
// CHECK-COUNT-4: arith.truncf %{{.*}} : f32 to f16
// CHECK-NOT: arith.truncf
// CHECK: llvm.return
#row = #layout.map<blocked [128] vector 4 warps 1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @stored(%p: !tile.ptr<f32>, %q: !tile.ptr<bf16>) attributes {tile.kernel} {
    %r = tile.make_range 0 to 128 : tensor<128xi32, #row>
    %ps = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #row>
    %pp = tile.addptr %ps, %r : tensor<128x!tile.ptr<f32>, #row>, tensor<128xi32, #row>
    %qs = tile.splat %q : !tile.ptr<bf16> -> tensor<128x!tile.ptr<bf16>, #row>
    %qp = tile.addptr %qs, %r : tensor<128x!tile.ptr<bf16>, #row>, tensor<128xi32, #row>
    %x = tile.load %pp : tensor<128x!tile.ptr<f32>, #row> -> tensor<128xf32, #row>
    %y = arith.truncf %x : tensor<128xf32, #row> to tensor<128xbf16, #row>
    tile.store %qp, %y : tensor<128x!tile.ptr<bf16>, #row>, tensor<128xbf16, #row>
    return
  }
  func.func public @alike(%value: f32, %p: !tile.ptr<f32>, %q: !tile.ptr<bf16>) attributes {tile.kernel} {
    %r = tile.make_range 0 to 128 : tensor<128xi32, #row>
    %ps = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #row>
    %pp = tile.addptr %ps, %r : tensor<128x!tile.ptr<f32>, #row>, tensor<128xi32, #row>
    %qs = tile.splat %q : !tile.ptr<bf16> -> tensor<128x!tile.ptr<bf16>, #row>
    %qp = tile.addptr %qs, %r : tensor<128x!tile.ptr<bf16>, #row>, tensor<128xi32, #row>
    %x = tile.splat %value : f32 -> tensor<128xf32, #row>
    %y = arith.truncf %x : tensor<128xf32, #row> to tensor<128xbf16, #row>
    tile.store %qp, %y : tensor<128x!tile.ptr<bf16>, #row>, tensor<128xbf16, #row>
    %z = arith.extf %y : tensor<128xbf16, #row> to tensor<128xf32, #row>
    tile.store %pp, %z : tensor<128x!tile.ptr<f32>, #row>, tensor<128xf32, #row>
    return
  }
  func.func public @half(%p: !tile.ptr<f32>, %q: !tile.ptr<f16>) attributes {tile.kernel} {
    %r = tile.make_range 0 to 128 : tensor<128xi32, #row>
    %ps = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #row>
    %pp = tile.addptr %ps, %r : tensor<128x!tile.ptr<f32>, #row>, tensor<128xi32, #row>
    %qs = tile.splat %q : !tile.ptr<f16> -> tensor<128x!tile.ptr<f16>, #row>
    %qp = tile.addptr %qs, %r : tensor<128x!tile.ptr<f16>, #row>, tensor<128xi32, #row>
    %x = tile.load %pp : tensor<128x!tile.ptr<f32>, #row> -> tensor<128xf32, #row>
    %y = arith.truncf %x : tensor<128xf32, #row> to tensor<128xf16, #row>
    tile.store %qp, %y : tensor<128x!tile.ptr<f16>, #row>, tensor<128xf16, #row>
    %z = arith.extf %y : tensor<128xf16, #row> to tensor<128xf32, #row>
    tile.store %pp, %z : tensor<128x!tile.ptr<f32>, #row>, tensor<128xf32, #row>
    return
  }
}
