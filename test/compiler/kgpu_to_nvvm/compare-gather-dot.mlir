// Steps of a sorting network, gathers inside a warp and products from shared memory, in one thread's code.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// Stride 2 is between lanes 0 and 1 (each register is shuffled), stride 1 between registers. Runs of 4 alternate
// direction with lane bit 1: keys are complemented before and after, not at each comparison.
// CHECK-LABEL: llvm.func @kiln_steps(
// CHECK: arith.extsi %{{.*}} : i1 to i32
// CHECK-COUNT-2: arith.xori
// CHECK: "llvm.nvvm.shfl.sync.bfly.i32"(%{{.*}}, %{{.*}}, %c1_i32, %c31_i32)
// CHECK: "llvm.nvvm.shfl.sync.bfly.i32"(%{{.*}}, %{{.*}}, %c1_i32, %c31_i32)
// CHECK-NOT: shfl
// CHECK: arith.minsi
// CHECK: arith.maxsi
// CHECK: arith.select
// CHECK: arith.minsi
// CHECK: arith.maxsi
// CHECK: arith.select
// CHECK: arith.minsi
// CHECK: arith.maxsi
// CHECK-NOT: arith.select
// CHECK-COUNT-2: arith.xori
// CHECK: llvm.store
#row = #layout.map<blocked [64] vector 2 warps 1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @steps(%p: !tile.ptr<i32>) attributes {tile.kernel} {
    %r = tile.make_range 0 to 64 : tensor<64xi32, #row>
    %ps = tile.splat %p : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>, #row>
    %pp = tile.addptr %ps, %r : tensor<64x!tile.ptr<i32>, #row>, tensor<64xi32, #row>
    %x = tile.load %pp : tensor<64x!tile.ptr<i32>, #row> -> tensor<64xi32, #row>
    %y = kgpu.compare %x from 2 to 1 run 4 : tensor<64xi32, #row>
    tile.store %pp, %y : tensor<64x!tile.ptr<i32>, #row>, tensor<64xi32, #row>
    return
  }
}

// -----

// Reversing 64 elements, two registers per lane: the other register of lane 31 - l, two shuffles with constant lanes.
// CHECK-LABEL: llvm.func @kiln_reversed(
// CHECK-COUNT-2: "llvm.nvvm.shfl.sync.bfly.i32"(%{{.*}}, %{{.*}}, %c31_i32, %c31_i32)
// CHECK-NOT: shfl
// CHECK-NOT: arith.select
// CHECK: llvm.return
#row = #layout.map<blocked [64] vector 2 warps 1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @reversed(%p: !tile.ptr<f32>) attributes {tile.kernel} {
    %r = tile.make_range 0 to 64 : tensor<64xi32, #row>
    %c = arith.constant dense<63> : tensor<64xi32, #row>
    %i = arith.subi %c, %r : tensor<64xi32, #row>
    %ps = tile.splat %p : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #row>
    %pp = tile.addptr %ps, %r : tensor<64x!tile.ptr<f32>, #row>, tensor<64xi32, #row>
    %x = tile.load %pp : tensor<64x!tile.ptr<f32>, #row> -> tensor<64xf32, #row>
    %y = tile.gather %x[%i] 0 {kgpu.indices = array<i32: 63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48,
      47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20,
      19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0>}
      : tensor<64xf32, #row>, tensor<64xi32, #row> -> tensor<64xf32, #row>
    tile.store %pp, %y : tensor<64x!tile.ptr<f32>, #row>, tensor<64xf32, #row>
    return
  }
}

// -----

// A gather by data: each element shuffles from a lane; with two registers per lane it shuffles both, and the index's
// lowest bit selects.
// CHECK-LABEL: llvm.func @kiln_picked(
// CHECK: "llvm.nvvm.shfl.sync.idx.i32"
// CHECK: "llvm.nvvm.shfl.sync.idx.i32"
// CHECK: arith.select
// CHECK: "llvm.nvvm.shfl.sync.idx.i32"
// CHECK: "llvm.nvvm.shfl.sync.idx.i32"
// CHECK: arith.select
// CHECK-NOT: shfl
// CHECK: llvm.return
#row = #layout.map<blocked [64] vector 2 warps 1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @picked(%p: !tile.ptr<f32>, %q: !tile.ptr<i32>) attributes {tile.kernel} {
    %r = tile.make_range 0 to 64 : tensor<64xi32, #row>
    %ps = tile.splat %p : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #row>
    %pp = tile.addptr %ps, %r : tensor<64x!tile.ptr<f32>, #row>, tensor<64xi32, #row>
    %qs = tile.splat %q : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>, #row>
    %qq = tile.addptr %qs, %r : tensor<64x!tile.ptr<i32>, #row>, tensor<64xi32, #row>
    %x = tile.load %pp : tensor<64x!tile.ptr<f32>, #row> -> tensor<64xf32, #row>
    %i = tile.load %qq : tensor<64x!tile.ptr<i32>, #row> -> tensor<64xi32, #row>
    %y = tile.gather %x[%i] 0 : tensor<64xf32, #row>, tensor<64xi32, #row> -> tensor<64xf32, #row>
    tile.store %pp, %y : tensor<64x!tile.ptr<f32>, #row>, tensor<64xf32, #row>
    return
  }
}

// -----

// Each thread has four columns of one row: one vector and one scalar are read for four products; the loop does four
// steps of K per iteration.
// CHECK-LABEL: llvm.func @kiln_product(
// CHECK: scf.for {{.*}} to %c16_i32 step %c4_i32 iter_args(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) -> (f32, f32, f32, f32)
// CHECK: llvm.load %{{.*}} {alignment = 2 : i64} : !llvm.ptr<3> -> f16
// CHECK: arith.extf
// CHECK: llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<4xf16>
// CHECK-COUNT-4: math.fma
// CHECK: llvm.load %{{.*}} {alignment = 2 : i64} : !llvm.ptr<3> -> f16
// CHECK: llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<4xf16>
// CHECK-COUNT-12: math.fma
// CHECK-NOT: math.fma
// CHECK: scf.yield
#acc = #layout.map<blocked [4, 32] vector 4 warps 1>
#a = #layout.map<row_major [4, 16] order [0, 1]>
#b = #layout.map<row_major [16, 32]>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @product(%p: !tile.ptr<f32>) attributes {tile.kernel} {
    %ma = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<4x16xf16, #a>
    %mb = kgpu.alloc {offset = 128 : i64} : !kgpu.mem<16x32xf16, #b>
    %c = arith.constant dense<0.0> : tensor<4x32xf32, #acc>
    %d = kgpu.dot %ma, %mb, %c : !kgpu.mem<4x16xf16, #a>, !kgpu.mem<16x32xf16, #b> -> tensor<4x32xf32, #acc>
    %ps = tile.splat %p : !tile.ptr<f32> -> tensor<4x32x!tile.ptr<f32>, #acc>
    tile.store %ps, %d : tensor<4x32x!tile.ptr<f32>, #acc>, tensor<4x32xf32, #acc>
    return
  }
}

// -----

// Products of f16 accumulate in f32 whatever the accumulator's type: it is widened before the loop and rounded after
// it.
// CHECK-LABEL: llvm.func @kiln_narrow_sum(
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: scf.for {{.*}} iter_args({{.*}} = %[[ZERO]], {{.*}}) -> (f32, f32, f32, f32)
// CHECK-COUNT-16: math.fma {{.*}} : f32
// CHECK: scf.yield
// CHECK-COUNT-4: arith.truncf %{{.*}} : f32 to f16
#acc = #layout.map<blocked [4, 32] vector 4 warps 1>
#a = #layout.map<row_major [4, 16] order [0, 1]>
#b = #layout.map<row_major [16, 32]>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @narrow_sum(%p: !tile.ptr<f16>) attributes {tile.kernel} {
    %ma = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<4x16xf16, #a>
    %mb = kgpu.alloc {offset = 128 : i64} : !kgpu.mem<16x32xf16, #b>
    %c = arith.constant dense<0.0> : tensor<4x32xf16, #acc>
    %d = kgpu.dot %ma, %mb, %c : !kgpu.mem<4x16xf16, #a>, !kgpu.mem<16x32xf16, #b> -> tensor<4x32xf16, #acc>
    %ps = tile.splat %p : !tile.ptr<f16> -> tensor<4x32x!tile.ptr<f16>, #acc>
    tile.store %ps, %d : tensor<4x32x!tile.ptr<f16>, #acc>, tensor<4x32xf16, #acc>
    return
  }
}

// -----

// A single counter is in order too.
// CHECK-LABEL: llvm.func @kiln_one_counter(
// CHECK: llvm.atomicrmw add
#row = #layout.map<blocked [32] vector 1 warps 1>
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @one_counter(%p: !tile.ptr<i32>) attributes {tile.kernel} {
    %m = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<1xi32, #layout.map<row_major [1]>>
    %r = tile.make_range 0 to 32 : tensor<32xi32, #row>
    kgpu.local_atomic_add %m[%r], %r : !kgpu.mem<1xi32, #layout.map<row_major [1]>>, tensor<32xi32, #row>,
      tensor<32xi32, #row>
    return
  }
}
