// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

#c = #layout.map<digits [64] reg (1) (2) lane (4) (8) (16) (32) (0) warp (0) (0)>
#f = #layout.map<blocked [1024] order [0] vector 4 warps 4>
#b = #layout.map<blocked [16, 64] order [1, 0] vector 4 warps 4>
#r = #layout.map<digits [1, 64] reg (0, 1) (0, 2) lane (0, 4) (0, 8) (0, 16) (0, 32) (0, 0) warp (0, 0) (0, 0)>

// A row broadcast over sixteen is the row's registers under more names: what is computed from it is computed once per
// row.
// CHECK-LABEL: llvm.func @kiln_broadcast(
// CHECK-COUNT-4: math.exp
// CHECK-NOT: math.exp
// CHECK-COUNT-2: llvm.store %{{.*}} : vector<4xf32>, !llvm.ptr<1>
// CHECK-NOT: llvm.store
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @broadcast(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c = tile.make_range 0 to 64 : tensor<64xi32, #c>
    %f = arith.sitofp %c : tensor<64xi32, #c>
      to tensor<64xf32, #c>
    %e = tile.expand_dims %f 0 : tensor<64xf32, #c>
      -> tensor<1x64xf32, #r>
    %w = tile.broadcast %e : tensor<1x64xf32, #r> -> tensor<16x64xf32, #b>
    %g = math.exp %w : tensor<16x64xf32, #b>
    %n = tile.make_range 0 to 1024 : tensor<1024xi32, #f>
    %p = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>, #f>
    %q = tile.addptr %p, %n : tensor<1024x!tile.ptr<f32>, #f>,
      tensor<1024xi32, #f>
    %h = tile.reshape %g : tensor<16x64xf32, #b> -> tensor<1024xf32, #f>
    tile.store %q, %h : tensor<1024x!tile.ptr<f32>, #f>,
      tensor<1024xf32, #f>
    return
  }
}

// -----

#h = #layout.map<blocked [128] order [0] vector 1 warps 4>
#p = #layout.map<digits [128, 2] reg (0, 1) lane (1, 0) (2, 0) (4, 0) (8, 0) (16, 0) warp (32, 0) (64, 0)>
#t = #layout.map<digits [2, 128] reg (1, 0) lane (0, 1) (0, 2) (0, 4) (0, 8) (0, 16) warp (0, 32) (0, 64)>

// join interleaves registers, split separates them, trans renames them: their difference is 7.
// CHECK-LABEL: llvm.func @kiln_pairs(
// CHECK: llvm.store %c7_i32, %{{.*}} : i32, !llvm.ptr<1>
// CHECK-NOT: llvm.store
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @pairs(%x: !tile.ptr<i32>) attributes {tile.kernel} {
    %a = tile.make_range 0 to 128 : tensor<128xi32, #h>
    %b = tile.make_range 7 to 135 : tensor<128xi32, #h>
    %j = tile.join %a, %b : tensor<128xi32, #h> -> tensor<128x2xi32, #p>
    %k = tile.trans %j [1, 0] : tensor<128x2xi32, #p> -> tensor<2x128xi32, #t>
    %l = tile.trans %k [1, 0] : tensor<2x128xi32, #t> -> tensor<128x2xi32, #p>
    %c, %d = tile.split %l : tensor<128x2xi32, #p> -> tensor<128xi32, #h>
    %e = arith.subi %d, %c : tensor<128xi32, #h>
    %s = tile.splat %x : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #h>
    %q = tile.addptr %s, %a : tensor<128x!tile.ptr<i32>, #h>, tensor<128xi32, #h>
    tile.store %q, %e : tensor<128x!tile.ptr<i32>, #h>, tensor<128xi32, #h>
    return
  }
}

// -----

#o = #layout.map<blocked [96] order [0] vector 1 warps 1>
#s = #layout.map<blocked [32] order [0] vector 1 warps 1>
#d = #layout.map<blocked [64] order [0] vector 1 warps 1>

// cat, when all three tiles have the same distribution: registers one after another. A side of 96 is three registers of
// 32 lanes.
// CHECK-LABEL: llvm.func @kiln_cat(
// CHECK: %[[LANE:.*]] = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.tid.x"
// CHECK-DAG: arith.addi %[[LANE]], %c100_i32
// CHECK-DAG: arith.addi %[[LANE]], %c132_i32
// CHECK-COUNT-3: llvm.store
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @cat(%x: !tile.ptr<i32>) attributes {tile.kernel} {
    %a = tile.make_range 0 to 32 : tensor<32xi32, #s>
    %b = tile.make_range 100 to 164 : tensor<64xi32, #d>
    %c = tile.cat %a, %b 0 : tensor<32xi32, #s>, tensor<64xi32, #d> -> tensor<96xi32, #o>
    %r = tile.make_range 0 to 96 : tensor<96xi32, #o>
    %s = tile.splat %x : !tile.ptr<i32> -> tensor<96x!tile.ptr<i32>, #o>
    %q = tile.addptr %s, %r : tensor<96x!tile.ptr<i32>, #o>, tensor<96xi32, #o>
    tile.store %q, %c : tensor<96x!tile.ptr<i32>, #o>, tensor<96xi32, #o>
    return
  }
}

// -----

#h = #layout.map<blocked [32] order [0] vector 1 warps 1>

// A constant tile with different elements becomes a table.
// CHECK: llvm.mlir.global internal constant @kiln_table_0(dense<{{.*}}> : tensor<32xi32>) {addr_space = 1 : i32, alignment = 4 : i64}
// CHECK: llvm.func @kiln_constants(
// CHECK: llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @constants(%x: !tile.ptr<i32>) attributes {tile.kernel} {
    %a = tile.make_range 0 to 32 : tensor<32xi32, #h>
    %t = arith.constant dense<[0, 7, 28, 63, 11, 74, 50, 40, 44, 62, 94, 39, 99, 72, 59, 60, 75, 3, 46, 2, 73, 57, 55, 67, 93, 32, 86, 53, 34, 29, 38, 61]> : tensor<32xi32, #h>
    %s = tile.splat %x : !tile.ptr<i32> -> tensor<32x!tile.ptr<i32>, #h>
    %q = tile.addptr %s, %a : tensor<32x!tile.ptr<i32>, #h>, tensor<32xi32, #h>
    tile.store %q, %t : tensor<32x!tile.ptr<i32>, #h>, tensor<32xi32, #h>
    return
  }
}
