// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize --cse | FileCheck %s

// Pointers that a loop advances by a scalar become that scalar: there is no gather, and only the loaded tile and the
// sum are kept in memory (256 bytes each). Here the body exits early, so the advance is in a branch.
// CHECK-LABEL: func.func @kiln_while_break
// CHECK-SAME:    kiln.frame_bytes = 512 : i64
// CHECK:         scf.while {{.*}}i64
// CHECK-NOT:     {{gather|inttoptr}}
// CHECK:           %[[BY:.*]] = arith.select %{{.*}} : i64
// CHECK:           %[[NEXT:.*]] = arith.addi %{{.*}}, %[[BY]] : i64
// CHECK-NOT:     {{gather|inttoptr}}
// CHECK:           scf.yield %{{.*}}, %[[NEXT]], %{{.*}} : i32, i64, i1
// CHECK-NOT:     {{gather|inttoptr}}
// CHECK:         return
func.func @while_break(%x: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %false = arith.constant false
  %limit = arith.constant 1.0e+03 : f32
  %step = arith.constant dense<64> : tensor<64xi32>
  %acc0 = arith.constant dense<0.0> : tensor<64xf32>
  %j = tile.make_range 0 to 64 : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %p0 = tile.addptr %xs, %j : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %r:3 = scf.while (%k = %zero, %acc = %acc0, %p = %p0, %left = %false)
      : (i32, tensor<64xf32>, tensor<64x!tile.ptr<f32>>, i1) -> (i32, tensor<64xf32>, tensor<64x!tile.ptr<f32>>) {
    %c = arith.cmpi slt, %k, %n : i32
    %go = arith.select %left, %false, %c : i1
    scf.condition(%go) %k, %acc, %p : i32, tensor<64xf32>, tensor<64x!tile.ptr<f32>>
  } do {
  ^bb0(%k: i32, %acc: tensor<64xf32>, %p: tensor<64x!tile.ptr<f32>>):
    %v = tile.load %p : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
    %total = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tile.yield %s : f32
    } : (tensor<64xf32>) -> f32
    %sum = arith.addf %acc, %v : tensor<64xf32>
    %stop = arith.cmpf ogt, %total, %limit : f32
    %next = scf.if %stop -> (tensor<64x!tile.ptr<f32>>) {
      scf.yield %p : tensor<64x!tile.ptr<f32>>
    } else {
      %q = tile.addptr %p, %step : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
      scf.yield %q : tensor<64x!tile.ptr<f32>>
    }
    %i = arith.addi %k, %one : i32
    scf.yield %i, %sum, %next, %stop : i32, tensor<64xf32>, tensor<64x!tile.ptr<f32>>, i1
  }
  // The pointers after the loop are one run, too.
  tile.store %r#2, %r#1 : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}

// Offsets are handled the same way, also downwards.
// CHECK-LABEL: func.func @kiln_offsets
// CHECK-SAME:    kiln.frame_bytes = 0 : i64
// CHECK:         scf.while (%{{.*}}, %{{.*}}) : (i32, i32) -> (i32, i32)
// CHECK:           arith.subi %{{.*}}, %{{.*}} : i32
// CHECK:           llvm.store %{{.*}} : vector<16xf32>
// CHECK-NOT:     {{scatter|inttoptr}}
// CHECK:         return
func.func @offsets(%x: !tile.ptr<f32>, %n: i32, %by: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %ones = arith.constant dense<1.0> : tensor<64xf32>
  %j = tile.make_range 0 to 64 : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %step = tile.splat %by : i32 -> tensor<64xi32>
  %r:2 = scf.while (%k = %zero, %o = %j) : (i32, tensor<64xi32>) -> (i32, tensor<64xi32>) {
    %c = arith.cmpi slt, %k, %n : i32
    scf.condition(%c) %k, %o : i32, tensor<64xi32>
  } do {
  ^bb0(%k: i32, %o: tensor<64xi32>):
    %p = tile.addptr %xs, %o : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
    tile.store %p, %ones : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
    %next = arith.subi %o, %step : tensor<64xi32>
    %i = arith.addi %k, %one : i32
    scf.yield %i, %next : i32, tensor<64xi32>
  }
  return
}

// Nested loops, each of which advances the pointers.
// CHECK-LABEL: func.func @kiln_nested
// CHECK-SAME:    kiln.frame_bytes = 0 : i64
// CHECK:         scf.for {{.*}} iter_args(%[[OUTER:.*]] = %{{.*}}) -> (i64)
// CHECK:           scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (i64)
// CHECK-NOT:     {{scatter|inttoptr}}
// CHECK:         return
func.func @nested(%x: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %ones = arith.constant dense<1.0> : tensor<64xf32>
  %step = arith.constant dense<64> : tensor<64xi32>
  %j = tile.make_range 0 to 64 : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %p0 = tile.addptr %xs, %j : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %r = scf.for %a = %zero to %n step %one iter_args(%p = %p0) -> (tensor<64x!tile.ptr<f32>>) : i32 {
    %s = scf.for %b = %zero to %a step %one iter_args(%q = %p) -> (tensor<64x!tile.ptr<f32>>) : i32 {
      tile.store %q, %ones : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
      %next = tile.addptr %q, %step : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
      scf.yield %next : tensor<64x!tile.ptr<f32>>
    }
    %next = tile.addptr %s, %step : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
    scf.yield %next : tensor<64x!tile.ptr<f32>>
  }
  return
}

// Pointers that come from elsewhere in each iteration stay tiles.
// CHECK-LABEL: func.func @kiln_other
// CHECK-SAME:    kiln.frame_bytes = {{[1-9]}}
// CHECK:         scf.for
// CHECK:         scf.for
// CHECK:         scf.for {{.*}} -> (!llvm.ptr, !llvm.ptr)
// CHECK:           llvm.inttoptr
func.func @other(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %ones = arith.constant dense<1.0> : tensor<64xf32>
  %j = tile.make_range 0 to 64 : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %p0 = tile.addptr %xs, %j : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %p1 = tile.addptr %ys, %j : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %r:2 = scf.for %a = %zero to %n step %one iter_args(%p = %p0, %q = %p1)
      -> (tensor<64x!tile.ptr<f32>>, tensor<64x!tile.ptr<f32>>) : i32 {
    tile.store %p, %ones : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
    scf.yield %q, %p : tensor<64x!tile.ptr<f32>>, tensor<64x!tile.ptr<f32>>
  }
  return
}
