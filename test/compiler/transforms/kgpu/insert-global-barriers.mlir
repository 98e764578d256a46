// Accesses to one array need a barrier unless each thread accesses only its own locations in both: the addresses are
// the same, distinct elements have distinct addresses, and the same thread holds each element. Insertion and
// verification derive that independently.
// RUN: kiln-opt %s --split-input-file --kiln-insert-barriers --kiln-verify-barriers | FileCheck %s

#t = #layout.map<blocked [128] vector 1 warps 4>
#e = #layout.map<blocked [512] vector 4 warps 4>
#u = #layout.map<blocked [128] vector 4 warps 4>
#twice = #layout.map<blocked [64] vector 1 warps 4>
#grid = #layout.map<blocked [8, 16] vector 1 warps 4>

// CHECK-LABEL: @in_place
// CHECK: tile.load
// CHECK-NOT: kgpu.barrier
// CHECK: return
func.func @in_place(%p: !tile.ptr<f32>, %n: i32) {
  %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
  %s = tile.splat %n : i32 -> tensor<128xi32, #t>
  %o = arith.addi %r, %s : tensor<128xi32, #t>
  %w = arith.extsi %o : tensor<128xi32, #t> to tensor<128xi64, #t>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
  %a = tile.addptr %q, %w : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi64, #t>
  %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
  tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
  return
}

// The loop steps over everything that an iteration accesses: each thread's addresses are its own, and never another's
// in later iterations.
// CHECK-LABEL: @carried
// CHECK: scf.for
// CHECK-NOT: kgpu.barrier
// CHECK: return
func.func @carried(%p: !tile.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %step = arith.constant dense<128> : tensor<128xi32, #t>
  %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
  %first = tile.addptr %q, %r : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi32, #t>
  %last = scf.for %i = %zero to %n step %one iter_args(%a = %first) -> tensor<128x!tile.ptr<f32>, #t> : i32 {
    %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
    tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
    %b = tile.addptr %a, %step : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi32, #t>
    scf.yield %b : tensor<128x!tile.ptr<f32>, #t>
  }
  return
}

// CHECK-LABEL: @counted
// CHECK: scf.for
// CHECK-NOT: kgpu.barrier
// CHECK: return
func.func @counted(%p: !tile.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %step = arith.constant 128 : i32
  %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
  scf.for %i = %zero to %n step %step : i32 {
    %s = tile.splat %i : i32 -> tensor<128xi32, #t>
    %o = arith.addi %s, %r : tensor<128xi32, #t>
    %w = arith.extsi %o : tensor<128xi32, #t> to tensor<128xi64, #t>
    %a = tile.addptr %q, %w : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi64, #t>
    %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
    tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
  }
  return
}

// CHECK-LABEL: @from_a_pointer
// CHECK: scf.for
// CHECK-NOT: kgpu.barrier
// CHECK: return
func.func @from_a_pointer(%p: !tile.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %step = arith.constant 128 : i32
  %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
  scf.for %i = %zero to %n step %step : i32 {
    %first = tile.addptr %p, %i : !tile.ptr<f32>, i32
    %q = tile.splat %first : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
    %a = tile.addptr %q, %r : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi32, #t>
    %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
    tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
  }
  return
}

// With a smaller step, one thread's locations in this iteration may be another's in the next.
// CHECK-LABEL: @carried_by_less
// CHECK: scf.for
// CHECK: kgpu.barrier cta
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.store
func.func @carried_by_less(%p: !tile.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %step = arith.constant dense<64> : tensor<128xi32, #t>
  %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
  %first = tile.addptr %q, %r : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi32, #t>
  %last = scf.for %i = %zero to %n step %one iter_args(%a = %first) -> tensor<128x!tile.ptr<f32>, #t> : i32 {
    %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
    tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
    %b = tile.addptr %a, %step : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi32, #t>
    scf.yield %b : tensor<128x!tile.ptr<f32>, #t>
  }
  return
}

// CHECK-LABEL: @counted_by_less
// CHECK: scf.for
// CHECK: kgpu.barrier cta
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.store
func.func @counted_by_less(%p: !tile.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
  scf.for %i = %zero to %n step %step : i32 {
    %s = tile.splat %i : i32 -> tensor<128xi32, #t>
    %o = arith.addi %s, %r : tensor<128xi32, #t>
    %w = arith.extsi %o : tensor<128xi32, #t> to tensor<128xi64, #t>
    %a = tile.addptr %q, %w : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi64, #t>
    %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
    tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
  }
  return
}

// 32-bit numbers that advance faster than the loop counter wrap before the loop ends, and repeat.
// CHECK-LABEL: @counted_twice
// CHECK: scf.for
// CHECK: kgpu.barrier cta
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.store
func.func @counted_twice(%p: !tile.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
  scf.for %i = %zero to %n step %step : i32 {
    %both = arith.addi %i, %i : i32
    %s = tile.splat %both : i32 -> tensor<128xi32, #t>
    %o = arith.addi %s, %r : tensor<128xi32, #t>
    %a = tile.addptr %q, %o : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi32, #t>
    %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
    tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
  }
  return
}

// CHECK-LABEL: @carried_narrow
// CHECK: scf.for
// CHECK: kgpu.barrier cta
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.store
func.func @carried_narrow(%p: !tile.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %step = arith.constant dense<128> : tensor<128xi32, #t>
  %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
  %last = scf.for %i = %zero to %n step %one iter_args(%o = %r) -> tensor<128xi32, #t> : i32 {
    %a = tile.addptr %q, %o : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi32, #t>
    %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
    tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
    %b = arith.addi %o, %step : tensor<128xi32, #t>
    scf.yield %b : tensor<128xi32, #t>
  }
  return
}

// A sum of 8 bits wraps at 256, so an iteration that advances by 512 overlaps another.
// CHECK-LABEL: @counted_in_bytes
// CHECK: scf.for
// CHECK: kgpu.barrier cta
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.store
func.func @counted_in_bytes(%p: !tile.ptr<f32>, %n: i8, %c: i8) {
  %zero = arith.constant 0 : i8
  %step = arith.constant 64 : i8
  %on = arith.constant dense<448> : tensor<512xi32, #e>
  %r = tile.make_range 0 to 512 : tensor<512xi32, #e>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<512x!tile.ptr<f32>, #e>
  %first = tile.addptr %q, %r : tensor<512x!tile.ptr<f32>, #e>, tensor<512xi32, #e>
  %last = scf.for %i = %zero to %n step %step iter_args(%a = %first) -> tensor<512x!tile.ptr<f32>, #e> : i8 {
    %sum = arith.addi %i, %c : i8
    %w = arith.extsi %sum : i8 to i32
    %s = tile.splat %w : i32 -> tensor<512xi32, #e>
    %b = tile.addptr %a, %s : tensor<512x!tile.ptr<f32>, #e>, tensor<512xi32, #e>
    %x = tile.load %b : tensor<512x!tile.ptr<f32>, #e> -> tensor<512xf32, #e>
    tile.store %b, %x : tensor<512x!tile.ptr<f32>, #e>, tensor<512xf32, #e>
    %next = tile.addptr %a, %on : tensor<512x!tile.ptr<f32>, #e>, tensor<512xi32, #e>
    scf.yield %next : tensor<512x!tile.ptr<f32>, #e>
  }
  return
}

// Sums of 32 bits return to an earlier iteration's value if the step does not divide 2^32.
// CHECK-LABEL: @counted_unevenly
// CHECK: scf.for
// CHECK: kgpu.barrier cta
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.store
func.func @counted_unevenly(%p: !tile.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %step = arith.constant 136 : i32
  %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
  scf.for %i = %zero to %n step %step : i32 {
    %s = tile.splat %i : i32 -> tensor<128xi32, #t>
    %o = arith.addi %s, %r : tensor<128xi32, #t>
    %w = arith.extsi %o : tensor<128xi32, #t> to tensor<128xi64, #t>
    %a = tile.addptr %q, %w : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi64, #t>
    %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
    tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
  }
  return
}

// The inner loop returns to the same locations in each iteration of the outer one, and to other threads' there.
// CHECK-LABEL: @again
// CHECK: scf.for
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: scf.for
// CHECK-NOT: kgpu.barrier
// CHECK: return
func.func @again(%p: !tile.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %step = arith.constant 128 : i32
  %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
  scf.for %j = %zero to %n step %step : i32 {
    scf.for %i = %zero to %n step %step : i32 {
      %s = tile.splat %i : i32 -> tensor<128xi32, #t>
      %o = arith.addi %s, %r : tensor<128xi32, #t>
      %a = tile.addptr %q, %o : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi32, #t>
      %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
      tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
    }
  }
  return
}

// Two elements at one address, held by two threads.
// CHECK-LABEL: @repeated
// CHECK: tile.load
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: tile.store
func.func @repeated(%p: !tile.ptr<f32>) {
  %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
  %eight = arith.constant dense<8> : tensor<128xi32, #t>
  %o = arith.remsi %r, %eight : tensor<128xi32, #t>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
  %a = tile.addptr %q, %o : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi32, #t>
  %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
  tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
  return
}

// An element that two threads hold is read by both and written by one; two writes are by the same thread.
// CHECK-LABEL: @replicated
// CHECK: tile.load
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: tile.store
// CHECK-NEXT: tile.store
// CHECK-NEXT: return
func.func @replicated(%p: !tile.ptr<f32>) {
  %r = tile.make_range 0 to 64 : tensor<64xi32, #twice>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #twice>
  %a = tile.addptr %q, %r : tensor<64x!tile.ptr<f32>, #twice>, tensor<64xi32, #twice>
  %x = tile.load %a : tensor<64x!tile.ptr<f32>, #twice> -> tensor<64xf32, #twice>
  tile.store %a, %x : tensor<64x!tile.ptr<f32>, #twice>, tensor<64xf32, #twice>
  tile.store %a, %x : tensor<64x!tile.ptr<f32>, #twice>, tensor<64xf32, #twice>
  return
}

// A block that is read in one layout and written in another; then both in the same one.
// CHECK-LABEL: @blocks
// CHECK: tile.desc_load
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: tile.desc_store
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: tile.desc_load
// CHECK-NEXT: tile.desc_store
// CHECK-NEXT: return
func.func @blocks(%p: !tile.ptr<f32>, %n: i64, %i: i32, %v: tensor<128xf32, #u>) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %p, shape [%n] strides [%one] : !tile.ptr<f32> -> !tile.desc<tensor<128xf32>>
  %x = tile.desc_load %d[%i] : !tile.desc<tensor<128xf32>> -> tensor<128xf32, #t>
  tile.desc_store %d[%i], %v : !tile.desc<tensor<128xf32>>, tensor<128xf32, #u>
  %y = tile.desc_load %d[%i] : !tile.desc<tensor<128xf32>> -> tensor<128xf32, #t>
  tile.desc_store %d[%i], %y : !tile.desc<tensor<128xf32>>, tensor<128xf32, #t>
  return
}

// With an unknown stride, rows may overlap.
// CHECK-LABEL: @overlapping_rows
// CHECK: tile.desc_load
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: tile.desc_store
func.func @overlapping_rows(%p: !tile.ptr<f32>, %n: i64, %s: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %p, shape [%n, %n] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<8x16xf32>>
  %x = tile.desc_load %d[%i, %i] : !tile.desc<tensor<8x16xf32>> -> tensor<8x16xf32, #grid>
  tile.desc_store %d[%i, %i], %x : !tile.desc<tensor<8x16xf32>>, tensor<8x16xf32, #grid>
  return
}

// Unknown inline assembly may do anything to global memory.
// CHECK-LABEL: @text
// CHECK: tile.load
// CHECK-NEXT: kgpu.barrier cta
// CHECK-NEXT: tile.inline_asm
// CHECK: kgpu.barrier cta
// CHECK-NEXT: tile.load
func.func @text(%p: !tile.ptr<f32> {tile.disjoint}, %a: i32) {
  %x = tile.load %p : !tile.ptr<f32> -> f32
  %b = tile.inline_asm "st.global.u32 [$1], $0;" "=r,r" (%a) : (i32) -> i32
  %y = tile.load %p : !tile.ptr<f32> -> f32
  return
}
