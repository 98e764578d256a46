// RUN: kiln-opt %s --kiln-hoist-invariants > %t
// RUN: FileCheck %s --input-file=%t
// RUN: kiln-opt %t --kiln-hoist-invariants | diff %t -

// Pure ops are hoisted, also out of two loops at once; a division by what may be zero stays.
// CHECK-LABEL: func @pure
// CHECK: math.exp
// CHECK: scf.for
// CHECK: scf.for
// CHECK-NOT: math.exp
// CHECK: arith.divsi
func.func @pure(%x: tensor<16xf32>, %n: i32, %d: i32, %p: tensor<16x!tile.ptr<f32>>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    scf.for %j = %zero to %n step %one : i32 {
      %e = math.exp %x : tensor<16xf32>
      %q = arith.divsi %n, %d : i32
      %o = tile.splat %q : i32 -> tensor<16xi32>
      %a = tile.addptr %p, %o : tensor<16x!tile.ptr<f32>>, tensor<16xi32>
      tile.store %a, %e : tensor<16x!tile.ptr<f32>>, tensor<16xf32>
    }
  }
  return
}

// CHECK-LABEL: func @kept_inside
// CHECK: scf.for
// CHECK: math.exp
func.func @kept_inside(%x: tensor<16xf32>, %n: i32, %p: tensor<16x!tile.ptr<f32>>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %e = math.exp %x : tensor<16xf32>
    tile.store %p, %e : tensor<16x!tile.ptr<f32>>, tensor<16xf32>
  } {tile.no_licm}
  return
}

// A load is hoisted out of a loop that runs and writes nothing; prints are not writes.
// CHECK-LABEL: func @load_leaves
// CHECK: tile.load
// CHECK: scf.for
// CHECK-NOT: tile.load
// CHECK: tile.print
func.func @load_leaves(%p: tensor<16x!tile.ptr<f32>>) -> tensor<16xf32> {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %ten = arith.constant 10 : i32
  %init = arith.constant dense<0.0> : tensor<16xf32>
  %r = scf.for %i = %zero to %ten step %one iter_args(%s = %init) -> (tensor<16xf32>) : i32 {
    %v = tile.load %p : tensor<16x!tile.ptr<f32>> -> tensor<16xf32>
    tile.print "i" %i : i32
    %t = arith.addf %s, %v : tensor<16xf32>
    scf.yield %t : tensor<16xf32>
  }
  return %r : tensor<16xf32>
}

// The bound need not be constant; it only has to be above the start.
// CHECK-LABEL: func @load_leaves_by_range
// CHECK: tile.load
// CHECK: scf.for
func.func @load_leaves_by_range(%p: !tile.ptr<f32>, %n: i32) -> f32 {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %init = arith.constant 0.0 : f32
  %some = arith.cmpi sgt, %n, %zero : i32
  tile.assume %some
  %r = scf.for %i = %zero to %n step %one iter_args(%s = %init) -> (f32) : i32 {
    %v = tile.load %p : !tile.ptr<f32> -> f32
    %t = arith.addf %s, %v : f32
    scf.yield %t : f32
  }
  return %r : f32
}

// It stays if the loop may not run, something writes, the load is volatile or conditional, or an assertion may stop the
// program first.
// CHECK-LABEL: func @load_stays
// CHECK-NOT: tile.load
// CHECK-COUNT-5: scf.for {{.*}}
func.func @load_stays(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i32, %c: i1) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %ten = arith.constant 10 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %v = tile.load %p : !tile.ptr<f32> -> f32
    tile.print "v" %v : f32
  }
  scf.for %i = %zero to %ten step %one : i32 {
    %v = tile.load %p : !tile.ptr<f32> -> f32
    tile.store %q, %v : !tile.ptr<f32>, f32
  }
  scf.for %i = %zero to %ten step %one : i32 {
    %v = tile.load %p {isVolatile} : !tile.ptr<f32> -> f32
    tile.print "v" %v : f32
  }
  scf.for %i = %zero to %ten step %one : i32 {
    scf.if %c {
      %v = tile.load %p : !tile.ptr<f32> -> f32
      tile.print "v" %v : f32
    }
  }
  scf.for %i = %zero to %ten step %one : i32 {
    tile.assert %c, "pointer is good" : i1
    %v = tile.load %p : !tile.ptr<f32> -> f32
    tile.print "v" %v : f32
  }
  return
}
