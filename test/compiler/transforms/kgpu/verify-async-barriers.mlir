// The verifier finds what is missing for roles, the copy engine and tensor cores.
// RUN: kiln-opt %s --split-input-file --kiln-verify-barriers -verify-diagnostics

#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
func.func @removed_in_role() {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  kgpu.roles @one warps 4 {
    %x = arith.constant dense<1.0> : tensor<128xf32, #t>
    // expected-note @below {{the earlier access}}
    kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    // expected-error @below {{expected a barrier between this and an earlier access (because both may access the same bytes, and one writes them), got a path without one}}
    %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
    kgpu.end_role
  }
  return
}

// -----

// A role's own barrier includes no thread outside the role: neither those that wrote before nor those that read after.
#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
func.func @barrier_of_a_role_alone(%x: tensor<128xf32, #t>) -> tensor<128xf32, #t> {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  // expected-note @below {{the earlier access}}
  kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  kgpu.roles @one warps 4 {
    kgpu.barrier role
    // expected-error @below {{expected a barrier between this and an earlier access}}
    %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
    kgpu.barrier role
    // expected-note @below {{the earlier access}}
    kgpu.local_store %y, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    kgpu.barrier role
    kgpu.end_role
  }
  // expected-error @below {{expected a barrier between this and an earlier access}}
  %z = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  return %z : tensor<128xf32, #t>
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
func.func @memory_of_two_roles() {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  kgpu.roles @one warps 4 {
    %x = arith.constant dense<1.0> : tensor<128xf32, #t>
    // expected-note @below {{in the other role}}
    kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    kgpu.end_role
  } @other warps 4 {
    // expected-error @below {{expected no other role to touch the same shared memory (because roles run concurrently, and only channels order them), got such an access}}
    %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
    kgpu.end_role
  }
  return
}

// -----

func.func @array_of_two_roles(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %x: f32) {
  kgpu.roles @one warps 4 {
    // expected-note @below {{in the other role}}
    %y = tile.load %p : !tile.ptr<f32> -> f32
    kgpu.end_role
  } @other warps 4 {
    // expected-error @below {{expected no other role to touch the same array, unless the arrays are known to be disjoint (because}}
    tile.store %q, %x : !tile.ptr<f32>, f32
    kgpu.end_role
  }
  return
}

// -----

func.func @disjoint_arrays_of_two_roles(%p: !tile.ptr<f32> {tile.disjoint}, %q: !tile.ptr<f32>, %x: f32) {
  kgpu.roles @one warps 4 {
    %y = tile.load %p : !tile.ptr<f32> -> f32
    kgpu.end_role
  } @other warps 4 {
    tile.store %q, %x : !tile.ptr<f32>, f32
    kgpu.end_role
  }
  return
}

// -----

// Pointers are followed through shared memory, to what was stored there.
#t = #layout.map<blocked [128] vector 1 warps 4>
#u = #layout.map<blocked [128] vector 4 warps 4>
#m = #layout.map<row_major [128]>
func.func @pointers_through_shared_memory(%p: !tile.ptr<f32> {tile.disjoint}, %q: !tile.ptr<f32>) {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x!tile.ptr<f32>, #m>
  kgpu.roles @one warps 4 {
    %y = tile.load %p : !tile.ptr<f32> -> f32
    kgpu.end_role
  } @other warps 4 {
    %x = arith.constant dense<1.0> : tensor<128xf32, #u>
    %many = tile.splat %q : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
    kgpu.local_store %many, %a : tensor<128x!tile.ptr<f32>, #t>, !kgpu.mem<128x!tile.ptr<f32>, #m>
    kgpu.barrier role
    %turned = kgpu.local_load %a : !kgpu.mem<128x!tile.ptr<f32>, #m> -> tensor<128x!tile.ptr<f32>, #u>
    tile.store %turned, %x : tensor<128x!tile.ptr<f32>, #u>, tensor<128xf32, #u>
    kgpu.end_role
  }
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>
#u = #layout.map<blocked [128] vector 4 warps 4>
#m = #layout.map<row_major [128]>
func.func @one_of_two_arrays_through_shared_memory(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>) {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x!tile.ptr<f32>, #m>
  kgpu.roles @one warps 4 {
    // expected-note @below {{in the other role}}
    %y = tile.load %p : !tile.ptr<f32> -> f32
    kgpu.end_role
  } @other warps 4 {
    %x = arith.constant dense<1.0> : tensor<128xf32, #u>
    %many = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
    kgpu.local_store %many, %a : tensor<128x!tile.ptr<f32>, #t>, !kgpu.mem<128x!tile.ptr<f32>, #m>
    kgpu.barrier role
    %turned = kgpu.local_load %a : !kgpu.mem<128x!tile.ptr<f32>, #m> -> tensor<128x!tile.ptr<f32>, #u>
    // expected-error @below {{expected no other role to touch the same array, unless the arrays are known to be disjoint (because}}
    tile.store %turned, %x : tensor<128x!tile.ptr<f32>, #u>, tensor<128xf32, #u>
    kgpu.end_role
  }
  return
}

// -----

// The copy engine reads through one role's map what the other role writes.
#m = #layout.map<swizzled [64, 64] element 2 bytes 128>
func.func @copied_array_of_two_roles(%pa: !tile.ptr<f16>, %m: i64, %s: i64, %i: i32, %x: f16) {
  %one = arith.constant 1 : i64
  %da = tile.make_desc %pa, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %ma = kgpu.tensor_map %da box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %ch = kgpu.channel bytes fillers 1 readers 4 {offset = 8192 : i64} : !kgpu.channel<2 x (!kgpu.mem<64x64xf16, #m>)>
  kgpu.roles @load warps 1 {
    %p = kgpu.cursor : !kgpu.cursor<2>
    %slot = kgpu.acquire %ch[%p] : !kgpu.channel<2 x (!kgpu.mem<64x64xf16, #m>)> -> !kgpu.mem<64x64xf16, #m>
    // expected-note @below {{in the other role}}
    kgpu.copy_in %ma[%i, %i] to %slot of %ch[%p] : !kgpu.mem<64x64xf16, #m>, !kgpu.channel<2 x (!kgpu.mem<64x64xf16, #m>)>
    kgpu.end_role
  } @other warps 4 {
    // expected-error @below {{expected no other role to touch the same array}}
    tile.store %pa, %x : !tile.ptr<f16>, f16
    kgpu.end_role
  }
  return
}

// -----

// The same in one role: only the receiver knows that a load has finished, and a load does not see stores of threads.
#m = #layout.map<swizzled [64, 64] element 2 bytes 128>
func.func @copied_array(%pa: !tile.ptr<f16>, %m: i64, %s: i64, %i: i32, %x: f16) {
  %one = arith.constant 1 : i64
  %da = tile.make_desc %pa, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %ma = kgpu.tensor_map %da box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %ch = kgpu.channel bytes fillers 1 readers 4 {offset = 8192 : i64} : !kgpu.channel<2 x (!kgpu.mem<64x64xf16, #m>)>
  %p = kgpu.cursor : !kgpu.cursor<2>
  // expected-note @below {{the earlier access}}
  tile.store %pa, %x : !tile.ptr<f16>, f16
  kgpu.fence_async
  kgpu.barrier cta
  %slot = kgpu.acquire %ch[%p] : !kgpu.channel<2 x (!kgpu.mem<64x64xf16, #m>)> -> !kgpu.mem<64x64xf16, #m>
  // expected-error @below {{expected known disjoint arrays between this and an earlier access (because no fence here makes the threads' writes to global memory visible to the copy engine), got a path without one}}
  // expected-note @below {{the earlier access}}
  kgpu.copy_in %ma[%i, %i] to %slot of %ch[%p] : !kgpu.mem<64x64xf16, #m>, !kgpu.channel<2 x (!kgpu.mem<64x64xf16, #m>)>
  kgpu.barrier cta
  // expected-error @below {{expected a wait between this and an earlier access (because the earlier access is still in flight, and one of the two writes), got a path without one}}
  tile.store %pa, %x : !tile.ptr<f16>, f16
  return
}

// -----

#rows = #layout.map<swizzled [64, 64] element 2 bytes 128>
#t = #layout.map<blocked [64, 64] vector 8 warps 4>
#acc = #layout.map<wgmma_acc [64, 64] groups 1>
func.func @no_fence(%x: tensor<64x64xf16, #t>, %c: tensor<64x64xf32, #acc>) {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  // expected-note @below {{the earlier access}}
  kgpu.local_store %x, %a : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
  kgpu.barrier cta
  // expected-error @below {{expected a kgpu.fence_async followed by a barrier between this and an earlier access (because it reads what threads wrote through the async proxy, which does not see unfenced stores), got a path without one}}
  %d = kgpu.warpgroup_mma %a, %a, %c : !kgpu.mem<64x64xf16, #rows>, !kgpu.mem<64x64xf16, #rows>
    -> tensor<64x64xf32, #acc>
  %e = kgpu.mma_wait %d pending 0 : tensor<64x64xf32, #acc>
  return
}

// -----

// After the barrier it is too late; in one branch, it is for that branch only.
#rows = #layout.map<swizzled [64, 64] element 2 bytes 128>
#t = #layout.map<blocked [64, 64] vector 8 warps 4>
#acc = #layout.map<wgmma_acc [64, 64] groups 1>
func.func @late_fence(%x: tensor<64x64xf16, #t>, %c: tensor<64x64xf32, #acc>, %some: i1) {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  %b = kgpu.alloc {offset = 8192 : i64} : !kgpu.mem<64x64xf16, #rows>
  // expected-note @below {{the earlier access}}
  kgpu.local_store %x, %a : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
  kgpu.barrier cta
  kgpu.fence_async
  // expected-note @below {{the earlier access}}
  kgpu.local_store %x, %b : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
  // expected-error @below {{expected a kgpu.fence_async followed by a barrier between}}
  %d = kgpu.warpgroup_mma %a, %a, %c : !kgpu.mem<64x64xf16, #rows>, !kgpu.mem<64x64xf16, #rows>
    -> tensor<64x64xf32, #acc>
  scf.if %some {
    kgpu.fence_async
  }
  kgpu.barrier cta
  // expected-error @below {{expected a kgpu.fence_async followed by a barrier between}}
  %e = kgpu.warpgroup_mma %b, %b, %d : !kgpu.mem<64x64xf16, #rows>, !kgpu.mem<64x64xf16, #rows>
    -> tensor<64x64xf32, #acc>
  %f = kgpu.mma_wait %e pending 0 : tensor<64x64xf32, #acc>
  return
}

// -----

// A barrier is not a wait: the operand is read until the wait that leaves no more pending than were started after it.
#rows = #layout.map<swizzled [64, 64] element 2 bytes 128>
#t = #layout.map<blocked [64, 64] vector 8 warps 4>
#acc = #layout.map<wgmma_acc [64, 64] groups 1>
func.func @written_too_early(%x: tensor<64x64xf16, #t>, %c: tensor<64x64xf32, #acc>) {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  // expected-note @below {{the earlier access}}
  %d = kgpu.warpgroup_mma %a, %a, %c : !kgpu.mem<64x64xf16, #rows>, !kgpu.mem<64x64xf16, #rows>
    -> tensor<64x64xf32, #acc>
  %e = kgpu.mma_wait %d pending 1 : tensor<64x64xf32, #acc>
  kgpu.barrier cta
  // expected-error @below {{expected a wait between this and an earlier access}}
  kgpu.local_store %x, %a : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
  %f = kgpu.mma_wait %e pending 0 : tensor<64x64xf32, #acc>
  return
}

// -----

// Around a loop, one product was started after the previous iteration's, and none after the last one's.
#rows = #layout.map<swizzled [64, 64] element 2 bytes 128>
#t = #layout.map<blocked [64, 64] vector 8 warps 4>
#acc = #layout.map<wgmma_acc [64, 64] groups 1>
func.func @around_a_loop(%x: tensor<64x64xf16, #t>, %c: tensor<64x64xf32, #acc>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  %r = scf.for %i = %zero to %n step %one iter_args(%s = %c) -> tensor<64x64xf32, #acc> : i32 {
    // expected-note @below {{the earlier access}}
    %d = kgpu.warpgroup_mma %a, %a, %s : !kgpu.mem<64x64xf16, #rows>, !kgpu.mem<64x64xf16, #rows>
      -> tensor<64x64xf32, #acc>
    %e = kgpu.mma_wait %d pending 1 : tensor<64x64xf32, #acc>
    scf.yield %e : tensor<64x64xf32, #acc>
  }
  kgpu.barrier cta
  // expected-error @below {{expected a wait between this and an earlier access}}
  kgpu.local_store %x, %a : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
  %f = kgpu.mma_wait %r pending 0 : tensor<64x64xf32, #acc>
  return
}

// -----

// One thread has waited; the others need a barrier.
#rows = #layout.map<swizzled [64, 64] element 2 bytes 128>
#t = #layout.map<blocked [64, 64] vector 8 warps 4>
func.func @only_one_waited(%x: tensor<64x64xf16, #t>, %pc: !tile.ptr<f16>, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  // expected-note @below {{the earlier access}}
  kgpu.copy_out %a to %mc[%i, %i] : !kgpu.mem<64x64xf16, #rows>
  kgpu.barrier cta
  kgpu.copy_out_wait read 0
  // expected-error @below {{expected a barrier between this and an earlier access}}
  kgpu.local_store %x, %a : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
  return
}

// -----

// That the memory has been read says nothing about the array.
#rows = #layout.map<swizzled [64, 64] element 2 bytes 128>
func.func @array_not_yet_written(%pc: !tile.ptr<f16>, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  // expected-note @below {{the earlier access}}
  kgpu.copy_out %a to %mc[%i, %i] : !kgpu.mem<64x64xf16, #rows>
  kgpu.copy_out_wait read 0
  kgpu.barrier cta
  // expected-error @below {{expected a wait between this and an earlier access}}
  %x = tile.load %pc : !tile.ptr<f16> -> f16
  return
}

// -----

#rows = #layout.map<swizzled [64, 64] element 2 bytes 128>
func.func @array_written(%pc: !tile.ptr<f16>, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  kgpu.copy_out %a to %mc[%i, %i] : !kgpu.mem<64x64xf16, #rows>
  kgpu.copy_out_wait 0
  kgpu.barrier cta
  %x = tile.load %pc : !tile.ptr<f16> -> f16
  return
}

// -----

// Whoever acquires the flag reads the array.
#rows = #layout.map<swizzled [64, 64] element 2 bytes 128>
func.func @released_early(%pc: !tile.ptr<f16>, %flag: !tile.ptr<i32> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  // expected-note @below {{the earlier access}}
  kgpu.copy_out %a to %mc[%i, %i] : !kgpu.mem<64x64xf16, #rows>
  kgpu.copy_out_wait read 0
  // expected-error @below {{expected a wait between this and an earlier access (because this releases what the program has written, and the copy is still in flight), got a path without one}}
  %old = tile.atomic_rmw add release gpu %flag, %i : !tile.ptr<i32>, i32
  return
}

// -----

// Two copies to one array, one after the other, may complete in either order.
#rows = #layout.map<swizzled [64, 64] element 2 bytes 128>
func.func @copies_overtake(%pc: !tile.ptr<f16>, %m: i64, %s: i64, %i: i32, %j: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  // expected-note @below {{the earlier access}}
  kgpu.copy_out %a to %mc[%i, %i] : !kgpu.mem<64x64xf16, #rows>
  kgpu.copy_out_wait read 0
  // expected-error @below {{expected a wait between this and an earlier access}}
  kgpu.copy_out %a to %mc[%j, %j] : !kgpu.mem<64x64xf16, #rows>
  kgpu.copy_out_wait read 0
  return
}

// -----

// When a block ends, its shared memory is freed.
#rows = #layout.map<swizzled [64, 64] element 2 bytes 128>
func.func @ends_too_early(%pc: !tile.ptr<f16>, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  kgpu.roles @one warps 4 {
    // expected-note @below {{the earlier access}}
    kgpu.copy_out %a to %mc[%i, %i] : !kgpu.mem<64x64xf16, #rows>
    // expected-error @below {{expected a wait between this and an earlier access (because a copy may still be reading shared memory), got a path without one}}
    kgpu.end_role
  }
  kgpu.copy_out_wait read 0
  return
}

// -----

func.func @barrier_in_role() {
  kgpu.roles @one warps 4 {
    // expected-error @below {{expected a barrier of the role's own threads inside a role (because threads of other roles never reach it), got one of the cta}}
    kgpu.barrier cta
    kgpu.end_role
  }
  return
}

// -----

func.func @barrier_of_no_role() {
  // expected-error @below {{expected a barrier of the cta or the cluster outside roles (because no role's threads are defined there), got one of the role}}
  kgpu.barrier role
  return
}

// -----

// The threads of one role in all CTAs have no common barrier.
module attributes {kgpu.cluster = 2 : i32} {
  func.func @cluster_in_role() {
    kgpu.roles @one warps 4 {
      // expected-error @below {{expected a barrier of the role's own threads inside a role (because threads of other roles never reach it), got one of the cluster}}
      tile.barrier
      kgpu.end_role
    }
    return
  }
}

// -----

// In a cluster as elsewhere, the barrier comes after the fence.
#t = #layout.map<digits [128, 64] reg (0, 1) (0, 2) (0, 4) (16, 0) (32, 0) lane (0, 8) (0, 16) (0, 32) (1, 0) (2, 0) warp (4, 0) (8, 0) cta (64, 0)>
#rows = #layout.map<digits [128, 64] cta (64, 0) offset (0, 1) (0, 2) (0, 4) (0, 8) (0, 16) (0, 32) (1, 8) (2, 16) (4, 32) (8, 0) (16, 0) (32, 0)>
module attributes {kgpu.cluster = 2 : i32} {
  func.func @piece_of_a_cluster(%pc: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
    %one = arith.constant 1 : i64
    %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
    kgpu.roles @store warps 4 {
      %x = arith.constant dense<1.0> : tensor<128x64xf16, #t>
      %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x64xf16, #rows>
      // expected-note @below {{the earlier access}}
      kgpu.local_store %x, %out : tensor<128x64xf16, #t>, !kgpu.mem<128x64xf16, #rows>
      kgpu.barrier role
      kgpu.fence_async
      // expected-error @below {{expected a kgpu.fence_async followed by a barrier between this and an earlier access}}
      kgpu.copy_out %out to %mc[%i, %i] : !kgpu.mem<128x64xf16, #rows>
      kgpu.copy_out_wait 0
      kgpu.end_role
    }
    return
  }
}

// -----

// For data of a single group a barrier of its threads is enough, in both directions.
#rows = #layout.map<swizzled [128, 64] element 2 bytes 128>
#acc = #layout.map<wgmma_acc [128, 64] groups 2>
func.func @by_groups(%pc: !tile.ptr<f16> {tile.disjoint}, %pd: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  %dd = tile.make_desc %pd, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %md = kgpu.tensor_map %dd box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  kgpu.roles @multiply groups 2 warps 4 {
    %x = arith.constant dense<1.0> : tensor<128x64xf16, #acc>
    %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x64xf16, #rows>
    kgpu.local_store %x, %out : tensor<128x64xf16, #acc>, !kgpu.mem<128x64xf16, #rows>
    kgpu.fence_async
    kgpu.barrier group
    kgpu.copy_out %out to %mc[%i, %i] by_group : !kgpu.mem<128x64xf16, #rows>
    kgpu.copy_out_wait read 0
    kgpu.barrier group
    kgpu.local_store %x, %out : tensor<128x64xf16, #acc>, !kgpu.mem<128x64xf16, #rows>
    kgpu.fence_async
    kgpu.barrier group
    kgpu.copy_out %out to %md[%i, %i] by_group : !kgpu.mem<128x64xf16, #rows>
    kgpu.copy_out_wait 0
    kgpu.end_role
  }
  return
}

// -----

// A group's barrier does not order what the other group did: columns,
#rows = #layout.map<swizzled [128, 64] element 2 bytes 128>
#cols = #layout.map<digits [128, 64] reg (0, 1) (0, 2) (0, 4) (32, 0) (64, 0) lane (0, 8) (0, 16) (1, 0) (2, 0) (4, 0) warp (8, 0) (16, 0) group (0, 32)>
func.func @columns_of_groups(%pc: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  kgpu.roles @multiply groups 2 warps 4 {
    %x = arith.constant dense<1.0> : tensor<128x64xf16, #cols>
    %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x64xf16, #rows>
    // expected-note @below {{the earlier access}}
    kgpu.local_store %x, %out : tensor<128x64xf16, #cols>, !kgpu.mem<128x64xf16, #rows>
    kgpu.fence_async
    kgpu.barrier group
    // expected-error @below {{expected a barrier between this and an earlier access}}
    kgpu.copy_out %out to %mc[%i, %i] by_group : !kgpu.mem<128x64xf16, #rows>
    kgpu.copy_out_wait 0
    kgpu.end_role
  }
  return
}

// -----

// every second row,
#rows = #layout.map<swizzled [128, 64] element 2 bytes 128>
#odd = #layout.map<digits [128, 64] reg (0, 1) (0, 2) (0, 4) (32, 0) (64, 0) lane (0, 8) (0, 16) (0, 32) (2, 0) (4, 0) warp (8, 0) (16, 0) group (1, 0)>
func.func @odd_rows_of_groups(%pc: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  kgpu.roles @multiply groups 2 warps 4 {
    %x = arith.constant dense<1.0> : tensor<128x64xf16, #odd>
    %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x64xf16, #rows>
    // expected-note @below {{the earlier access}}
    kgpu.local_store %x, %out : tensor<128x64xf16, #odd>, !kgpu.mem<128x64xf16, #rows>
    kgpu.fence_async
    kgpu.barrier group
    // expected-error @below {{expected a barrier between this and an earlier access}}
    kgpu.copy_out %out to %mc[%i, %i] by_group : !kgpu.mem<128x64xf16, #rows>
    kgpu.copy_out_wait 0
    kgpu.end_role
  }
  return
}

// -----

// what the thread of one group copies for all.
#rows = #layout.map<swizzled [128, 64] element 2 bytes 128>
#acc = #layout.map<wgmma_acc [128, 64] groups 2>
func.func @copied_by_one(%pc: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  kgpu.roles @multiply groups 2 warps 4 {
    %x = arith.constant dense<1.0> : tensor<128x64xf16, #acc>
    %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x64xf16, #rows>
    // expected-note @below {{the earlier access}}
    kgpu.local_store %x, %out : tensor<128x64xf16, #acc>, !kgpu.mem<128x64xf16, #rows>
    kgpu.fence_async
    kgpu.barrier group
    // expected-error @below {{expected a barrier between this and an earlier access}}
    kgpu.copy_out %out to %mc[%i, %i] : !kgpu.mem<128x64xf16, #rows>
    kgpu.copy_out_wait 0
    kgpu.end_role
  }
  return
}

// -----

// The fence is missing; it comes after the barrier.
#rows = #layout.map<swizzled [128, 64] element 2 bytes 128>
#acc = #layout.map<wgmma_acc [128, 64] groups 2>
func.func @unfenced(%pc: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  kgpu.roles @multiply groups 2 warps 4 {
    %x = arith.constant dense<1.0> : tensor<128x64xf16, #acc>
    %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x64xf16, #rows>
    // expected-note @below {{the earlier access}}
    kgpu.local_store %x, %out : tensor<128x64xf16, #acc>, !kgpu.mem<128x64xf16, #rows>
    kgpu.barrier group
    // expected-error @below {{expected a kgpu.fence_async followed by a barrier between this and an earlier access}}
    kgpu.copy_out %out to %mc[%i, %i] by_group : !kgpu.mem<128x64xf16, #rows>
    kgpu.copy_out_wait 0
    kgpu.end_role
  }
  return
}

// -----

#rows = #layout.map<swizzled [128, 64] element 2 bytes 128>
#acc = #layout.map<wgmma_acc [128, 64] groups 2>
func.func @fenced_too_late(%pc: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  kgpu.roles @multiply groups 2 warps 4 {
    %x = arith.constant dense<1.0> : tensor<128x64xf16, #acc>
    %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x64xf16, #rows>
    // expected-note @below {{the earlier access}}
    kgpu.local_store %x, %out : tensor<128x64xf16, #acc>, !kgpu.mem<128x64xf16, #rows>
    kgpu.barrier group
    kgpu.fence_async
    // expected-error @below {{expected a kgpu.fence_async followed by a barrier between this and an earlier access}}
    kgpu.copy_out %out to %mc[%i, %i] by_group : !kgpu.mem<128x64xf16, #rows>
    kgpu.copy_out_wait 0
    kgpu.end_role
  }
  return
}

// -----

// One thread of each group has waited; the others of its group need a barrier after that.
#rows = #layout.map<swizzled [128, 64] element 2 bytes 128>
#acc = #layout.map<wgmma_acc [128, 64] groups 2>
func.func @only_one_waited(%pc: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  kgpu.roles @multiply groups 2 warps 4 {
    %x = arith.constant dense<1.0> : tensor<128x64xf16, #acc>
    %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x64xf16, #rows>
    kgpu.local_store %x, %out : tensor<128x64xf16, #acc>, !kgpu.mem<128x64xf16, #rows>
    kgpu.fence_async
    kgpu.barrier group
    // expected-note @below {{the earlier access}}
    kgpu.copy_out %out to %mc[%i, %i] by_group : !kgpu.mem<128x64xf16, #rows>
    kgpu.copy_out_wait read 0
    // expected-error @below {{expected a barrier between this and an earlier access}}
    kgpu.local_store %x, %out : tensor<128x64xf16, #acc>, !kgpu.mem<128x64xf16, #rows>
    kgpu.copy_out_wait 0
    kgpu.end_role
  }
  return
}

// -----

#rows = #layout.map<swizzled [128, 64] element 2 bytes 128>
#acc = #layout.map<wgmma_acc [128, 64] groups 2>
func.func @waited_too_late(%pc: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  kgpu.roles @multiply groups 2 warps 4 {
    %x = arith.constant dense<1.0> : tensor<128x64xf16, #acc>
    %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x64xf16, #rows>
    kgpu.local_store %x, %out : tensor<128x64xf16, #acc>, !kgpu.mem<128x64xf16, #rows>
    kgpu.fence_async
    kgpu.barrier group
    // expected-note @below {{the earlier access}}
    kgpu.copy_out %out to %mc[%i, %i] by_group : !kgpu.mem<128x64xf16, #rows>
    kgpu.barrier group
    kgpu.copy_out_wait read 0
    // expected-error @below {{expected a barrier between this and an earlier access}}
    kgpu.local_store %x, %out : tensor<128x64xf16, #acc>, !kgpu.mem<128x64xf16, #rows>
    kgpu.copy_out_wait 0
    kgpu.end_role
  }
  return
}

// -----

// Copies to one array by threads of two groups are unordered.
#rows = #layout.map<swizzled [128, 64] element 2 bytes 128>
#acc = #layout.map<wgmma_acc [128, 64] groups 2>
func.func @two_copies(%pc: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  kgpu.roles @multiply groups 2 warps 4 {
    %x = arith.constant dense<1.0> : tensor<128x64xf16, #acc>
    %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x64xf16, #rows>
    kgpu.local_store %x, %out : tensor<128x64xf16, #acc>, !kgpu.mem<128x64xf16, #rows>
    kgpu.fence_async
    kgpu.barrier group
    // expected-note @below {{the earlier access}}
    kgpu.copy_out %out to %mc[%i, %i] by_group : !kgpu.mem<128x64xf16, #rows>
    // expected-error @below {{expected a wait between this and an earlier access}}
    kgpu.copy_out %out to %mc[%i, %i] by_group : !kgpu.mem<128x64xf16, #rows>
    kgpu.copy_out_wait 0
    kgpu.end_role
  }
  return
}

// -----

// A result that replaces an addend in its slot: threads hold other elements than they read before, so all of a group
// must have read, and all must have written before the copy begins.
#rows = #layout.map<swizzled [64, 64] element 2 bytes 128>
#acc = #layout.map<wgmma_acc [64, 64] groups 1>
!m = !kgpu.mem<64x64xf16, #rows>
!one = !kgpu.channel<1 x (!m)>
func.func @replaced_before_it_is_read(%pc: !tile.ptr<f16> {tile.disjoint}, %po: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %do = tile.make_desc %po, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %mo = kgpu.tensor_map %do box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %ch = kgpu.channel bytes fillers 1 readers 4 {offset = 0 : i64} : !one
  kgpu.roles @load warps 1 {
    %c = kgpu.cursor : !kgpu.cursor<1>
    %a = kgpu.acquire %ch[%c] : !one -> !m
    kgpu.copy_in %mc[%i, %i] to %a of %ch[%c] : !m, !one
    kgpu.commit %ch[%c] : !one
    kgpu.end_role
  } @multiply warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<1>
    %r = kgpu.receive %ch[%c] : !one -> !m
    // expected-note @below {{the earlier access}}
    %x = kgpu.local_load %r : !m -> tensor<64x64xf16, #acc>
    // expected-note @below {{the earlier access}}
    // expected-error @below {{expected a barrier between this and an earlier access}}
    kgpu.local_store %x, %r : tensor<64x64xf16, #acc>, !m
    kgpu.fence_async
    // expected-error @below {{expected a barrier between this and an earlier access}}
    kgpu.copy_out %r to %mo[%i, %i] by_group : !m
    kgpu.copy_out_wait read 0
    kgpu.release %ch[%c] : !one
    kgpu.end_role
  }
  return
}
