// A kept tile passes word by word through a permutation that the optimizer cannot recognise as the identity. Ops
// without memory accesses are placed at their first use: one access's elements are computed completely before the next
// one's.
// RUN: kiln-opt %s --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// CHECK-LABEL: llvm.func @kiln_halves
// CHECK: ld.global
// CHECK: %[[ORDER:.*]] = llvm.inline_asm {{.*}}%smid{{.*}}or.b32 $0, number, 0x3210
// CHECK: %[[KEPT:.*]] = llvm.inline_asm "prmt.b32 $0, $1, $1, $2;", "=r,r,r" %{{.*}}, %[[ORDER]] : (i32, i32) -> i32
// CHECK: %[[PAIR:.*]] = llvm.bitcast %[[KEPT]] : i32 to vector<2xf16>
// CHECK: %[[LOW:.*]] = llvm.extractelement %[[PAIR]][%c0
// CHECK: arith.extf %[[LOW]]
// CHECK: %[[HIGH:.*]] = llvm.extractelement %[[PAIR]][%c1
// CHECK: arith.extf %[[HIGH]]
// CHECK: prmt.b32
// CHECK-NOT: prmt.b32
// CHECK: st.global
// CHECK-COUNT-2: prmt.b32
// CHECK-NOT: prmt.b32
// CHECK: st.global
module attributes {kgpu.num_warps = 1 : i32} {
  func.func @halves(%p: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "p", tile.type = "*fp16"},
                    %q: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "q", tile.type = "*fp32"})
      attributes {tile.kernel} {
    %i = tile.make_range 0 to 512 : tensor<512xi32, #layout.map<blocked [512] vector 8>>
    %ps = tile.splat %p : !tile.ptr<f16> -> tensor<512x!tile.ptr<f16>, #layout.map<blocked [512] vector 8>>
    %qs = tile.splat %q : !tile.ptr<f32> -> tensor<512x!tile.ptr<f32>, #layout.map<blocked [512] vector 8>>
    %at = tile.addptr %ps, %i : tensor<512x!tile.ptr<f16>, #layout.map<blocked [512] vector 8>>,
      tensor<512xi32, #layout.map<blocked [512] vector 8>>
    %to = tile.addptr %qs, %i : tensor<512x!tile.ptr<f32>, #layout.map<blocked [512] vector 8>>,
      tensor<512xi32, #layout.map<blocked [512] vector 8>>
    %x = tile.load %at : tensor<512x!tile.ptr<f16>, #layout.map<blocked [512] vector 8>>
      -> tensor<512xf16, #layout.map<blocked [512] vector 8>>
    %k = kgpu.keep %x : tensor<512xf16, #layout.map<blocked [512] vector 8>>
    %w = arith.extf %k : tensor<512xf16, #layout.map<blocked [512] vector 8>> to
      tensor<512xf32, #layout.map<blocked [512] vector 8>>
    tile.store %to, %w : tensor<512x!tile.ptr<f32>, #layout.map<blocked [512] vector 8>>,
      tensor<512xf32, #layout.map<blocked [512] vector 8>>
    return
  }
}
