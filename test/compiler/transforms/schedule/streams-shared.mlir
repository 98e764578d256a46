// What a rotated loop that adds blocks to memory does not do, and what it does where registers are short.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse,func.func(kiln-verify-channels))' | FileCheck %s

// What is added depends on something else of its step: the product is not put off. Groups still share its operand by
// slots, and wait for each other in each step.
// CHECK-LABEL: func.func @beside
// CHECK: %[[SHARED:.*]] = kgpu.channel {{ *}}threads fillers 8 readers 8 : <2 x
// CHECK: } @add
// CHECK-NOT: scf.if
// CHECK: } @multiply
// CHECK: scf.if
// CHECK-NOT: kgpu.acquire
// CHECK: scf.for
// CHECK: %[[PLACE:.*]] = kgpu.acquire %[[SHARED]][%[[OWN:.*]]] : <2 x
// CHECK: kgpu.commit %[[SHARED]][%[[OWN]]]
// CHECK-NEXT: kgpu.receive %[[SHARED]][%[[OWN]]]
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "rotated", kgpu.stages = 2 : i32} {
  func.func @beside(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %g: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %rows: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
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
      %row_of = tile.expand_dims %row 0 : tensor<64xf32> -> tensor<1x64xf32>
      %rows_of = tile.broadcast %row_of : tensor<1x64xf32> -> tensor<64x64xf32>
      %shifted = arith.addf %part, %rows_of : tensor<64x64xf32>
      %next_dk = tile.dot %dscore, %query, %dk : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      tile.desc_reduce fadd %desc_z[%at, %c0], %shifted : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
      scf.yield %next_dk, %next_dv : tensor<128x64xf32>, tensor<128x64xf32>
    }
    %sum = arith.addf %sums#0, %sums#1 : tensor<128x64xf32>
    %narrow = arith.truncf %sum : tensor<128x64xf32> to tensor<128x64xf16>
    tile.desc_store %desc_y[%first, %c0], %narrow : !tile.desc<tensor<128x64xf16>>, tensor<128x64xf16>
    return
  }
}

// -----

// Something is stored before the products: it must not replace the keys.
// CHECK-LABEL: func.func @early
// CHECK: } @multiply
// CHECK: %[[OUT:.*]] = kgpu.alloc : <128x64xf16
// CHECK: kgpu.local_store %{{.*}}, %[[OUT]]
// CHECK-NEXT: kgpu.copy_out %[[OUT]]
// CHECK: scf.for
// CHECK: kgpu.local_store %{{.*}}, %[[OUT]]
// CHECK-NEXT: kgpu.copy_out %[[OUT]]
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "rotated", kgpu.stages = 2 : i32} {
  func.func @early(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %g: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %rows: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
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
    %blank = arith.constant dense<0.0> : tensor<128x64xf16>
    tile.desc_store %desc_y[%first, %c64], %blank : !tile.desc<tensor<128x64xf16>>, tensor<128x64xf16>
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

// With 128 queries per step there are no registers for their vectors beside the products: threads load them behind the
// waits, where they use them.
// CHECK-LABEL: func.func @late
// CHECK: } @multiply
// CHECK: scf.for {{.*}} %[[SCORE:[^ ]*]] = %{{[^ ]*}}) ->
// CHECK: %[[S:.*]]:4 = kgpu.receive %{{.*}} again
// CHECK-NOT: kgpu.local_load
// CHECK: %[[SCALED:.*]] = arith.mulf %[[SCORE]]
// CHECK-NEXT: kgpu.local_load %[[S]]#1
// CHECK-NEXT: tile.expand_dims
// CHECK-NEXT: tile.broadcast
// CHECK-NEXT: arith.subf %[[SCALED]]
// CHECK-NOT: kgpu.local_load
// CHECK: kgpu.mma_wait %{{.*}} pending 1
// CHECK-NEXT: kgpu.local_load %[[S]]#3
// CHECK-NEXT: tile.expand_dims
// CHECK-NEXT: tile.broadcast
// CHECK-NEXT: arith.subf
module attributes {kgpu.num_warps = 8 : i32, kgpu.schedule = "rotated", kgpu.stages = 2 : i32} {
  func.func @late(%k: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %g: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %rows: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %tokens: i32, %s: i64 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %one = arith.constant 1 : i64
    %side = arith.constant 64 : i64
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %none = arith.constant dense<0.0> : tensor<128x128xf32>
    %two = arith.constant dense<2.0> : tensor<128x128xf32>
    %block = tile.program_id x : i32
    %first = arith.muli %block, %c128 : i32
    %desc_k = tile.make_desc %k, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %desc_q = tile.make_desc %q, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %desc_g = tile.make_desc %g, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %desc_r = tile.make_desc %rows, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<1x128xf32>>
    %desc_y = tile.make_desc %y, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %desc_z = tile.make_desc %z, shape [%s, %side] strides [%side, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x64xf32>>
    %key = tile.desc_load %desc_k[%first, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %value = tile.desc_load %desc_k[%first, %c64] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
    %sums:2 = scf.for %at = %c0 to %tokens step %c128 iter_args(%dk = %zero, %dv = %zero) -> (tensor<128x64xf32>, tensor<128x64xf32>) : i32 {
      %query = tile.desc_load %desc_q[%at, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %r0 = tile.desc_load %desc_r[%c0, %at] : !tile.desc<tensor<1x128xf32>> -> tensor<1x128xf32>
      %row = tile.reshape %r0 : tensor<1x128xf32> -> tensor<128xf32>
      %turned = tile.trans %query [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
      %score = tile.dot %key, %turned, %none : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %gradient = tile.desc_load %desc_g[%at, %c0] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %d0 = tile.desc_load %desc_r[%c1, %at] : !tile.desc<tensor<1x128xf32>> -> tensor<1x128xf32>
      %delta = tile.reshape %d0 : tensor<1x128xf32> -> tensor<128xf32>
      %turned_gradient = tile.trans %gradient [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
      %dweight = tile.dot %value, %turned_gradient, %none : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %r1 = tile.expand_dims %row 0 : tensor<128xf32> -> tensor<1x128xf32>
      %r2 = tile.broadcast %r1 : tensor<1x128xf32> -> tensor<128x128xf32>
      %scaled = arith.mulf %score, %two : tensor<128x128xf32>
      %weight = arith.subf %scaled, %r2 : tensor<128x128xf32>
      %rounded = arith.truncf %weight : tensor<128x128xf32> to tensor<128x128xf16>
      %next_dv = tile.dot %rounded, %gradient, %dv : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      %d1 = tile.expand_dims %delta 0 : tensor<128xf32> -> tensor<1x128xf32>
      %d2 = tile.broadcast %d1 : tensor<1x128xf32> -> tensor<128x128xf32>
      %difference = arith.subf %dweight, %d2 : tensor<128x128xf32>
      %product = arith.mulf %weight, %difference : tensor<128x128xf32>
      %dscore = arith.truncf %product : tensor<128x128xf32> to tensor<128x128xf16>
      %turned_dscore = tile.trans %dscore [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
      %part = tile.dot %turned_dscore, %key, %zero : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      %next_dk = tile.dot %dscore, %query, %dk : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      tile.desc_reduce fadd %desc_z[%at, %c0], %part : !tile.desc<tensor<128x64xf32>>, tensor<128x64xf32>
      scf.yield %next_dk, %next_dv : tensor<128x64xf32>, tensor<128x64xf32>
    }
    %sum = arith.addf %sums#0, %sums#1 : tensor<128x64xf32>
    %narrow = arith.truncf %sum : tensor<128x64xf32> to tensor<128x64xf16>
    tile.desc_store %desc_y[%first, %c0], %narrow : !tile.desc<tensor<128x64xf16>>, tensor<128x64xf16>
    return
  }
}
