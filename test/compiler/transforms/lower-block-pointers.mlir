// RUN: kiln-opt %s --kiln-lower-block-pointers > %t
// RUN: FileCheck %s --input-file=%t
// RUN: kiln-opt %t --kiln-lower-block-pointers | diff %t -

// CHECK-NOT: block_ptr

// A load keeps its boundary check, and its padding moves into the descriptor.
// CHECK-LABEL: func @load
// CHECK-SAME: (%[[P:.*]]: !tile.ptr<f32>, %[[M:.*]]: i64, %[[S:.*]]: i64, %[[I:.*]]: i32)
// CHECK: %[[D:.*]] = tile.make_desc %[[P]], shape[%[[M]], %[[M]]] strides[%[[S]], %[[S]]] {padding = #tile<padding nan>}
// CHECK: tile.desc_load %[[D]][%[[I]], %[[I]]] {boundary = array<i32: 1>, cache = #tile<cache cg>}
func.func @load(%p: !tile.ptr<f32>, %m: i64, %s: i64, %i: i32) -> tensor<16x32xf32> {
  %b = tile.make_block_ptr %p, shape [%m, %m] strides [%s, %s] offsets [%i, %i] {order = array<i32: 1, 0>}
    : !tile.ptr<f32> -> !tile.block_ptr<tensor<16x32xf32>>
  %v = tile.block_load %b {boundary = array<i32: 1>, padding = #tile<padding nan>, cache = #tile<cache cg>}
    : !tile.block_ptr<tensor<16x32xf32>> -> tensor<16x32xf32>
  return %v : tensor<16x32xf32>
}

// Without a boundary check nothing is checked, which the descriptor has to state.
// CHECK-LABEL: func @store
// CHECK: tile.desc_store %{{.*}}[%{{.*}}], %{{.*}} {boundary = array<i32>}
func.func @store(%p: !tile.ptr<f32>, %m: i64, %s: i64, %i: i32, %v: tensor<32xf32>) {
  %b = tile.make_block_ptr %p, shape [%m] strides [%s] offsets [%i] {order = array<i32: 0>}
    : !tile.ptr<f32> -> !tile.block_ptr<tensor<32xf32>>
  tile.block_store %b, %v : !tile.block_ptr<tensor<32xf32>>, tensor<32xf32>
  return
}

// Through a loop only the offset that changes is carried; loop hints stay.
// CHECK-LABEL: func @carried
// CHECK: scf.for {{.*}} iter_args(%[[A:.*]] = %{{.*}}, %[[K:.*]] = %{{.*}}) -> (tensor<16x32xf32>, i32)
// CHECK: tile.desc_load %{{.*}}[%{{.*}}, %[[K]]]
// CHECK: %[[N:.*]] = arith.addi %[[K]], %{{.*}} : i32
// CHECK: scf.yield %{{.*}}, %[[N]] : tensor<16x32xf32>, i32
// CHECK: tile.num_stages = 3
func.func @carried(%p: !tile.ptr<f32>, %m: i64, %s: i64, %n: i32) -> tensor<16x32xf32> {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %step = arith.constant 32 : i32
  %init = arith.constant dense<0.0> : tensor<16x32xf32>
  %b = tile.make_block_ptr %p, shape [%m, %m] strides [%s, %s] offsets [%zero, %zero] {order = array<i32: 1, 0>}
    : !tile.ptr<f32> -> !tile.block_ptr<tensor<16x32xf32>>
  %r:2 = scf.for %i = %zero to %n step %one iter_args(%acc = %init, %q = %b)
      -> (tensor<16x32xf32>, !tile.block_ptr<tensor<16x32xf32>>) : i32 {
    %v = tile.block_load %q : !tile.block_ptr<tensor<16x32xf32>> -> tensor<16x32xf32>
    %sum = arith.addf %acc, %v : tensor<16x32xf32>
    %next = tile.advance %q[%zero, %step] : !tile.block_ptr<tensor<16x32xf32>>
    scf.yield %sum, %next : tensor<16x32xf32>, !tile.block_ptr<tensor<16x32xf32>>
  } {tile.num_stages = 3 : i32}
  return %r#0 : tensor<16x32xf32>
}

// A loop swaps two pointers: every part that differs is carried.
// CHECK-LABEL: func @exchanged
// CHECK-SAME: (%[[P:.*]]: !tile.ptr<f32>, %[[Q:.*]]: !tile.ptr<f32>,
// CHECK: scf.for {{.*}} -> (!tile.ptr<f32>, !tile.ptr<f32>)
// CHECK: scf.yield %[[B:.*]], %[[A:.*]] : !tile.ptr<f32>, !tile.ptr<f32>
func.func @exchanged(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %m: i64, %s: i64, %n: i32, %v: tensor<32xf32>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %x = tile.make_block_ptr %p, shape [%m] strides [%s] offsets [%zero] {order = array<i32: 0>}
    : !tile.ptr<f32> -> !tile.block_ptr<tensor<32xf32>>
  %y = tile.make_block_ptr %q, shape [%m] strides [%s] offsets [%zero] {order = array<i32: 0>}
    : !tile.ptr<f32> -> !tile.block_ptr<tensor<32xf32>>
  %r:2 = scf.for %i = %zero to %n step %one iter_args(%a = %x, %b = %y)
      -> (!tile.block_ptr<tensor<32xf32>>, !tile.block_ptr<tensor<32xf32>>) : i32 {
    tile.block_store %a, %v : !tile.block_ptr<tensor<32xf32>>, tensor<32xf32>
    scf.yield %b, %a : !tile.block_ptr<tensor<32xf32>>, !tile.block_ptr<tensor<32xf32>>
  }
  return
}

// Branches, selects and while loops.
// CHECK-LABEL: func @branches
// CHECK: %[[O:.*]] = scf.if %{{.*}} -> (i32)
// CHECK: arith.select %{{.*}}, %[[O]], %{{.*}} : i32
// CHECK: scf.while (%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : (i32, i32) -> (i32, i32)
// CHECK: tile.desc_store
func.func @branches(%p: !tile.ptr<f32>, %m: i64, %s: i64, %n: i32, %c: i1, %v: tensor<32xf32>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %b = tile.make_block_ptr %p, shape [%m] strides [%s] offsets [%n] {order = array<i32: 0>}
    : !tile.ptr<f32> -> !tile.block_ptr<tensor<32xf32>>
  %x = scf.if %c -> (!tile.block_ptr<tensor<32xf32>>) {
    %q = tile.advance %b[%one] : !tile.block_ptr<tensor<32xf32>>
    scf.yield %q : !tile.block_ptr<tensor<32xf32>>
  } else {
    scf.yield %b : !tile.block_ptr<tensor<32xf32>>
  }
  %far = tile.advance %b[%n] : !tile.block_ptr<tensor<32xf32>>
  %y = arith.select %c, %x, %far : !tile.block_ptr<tensor<32xf32>>
  %w:2 = scf.while (%i = %zero, %q = %y)
      : (i32, !tile.block_ptr<tensor<32xf32>>) -> (i32, !tile.block_ptr<tensor<32xf32>>) {
    %more = arith.cmpi slt, %i, %n : i32
    scf.condition(%more) %i, %q : i32, !tile.block_ptr<tensor<32xf32>>
  } do {
  ^bb0(%i: i32, %q: !tile.block_ptr<tensor<32xf32>>):
    %next = tile.advance %q[%one] : !tile.block_ptr<tensor<32xf32>>
    %j = arith.addi %i, %one : i32
    scf.yield %j, %next : i32, !tile.block_ptr<tensor<32xf32>>
  }
  tile.block_store %w#1, %v {boundary = array<i32: 0>} : !tile.block_ptr<tensor<32xf32>>, tensor<32xf32>
  return
}

// Nothing to do: nothing changes, not even a loop that the clean-up could simplify.
// CHECK-LABEL: func @untouched
// CHECK: scf.for {{.*}} iter_args
func.func @untouched(%n: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%x = %n) -> (i32) : i32 {
    scf.yield %x : i32
  }
  return %r : i32
}
