// What kiln-verify-channels rejects, by what goes wrong; mutate-channels.test has many more.
// RUN: kiln-opt %s --kiln-verify-channels -split-input-file -verify-diagnostics

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @bounds_that_differ(%n: i32, %v: tensor<64xf32>) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %zero = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %v1 = arith.constant dense<1.0> : tensor<64xf32>
    %more = arith.addi %n, %c1 : i32
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    // expected-error @below {{expected roles @store and @load to commit and receive the same number of slots of a channel (because one of them would wait forever otherwise), got}}
    %last = scf.for %i = %zero to %more step %c1 iter_args(%c = %c0) -> (!kgpu.cursor<2>) : i32 {
      %s = kgpu.acquire %ch[%c] : !ring -> !m
      kgpu.local_store %v1, %s : tensor<64xf32>, !m
      kgpu.commit %ch[%c] : !ring
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %next : !kgpu.cursor<2>
    }
    kgpu.end_role
  } @load warps 4 {
    %zero = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    // expected-note @below {{it could not be matched with this in the other role}}
    %last = scf.for %i = %zero to %n step %c1 iter_args(%c = %c0) -> (!kgpu.cursor<2>) : i32 {
      %s = kgpu.receive %ch[%c] : !ring -> !m
      %x = kgpu.local_load %s : !m -> tensor<64xf32>
      kgpu.release %ch[%c] : !ring
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %next : !kgpu.cursor<2>
    }
    kgpu.end_role
  }
  return
}

// -----

// Each role reads the bound itself, and it is written in between.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @bounds_read_twice(%p: !tile.ptr<i32>, %if: i1) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %zero = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %v1 = arith.constant dense<1.0> : tensor<64xf32>
    %n = tile.load %p : !tile.ptr<i32> -> i32
    tile.store %p, %zero : !tile.ptr<i32>, i32
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    // expected-error @below {{to commit and receive the same number of slots of a channel}}
    %last = scf.for %i = %zero to %n step %c1 iter_args(%c = %c0) -> (!kgpu.cursor<2>) : i32 {
      %s = kgpu.acquire %ch[%c] : !ring -> !m
      kgpu.local_store %v1, %s : tensor<64xf32>, !m
      kgpu.commit %ch[%c] : !ring
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %next : !kgpu.cursor<2>
    }
    kgpu.end_role
  } @load warps 4 {
    %zero = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %n = tile.load %p : !tile.ptr<i32> -> i32
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    // expected-note @below {{it could not be matched with this in the other role}}
    %last = scf.for %i = %zero to %n step %c1 iter_args(%c = %c0) -> (!kgpu.cursor<2>) : i32 {
      %s = kgpu.receive %ch[%c] : !ring -> !m
      kgpu.release %ch[%c] : !ring
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %next : !kgpu.cursor<2>
    }
    kgpu.end_role
  }
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @condition_of_one_role(%if: i1) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %v1 = arith.constant dense<1.0> : tensor<64xf32>
    %c = kgpu.cursor : !kgpu.cursor<2>
    // expected-error @below {{expected roles @store and @load to commit and receive the same number of slots of a channel (because one of them would wait forever otherwise), got 0 slots committed and 1 received}}
    scf.if %if {
      %s = kgpu.acquire %ch[%c] : !ring -> !m
      kgpu.local_store %v1, %s : tensor<64xf32>, !m
      kgpu.commit %ch[%c] : !ring
    }
    kgpu.end_role
  } @load warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    // expected-note @below {{the other role does this unconditionally}}
    %s = kgpu.receive %ch[%c] : !ring -> !m
    kgpu.release %ch[%c] : !ring
    kgpu.end_role
  }
  return
}

// -----

// Two slots are acquired, and the second one is committed first.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @commits_out_of_order() {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %v1 = arith.constant dense<1.0> : tensor<64xf32>
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    %c1 = kgpu.advance %c0 : !kgpu.cursor<2>
    %s0 = kgpu.acquire %ch[%c0] : !ring -> !m
    kgpu.local_store %v1, %s0 : tensor<64xf32>, !m
    %s1 = kgpu.acquire %ch[%c1] : !ring -> !m
    kgpu.local_store %v1, %s1 : tensor<64xf32>, !m
    // expected-error @below {{expected the cursor at place 0 (because a role commits each slot of the ring once, in order), got place 1}}
    kgpu.commit %ch[%c1] : !ring
    kgpu.commit %ch[%c0] : !ring
    kgpu.end_role
  } @load warps 4 {
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    %c1 = kgpu.advance %c0 : !kgpu.cursor<2>
    %s0 = kgpu.receive %ch[%c0] : !ring -> !m
    kgpu.release %ch[%c0] : !ring
    %s1 = kgpu.receive %ch[%c1] : !ring -> !m
    kgpu.release %ch[%c1] : !ring
    kgpu.end_role
  }
  return
}

// -----

// The hundredth iteration does more than the others: unrolling a few iterations would not show it.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @condition_far_inside(%n: i32) {
  // expected-error @below {{expected role @store to commit each slot that it acquires (because its consumers would wait forever), got 0 of 1}}
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %zero = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %v1 = arith.constant dense<1.0> : tensor<64xf32>
    %far = arith.constant 100 : i32
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    %last = scf.for %i = %zero to %n step %c1 iter_args(%c = %c0) -> (!kgpu.cursor<2>) : i32 {
      %s = kgpu.acquire %ch[%c] : !ring -> !m
      kgpu.local_store %v1, %s : tensor<64xf32>, !m
      %is = arith.cmpi ne, %i, %far : i32
      scf.if %is {
        kgpu.commit %ch[%c] : !ring
      }
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %next : !kgpu.cursor<2>
    }
    kgpu.end_role
  } @load warps 4 {
    %zero = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    %last = scf.for %i = %zero to %n step %c1 iter_args(%c = %c0) -> (!kgpu.cursor<2>) : i32 {
      %s = kgpu.receive %ch[%c] : !ring -> !m
      kgpu.release %ch[%c] : !ring
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %next : !kgpu.cursor<2>
    }
    kgpu.end_role
  }
  return
}

// -----

// A consumer that is one step behind needs two slots.
!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!ring = !kgpu.channel<1 x (!a)>
func.func @too_few_slots(%n: i32) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %zero = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %v = arith.constant dense<1.0> : tensor<64x64xf16>
    %c0 = kgpu.cursor : !kgpu.cursor<1>
    %last = scf.for %i = %zero to %n step %c1 iter_args(%c = %c0) -> (!kgpu.cursor<1>) : i32 {
      // expected-error @below {{expected another role to complete what this waits for (because the kernel hangs otherwise), got role @store waiting forever at place 1 of a ring of 1}}
      %s = kgpu.acquire %ch[%c] : !ring -> !a
      kgpu.local_store %v, %s : tensor<64x64xf16>, !a
      kgpu.fence_async
      kgpu.commit %ch[%c] : !ring
      %next = kgpu.advance %c : !kgpu.cursor<1>
      scf.yield %next : !kgpu.cursor<1>
    }
    kgpu.end_role
  } @multiply warps 4 {
    %zero = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : tensor<64x64xf32>
    %c0 = kgpu.cursor : !kgpu.cursor<1>
    %r:3 = scf.for %i = %zero to %n step %c1 iter_args(%acc = %none, %c = %c0, %before = %c0)
        -> (tensor<64x64xf32>, !kgpu.cursor<1>, !kgpu.cursor<1>) : i32 {
      // expected-note @below {{role @multiply waits here}}
      %s = kgpu.receive %ch[%c] : !ring -> !a
      %x = kgpu.warpgroup_mma %s, %s, %acc : !a, !a -> tensor<64x64xf32>
      %y = kgpu.mma_wait %x pending 1 : tensor<64x64xf32>
      %again = arith.cmpi ne, %i, %zero : i32
      kgpu.release %ch[%before] when %again : !ring
      %next = kgpu.advance %c : !kgpu.cursor<1>
      scf.yield %y, %next, %c : tensor<64x64xf32>, !kgpu.cursor<1>, !kgpu.cursor<1>
    }
    %z = kgpu.mma_wait %r#0 pending 0 : tensor<64x64xf32>
    %ran = arith.cmpi slt, %zero, %n : i32
    kgpu.release %ch[%r#2] when %ran : !ring
    kgpu.end_role
  }
  return
}

// -----

// Each role waits for what the other does afterwards.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @crossed() {
  %there = kgpu.channel threads fillers 4 readers 4 : !ring
  %back = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @one warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    // expected-error @below {{got role @one waiting forever at place 0 of a ring of 2}}
    %x = kgpu.receive %back[%c] : !ring -> !m
    %v = kgpu.local_load %x : !m -> tensor<64xf32>
    kgpu.release %back[%c] : !ring
    %s = kgpu.acquire %there[%c] : !ring -> !m
    kgpu.local_store %v, %s : tensor<64xf32>, !m
    kgpu.commit %there[%c] : !ring
    kgpu.end_role
  } @other warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    // expected-note @below {{role @other waits here}}
    %x = kgpu.receive %there[%c] : !ring -> !m
    %v = kgpu.local_load %x : !m -> tensor<64xf32>
    kgpu.release %there[%c] : !ring
    %s = kgpu.acquire %back[%c] : !ring -> !m
    kgpu.local_store %v, %s : tensor<64xf32>, !m
    kgpu.commit %back[%c] : !ring
    kgpu.end_role
  }
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @inside_and_outside(%v: tensor<64xf32>) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  // expected-error @below {{expected a channel to be used only by roles, or only outside them (because each thread passes through its slots once), got both}}
  kgpu.commit %ch[%c] : !ring
  kgpu.roles @load warps 4 {
    %d = kgpu.cursor : !kgpu.cursor<2>
    // expected-note @below {{the other use}}
    %s = kgpu.receive %ch[%d] : !ring -> !m
    kgpu.release %ch[%d] : !ring
    kgpu.end_role
  }
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @nobody_fills() {
  // expected-error @below {{expected a role that fills slots and one that reads them (because each waits for the other), got only one that reads alone}}
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @load warps 4 {
    %d = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.receive %ch[%d] : !ring -> !m
    kgpu.release %ch[%d] : !ring
    kgpu.end_role
  }
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @cursor_from_elsewhere(%c: !kgpu.cursor<2>, %v: tensor<64xf32>) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  // expected-error @below {{expected a cursor that starts at a kgpu.cursor of its role (because each role advances through the ring independently), got another cursor}}
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  kgpu.local_store %v, %s : tensor<64xf32>, !m
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !m
  kgpu.release %ch[%c] : !ring
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @until_something(%v: tensor<64xf32>, %p: !tile.ptr<i1>) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  %c0 = kgpu.cursor : !kgpu.cursor<2>
  scf.while : () -> () {
    %go = tile.load %p : !tile.ptr<i1> -> i1
    scf.condition(%go)
  } do {
    // expected-error @below {{expected this only in counted loops and branches (because how often it runs is matched with the other roles), got it inside scf.while}}
    %s = kgpu.acquire %ch[%c0] : !ring -> !m
    kgpu.local_store %v, %s : tensor<64xf32>, !m
    kgpu.commit %ch[%c0] : !ring
    %r = kgpu.receive %ch[%c0] : !ring -> !m
    kgpu.release %ch[%c0] : !ring
    scf.yield
  }
  return
}

// -----

// A counted loop inside it does not help.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @counted_until_something(%v: tensor<64xf32>, %p: !tile.ptr<i1>, %n: i32) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  %c0 = kgpu.cursor : !kgpu.cursor<2>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.while : () -> () {
    %go = tile.load %p : !tile.ptr<i1> -> i1
    scf.condition(%go)
  } do {
    %last = scf.for %i = %zero to %n step %one iter_args(%c = %c0) -> (!kgpu.cursor<2>) : i32 {
      // expected-error @below {{expected this only in counted loops and branches (because how often it runs is matched with the other roles), got it inside scf.while}}
      %s = kgpu.acquire %ch[%c] : !ring -> !m
      kgpu.local_store %v, %s : tensor<64xf32>, !m
      kgpu.commit %ch[%c] : !ring
      %r = kgpu.receive %ch[%c] : !ring -> !m
      kgpu.release %ch[%c] : !ring
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %next : !kgpu.cursor<2>
    }
    scf.yield
  }
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @stored_in_the_next_iteration(%x: tensor<64x64xf16>, %c: tensor<64x64xf32>, %p: !tile.ptr<i1>) {
  %m = kgpu.alloc : !a
  scf.while : () -> () {
    %go = tile.load %p : !tile.ptr<i1> -> i1
    scf.condition(%go)
  } do {
    // expected-error @below {{expected a kgpu.mma_wait before memory that a product reads is written (because the product may not have read it yet), got the product still in flight}}
    kgpu.local_store %x, %m : tensor<64x64xf16>, !a
    // expected-note @below {{the product}}
    %y = kgpu.warpgroup_mma %m, %m, %c : !a, !a -> tensor<64x64xf32>
    scf.yield
  }
  %z = kgpu.mma_wait %c pending 0 : tensor<64x64xf32>
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @stored_where_it_is_read(%v: tensor<64xf32>) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  kgpu.local_store %v, %s : tensor<64xf32>, !m
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !m
  // expected-error @below {{expected a received slot to be written to only by stores, before its release, in a role that alone receives it and does not fill it (because nothing orders the store before other roles' accesses to the slot), got a slot that the same role fills, or that several receive}}
  kgpu.local_store %v, %r : tensor<64xf32>, !m
  kgpu.release %ch[%c] : !ring
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @stored_while_a_product_reads(%x: tensor<64x64xf16>, %c: tensor<64x64xf32>) {
  %m = kgpu.alloc : !a
  kgpu.local_store %x, %m : tensor<64x64xf16>, !a
  // expected-note @below {{the product}}
  %y = kgpu.warpgroup_mma %m, %m, %c : !a, !a -> tensor<64x64xf32>
  // expected-error @below {{expected a kgpu.mma_wait before memory that a product reads is written (because the product may not have read it yet), got the product still in flight}}
  kgpu.local_store %x, %m : tensor<64x64xf16>, !a
  %z = kgpu.mma_wait %y pending 0 : tensor<64x64xf32>
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @used_in_flight(%x: tensor<64x64xf16>, %c: tensor<64x64xf32>, %b: !kgpu.cursor<1>) -> tensor<64x64xf32> {
  %m = kgpu.alloc : !a
  // expected-note @below {{where it comes from}}
  %y = kgpu.warpgroup_mma %m, %m, %c : !a, !a -> tensor<64x64xf32>
  %z = kgpu.mma_wait %y pending 0 : tensor<64x64xf32>
  // expected-error @below {{expected a product to be waited for before its result is used (because its registers are undefined until a kgpu.mma_wait), got it in flight}}
  %w = arith.addf %z, %y : tensor<64x64xf32>
  return %w : tensor<64x64xf32>
}

// -----

// The last two products may be in flight: the first of them has not completed yet.
!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @used_before_it_is_settled(%c: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %m = kgpu.alloc : !a
  %x = kgpu.warpgroup_mma %m, %m, %c : !a, !a -> tensor<64x64xf32>
  %y = kgpu.warpgroup_mma %m, %m, %c : !a, !a -> tensor<64x64xf32>
  // expected-note @below {{where it comes from}}
  %z = kgpu.mma_wait %x pending 2 : tensor<64x64xf32>
  // expected-error @below {{expected a product to be waited for before its result is used (because its registers are undefined until a kgpu.mma_wait), got it in flight}}
  %w = arith.addf %z, %z : tensor<64x64xf32>
  %v = kgpu.mma_wait %y pending 0 : tensor<64x64xf32>
  return %w : tensor<64x64xf32>
}

// -----

// The later product is in a loop that may not run.
!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @used_where_nothing_need_follow(%c: tensor<64x64xf32>, %n: i32) -> tensor<64x64xf32> {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %m = kgpu.alloc : !a
  %x = kgpu.warpgroup_mma %m, %m, %c : !a, !a -> tensor<64x64xf32>
  %y = scf.for %i = %zero to %n step %one iter_args(%s = %c) -> (tensor<64x64xf32>) : i32 {
    %t = kgpu.warpgroup_mma %m, %m, %s : !a, !a -> tensor<64x64xf32>
    scf.yield %t : tensor<64x64xf32>
  }
  // expected-note @below {{where it comes from}}
  %z = kgpu.mma_wait %x pending 1 : tensor<64x64xf32>
  // expected-error @below {{expected a product to be waited for before its result is used (because its registers are undefined until a kgpu.mma_wait), got it in flight}}
  %w = arith.addf %z, %z : tensor<64x64xf32>
  %v = kgpu.mma_wait %y pending 0 : tensor<64x64xf32>
  return %w : tensor<64x64xf32>
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @never_waited_for(%c: tensor<64x64xf32>) {
  %m = kgpu.alloc : !a
  // expected-error @below {{expected a kgpu.mma_wait for this before its role ends (because the product may still be reading its memory), got none}}
  %y = kgpu.warpgroup_mma %m, %m, %c : !a, !a -> tensor<64x64xf32>
  return
}

// -----

// No receive between the last reads of a slot and its refill: nothing synchronises the threads.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<1 x (!m)>
func.func @own_copies_too_early(%v: tensor<64xf32>) {
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<1>
  %d = kgpu.advance %c : !kgpu.cursor<1>
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  kgpu.local_store %v, %s : tensor<64xf32>, !m
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !m
  %x = kgpu.local_load %r : !m -> tensor<64xf32>
  kgpu.release %ch[%c] : !ring
  // expected-error @below {{expected a receive after the release of the slot's previous content (because the barrier of that receive orders reads before the copies of other threads), got none}}
  %t = kgpu.acquire %ch[%d] : !ring -> !m
  kgpu.local_store %x, %t : tensor<64xf32>, !m
  kgpu.commit %ch[%d] : !ring
  %u = kgpu.receive %ch[%d] : !ring -> !m
  kgpu.release %ch[%d] : !ring
  return
}

// -----

// A slot is filled by the later of two groups: a wait that leaves one in flight does not cover it.
!m = !kgpu.mem<64x64xf16, #layout.map<row_major [64, 64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @last_group_under_way(%d: !tile.desc<tensor<64x64xf16>>, %i: i32) {
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  kgpu.copy_block %d[%i, %i] to %s of %ch[%c] : !tile.desc<tensor<64x64xf16>>, !m, !ring
  kgpu.commit %ch[%c] : !ring
  // expected-error @below {{expected at most 0 pending groups (because only that many were committed after the group that fills this slot), got 1}}
  %r = kgpu.receive %ch[%c] pending 1 : !ring -> !m
  %x = kgpu.local_load %r : !m -> tensor<64x64xf16>
  kgpu.release %ch[%c] : !ring
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<row_major [64, 64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @group_not_closed(%d: !tile.desc<tensor<64x64xf16>>, %i: i32) {
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  kgpu.copy_block %d[%i, %i] to %s of %ch[%c] : !tile.desc<tensor<64x64xf16>>, !m, !ring
  // expected-error @below {{expected a commit of the slot first (because a thread can only wait for copy groups that it has committed), got none}}
  %r = kgpu.receive %ch[%c] : !ring -> !m
  kgpu.commit %ch[%c] : !ring
  kgpu.release %ch[%c] : !ring
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<row_major [64, 64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @not_copied(%d: !tile.desc<tensor<64x64xf16>>, %i: i32) {
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  %no = arith.constant false
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  kgpu.copy_block %d[%i, %i] when %no to %s of %ch[%c] : !tile.desc<tensor<64x64xf16>>, !m, !ring
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !m
  // expected-error @below {{expected to read a slot that was filled (because it still holds stale data otherwise), got one whose copies were skipped}}
  %x = kgpu.local_load %r : !m -> tensor<64x64xf16>
  kgpu.release %ch[%c] : !ring
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<row_major [64, 64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @not_read(%d: !tile.desc<tensor<64x64xf16>>, %i: i32) {
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  kgpu.copy_block %d[%i, %i] to %s of %ch[%c] : !tile.desc<tensor<64x64xf16>>, !m, !ring
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !m
  // expected-error @below {{expected part #0 of the slot to be read if it was copied (because a copy that nothing reads may access memory out of bounds), got it released unread}}
  kgpu.release %ch[%c] : !ring
  return
}

// -----

// Two channels share the count of groups: the last one committed belongs to the other channel, and the one before is in
// flight.
!m = !kgpu.mem<64x64xf16, #layout.map<row_major [64, 64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @groups_of_two_channels(%d: !tile.desc<tensor<64x64xf16>>, %i: i32) {
  %other = kgpu.channel groups fillers 4 readers 4 : !ring
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  kgpu.copy_block %d[%i, %i] to %s of %ch[%c] : !tile.desc<tensor<64x64xf16>>, !m, !ring
  kgpu.commit %ch[%c] : !ring
  %t = kgpu.acquire %other[%c] : !ring -> !m
  kgpu.copy_block %d[%i, %i] to %t of %other[%c] : !tile.desc<tensor<64x64xf16>>, !m, !ring
  kgpu.commit %other[%c] : !ring
  %r = kgpu.receive %ch[%c] pending 1 : !ring -> !m
  %x = kgpu.local_load %r : !m -> tensor<64x64xf16>
  kgpu.release %ch[%c] : !ring
  // expected-error @below {{expected at most 0 pending groups (because only that many were committed after the group that fills this slot), got 1}}
  %o = kgpu.receive %other[%c] pending 1 : !ring -> !m
  %y = kgpu.local_load %o : !m -> tensor<64x64xf16>
  kgpu.release %other[%c] : !ring
  return
}

// -----

// Two readers take turns, and nothing makes the second wait for the first. That the slot is refilled only after the
// first has read it does not help: the mbarrier tells the second reader so before the slot was filled at all.
!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
!ring = !kgpu.channel<1 x (!m)>
func.func @no_turn() {
  %c = kgpu.channel threads fillers 1 readers 1 : !ring
  kgpu.roles @store warps 1 {
    %p = kgpu.cursor : !kgpu.cursor<1>
    %v = arith.constant dense<1.0> : tensor<32xf32>
    %m0 = kgpu.acquire %c[%p] : !ring -> !m
    kgpu.local_store %v, %m0 : tensor<32xf32>, !m
    kgpu.commit %c[%p] : !ring
    %q = kgpu.advance %p : !kgpu.cursor<1>
    %m1 = kgpu.acquire %c[%q] : !ring -> !m
    kgpu.local_store %v, %m1 : tensor<32xf32>, !m
    kgpu.commit %c[%q] : !ring
    kgpu.end_role
  } @even warps 1 {
    %p = kgpu.cursor : !kgpu.cursor<1>
    %m0 = kgpu.receive %c[%p] : !ring -> !m
    kgpu.release %c[%p] : !ring
    kgpu.end_role
  } @odd warps 1 {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %p = kgpu.cursor : !kgpu.cursor<1>
    %q = kgpu.skip %p for %c0 to %c1 step %c1 : !kgpu.cursor<1>, i32
    // expected-error @below {{expected role @odd to wait for its turn (because the parity of a slot's mbarrier only tells two consecutive rounds apart, and place 0 may not have been received yet), got no synchronisation with its receive}}
    %m1 = kgpu.receive %c[%q] : !ring -> !m
    kgpu.release %c[%q] : !ring
    kgpu.end_role
  }
  return
}

// -----

// Both readers read the same slot, and nothing reads the other slot.
!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @same_slot() {
  %c = kgpu.channel threads fillers 1 readers 1 : !ring
  kgpu.roles @store warps 1 {
    %p = kgpu.cursor : !kgpu.cursor<2>
    %v = arith.constant dense<1.0> : tensor<32xf32>
    %m0 = kgpu.acquire %c[%p] : !ring -> !m
    kgpu.local_store %v, %m0 : tensor<32xf32>, !m
    kgpu.commit %c[%p] : !ring
    %q = kgpu.advance %p : !kgpu.cursor<2>
    %m1 = kgpu.acquire %c[%q] : !ring -> !m
    kgpu.local_store %v, %m1 : tensor<32xf32>, !m
    kgpu.commit %c[%q] : !ring
    kgpu.end_role
  } @even warps 1 {
    %p = kgpu.cursor : !kgpu.cursor<2>
    %m0 = kgpu.receive %c[%p] : !ring -> !m
    kgpu.release %c[%p] : !ring
    kgpu.end_role
  } @odd warps 1 {
    %p = kgpu.cursor : !kgpu.cursor<2>
    // expected-error @below {{expected each of 2 slots that role @store commits to be received by exactly one of the roles that take turns (because the producer waits for one release), got place 0 received by @even and @odd}}
    %m1 = kgpu.receive %c[%p] : !ring -> !m
    kgpu.release %c[%p] : !ring
    kgpu.end_role
  }
  return
}

// -----

// The second role begins with the memory before it knows that the first is done.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!token = !kgpu.channel<1 x ()>
func.func @turn_not_awaited() {
  %ch = kgpu.channel threads fillers 4 readers 4 : !token
  kgpu.roles @one warps 4 {
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %c = kgpu.cursor : !kgpu.cursor<1>
    %m = kgpu.alloc {turn = 0 : i32} : !m
    // expected-note @below {{the other role's use}}
    kgpu.local_store %v, %m : tensor<64xf32>, !m
    kgpu.acquire %ch[%c] : !token
    kgpu.commit %ch[%c] : !token
    kgpu.end_role
  } @two warps 4 {
    %v = arith.constant dense<2.0> : tensor<64xf32>
    %c = kgpu.cursor : !kgpu.cursor<1>
    %m = kgpu.alloc {turn = 0 : i32} : !m
    // expected-error @below {{expected role @two to wait for its turn with this memory (because role @one uses the same bytes), got no synchronisation after the other role's use}}
    kgpu.local_store %v, %m : tensor<64xf32>, !m
    kgpu.receive %ch[%c] : !token
    kgpu.release %ch[%c] : !token
    kgpu.end_role
  }
  return
}

// -----

// The first role still reads what it has already handed over.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!token = !kgpu.channel<1 x ()>
func.func @turn_given_early() {
  %ch = kgpu.channel threads fillers 4 readers 4 : !token
  kgpu.roles @one warps 4 {
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %c = kgpu.cursor : !kgpu.cursor<1>
    %m = kgpu.alloc {turn = 0 : i32} : !m
    kgpu.local_store %v, %m : tensor<64xf32>, !m
    kgpu.acquire %ch[%c] : !token
    kgpu.commit %ch[%c] : !token
    // expected-note @below {{the other role's use}}
    %x = kgpu.local_load %m : !m -> tensor<64xf32>
    kgpu.end_role
  } @two warps 4 {
    %v = arith.constant dense<2.0> : tensor<64xf32>
    %c = kgpu.cursor : !kgpu.cursor<1>
    kgpu.receive %ch[%c] : !token
    kgpu.release %ch[%c] : !token
    %m = kgpu.alloc {turn = 0 : i32} : !m
    // expected-error @below {{expected role @two to wait for its turn with this memory (because role @one uses the same bytes), got no synchronisation after the other role's use}}
    kgpu.local_store %v, %m : tensor<64xf32>, !m
    kgpu.end_role
  }
  return
}

// -----

// Each turn is handed over by itself.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!token = !kgpu.channel<1 x ()>
func.func @turn_of_another() {
  %ch = kgpu.channel threads fillers 4 readers 4 : !token
  kgpu.roles @one warps 4 {
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %c = kgpu.cursor : !kgpu.cursor<1>
    %m = kgpu.alloc {turn = 0 : i32} : !m
    kgpu.local_store %v, %m : tensor<64xf32>, !m
    kgpu.acquire %ch[%c] : !token
    kgpu.commit %ch[%c] : !token
    %n = kgpu.alloc {turn = 1 : i32} : !m
    // expected-note @below {{the other role's use}}
    kgpu.local_store %v, %n : tensor<64xf32>, !m
    kgpu.end_role
  } @two warps 4 {
    %v = arith.constant dense<2.0> : tensor<64xf32>
    %c = kgpu.cursor : !kgpu.cursor<1>
    kgpu.receive %ch[%c] : !token
    kgpu.release %ch[%c] : !token
    %m = kgpu.alloc {turn = 1 : i32} : !m
    // expected-error @below {{expected role @two to wait for its turn with this memory (because role @one uses the same bytes), got no synchronisation after the other role's use}}
    kgpu.local_store %v, %m : tensor<64xf32>, !m
    kgpu.end_role
  }
  return
}

// -----

// The copy engine fills the slot next: nothing orders it behind what threads wrote there.
!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!one = !kgpu.channel<1 x (!m)>
func.func @released_with_unfenced_stores(%pa: !tile.ptr<f16>, %m: i64, %i: i32) {
  %unit = arith.constant 1 : i64
  %desc = tile.make_desc %pa, shape [%m, %m] strides [%m, %unit] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %map = kgpu.tensor_map %desc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %ch = kgpu.channel bytes fillers 1 readers 4 {offset = 0 : i64} : !one
  kgpu.roles @load warps 1 {
    %c = kgpu.cursor : !kgpu.cursor<1>
    %a = kgpu.acquire %ch[%c] : !one -> !m
    kgpu.copy_in %map[%i, %i] to %a of %ch[%c] : !m, !one
    kgpu.commit %ch[%c] : !one
    kgpu.end_role
  } @multiply warps 4 {
    %x = arith.constant dense<1.0> : tensor<64x64xf16>
    %c = kgpu.cursor : !kgpu.cursor<1>
    %r = kgpu.receive %ch[%c] : !one -> !m
    // expected-note @below {{the store}}
    kgpu.local_store %x, %r : tensor<64x64xf16>, !m
    // expected-error @below {{expected a kgpu.fence_async between a store to this slot and its release}}
    kgpu.release %ch[%c] : !one
    kgpu.end_role
  }
  return
}

// -----

// A slot may be filled anew once it is released.
!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!one = !kgpu.channel<1 x (!m)>
func.func @replaced_after_its_release(%pa: !tile.ptr<f16>, %m: i64, %i: i32) {
  %unit = arith.constant 1 : i64
  %desc = tile.make_desc %pa, shape [%m, %m] strides [%m, %unit] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %map = kgpu.tensor_map %desc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %ch = kgpu.channel bytes fillers 1 readers 4 : !one
  kgpu.roles @load warps 1 {
    %c = kgpu.cursor : !kgpu.cursor<1>
    %a = kgpu.acquire %ch[%c] : !one -> !m
    kgpu.copy_in %map[%i, %i] to %a of %ch[%c] : !m, !one
    kgpu.commit %ch[%c] : !one
    kgpu.end_role
  } @multiply warps 4 {
    %x = arith.constant dense<1.0> : tensor<64x64xf16>
    %c = kgpu.cursor : !kgpu.cursor<1>
    %r = kgpu.receive %ch[%c] : !one -> !m
    kgpu.release %ch[%c] : !one
    // expected-error @below {{(because nothing orders the store before other roles' accesses to the slot), got one after its release}}
    kgpu.local_store %x, %r : tensor<64x64xf16>, !m
    kgpu.end_role
  }
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!one = !kgpu.channel<1 x (!m)>
func.func @replaced_while_a_product_reads(%pa: !tile.ptr<f16>, %m: i64, %i: i32) {
  %unit = arith.constant 1 : i64
  %desc = tile.make_desc %pa, shape [%m, %m] strides [%m, %unit] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %map = kgpu.tensor_map %desc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %ch = kgpu.channel bytes fillers 1 readers 4 : !one
  kgpu.roles @load warps 1 {
    %c = kgpu.cursor : !kgpu.cursor<1>
    %a = kgpu.acquire %ch[%c] : !one -> !m
    kgpu.copy_in %map[%i, %i] to %a of %ch[%c] : !m, !one
    kgpu.commit %ch[%c] : !one
    kgpu.end_role
  } @multiply warps 4 {
    %x = arith.constant dense<1.0> : tensor<64x64xf16>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %c = kgpu.cursor : !kgpu.cursor<1>
    %r = kgpu.receive %ch[%c] : !one -> !m
    // expected-note @below {{the product}}
    %p = kgpu.warpgroup_mma %r, %r, %zero : !m, !m -> tensor<64x64xf32>
    // expected-error @below {{expected a kgpu.mma_wait before memory that a product reads is written}}
    kgpu.local_store %x, %r : tensor<64x64xf16>, !m
    %y = kgpu.mma_wait %p pending 0 : tensor<64x64xf32>
    kgpu.release %ch[%c] : !one
    kgpu.end_role
  }
  return
}

// -----

// Two roles receive each slot: the other may be reading what this one replaces.
!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!one = !kgpu.channel<1 x (!m)>
func.func @replaced_where_another_role_reads(%pa: !tile.ptr<f16>, %m: i64, %i: i32) {
  %unit = arith.constant 1 : i64
  %desc = tile.make_desc %pa, shape [%m, %m] strides [%m, %unit] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %map = kgpu.tensor_map %desc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %ch = kgpu.channel bytes fillers 1 readers 8 : !one
  kgpu.roles @load warps 1 {
    %c = kgpu.cursor : !kgpu.cursor<1>
    %a = kgpu.acquire %ch[%c] : !one -> !m
    kgpu.copy_in %map[%i, %i] to %a of %ch[%c] : !m, !one
    kgpu.commit %ch[%c] : !one
    kgpu.end_role
  } @multiply warps 4 {
    %x = arith.constant dense<1.0> : tensor<64x64xf16>
    %c = kgpu.cursor : !kgpu.cursor<1>
    %r = kgpu.receive %ch[%c] : !one -> !m
    // expected-error @below {{got a slot that the same role fills, or that several receive}}
    kgpu.local_store %x, %r : tensor<64x64xf16>, !m
    kgpu.release %ch[%c] : !one
    kgpu.end_role
  } @other warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<1>
    %r = kgpu.receive %ch[%c] : !one -> !m
    %y = kgpu.local_load %r : !m -> tensor<64x64xf16>
    kgpu.release %ch[%c] : !one
    kgpu.end_role
  }
  return
}

// -----

// The slot was released: its producer may refill it.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @again_after_its_release() {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @fill warps 4 {
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.acquire %ch[%c] : !ring -> !m
    kgpu.local_store %v, %s : tensor<64xf32>, !m
    kgpu.commit %ch[%c] : !ring
    kgpu.end_role
  } @read warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.receive %ch[%c] : !ring -> !m
    %x = kgpu.local_load %s : !m -> tensor<64xf32>
    kgpu.release %ch[%c] : !ring
    // expected-error @below {{expected a slot that the role has received and not released (because `again` waits for nothing), got place 0}}
    %t = kgpu.receive %ch[%c] again : !ring -> !m
    kgpu.end_role
  }
  return
}

// -----

// Nothing has waited for the next slot.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @again_too_early(%n: i32) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  kgpu.roles @fill warps 4 {
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %c = kgpu.cursor : !kgpu.cursor<2>
    %end = scf.for %i = %zero to %n step %one iter_args(%at = %c) -> (!kgpu.cursor<2>) : i32 {
      %s = kgpu.acquire %ch[%at] : !ring -> !m
      kgpu.local_store %v, %s : tensor<64xf32>, !m
      kgpu.commit %ch[%at] : !ring
      %next = kgpu.advance %at : !kgpu.cursor<2>
      scf.yield %next : !kgpu.cursor<2>
    }
    kgpu.end_role
  } @read warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %end = scf.for %i = %zero to %n step %one iter_args(%at = %c) -> (!kgpu.cursor<2>) : i32 {
      %s = kgpu.receive %ch[%at] : !ring -> !m
      %next = kgpu.advance %at : !kgpu.cursor<2>
      // expected-error @below {{expected a slot that the role has received and not released (because `again` waits for nothing), got place 1}}
      %t = kgpu.receive %ch[%next] again : !ring -> !m
      %x = kgpu.local_load %t : !m -> tensor<64xf32>
      kgpu.release %ch[%at] : !ring
      scf.yield %next : !kgpu.cursor<2>
    }
    kgpu.end_role
  }
  return
}

// -----

// Memory that was received again is read after the slot's release.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @again_read_too_late() {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @fill warps 4 {
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.acquire %ch[%c] : !ring -> !m
    kgpu.local_store %v, %s : tensor<64xf32>, !m
    kgpu.commit %ch[%c] : !ring
    kgpu.end_role
  } @read warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.receive %ch[%c] : !ring -> !m
    %t = kgpu.receive %ch[%c] again : !ring -> !m
    kgpu.release %ch[%c] : !ring
    // expected-error @below {{expected to read a slot between its receive and its release (because the producer may write it at any other time), got it after its release}}
    %x = kgpu.local_load %t : !m -> tensor<64xf32>
    kgpu.end_role
  }
  return
}

// -----

// Roles that take turns: this one has not received the slot, the other one has.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @again_of_the_other() {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @fill warps 4 {
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.acquire %ch[%c] : !ring -> !m
    kgpu.local_store %v, %s : tensor<64xf32>, !m
    kgpu.commit %ch[%c] : !ring
    kgpu.end_role
  } @one warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.receive %ch[%c] : !ring -> !m
    %x = kgpu.local_load %s : !m -> tensor<64xf32>
    kgpu.release %ch[%c] : !ring
    kgpu.end_role
  } @two warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    // expected-error @below {{expected a slot that the role has received and not released (because `again` waits for nothing), got place 0}}
    %s = kgpu.receive %ch[%c] again : !ring -> !m
    kgpu.end_role
  }
  return
}
