// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-overlap-launches --kiln-close-reads --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

#b = #layout.map<blocked [1024] order [0] vector 8 warps 4>

// Tile loads are PTX, so that they stay where the program has them and all loads of a run come before the first use. A
// byte is an i1: true unless 0. Stores without mask and hints are LLVM's.
// CHECK-LABEL: llvm.func @kiln_plain(
// CHECK: has_side_effects "ld.global.v4.b32 {$0, $1, $2, $3}, [$4];", "=r,=r,=r,=r,l,~{memory}"
// CHECK: has_side_effects "ld.global.v2.b32 {$0, $1}, [$2];", "=r,=r,l,~{memory}"
// CHECK: arith.cmpi ne, %{{.*}}, %{{.*}} : i8
// CHECK: "pmevent 0;"
// CHECK-NOT: inline_asm
// CHECK: llvm.store %{{.*}}, %{{.*}} {alignment = 16 : i64} : vector<8xf16>, !llvm.ptr<1>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @plain(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %m: !tile.ptr<i1> {tile.divisibility = 16 : i64})
      attributes {tile.kernel} {
    %r = tile.make_range 0 to 1024 : tensor<1024xi32, #b>
    %xs = tile.splat %x : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>, #b>
    %xp = tile.addptr %xs, %r : tensor<1024x!tile.ptr<f16>, #b>, tensor<1024xi32, #b>
    %v = tile.load %xp : tensor<1024x!tile.ptr<f16>, #b> -> tensor<1024xf16, #b>
    %ms = tile.splat %m : !tile.ptr<i1> -> tensor<1024x!tile.ptr<i1>, #b>
    %mp = tile.addptr %ms, %r : tensor<1024x!tile.ptr<i1>, #b>, tensor<1024xi32, #b>
    %f = tile.load %mp : tensor<1024x!tile.ptr<i1>, #b> -> tensor<1024xi1, #b>
    %z = arith.constant dense<0.0> : tensor<1024xf16, #b>
    %y = arith.select %f, %v, %z : tensor<1024xi1, #b>, tensor<1024xf16, #b>
    tile.store %xp, %y : tensor<1024x!tile.ptr<f16>, #b>, tensor<1024xf16, #b>
    return
  }
}

// -----

#b = #layout.map<blocked [1024] order [0] vector 8 warps 4>

// An address about which nothing is known: one element at a time. Half a word is held in a 16-bit register.
// CHECK-LABEL: llvm.func @kiln_unaligned(
// CHECK-COUNT-8: "ld.global.b16 $0, [$1];", "=h,l,~{memory}"
// CHECK-COUNT-8: "@$2 st.global.b16 [$0], $1;", "l,h,b,~{memory}"
// CHECK-NOT: inline_asm
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @unaligned(%x: !tile.ptr<f16>, %n: i32) attributes {tile.kernel} {
    %r = tile.make_range 0 to 1024 : tensor<1024xi32, #b>
    %xs = tile.splat %x : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>, #b>
    %xp = tile.addptr %xs, %r : tensor<1024x!tile.ptr<f16>, #b>, tensor<1024xi32, #b>
    %v = tile.load %xp : tensor<1024x!tile.ptr<f16>, #b> -> tensor<1024xf16, #b>
    %ns = tile.splat %n : i32 -> tensor<1024xi32, #b>
    %m = arith.cmpi slt, %r, %ns : tensor<1024xi32, #b>
    tile.store %xp, %v mask %m : tensor<1024x!tile.ptr<f16>, #b>, tensor<1024xf16, #b> mask tensor<1024xi1, #b>
    return
  }
}

// -----

#b = #layout.map<blocked [1024] order [0] vector 8 warps 4>

// Hints, and the value of masked elements. The mask is constant per eight elements: one predicate per vector.
// CHECK-LABEL: llvm.func @kiln_hints(
// CHECK: "createpolicy.fractional.L2::evict_first.b64 $0, 1.0;"
// CHECK: "@$6 ld.global.L1::evict_first.L2::cache_hint.v4.b32 {$0, $1, $2, $3}, [$4], $5;", "=r,=r,=r,=r,l,l,b,0,1,2,3,~{memory}"
// CHECK: "ld.global.cg.v4.b32 {$0, $1, $2, $3}, [$4];"
// CHECK: "ld.global.ca.L2::cache_hint.v4.b32 {$0, $1, $2, $3}, [$4], $5;"
// CHECK: "ld.volatile.global.v4.b32 {$0, $1, $2, $3}, [$4];"
// CHECK: "st.global.cs.v4.b32 [$0], {$1, $2, $3, $4};"
// CHECK: "@$6 st.global.L1::evict_first.L2::cache_hint.v4.b32 [$0], {$1, $2, $3, $4}, $5;", "l,r,r,r,r,l,b,~{memory}"
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @hints(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64})
      attributes {tile.kernel} {
    %r = tile.make_range 0 to 1024 : tensor<1024xi32, #b>
    %xs = tile.splat %x : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>, #b>
    %xp = tile.addptr %xs, %r : tensor<1024x!tile.ptr<f16>, #b>, tensor<1024xi32, #b>
    %ns = tile.splat %n : i32 -> tensor<1024xi32, #b>
    %m = arith.cmpi slt, %r, %ns : tensor<1024xi32, #b>
    %o = arith.constant dense<1.0> : tensor<1024xf16, #b>
    %a = tile.load %xp mask %m other %o {evict = #tile<evict evict_first>}
      : tensor<1024x!tile.ptr<f16>, #b> mask tensor<1024xi1, #b> other tensor<1024xf16, #b> -> tensor<1024xf16, #b>
    %b = tile.load %xp {cache = #tile<cache cg>} : tensor<1024x!tile.ptr<f16>, #b> -> tensor<1024xf16, #b>
    %c = tile.load %xp {cache = #tile<cache ca>, evict = #tile<evict evict_last>}
      : tensor<1024x!tile.ptr<f16>, #b> -> tensor<1024xf16, #b>
    %d = tile.load %xp {isVolatile} : tensor<1024x!tile.ptr<f16>, #b> -> tensor<1024xf16, #b>
    %ab = arith.addf %a, %b : tensor<1024xf16, #b>
    %cd = arith.addf %c, %d : tensor<1024xf16, #b>
    tile.store %xp, %ab {cache = #tile<cache cs>} : tensor<1024x!tile.ptr<f16>, #b>, tensor<1024xf16, #b>
    tile.store %xp, %cd mask %m {evict = #tile<evict evict_first>}
      : tensor<1024x!tile.ptr<f16>, #b>, tensor<1024xf16, #b> mask tensor<1024xi1, #b>
    return
  }
}

// -----

#b = #layout.map<blocked [64] order [0] vector 1 warps 4>

// One instruction asks for what one access would read; each element is asked for once, a scalar by the first thread.
// CHECK-LABEL: llvm.func @kiln_prefetch(
// CHECK: %[[TID:.*]] = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.tid.x"
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[TID]], %c0_i32
// CHECK: "@$1 prefetch.global.L2 [$0];", "l,b,~{memory}" %{{.*}}, %[[OWNER:[0-9]+]] :
// CHECK: %[[BOTH:.*]] = arith.andi %[[OWNER]], %{{.*}} : i1
// CHECK: "@$1 prefetch.global.L2 [$0];", "l,b,~{memory}" %{{.*}}, %[[BOTH]] :
// CHECK: "@$1 prefetch.global.L2 [$0];", "l,b,~{memory}" %{{.*}}, %[[FIRST]] :
// CHECK-COUNT-2: "prefetch.global.L2 [$0];", "l,~{memory}"
// CHECK-NOT: prefetch
#wide = #layout.map<blocked [1024] order [0] vector 4 warps 4>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @prefetch(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32) attributes {tile.kernel} {
    %r = tile.make_range 0 to 64 : tensor<64xi32, #b>
    %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #b>
    %xp = tile.addptr %xs, %r : tensor<64x!tile.ptr<f32>, #b>, tensor<64xi32, #b>
    %ns = tile.splat %n : i32 -> tensor<64xi32, #b>
    %m = arith.cmpi slt, %r, %ns : tensor<64xi32, #b>
    tile.prefetch %xp : tensor<64x!tile.ptr<f32>, #b>
    tile.prefetch %xp mask %m : tensor<64x!tile.ptr<f32>, #b> mask tensor<64xi1, #b>
    tile.prefetch %x : !tile.ptr<f32>
    %w = tile.make_range 0 to 1024 : tensor<1024xi32, #wide>
    %ws = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>, #wide>
    %wp = tile.addptr %ws, %w : tensor<1024x!tile.ptr<f32>, #wide>, tensor<1024xi32, #wide>
    tile.prefetch %wp : tensor<1024x!tile.ptr<f32>, #wide>
    return
  }
}

// -----

#b = #layout.map<blocked [64] order [0] vector 1 warps 4>

// A tile with fewer elements than threads: every thread that has a copy of an element reads it; only its owner writes
// it. A scalar is written by the first thread.
// CHECK-LABEL: llvm.func @kiln_owner(
// CHECK: %[[TID:.*]] = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.tid.x"
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[TID]], %c0_i32
// CHECK: "ld.global.b32 $0, [$1];", "=r,l,~{memory}"
// CHECK: "@$2 st.global.b32 [$0], $1;", "l,r,b,~{memory}" %{{.*}}, %{{.*}}, %[[OWNER:[0-9]+]] :
// CHECK: "@$2 st.global.b32 [$0], $1;", "l,r,b,~{memory}" %{{.*}}, %{{.*}}, %[[FIRST]] :
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @owner(%x: !tile.ptr<f32>, %s: f32) attributes {tile.kernel} {
    %r = tile.make_range 0 to 64 : tensor<64xi32, #b>
    %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #b>
    %xp = tile.addptr %xs, %r : tensor<64x!tile.ptr<f32>, #b>, tensor<64xi32, #b>
    %v = tile.load %xp : tensor<64x!tile.ptr<f32>, #b> -> tensor<64xf32, #b>
    tile.store %xp, %v : tensor<64x!tile.ptr<f32>, #b>, tensor<64xf32, #b>
    tile.store %x, %s : !tile.ptr<f32>, f32
    return
  }
}

// -----

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// Memory that nothing writes is loaded as constant only after a possible write, here in a loop: elsewhere the load
// could be moved to its use. Scalar loads may be moved by LLVM.
// CHECK-LABEL: llvm.func @kiln_after_store(
// CHECK: llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK: "ld.global.b32 $0, [$1];"
// CHECK: scf.for
// CHECK: "ld.global.nc.b32 $0, [$1];"
// CHECK: llvm.store
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @after_store(%x: !tile.ptr<i32> {tile.disjoint}, %y: !tile.ptr<i32> {tile.disjoint}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %n = tile.load %x : !tile.ptr<i32> -> i32
    %r = tile.make_range 0 to 128 : tensor<128xi32, #b>
    %xs = tile.splat %x : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %xp = tile.addptr %xs, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %first = tile.load %xp : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    scf.for %i = %c0 to %n step %c1 : i32 {
      %is = tile.splat %i : i32 -> tensor<128xi32, #b>
      %ip = tile.addptr %xp, %is : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
      %v = tile.load %ip : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
      %w = arith.addi %v, %first : tensor<128xi32, #b>
      %ys = tile.splat %y : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
      %yp = tile.addptr %ys, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
      tile.store %yp, %w : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    }
    return
  }
}
