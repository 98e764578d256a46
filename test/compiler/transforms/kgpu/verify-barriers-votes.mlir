// A branch or loop that each warp decides for itself contains only what a warp does alone, and what warps do together
// takes no scalar that one of them decides.
// RUN: kiln-opt %s --split-input-file --kiln-verify-barriers -verify-diagnostics

// Valid: loads from shared memory, products and reductions of a warp, arithmetic, stores of what no other warp holds.
#acc = #layout.map<mma_acc [64, 64] warps 4x1>
#a = #layout.map<mma_a [64, 64] bits 16 warps 4x1>
#b = #layout.map<mma_b [64, 64] bits 16 warps 4x1>
#row = #layout.map<digits [64] reg (8) lane (0) (0) (1) (2) (4) warp (16) (32)>
#m = #layout.map<swizzled [64, 64] element 2 bytes 128>
func.func @alone(%p: !tile.ptr<f32> {tile.disjoint}, %mask: tensor<64xi1, #row>, %s: tensor<64x64xf32, #acc>,
                 %top: tensor<64xf32, #row>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %none = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %first = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #m>
  %second = kgpu.alloc {offset = 8192 : i64} : !kgpu.mem<64x64xf16, #m>
  %any = kgpu.any %mask : tensor<64xi1, #row>
  %x:2 = scf.if %any -> (tensor<64x64xf32, #acc>, tensor<64xf32, #row>) {
    %a = kgpu.local_load %first : !kgpu.mem<64x64xf16, #m> -> tensor<64x64xf16, #a>
    %b = kgpu.local_load %second : !kgpu.mem<64x64xf16, #m> -> tensor<64x64xf16, #b>
    %scores = kgpu.warp_mma %a, %b, %none : tensor<64x64xf16, #a>, tensor<64x64xf16, #b> -> tensor<64x64xf32, #acc>
    %most = tile.reduce(%scores) axis 1 {
    ^bb0(%l: f32, %r: f32):
      %larger = arith.maxnumf %l, %r : f32
      tile.yield %larger : f32
    } : (tensor<64x64xf32, #acc>) -> tensor<64xf32, #row>
    scf.yield %scores, %most : tensor<64x64xf32, #acc>, tensor<64xf32, #row>
  } else {
    %twice = arith.addf %top, %top : tensor<64xf32, #row>
    scf.yield %s, %twice : tensor<64x64xf32, #acc>, tensor<64xf32, #row>
  }
  %steps = arith.extui %any : i1 to i32
  %sum = scf.for %i = %zero to %steps step %one iter_args(%y = %x#0) -> tensor<64x64xf32, #acc> : i32 {
    %twice = arith.addf %y, %y : tensor<64x64xf32, #acc>
    scf.yield %twice : tensor<64x64xf32, #acc>
  }
  scf.if %any {
    %q = tile.splat %p : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>, #acc>
    tile.store %q, %sum : tensor<64x64x!tile.ptr<f32>, #acc>, tensor<64x64xf32, #acc>
  }
  // Whatever the warps have decided, the code after it is run by all of them, as is a branch on another condition.
  kgpu.barrier cta
  %more = arith.cmpi sgt, %n, %zero : i32
  scf.if %more {
    kgpu.barrier cta
  }
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @barrier(%mask: tensor<128xi1, #t>) {
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  scf.if %any {
    // expected-error @below {{'kgpu.barrier' op expected all warps to get here (because they do this together), got a branch or loop that each warp decides for itself}}
    kgpu.barrier cta
  }
  return
}

// -----

// The other branch, deeper, and by a condition computed from the vote: the barrier of an atomic.
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @deeper(%mask: tensor<128xi1, #t>, %c: i1, %p: !tile.ptr<i32>, %n: i32) {
  %true = arith.constant true
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  %not = arith.xori %any, %true : i1
  %both = arith.andi %c, %not : i1
  scf.if %both {
  } else {
    scf.for %i = %zero to %n step %one : i32 {
      scf.if %c {
        // expected-error @below {{'tile.atomic_rmw' op expected all warps to get here}}
        %old = tile.atomic_rmw add acquire gpu %p, %one : !tile.ptr<i32>, i32
      }
    }
  }
  return
}

// -----

// A barrier before an atomic.
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @release_by_an_atomic(%mask: tensor<128xi1, #t>, %p: !tile.ptr<i32>, %one: i32) {
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  scf.if %any {
    // expected-error @below {{'tile.atomic_rmw' op expected all warps to get here}}
    %old = tile.atomic_rmw add release gpu %p, %one : !tile.ptr<i32>, i32
  }
  return
}

// -----

// A scalar of a branch that warps decide.
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @result_of_a_branch(%mask: tensor<128xi1, #t>, %c: i1, %d: i1) {
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  %e = scf.if %any -> i1 {
    scf.yield %c : i1
  } else {
    scf.yield %d : i1
  }
  scf.if %e {
    // expected-error @below {{'tile.barrier' op expected all warps to get here}}
    tile.barrier
  }
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @given_by_a_branch(%mask: tensor<128xi1, #t>, %c: i1, %d: i1) {
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  %e = scf.if %c -> i1 {
    scf.yield %d : i1
  } else {
    scf.yield %any : i1
  }
  scf.if %e {
    // expected-error @below {{'kgpu.barrier' op expected all warps to get here}}
    kgpu.barrier cta
  }
  return
}

// -----

// Loops: by each of their bounds,
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @end_of_a_loop(%mask: tensor<128xi1, #t>, %n: i32, %m: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  %end = arith.select %any, %n, %m : i32
  scf.for %i = %zero to %end step %one : i32 {
    // expected-error @below {{'kgpu.barrier' op expected all warps to get here}}
    kgpu.barrier cta
  }
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @begin_of_a_loop(%mask: tensor<128xi1, #t>, %n: i32) {
  %one = arith.constant 1 : i32
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  %begin = arith.extui %any : i1 to i32
  scf.for %i = %begin to %n step %one : i32 {
    // expected-error @below {{'kgpu.barrier' op expected all warps to get here}}
    kgpu.barrier cta
  }
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @step_of_a_loop(%mask: tensor<128xi1, #t>, %n: i32) {
  %one = arith.constant 1 : i32
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  %more = arith.extui %any : i1 to i32
  %step = arith.addi %one, %more : i32
  scf.for %i = %one to %n step %step : i32 {
    // expected-error @below {{'kgpu.barrier' op expected all warps to get here}}
    kgpu.barrier cta
  }
  return
}

// -----

// by what such a loop counts,
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @count_of_a_loop(%mask: tensor<128xi1, #t>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  %end = arith.extui %any : i1 to i32
  %n = scf.for %i = %zero to %end step %one iter_args(%k = %zero) -> i32 : i32 {
    %next = arith.addi %k, %one : i32
    scf.yield %next : i32
  }
  %c = arith.cmpi sgt, %n, %zero : i32
  scf.if %c {
    // expected-error @below {{'kgpu.barrier' op expected all warps to get here}}
    kgpu.barrier cta
  }
  return
}

// -----

// by the iteration before,
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @carried(%mask: tensor<128xi1, #t>, %n: i32) {
  %false = arith.constant false
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %last = scf.for %i = %zero to %n step %one iter_args(%before = %false) -> i1 : i32 {
    scf.if %before {
      // expected-error @below {{'kgpu.barrier' op expected all warps to get here}}
      kgpu.barrier cta
    }
    // expected-note @below {{what decides}}
    %any = kgpu.any %mask : tensor<128xi1, #t>
    scf.yield %any : i1
  }
  return
}

// -----

// by what a loop begins with,
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @begun_with(%mask: tensor<128xi1, #t>, %c: i1, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  %last = scf.for %i = %zero to %n step %one iter_args(%before = %any) -> i1 : i32 {
    scf.if %before {
      // expected-error @below {{'kgpu.barrier' op expected all warps to get here}}
      kgpu.barrier cta
    }
    scf.yield %c : i1
  }
  return
}

// -----

// by what it leaves, from the beginning or from its last iteration,
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @left_from_the_beginning(%mask: tensor<128xi1, #t>, %c: i1, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  %last = scf.for %i = %zero to %n step %one iter_args(%before = %any) -> i1 : i32 {
    scf.yield %c : i1
  }
  scf.if %last {
    // expected-error @below {{'kgpu.barrier' op expected all warps to get here}}
    kgpu.barrier cta
  }
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @left(%mask: tensor<128xi1, #t>, %c: i1, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %last = scf.for %i = %zero to %n step %one iter_args(%before = %c) -> i1 : i32 {
    // expected-note @below {{what decides}}
    %any = kgpu.any %mask : tensor<128xi1, #t>
    scf.yield %any : i1
  }
  scf.if %last {
    // expected-error @below {{'kgpu.barrier' op expected all warps to get here}}
    kgpu.barrier cta
  }
  return
}

// -----

// by how a loop ends: its condition is part of it,
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @until(%mask: tensor<128xi1, #t>) {
  scf.while : () -> () {
    // expected-error @below {{'kgpu.barrier' op expected all warps to get here}}
    kgpu.barrier cta
    // expected-note @below {{what decides}}
    %any = kgpu.any %mask : tensor<128xi1, #t>
    scf.condition(%any)
  } do {
    scf.yield
  }
  return
}

// -----

// what it gives depends on how often it ran,
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @result_of_until(%mask: tensor<128xi1, #t>, %begin: i1, %c: i1) {
  %r = scf.while (%k = %begin) : (i1) -> i1 {
    // expected-note @below {{what decides}}
    %any = kgpu.any %mask : tensor<128xi1, #t>
    scf.condition(%any) %k : i1
  } do {
  ^bb0(%k: i1):
    scf.yield %c : i1
  }
  scf.if %r {
    // expected-error @below {{'kgpu.barrier' op expected all warps to get here}}
    kgpu.barrier cta
  }
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @left_by_until(%mask: tensor<128xi1, #t>, %c: i1) {
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  %r = scf.while (%k = %any) : (i1) -> i1 {
    scf.condition(%c) %k : i1
  } do {
  ^bb0(%k: i1):
    scf.yield %c : i1
  }
  scf.if %r {
    // expected-error @below {{'kgpu.barrier' op expected all warps to get here}}
    kgpu.barrier cta
  }
  return
}

// -----

// and what one carries may be decided.
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @carried_until(%mask: tensor<128xi1, #t>, %begin: i1, %c: i1) {
  scf.while (%k = %begin) : (i1) -> i1 {
    scf.condition(%c) %k : i1
  } do {
  ^bb0(%k: i1):
    scf.if %k {
      // expected-error @below {{'kgpu.barrier' op expected all warps to get here}}
      kgpu.barrier cta
    }
    // expected-note @below {{what decides}}
    %any = kgpu.any %mask : tensor<128xi1, #t>
    scf.yield %any : i1
  }
  return
}

// -----

// A product of a group, and the wait for one.
#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<swizzled [64, 64] element 2 bytes 128>
#acc = #layout.map<wgmma_acc [64, 64] groups 1>
func.func @product(%mask: tensor<128xi1, #t>, %c: tensor<64x64xf32, #acc>) {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<64x64xf16, #m>
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  scf.if %any {
    // expected-error @below {{'kgpu.warpgroup_mma' op expected all warps to get here}}
    %d = kgpu.warpgroup_mma %a, %a, %c : !kgpu.mem<64x64xf16, #m>, !kgpu.mem<64x64xf16, #m> -> tensor<64x64xf32, #acc>
    %e = kgpu.mma_wait %d pending 0 : tensor<64x64xf32, #acc>
  }
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>
#acc = #layout.map<wgmma_acc [64, 64] groups 1>
func.func @wait(%mask: tensor<128xi1, #t>, %c: tensor<64x64xf32, #acc>) {
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  scf.if %any {
    // expected-error @below {{'kgpu.mma_wait' op expected all warps to get here}}
    %e = kgpu.mma_wait %c pending 0 : tensor<64x64xf32, #acc>
  }
  return
}

// -----

// Turns of the groups of a role.
#t = #layout.map<digits [256] lane (1) (2) (4) (8) (16) warp (32) (64) group (128)>
func.func @turn() {
  kgpu.roles @multiply groups 2 warps 4 {
    %mask = arith.constant dense<true> : tensor<256xi1, #t>
    // expected-note @below {{what decides}}
    %any = kgpu.any %mask : tensor<256xi1, #t>
    scf.if %any {
      // expected-error @below {{'kgpu.begin_turn' op expected all warps to get here}}
      kgpu.begin_turn
      kgpu.end_turn
    }
    kgpu.end_role
  }
  return
}

// -----

// Each step at a channel.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @acquire(%mask: tensor<128xi1, #t>) {
  %ch = kgpu.channel threads fillers 4 readers 4 {offset = 0 : i64} : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  scf.if %any {
    // expected-error @below {{'kgpu.acquire' op expected all warps to get here}}
    %s = kgpu.acquire %ch[%c] : !ring -> !m
  }
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @commit(%mask: tensor<128xi1, #t>) {
  %ch = kgpu.channel threads fillers 4 readers 4 {offset = 0 : i64} : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  scf.if %any {
    // expected-error @below {{'kgpu.commit' op expected all warps to get here}}
    kgpu.commit %ch[%c] : !ring
  }
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @receive(%mask: tensor<128xi1, #t>) {
  %ch = kgpu.channel threads fillers 4 readers 4 {offset = 0 : i64} : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  scf.if %any {
    // expected-error @below {{'kgpu.receive' op expected all warps to get here}}
    %s = kgpu.receive %ch[%c] : !ring -> !m
  }
  return
}

// -----

!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @release(%mask: tensor<128xi1, #t>) {
  %ch = kgpu.channel threads fillers 4 readers 4 {offset = 0 : i64} : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  scf.if %any {
    // expected-error @below {{'kgpu.release' op expected all warps to get here}}
    kgpu.release %ch[%c] : !ring
  }
  return
}

// -----

// What it depends on is the same for all warps, too: whether to do it,
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @when(%mask: tensor<128xi1, #t>) {
  %ch = kgpu.channel threads fillers 4 readers 4 {offset = 0 : i64} : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  // expected-error @below {{'kgpu.release' op expected scalars that all warps agree on (because they do this together), got one that each warp decides for itself}}
  kgpu.release %ch[%c] when %any : !ring
  return
}

// -----

// or which slot. Tiles may differ.
!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!ring = !kgpu.channel<2 x (!m)>
#t = #layout.map<blocked [128] vector 1 warps 4>
#acc = #layout.map<wgmma_acc [64, 64] groups 1>
func.func @cursor(%mask: tensor<128xi1, #t>, %sum: tensor<64x64xf32, #acc>) {
  %ch = kgpu.channel threads fillers 4 readers 4 {offset = 0 : i64} : !ring
  %a = kgpu.alloc {offset = 16384 : i64} : !m
  %c = kgpu.cursor : !kgpu.cursor<2>
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  %d:2 = scf.if %any -> (!kgpu.cursor<2>, tensor<64x64xf32, #acc>) {
    %next = kgpu.advance %c : !kgpu.cursor<2>
    %twice = arith.addf %sum, %sum : tensor<64x64xf32, #acc>
    scf.yield %next, %twice : !kgpu.cursor<2>, tensor<64x64xf32, #acc>
  } else {
    scf.yield %c, %sum : !kgpu.cursor<2>, tensor<64x64xf32, #acc>
  }
  %e = kgpu.warpgroup_mma %a, %a, %d#1 : !m, !m -> tensor<64x64xf32, #acc>
  %f = kgpu.mma_wait %e pending 0 : tensor<64x64xf32, #acc>
  // expected-error @below {{'kgpu.receive' op expected scalars that all warps agree on}}
  %s = kgpu.receive %ch[%d#0] : !ring -> !m
  return
}

// -----

// Copies, whether one thread issues them or all do, and the wait for those of one.
!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!ring = !kgpu.channel<2 x (!m)>
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @copy_in(%mask: tensor<128xi1, #t>, %p: !tile.ptr<f16>, %n: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %p, shape [%n, %n] strides [%n, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %map = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %ch = kgpu.channel bytes fillers 1 readers 4 {offset = 0 : i64} : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  scf.if %any {
    // expected-error @below {{'kgpu.copy_in' op expected all warps to get here}}
    kgpu.copy_in %map[%i, %i] to %s of %ch[%c] : !m, !ring
  }
  return
}

// -----

!m = !kgpu.mem<128xf32, #layout.map<row_major [128]>>
!ring = !kgpu.channel<2 x (!m)>
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @copy_block(%mask: tensor<128xi1, #t>, %d: !tile.desc<tensor<128xf32>>, %i: i32) {
  %ch = kgpu.channel groups fillers 4 readers 4 {offset = 0 : i64} : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  scf.if %any {
    // expected-error @below {{'kgpu.copy_block' op expected all warps to get here}}
    kgpu.copy_block %d[%i] to %s of %ch[%c] : !tile.desc<tensor<128xf32>>, !m, !ring
  }
  return
}

// -----

!m = !kgpu.mem<128xf32, #layout.map<row_major [128]>>
!ring = !kgpu.channel<2 x (!m)>
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @copy_tile(%mask: tensor<128xi1, #t>, %p: tensor<128x!tile.ptr<f32>, #t>) {
  %ch = kgpu.channel groups fillers 4 readers 4 {offset = 0 : i64} : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %s = kgpu.acquire %ch[%c] : !ring -> !m
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  scf.if %any {
    // expected-error @below {{'kgpu.copy_tile' op expected all warps to get here}}
    kgpu.copy_tile %p to %s of %ch[%c] : tensor<128x!tile.ptr<f32>, #t>, !m, !ring
  }
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @copy_out(%mask: tensor<128xi1, #t>, %p: !tile.ptr<f16>, %n: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %p, shape [%n, %n] strides [%n, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %map = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %s = kgpu.alloc {offset = 0 : i64} : !m
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  scf.if %any {
    // expected-error @below {{'kgpu.copy_out' op expected all warps to get here}}
    kgpu.copy_out %s to %map[%i, %i] : !m
  }
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @copy_out_wait(%mask: tensor<128xi1, #t>) {
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  scf.if %any {
    // expected-error @below {{'kgpu.copy_out_wait' op expected all warps to get here}}
    kgpu.copy_out_wait 0
  }
  return
}

// -----

// What is sent to an mbarrier is counted.
#part = #layout.map<digits [16] lane (0) (0) (0) (0) (0) warp (1) (2) cta (4) (8)>
#all = #layout.map<replicated [16] warps 4 ctas 4>
#m = #layout.map<digits [16] cta (0) (0) offset (1) (2) (4) (8)>
func.func @message(%mask: tensor<16xi1, #part>, %x: tensor<16xf32, #part>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  kgpu.cluster_arrive relaxed
  kgpu.cluster_wait
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<16xi1, #part>
  %end = arith.extui %any : i1 to i32
  %last = scf.for %i = %zero to %end step %one iter_args(%phase = %zero) -> i32 : i32 {
    %m = kgpu.alloc {mbarrier, offset = 0 : i64, slots = 2 : i32} : !kgpu.mem<16xf32, #m>
    %s = kgpu.slot %m[%phase] : !kgpu.mem<16xf32, #m>
    // expected-error @below {{'kgpu.local_store' op expected all warps to get here}}
    kgpu.local_store %x, %s : tensor<16xf32, #part>, !kgpu.mem<16xf32, #m>
    kgpu.await %s : !kgpu.mem<16xf32, #m>
    %y = kgpu.local_load %s : !kgpu.mem<16xf32, #m> -> tensor<16xf32, #all>
    %next = arith.xori %phase, %one : i32
    scf.yield %next : i32
  }
  return
}

// -----

// A scalar is written by the first thread, which may not get there; so is, by its owner, a tile that other warps hold,
#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @scalar(%mask: tensor<128xi1, #t>, %p: !tile.ptr<f32>, %x: f32) {
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  scf.if %any {
    // expected-error @below {{'tile.store' op expected elements that only one warp holds (because the owner writes them for the others), got a branch or loop that each warp decides for itself}}
    tile.store %p, %x : !tile.ptr<f32>, f32
  }
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>
#all = #layout.map<digits [32] lane (1) (2) (4) (8) (16) warp (0) (0)>
#m = #layout.map<row_major [32]>
func.func @copies(%mask: tensor<128xi1, #t>, %x: tensor<32xf32, #all>) {
  %m = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<32xf32, #m>
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<128xi1, #t>
  scf.if %any {
    // expected-error @below {{'kgpu.local_store' op expected elements that only one warp holds}}
    kgpu.local_store %x, %m : tensor<32xf32, #all>, !kgpu.mem<32xf32, #m>
  }
  return
}

// -----

// or another group, or another cta.
#t = #layout.map<digits [256] lane (1) (2) (4) (8) (16) warp (32) (64) group (128)>
#all = #layout.map<digits [128] lane (1) (2) (4) (8) (16) warp (32) (64) group (0)>
func.func @copies_of_groups(%mask: tensor<256xi1, #t>, %p: tensor<128x!tile.ptr<f32>, #all>, %x: tensor<128xf32, #all>) {
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<256xi1, #t>
  scf.if %any {
    // expected-error @below {{'tile.store' op expected elements that only one warp holds}}
    tile.store %p, %x : tensor<128x!tile.ptr<f32>, #all>, tensor<128xf32, #all>
  }
  return
}

// -----

#t = #layout.map<blocked [256] vector 1 warps 4 ctas 2 split 0>
#all = #layout.map<blocked [128] vector 1 warps 4 ctas 2>
func.func @copies_of_ctas(%mask: tensor<256xi1, #t>, %p: tensor<128x!tile.ptr<f32>, #all>, %x: tensor<128xf32, #all>) {
  // expected-note @below {{what decides}}
  %any = kgpu.any %mask : tensor<256xi1, #t>
  scf.if %any {
    // expected-error @below {{'tile.store' op expected elements that only one warp holds}}
    tile.store %p, %x : tensor<128x!tile.ptr<f32>, #all>, tensor<128xf32, #all>
  }
  return
}
