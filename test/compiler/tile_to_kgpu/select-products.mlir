// Each tile.dot becomes products that the target supports: by warp groups from swizzled memory, by warps from
// registers, or multiply-adds as before.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-select-products | FileCheck %s
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_80 --kiln-select-products | FileCheck %s --check-prefix=WARP

// A loop-invariant operand is stored once, before the loop; rows are in memory as they were loaded, transposed by a
// view only. Eight warps are two groups.
// CHECK-DAG: #[[A:.*]] = #layout.map<swizzled [128, 64] element 2 bytes 128>
// CHECK-DAG: #[[B:.*]] = #layout.map<swizzled [64, 128] order [0, 1] element 2 bytes 128>
// CHECK: module attributes {kgpu.num_groups = 2 : i32, kgpu.num_warps = 4 : i32
// CHECK-LABEL: @invariant(
// CHECK-SAME: %[[Q:[a-z0-9]*]]: tensor<128x64xf16>
// CHECK: %[[MQ:.*]] = kgpu.alloc : <128x64xf16, #[[A]]>
// CHECK: kgpu.local_store %[[Q]], %[[MQ]]
// CHECK: scf.for {{.*}} iter_args(%[[SUM:.*]] =
// CHECK:   %[[K:.*]] = tile.load
// CHECK:   %[[MK:.*]] = kgpu.alloc : <128x64xf16
// CHECK:   kgpu.local_store %[[K]], %[[MK]]
// CHECK:   %[[KT:.*]] = kgpu.trans %[[MK]] [1, 0] : <128x64xf16, #[[A]]> -> <64x128xf16, #[[B]]>
// CHECK-NOT: tile.trans
// CHECK:   %[[D:.*]] = kgpu.warpgroup_mma %[[MQ]], %[[KT]], %[[SUM]]
// CHECK-NOT: accumulate
// CHECK:   kgpu.mma_wait %[[D]] pending 0
// WARP: module attributes {kgpu.num_warps = 8 : i32
// WARP-LABEL: @invariant(
// WARP: %[[T:.*]] = tile.trans
// WARP: kgpu.warp_mma %{{.*}}, %[[T]], %{{.*}} : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
module attributes {kgpu.num_warps = 8 : i32} {
  func.func @invariant(%q: tensor<128x64xf16>, %p: tensor<128x64x!tile.ptr<f16>>, %n: i32, %z: tensor<128x128xf32>) -> tensor<128x128xf32> {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %z) -> (tensor<128x128xf32>) : i32 {
      %k = tile.load %p : tensor<128x64x!tile.ptr<f16>> -> tensor<128x64xf16>
      %t = tile.trans %k [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
      %d = tile.dot %q, %t, %s : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %d : tensor<128x128xf32>
    }
    return %r : tensor<128x128xf32>
  }
}

// -----

// An operand computed from another product stays in registers. The first product has no addend.
// CHECK-LABEL: @chained(
// CHECK: %[[NO:.*]] = arith.constant false
// CHECK: %[[S:.*]] = kgpu.warpgroup_mma %{{.*}}, %{{.*}}, %{{.*}} accumulate %[[NO]] :
// CHECK: kgpu.mma_wait %[[S]] pending 0
// CHECK: %[[P:.*]] = arith.truncf
// CHECK: kgpu.warpgroup_mma %[[P]], %{{.*}}, %{{.*}} : tensor<64x64xf16>, <64x128xf16
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @chained(%q: tensor<64x64xf16>, %k: tensor<64x64xf16>, %v: tensor<64x128xf16>, %o: tensor<64x128xf32>) -> tensor<64x128xf32> {
    %z = arith.constant dense<0.0> : tensor<64x64xf32>
    %s = tile.dot %q, %k, %z : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %p = arith.truncf %s : tensor<64x64xf32> to tensor<64x64xf16>
    %d = tile.dot %p, %v, %o : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
    return %d : tensor<64x128xf32>
  }
}

// -----

// Sums of f16 accumulate in f32 and are rounded once.
// CHECK-LABEL: @narrow_sum(
// CHECK: %[[WIDE:.*]] = arith.extf %{{.*}} : tensor<64x64xf16> to tensor<64x64xf32>
// CHECK: %[[D:.*]] = kgpu.warpgroup_mma %{{.*}}, %{{.*}}, %[[WIDE]]
// CHECK: %[[SUM:.*]] = kgpu.mma_wait %[[D]]
// CHECK: arith.truncf %[[SUM]] : tensor<64x64xf32> to tensor<64x64xf16>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @narrow_sum(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>, %c: tensor<64x64xf16>) -> tensor<64x64xf16> {
    %d = tile.dot %a, %b, %c : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf16>
    return %d : tensor<64x64xf16>
  }
}

// -----

// f32 as tf32: rounded to nearest. Of three products the small ones come first, and NaN in them is dropped.
// CHECK-LABEL: @tf32(
// CHECK: %[[HIGH:.*]] = tile.inline_asm "cvt.rna.tf32.f32 $0, $1;" "=f,f" (%[[A:.*]]) {isPure}
// CHECK: %[[REST:.*]] = arith.subf %[[A]], %[[HIGH]]
// CHECK: tile.inline_asm "cvt.rna.tf32.f32 $0, $1;" "=f,f" (%[[REST]]) {isPure}
// CHECK: kgpu.warpgroup_mma {{.*}} accumulate
// CHECK: kgpu.warpgroup_mma
// CHECK: %[[SMALL:.*]] = kgpu.mma_wait
// CHECK: %[[NAN:.*]] = arith.cmpf uno, %[[SMALL]], %[[SMALL]]
// CHECK: %[[REAL:.*]] = arith.select %[[NAN]]
// CHECK: kgpu.warpgroup_mma %{{.*}}, %{{.*}}, %[[REAL]] :
// CHECK: arith.addf
// WARP-LABEL: @tf32(
// WARP-COUNT-3: kgpu.warp_mma {{.*}} : tensor<64x32xf32>, tensor<32x64xf32> -> tensor<64x64xf32>
// WARP: arith.addf
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @tf32(%a: tensor<64x32xf32>, %b: tensor<32x64xf32>, %c: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %d = tile.dot %a, %b, %c {precision = #tile<precision tf32x3>} : tensor<64x32xf32>, tensor<32x64xf32> -> tensor<64x64xf32>
    return %d : tensor<64x64xf32>
  }
}

// -----

// Six products of three bf16 each.
// CHECK-LABEL: @bf16x6(
// CHECK-COUNT-6: kgpu.warpgroup_mma {{.*}}bf16
// CHECK-NOT: kgpu.warpgroup_mma
// WARP-LABEL: @bf16x6(
// WARP-COUNT-6: kgpu.warp_mma {{.*}} : tensor<64x32xbf16>, tensor<32x64xbf16> -> tensor<64x64xf32>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @bf16x6(%a: tensor<64x32xf32>, %b: tensor<32x64xf32>, %c: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %d = tile.dot %a, %b, %c {precision = #tile<precision bf16x6>} : tensor<64x32xf32>, tensor<32x64xf32> -> tensor<64x64xf32>
    return %d : tensor<64x64xf32>
  }
}

// -----

// 8-bit floats: as f16 where sums must be exact, otherwise a separate sum per dot; also as f16 where there is no
// instruction.
// CHECK-LABEL: @narrow_factors(
// CHECK: arith.extf %{{.*}} : tensor<64x64xf8E4M3FN> to tensor<64x64xf16>
// CHECK: kgpu.warpgroup_mma {{.*}} : !kgpu.mem<64x64xf16
// CHECK: kgpu.warpgroup_mma {{.*}} accumulate {{.*}} : !kgpu.mem<64x64xf8E4M3FN
// CHECK: arith.addf
// WARP-LABEL: @narrow_factors(
// WARP-COUNT-2: kgpu.warp_mma {{.*}} : tensor<64x64xf16>, tensor<64x64xf16>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @narrow_factors(%a: tensor<64x64xf8E4M3FN>, %b: tensor<64x64xf8E5M2>, %c: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %d = tile.dot %a, %b, %c : tensor<64x64xf8E4M3FN>, tensor<64x64xf8E5M2> -> tensor<64x64xf32>
    %e = tile.dot %a, %b, %d {maxImpreciseAcc = 64 : i32} : tensor<64x64xf8E4M3FN>, tensor<64x64xf8E5M2> -> tensor<64x64xf32>
    return %e : tensor<64x64xf32>
  }
}

// -----

// A batch is multiplied by warps, and so are tiles with too few rows for groups; IEEE products and tiny ones are
// unchanged.
// CHECK: module attributes {kgpu.num_warps = 4 : i32
// CHECK-LABEL: @others(
// CHECK: kgpu.warp_mma {{.*}} -> tensor<2x32x32xf32>
// CHECK: kgpu.warp_mma {{.*}} : tensor<16x32xi8>, tensor<32x64xi8> -> tensor<16x64xi32>
// CHECK-COUNT-2: tile.dot
// CHECK-NOT: kgpu.
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @others(%a: tensor<2x32x16xf16>, %b: tensor<2x16x32xf16>, %c: tensor<2x32x32xf32>, %d: tensor<16x32xi8>,
      %e: tensor<32x64xi8>, %f: tensor<16x64xi32>, %g: tensor<64x64xf32>, %h: tensor<8x16xf16>, %i: tensor<16x8xf16>,
      %j: tensor<8x8xf32>) -> (tensor<2x32x32xf32>, tensor<16x64xi32>, tensor<64x64xf32>, tensor<8x8xf32>) {
    %r = tile.dot %a, %b, %c : tensor<2x32x16xf16>, tensor<2x16x32xf16> -> tensor<2x32x32xf32>
    %s = tile.dot %d, %e, %f : tensor<16x32xi8>, tensor<32x64xi8> -> tensor<16x64xi32>
    %t = tile.dot %g, %g, %g : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %u = tile.dot %h, %i, %j : tensor<8x16xf16>, tensor<16x8xf16> -> tensor<8x8xf32>
    return %r, %s, %t, %u : tensor<2x32x32xf32>, tensor<16x64xi32>, tensor<64x64xf32>, tensor<8x8xf32>
  }
}

// -----

// So is one that a branch in between may change. Operands loaded before the first product are stored at the second.
// CHECK: module attributes {kgpu.num_groups = 1 : i32
// CHECK-LABEL: @masked(
// WARP-LABEL: @masked(
// CHECK: %[[V:.*]] = tile.load
// CHECK: kgpu.mma_wait
// CHECK: %[[S:.*]] = scf.if
// CHECK: %[[P:.*]] = arith.truncf %[[S]]
// CHECK: %[[M:.*]] = kgpu.alloc
// CHECK-NEXT: kgpu.local_store %[[V]], %[[M]]
// CHECK: kgpu.warpgroup_mma %[[P]], %[[M]], %{{.*}} : tensor<64x64xf16>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @masked(%q: tensor<64x64xf16>, %k: tensor<64x64xf16>, %a: tensor<64x128x!tile.ptr<f16>>, %o: tensor<64x128xf32>, %c: i1) -> tensor<64x128xf32> {
    %z = arith.constant dense<0.0> : tensor<64x64xf32>
    %v = tile.load %a : tensor<64x128x!tile.ptr<f16>> -> tensor<64x128xf16>
    %s = tile.dot %q, %k, %z : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %m = scf.if %c -> (tensor<64x64xf32>) {
      %n = arith.negf %s : tensor<64x64xf32>
      scf.yield %n : tensor<64x64xf32>
    } else {
      scf.yield %s : tensor<64x64xf32>
    }
    %p = arith.truncf %m : tensor<64x64xf32> to tensor<64x64xf16>
    %d = tile.dot %p, %v, %o : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
    return %d : tensor<64x128xf32>
  }
}

// -----

// Two operands of 128 KiB do not fit a block's memory together: by warps, from registers.
// CHECK-LABEL: @too_large(
// CHECK-NOT: kgpu.warpgroup_mma
// CHECK: kgpu.warp_mma
// WARP-LABEL: @too_large(
// WARP: kgpu.warp_mma
module attributes {kgpu.num_warps = 8 : i32} {
  func.func @too_large(%a: tensor<128x256xf32>, %b: tensor<256x128xf32>, %z: tensor<128x128xf32>) -> tensor<128x128xf32> {
    %d = tile.dot %a, %b, %z {precision = #tile<precision tf32>} : tensor<128x256xf32>, tensor<256x128xf32> -> tensor<128x128xf32>
    return %d : tensor<128x128xf32>
  }
}

// -----

// Halves of them do.
// CHECK-LABEL: @fits(
// CHECK: kgpu.warpgroup_mma
// WARP-LABEL: @fits(
// WARP: kgpu.warp_mma
module attributes {kgpu.num_warps = 8 : i32} {
  func.func @fits(%a: tensor<128x128xf32>, %b: tensor<128x128xf32>, %z: tensor<128x128xf32>) -> tensor<128x128xf32> {
    %d = tile.dot %a, %b, %z {precision = #tile<precision tf32>} : tensor<128x128xf32>, tensor<128x128xf32> -> tensor<128x128xf32>
    return %d : tensor<128x128xf32>
  }
}
