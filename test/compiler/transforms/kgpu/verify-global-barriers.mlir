// The verifier determines independently which thread accesses what, by enumerating all elements.
// RUN: kiln-opt %s --split-input-file --kiln-verify-barriers -verify-diagnostics

#t = #layout.map<blocked [128] vector 1 warps 4>
func.func @repeated(%p: !tile.ptr<f32>) {
  %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
  %eight = arith.constant dense<8> : tensor<128xi32, #t>
  %o = arith.remsi %r, %eight : tensor<128xi32, #t>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
  %a = tile.addptr %q, %o : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi32, #t>
  // expected-note @below {{the earlier access}}
  %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
  // expected-error @below {{expected a barrier between this and an earlier access}}
  tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>
#u = #layout.map<blocked [128] vector 4 warps 4>
func.func @other_layout(%p: !tile.ptr<f32>, %n: i64, %i: i32, %v: tensor<128xf32, #u>) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %p, shape [%n] strides [%one] : !tile.ptr<f32> -> !tile.desc<tensor<128xf32>>
  // expected-note @below {{the earlier access}}
  %x = tile.desc_load %d[%i] : !tile.desc<tensor<128xf32>> -> tensor<128xf32, #t>
  // expected-error @below {{expected a barrier between this and an earlier access}}
  tile.desc_store %d[%i], %v : !tile.desc<tensor<128xf32>>, tensor<128xf32, #u>
  return
}

// -----

// Elements at one address held by one thread are in that thread's order: insertion cannot prove this, but the verifier
// finds it.
#regs = #layout.map<blocked [512] vector 4 warps 4>
func.func @repeated_in_a_thread(%p: !tile.ptr<f32>) {
  %r = tile.make_range 0 to 512 : tensor<512xi32, #regs>
  %four = arith.constant dense<4> : tensor<512xi32, #regs>
  %o = arith.divsi %r, %four : tensor<512xi32, #regs>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<512x!tile.ptr<f32>, #regs>
  %a = tile.addptr %q, %o : tensor<512x!tile.ptr<f32>, #regs>, tensor<512xi32, #regs>
  %x = tile.load %a : tensor<512x!tile.ptr<f32>, #regs> -> tensor<512xf32, #regs>
  tile.store %a, %x : tensor<512x!tile.ptr<f32>, #regs>, tensor<512xf32, #regs>
  return
}

// -----

func.func @text(%p: !tile.ptr<f32>, %a: i32) {
  // expected-note @below {{the earlier access}}
  %b = tile.inline_asm "st.global.u32 [$1], $0;" "=r,r" (%a) : (i32) -> i32
  // expected-error @below {{expected a barrier between this and an earlier access}}
  %y = tile.load %p : !tile.ptr<f32> -> f32
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>

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
    // expected-error @below {{expected a barrier between this and an earlier access}}
    // expected-note @below {{the earlier access}}
    %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
    // expected-error @below {{expected a barrier between this and an earlier access}}
    // expected-note @below {{the earlier access}}
    tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
  }
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>

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
    // expected-error @below {{expected a barrier between this and an earlier access}}
    // expected-note @below {{the earlier access}}
    %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
    // expected-error @below {{expected a barrier between this and an earlier access}}
    // expected-note @below {{the earlier access}}
    tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
  }
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>

func.func @carried_by_less(%p: !tile.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %step = arith.constant dense<64> : tensor<128xi32, #t>
  %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
  %first = tile.addptr %q, %r : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi32, #t>
  %last = scf.for %i = %zero to %n step %one iter_args(%a = %first) -> tensor<128x!tile.ptr<f32>, #t> : i32 {
    // expected-error @below {{expected a barrier between this and an earlier access}}
    // expected-note @below {{the earlier access}}
    %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
    // expected-error @below {{expected a barrier between this and an earlier access}}
    // expected-note @below {{the earlier access}}
    tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
    %b = tile.addptr %a, %step : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi32, #t>
    scf.yield %b : tensor<128x!tile.ptr<f32>, #t>
  }
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>

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
    // expected-error @below {{expected a barrier between this and an earlier access}}
    // expected-note @below {{the earlier access}}
    %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
    // expected-error @below {{expected a barrier between this and an earlier access}}
    // expected-note @below {{the earlier access}}
    tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
  }
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>

func.func @carried_narrow(%p: !tile.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %step = arith.constant dense<128> : tensor<128xi32, #t>
  %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
  %last = scf.for %i = %zero to %n step %one iter_args(%o = %r) -> tensor<128xi32, #t> : i32 {
    %a = tile.addptr %q, %o : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi32, #t>
    // expected-error @below {{expected a barrier between this and an earlier access}}
    // expected-note @below {{the earlier access}}
    %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
    // expected-error @below {{expected a barrier between this and an earlier access}}
    // expected-note @below {{the earlier access}}
    tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
    %b = arith.addi %o, %step : tensor<128xi32, #t>
    scf.yield %b : tensor<128xi32, #t>
  }
  return
}

// -----

// A sum of 8 bits wraps at 256, so an iteration that advances by 512 overlaps another.
#e = #layout.map<blocked [512] vector 4 warps 4>
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
    // expected-error @below {{expected a barrier between this and an earlier access}}
    // expected-note @below {{the earlier access}}
    %x = tile.load %b : tensor<512x!tile.ptr<f32>, #e> -> tensor<512xf32, #e>
    // expected-error @below {{expected a barrier between this and an earlier access}}
    // expected-note @below {{the earlier access}}
    tile.store %b, %x : tensor<512x!tile.ptr<f32>, #e>, tensor<512xf32, #e>
    %next = tile.addptr %a, %on : tensor<512x!tile.ptr<f32>, #e>, tensor<512xi32, #e>
    scf.yield %next : tensor<512x!tile.ptr<f32>, #e>
  }
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>

func.func @from_a_pointer_by_less(%p: !tile.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %r = tile.make_range 0 to 128 : tensor<128xi32, #t>
  scf.for %i = %zero to %n step %step : i32 {
    %first = tile.addptr %p, %i : !tile.ptr<f32>, i32
    %q = tile.splat %first : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #t>
    %a = tile.addptr %q, %r : tensor<128x!tile.ptr<f32>, #t>, tensor<128xi32, #t>
    // expected-error @below {{expected a barrier between this and an earlier access}}
    // expected-note @below {{the earlier access}}
    %x = tile.load %a : tensor<128x!tile.ptr<f32>, #t> -> tensor<128xf32, #t>
    // expected-error @below {{expected a barrier between this and an earlier access}}
    // expected-note @below {{the earlier access}}
    tile.store %a, %x : tensor<128x!tile.ptr<f32>, #t>, tensor<128xf32, #t>
  }
  return
}
