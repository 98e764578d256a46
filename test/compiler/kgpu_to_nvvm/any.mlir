// A warp votes whether any of its elements is true: each thread combines its own, one shared by several registers once,
// and a branch follows the warp's answer.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm | FileCheck %s

#c = #layout.map<digits [4, 64] reg (0, 1) (1, 0) (2, 0) lane (0, 2) (0, 4) (0, 8) (0, 16) (0, 32)>
#s = #layout.map<digits [4] reg (1) (2) lane (0) (0) (0) (0) (0)>
#r = #layout.map<digits [4, 1] reg (0, 0) (1, 0) (2, 0) lane (0, 0) (0, 0) (0, 0) (0, 0) (0, 0)>

// Four rows of two elements each: four answers, none of them twice.
// CHECK-LABEL: llvm.func @kiln_rows(
// CHECK-COUNT-4: arith.cmpf ogt
// CHECK-NOT: arith.cmpf
// CHECK: %[[TWO:.*]] = arith.ori %{{.*}}, %{{.*}} : i1
// CHECK: %[[THREE:.*]] = arith.ori %[[TWO]], %{{.*}} : i1
// CHECK: %[[FOUR:.*]] = arith.ori %[[THREE]], %{{.*}} : i1
// CHECK-NOT: arith.ori
// CHECK: %[[ANY:.*]] = llvm.call_intrinsic "llvm.nvvm.vote.any.sync"(%{{c-1_i32[_0-9]*}}, %[[FOUR]]) : (i32, i1) -> i1
// CHECK-NOT: vote
// CHECK: scf.if %[[ANY]] -> (f32, f32, f32, f32) {
module attributes {kgpu.num_warps = 1 : i32} {
  func.func @rows(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %scale: f32) attributes {tile.kernel} {
    %rows = tile.make_range 0 to 4 : tensor<4xi32, #s>
    %numbers = arith.sitofp %rows : tensor<4xi32, #s> to tensor<4xf32, #s>
    %scales = tile.splat %scale : f32 -> tensor<4xf32, #s>
    %much = arith.cmpf ogt, %numbers, %scales : tensor<4xf32, #s>
    %column = tile.expand_dims %much 1 : tensor<4xi1, #s> -> tensor<4x1xi1, #r>
    %mask = tile.broadcast %column : tensor<4x1xi1, #r> -> tensor<4x64xi1, #c>
    %any = kgpu.any %mask : tensor<4x64xi1, #c>
    %y = scf.if %any -> tensor<4xf32, #s> {
      %z = arith.mulf %numbers, %scales : tensor<4xf32, #s>
      scf.yield %z : tensor<4xf32, #s>
    } else {
      scf.yield %numbers : tensor<4xf32, #s>
    }
    %p = tile.splat %x : !tile.ptr<f32> -> tensor<4x!tile.ptr<f32>, #s>
    %at = tile.addptr %p, %rows : tensor<4x!tile.ptr<f32>, #s>, tensor<4xi32, #s>
    tile.store %at, %y : tensor<4x!tile.ptr<f32>, #s>, tensor<4xf32, #s>
    return
  }
}

// -----

// Several warps: each asks its own threads, and nothing is exchanged.
// CHECK-LABEL: llvm.func @kiln_warps(
// CHECK-NOT: {{barrier|bar\.|shfl}}
// CHECK: %[[ANY:.*]] = llvm.call_intrinsic "llvm.nvvm.vote.any.sync"(%{{c-1_i32[_0-9]*}}, %{{.*}})
// CHECK-NOT: {{barrier|bar\.|shfl}}
// CHECK: scf.if %[[ANY]] -> (f32) {
// CHECK-NOT: {{barrier|bar\.|shfl}}
// CHECK: llvm.return
#t = #layout.map<blocked [128] vector 1 warps 4>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @warps(%p: !tile.ptr<f32>) attributes {tile.kernel} {
    %limit = arith.constant dense<1.0> : tensor<128xf32, #t>
    %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
    %q = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
    %at = tile.addptr %q, %r : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi32, #t>
    %x = tile.load %at : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
    %much = arith.cmpf ogt, %x, %limit : tensor<128xf32, #t>
    %any = kgpu.any %much : tensor<128xi1, #t>
    %y = scf.if %any -> tensor<128xf32, #t> {
      %z = arith.mulf %x, %x : tensor<128xf32, #t>
      scf.yield %z : tensor<128xf32, #t>
    } else {
      scf.yield %x : tensor<128xf32, #t>
    }
    tile.store %at, %y : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
    return
  }
}
