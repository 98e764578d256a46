// Blocks that a step adds to memory pass through a slot to a role that has the copy engine add them: the multiply role
// waits neither for it nor, before the next product, for all of its threads to have stored. Each block runs one program.
// Groups share a computed operand through two slots, so that the next step need not wait for all to have read it.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule,kiln-lower-desc-reductions),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s

// CHECK-LABEL: func.func @combined
// CHECK-NOT: kgpu.persistent
// CHECK: %[[HELD:.*]] = kgpu.channel {{ *}}bytes fillers 1 readers 8 : <1 x (!kgpu.mem<128x128xf16
// CHECK: %[[SHARED:.*]] = kgpu.channel {{ *}}threads fillers 8 readers 8 : <2 x (!kgpu.mem<128x64xf16
// CHECK-NEXT: %[[MAP:.*]] = kgpu.tensor_map %{{.*}} box [128, 32] swizzle 128 : <tensor<128x64xf32>>
// CHECK-NEXT: %[[PARTS:.*]] = kgpu.channel {{ *}}threads fillers 8 readers 1 : <1 x (!kgpu.mem<128x64xf32
// CHECK: kgpu.roles @load warps 1 registers 24
// CHECK-NOT: %[[PARTS]]
// CHECK: } @add warps 1 registers 24 {
// CHECK: scf.for %[[AT:.*]] = {{.*}} iter_args(%[[PLACE:.*]] = %
// CHECK-NEXT: %[[ROW:.*]] = arith.muli %[[AT]]
// CHECK-NEXT: %[[FULL:.*]] = kgpu.receive %[[PARTS]][%[[PLACE]]]
// CHECK-NEXT: kgpu.copy_out %[[FULL]] by "fadd" to %[[MAP]][%[[ROW]]
// CHECK-NEXT: kgpu.copy_out_wait read 0
// CHECK-NEXT: kgpu.release %[[PARTS]][%[[PLACE]]]
// CHECK-NEXT: kgpu.advance %[[PLACE]]
// CHECK: } @multiply groups 2 warps 4 registers 240 {
// CHECK: %[[KEY:.*]] = kgpu.receive %[[HELD]]
// CHECK: scf.for
// CHECK: %[[SLOT:.*]] = kgpu.acquire %[[SHARED]][%[[AT:.*]]]
// CHECK-NEXT: kgpu.local_store %{{.*}}, %[[SLOT]]
// CHECK-NEXT: kgpu.fence_async
// CHECK-NEXT: kgpu.commit %[[SHARED]][%[[AT]]]
// CHECK-NEXT: %[[FACTOR:.*]] = kgpu.receive %[[SHARED]][%[[AT]]]
// CHECK: %[[PART:.*]] = kgpu.warpgroup_mma %{{.*}}, %[[FACTOR]]
// CHECK: %[[SUM:.*]] = kgpu.warpgroup_mma
// CHECK: %[[DONE:.*]] = kgpu.mma_wait %[[PART]] pending 1
// CHECK-NEXT: kgpu.release %[[SHARED]][%[[AT]]]
// CHECK-NEXT: %[[FREE:.*]] = kgpu.acquire %[[PARTS]]
// CHECK-NEXT: kgpu.local_store %[[DONE]], %[[FREE]]
// CHECK-NEXT: kgpu.fence_async
// CHECK-NEXT: kgpu.commit %[[PARTS]]
// CHECK-NOT: kgpu.barrier
// CHECK: kgpu.mma_wait %[[SUM]] pending 0
// The program is the last to need the keys: its result leaves through their memory.
// CHECK: kgpu.local_store %{{.*}}, %[[KEY]]
// CHECK-NEXT: kgpu.copy_out %[[KEY]] to
// CHECK-NEXT: kgpu.copy_out_wait read 0
// CHECK-NEXT: kgpu.release %[[HELD]]
// CHECK-NEXT: kgpu.end_role

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams", kgpu.stages = 2 : i32} {
  func.func @combined(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %count: !tile.ptr<i32> {tile.disjoint}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %side = arith.constant 64 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %block = tile.program_id x : i32
    %first = arith.muli %block, %c128 : i32
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %dq = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %dz = tile.make_desc %z, shape [%s, %side] strides [%side, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %key = tile.desc_load %dk[%first, %c0] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %turned_key = tile.trans %key [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
    %sums = scf.for %at = %c0 to %tokens step %c64 iter_args(%sum = %zero) -> (tensor<128x128xf32>) : i32 {
      %query = tile.desc_load %dq[%at, %c0] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %turned = tile.trans %query [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
      %score = tile.dot %key, %turned, %none : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      %factor = arith.truncf %score : tensor<128x64xf32> to tensor<128x64xf16>
      %part = tile.dot %turned_key, %factor, %none : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      %next = tile.dot %factor, %query, %sum : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %row = arith.muli %at, %c2 : i32
      tile.desc_reduce fadd %dz[%row, %c0], %part : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
      scf.yield %next : tensor<128x128xf32>
    }
    %wide = arith.truncf %sums : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}

// -----

// A program that counts tells others that its sums are there: threads combine them.
// CHECK-LABEL: func.func @counted
// CHECK-NOT: by "fadd"
// CHECK: tile.atomic_rmw fadd relaxed gpu
// CHECK-NOT: by "fadd"

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams", kgpu.stages = 2 : i32} {
  func.func @counted(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %count: !tile.ptr<i32> {tile.disjoint}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %side = arith.constant 64 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %block = tile.program_id x : i32
    %first = arith.muli %block, %c128 : i32
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %dq = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %dz = tile.make_desc %z, shape [%s, %side] strides [%side, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %key = tile.desc_load %dk[%first, %c0] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %turned_key = tile.trans %key [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
    %sums = scf.for %at = %c0 to %tokens step %c64 iter_args(%sum = %zero) -> (tensor<128x128xf32>) : i32 {
      %query = tile.desc_load %dq[%at, %c0] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %turned = tile.trans %query [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
      %score = tile.dot %key, %turned, %none : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      %factor = arith.truncf %score : tensor<128x64xf32> to tensor<128x64xf16>
      %part = tile.dot %turned_key, %factor, %none : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      %next = tile.dot %factor, %query, %sum : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %row = arith.muli %at, %c2 : i32
      tile.desc_reduce fadd %dz[%row, %c0], %part : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
      scf.yield %next : tensor<128x128xf32>
    }
    %wide = arith.truncf %sums : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    %old = tile.atomic_rmw add acq_rel gpu %count, %c1 : !tile.ptr<i32>, i32
    return
  }
}

// -----

// The kernel reads the array into which it combines.
// CHECK-LABEL: func.func @read
// CHECK-NOT: by "fadd"
// CHECK: tile.atomic_rmw fadd relaxed gpu
// CHECK-NOT: by "fadd"

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams", kgpu.stages = 2 : i32} {
  func.func @read(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %count: !tile.ptr<i32> {tile.disjoint}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %side = arith.constant 64 : i64
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %block = tile.program_id x : i32
    %first = arith.muli %block, %c128 : i32
    %dk = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %dq = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
    %dy = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x128xf16>>
    %dz = tile.make_desc %z, shape [%s, %side] strides [%side, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %key = tile.desc_load %dk[%first, %c0] : !tile.desc<tensor<128x128xf16>> -> tensor<128x128xf16>
    %turned_key = tile.trans %key [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
    %sums = scf.for %at = %c0 to %tokens step %c64 iter_args(%sum = %zero) -> (tensor<128x128xf32>) : i32 {
      %query = tile.desc_load %dq[%at, %c0] : !tile.desc<tensor<64x128xf16>> -> tensor<64x128xf16>
      %turned = tile.trans %query [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
      %score = tile.dot %key, %turned, %none : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      %factor = arith.truncf %score : tensor<128x64xf32> to tensor<128x64xf16>
      %part = tile.dot %turned_key, %factor, %none : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      %next = tile.dot %factor, %query, %sum : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %row = arith.muli %at, %c2 : i32
      tile.desc_reduce fadd %dz[%row, %c0], %part : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
      scf.yield %next : tensor<128x128xf32>
    }
    %wide = arith.truncf %sums : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    %there = tile.load %z : !tile.ptr<f32> -> f32
    tile.print "z" %there : f32
    return
  }
}
