// Several products in a step: stationary and streamed blocks come through separate rings; rows of numbers are in the
// slot of the block before them. Products start where they are in the program; a result is waited for at its use.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule))' | FileCheck %s --check-prefix=CHOSEN
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s

// CHOSEN: func.func @gradients({{.*}}kgpu.schedule = {consumers = 2 : i32, name = "streams", staged_store, stages = 3 : i32}

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams", kgpu.stages = 3 : i32} {
// CHECK-LABEL: func.func @gradients
// CHECK-SAME: kgpu.persistent
// Both loops use one ring.
// CHECK: %[[KEYS:.*]] = kgpu.channel {{ *}}bytes fillers 1 readers 8 : <1 x (!kgpu.mem<128x128xf16
// CHECK: %[[WALKED:.*]] = kgpu.channel {{ *}}bytes fillers 1 readers 8 : <3 x (!kgpu.mem<64x128xf16, {{.*}}>, !kgpu.mem<64xf32
// CHECK-NOT: kgpu.channel {{ *}}bytes
// CHECK: kgpu.roles @load warps 1 registers 24 {
// CHECK:   scf.for
// CHECK:     kgpu.copy_in %{{.*}} of %[[KEYS]]
// CHECK:     scf.for %[[HEAD:[^ ]*]] =
// CHECK-COUNT-2: kgpu.copy_in %{{.*}} of %[[WALKED]]
// CHECK-NEXT:      kgpu.commit %[[WALKED]]
// CHECK:       scf.for
// CHECK-COUNT-2: kgpu.copy_in %{{.*}} of %[[WALKED]]
// CHECK-NEXT:      kgpu.commit %[[WALKED]]
// CHECK:   kgpu.end_role
// CHECK: } @multiply groups 2 warps 4 registers 240 {
// CHECK:   %[[STORED:.*]] = kgpu.alloc
// CHECK:   scf.for
// CHECK:     %[[K:.*]] = kgpu.receive %[[KEYS]]
// CHECK:     scf.for
// CHECK:       scf.for {{.*}} iter_args(%[[SUM:[^ ]*]] = 
// CHECK:         %[[SLOT:.*]]:2 = kgpu.receive %[[WALKED]]
// CHECK:         %[[TURNED:.*]] = kgpu.trans %[[SLOT]]#0
// CHECK:         %[[S:.*]] = kgpu.warpgroup_mma %[[K]], %[[TURNED]]
// CHECK:         %[[ROW:.*]] = kgpu.local_load %[[SLOT]]#1
// CHECK-NOT:     kgpu.release
// CHECK:         %[[SCORES:.*]] = kgpu.mma_wait %[[S]] pending 0
// CHECK-NOT:     kgpu.release
// CHECK:         %[[FACTOR:.*]] = arith.truncf
// CHECK:         %[[D:.*]] = kgpu.warpgroup_mma %[[FACTOR]], %[[SLOT]]#0, %[[SUM]]
// What is computed from the right operand goes through memory, which both groups write.
// CHECK:         %[[LEFT:.*]] = kgpu.trans %[[K]]
// CHECK:         kgpu.local_store %[[FACTOR]], %[[STORED]]
// CHECK:         kgpu.warpgroup_mma %[[LEFT]], %[[STORED]]
// CHECK-NEXT:    kgpu.mma_wait %[[D]] pending 0
// CHECK-NEXT:    kgpu.mma_wait %{{.*}} pending 0
// CHECK-NEXT:    kgpu.release %[[WALKED]]
// CHECK:       scf.for
// CHECK:         kgpu.receive %[[WALKED]]
// CHECK:         kgpu.mma_wait %{{.*}} pending 0
// CHECK-NOT:     kgpu.release
// CHECK:         kgpu.warpgroup_mma
// CHECK-NEXT:    kgpu.mma_wait %{{.*}} pending 0
// CHECK-NEXT:    kgpu.release %[[WALKED]]
// The keys stay until all heads have been processed.
// CHECK-NOT:   kgpu.release
// CHECK:     }
// CHECK:     kgpu.release %[[KEYS]]
// CHECK:     kgpu.alloc
// CHECK-NEXT: kgpu.copy_out_wait read 0
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.copy_out
// CHECK:   kgpu.end_role
  func.func @gradients(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %rows: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %tokens: i32, %heads: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %block = tile.program_id x : i32
    %first = arith.muli %block, %c128 : i32
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %dq = tile.make_desc %q, shape [%s, %s, %s] strides [%s, %s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<1x64x128xf16>>
    %dr = tile.make_desc %rows, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<1x64xf32>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %key = tile.desc_load %dk[%first, %c0] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %turned_key = tile.trans %key [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
    %all:2 = scf.for %head = %c0 to %heads step %c1 iter_args(%a = %zero, %o = %none) -> (tensor<128x128xf32>, tensor<128x64xf32>) : i32 {
      %most:2 = scf.for %at = %c0 to %first step %c64 iter_args(%sum = %a, %other = %o) -> (tensor<128x128xf32>, tensor<128x64xf32>) : i32 {
        %q3 = tile.desc_load %dq[%head, %at, %c0] : !tile.desc<tensor<1x64x128xf16>> -> tensor<1x64x128xf16>
        %query = tile.reshape %q3 : tensor<1x64x128xf16> -> tensor<64x128xf16>
        %r2 = tile.desc_load %dr[%head, %at] : !tile.desc<tensor<1x64xf32>> -> tensor<1x64xf32>
        %row = tile.reshape %r2 : tensor<1x64xf32> -> tensor<64xf32>
        %turned = tile.trans %query [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
        %score = tile.dot %key, %turned, %none : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
        %r3 = tile.expand_dims %row 0 : tensor<64xf32> -> tensor<1x64xf32>
        %r4 = tile.broadcast %r3 : tensor<1x64xf32> -> tensor<128x64xf32>
        %weight = arith.subf %score, %r4 : tensor<128x64xf32>
        %factor = arith.truncf %weight : tensor<128x64xf32> to tensor<128x64xf16>
        %next = tile.dot %factor, %query, %sum : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
        %last = tile.dot %turned_key, %factor, %other : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
        scf.yield %next, %last : tensor<128x128xf32>, tensor<128x64xf32>
      }
      %more = scf.for %at = %first to %tokens step %c64 iter_args(%sum = %most#0) -> (tensor<128x128xf32>) : i32 {
        %q3 = tile.desc_load %dq[%head, %at, %c0] : !tile.desc<tensor<1x64x128xf16>> -> tensor<1x64x128xf16>
        %query = tile.reshape %q3 : tensor<1x64x128xf16> -> tensor<64x128xf16>
        %r2 = tile.desc_load %dr[%head, %at] : !tile.desc<tensor<1x64xf32>> -> tensor<1x64xf32>
        %row = tile.reshape %r2 : tensor<1x64xf32> -> tensor<64xf32>
        %turned = tile.trans %query [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
        %score = tile.dot %key, %turned, %none : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
        %r3 = tile.expand_dims %row 0 : tensor<64xf32> -> tensor<1x64xf32>
        %r4 = tile.broadcast %r3 : tensor<1x64xf32> -> tensor<128x64xf32>
        %weight = arith.subf %score, %r4 : tensor<128x64xf32>
        %factor = arith.truncf %weight : tensor<128x64xf32> to tensor<128x64xf16>
        %next = tile.dot %factor, %query, %sum : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
        scf.yield %next : tensor<128x128xf32>
      }
      scf.yield %more, %most#1 : tensor<128x128xf32>, tensor<128x64xf32>
    }
    %wide = arith.truncf %all#0 : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    %dz = tile.make_desc %z, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    tile.desc_store %dz[%first, %c0], %all#1 : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
    return
  }
}
