// Programs that add to memory in turns: the add role waits for the turn. It ends it when the next block is on its way, by
// which time this one is in memory; or before it waits for the next turn.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule,kiln-lower-desc-reductions),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s

// CHECK-LABEL: func.func @turns
// CHECK-NOT: kgpu.persistent
// CHECK-NOT: tile.atomic_rmw
// CHECK: } @add
// CHECK:   %[[LAST:.*]]:4 = scf.for %{{.*}} iter_args(%[[PLACE:[^ ]*]] = %{{[^,]*}}, %[[OPEN:[^ ]*]] = %false, %[[WHOSE:[^ ]*]] = %arg4, %[[WHAT:[^ ]*]] = %
// CHECK:     %[[COUNTER:.*]] = tile.addptr %arg4
// CHECK:     %[[N:.*]] = tile.atomic_rmw add acquire gpu %[[COUNTER]], %c0
// CHECK-NEXT: %[[WAITS:.*]] = arith.cmpi ne, %[[N]], %[[MINE:.*]] : i32
// CHECK-NEXT: scf.if %[[WAITS]] {
// CHECK-NEXT:   scf.if %[[OPEN]] {
// CHECK-NEXT:     kgpu.copy_out_wait 0
// CHECK-NEXT:     tile.atomic_rmw xchg release gpu %[[WHOSE]], %[[WHAT]] {kgpu.passes_turn}
// CHECK-NEXT: {{^ *\}$}}
// CHECK-NEXT:   scf.while
// CHECK:          tile.atomic_rmw add acquire gpu %[[COUNTER]]
// CHECK:     %[[STILL:.*]] = arith.select %[[WAITS]], %false, %[[OPEN]]
// CHECK:     kgpu.receive
// CHECK-NEXT: kgpu.copy_out
// CHECK-NEXT: kgpu.copy_out_wait read 0
// CHECK-NEXT: kgpu.release
// CHECK-NEXT: %[[NEXT:.*]] = kgpu.advance %[[PLACE]]
// CHECK-NEXT: %[[AFTER:.*]] = arith.addi %[[MINE]]
// CHECK-NEXT: scf.if %[[STILL]] {
// CHECK-NEXT:   kgpu.copy_out_wait 1
// CHECK-NEXT:   tile.atomic_rmw xchg release gpu %[[WHOSE]], %[[WHAT]] {kgpu.passes_turn}
// CHECK-NEXT: {{^ *\}$}}
// CHECK-NEXT: scf.yield %[[NEXT]], %true, %[[COUNTER]], %[[AFTER]]
// CHECK:     scf.if %[[LAST]]#1 {
// CHECK-NEXT:   kgpu.copy_out_wait 0
// CHECK-NEXT:   tile.atomic_rmw xchg release gpu %[[LAST]]#2, %[[LAST]]#3 {kgpu.passes_turn}
// CHECK:   } @multiply
// CHECK-NOT: tile.atomic_rmw

module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams", kgpu.stages = 2 : i32} {
  func.func @turns(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %count: !tile.ptr<i32> {tile.disjoint}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
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
      %number = arith.divsi %at, %c64 : i32
      %counter = tile.addptr %count, %number : !tile.ptr<i32>, i32
      scf.while : () -> () {
        %n = tile.atomic_rmw add acquire gpu %counter, %c0 : !tile.ptr<i32>, i32
        %waits = arith.cmpi ne, %n, %block : i32
        scf.condition(%waits)
      } do {
        scf.yield
      }
      tile.desc_reduce fadd %dz[%row, %c0], %part : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
      %after = arith.addi %block, %c1 : i32
      %old = tile.atomic_rmw xchg release gpu %counter, %after : !tile.ptr<i32>, i32
      scf.yield %next : tensor<128x128xf32>
    }
    %wide = arith.truncf %sums : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}

// -----

// A store precedes the release: who acquires must see it.
// CHECK-LABEL: func.func @early
// CHECK-NOT: kgpu.roles
// CHECK: tile.atomic_rmw fadd relaxed gpu
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams", kgpu.stages = 2 : i32} {
  func.func @early(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %count: !tile.ptr<i32> {tile.disjoint}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
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
    tile.store %count, %c1 : !tile.ptr<i32>, i32
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
      %number = arith.divsi %at, %c64 : i32
      %counter = tile.addptr %count, %number : !tile.ptr<i32>, i32
      scf.while : () -> () {
        %n = tile.atomic_rmw add acquire gpu %counter, %c0 : !tile.ptr<i32>, i32
        %waits = arith.cmpi ne, %n, %block : i32
        scf.condition(%waits)
      } do {
        scf.yield
      }
      tile.desc_reduce fadd %dz[%row, %c0], %part : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
      %after = arith.addi %block, %c1 : i32
      %old = tile.atomic_rmw xchg release gpu %counter, %after : !tile.ptr<i32>, i32
      scf.yield %next : tensor<128x128xf32>
    }
    %wide = arith.truncf %sums : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}

// -----

// Nothing orders the reductions.
// CHECK-LABEL: func.func @relaxed
// CHECK-NOT: kgpu.roles
// CHECK: tile.atomic_rmw fadd relaxed gpu
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams", kgpu.stages = 2 : i32} {
  func.func @relaxed(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %count: !tile.ptr<i32> {tile.disjoint}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
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
      %number = arith.divsi %at, %c64 : i32
      %counter = tile.addptr %count, %number : !tile.ptr<i32>, i32
      scf.while : () -> () {
        %n = tile.atomic_rmw add acquire gpu %counter, %c0 : !tile.ptr<i32>, i32
        %waits = arith.cmpi ne, %n, %block : i32
        scf.condition(%waits)
      } do {
        scf.yield
      }
      tile.desc_reduce fadd %dz[%row, %c0], %part : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
      %after = arith.addi %block, %c1 : i32
      %old = tile.atomic_rmw xchg relaxed gpu %counter, %after : !tile.ptr<i32>, i32
      scf.yield %next : tensor<128x128xf32>
    }
    %wide = arith.truncf %sums : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}

// -----

// CHECK-LABEL: func.func @between
// CHECK-NOT: kgpu.roles
// CHECK: tile.atomic_rmw fadd relaxed gpu
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams", kgpu.stages = 2 : i32} {
  func.func @between(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %count: !tile.ptr<i32> {tile.disjoint}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
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
      %number = arith.divsi %at, %c64 : i32
      %counter = tile.addptr %count, %number : !tile.ptr<i32>, i32
      scf.while : () -> () {
        %n = tile.atomic_rmw add acquire gpu %counter, %c0 : !tile.ptr<i32>, i32
        %waits = arith.cmpi ne, %n, %block : i32
        scf.condition(%waits)
      } do {
        scf.yield
      }
      tile.desc_reduce fadd %dz[%row, %c0], %part : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
      tile.print "at" %at : i32
      %after = arith.addi %block, %c1 : i32
      %old = tile.atomic_rmw xchg release gpu %counter, %after : !tile.ptr<i32>, i32
      scf.yield %next : tensor<128x128xf32>
    }
    %wide = arith.truncf %sums : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}

// -----

// The store may come before other programs' turns, and so before they look.
// CHECK-LABEL: func.func @resets
// CHECK-NOT: kgpu.roles
// CHECK: tile.atomic_rmw fadd relaxed gpu
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams", kgpu.stages = 2 : i32} {
  func.func @resets(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %count: !tile.ptr<i32> {tile.disjoint}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
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
      %number = arith.divsi %at, %c64 : i32
      %counter = tile.addptr %count, %number : !tile.ptr<i32>, i32
      scf.while : () -> () {
        %n = tile.atomic_rmw add acquire gpu %counter, %c0 : !tile.ptr<i32>, i32
        %waits = arith.cmpi ne, %n, %block : i32
        scf.condition(%waits)
      } do {
        scf.yield
      }
      tile.desc_reduce fadd %dz[%row, %c0], %part : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
      %after = arith.addi %block, %c1 : i32
      %old = tile.atomic_rmw xchg release gpu %counter, %after : !tile.ptr<i32>, i32
      scf.yield %next : tensor<128x128xf32>
    }
    %wide = arith.truncf %sums : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    tile.store %count, %c0 : !tile.ptr<i32>, i32
    return
  }
}

// -----

// CHECK-LABEL: func.func @looks
// CHECK-NOT: kgpu.roles
// CHECK: tile.atomic_rmw fadd relaxed gpu
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams", kgpu.stages = 2 : i32} {
  func.func @looks(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %count: !tile.ptr<i32> {tile.disjoint}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
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
      %number = arith.divsi %at, %c64 : i32
      %counter = tile.addptr %count, %number : !tile.ptr<i32>, i32
      scf.while : () -> () {
        %n = tile.atomic_rmw add acquire gpu %counter, %c0 : !tile.ptr<i32>, i32
        %waits = arith.cmpi ne, %n, %block : i32
        scf.condition(%waits)
      } do {
        scf.yield
      }
      tile.desc_reduce fadd %dz[%row, %c0], %part : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
      %after = arith.addi %block, %c1 : i32
      %old = tile.atomic_rmw xchg release gpu %counter, %after : !tile.ptr<i32>, i32
      scf.yield %next : tensor<128x128xf32>
    }
    %wide = arith.truncf %sums : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    %left = tile.load %count : !tile.ptr<i32> -> i32
    tile.print "left" %left : i32
    return
  }
}

// -----

// Numbers and sums may overlap.
// CHECK-LABEL: func.func @views
// CHECK-NOT: kgpu.roles
// CHECK: tile.atomic_rmw fadd relaxed gpu
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "streams", kgpu.stages = 2 : i32} {
  func.func @views(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %count: !tile.ptr<i32>, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
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
      %number = arith.divsi %at, %c64 : i32
      %counter = tile.addptr %count, %number : !tile.ptr<i32>, i32
      scf.while : () -> () {
        %n = tile.atomic_rmw add acquire gpu %counter, %c0 : !tile.ptr<i32>, i32
        %waits = arith.cmpi ne, %n, %block : i32
        scf.condition(%waits)
      } do {
        scf.yield
      }
      tile.desc_reduce fadd %dz[%row, %c0], %part : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
      %after = arith.addi %block, %c1 : i32
      %old = tile.atomic_rmw xchg release gpu %counter, %after : !tile.ptr<i32>, i32
      scf.yield %next : tensor<128x128xf32>
    }
    %wide = arith.truncf %sums : tensor<128x128xf32> to tensor<128x128xf16>
    tile.desc_store %dy[%first, %c0], %wide : !tile.desc<tensor<128x128xf16>>, tensor<128x128xf16>
    return
  }
}
