// RUN: kiln-opt %s --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// Eight elements of a thread in two accesses of four; a mask that is constant over four keeps them whole.
#b = #layout.map<blocked [1024] order [0] vector 4 warps 4>

module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @add(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.disjoint},
                        %y: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.disjoint},
                        %z: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.disjoint},
                        %n: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel, kgpu.shared_bytes = 0 : i64} {
    %c1024 = arith.constant 1024 : i32
    %pid = tile.program_id x : i32
    %start = arith.muli %pid, %c1024 : i32
    %r = tile.make_range 0 to 1024 : tensor<1024xi32, #b>
    %s = tile.splat %start : i32 -> tensor<1024xi32, #b>
    %o = arith.addi %s, %r : tensor<1024xi32, #b>
    %ns = tile.splat %n : i32 -> tensor<1024xi32, #b>
    %m = arith.cmpi slt, %o, %ns : tensor<1024xi32, #b>
    %xs = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>, #b>
    %xp = tile.addptr %xs, %o : tensor<1024x!tile.ptr<f32>, #b>, tensor<1024xi32, #b>
    %xv = tile.load %xp mask %m : tensor<1024x!tile.ptr<f32>, #b> mask tensor<1024xi1, #b> -> tensor<1024xf32, #b>
    %ys = tile.splat %y : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>, #b>
    %yp = tile.addptr %ys, %o : tensor<1024x!tile.ptr<f32>, #b>, tensor<1024xi32, #b>
    %yv = tile.load %yp mask %m : tensor<1024x!tile.ptr<f32>, #b> mask tensor<1024xi1, #b> -> tensor<1024xf32, #b>
    %sum = arith.addf %xv, %yv : tensor<1024xf32, #b>
    %zs = tile.splat %z : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>, #b>
    %zp = tile.addptr %zs, %o : tensor<1024x!tile.ptr<f32>, #b>, tensor<1024xi32, #b>
    tile.store %zp, %sum mask %m : tensor<1024x!tile.ptr<f32>, #b>, tensor<1024xf32, #b> mask tensor<1024xi1, #b>
    return
  }
}
