// Rules of kiln-verify-channels about one step or one role, each broken by a minimal program.
// test/python/compiler/test_verifier_rules.py requires such a program for every rule.
// RUN: kiln-opt %s --kiln-verify-channels -split-input-file -verify-diagnostics -allow-unregistered-dialect

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @fillers() {
  // expected-error @below {{expected 4 fillers (because that many warps commit a slot), got 2}}
  %ch = kgpu.channel threads fillers 2 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %s = kgpu.acquire %ch[%c] : !ring -> !m
    kgpu.local_store %v, %s : tensor<64xf32>, !m
    kgpu.commit %ch[%c] : !ring
    kgpu.end_role
  } @load warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.receive %ch[%c] : !ring -> !m
    %x = kgpu.local_load %s : !m -> tensor<64xf32>
    kgpu.release %ch[%c] : !ring
    kgpu.end_role
  }
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @readers() {
  // expected-error @below {{expected 4 readers (because that many warps release a slot), got 8}}
  %ch = kgpu.channel threads fillers 4 readers 8 : !ring
  kgpu.roles @store warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %s = kgpu.acquire %ch[%c] : !ring -> !m
    kgpu.local_store %v, %s : tensor<64xf32>, !m
    kgpu.commit %ch[%c] : !ring
    kgpu.end_role
  } @load warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.receive %ch[%c] : !ring -> !m
    %x = kgpu.local_load %s : !m -> tensor<64xf32>
    kgpu.release %ch[%c] : !ring
    kgpu.end_role
  }
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @own_copies_of_two_roles() {
  // expected-error @below {{expected one role that both fills and reads (because a thread can wait only for its own copies), got several roles}}
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %s = kgpu.acquire %ch[%c] : !ring -> !m
    kgpu.local_store %v, %s : tensor<64xf32>, !m
    kgpu.commit %ch[%c] : !ring
    kgpu.end_role
  } @load warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.receive %ch[%c] : !ring -> !m
    %x = kgpu.local_load %s : !m -> tensor<64xf32>
    kgpu.release %ch[%c] : !ring
    kgpu.end_role
  }
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @never_committed() {
  // expected-error @below {{expected role @store to commit each slot that it acquires (because its consumers would wait forever), got 0 of 1}}
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %s = kgpu.acquire %ch[%c] : !ring -> !m
    kgpu.local_store %v, %s : tensor<64xf32>, !m
    kgpu.end_role
  } @load warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.receive %ch[%c] : !ring -> !m
    %x = kgpu.local_load %s : !m -> tensor<64xf32>
    kgpu.release %ch[%c] : !ring
    kgpu.end_role
  }
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @never_released() {
  // expected-error @below {{expected role @load to release each slot that it receives (because its producer would wait forever), got 0 of 1}}
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %s = kgpu.acquire %ch[%c] : !ring -> !m
    kgpu.local_store %v, %s : tensor<64xf32>, !m
    kgpu.commit %ch[%c] : !ring
    kgpu.end_role
  } @load warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.receive %ch[%c] : !ring -> !m
    %x = kgpu.local_load %s : !m -> tensor<64xf32>
    kgpu.end_role
  }
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @never_filled() {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  // expected-error @below {{expected part #0 of the slot to be filled first, at least once (because a consumer reads it), got 0}}
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !m
  kgpu.release %ch[%c] : !ring
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @read_while_it_is_filled() {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  // expected-error @below {{expected to read a slot between its receive and its release (because the producer may write it at any other time), got it while the slot is being filled}}
  %x = kgpu.local_load %s : !m -> tensor<64xf32>
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !m
  kgpu.release %ch[%c] : !ring
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @read_behind_its_release() {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %v = arith.constant dense<1.0> : tensor<64xf32>
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  kgpu.local_store %v, %s : tensor<64xf32>, !m
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !m
  kgpu.release %ch[%c] : !ring
  // expected-error @below {{expected to read a slot between its receive and its release (because the producer may write it at any other time), got it after its release}}
  %x = kgpu.local_load %r : !m -> tensor<64xf32>
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @memory_from_elsewhere(%m: !m) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %v = arith.constant dense<1.0> : tensor<64xf32>
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  kgpu.local_store %v, %s : tensor<64xf32>, !m
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !m
  kgpu.release %ch[%c] : !ring
  // expected-error @below {{expected memory from a kgpu.alloc, or from an acquire or receive in its role (because its fills and reads are tracked from there), got memory from elsewhere}}
  %x = kgpu.local_load %m : !m -> tensor<64xf32>
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @channel_from_elsewhere(%ch: !ring) {
  %own = kgpu.channel threads fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  // expected-error @below {{expected the result of a kgpu.channel (because producers and consumers are matched through it), got a channel from elsewhere}}
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @effects_unknown() {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %v = arith.constant dense<1.0> : tensor<64xf32>
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  kgpu.local_store %v, %s : tensor<64xf32>, !m
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !m
  kgpu.release %ch[%c] : !ring
  %m = kgpu.alloc : !m
  // expected-error @below {{expected an op that declares whether it reads or writes memory (because each is allowed only in certain phases of a slot), got one without declared effects}}
  "elsewhere.touch"(%m) : (!m) -> ()
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @loop_that_stands(%n: i32) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %zero = arith.constant 0 : i32
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    %v = arith.constant dense<1.0> : tensor<64xf32>
    // expected-error @below {{expected a step of at least 1 (because what it does is counted), got 0}}
    %last = scf.for %i = %zero to %n step %zero iter_args(%c = %c0) -> (!kgpu.cursor<2>) : i32 {
      %s = kgpu.acquire %ch[%c] : !ring -> !m
      kgpu.local_store %v, %s : tensor<64xf32>, !m
      kgpu.commit %ch[%c] : !ring
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %next : !kgpu.cursor<2>
    }
    kgpu.end_role
  } @load warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.receive %ch[%c] : !ring -> !m
    %x = kgpu.local_load %s : !m -> tensor<64xf32>
    kgpu.release %ch[%c] : !ring
    kgpu.end_role
  }
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!ring = !kgpu.channel<2 x (!a)>
func.func @stored_where_copies_are_counted(%x: tensor<64x64xf16>) {
  %ch = kgpu.channel bytes fillers 1 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !a
  // expected-error @below {{expected a copy to fill this slot (because its mbarrier waits for the bytes that copies deliver), got a store}}
  kgpu.local_store %x, %s : tensor<64x64xf16>, !a
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !a
  kgpu.release %ch[%c] : !ring
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!ring = !kgpu.channel<2 x (!a)>
func.func @committed_without_a_fence(%x: tensor<64x64xf16>, %c0: tensor<64x64xf32>) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !a
  // expected-note @below {{the store}}
  kgpu.local_store %x, %s : tensor<64x64xf16>, !a
  // expected-error @below {{expected a kgpu.fence_async between the stores to this slot and its commit (because products and copies read through the async proxy, which does not see unfenced stores), got none}}
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !a
  %y = kgpu.warpgroup_mma %r, %r, %c0 : !a, !a -> tensor<64x64xf32>
  %z = kgpu.mma_wait %y pending 0 : tensor<64x64xf32>
  kgpu.release %ch[%c] : !ring
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!ring = !kgpu.channel<2 x (!a)>
func.func @released_while_a_product_reads(%x: tensor<64x64xf16>, %c0: tensor<64x64xf32>) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !a
  kgpu.local_store %x, %s : tensor<64x64xf16>, !a
  kgpu.fence_async
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !a
  // expected-note @below {{what reads it}}
  %y = kgpu.warpgroup_mma %r, %r, %c0 : !a, !a -> tensor<64x64xf32>
  // expected-error @below {{expected a wait for the product that reads this slot first (because the release lets the producer overwrite it), got one still in flight}}
  kgpu.release %ch[%c] : !ring
  %z = kgpu.mma_wait %y pending 0 : tensor<64x64xf32>
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @read_without_a_fence(%x: tensor<64x64xf16>, %c0: tensor<64x64xf32>) {
  %m = kgpu.alloc {offset = 0 : i64} : !a
  // expected-note @below {{the store}}
  kgpu.local_store %x, %m : tensor<64x64xf16>, !a
  // expected-error @below {{expected a kgpu.fence_async between a store to this memory and this (because products and copies read through the async proxy, which does not see unfenced stores), got none}}
  %y = kgpu.warpgroup_mma %m, %m, %c0 : !a, !a -> tensor<64x64xf32>
  %z = kgpu.mma_wait %y pending 0 : tensor<64x64xf32>
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!ring = !kgpu.channel<2 x (!a)>
func.func @two_roles_that_copy(%p: !tile.ptr<f16>, %n: i64) {
  %one = arith.constant 1 : i64
  %i = arith.constant 0 : i32
  %desc = tile.make_desc %p, shape [%n, %n] strides [%n, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %map = kgpu.tensor_map %desc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  // expected-error @below {{expected one role that fills slots (because the mbarrier expects the bytes of one producer's copies), got 2}}
  %ch = kgpu.channel bytes fillers 1 readers 4 : !ring
  kgpu.roles @one warps 1 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.acquire %ch[%c] : !ring -> !a
    kgpu.copy_in %map[%i, %i] to %s of %ch[%c] : !a, !ring
    kgpu.commit %ch[%c] : !ring
    kgpu.end_role
  } @other warps 1 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.acquire %ch[%c] : !ring -> !a
    kgpu.copy_in %map[%i, %i] to %s of %ch[%c] : !a, !ring
    kgpu.commit %ch[%c] : !ring
    kgpu.end_role
  } @load warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.receive %ch[%c] : !ring -> !a
    %x = kgpu.local_load %s : !a -> tensor<64x64xf16>
    kgpu.release %ch[%c] : !ring
    kgpu.end_role
  }
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @commits_what_it_has_not_acquired() {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    // expected-error @below {{expected an acquire of the slot first (because consumers may still be reading it), got none}}
    kgpu.commit %ch[%c] : !ring
    kgpu.end_role
  } @load warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.receive %ch[%c] : !ring -> !m
    %x = kgpu.local_load %s : !m -> tensor<64xf32>
    kgpu.release %ch[%c] : !ring
    kgpu.end_role
  }
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @releases_what_it_has_not_received() {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %s = kgpu.acquire %ch[%c] : !ring -> !m
    kgpu.local_store %v, %s : tensor<64xf32>, !m
    kgpu.commit %ch[%c] : !ring
    kgpu.end_role
  } @load warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    // expected-error @below {{expected a receive of the slot first (because a release without one lets the producer overwrite unread data), got none}}
    kgpu.release %ch[%c] : !ring
    kgpu.end_role
  }
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copies_out_without_a_wait(%p: !tile.ptr<f16>, %n: i64) {
  %one = arith.constant 1 : i64
  %i = arith.constant 0 : i32
  %desc = tile.make_desc %p, shape [%n, %n] strides [%n, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %map = kgpu.tensor_map %desc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %m = kgpu.alloc : !a
  // expected-error @below {{expected a kgpu.copy_out_wait for this before its role ends (because the copy may still be reading its memory), got none}}
  kgpu.copy_out %m to %map[%i, %i] : !a
  return
}

// -----

// The second copy is of the turn that has begun; the first is to be in memory when its turn ends.
!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @ends_a_turn_early(%p: !tile.ptr<f16>, %n: i64, %turns: !tile.ptr<i32>) {
  %one = arith.constant 1 : i64
  %i = arith.constant 0 : i32
  %desc = tile.make_desc %p, shape [%n, %n] strides [%n, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %map = kgpu.tensor_map %desc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %m = kgpu.alloc : !a
  // expected-note @below {{the copy}}
  kgpu.copy_out %m by "fadd" to %map[%i, %i] : !a
  kgpu.copy_out_wait read 0
  %mine = tile.atomic_rmw add acquire gpu %turns, %i : !tile.ptr<i32>, i32
  kgpu.copy_out %m by "fadd" to %map[%i, %i] : !a
  kgpu.copy_out_wait read 0
  // expected-error @below {{expected a kgpu.copy_out_wait for copies before the last acquire (because whoever acquires what this releases expects them in global memory), got one that may not be there}}
  %other = tile.atomic_rmw xchg release gpu %turns, %mine : !tile.ptr<i32>, i32
  return
}

// -----

// No turn can have begun after the role's last one.
!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @ends_the_last_turn_early(%p: !tile.ptr<f16>, %n: i64, %turns: !tile.ptr<i32>) {
  %one = arith.constant 1 : i64
  %i = arith.constant 0 : i32
  %desc = tile.make_desc %p, shape [%n, %n] strides [%n, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %map = kgpu.tensor_map %desc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %m = kgpu.alloc : !a
  %mine = tile.atomic_rmw add acquire gpu %turns, %i : !tile.ptr<i32>, i32
  kgpu.copy_out %m by "fadd" to %map[%i, %i] : !a
  kgpu.copy_out_wait read 0
  // expected-error @below {{expected a kgpu.copy_out_wait for all copies before the role's last turn ends (because no other turn may have begun), got one that may not be there}}
  %other = tile.atomic_rmw xchg release gpu %turns, %mine {kgpu.passes_turn} : !tile.ptr<i32>, i32
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @ends_a_turn_later(%p: !tile.ptr<f16>, %n: i64, %turns: !tile.ptr<i32>) {
  %one = arith.constant 1 : i64
  %i = arith.constant 0 : i32
  %desc = tile.make_desc %p, shape [%n, %n] strides [%n, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %map = kgpu.tensor_map %desc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %m = kgpu.alloc : !a
  kgpu.copy_out %m by "fadd" to %map[%i, %i] : !a
  kgpu.copy_out_wait read 0
  %mine = tile.atomic_rmw add acquire gpu %turns, %i : !tile.ptr<i32>, i32
  kgpu.copy_out %m by "fadd" to %map[%i, %i] : !a
  kgpu.copy_out_wait read 0
  kgpu.copy_out_wait 1
  %other = tile.atomic_rmw xchg release gpu %turns, %mine : !tile.ptr<i32>, i32
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!ring = !kgpu.channel<2 x (!a)>
func.func @copies_twice(%p: !tile.ptr<f16>, %n: i64) {
  %one = arith.constant 1 : i64
  %i = arith.constant 0 : i32
  %desc = tile.make_desc %p, shape [%n, %n] strides [%n, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %map = kgpu.tensor_map %desc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %ch = kgpu.channel bytes fillers 1 readers 4 : !ring
  kgpu.roles @one warps 1 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.acquire %ch[%c] : !ring -> !a
    kgpu.copy_in %map[%i, %i] to %s of %ch[%c] : !a, !ring
    kgpu.copy_in %map[%i, %i] to %s of %ch[%c] : !a, !ring
    // expected-error @below {{expected part #0 of the slot to be filled first, by exactly one copy (because the mbarrier expects the bytes of one copy of each part), got 2}}
    kgpu.commit %ch[%c] : !ring
    kgpu.end_role
  } @load warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.receive %ch[%c] : !ring -> !a
    %x = kgpu.local_load %s : !a -> tensor<64x64xf16>
    kgpu.release %ch[%c] : !ring
    kgpu.end_role
  }
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
func.func @fills_after_its_commit() {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %s = kgpu.acquire %ch[%c] : !ring -> !m
    kgpu.local_store %v, %s : tensor<64xf32>, !m
    kgpu.commit %ch[%c] : !ring
    // expected-error @below {{expected to fill a slot between its acquire and its commit (because consumers may read it at any other time), got it after its commit}}
    kgpu.local_store %v, %s : tensor<64xf32>, !m
    kgpu.end_role
  } @load warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %s = kgpu.receive %ch[%c] : !ring -> !m
    %x = kgpu.local_load %s : !m -> tensor<64xf32>
    kgpu.release %ch[%c] : !ring
    kgpu.end_role
  }
  return
}
