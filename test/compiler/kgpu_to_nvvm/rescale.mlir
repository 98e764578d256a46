// A warp votes whether any of its factors differs from 1, comparing a factor shared by several elements once; if none
// does, nothing is multiplied.
// RUN: kiln-opt %s --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

#c = #layout.map<digits [2, 64] reg (0, 1) (1, 0) lane (0, 2) (0, 4) (0, 8) (0, 16) (0, 32)>
#f = #layout.map<digits [128] reg (1) (64) lane (2) (4) (8) (16) (32)>
#s = #layout.map<digits [2] reg (0) (1) lane (0) (0) (0) (0) (0)>
#r = #layout.map<digits [2, 1] reg (0, 0) (1, 0) lane (0, 0) (0, 0) (0, 0) (0, 0) (0, 0)>

// CHECK-LABEL: llvm.func @kiln_rows(
// CHECK: %[[FACTOR:.*]] = math.exp2
// CHECK: %[[OTHER:.*]] = math.exp2
// CHECK-NOT: math.exp2
// CHECK: %[[FIRST:.*]] = arith.cmpf une, %[[FACTOR]], %[[ONE:.*]] : f32
// CHECK: %[[SECOND:.*]] = arith.cmpf une, %[[OTHER]], %[[ONE]] : f32
// CHECK: %[[EITHER:.*]] = arith.ori %[[FIRST]], %[[SECOND]]
// CHECK: %[[ANY:.*]] = llvm.call_intrinsic "llvm.nvvm.vote.any.sync"(%c-1_i32, %[[EITHER]])
// CHECK: %{{.*}}:4 = scf.if %[[ANY]] -> (f32, f32, f32, f32) {
// CHECK-COUNT-2: arith.mulf %{{.*}}, %[[FACTOR]]
// CHECK-COUNT-2: arith.mulf %{{.*}}, %[[OTHER]]
// CHECK: } else {
// CHECK-NOT: arith.mulf
// CHECK: llvm.store
module attributes {kgpu.num_warps = 1 : i32} {
  func.func @rows(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %scale: f32) attributes {tile.kernel} {
    %rows = tile.make_range 0 to 2 : tensor<2xi32, #s>
    %numbers = arith.sitofp %rows : tensor<2xi32, #s> to tensor<2xf32, #s>
    %scales = tile.splat %scale : f32 -> tensor<2xf32, #s>
    %exponents = arith.mulf %numbers, %scales : tensor<2xf32, #s>
    %powers = math.exp2 %exponents : tensor<2xf32, #s>
    %column = tile.expand_dims %powers 1 : tensor<2xf32, #s> -> tensor<2x1xf32, #r>
    %factor = tile.broadcast %column : tensor<2x1xf32, #r> -> tensor<2x64xf32, #c>
    %n = tile.make_range 0 to 128 : tensor<128xi32, #f>
    %places = tile.splat %x : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #f>
    %at = tile.addptr %places, %n : tensor<128x!tile.ptr<f32>, #f>, tensor<128xi32, #f>
    %loaded = tile.load %at : tensor<128x!tile.ptr<f32>, #f> -> tensor<128xf32, #f>
    %value = tile.reshape %loaded : tensor<128xf32, #f> -> tensor<2x64xf32, #c>
    %scaled = kgpu.rescale %value, %factor : tensor<2x64xf32, #c>
    %flat = tile.reshape %scaled : tensor<2x64xf32, #c> -> tensor<128xf32, #f>
    tile.store %at, %flat : tensor<128x!tile.ptr<f32>, #f>, tensor<128xf32, #f>
    return
  }
}
