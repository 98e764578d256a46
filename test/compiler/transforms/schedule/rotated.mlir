// A rotated loop begins the first product of the next step under the last ones of this step: a prologue, then a loop of
// the rest of a step and the first product of the next. Two slots suffice. The load role stays as it is.
//
// Groups share dS through two slots, and make dq's part of a step in the next one: nobody waits for what others store in
// the same step. The first step makes that of zeros, which the add role passes over.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule))' | FileCheck %s --check-prefix=CHOSEN
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s

// CHOSEN: func.func @gradients({{.*}}kgpu.schedule = {consumers = 2 : i32, name = "streams", reused, rotated, staged_store, stages = 2 : i32}
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "rotated", kgpu.stages = 2 : i32} {
// CHECK-LABEL: func.func @gradients
// CHECK: %[[KEYS:.*]] = kgpu.channel {{ *}}bytes fillers 1 readers 8 : <1 x
// CHECK: %[[WALKED:.*]] = kgpu.channel {{ *}}bytes fillers 1 readers 8 : <2 x
// CHECK: %[[SHARED:.*]] = kgpu.channel {{ *}}threads fillers 8 readers 8 : <2 x (!kgpu.mem<128x64xf16
// CHECK: %[[PARTS:.*]] = kgpu.channel {{ *}}threads fillers 8 readers 1 : <1 x
// CHECK: kgpu.roles @load
// CHECK:     scf.for
// CHECK:       kgpu.acquire %[[WALKED]]
// CHECK-COUNT-4: kgpu.copy_in %{{.*}} of %[[WALKED]]
// CHECK:       kgpu.commit %[[WALKED]]
// CHECK:   kgpu.end_role
// CHECK: } @add
// The first part.
// CHECK:     %[[SECOND:.*]] = scf.if
// CHECK-NEXT:  kgpu.receive %[[PARTS]]
// CHECK-NEXT:  kgpu.release %[[PARTS]]
// CHECK:     scf.for {{.*}} iter_args(%{{.*}} = %[[SECOND]])
// CHECK:       kgpu.receive %[[PARTS]]
// CHECK-NEXT:  kgpu.copy_out %{{.*}} by "fadd"
// CHECK-NOT:   kgpu.receive
// CHECK: } @multiply
// CHECK-NOT: kgpu.alloc
// CHECK:     %[[HELD:.*]]:2 = kgpu.receive %[[KEYS]]
// CHECK:     scf.if
// CHECK:       %[[FIRST:.*]] = kgpu.acquire %[[SHARED]][%[[Z0:.*]]] : <2 x
// CHECK-NEXT:  kgpu.local_store %cst{{.*}}, %[[FIRST]]
// CHECK-NEXT:  kgpu.fence_async
// CHECK-NEXT:  kgpu.commit %[[SHARED]][%[[Z0]]]
// The first step's slot and scores.
// CHECK:       %[[S0:.*]]:4 = kgpu.receive %[[WALKED]][%[[C0:.*]]] : <2 x
// CHECK:       %[[A0:.*]] = kgpu.warpgroup_mma %[[HELD]]#0
// CHECK:       %[[SCORE0:.*]] = kgpu.mma_wait %[[A0]] pending 0
// CHECK-NOT:   kgpu.release
// CHECK:       %[[SUMS:.*]]:6 = scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %[[WIDTH:[^ ]*]] iter_args(%[[K:[^ ]*]] = %{{[^,]*}}, %[[V:[^ ]*]] = %{{[^,]*}}, %[[AT:[^ ]*]] = %[[C0]], %[[BEFORE:[^ ]*]] = %[[Z0]], %[[OUT:[^ ]*]] = %{{[^,]*}}, %[[SCORE:[^ ]*]] = %[[SCORE0]])
// CHECK:         %[[LEFT:.*]] = arith.subi %[[END:.*]], %[[I]]
// CHECK-NEXT:    %[[COMES:.*]] = arith.cmpi ugt, %[[LEFT]], %[[WIDTH]]
// CHECK:         %[[S:.*]]:4 = kgpu.receive %[[WALKED]][%[[AT]]] again
// CHECK:         %[[B:.*]] = kgpu.warpgroup_mma %[[HELD]]#1
// CHECK:         kgpu.local_load %[[S]]#1
// CHECK:         %[[WEIGHT:.*]] = arith.subf %[[SCORE]]
// CHECK:         %[[ROUNDED:.*]] = arith.truncf %[[WEIGHT]]
// CHECK:         %[[DV:.*]] = kgpu.warpgroup_mma %[[ROUNDED]], %[[S]]#2, %[[V]]
// CHECK:         kgpu.local_load %[[S]]#3
// CHECK:         kgpu.mma_wait %[[B]] pending 1
// CHECK:         %[[OWN:.*]] = kgpu.advance %[[BEFORE]]
// CHECK:         %[[PLACE:.*]] = kgpu.acquire %[[SHARED]][%[[OWN]]]
// CHECK-NEXT:    kgpu.local_store %[[DS:.*]], %[[PLACE]]
// CHECK-NEXT:    kgpu.fence_async
// CHECK-NEXT:    kgpu.commit %[[SHARED]][%[[OWN]]]
// CHECK-NEXT:    %[[DSCORE:.*]] = kgpu.receive %[[SHARED]][%[[BEFORE]]]
// CHECK:         %[[DQ:.*]] = kgpu.warpgroup_mma %{{.*}}, %[[DSCORE]]
// CHECK:         %[[DK:.*]] = kgpu.warpgroup_mma %[[DS]], %[[S]]#0, %[[K]]
// CHECK:         kgpu.mma_wait %[[DV]] pending 1
// CHECK:         %[[PART:.*]] = kgpu.mma_wait %[[DQ]] pending 1
// CHECK-NEXT:    kgpu.release %[[SHARED]][%[[BEFORE]]]
// CHECK:         %[[FREE:.*]] = kgpu.acquire %[[PARTS]][%[[OUT]]]
// CHECK-NEXT:    kgpu.local_store %[[PART]], %[[FREE]]
// The next step's scores begin once the part has left its registers. Behind the last step they are its own again, and
// its slot is held already.
// CHECK:         %[[NEXT:.*]] = scf.if %[[COMES]]
// CHECK-NEXT:      %[[MOVED:.*]] = kgpu.advance %[[AT]]
// CHECK-NEXT:      scf.yield %[[MOVED]]
// CHECK-NEXT:    } else {
// CHECK-NEXT:      scf.yield %[[AT]]
// CHECK:         %[[S1:.*]]:4 = kgpu.receive %[[WALKED]][%[[NEXT]]] again unless %[[COMES]]
// CHECK:         %[[A1:.*]] = kgpu.warpgroup_mma %[[HELD]]#0
// CHECK-NEXT:    kgpu.fence_async
// CHECK-NEXT:    kgpu.commit %[[PARTS]][%[[OUT]]]
// CHECK-NEXT:    %[[LATER:.*]] = kgpu.advance %[[OUT]]
// CHECK:         kgpu.mma_wait %[[DK]] pending 0
// CHECK-NEXT:    %[[SCORE1:.*]] = kgpu.mma_wait %[[A1]] pending 0
// CHECK-NEXT:    kgpu.release %[[WALKED]][%[[AT]]]
// CHECK-NEXT:    scf.yield %{{[^,]*}}, %{{[^,]*}}, %[[NEXT]], %[[OWN]], %[[LATER]], %[[SCORE1]]
// The last step's own part; its scores are not used again.
// CHECK:       kgpu.receive %[[SHARED]][%[[SUMS]]#3]
// CHECK-COUNT-1: kgpu.warpgroup_mma
// CHECK-NOT:   kgpu.warpgroup_mma
// CHECK:       kgpu.acquire %[[PARTS]][%[[SUMS]]#4]
// CHECK:       kgpu.commit %[[PARTS]]
// CHECK:       scf.yield %[[SUMS]]#0, %[[SUMS]]#1 :
// CHECK:     } else {
// CHECK-NEXT:  scf.yield
// The result leaves through the memory of the keys.
// CHECK:     kgpu.local_store %{{.*}}, %[[HELD]]#0
// CHECK-NEXT: kgpu.copy_out %[[HELD]]#0
// CHECK-NEXT: kgpu.copy_out_wait read 0
// CHECK-NEXT: kgpu.release %[[KEYS]]
// CHECK:   kgpu.end_role
  func.func @gradients(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %g: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %rows: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %side = arith.constant 64 : i64
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %none = arith.constant dense<0.0> : tensor<64x64xf32>
    %block = tile.program_id x : i32
    %first = arith.muli %block, %c128 : i32
    %desc_k = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %desc_q = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %desc_g = tile.make_desc %g, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %desc_r = tile.make_desc %rows, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<1x64xf32>>
    %desc_y = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %desc_z = tile.make_desc %z, shape [%s, %side] strides [%side, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %key = tile.desc_load %desc_k[%first, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %value = tile.desc_load %desc_k[%first, %c64] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %turned_key = tile.trans %key [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
    %sums:2 = scf.for %at = %c0 to %tokens step %c64 iter_args(%dk = %zero, %dv = %zero) -> (tensor<128x64xf32>, tensor<128x64xf32>) : i32 {
      %query = tile.desc_load %desc_q[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %r0 = tile.desc_load %desc_r[%c0, %at] : !tile.desc<tensor<1x64xf32>> -> tensor<1x64xf32>
      %row = tile.reshape %r0 : tensor<1x64xf32> -> tensor<64xf32>
      %turned = tile.trans %query [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %score = tile.dot %key, %turned, %zero : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %gradient = tile.desc_load %desc_g[%at, %c0] : !tile.desc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %d0 = tile.desc_load %desc_r[%c1, %at] : !tile.desc<tensor<1x64xf32>> -> tensor<1x64xf32>
      %delta = tile.reshape %d0 : tensor<1x64xf32> -> tensor<64xf32>
      %turned_gradient = tile.trans %gradient [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
      %dweight = tile.dot %value, %turned_gradient, %zero : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %r1 = tile.expand_dims %row 0 : tensor<64xf32> -> tensor<1x64xf32>
      %r2 = tile.broadcast %r1 : tensor<1x64xf32> -> tensor<128x64xf32>
      %weight = arith.subf %score, %r2 : tensor<128x64xf32>
      %rounded = arith.truncf %weight : tensor<128x64xf32> to tensor<128x64xf16>
      %next_dv = tile.dot %rounded, %gradient, %dv : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %d1 = tile.expand_dims %delta 0 : tensor<64xf32> -> tensor<1x64xf32>
      %d2 = tile.broadcast %d1 : tensor<1x64xf32> -> tensor<128x64xf32>
      %difference = arith.subf %dweight, %d2 : tensor<128x64xf32>
      %product = arith.mulf %weight, %difference : tensor<128x64xf32>
      %dscore = arith.truncf %product : tensor<128x64xf32> to tensor<128x64xf16>
      %part = tile.dot %turned_key, %dscore, %none : tensor<64x128xf16>, tensor<128x64xf16> -> tensor<64x64xf32>
      %next_dk = tile.dot %dscore, %query, %dk : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      tile.desc_reduce fadd %desc_z[%at, %c0], %part : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
      scf.yield %next_dk, %next_dv : tensor<128x64xf32>, tensor<128x64xf32>
    }
    %sum = arith.addf %sums#0, %sums#1 : tensor<128x64xf32>
    %narrow = arith.truncf %sum : tensor<128x64xf32> to tensor<128x64xf16>
    tile.desc_store %desc_y[%first, %c0], %narrow : !tile.desc<tensor<128x64xf16>>, tensor<128x64xf16>
    return
  }
}

// -----

// The program keeps the loads of an iteration in the iteration.
// CHOSEN: func.func @hinted({{.*}}kgpu.schedule = {consumers = 2 : i32, name = "streams", staged_store, stages = 2 : i32}
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "rotated", kgpu.stages = 2 : i32} {
  func.func @hinted(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %p: !tile.ptr<f32> {tile.disjoint}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c128 = arith.constant 128 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %f1 = arith.constant 1.0 : f32
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %block = tile.program_id x : i32
    %first = arith.muli %block, %c128 : i32
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %dq = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %key = tile.desc_load %dk[%first, %c0] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %sums:2 = scf.for %at = %c0 to %tokens step %step iter_args(%sum = %zero, %scale = %f1) -> (tensor<128x128xf32>, f32) : i32 {
      %query = tile.desc_load %dq[%at, %c0] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %turned = tile.trans %query [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
      %score = tile.dot %key, %turned, %none : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      %weight = arith.addf %score, %score : tensor<128x64xf32>
      %factor = arith.truncf %weight : tensor<128x64xf32> to tensor<128x64xf16>
      %next = tile.dot %factor, %query, %sum : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %half = arith.mulf %scale, %f1 : f32
      scf.yield %next, %half : tensor<128x128xf32>, f32
    } {tile.num_stages = 1 : i32}
    %wide = arith.truncf %sums#0 : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}

// -----

// The next step's first product needs what this step leaves for it.
// CHOSEN: func.func @carried({{.*}}kgpu.schedule = {consumers = 2 : i32, name = "streams", staged_store, stages = 2 : i32}
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "rotated", kgpu.stages = 2 : i32} {
  func.func @carried(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %p: !tile.ptr<f32> {tile.disjoint}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c128 = arith.constant 128 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %block = tile.program_id x : i32
    %first = arith.muli %block, %c128 : i32
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %dq = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %key = tile.desc_load %dk[%first, %c0] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %sums:2 = scf.for %at = %c0 to %tokens step %step iter_args(%sum = %zero, %total = %none) -> (tensor<128x128xf32>, tensor<128x64xf32>) : i32 {
      %query = tile.desc_load %dq[%at, %c0] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %turned = tile.trans %query [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
      %all = tile.dot %key, %turned, %total : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      %score = tile.dot %key, %turned, %none : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      %weight = arith.addf %score, %score : tensor<128x64xf32>
      %factor = arith.truncf %weight : tensor<128x64xf32> to tensor<128x64xf16>
      %next = tile.dot %factor, %query, %sum : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      scf.yield %next, %all : tensor<128x128xf32>, tensor<128x64xf32>
    }
    %wide = arith.truncf %sums#0 : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}

// -----

// Scores that overtake a write read only slots, which the load role has filled before.
// CHOSEN: func.func @written({{.*}}kgpu.schedule = {consumers = 2 : i32, name = "streams", rotated, staged_store, stages = 2 : i32}
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "rotated", kgpu.stages = 2 : i32} {
  func.func @written(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %p: !tile.ptr<f32> {tile.disjoint}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c128 = arith.constant 128 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %f1 = arith.constant 1.0 : f32
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %block = tile.program_id x : i32
    %first = arith.muli %block, %c128 : i32
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %dq = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %key = tile.desc_load %dk[%first, %c0] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %sums:2 = scf.for %at = %c0 to %tokens step %step iter_args(%sum = %zero, %scale = %f1) -> (tensor<128x128xf32>, f32) : i32 {
      %query = tile.desc_load %dq[%at, %c0] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %turned = tile.trans %query [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
      %score = tile.dot %key, %turned, %none : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      tile.store %p, %f1 : !tile.ptr<f32>, f32
      %weight = arith.addf %score, %score : tensor<128x64xf32>
      %factor = arith.truncf %weight : tensor<128x64xf32> to tensor<128x64xf16>
      %next = tile.dot %factor, %query, %sum : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %half = arith.mulf %scale, %f1 : f32
      scf.yield %next, %half : tensor<128x128xf32>, f32
    }
    %wide = arith.truncf %sums#0 : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}

// -----

// Nothing but the scores reads what the loop loads: their slot would be free before the next step takes it over.
// CHOSEN: func.func @alone({{.*}}kgpu.schedule = {consumers = 2 : i32, name = "streams", staged_store, stages = 2 : i32}
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "rotated", kgpu.stages = 2 : i32} {
  func.func @alone(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %p: !tile.ptr<f32> {tile.disjoint}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c128 = arith.constant 128 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %f1 = arith.constant 1.0 : f32
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %block = tile.program_id x : i32
    %first = arith.muli %block, %c128 : i32
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %dq = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %held = tile.desc_load %dq[%first, %c0] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
    %key = tile.desc_load %dk[%first, %c0] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %sums:2 = scf.for %at = %c0 to %tokens step %step iter_args(%sum = %zero, %scale = %f1) -> (tensor<128x128xf32>, f32) : i32 {
      %query = tile.desc_load %dq[%at, %c0] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %turned = tile.trans %query [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
      %score = tile.dot %key, %turned, %none : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      %weight = arith.addf %score, %score : tensor<128x64xf32>
      %factor = arith.truncf %weight : tensor<128x64xf32> to tensor<128x64xf16>
      %next = tile.dot %factor, %held, %sum : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %half = arith.mulf %scale, %f1 : f32
      scf.yield %next, %half : tensor<128x128xf32>, f32
    }
    %wide = arith.truncf %sums#0 : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}

// -----

// One slot: the next step is received before this one is released.
// CHOSEN: func.func @short({{.*}}kgpu.schedule = {consumers = 2 : i32, name = "streams", staged_store, stages = 1 : i32}
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "rotated", kgpu.stages = 1 : i32} {
  func.func @short(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %p: !tile.ptr<f32> {tile.disjoint}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c128 = arith.constant 128 : i32
    %step = arith.constant 64 : i32
    %one = arith.constant 1 : i64
    %f1 = arith.constant 1.0 : f32
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %block = tile.program_id x : i32
    %first = arith.muli %block, %c128 : i32
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %dq = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %key = tile.desc_load %dk[%first, %c0] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %sums:2 = scf.for %at = %c0 to %tokens step %step iter_args(%sum = %zero, %scale = %f1) -> (tensor<128x128xf32>, f32) : i32 {
      %query = tile.desc_load %dq[%at, %c0] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %turned = tile.trans %query [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
      %score = tile.dot %key, %turned, %none : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      tile.store %p, %f1 : !tile.ptr<f32>, f32
      %weight = arith.addf %score, %score : tensor<128x64xf32>
      %factor = arith.truncf %weight : tensor<128x64xf32> to tensor<128x64xf16>
      %next = tile.dot %factor, %query, %sum : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %half = arith.mulf %scale, %f1 : f32
      scf.yield %next, %half : tensor<128x128xf32>, f32
    }
    %wide = arith.truncf %sums#0 : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}

// -----

// The next step's scores do not fit in registers next to this step's products.
// CHOSEN: func.func @large({{.*}}kgpu.schedule = {consumers = 2 : i32, name = "streams", staged_store, stages = 2 : i32}
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "rotated", kgpu.stages = 2 : i32} {
  func.func @large(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %p: !tile.ptr<f32> {tile.disjoint}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c128 = arith.constant 128 : i32
    %step = arith.constant 224 : i32
    %one = arith.constant 1 : i64
    %f1 = arith.constant 1.0 : f32
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %none = arith.constant dense<0.0> : tensor<128x224xf32>
    %block = tile.program_id x : i32
    %first = arith.muli %block, %c128 : i32
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %dq = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<224x128xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %key = tile.desc_load %dk[%first, %c0] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %sums:2 = scf.for %at = %c0 to %tokens step %step iter_args(%sum = %zero, %scale = %f1) -> (tensor<128x128xf32>, f32) : i32 {
      %query = tile.desc_load %dq[%at, %c0] : !tile.desc<tensor<224x128xf16>> -> tensor<224x128xf16>
      %turned = tile.trans %query [1, 0] : tensor<224x128xf16> -> tensor<128x224xf16>
      %score = tile.dot %key, %turned, %none : tensor<128x128xf16>, tensor<128x224xf16> -> tensor<128x224xf32>
      %weight = arith.addf %score, %score : tensor<128x224xf32>
      %factor = arith.truncf %weight : tensor<128x224xf32> to tensor<128x224xf16>
      %next = tile.dot %factor, %query, %sum : tensor<128x224xf16>, tensor<224x128xf16> -> tensor<128x128xf32>
      %half = arith.mulf %scale, %f1 : f32
      scf.yield %next, %half : tensor<128x128xf32>, f32
    }
    %wide = arith.truncf %sums#0 : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}
