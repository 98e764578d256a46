// Reductions inside a warp: registers in four chains, then butterflies; a single instruction over lanes if there is
// one.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// Sixteen registers: four chains of four, then pairs; five shuffle distances; both operands of a float sum are in the
// same order.
// CHECK-LABEL: llvm.func @kiln_sum(
// CHECK-COUNT-15: arith.addf
// CHECK: "llvm.nvvm.shfl.sync.bfly.i32"(%{{.*}}, %{{.*}}, %c1_i32, %c31_i32)
// CHECK: arith.addf
// CHECK: "llvm.nvvm.shfl.sync.bfly.i32"(%{{.*}}, %{{.*}}, %c2_i32, %c31_i32)
// CHECK: arith.addf
// CHECK: "llvm.nvvm.shfl.sync.bfly.i32"(%{{.*}}, %{{.*}}, %c4_i32, %c31_i32)
// CHECK: arith.addf
// CHECK: "llvm.nvvm.shfl.sync.bfly.i32"(%{{.*}}, %{{.*}}, %c8_i32, %c31_i32)
// CHECK: arith.addf
// CHECK: "llvm.nvvm.shfl.sync.bfly.i32"(%{{.*}}, %{{.*}}, %c16_i32, %c31_i32)
// CHECK: arith.addf
// CHECK-NOT: shfl
// CHECK-NOT: arith.select
// CHECK: llvm.return
#row = #layout.map<blocked [512] vector 4 warps 1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @sum(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>) attributes {tile.kernel} {
    %r = tile.make_range 0 to 512 : tensor<512xi32, #row>
    %ps = tile.splat %p : !tile.ptr<f32> -> tensor<512x!tile.ptr<f32>, #row>
    %pp = tile.addptr %ps, %r : tensor<512x!tile.ptr<f32>, #row>, tensor<512xi32, #row>
    %x = tile.load %pp : tensor<512x!tile.ptr<f32>, #row> -> tensor<512xf32, #row>
    %s = tile.reduce(%x) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<512xf32, #row>) -> f32
    tile.store %q, %s : !tile.ptr<f32>, f32
    return
  }
}

// -----

// 32-bit integers over all lanes use redux.
// CHECK-LABEL: llvm.func @kiln_most(
// CHECK: arith.maxui
// CHECK: "llvm.nvvm.redux.sync.umax"
// CHECK-NOT: shfl
// CHECK: llvm.return
#row = #layout.map<blocked [64] vector 2 warps 1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @most(%p: !tile.ptr<i32>, %q: !tile.ptr<i32>) attributes {tile.kernel} {
    %r = tile.make_range 0 to 64 : tensor<64xi32, #row>
    %ps = tile.splat %p : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>, #row>
    %pp = tile.addptr %ps, %r : tensor<64x!tile.ptr<i32>, #row>, tensor<64xi32, #row>
    %x = tile.load %pp : tensor<64x!tile.ptr<i32>, #row> -> tensor<64xi32, #row>
    %s = tile.reduce(%x) axis 0 {
    ^bb0(%a: i32, %b: i32):
      %c = arith.maxui %a, %b : i32
      tile.yield %c : i32
    } : (tensor<64xi32, #row>) -> i32
    tile.store %q, %s : !tile.ptr<i32>, i32
    return
  }
}

// -----

// A region not known to be commutative picks operand order by a bit of the lane; i64 takes two words, i8 shares one.
// CHECK-LABEL: llvm.func @kiln_last(
// CHECK: arith.select %{{.*}} : i64
// CHECK: arith.select %{{.*}} : i8
// CHECK-COUNT-3: "llvm.nvvm.shfl.sync.bfly.i32"(%{{.*}}, %{{.*}}, %c2_i32, %c31_i32)
// CHECK-NOT: "llvm.nvvm.shfl.sync.bfly.i32"(%{{.*}}, %{{.*}}, %c2_i32, %c31_i32)
// CHECK: llvm.return
#row = #layout.map<blocked [32] vector 1 warps 1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @last(%p: !tile.ptr<i64>, %q: !tile.ptr<i8>) attributes {tile.kernel} {
    %r = tile.make_range 0 to 32 : tensor<32xi32, #row>
    %x = arith.extsi %r : tensor<32xi32, #row> to tensor<32xi64, #row>
    %y = arith.trunci %r : tensor<32xi32, #row> to tensor<32xi8, #row>
    %s, %t = tile.reduce(%x, %y) axis 0 {
    ^bb0(%a: i64, %b: i8, %c: i64, %d: i8):
      %e = arith.cmpi sge, %c, %a : i64
      %f = arith.select %e, %c, %a : i64
      %g = arith.select %e, %d, %b : i8
      tile.yield %f, %g : i64, i8
    } : (tensor<32xi64, #row>, tensor<32xi8, #row>) -> (i64, i8)
    tile.store %p, %s : !tile.ptr<i64>, i64
    tile.store %q, %t : !tile.ptr<i8>, i8
    return
  }
}

// -----

// The part that each warp reduces by itself, without combining with other warps; the tile has one element per warp.
// CHECK-LABEL: llvm.func @kiln_partial(
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i32 : i32
// CHECK-COUNT-5: llvm.nvvm.shfl.sync.bfly.i32
// CHECK-NOT: shfl
// One lane of each warp stores its partial.
// CHECK: scf.if %[[FIRST]] {
// CHECK: llvm.store %{{.*}} {alignment = 4 : i64} : f32, !llvm.ptr<3>
// CHECK-NEXT: }
// CHECK: "llvm.nvvm.barrier.cta.sync.aligned.all"
// Every thread reads all four at once.
// CHECK: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
#row = #layout.map<blocked [512] vector 4 warps 4>
#part = #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>
#all = #layout.map<replicated [4] warps 4>
#m = #layout.map<row_major [4]>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @partial(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>) attributes {tile.kernel, kgpu.shared_bytes = 16 : i64} {
    %r = tile.make_range 0 to 512 : tensor<512xi32, #row>
    %x = arith.sitofp %r : tensor<512xi32, #row> to tensor<512xf32, #row>
    %s = kgpu.partial_reduce(%x) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kgpu.yield %c : f32
    } : (tensor<512xf32, #row>) -> tensor<4xf32, #part>
    %m = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<4xf32, #m>
    kgpu.local_store %s, %m : tensor<4xf32, #part>, !kgpu.mem<4xf32, #m>
    kgpu.barrier cta
    %y = kgpu.local_load %m : !kgpu.mem<4xf32, #m> -> tensor<4xf32, #all>
    %t = tile.reduce(%y) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<4xf32, #all>) -> f32
    tile.store %q, %t : !tile.ptr<f32>, f32
    return
  }
}

// -----

// Numbers widened from 16 bits are compared in 16 bits, two at a time; the extremum of each thread is widened for the
// lanes.
// CHECK-LABEL: llvm.func @kiln_pairs(
// CHECK-COUNT-3: arith.maxnumf %{{.*}}, %{{.*}} : vector<2xbf16>
// CHECK-NOT: arith.maxnumf %{{.*}} : f32
// CHECK: %[[MAX:.*]] = arith.maxnumf %{{.*}}, %{{.*}} : bf16
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[MAX]] : bf16 to f32
// CHECK-NEXT: arith.bitcast %[[WIDE]]
// CHECK-COUNT-5: arith.maxnumf %{{.*}}, %{{.*}} : f32
// CHECK-NOT: maxnumf
// CHECK: llvm.return
#row = #layout.map<blocked [256] vector 8 warps 1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @pairs(%p: !tile.ptr<bf16>, %q: !tile.ptr<f32>) attributes {tile.kernel} {
    %r = tile.make_range 0 to 256 : tensor<256xi32, #row>
    %ps = tile.splat %p : !tile.ptr<bf16> -> tensor<256x!tile.ptr<bf16>, #row>
    %pp = tile.addptr %ps, %r : tensor<256x!tile.ptr<bf16>, #row>, tensor<256xi32, #row>
    %x = tile.load %pp : tensor<256x!tile.ptr<bf16>, #row> -> tensor<256xbf16, #row>
    %w = arith.extf %x : tensor<256xbf16, #row> to tensor<256xf32, #row>
    %s = tile.reduce(%w) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.maxnumf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<256xf32, #row>) -> f32
    tile.store %q, %s : !tile.ptr<f32>, f32
    return
  }
}

// -----

// A sum is not: each step would round. Nor is a pair worthwhile for two registers.
// CHECK-LABEL: llvm.func @kiln_rounded(
// CHECK-COUNT-12: arith.addf %{{.*}}, %{{.*}} : f32
// CHECK-NOT: vector<2xf16>
// CHECK: llvm.return
// CHECK-LABEL: llvm.func @kiln_few(
// CHECK-COUNT-6: arith.minnumf %{{.*}}, %{{.*}} : f32
// CHECK-NOT: arith.minnumf
// CHECK: llvm.return
#row = #layout.map<blocked [256] vector 8 warps 1>
#two = #layout.map<blocked [64] vector 2 warps 1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @rounded(%p: !tile.ptr<f16>, %q: !tile.ptr<f32>) attributes {tile.kernel} {
    %r = tile.make_range 0 to 256 : tensor<256xi32, #row>
    %ps = tile.splat %p : !tile.ptr<f16> -> tensor<256x!tile.ptr<f16>, #row>
    %pp = tile.addptr %ps, %r : tensor<256x!tile.ptr<f16>, #row>, tensor<256xi32, #row>
    %x = tile.load %pp : tensor<256x!tile.ptr<f16>, #row> -> tensor<256xf16, #row>
    %w = arith.extf %x : tensor<256xf16, #row> to tensor<256xf32, #row>
    %s = tile.reduce(%w) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<256xf32, #row>) -> f32
    tile.store %q, %s : !tile.ptr<f32>, f32
    return
  }
  func.func public @few(%p: !tile.ptr<f16>, %q: !tile.ptr<f32>) attributes {tile.kernel} {
    %r = tile.make_range 0 to 64 : tensor<64xi32, #two>
    %ps = tile.splat %p : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>, #two>
    %pp = tile.addptr %ps, %r : tensor<64x!tile.ptr<f16>, #two>, tensor<64xi32, #two>
    %x = tile.load %pp : tensor<64x!tile.ptr<f16>, #two> -> tensor<64xf16, #two>
    %w = arith.extf %x : tensor<64xf16, #two> to tensor<64xf32, #two>
    %s = tile.reduce(%w) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.minnumf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<64xf32, #two>) -> f32
    tile.store %q, %s : !tile.ptr<f32>, f32
    return
  }
}
