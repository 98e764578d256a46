// RUN: kiln-opt %s --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// A thread's eight elements take two accesses of four; a mask that is constant over four elements keeps them whole.
// CHECK-LABEL: llvm.func @kiln_add(
// CHECK-SAME: %[[X:[a-z0-9]+]]: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias, llvm.readonly}
// CHECK-SAME: %[[Y:[a-z0-9]+]]: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias, llvm.readonly}
// CHECK-SAME: %[[Z:[a-z0-9]+]]: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias}
// CHECK-SAME: %[[N:[a-z0-9]+]]: i32
// CHECK-SAME: kiln.arguments_bytes = 32
// CHECK-SAME: kiln.cuda = {cluster = 1 : i64, max_registers = 0 : i64, num_warps = 4 : i64, pdl = false, shared_bytes = 0 : i64, threads = 128 : i64}
// CHECK-SAME: nvvm.kernel
// CHECK-SAME: nvvm.reqntid = array<i32: 128, 1, 1>
// CHECK-COUNT-4: "@$5 ld.global.v4.b32 {$0, $1, $2, $3}, [$4];", "=r,=r,=r,=r,l,b,0,1,2,3,~{memory}"
// CHECK-COUNT-8: arith.addf
// CHECK-COUNT-2: has_side_effects "@$5 st.global.v4.b32 [$0], {$1, $2, $3, $4};", "l,r,r,r,r,b,~{memory}"
// CHECK-NOT: inline_asm
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
