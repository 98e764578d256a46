// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

#b = #layout.map<blocked [512] order [0] vector 4 warps 4>

// Four bytes share one register of the assembly; the function's name follows from the element type.
// CHECK: llvm.func @__nv_erfcxf(f32) -> f32
// CHECK-LABEL: llvm.func @kiln_text(
// CHECK: llvm.bitcast %{{.*}} : vector<4xi8> to i32
// CHECK-COUNT-1: llvm.inline_asm "lop3.b32 $0, $1, $2, 0, 0x3c;", "=r,r,r"
// CHECK: arith.trunci %{{.*}} : i32 to i8
// CHECK-COUNT-4: llvm.call @__nv_erfcxf(%{{.*}}) : (f32) -> f32
// CHECK: llvm.inline_asm has_side_effects "nanosleep.u32 $0;", "r,~{memory}"
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @text(%x: !tile.ptr<i8> {tile.divisibility = 16 : i64}, %n: i32) attributes {tile.kernel} {
    %r = tile.make_range 0 to 512 : tensor<512xi32, #b>
    %s = tile.splat %x : !tile.ptr<i8> -> tensor<512x!tile.ptr<i8>, #b>
    %p = tile.addptr %s, %r : tensor<512x!tile.ptr<i8>, #b>, tensor<512xi32, #b>
    %v = tile.load %p : tensor<512x!tile.ptr<i8>, #b> -> tensor<512xi8, #b>
    %w = arith.addi %v, %v : tensor<512xi8, #b>
    %y = tile.inline_asm "lop3.b32 $0, $1, $2, 0, 0x3c;" "=r,r,r" (%v, %w) {isPure, packed = 4 : i32}
      : (tensor<512xi8, #b>, tensor<512xi8, #b>) -> tensor<512xi8, #b>
    %f = arith.sitofp %y : tensor<512xi8, #b> to tensor<512xf32, #b>
    %e = tile.extern_call "erfcx" from "libdevice" (%f) {isPure} : (tensor<512xf32, #b>) -> tensor<512xf32, #b>
    tile.inline_asm "nanosleep.u32 $0;" "r" (%n) : (i32) -> ()
    %g = arith.fptosi %e : tensor<512xf32, #b> to tensor<512xi8, #b>
    tile.store %p, %g : tensor<512x!tile.ptr<i8>, #b>, tensor<512xi8, #b>
    return
  }
}
