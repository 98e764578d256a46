// A missing barrier is found on every kind of path.
// RUN: kiln-opt %s --split-input-file --kiln-verify-barriers -verify-diagnostics

#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
func.func @removed(%x: tensor<128xf32, #t>) -> tensor<128xf32, #t> {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  // expected-note @below {{the earlier access}}
  kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  // expected-error @below {{expected a barrier between this and an earlier access (because both may access the same bytes, and one writes them), got a path without one}}
  %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  return %y : tensor<128xf32, #t>
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
func.func @around_the_loop(%x: tensor<128xf32, #t>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  scf.for %i = %zero to %n step %one : i32 {
    // expected-error @below {{expected a barrier between this and an earlier access}}
    kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    kgpu.barrier cta
    // expected-note @below {{the earlier access}}
    %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  }
  return
}

// -----

// Alternating slots are fine from one iteration to the next, and wrong if the loop is left and entered again.
#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
func.func @entered_again(%x: tensor<128xf32, #t>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %j = %zero to %n step %one : i32 {
    %r = scf.for %i = %zero to %n step %one iter_args(%phase = %zero) -> i32 : i32 {
      %a = kgpu.alloc {offset = 0 : i64, slots = 2 : i32} : !kgpu.mem<128xf32, #m>
      %s = kgpu.slot %a[%phase] : !kgpu.mem<128xf32, #m>
      // expected-error @below {{expected a barrier between this and an earlier access}}
      kgpu.local_store %x, %s : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
      kgpu.barrier cta
      // expected-note @below {{the earlier access}}
      %y = kgpu.local_load %s : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
      %next = arith.xori %phase, %one : i32
      scf.yield %next : i32
    }
  }
  return
}

// -----

// The branch that is not taken has no barrier.
#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
func.func @one_branch(%x: tensor<128xf32, #t>, %c: i1) -> tensor<128xf32, #t> {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  // expected-note @below {{the earlier access}}
  kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  scf.if %c {
    kgpu.barrier cta
  }
  // expected-error @below {{expected a barrier between this and an earlier access}}
  %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  return %y : tensor<128xf32, #t>
}

// -----

// A CTA barrier does not order stores into other CTAs; and nothing waited for those to run.
#row = #layout.map<blocked [128] vector 1 warps 4 ctas 2 split 0>
#each = #layout.map<digits [128] cta (0) offset (1) (2) (4) (8) (16) (32) (64)>
func.func @narrow(%x: tensor<128xf32, #row>) -> tensor<128xf32, #row> {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #each>
  // expected-note @below {{the earlier access}}
  // expected-error @below {{expected a barrier of the cluster first (because the shared memory of another cta may be written only after that cta has started), got none}}
  kgpu.local_store %x, %a : tensor<128xf32, #row>, !kgpu.mem<128xf32, #each>
  kgpu.barrier cta
  // expected-error @below {{expected a barrier of the cluster between this and an earlier access}}
  %y = kgpu.local_load %a : !kgpu.mem<128xf32, #each> -> tensor<128xf32, #row>
  return %y : tensor<128xf32, #row>
}

// -----

// A ring's bytes are free after its last receive, if nothing of it is read: the receive is a barrier.
#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
!mem = !kgpu.mem<128xf32, #m>
!ring = !kgpu.channel<2 x (!mem)>
func.func @behind_the_ring(%d: !tile.desc<tensor<128xf32>>, %i: i32) -> tensor<128xf32, #t> {
  %ch = kgpu.channel groups fillers 4 readers 4 {offset = 0 : i64} : !ring
  %a = kgpu.alloc {offset = 512 : i64} : !mem
  %c = kgpu.cursor : !kgpu.cursor<2>
  %e = kgpu.advance %c : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  kgpu.copy_block %d[%i] to %s of %ch[%c] : !tile.desc<tensor<128xf32>>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %s1 = kgpu.acquire %ch[%e] : !ring -> !mem
  kgpu.commit %ch[%e] : !ring
  %r = kgpu.receive %ch[%c] pending 1 : !ring -> !mem
  %x = kgpu.local_load %r : !mem -> tensor<128xf32, #t>
  kgpu.release %ch[%c] : !ring
  %r1 = kgpu.receive %ch[%e] : !ring -> !mem
  kgpu.local_store %x, %a : tensor<128xf32, #t>, !mem
  kgpu.barrier cta
  %y = kgpu.local_load %a : !mem -> tensor<128xf32, #t>
  kgpu.release %ch[%e] : !ring
  return %y : tensor<128xf32, #t>
}

// -----

// The slot is read after the last receive: threads may still be reading.
#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
!mem = !kgpu.mem<128xf32, #m>
!ring = !kgpu.channel<2 x (!mem)>
func.func @still_read(%d: !tile.desc<tensor<128xf32>>, %i: i32) -> tensor<128xf32, #t> {
  // expected-note @below {{the ring}}
  %ch = kgpu.channel groups fillers 4 readers 4 {offset = 0 : i64} : !ring
  %a = kgpu.alloc {offset = 512 : i64} : !mem
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  kgpu.copy_block %d[%i] to %s of %ch[%c] : !tile.desc<tensor<128xf32>>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %r = kgpu.receive %ch[%c] : !ring -> !mem
  %x = kgpu.local_load %r : !mem -> tensor<128xf32, #t>
  kgpu.release %ch[%c] : !ring
  kgpu.local_store %x, %a : tensor<128xf32, #t>, !mem
  kgpu.barrier cta
  // expected-error @below {{expected memory that overlaps no ring, or that is used only after the ring's last barrier of all threads (because its slots are filled and read until then), got a use before that barrier}}
  %y = kgpu.local_load %a : !mem -> tensor<128xf32, #t>
  return %y : tensor<128xf32, #t>
}

// -----

// Copies may be in flight while the allocation is used; and a ring with mbarriers is live as long as the kernel runs.
#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
!mem = !kgpu.mem<128xf32, #m>
!ring = !kgpu.channel<2 x (!mem)>
func.func @before_the_ring_is_done(%d: !tile.desc<tensor<128xf32>>, %i: i32, %x: tensor<128xf32, #t>) {
  // expected-note @below {{the ring}}
  %ch = kgpu.channel groups fillers 4 readers 4 {offset = 0 : i64} : !ring
  %a = kgpu.alloc {offset = 0 : i64} : !mem
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  kgpu.copy_block %d[%i] to %s of %ch[%c] : !tile.desc<tensor<128xf32>>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  // expected-error @below {{expected memory that overlaps no ring, or that is used only after the ring's last barrier}}
  kgpu.local_store %x, %a : tensor<128xf32, #t>, !mem
  %r = kgpu.receive %ch[%c] : !ring -> !mem
  kgpu.release %ch[%c] : !ring
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
!mem = !kgpu.mem<128xf32, #m>
!ring = !kgpu.channel<2 x (!mem)>
func.func @a_ring_with_barriers(%x: tensor<128xf32, #t>) {
  // expected-note @below {{the ring}}
  %ch = kgpu.channel threads fillers 4 readers 4 {offset = 0 : i64} : !ring
  %a = kgpu.alloc {offset = 0 : i64} : !mem
  // expected-error @below {{expected memory that overlaps no ring, or that is used only after the ring's last barrier}}
  kgpu.local_store %x, %a : tensor<128xf32, #t>, !mem
  return
}

// -----

// The last receive waits for each warp alone: other warps may still be reading.
#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
!mem = !kgpu.mem<128xf32, #m>
!ring = !kgpu.channel<2 x (!mem)>
func.func @behind_a_receive_by_warp(%x: tensor<128xf32, #t>) {
  // expected-note @below {{the ring}}
  %ch = kgpu.channel groups fillers 4 readers 4 {offset = 0 : i64} : !ring
  %a = kgpu.alloc {offset = 0 : i64} : !mem
  %c = kgpu.cursor : !kgpu.cursor<2>
  %r = kgpu.receive %ch[%c] by_warp : !ring -> !mem
  kgpu.release %ch[%c] : !ring
  // expected-error @below {{expected memory that overlaps no ring, or that is used only after the ring's last barrier}}
  kgpu.local_store %x, %a : tensor<128xf32, #t>, !mem
  return
}
