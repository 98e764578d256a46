// A barrier wherever two accesses to the same bytes need one, and nowhere else; each result satisfies the verifier.
// RUN: kiln-opt %s --split-input-file --kiln-insert-barriers --kiln-verify-barriers | FileCheck %s

#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>

// Two stores, two loads: one barrier, as late as possible.
// CHECK-LABEL: @one_for_two
// CHECK: kgpu.local_store
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: arith.addf
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_load
// CHECK-NEXT: kgpu.local_load
// CHECK-NEXT: return
func.func @one_for_two(%x: tensor<128xf32, #t>) -> (tensor<128xf32, #t>, tensor<128xf32, #t>) {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  %b = kgpu.alloc {offset = 512 : i64} : !kgpu.mem<128xf32, #m>
  kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  kgpu.local_store %x, %b : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  %w = arith.addf %x, %x : tensor<128xf32, #t>
  %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  %z = kgpu.local_load %b : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  return %y, %z : tensor<128xf32, #t>, tensor<128xf32, #t>
}

// Different bytes: no barrier. The same bytes of another allocation: write after read.
// CHECK-LABEL: @bytes
// CHECK: kgpu.local_load
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: return
func.func @bytes(%x: tensor<128xf32, #t>) -> tensor<128xf32, #t> {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  %b = kgpu.alloc {offset = 512 : i64} : !kgpu.mem<128xf32, #m>
  %c = kgpu.alloc {offset = 496 : i64} : !kgpu.mem<128xf32, #m>
  %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  kgpu.local_store %x, %b : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  kgpu.local_store %x, %c : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  return %y : tensor<128xf32, #t>
}

// Write after write; a barrier in the program counts; atomics commute with each other, but not with loads.
// CHECK-LABEL: @writes
// CHECK: kgpu.local_store
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: kgpu.local_atomic_add
// CHECK-NEXT: kgpu.local_atomic_add
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_load
func.func @writes(%x: tensor<128xi32, #t>) -> tensor<128xi32, #t> {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xi32, #m>
  kgpu.local_store %x, %a : tensor<128xi32, #t>, !kgpu.mem<128xi32, #m>
  kgpu.local_store %x, %a : tensor<128xi32, #t>, !kgpu.mem<128xi32, #m>
  tile.barrier
  kgpu.local_atomic_add %a[%x], %x : !kgpu.mem<128xi32, #m>, tensor<128xi32, #t>, tensor<128xi32, #t>
  kgpu.local_atomic_add %a[%x], %x : !kgpu.mem<128xi32, #m>, tensor<128xi32, #t>, tensor<128xi32, #t>
  %y = kgpu.local_load %a : !kgpu.mem<128xi32, #m> -> tensor<128xi32, #t>
  return %y : tensor<128xi32, #t>
}

// Two slots in turn: one barrier per iteration.
// CHECK-LABEL: @slots
// CHECK: scf.for
// CHECK: kgpu.local_store
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_load
// CHECK-NOT: kgpu.barrier
// CHECK: return
func.func @slots(%x: tensor<128xf32, #t>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%phase = %zero) -> i32 : i32 {
    %a = kgpu.alloc {offset = 0 : i64, slots = 2 : i32} : !kgpu.mem<128xf32, #m>
    %s = kgpu.slot %a[%phase] : !kgpu.mem<128xf32, #m>
    kgpu.local_store %x, %s : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    %y = kgpu.local_load %s : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
    %next = arith.xori %phase, %one : i32
    scf.yield %next : i32
  }
  return
}

// One slot: the next iteration's store waits for this one's load.
// CHECK-LABEL: @one_slot
// CHECK: scf.for
// CHECK: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_load
func.func @one_slot(%x: tensor<128xf32, #t>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
    kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  }
  return
}

// Two exchanges in a loop: each one's barrier also protects the other, so neither needs a second slot.
// CHECK-LABEL: @two_exchanges
// CHECK: scf.for
// CHECK-COUNT-2: kgpu.barrier cta
// CHECK-NOT: kgpu.barrier
// CHECK: return
func.func @two_exchanges(%x: tensor<128xf32, #t>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
    %b = kgpu.alloc {offset = 512 : i64} : !kgpu.mem<128xf32, #m>
    kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
    kgpu.local_store %y, %b : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    %z = kgpu.local_load %b : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  }
  return
}

// An exchange that not every iteration does: the slots need no longer alternate.
// CHECK-LABEL: @sometimes
// CHECK: scf.if
// CHECK: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_load
func.func @sometimes(%x: tensor<128xf32, #t>, %n: i32, %c: i1) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%phase = %zero) -> i32 : i32 {
    %a = kgpu.alloc {offset = 0 : i64, slots = 2 : i32} : !kgpu.mem<128xf32, #m>
    %s = kgpu.slot %a[%phase] : !kgpu.mem<128xf32, #m>
    scf.if %c {
      kgpu.local_store %x, %s : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
      %y = kgpu.local_load %s : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
    }
    %next = arith.xori %phase, %one : i32
    scf.yield %next : i32
  }
  return
}

// A conflict with accesses before the loop only is resolved once, before it.
// CHECK-LABEL: @before_the_loop
// CHECK: kgpu.local_load
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: scf.for
// CHECK: kgpu.local_store
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_load
// CHECK-NOT: kgpu.barrier
// CHECK: return
func.func @before_the_loop(%x: tensor<128xf32, #t>, %n: i32) -> tensor<128xf32, #t> {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %b = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  %w = kgpu.local_load %b : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  %r = scf.for %i = %zero to %n step %one iter_args(%phase = %zero) -> i32 : i32 {
    %a = kgpu.alloc {offset = 0 : i64, slots = 2 : i32} : !kgpu.mem<128xf32, #m>
    %s = kgpu.slot %a[%phase] : !kgpu.mem<128xf32, #m>
    kgpu.local_store %x, %s : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    %y = kgpu.local_load %s : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
    %next = arith.xori %phase, %one : i32
    scf.yield %next : i32
  }
  return %w : tensor<128xf32, #t>
}

// Branches: accesses pending after either branch are pending after both.
// CHECK-LABEL: @branches
// CHECK: scf.if
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: } else {
// CHECK-NEXT: kgpu.local_load
// CHECK: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_load
func.func @branches(%x: tensor<128xf32, #t>, %c: i1) -> tensor<128xf32, #t> {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  scf.if %c {
    kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  } else {
    %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  }
  %z = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  return %z : tensor<128xf32, #t>
}

// A loop with no count.
// CHECK-LABEL: @while
// CHECK: scf.while
// CHECK: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_store
// CHECK: } do {
// CHECK: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_load
func.func @while(%x: tensor<128xf32, #t>, %c: i1) {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  scf.while : () -> () {
    kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    scf.condition(%c)
  } do {
    %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
    scf.yield
  }
  return
}

// An atomic that acquires brings a barrier after it, one that releases a barrier before it: no other is needed there.
// CHECK-LABEL: @atomics
// CHECK: kgpu.local_store
// CHECK-NEXT: tile.atomic_rmw add acquire
// CHECK-NEXT: kgpu.local_load
// CHECK-NEXT: tile.atomic_rmw add release
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: tile.atomic_rmw add relaxed
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_load
func.func @atomics(%p: !tile.ptr<i32>, %one: i32, %x: tensor<128xf32, #t>) -> (tensor<128xf32, #t>, tensor<128xf32, #t>) {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  %0 = tile.atomic_rmw add acquire gpu %p, %one : !tile.ptr<i32>, i32
  %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  %1 = tile.atomic_rmw add release gpu %p, %one : !tile.ptr<i32>, i32
  kgpu.local_store %y, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  %2 = tile.atomic_rmw add relaxed gpu %p, %one : !tile.ptr<i32>, i32
  %z = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  return %y, %z : tensor<128xf32, #t>, tensor<128xf32, #t>
}

// An atomic's own access comes before the barrier after it, and after the barrier before it.
// CHECK-LABEL: @atomic_and_load
// CHECK-NEXT: tile.atomic_rmw xchg acquire
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.atomic_rmw xchg release
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: tile.load
func.func @atomic_and_load(%p: !tile.ptr<i32>, %one: i32) -> (i32, i32) {
  %0 = tile.atomic_rmw xchg acquire gpu %p, %one : !tile.ptr<i32>, i32
  %1 = tile.load %p : !tile.ptr<i32> -> i32
  %2 = tile.atomic_rmw xchg release gpu %p, %one : !tile.ptr<i32>, i32
  %3 = tile.load %p : !tile.ptr<i32> -> i32
  return %1, %3 : i32, i32
}

// A receive of copies by groups is a barrier, unless each warp waits for itself alone.
// CHECK-LABEL: @receives
// CHECK: kgpu.local_store
// CHECK-NEXT: kgpu.receive
// CHECK-NEXT: kgpu.local_load
// CHECK: kgpu.receive %{{.*}} by_warp
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.receive %{{.*}} by_warp
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_load
!ring = !kgpu.channel<2 x (!kgpu.mem<128xf32, #m>)>
func.func @receives(%x: tensor<128xf32, #t>) -> (tensor<128xf32, #t>, tensor<128xf32, #t>) {
  %ch = kgpu.channel groups fillers 4 readers 4 {offset = 2048 : i64} : !ring
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  %b = kgpu.alloc {offset = 512 : i64} : !kgpu.mem<128xf32, #m>
  %c = kgpu.cursor : !kgpu.cursor<2>
  %d = kgpu.advance %c : !kgpu.cursor<2>
  kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  %r0 = kgpu.receive %ch[%c] : !ring -> !kgpu.mem<128xf32, #m>
  %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  %r1 = kgpu.receive %ch[%d] by_warp : !ring -> !kgpu.mem<128xf32, #m>
  kgpu.local_store %x, %b : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  %r2 = kgpu.receive %ch[%c] by_warp : !ring -> !kgpu.mem<128xf32, #m>
  %z = kgpu.local_load %b : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  return %y, %z : tensor<128xf32, #t>, tensor<128xf32, #t>
}
