// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_80 --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s --check-prefixes=CHECK,OLD
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s --check-prefixes=CHECK,NEW

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// Relaxed with an unused result: one reduction. With a used result: an atomic, whose result is zero where the mask is
// false. bf16 has an instruction from sm_90 on; before that, and for the maximum of floats on every machine, a
// compare-and-swap loop is used.
// CHECK-LABEL: llvm.func @kiln_tiles(
// CHECK: "@$2 red.relaxed.gpu.global.add.f32 [$0], $1;", "l,r,b,~{memory}"
// CHECK: "@$3 atom.relaxed.cta.global.max.s32 $0, [$1], $2;", "=r,l,r,b,0,~{memory}"
// OLD: "ld.relaxed.gpu.global.b16 $0, [$1];"
// OLD: scf.while
// OLD: "atom.relaxed.gpu.global.cas.b16 $0, [$1], $2, $3;"
// NEW: "@$2 red.relaxed.gpu.global.add.noftz.bf16 [$0], $1;"
// CHECK: scf.while
// CHECK: arith.maxnumf
// CHECK: "atom.relaxed.sys.global.cas.b32 $0, [$1], $2, $3;"
// CHECK-NOT: barrier
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @tiles(%x: !tile.ptr<f32>, %y: !tile.ptr<i32>, %h: !tile.ptr<bf16>, %n: i32) attributes {tile.kernel} {
    %r = tile.make_range 0 to 128 : tensor<128xi32, #b>
    %ns = tile.splat %n : i32 -> tensor<128xi32, #b>
    %m = arith.cmpi slt, %r, %ns : tensor<128xi32, #b>
    %xs = tile.splat %x : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #b>
    %xp = tile.addptr %xs, %r : tensor<128x!tile.ptr<f32>, #b>, tensor<128xi32, #b>
    %one = arith.constant dense<1.0> : tensor<128xf32, #b>
    %0 = tile.atomic_rmw fadd relaxed gpu %xp, %one mask %m
      : tensor<128x!tile.ptr<f32>, #b>, tensor<128xf32, #b> mask tensor<128xi1, #b>
    %ys = tile.splat %y : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %yp = tile.addptr %ys, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %1 = tile.atomic_rmw max relaxed cta %yp, %r mask %m
      : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b> mask tensor<128xi1, #b>
    %hs = tile.splat %h : !tile.ptr<bf16> -> tensor<128x!tile.ptr<bf16>, #b>
    %hp = tile.addptr %hs, %1 : tensor<128x!tile.ptr<bf16>, #b>, tensor<128xi32, #b>
    %two = arith.constant dense<2.0> : tensor<128xbf16, #b>
    %2 = tile.atomic_rmw fadd relaxed gpu %hp, %two mask %m
      : tensor<128x!tile.ptr<bf16>, #b>, tensor<128xbf16, #b> mask tensor<128xi1, #b>
    %3 = tile.atomic_rmw fmax relaxed sys %xp, %one mask %m
      : tensor<128x!tile.ptr<f32>, #b>, tensor<128xf32, #b> mask tensor<128xi1, #b>
    return
  }
}

// -----

// Memory order concerns all threads of the instance: they wait at a barrier, and the thread that does the atomic
// fences. An instruction for a single element acquires by itself.
// CHECK-LABEL: llvm.func @kiln_order(
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i32
// CHECK: "llvm.nvvm.barrier.cta.sync.aligned.all"
// CHECK-NEXT: "@$0 fence.acq_rel.gpu;", "b,~{memory}" %[[FIRST]]
// CHECK-NEXT: "@$2 red.relaxed.gpu.global.add.u32 [$0], $1;"
// CHECK-NEXT: "@$0 fence.acq_rel.gpu;", "b,~{memory}" %[[FIRST]]
// CHECK-NEXT: "llvm.nvvm.barrier.cta.sync.aligned.all"
// CHECK-NEXT: "@$4 atom.acquire.sys.global.cas.b64 $0, [$1], $2, $3;", "=l,l,l,l,b,0,~{memory}"
// CHECK-NEXT: "llvm.nvvm.barrier.cta.sync.aligned.all"
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @order(%x: !tile.ptr<i32>, %y: !tile.ptr<i64>, %n: i32, %m: i64) attributes {tile.kernel} {
    %0 = tile.atomic_rmw add acq_rel gpu %x, %n : !tile.ptr<i32>, i32
    %1 = tile.atomic_cas acquire sys %y, %m, %m : !tile.ptr<i64>, i64
    return
  }
}

// -----

#f = #layout.map<blocked [512] order [0] vector 4 warps 4>
#h = #layout.map<blocked [1024] order [0] vector 8 warps 4>

// Adjacent elements are added by one reduction if the old value is unused: pairs of f16 everywhere, vectors from sm_90
// on.
// CHECK-LABEL: llvm.func @kiln_packed(
// OLD-COUNT-4: "red.relaxed.gpu.global.add.f32 [$0], $1;"
// OLD-COUNT-4: "red.relaxed.gpu.global.add.noftz.f16x2 [$0], $1;", "l,r,~{memory}"
// NEW: "red.relaxed.gpu.global.add.v4.f32 [$0], {$1, $2, $3, $4};", "l,r,r,r,r,~{memory}"
// NEW: "red.relaxed.gpu.global.add.noftz.v4.f16x2 [$0], {$1, $2, $3, $4};", "l,r,r,r,r,~{memory}"
// CHECK-NOT: red
// CHECK: return
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @packed(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64})
      attributes {tile.kernel} {
    %r = tile.make_range 0 to 512 : tensor<512xi32, #f>
    %xs = tile.splat %x : !tile.ptr<f32> -> tensor<512x!tile.ptr<f32>, #f>
    %xp = tile.addptr %xs, %r : tensor<512x!tile.ptr<f32>, #f>, tensor<512xi32, #f>
    %one = arith.constant dense<1.0> : tensor<512xf32, #f>
    %0 = tile.atomic_rmw fadd relaxed gpu %xp, %one : tensor<512x!tile.ptr<f32>, #f>, tensor<512xf32, #f>
    %s = tile.make_range 0 to 1024 : tensor<1024xi32, #h>
    %ys = tile.splat %y : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>, #h>
    %yp = tile.addptr %ys, %s : tensor<1024x!tile.ptr<f16>, #h>, tensor<1024xi32, #h>
    %two = arith.constant dense<2.0> : tensor<1024xf16, #h>
    %1 = tile.atomic_rmw fadd relaxed gpu %yp, %two : tensor<1024x!tile.ptr<f16>, #h>, tensor<1024xf16, #h>
    return
  }
}

// -----

// What only looks, to acquire what another program has released, is a load, and needs no fence. A turn is passed on by a
// store.
// CHECK-LABEL: llvm.func @kiln_looks(
// CHECK-NOT: fence
// CHECK: "@$2 ld.acquire.gpu.global.b32 $0, [$1];", "=r,l,b,0,~{memory}"
// CHECK: "@$2 ld.acquire.sys.global.b64 $0, [$1];", "=l,l,b,0,~{memory}"
// CHECK-NOT: ld.acquire
// CHECK: "@$3 atom.acquire.gpu.global.add.u32 $0, [$1], $2;"
// CHECK-NEXT: "llvm.nvvm.barrier.cta.sync.aligned.all"
// CHECK: "@$0 fence.acq_rel.gpu;"
// CHECK: "@$2 st.relaxed.gpu.global.b32 [$0], $1;", "l,r,b,~{memory}"
// CHECK-NOT: st.relaxed
// CHECK-COUNT-2: "@$3 atom.relaxed.gpu.global.exch.b32 $0, [$1], $2;"
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @looks(%p: !tile.ptr<i32>, %q: !tile.ptr<i64>, %n: i32) attributes {tile.kernel} {
    %zero = arith.constant 0 : i32
    %wide = arith.constant 0 : i64
    %0 = tile.atomic_rmw add acquire gpu %p, %zero : !tile.ptr<i32>, i32
    %1 = tile.atomic_rmw or acquire sys %q, %wide : !tile.ptr<i64>, i64
    %2 = tile.atomic_rmw add acquire gpu %p, %0 : !tile.ptr<i32>, i32
    tile.store %q, %1 : !tile.ptr<i64>, i64
    %3 = tile.atomic_rmw xchg release gpu %p, %2 {kgpu.passes_turn} : !tile.ptr<i32>, i32
    %5 = tile.atomic_rmw xchg release gpu %p, %2 : !tile.ptr<i32>, i32
    %4 = tile.atomic_rmw xchg relaxed gpu %p, %n : !tile.ptr<i32>, i32
    tile.store %p, %4 : !tile.ptr<i32>, i32
    return
  }
}
