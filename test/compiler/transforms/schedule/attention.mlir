// Two chained products: queries, keys and values each have their own channel. A step's scores and the previous step's
// product are started together, and softmax overlaps the latter. Steps with a mask are a separate loop.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule))' | FileCheck %s --check-prefix=CHOSEN
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s
// RUN: sed 's/kgpu.num_warps = 8 : i32}/kgpu.num_warps = 8 : i32, kgpu.consumers = 1 : i32}/' %s | kiln-opt --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s --check-prefix=SKIPPED
// RUN: sed 's/kgpu.num_warps = 8 : i32}/kgpu.num_warps = 8 : i32, kgpu.schedule = "pingpong"}/' %s | kiln-opt --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s --check-prefix=TURNS
// RUN: sed 's/kgpu.num_warps = 8 : i32}/kgpu.num_warps = 8 : i32, kgpu.schedule = "pingpong", kgpu.consumers = 1 : i32}/' %s | kiln-opt --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s --check-prefix=ALONE

// Groups issue both products of a step in turn, if asked for, but not the first step's scores and the last product. A
// single group has no turns.
// TURNS: @multiply groups 2
// TURNS: kgpu.warpgroup_mma
// TURNS: scf.for
// TURNS: kgpu.receive
// TURNS: kgpu.begin_turn
// TURNS: kgpu.warpgroup_mma
// TURNS: kgpu.warpgroup_mma
// TURNS: kgpu.end_turn
// TURNS-NEXT: kgpu.mma_wait {{.*}} pending 1
// TURNS-COUNT-1: kgpu.begin_turn
// TURNS-NOT: kgpu.begin_turn
// ALONE: @multiply warps 4
// ALONE-NOT: kgpu.begin_turn

// A single group has 64 sums in each thread: from the second step on, a warp skips rescaling them if all factors are 1.
// SKIPPED: arith.mulf %{{.*}} : tensor<128x64xf32>
// SKIPPED-COUNT-2: kgpu.rescale %{{.*}} : tensor<128x64xf32>
// SKIPPED-NOT: kgpu.rescale

// CHOSEN: kgpu.schedule = {apart, consumers = 2 : i32, held_queries, name = "attention", staged_store, stages = 4 : i32}

module attributes {kgpu.num_warps = 8 : i32} {
// CHECK-LABEL: func.func @attention
// CHECK-SAME: kgpu.persistent
// CHECK-DAG: kgpu.tensor_map %{{.*}} box [1, 1, 128, 64] swizzle 128 : <tensor<1x1x128x64xf16>>
// CHECK-DAG: %[[QUERIES:.*]] = kgpu.channel {{ *}}bytes fillers 1 readers 8 : <1 x (!kgpu.mem<128x64xf16
// CHECK-DAG: %[[KEYS:.*]] = kgpu.channel {{ *}}bytes fillers 1 readers 8 : <4 x (!kgpu.mem<64x64xf16
// CHECK-DAG: %[[VALUES:.*]] = kgpu.channel {{ *}}bytes fillers 1 readers 8 : <4 x (!kgpu.mem<64x64xf16
// CHECK: kgpu.roles @load warps 1 registers 40 {
// CHECK:   scf.for
// CHECK:     kgpu.copy_in %{{.*}} of %[[QUERIES]]
// CHECK:     scf.if
// CHECK:       kgpu.copy_in %{{.*}} of %[[KEYS]]
// CHECK:       scf.for %[[STEP:.*]] = %{{.*}} to %[[BETWEEN:[^ ]*]] {{.*}} %[[BEFORE:[^ ]*]] = %{{.*}})
// CHECK:         kgpu.copy_in %{{.*}}[%{{.*}}, %[[STEP]], %{{.*}}] to %{{.*}} of %[[KEYS]]
// CHECK:         kgpu.copy_in %{{.*}}[%{{.*}}, %[[BEFORE]], %{{.*}}] to %{{.*}} of %[[VALUES]]
// CHECK:       scf.for %{{.*}} = %[[BETWEEN]] to
// CHECK:         kgpu.copy_in %{{.*}} of %[[KEYS]]
// CHECK:         kgpu.copy_in %{{.*}} of %[[VALUES]]
// CHECK:       kgpu.copy_in %{{.*}} of %[[VALUES]]
// CHECK:   kgpu.end_role
// CHECK: } @multiply groups 2 warps 4 registers 232 {
// CHECK:   scf.for
// CHECK:     %[[SLOT:.*]] = kgpu.receive %[[QUERIES]]
// CHECK:     scf.if
// Products read the queries from registers, so that their slot is free at once.
// CHECK:       %[[Q:.*]] = kgpu.local_load %[[SLOT]]
// CHECK-NEXT:  kgpu.release %[[QUERIES]]
// The first step: only its scores are in flight.
// CHECK:       kgpu.warpgroup_mma %[[Q]]
// CHECK-NEXT:  kgpu.mma_wait %{{.*}} pending 0
// CHECK-NEXT:  kgpu.release %[[KEYS]]
// CHECK:       scf.if
// CHECK:       tile.reduce
// CHECK-NOT:   kgpu.warpgroup_mma
// Full steps have no mask.
// CHECK:       scf.for
// CHECK:         kgpu.receive %[[KEYS]]
// CHECK:         %[[S:.*]] = kgpu.warpgroup_mma %[[Q]]
// CHECK:         kgpu.receive %[[VALUES]]
// CHECK:         %[[O:.*]] = kgpu.warpgroup_mma %{{.*}} : tensor<128x64xf16>, <64x64xf16
// CHECK-NEXT:    %[[SCORES:.*]] = kgpu.mma_wait %[[S]] pending 1
// CHECK-NEXT:    kgpu.release %[[KEYS]]
// CHECK-NOT:     scf.if
// CHECK-NOT:     arith.select
// CHECK:         tile.reduce(%[[SCORES]])
// CHECK:         %[[SUM:.*]] = kgpu.mma_wait %[[O]] pending 0
// CHECK-NEXT:    kgpu.release %[[VALUES]]
// CHECK-DAG:     arith.truncf
// CHECK-DAG:     arith.mulf %[[SUM]]
// CHECK:         scf.yield
// The last ones have one.
// CHECK:       scf.for
// CHECK:         %[[S:.*]] = kgpu.warpgroup_mma %[[Q]]
// CHECK:         kgpu.mma_wait %[[S]] pending 1
// CHECK-NOT:     scf.if
// CHECK:         arith.select
// CHECK:         scf.yield
// CHECK-NOT:   kgpu.release %[[QUERIES]]
// CHECK:       kgpu.warpgroup_mma %{{.*}} : tensor<128x64xf16>, <64x64xf16
// CHECK-NEXT:  kgpu.mma_wait %{{.*}} pending 0
// CHECK-NEXT:  kgpu.release %[[VALUES]]
// CHECK:     } else {
// CHECK:       kgpu.release %[[QUERIES]]
// CHECK:     kgpu.copy_out {{.*}} by_group
// CHECK:   kgpu.end_role
  func.func @attention(%q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %v: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %tokens: i32, %heads: i32, %stride: i64 {tile.divisibility = 16 : i64}, %scale: f32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %size = arith.constant 64 : i64
    %none = arith.constant dense<0xFF800000> : tensor<128xf32>
    %masked = arith.constant dense<0xFF800000> : tensor<128x64xf32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %zeros = arith.constant dense<0.0> : tensor<128xf32>
    %rows = arith.extsi %tokens : i32 to i64
    %count = arith.extsi %heads : i32 to i64
    %head = tile.program_id x : i32
    %block = tile.program_id y : i32
    %first = arith.muli %block, %c128 : i32
    %end = arith.addi %first, %c128 : i32
    %dq = tile.make_desc %q, shape [%one, %count, %rows, %size] strides [%stride, %stride, %stride, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x1x128x64xf16>>
    %dk = tile.make_desc %k, shape [%one, %count, %rows, %size] strides [%stride, %stride, %stride, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x1x64x64xf16>>
    %dv = tile.make_desc %v, shape [%one, %count, %rows, %size] strides [%stride, %stride, %stride, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x1x64x64xf16>>
    %dy = tile.make_desc %y, shape [%one, %count, %rows, %size] strides [%stride, %stride, %stride, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x1x128x64xf16>>
    %q4 = tile.desc_load %dq[%c0, %head, %first, %c0] : !tile.desc<tensor<1x1x128x64xf16>> -> tensor<1x1x128x64xf16>
    %q2 = tile.reshape %q4 : tensor<1x1x128x64xf16> -> tensor<128x64xf16>
    %scales = tile.splat %scale : f32 -> tensor<128xf32>
    %all:3 = scf.for %at = %c0 to %end step %c64 iter_args(%total = %zeros, %sum = %zero, %top = %none) -> (tensor<128xf32>, tensor<128x64xf32>, tensor<128xf32>) : i32 {
      %k4 = tile.desc_load %dk[%c0, %head, %at, %c0] : !tile.desc<tensor<1x1x64x64xf16>> -> tensor<1x1x64x64xf16>
      %k2 = tile.reshape %k4 : tensor<1x1x64x64xf16> -> tensor<64x64xf16>
      %kt = tile.trans %k2 [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %s = tile.dot %q2, %kt, %zero : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %v4 = tile.desc_load %dv[%c0, %head, %at, %c0] : !tile.desc<tensor<1x1x64x64xf16>> -> tensor<1x1x64x64xf16>
      %v2 = tile.reshape %v4 : tensor<1x1x64x64xf16> -> tensor<64x64xf16>
      %after = arith.addi %at, %c64 : i32
      %late = arith.cmpi sgt, %after, %first : i32
      %seen = scf.if %late -> (tensor<128x64xf32>) {
        %r = tile.make_range 0 to 64 : tensor<64xi32>
        %b = tile.splat %at : i32 -> tensor<64xi32>
        %columns = arith.addi %b, %r : tensor<64xi32>
        %l = tile.splat %tokens : i32 -> tensor<64xi32>
        %inside = arith.cmpi slt, %columns, %l : tensor<64xi32>
        %i2 = tile.expand_dims %inside 0 : tensor<64xi1> -> tensor<1x64xi1>
        %i3 = tile.broadcast %i2 : tensor<1x64xi1> -> tensor<128x64xi1>
        %m = arith.select %i3, %s, %masked : tensor<128x64xi1>, tensor<128x64xf32>
        scf.yield %m : tensor<128x64xf32>
      } else {
        scf.yield %s : tensor<128x64xf32>
      }
      %most = tile.reduce(%seen) axis 1 {
      ^bb0(%a: f32, %b: f32):
        %c = arith.maxnumf %a, %b : f32
        tile.yield %c : f32
      } : (tensor<128x64xf32>) -> tensor<128xf32>
      %new = arith.maxnumf %top, %most : tensor<128xf32>
      %n2 = tile.expand_dims %new 1 : tensor<128xf32> -> tensor<128x1xf32>
      %n3 = tile.broadcast %n2 : tensor<128x1xf32> -> tensor<128x64xf32>
      %low = arith.subf %seen, %n3 : tensor<128x64xf32>
      %weight = math.exp2 %low : tensor<128x64xf32>
      %less = arith.subf %top, %new : tensor<128xf32>
      %correction = math.exp2 %less : tensor<128xf32>
      %old = arith.mulf %total, %correction : tensor<128xf32>
      %more = tile.reduce(%weight) axis 1 {
      ^bb0(%a: f32, %b: f32):
        %c = arith.addf %a, %b : f32
        tile.yield %c : f32
      } : (tensor<128x64xf32>) -> tensor<128xf32>
      %next = arith.addf %old, %more : tensor<128xf32>
      %p = arith.truncf %weight : tensor<128x64xf32> to tensor<128x64xf16>
      %c2 = tile.expand_dims %correction 1 : tensor<128xf32> -> tensor<128x1xf32>
      %c3 = tile.broadcast %c2 : tensor<128x1xf32> -> tensor<128x64xf32>
      %scaled = arith.mulf %sum, %c3 : tensor<128x64xf32>
      %o = tile.dot %p, %v2, %scaled : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %next, %o, %new : tensor<128xf32>, tensor<128x64xf32>, tensor<128xf32>
    }
    %t2 = tile.expand_dims %all#0 1 : tensor<128xf32> -> tensor<128x1xf32>
    %t3 = tile.broadcast %t2 : tensor<128x1xf32> -> tensor<128x64xf32>
    %share = arith.divf %all#1, %t3 : tensor<128x64xf32>
    %h = arith.truncf %share : tensor<128x64xf32> to tensor<128x64xf16>
    %h4 = tile.reshape %h : tensor<128x64xf16> -> tensor<1x1x128x64xf16>
    tile.desc_store %dy[%c0, %head, %first, %c0], %h4 : !tile.desc<tensor<1x1x128x64xf16>>, tensor<1x1x128x64xf16>
    return
  }
}
