// RUN: kiln-opt %s --split-input-file --kiln-hint-streams | FileCheck %s

// Rows are read by one program each, also in a branch; weights by all programs; a scalar is not a stream.
// CHECK-LABEL: func.func public @rows(
// CHECK: tile.load %{{.*}} : !tile.ptr<f32> -> f32
// CHECK: tile.load %{{.*}} {evict = #tile<evict evict_last>}
// CHECK: tile.load %{{.*}} : tensor<128x!tile.ptr<f32>>
// CHECK: scf.if
// CHECK: tile.load %{{.*}} {evict = #tile<evict evict_last>}
module attributes {kgpu.streaming} {
  func.func public @rows(%xp: !tile.ptr<f32>, %wp: !tile.ptr<f32>, %yp: !tile.ptr<f32>, %k: i1) attributes {tile.kernel} {
    %r = tile.program_id x : i32
    %n = arith.constant 128 : i32
    %s = arith.muli %r, %n : i32
    %i = tile.make_range 0 to 128 : tensor<128xi32>
    %x0 = tile.addptr %xp, %s : !tile.ptr<f32>, i32
    %e = tile.load %x0 : !tile.ptr<f32> -> f32
    %x1 = tile.splat %x0 : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %x2 = tile.addptr %x1, %i : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
    %x = tile.load %x2 : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
    %w1 = tile.splat %wp : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %w2 = tile.addptr %w1, %i : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
    %w = tile.load %w2 : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
    %y0 = tile.addptr %yp, %s : !tile.ptr<f32>, i32
    %y1 = tile.splat %y0 : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %y2 = tile.addptr %y1, %i : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
    %m = arith.mulf %x, %w : tensor<128xf32>
    scf.if %k {
      %old = tile.load %y2 : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
      %new = arith.addf %m, %old : tensor<128xf32>
      tile.store %y2, %new : tensor<128x!tile.ptr<f32>>, tensor<128xf32>
    }
    return
  }
}

// -----

// Blocks of rows, numbered along two axes: a bias depends on only one of them.
// CHECK-LABEL: func.func public @two_axes(
// CHECK: tile.load %{{.*}} {evict = #tile<evict evict_last>}
// CHECK: tile.load %{{.*}} : tensor<128x!tile.ptr<f32>>
module attributes {kgpu.streaming} {
  func.func public @two_axes(%xp: !tile.ptr<f32>, %bp: !tile.ptr<f32>, %stride: i32) attributes {tile.kernel} {
    %c = tile.program_id x : i32
    %r = tile.program_id y : i32
    %n = arith.constant 128 : i32
    %start = arith.muli %c, %n : i32
    %s = tile.splat %start : i32 -> tensor<128xi32>
    %i = tile.make_range 0 to 128 : tensor<128xi32>
    %at = arith.addi %s, %i : tensor<128xi32>
    %row = arith.muli %r, %stride : i32
    %x0 = tile.addptr %xp, %row : !tile.ptr<f32>, i32
    %x1 = tile.splat %x0 : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %x2 = tile.addptr %x1, %at : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
    %x = tile.load %x2 : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
    %b1 = tile.splat %bp : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %b2 = tile.addptr %b1, %at : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
    %b = tile.load %b2 : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
    %v = arith.addf %x, %b : tensor<128xf32>
    tile.store %x2, %v : tensor<128x!tile.ptr<f32>>, tensor<128xf32>
    return
  }
}

// -----

// The same blocks numbered along rows: programs one row apart have the same remainder, and so share the bias.
// CHECK-LABEL: func.func public @along_rows(
// CHECK: tile.load %{{.*}} {evict = #tile<evict evict_last>}
// CHECK: tile.load %{{.*}} : tensor<128x!tile.ptr<f32>>
module attributes {kgpu.streaming} {
  func.func public @along_rows(%xp: !tile.ptr<f32>, %bp: !tile.ptr<f32>, %stride: i32, %blocks: i32) attributes {tile.kernel} {
    %p = tile.program_id x : i32
    %r = arith.divsi %p, %blocks : i32
    %c = arith.remsi %p, %blocks : i32
    %n = arith.constant 128 : i32
    %start = arith.muli %c, %n : i32
    %s = tile.splat %start : i32 -> tensor<128xi32>
    %i = tile.make_range 0 to 128 : tensor<128xi32>
    %at = arith.addi %s, %i : tensor<128xi32>
    %row = arith.muli %r, %stride : i32
    %x0 = tile.addptr %xp, %row : !tile.ptr<f32>, i32
    %x1 = tile.splat %x0 : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %x2 = tile.addptr %x1, %at : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
    %x = tile.load %x2 : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
    %b1 = tile.splat %bp : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %b2 = tile.addptr %b1, %at : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
    %b = tile.load %b2 : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
    %v = arith.addf %x, %b : tensor<128xf32>
    tile.store %x2, %v : tensor<128x!tile.ptr<f32>>, tensor<128xf32>
    return
  }
}

// -----

// A hint in the kernel stays; a loop may read again; addresses that do not depend on the program get no hint.
// CHECK-LABEL: func.func public @stays(
// CHECK: tile.load %{{.*}} {evict = #tile<evict evict_first>}
// CHECK: scf.for
// CHECK: tile.load %{{.*}} : tensor<128x!tile.ptr<f32>>
// CHECK-LABEL: func.func public @no_program(
// CHECK: tile.load %{{.*}} : tensor<128x!tile.ptr<f32>>
module attributes {kgpu.streaming} {
  func.func public @stays(%xp: !tile.ptr<f32>, %count: i32) attributes {tile.kernel} {
    %p = tile.program_id x : i32
    %x0 = tile.addptr %xp, %p : !tile.ptr<f32>, i32
    %x1 = tile.splat %x0 : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %x = tile.load %x1 {evict = #tile<evict evict_first>} : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %i = %zero to %count step %one : i32 {
      %y = tile.load %x1 : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
      %v = arith.addf %x, %y : tensor<128xf32>
      tile.store %x1, %v : tensor<128x!tile.ptr<f32>>, tensor<128xf32>
    }
    return
  }
  func.func public @no_program(%xp: !tile.ptr<f32>) attributes {tile.kernel} {
    %x1 = tile.splat %xp : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %x = tile.load %x1 : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
    tile.store %x1, %x : tensor<128x!tile.ptr<f32>>, tensor<128xf32>
    return
  }
}

// -----

// Launches that are not marked as streaming are unchanged.
// CHECK-LABEL: func.func public @small(
// CHECK-NOT: evict
// CHECK: return
func.func public @small(%xp: !tile.ptr<f32>) attributes {tile.kernel} {
  %p = tile.program_id x : i32
  %x0 = tile.addptr %xp, %p : !tile.ptr<f32>, i32
  %x1 = tile.splat %x0 : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
  %x = tile.load %x1 : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
  tile.store %x1, %x : tensor<128x!tile.ptr<f32>>, tensor<128xf32>
  return
}

// -----

// Rows that are read twice are kept for the second read, even if they are few; what is read in between does not count.
// Weights are shared by all programs, and a loop over another range is a different read.
// CHECK-LABEL: func.func public @twice(
// CHECK: scf.for
// CHECK: tile.load %{{.*}} {evict = #tile<evict evict_last>}
// CHECK: scf.for
// CHECK: tile.load %{{[a-z0-9]*}} : tensor<128x!tile.ptr<f32>>
// CHECK: scf.for
// CHECK: tile.load %{{.*}} {evict = #tile<evict evict_first>}
// CHECK: tile.load %{{[a-z0-9]*}} : tensor<128x!tile.ptr<f32>>
module {
  func.func public @twice(%xp: !tile.ptr<f32>, %wp: !tile.ptr<f32>, %yp: !tile.ptr<f32>) attributes {tile.kernel} {
    %zero = arith.constant 0 : i32
    %step = arith.constant 128 : i32
    %n = arith.constant 1024 : i32
    %half = arith.constant 512 : i32
    %none = arith.constant dense<0.0> : tensor<128xf32>
    %i = tile.make_range 0 to 128 : tensor<128xi32>
    %r = tile.program_id x : i32
    %row = arith.muli %r, %n : i32
    %x0 = tile.addptr %xp, %row : !tile.ptr<f32>, i32
    %y0 = tile.addptr %yp, %row : !tile.ptr<f32>, i32
    %x1 = tile.splat %x0 : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %y1 = tile.splat %y0 : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %w1 = tile.splat %wp : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %sum = scf.for %s = %zero to %n step %step iter_args(%acc = %none) -> tensor<128xf32> : i32 {
      %at = tile.splat %s : i32 -> tensor<128xi32>
      %o = arith.addi %at, %i : tensor<128xi32>
      %x2 = tile.addptr %x1, %o : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
      %x = tile.load %x2 : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
      %next = arith.addf %acc, %x : tensor<128xf32>
      scf.yield %next : tensor<128xf32>
    }
    %more = scf.for %s = %zero to %half step %step iter_args(%acc = %sum) -> tensor<128xf32> : i32 {
      %at = tile.splat %s : i32 -> tensor<128xi32>
      %o = arith.addi %at, %i : tensor<128xi32>
      %x2 = tile.addptr %x1, %o : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
      %x = tile.load %x2 : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
      %next = arith.addf %acc, %x : tensor<128xf32>
      scf.yield %next : tensor<128xf32>
    }
    scf.for %s = %zero to %n step %step : i32 {
      %at = tile.splat %s : i32 -> tensor<128xi32>
      %o = arith.addi %at, %i : tensor<128xi32>
      %x2 = tile.addptr %x1, %o : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
      %x = tile.load %x2 : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
      %w2 = tile.addptr %w1, %o : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
      %w = tile.load %w2 : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
      %y2 = tile.addptr %y1, %o : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
      %scaled = arith.mulf %x, %w : tensor<128xf32>
      %y = arith.addf %scaled, %more : tensor<128xf32>
      tile.store %y2, %y : tensor<128x!tile.ptr<f32>>, tensor<128xf32>
    }
    return
  }
}
