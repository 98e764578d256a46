// Fragments are fixed: a class of tiles with an accumulator has the accumulator's layout; its neighbours adopt it or
// are converted at the edge, and warp groups have their own rows.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-assign-layouts,kiln-verify-layouts))' | FileCheck %s

// The loop carries the fragment. 16-bit stores need rows, so the tile is converted once, after the loop, and each group
// keeps its rows.
// CHECK-DAG: #[[ACC:.*]] = #layout.map<wgmma_acc [128, 256] groups 2>
// CHECK-DAG: #[[ROWS:.*]] = #layout.map<digits [128, 256] reg (0, 1) (0, 2) (0, 4) {{.*}} group (64, 0)>
// CHECK-LABEL: @groups(
// CHECK: %[[SUM:.*]] = scf.for {{.*}} -> (tensor<128x256xf32, #[[ACC]]>)
// CHECK:   kgpu.warpgroup_mma {{.*}} -> tensor<128x256xf32, #[[ACC]]>
// CHECK-NEXT: kgpu.mma_wait
// CHECK-NEXT: scf.yield
// CHECK: %[[NARROW:.*]] = arith.truncf {{.*}} : tensor<128x256xf32, #[[ACC]]>
// CHECK: %[[OUT:.*]] = kgpu.convert %[[NARROW]] : tensor<128x256xf16, #[[ACC]]> -> tensor<128x256xf16, #[[ROWS]]>
// CHECK: tile.store %{{.*}}, %[[OUT]]
#a = #layout.map<swizzled [128, 64] element 2 bytes 128>
#b = #layout.map<swizzled [64, 256] order [0, 1] element 2 bytes 128>
module attributes {kgpu.num_warps = 4 : i32, kgpu.num_groups = 2 : i32} {
  func.func public @groups(%p: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32) attributes {tile.kernel} {
    %z = arith.constant dense<0.0> : tensor<128x256xf32>
    %a = kgpu.alloc : !kgpu.mem<128x64xf16, #a>
    %b = kgpu.alloc : !kgpu.mem<64x256xf16, #b>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %z) -> (tensor<128x256xf32>) : i32 {
      %d = kgpu.warpgroup_mma %a, %b, %s : !kgpu.mem<128x64xf16, #a>, !kgpu.mem<64x256xf16, #b> -> tensor<128x256xf32>
      %e = kgpu.mma_wait %d pending 1 : tensor<128x256xf32>
      scf.yield %e : tensor<128x256xf32>
    }
    %w = kgpu.mma_wait %r pending 0 : tensor<128x256xf32>
    %o = arith.truncf %w : tensor<128x256xf32> to tensor<128x256xf16>
    %rows = tile.make_range 0 to 128 : tensor<128xi32>
    %cols = tile.make_range 0 to 256 : tensor<256xi32>
    %rows2 = tile.expand_dims %rows 1 : tensor<128xi32> -> tensor<128x1xi32>
    %cols2 = tile.expand_dims %cols 0 : tensor<256xi32> -> tensor<1x256xi32>
    %stride = arith.constant dense<256> : tensor<128x1xi32>
    %ro = arith.muli %rows2, %stride : tensor<128x1xi32>
    %rb = tile.broadcast %ro : tensor<128x1xi32> -> tensor<128x256xi32>
    %cb = tile.broadcast %cols2 : tensor<1x256xi32> -> tensor<128x256xi32>
    %off = arith.addi %rb, %cb : tensor<128x256xi32>
    %q0 = tile.splat %p : !tile.ptr<f16> -> tensor<128x256x!tile.ptr<f16>>
    %q = tile.addptr %q0, %off : tensor<128x256x!tile.ptr<f16>>, tensor<128x256xi32>
    tile.store %q, %o : tensor<128x256x!tile.ptr<f16>>, tensor<128x256xf16>
    return
  }
}

// -----

// One product's result is the left operand of another: for bytes it is converted where it is used; for 16 bits both
// fragments are the same. In a cluster each CTA has the rows of its own memory.
// CHECK-DAG: #[[S:.*]] = #layout.map<{{(wgmma|mma)_acc}} [128, 64] {{.*}}ctas 2 split 0>
// CHECK-DAG: #[[O:.*]] = #layout.map<{{(wgmma|mma)_acc}} [128, 128] {{.*}}ctas 2 split 0>
// CHECK-DAG: #[[P8:.*]] = #layout.map<{{(wgmma|mma)_a}} [128, 64] bits 8 {{.*}}ctas 2 split 0>
// CHECK-LABEL: @chained(
// CHECK: kgpu.warpgroup_mma {{.*}} -> tensor<128x64xf32, #[[S]]>
// CHECK: %[[P:.*]] = arith.truncf %{{.*}} : tensor<128x64xf32, #[[S]]> to tensor<128x64xf16, #[[S]]>
// CHECK-NOT: kgpu.convert
// CHECK: kgpu.warpgroup_mma %[[P]], %{{.*}} : tensor<128x64xf16, #[[S]]>, {{.*}} -> tensor<128x128xf32, #[[O]]>
// CHECK: %[[NARROW:.*]] = arith.truncf %{{.*}} : tensor<128x64xf32, #[[S]]> to tensor<128x64xf8E4M3FN, #[[S]]>
// CHECK: %[[Q:.*]] = kgpu.convert %[[NARROW]] : {{.*}} -> tensor<128x64xf8E4M3FN, #[[P8]]>
// CHECK: kgpu.warpgroup_mma %[[Q]],
#q = #layout.map<swizzled [128, 64] element 2 bytes 128 ctas 2 split 0>
#k = #layout.map<swizzled [64, 64] order [0, 1] element 2 bytes 128 ctas 2>
#v = #layout.map<swizzled [64, 128] element 2 bytes 128 ctas 2>
#v8 = #layout.map<swizzled [64, 128] order [0, 1] element 1 bytes 64 ctas 2>
module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 2 : i32} {
  func.func @chained() -> (tensor<128x128xf32>, tensor<128x128xf32>) {
    %z = arith.constant dense<0.0> : tensor<128x64xf32>
    %y = arith.constant dense<0.0> : tensor<128x128xf32>
    %q = kgpu.alloc : !kgpu.mem<128x64xf16, #q>
    %k = kgpu.alloc : !kgpu.mem<64x64xf16, #k>
    %v = kgpu.alloc : !kgpu.mem<64x128xf16, #v>
    %v8 = kgpu.alloc : !kgpu.mem<64x128xf8E4M3FN, #v8>
    %s = kgpu.warpgroup_mma %q, %k, %z : !kgpu.mem<128x64xf16, #q>, !kgpu.mem<64x64xf16, #k> -> tensor<128x64xf32>
    %t = kgpu.mma_wait %s pending 0 : tensor<128x64xf32>
    %p = arith.truncf %t : tensor<128x64xf32> to tensor<128x64xf16>
    %o = kgpu.warpgroup_mma %p, %v, %y : tensor<128x64xf16>, !kgpu.mem<64x128xf16, #v> -> tensor<128x128xf32>
    %r = kgpu.mma_wait %o pending 0 : tensor<128x128xf32>
    %p8 = arith.truncf %t : tensor<128x64xf32> to tensor<128x64xf8E4M3FN>
    %o8 = kgpu.warpgroup_mma %p8, %v8, %y : tensor<128x64xf8E4M3FN>, !kgpu.mem<64x128xf8E4M3FN, #v8> -> tensor<128x128xf32>
    %r8 = kgpu.mma_wait %o8 pending 0 : tensor<128x128xf32>
    return %r, %r8 : tensor<128x128xf32>, tensor<128x128xf32>
  }
}

// -----

// Fragments of a warp: warps are arranged so that each reads as little as possible. An operand is loaded in memory
// order and converted; other work on it is done in its fragment.
// CHECK-DAG: #[[ACC:.*]] = #layout.map<mma_acc [64, 64] warps 2x2>
// CHECK-DAG: #[[A:.*]] = #layout.map<mma_a [64, 32] bits 16 warps 2x2>
// CHECK-DAG: #[[B:.*]] = #layout.map<mma_b [32, 64] bits 16 warps 2x2>
// CHECK-LABEL: @fragments(
// CHECK: %[[LHS:.*]] = arith.mulf %{{.*}} : tensor<64x32xf16, #[[A]]>
// CHECK: kgpu.warp_mma %[[LHS]], %{{.*}}, %{{.*}} : tensor<64x32xf16, #[[A]]>, tensor<32x64xf16, #[[B]]> -> tensor<64x64xf32, #[[ACC]]>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @fragments(%x: tensor<64x32xf16>, %y: tensor<32x64xf16>, %c: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %two = arith.constant dense<2.0> : tensor<64x32xf16>
    %z = arith.mulf %x, %two : tensor<64x32xf16>
    %d = kgpu.warp_mma %z, %y, %c : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    return %d : tensor<64x64xf32>
  }
}

// -----

// The left operand of another product stays in its threads: all warps are along M.
// CHECK-DAG: #[[S:.*]] = #layout.map<mma_acc [64, 64] warps 4x1>
// CHECK-DAG: #[[O:.*]] = #layout.map<mma_acc [64, 128] warps 4x1>
// CHECK-LABEL: @chained_warps(
// CHECK: kgpu.warp_mma {{.*}} -> tensor<64x64xf32, #[[S]]>
// CHECK-NEXT: %[[P:.*]] = arith.truncf %{{.*}} : tensor<64x64xf32, #[[S]]>
// CHECK: kgpu.warp_mma %[[P]], %{{.*}} -> tensor<64x128xf32, #[[O]]>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @chained_warps(%q: tensor<64x32xf16>, %k: tensor<32x64xf16>, %v: tensor<64x128xf16>) -> tensor<64x128xf32> {
    %z = arith.constant dense<0.0> : tensor<64x64xf32>
    %y = arith.constant dense<0.0> : tensor<64x128xf32>
    %s = kgpu.warp_mma %q, %k, %z : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    %p = arith.truncf %s : tensor<64x64xf32> to tensor<64x64xf16>
    %o = kgpu.warp_mma %p, %v, %y : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
    return %o : tensor<64x128xf32>
  }
}

// -----

// A tile too small for all warps: the remaining warps repeat it.
// CHECK-DAG: #[[ACC:.*]] = #layout.map<digits [16, 16] reg (0, 1) (8, 0) lane {{.*}} warp (0, 8) (0, 0)>
// CHECK-LABEL: @small(
// CHECK: kgpu.warp_mma {{.*}} -> tensor<16x16xf32, #[[ACC]]>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @small(%a: tensor<16x16xf16>, %b: tensor<16x16xf16>, %c: tensor<16x16xf32>) -> tensor<16x16xf32> {
    %d = kgpu.warp_mma %a, %b, %c : tensor<16x16xf16>, tensor<16x16xf16> -> tensor<16x16xf32>
    return %d : tensor<16x16xf32>
  }
}

// -----

// A loop carries pointers to an operand: they and the load keep the memory order; only the loaded tile is converted.
// CHECK-DAG: #[[ROWS:.*]] = #layout.map<blocked [64, 32] vector 8 warps 4>
// CHECK-DAG: #[[A:.*]] = #layout.map<mma_a [64, 32] bits 16 warps 2x2>
// CHECK-LABEL: @carried_pointers(
// CHECK: scf.for {{.*}} -> (tensor<64x32x!tile.ptr<f16>, #[[ROWS]]>, tensor<64x64xf32
// CHECK:   %[[X:.*]] = tile.load %{{.*}} -> tensor<64x32xf16, #[[ROWS]]>
// CHECK-NEXT: %[[F:.*]] = kgpu.convert %[[X]] : {{.*}} -> tensor<64x32xf16, #[[A]]>
// CHECK:   kgpu.warp_mma %[[F]],
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @carried_pointers(%p: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %b: tensor<32x64xf16>, %z: tensor<64x64xf32>, %n: i32) -> tensor<64x64xf32> {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %rows = tile.make_range 0 to 64 : tensor<64xi32>
    %cols = tile.make_range 0 to 32 : tensor<32xi32>
    %rows2 = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
    %cols2 = tile.expand_dims %cols 0 : tensor<32xi32> -> tensor<1x32xi32>
    %stride = arith.constant dense<32> : tensor<64x1xi32>
    %ro = arith.muli %rows2, %stride : tensor<64x1xi32>
    %rb = tile.broadcast %ro : tensor<64x1xi32> -> tensor<64x32xi32>
    %cb = tile.broadcast %cols2 : tensor<1x32xi32> -> tensor<64x32xi32>
    %off = arith.addi %rb, %cb : tensor<64x32xi32>
    %q0 = tile.splat %p : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
    %q = tile.addptr %q0, %off : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %step = arith.constant dense<2048> : tensor<64x32xi32>
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%at = %q, %s = %z) -> (tensor<64x32x!tile.ptr<f16>>, tensor<64x64xf32>) : i32 {
      %x = tile.load %at : tensor<64x32x!tile.ptr<f16>> -> tensor<64x32xf16>
      %d = kgpu.warp_mma %x, %b, %s : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      %next = tile.addptr %at, %step : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
      scf.yield %next, %d : tensor<64x32x!tile.ptr<f16>>, tensor<64x64xf32>
    }
    return %r#1 : tensor<64x64xf32>
  }
}

// -----

// A batched product distributes the batch over warps: four products, one on each of four warps; two, on two warps each.
// CHECK-DAG: #[[FOUR:.*]] = #layout.map<digits [4, 16, 16] reg (0, 0, 1) (0, 8, 0) (0, 0, 8) lane (0, 0, 2) (0, 0, 4) (0, 1, 0) (0, 2, 0) (0, 4, 0) warp (1, 0, 0) (2, 0, 0)>
// CHECK-DAG: #[[TWO:.*]] = #layout.map<digits [2, 16, 16] reg (0, 0, 1) (0, 8, 0) lane (0, 0, 2) (0, 0, 4) (0, 1, 0) (0, 2, 0) (0, 4, 0) warp (0, 0, 8) (1, 0, 0)>
// CHECK-LABEL: @batches(
// CHECK: kgpu.warp_mma {{.*}} -> tensor<4x16x16xf32, #[[FOUR]]>
// CHECK: kgpu.warp_mma {{.*}} -> tensor<2x16x16xf32, #[[TWO]]>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @batches(%p: !tile.ptr<f32>, %x: f16) attributes {tile.kernel} {
    %a = tile.splat %x : f16 -> tensor<4x16x16xf16>
    %z = arith.constant dense<0.0> : tensor<4x16x16xf32>
    %d = kgpu.warp_mma %a, %a, %z : tensor<4x16x16xf16>, tensor<4x16x16xf16> -> tensor<4x16x16xf32>
    %q = tile.splat %p : !tile.ptr<f32> -> tensor<4x16x16x!tile.ptr<f32>>
    tile.store %q, %d : tensor<4x16x16x!tile.ptr<f32>>, tensor<4x16x16xf32>
    %a2 = tile.splat %x : f16 -> tensor<2x16x16xf16>
    %z2 = arith.constant dense<0.0> : tensor<2x16x16xf32>
    %d2 = kgpu.warp_mma %a2, %a2, %z2 : tensor<2x16x16xf16>, tensor<2x16x16xf16> -> tensor<2x16x16xf32>
    %q2 = tile.splat %p : !tile.ptr<f32> -> tensor<2x16x16x!tile.ptr<f32>>
    tile.store %q2, %d2 : tensor<2x16x16x!tile.ptr<f32>>, tensor<2x16x16xf32>
    return
  }
}

// -----

// What is loaded for a product in registers has its fragment's layout from the start, if that moves 16 bytes per thread
// too: four lanes share a row, so that shapes in another order of K are no exchanges between threads.
// CHECK-DAG: #[[X:.*]] = #layout.map<digits [16, 128] reg (0, 1) (0, 2) (0, 4) {{.*}} lane (0, 8) (0, 16) (1, 0) (2, 0) (4, 0)>
// CHECK-DAG: #[[W:.*]] = #layout.map<digits [8, 128] reg (0, 1) (0, 2) (0, 4) {{.*}} lane (0, 8) (0, 16) (1, 0) (2, 0) (4, 0)>
// CHECK-LABEL: @direct(
// CHECK: tile.load {{.*}} -> tensor<16x128xf16, #[[X]]>
// CHECK: tile.load {{.*}} -> tensor<8x128xf16, #[[W]]>
// CHECK: kgpu.warp_mma
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @direct(%p: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %q: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
    %z = arith.constant dense<0.0> : tensor<16x8xf32>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %k = tile.make_range 0 to 128 : tensor<128xi32>
    %k2 = tile.expand_dims %k 0 : tensor<128xi32> -> tensor<1x128xi32>
    %r = tile.make_range 0 to 16 : tensor<16xi32>
    %r2 = tile.expand_dims %r 1 : tensor<16xi32> -> tensor<16x1xi32>
    %s = arith.constant dense<1024> : tensor<16x1xi32>
    %ro = arith.muli %r2, %s : tensor<16x1xi32>
    %rb = tile.broadcast %ro : tensor<16x1xi32> -> tensor<16x128xi32>
    %kb = tile.broadcast %k2 : tensor<1x128xi32> -> tensor<16x128xi32>
    %o = arith.addi %rb, %kb : tensor<16x128xi32>
    %b = tile.splat %p : !tile.ptr<f16> -> tensor<16x128x!tile.ptr<f16>>
    %at = tile.addptr %b, %o : tensor<16x128x!tile.ptr<f16>>, tensor<16x128xi32>
    %vr = tile.make_range 0 to 8 : tensor<8xi32>
    %vr2 = tile.expand_dims %vr 1 : tensor<8xi32> -> tensor<8x1xi32>
    %vs = arith.constant dense<1024> : tensor<8x1xi32>
    %vo = arith.muli %vr2, %vs : tensor<8x1xi32>
    %vrb = tile.broadcast %vo : tensor<8x1xi32> -> tensor<8x128xi32>
    %vkb = tile.broadcast %k2 : tensor<1x128xi32> -> tensor<8x128xi32>
    %vof = arith.addi %vrb, %vkb : tensor<8x128xi32>
    %vb = tile.splat %p : !tile.ptr<f16> -> tensor<8x128x!tile.ptr<f16>>
    %vat = tile.addptr %vb, %vof : tensor<8x128x!tile.ptr<f16>>, tensor<8x128xi32>
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<16x8xf32>) : i32 {
      %x = tile.load %at : tensor<16x128x!tile.ptr<f16>> -> tensor<16x128xf16>
      %w = tile.load %vat : tensor<8x128x!tile.ptr<f16>> -> tensor<8x128xf16>
      %x4 = tile.reshape %x : tensor<16x128xf16> -> tensor<16x4x4x4x2xf16>
      %xt = tile.trans %x4 [0, 1, 3, 2, 4] : tensor<16x4x4x4x2xf16> -> tensor<16x4x4x4x2xf16>
      %xs = tile.reshape %xt : tensor<16x4x4x4x2xf16> -> tensor<16x128xf16>
      %w4 = tile.reshape %w : tensor<8x128xf16> -> tensor<8x4x4x4x2xf16>
      %wt = tile.trans %w4 [0, 1, 3, 2, 4] : tensor<8x4x4x4x2xf16> -> tensor<8x4x4x4x2xf16>
      %ws = tile.reshape %wt : tensor<8x4x4x4x2xf16> -> tensor<8x128xf16>
      %wk = tile.trans %ws [1, 0] : tensor<8x128xf16> -> tensor<128x8xf16>
      %d = kgpu.warp_mma %xs, %wk, %acc : tensor<16x128xf16>, tensor<128x8xf16> -> tensor<16x8xf32>
      scf.yield %d : tensor<16x8xf32>
    }
    %out = tile.splat %q : !tile.ptr<f32> -> tensor<16x8x!tile.ptr<f32>>
    tile.store %out, %sum : tensor<16x8x!tile.ptr<f32>>, tensor<16x8xf32>
    return
  }
}

// -----

// In a role of several groups, warps multiply what the groups otherwise multiply together: results lie alike, and every
// warp holds the right operand whole.
// CHECK-DAG: #[[ACC:.*]] = #layout.map<wgmma_acc [192, 64] groups 3>
// CHECK-DAG: #[[A:.*]] = #layout.map<wgmma_{{acc|a}} [192, 32] {{.*}}groups 3>
// CHECK-DAG: #[[B:.*]] = #layout.map<digits [32, 64] {{.*}} warp (0, 0) (0, 0) group 3*(0, 0)>
// CHECK-LABEL: @groups_of_a_role(
// CHECK: %[[TOGETHER:.*]] = kgpu.mma_wait %{{.*}} pending 0 : tensor<192x64xf32, #[[ACC]]>
// CHECK: %[[LHS:.*]] = kgpu.local_load %{{.*}} -> tensor<192x32xf16, #[[A]]>
// CHECK: %[[RHS:.*]] = kgpu.local_load %{{.*}} -> tensor<32x64xf16, #[[B]]>
// CHECK-NOT: kgpu.convert
// CHECK: %[[ALONE:.*]] = kgpu.warp_mma %[[LHS]], %[[RHS]], %{{.*}} : tensor<192x32xf16, #[[A]]>, tensor<32x64xf16, #[[B]]> -> tensor<192x64xf32, #[[ACC]]>
// CHECK-NEXT: arith.addf %[[TOGETHER]], %[[ALONE]] : tensor<192x64xf32, #[[ACC]]>
#q = #layout.map<swizzled [192, 32] element 2 bytes 64>
#k = #layout.map<swizzled [32, 64] element 2 bytes 128>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @groups_of_a_role() {
    %q = kgpu.alloc : !kgpu.mem<192x32xf16, #q>
    %k = kgpu.alloc : !kgpu.mem<32x64xf16, #k>
    kgpu.roles @multiply groups 3 warps 4 {
      %z = arith.constant dense<0.0> : tensor<192x64xf32>
      %c = kgpu.warpgroup_mma %q, %k, %z : !kgpu.mem<192x32xf16, #q>, !kgpu.mem<32x64xf16, #k> -> tensor<192x64xf32>
      %d = kgpu.mma_wait %c pending 0 : tensor<192x64xf32>
      %a = kgpu.local_load %q : !kgpu.mem<192x32xf16, #q> -> tensor<192x32xf16>
      %b = kgpu.local_load %k : !kgpu.mem<32x64xf16, #k> -> tensor<32x64xf16>
      %e = kgpu.warp_mma %a, %b, %z : tensor<192x32xf16>, tensor<32x64xf16> -> tensor<192x64xf32>
      %f = arith.addf %d, %e : tensor<192x64xf32>
      %out = kgpu.alloc : !kgpu.mem<192x64xf32, #layout.map<row_major [192, 64]>>
      kgpu.local_store %f, %out : tensor<192x64xf32>, !kgpu.mem<192x64xf32, #layout.map<row_major [192, 64]>>
      kgpu.end_role
    }
    return
  }
}

// -----

// The same with a single group of 64 rows.
// CHECK-DAG: #[[ACC:.*]] = #layout.map<mma_acc [64, 64] warps 4x1>
// CHECK-LABEL: @group_of_a_role(
// CHECK: kgpu.mma_wait %{{.*}} pending 0 : tensor<64x64xf32, #[[ACC]]>
// CHECK-NOT: kgpu.convert
// CHECK: kgpu.warp_mma {{.*}} -> tensor<64x64xf32, #[[ACC]]>
// CHECK-NOT: kgpu.convert
// CHECK: arith.addf
#q = #layout.map<swizzled [64, 32] element 2 bytes 64>
#k = #layout.map<swizzled [32, 64] element 2 bytes 128>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @group_of_a_role() {
    %q = kgpu.alloc : !kgpu.mem<64x32xf16, #q>
    %k = kgpu.alloc : !kgpu.mem<32x64xf16, #k>
    kgpu.roles @multiply warps 4 {
      %z = arith.constant dense<0.0> : tensor<64x64xf32>
      %c = kgpu.warpgroup_mma %q, %k, %z : !kgpu.mem<64x32xf16, #q>, !kgpu.mem<32x64xf16, #k> -> tensor<64x64xf32>
      %d = kgpu.mma_wait %c pending 0 : tensor<64x64xf32>
      %a = kgpu.local_load %q : !kgpu.mem<64x32xf16, #q> -> tensor<64x32xf16>
      %b = kgpu.local_load %k : !kgpu.mem<32x64xf16, #k> -> tensor<32x64xf16>
      %e = kgpu.warp_mma %a, %b, %z : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      %f = arith.addf %d, %e : tensor<64x64xf32>
      %out = kgpu.alloc : !kgpu.mem<64x64xf32, #layout.map<row_major [64, 64]>>
      kgpu.local_store %f, %out : tensor<64x64xf32>, !kgpu.mem<64x64xf32, #layout.map<row_major [64, 64]>>
      kgpu.end_role
    }
    return
  }
}
