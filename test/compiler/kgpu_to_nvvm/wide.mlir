// RUN: kiln-opt %s --kiln-set-target=target=sm_100a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s --check-prefixes=CHECK,WIDE
// RUN: kiln-opt %s --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s --check-prefixes=CHECK,NARROW

#b = #layout.map<blocked [1024] order [0] vector 8 warps 4>

// The target sets how much one access moves. Eight-byte elements use 64-bit registers.
// CHECK-LABEL: llvm.func @kiln_wide(
// WIDE: "ld.global.v8.b32 {$0, $1, $2, $3, $4, $5, $6, $7}, [$8];"
// WIDE: "ld.global.v4.b64 {$0, $1, $2, $3}, [$4];", "=l,=l,=l,=l,l,~{memory}"
// WIDE: llvm.store %{{.*}} {alignment = 32 : i64} : vector<8xf32>, !llvm.ptr<1>
// NARROW-COUNT-2: "ld.global.v4.b32 {$0, $1, $2, $3}, [$4];"
// NARROW-COUNT-4: "ld.global.v2.b64 {$0, $1}, [$2];", "=l,=l,l,~{memory}"
// NARROW-COUNT-2: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @wide(%x: !tile.ptr<f32> {tile.divisibility = 32 : i64}, %y: !tile.ptr<i64> {tile.divisibility = 32 : i64})
      attributes {tile.kernel} {
    %r = tile.make_range 0 to 1024 : tensor<1024xi32, #b>
    %xs = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>, #b>
    %xp = tile.addptr %xs, %r : tensor<1024x!tile.ptr<f32>, #b>, tensor<1024xi32, #b>
    %v = tile.load %xp : tensor<1024x!tile.ptr<f32>, #b> -> tensor<1024xf32, #b>
    %ys = tile.splat %y : !tile.ptr<i64> -> tensor<1024x!tile.ptr<i64>, #b>
    %yp = tile.addptr %ys, %r : tensor<1024x!tile.ptr<i64>, #b>, tensor<1024xi32, #b>
    %w = tile.load %yp : tensor<1024x!tile.ptr<i64>, #b> -> tensor<1024xi64, #b>
    %f = arith.sitofp %w : tensor<1024xi64, #b> to tensor<1024xf32, #b>
    %s = arith.addf %v, %f : tensor<1024xf32, #b>
    tile.store %xp, %s : tensor<1024x!tile.ptr<f32>, #b>, tensor<1024xf32, #b>
    return
  }
}
