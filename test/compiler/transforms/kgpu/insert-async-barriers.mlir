// Barriers of roles, and what the copy engine and tensor cores need; each result satisfies the verifier.
// RUN: kiln-opt %s --split-input-file --kiln-insert-barriers --kiln-verify-barriers | FileCheck %s

#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>

// Each role has its own barriers, where its threads need them.
// CHECK-LABEL: @roles
// CHECK: kgpu.roles @one
// CHECK-NEXT: arith.constant
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.barrier role
// CHECK-NEXT: kgpu.local_load
// CHECK-NEXT: kgpu.end_role
// CHECK-NEXT: @other
// CHECK-NEXT: arith.constant
// CHECK-NEXT: kgpu.local_load
// CHECK-NEXT: kgpu.barrier role
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.end_role
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func @roles() {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  %b = kgpu.alloc {offset = 512 : i64} : !kgpu.mem<128xf32, #m>
  kgpu.roles @one warps 4 {
    %x = arith.constant dense<1.0> : tensor<128xf32, #t>
    kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
    kgpu.end_role
  } @other warps 4 {
    %x = arith.constant dense<2.0> : tensor<128xf32, #t>
    %y = kgpu.local_load %b : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
    kgpu.local_store %x, %b : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    kgpu.end_role
  }
  return
}

// Threads outside a role are different threads: barriers before and after the roles are the CTA's, whatever barriers a
// role has.
// CHECK-LABEL: @around_roles
// CHECK: kgpu.local_store
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.roles @one
// CHECK-NEXT: kgpu.local_load
// CHECK-NEXT: kgpu.barrier role
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.barrier role
// CHECK-NEXT: kgpu.local_load
// CHECK-NEXT: kgpu.end_role
// CHECK-NEXT: }
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_load
func.func @around_roles(%x: tensor<128xf32, #t>) -> tensor<128xf32, #t> {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  kgpu.roles @one warps 4 {
    %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
    kgpu.local_store %y, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    %w = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
    kgpu.end_role
  }
  %z = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  return %z : tensor<128xf32, #t>
}

// What was stored to global memory, too.
// CHECK-LABEL: @global_around_roles
// CHECK: tile.load
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: tile.store
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.roles
func.func @global_around_roles(%p: !tile.ptr<f32>) {
  %x = tile.load %p : !tile.ptr<f32> -> f32
  tile.store %p, %x : !tile.ptr<f32>, f32
  kgpu.roles @one warps 4 {
    %y = tile.load %p : !tile.ptr<f32> -> f32
    kgpu.end_role
  }
  return
}

// In a role, the program's own barrier and one that an atomic brings are the role's.
// CHECK-LABEL: @ordered_in_role
// CHECK: kgpu.local_store
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: kgpu.local_load
// CHECK-NEXT: tile.atomic_rmw
// CHECK-NEXT: kgpu.local_store
func.func @ordered_in_role(%p: !tile.ptr<i32>, %one: i32) {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  kgpu.roles @one warps 4 {
    %x = arith.constant dense<1.0> : tensor<128xf32, #t>
    kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    tile.barrier
    %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
    %0 = tile.atomic_rmw add acq_rel gpu %p, %one : !tile.ptr<i32>, i32
    kgpu.local_store %y, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    kgpu.end_role
  }
  return
}

// -----

#rows = #layout.map<swizzled [64, 64] element 2 bytes 128>
#t = #layout.map<blocked [64, 64] vector 8 warps 4>
#acc = #layout.map<wgmma_acc [64, 64] groups 1>

// Products see what threads stored after a fence and a barrier. They read their operands until the wait, and other
// warps may be later: the next store waits for them first.
// CHECK-LABEL: @product
// CHECK: scf.for
// CHECK: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.fence_async
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.warpgroup_mma
// CHECK-NEXT: kgpu.mma_wait
// CHECK-NOT: kgpu.barrier
// CHECK: return
func.func @product(%x: tensor<64x64xf16, #t>, %c: tensor<64x64xf32, #acc>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  %b = kgpu.alloc {offset = 8192 : i64} : !kgpu.mem<64x64xf16, #rows>
  %r = scf.for %i = %zero to %n step %one iter_args(%s = %c) -> tensor<64x64xf32, #acc> : i32 {
    kgpu.local_store %x, %a : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
    kgpu.local_store %x, %b : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
    %d = kgpu.warpgroup_mma %a, %b, %s : !kgpu.mem<64x64xf16, #rows>, !kgpu.mem<64x64xf16, #rows>
      -> tensor<64x64xf32, #acc>
    %e = kgpu.mma_wait %d pending 0 : tensor<64x64xf32, #acc>
    scf.yield %e : tensor<64x64xf32, #acc>
  }
  return
}

// A memory read with transposed dimensions is the same memory, live for as long.
// CHECK-LABEL: @transposed
// CHECK: kgpu.local_store
// CHECK-NEXT: kgpu.trans
// CHECK-NEXT: kgpu.fence_async
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.warpgroup_mma
func.func @transposed(%x: tensor<64x64xf16, #t>, %c: tensor<64x64xf32, #acc>) {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  kgpu.local_store %x, %a : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
  %t = kgpu.trans %a [1, 0] : !kgpu.mem<64x64xf16, #rows>
    -> !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] order [0, 1] element 2 bytes 128>>
  %d = kgpu.warpgroup_mma %a, %t, %c : !kgpu.mem<64x64xf16, #rows>,
    !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] order [0, 1] element 2 bytes 128>> -> tensor<64x64xf32, #acc>
  %e = kgpu.mma_wait %d pending 0 : tensor<64x64xf32, #acc>
  return
}

// A wait with one pending is for the previous product: its memory may be written after the wait and a barrier.
// CHECK-LABEL: @one_behind
// CHECK: kgpu.warpgroup_mma
// CHECK-NEXT: kgpu.warpgroup_mma
// CHECK-NEXT: kgpu.mma_wait {{.*}} pending 1
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.mma_wait {{.*}} pending 0
func.func @one_behind(%x: tensor<64x64xf16, #t>, %c: tensor<64x64xf32, #acc>) {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  %b = kgpu.alloc {offset = 8192 : i64} : !kgpu.mem<64x64xf16, #rows>
  %d = kgpu.warpgroup_mma %a, %a, %c : !kgpu.mem<64x64xf16, #rows>, !kgpu.mem<64x64xf16, #rows>
    -> tensor<64x64xf32, #acc>
  %e = kgpu.warpgroup_mma %b, %b, %d : !kgpu.mem<64x64xf16, #rows>, !kgpu.mem<64x64xf16, #rows>
    -> tensor<64x64xf32, #acc>
  %f = kgpu.mma_wait %e pending 1 : tensor<64x64xf32, #acc>
  kgpu.local_store %x, %a : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
  %g = kgpu.mma_wait %f pending 0 : tensor<64x64xf32, #acc>
  return
}

// A barrier without a fence suffices for threads, but not for the copy engine; an existing fence is not repeated.
// CHECK-LABEL: @unfenced
// CHECK: kgpu.local_store
// CHECK-NEXT: tile.barrier
// CHECK-NEXT: kgpu.local_load
// CHECK-NEXT: kgpu.fence_async
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.warpgroup_mma
// CHECK: kgpu.mma_wait
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.fence_async
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.warpgroup_mma
func.func @unfenced(%x: tensor<64x64xf16, #t>, %c: tensor<64x64xf32, #acc>) {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  kgpu.local_store %x, %a : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
  tile.barrier
  %y = kgpu.local_load %a : !kgpu.mem<64x64xf16, #rows> -> tensor<64x64xf16, #t>
  %d = kgpu.warpgroup_mma %a, %a, %c : !kgpu.mem<64x64xf16, #rows>, !kgpu.mem<64x64xf16, #rows>
    -> tensor<64x64xf32, #acc>
  %e = kgpu.mma_wait %d pending 0 : tensor<64x64xf32, #acc>
  kgpu.local_store %x, %a : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
  kgpu.fence_async
  %f = kgpu.warpgroup_mma %a, %a, %e : !kgpu.mem<64x64xf16, #rows>, !kgpu.mem<64x64xf16, #rows>
    -> tensor<64x64xf32, #acc>
  %g = kgpu.mma_wait %f pending 0 : tensor<64x64xf32, #acc>
  return
}

// A persistent loop: one role loads, one multiplies and writes. Channels order what goes through them. The memory of
// the result is stored to by threads and read by the copy engine until one thread's wait, for which the others then
// wait. Instances write separate blocks, in no order.
// CHECK-LABEL: @persistent
// CHECK: kgpu.roles @load
// CHECK-NOT: kgpu.barrier
// CHECK: @multiply
// CHECK: kgpu.receive
// CHECK-NEXT: kgpu.warpgroup_mma
// CHECK-NEXT: kgpu.mma_wait
// CHECK-NEXT: kgpu.release
// CHECK-NEXT: arith.truncf
// CHECK-NEXT: kgpu.copy_out_wait read 0
// CHECK-NEXT: kgpu.barrier role
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.fence_async
// CHECK-NEXT: kgpu.barrier role
// CHECK-NEXT: kgpu.copy_out
// CHECK-NOT: kgpu.barrier
// CHECK: return
func.func @persistent(%pa: !tile.ptr<f16> {tile.disjoint}, %pc: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64,
                      %programs: i32) {
  %one = arith.constant 1 : i64
  %da = tile.make_desc %pa, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %ma = kgpu.tensor_map %da box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %ch = kgpu.channel bytes fillers 1 readers 4 {offset = 8192 : i64} : !kgpu.channel<2 x (!kgpu.mem<64x64xf16, #rows>)>
  %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  kgpu.roles @load warps 1 {
    %first = kgpu.first_program : i32
    %step = kgpu.program_step : i32
    %begin = kgpu.cursor : !kgpu.cursor<2>
    %end = scf.for %i = %first to %programs step %step iter_args(%p = %begin) -> !kgpu.cursor<2> : i32 {
      %slot = kgpu.acquire %ch[%p] : !kgpu.channel<2 x (!kgpu.mem<64x64xf16, #rows>)> -> !kgpu.mem<64x64xf16, #rows>
      kgpu.copy_in %ma[%i, %i] to %slot of %ch[%p] : !kgpu.mem<64x64xf16, #rows>,
        !kgpu.channel<2 x (!kgpu.mem<64x64xf16, #rows>)>
      kgpu.commit %ch[%p] : !kgpu.channel<2 x (!kgpu.mem<64x64xf16, #rows>)>
      %q = kgpu.advance %p : !kgpu.cursor<2>
      scf.yield %q : !kgpu.cursor<2>
    }
    kgpu.end_role
  } @multiply warps 4 {
    %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
    %first = kgpu.first_program : i32
    %step = kgpu.program_step : i32
    %begin = kgpu.cursor : !kgpu.cursor<2>
    %end = scf.for %i = %first to %programs step %step iter_args(%p = %begin) -> !kgpu.cursor<2> : i32 {
      %slot = kgpu.receive %ch[%p] : !kgpu.channel<2 x (!kgpu.mem<64x64xf16, #rows>)> -> !kgpu.mem<64x64xf16, #rows>
      %d = kgpu.warpgroup_mma %slot, %slot, %zero : !kgpu.mem<64x64xf16, #rows>, !kgpu.mem<64x64xf16, #rows>
        -> tensor<64x64xf32, #acc>
      %e = kgpu.mma_wait %d pending 0 : tensor<64x64xf32, #acc>
      kgpu.release %ch[%p] : !kgpu.channel<2 x (!kgpu.mem<64x64xf16, #rows>)>
      %h = arith.truncf %e : tensor<64x64xf32, #acc> to tensor<64x64xf16, #acc>
      kgpu.copy_out_wait read 0
      kgpu.local_store %h, %out : tensor<64x64xf16, #acc>, !kgpu.mem<64x64xf16, #rows>
      kgpu.copy_out %out to %mc[%i, %i] : !kgpu.mem<64x64xf16, #rows>
      %q = kgpu.advance %p : !kgpu.cursor<2>
      scf.yield %q : !kgpu.cursor<2>
    }
    kgpu.copy_out_wait read 0
    kgpu.end_role
  }
  return
}

// Blocks of one program that may be the same: copies are unordered, so the thread that issues them waits for the last.
// CHECK-LABEL: @many_blocks
// CHECK: scf.for
// CHECK-NEXT: kgpu.copy_out_wait read 0
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.fence_async
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.copy_out_wait 0
// CHECK-NEXT: kgpu.copy_out %
// CHECK-NOT: kgpu.barrier
// CHECK: return
func.func @many_blocks(%x: tensor<64x64xf16, #t>, %pc: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64, %n: i32) {
  %zero = arith.constant 0 : i32
  %step = arith.constant 1 : i32
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #rows>
  scf.for %i = %zero to %n step %step : i32 {
    kgpu.copy_out_wait read 0
    kgpu.local_store %x, %out : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
    kgpu.copy_out %out to %mc[%i, %i] : !kgpu.mem<64x64xf16, #rows>
  }
  kgpu.copy_out_wait read 0
  return
}

// Two memories in turn, one copy in flight: the store waits for the copy before the last.
// CHECK-LABEL: @two_outputs
// CHECK: scf.for
// CHECK: kgpu.copy_out_wait read 1
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.fence_async
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: kgpu.copy_out
// CHECK-NOT: kgpu.barrier
// CHECK: return
func.func @two_outputs(%x: tensor<64x64xf16, #t>, %pc: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64,
                       %programs: i32) {
  %zero = arith.constant 0 : i32
  %flip = arith.constant 1 : i32
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %out = kgpu.alloc {offset = 0 : i64, slots = 2 : i32} : !kgpu.mem<64x64xf16, #rows>
  %first = kgpu.first_program : i32
  %step = kgpu.program_step : i32
  %end = scf.for %i = %first to %programs step %step iter_args(%phase = %zero) -> i32 : i32 {
    %slot = kgpu.slot %out[%phase] : !kgpu.mem<64x64xf16, #rows>
    kgpu.copy_out_wait read 1
    kgpu.local_store %x, %slot : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
    kgpu.copy_out %slot to %mc[%i, %i] : !kgpu.mem<64x64xf16, #rows>
    %next = arith.xori %phase, %flip : i32
    scf.yield %next : i32
  }
  kgpu.copy_out_wait read 0
  return
}

// -----

// In a cluster each block stages and copies its own piece: there too a fence and one barrier of its threads are enough.
// CHECK-LABEL: func.func @piece_of_a_cluster
// CHECK: kgpu.local_store
// CHECK-NEXT: kgpu.fence_async
// CHECK-NEXT: kgpu.barrier role
// CHECK-NEXT: kgpu.copy_out
// CHECK-NOT: kgpu.barrier
// CHECK: return
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
      kgpu.local_store %x, %out : tensor<128x64xf16, #t>, !kgpu.mem<128x64xf16, #rows>
      kgpu.copy_out %out to %mc[%i, %i] : !kgpu.mem<128x64xf16, #rows>
      kgpu.copy_out_wait 0
      kgpu.end_role
    }
    return
  }
}

// -----

#m = #layout.map<row_major [128]>

// Reductions of one kind by the copy engine may happen in any order: the next block is requested while the previous one
// is in flight. Plain writes may be to the same block, and the engine keeps no order.
// CHECK-LABEL: @combined
// CHECK: kgpu.copy_out %{{.*}} by "fadd"
// CHECK-NEXT: kgpu.copy_out %{{.*}} by "fadd"
// CHECK-NEXT: kgpu.copy_out_wait 0
// CHECK-NEXT: kgpu.copy_out %{{[^ ]*}} to
// CHECK-NEXT: kgpu.copy_out_wait 0
// CHECK-NEXT: return
func.func @combined(%p: !tile.ptr<f32>, %n: i32) {
  %one = arith.constant 1 : i64
  %side = arith.constant 4096 : i64
  %d = tile.make_desc %p, shape [%side] strides [%one] : !tile.ptr<f32> -> !tile.desc<tensor<128xf32>>
  %map = kgpu.tensor_map %d box [128] swizzle 0 : !tile.desc<tensor<128xf32>>
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  %b = kgpu.alloc {offset = 512 : i64} : !kgpu.mem<128xf32, #m>
  kgpu.copy_out %a by "fadd" to %map[%n] : !kgpu.mem<128xf32, #m>
  kgpu.copy_out %b by "fadd" to %map[%n] : !kgpu.mem<128xf32, #m>
  kgpu.copy_out %b to %map[%n] : !kgpu.mem<128xf32, #m>
  kgpu.copy_out_wait 0
  return
}

// -----

// Each group stores its own rows and has a thread that copies them: no group waits for the other.
// CHECK-LABEL: @rows_of_groups
// CHECK: kgpu.copy_out_wait read 0
// CHECK-NEXT: kgpu.barrier group
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.fence_async
// CHECK-NEXT: kgpu.barrier group
// CHECK-NEXT: kgpu.copy_out
// CHECK-NOT: kgpu.barrier
// CHECK: return
#rows = #layout.map<swizzled [128, 64] element 2 bytes 128>
#acc = #layout.map<wgmma_acc [128, 64] groups 2>
#cols = #layout.map<digits [128, 64] reg (0, 1) (0, 2) (0, 4) (32, 0) (64, 0) lane (0, 8) (0, 16) (1, 0) (2, 0) (4, 0) warp (8, 0) (16, 0) group (0, 32)>
#odd = #layout.map<digits [128, 64] reg (0, 1) (0, 2) (0, 4) (32, 0) (64, 0) lane (0, 8) (0, 16) (0, 32) (2, 0) (4, 0) warp (8, 0) (16, 0) group (1, 0)>
func.func @rows_of_groups(%pc: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  %first = kgpu.first_program : i32
  %step = kgpu.program_step : i32
  kgpu.roles @multiply groups 2 warps 4 {
    %x = arith.constant dense<1.0> : tensor<128x64xf16, #acc>
    %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x64xf16, #rows>
    scf.for %p = %first to %i step %step : i32 {
      kgpu.copy_out_wait read 0
      kgpu.local_store %x, %out : tensor<128x64xf16, #acc>, !kgpu.mem<128x64xf16, #rows>
      kgpu.copy_out %out to %mc[%p, %p] by_group : !kgpu.mem<128x64xf16, #rows>
    }
    kgpu.copy_out_wait 0
    kgpu.end_role
  }
  return
}

// If groups have columns of all rows, or every second row, they store what the other group's thread copies.
// CHECK-LABEL: @columns_of_groups
// CHECK: kgpu.copy_out_wait read 0
// CHECK-NEXT: kgpu.barrier role
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.fence_async
// CHECK-NEXT: kgpu.barrier role
// CHECK-NEXT: kgpu.copy_out
// CHECK-NOT: kgpu.barrier
// CHECK: return
func.func @columns_of_groups(%pc: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  %first = kgpu.first_program : i32
  %step = kgpu.program_step : i32
  kgpu.roles @multiply groups 2 warps 4 {
    %x = arith.constant dense<1.0> : tensor<128x64xf16, #cols>
    %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x64xf16, #rows>
    scf.for %p = %first to %i step %step : i32 {
      kgpu.copy_out_wait read 0
      kgpu.local_store %x, %out : tensor<128x64xf16, #cols>, !kgpu.mem<128x64xf16, #rows>
      kgpu.copy_out %out to %mc[%p, %p] by_group : !kgpu.mem<128x64xf16, #rows>
    }
    kgpu.copy_out_wait 0
    kgpu.end_role
  }
  return
}

// CHECK-LABEL: @odd_rows_of_groups
// CHECK: kgpu.copy_out_wait read 0
// CHECK-NEXT: kgpu.barrier role
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.fence_async
// CHECK-NEXT: kgpu.barrier role
// CHECK-NEXT: kgpu.copy_out
// CHECK-NOT: kgpu.barrier
// CHECK: return
func.func @odd_rows_of_groups(%pc: !tile.ptr<f16> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  %first = kgpu.first_program : i32
  %step = kgpu.program_step : i32
  kgpu.roles @multiply groups 2 warps 4 {
    %x = arith.constant dense<1.0> : tensor<128x64xf16, #odd>
    %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x64xf16, #rows>
    scf.for %p = %first to %i step %step : i32 {
      kgpu.copy_out_wait read 0
      kgpu.local_store %x, %out : tensor<128x64xf16, #odd>, !kgpu.mem<128x64xf16, #rows>
      kgpu.copy_out %out to %mc[%p, %p] by_group : !kgpu.mem<128x64xf16, #rows>
    }
    kgpu.copy_out_wait 0
    kgpu.end_role
  }
  return
}

// A release says that everything before it in the program is in memory, copies too; unless it ends a turn, before which
// copies of the next may have begun.
// CHECK-LABEL: @released
// CHECK: kgpu.copy_out_wait read 0
// CHECK-NEXT: tile.atomic_rmw add relaxed gpu
// CHECK-NEXT: tile.atomic_rmw xchg release gpu %{{.*}} {kgpu.passes_turn}
// CHECK-NEXT: kgpu.copy_out_wait 0
// CHECK-NEXT: tile.atomic_rmw add acq_rel gpu
// CHECK-NEXT: tile.atomic_rmw add release gpu
// CHECK-NEXT: kgpu.end_role
func.func @released(%pc: !tile.ptr<f16> {tile.disjoint}, %flag: !tile.ptr<i32> {tile.disjoint}, %m: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %dc = tile.make_desc %pc, shape [%m, %m] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %mc = kgpu.tensor_map %dc box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  kgpu.roles @multiply groups 2 warps 4 {
    %x = arith.constant dense<1.0> : tensor<128x64xf16, #cols>
    %out = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128x64xf16, #rows>
    kgpu.local_store %x, %out : tensor<128x64xf16, #cols>, !kgpu.mem<128x64xf16, #rows>
    kgpu.copy_out %out to %mc[%i, %i] : !kgpu.mem<128x64xf16, #rows>
    kgpu.copy_out_wait read 0
    %a = tile.atomic_rmw add relaxed gpu %flag, %i : !tile.ptr<i32>, i32
    %b = tile.atomic_rmw xchg release gpu %flag, %i {kgpu.passes_turn} : !tile.ptr<i32>, i32
    %c = tile.atomic_rmw add acq_rel gpu %flag, %i : !tile.ptr<i32>, i32
    %d = tile.atomic_rmw add release gpu %flag, %i : !tile.ptr<i32>, i32
    kgpu.end_role
  }
  return
}
