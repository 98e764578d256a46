// RUN: kiln-opt %s --kiln-expand-maps --split-input-file | FileCheck %s

// Both branches are computed and one is selected; a constant is splat where it meets an element.
// CHECK-LABEL: func.func @branch(
// CHECK-SAME: %[[X:.*]]: tensor<64xf32>
// CHECK: %[[ABOVE:.*]] = arith.cmpf ogt, %[[X]], %{{.*}} : tensor<64xf32>
// CHECK: %[[E:.*]] = math.exp %[[X]] : tensor<64xf32>
// CHECK: %[[Y:.*]] = arith.select %[[ABOVE]], %[[X]], %[[E]] : tensor<64xi1>, tensor<64xf32>
// CHECK: return %[[Y]]
func.func @branch(%x: tensor<64xf32>) -> tensor<64xf32> {
  %y = tile.map(%x) {
  ^bb0(%a: f32):
    %zero = arith.constant 0.0 : f32
    %above = arith.cmpf ogt, %a, %zero : f32
    %c = scf.if %above -> f32 {
      scf.yield %a : f32
    } else {
      %e = math.exp %a : f32
      scf.yield %e : f32
    }
    tile.yield %c : f32
  } : (tensor<64xf32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}

// -----

// Ops that touch memory are masked by the elements that reach them: their own mask, and that of each branch around
// them.
// CHECK-LABEL: func.func @effects(
// CHECK-SAME: %[[P:.*]]: tensor<64x!tile.ptr<f32>>, %[[C:.*]]: tensor<64xi1>, %[[D:.*]]: tensor<64xi1>
// CHECK: %[[V:.*]] = tile.load %[[P]] mask %[[C]] : tensor<64x!tile.ptr<f32>> mask tensor<64xi1> -> tensor<64xf32>
// CHECK: %[[CD:.*]] = arith.andi %[[C]], %[[D]] : tensor<64xi1>
// CHECK: tile.atomic_rmw fadd relaxed gpu %[[P]], %[[V]] mask %[[CD]]
// CHECK: %[[NC:.*]] = arith.xori %[[C]], %{{.*}} : tensor<64xi1>
// CHECK: tile.store %[[P]], %{{.*}} mask %[[NC]] : tensor<64x!tile.ptr<f32>>, tensor<64xf32> mask tensor<64xi1>
// CHECK: %[[HERE:.*]] = arith.xori %[[NC]], %{{.*}} : tensor<64xi1>
// CHECK: %[[OK:.*]] = arith.ori %[[D]], %[[HERE]] : tensor<64xi1>
// CHECK: tile.assert %[[OK]], "here" : tensor<64xi1>
func.func @effects(%p: tensor<64x!tile.ptr<f32>>, %c: tensor<64xi1>, %d: tensor<64xi1>) {
  tile.map(%p, %c, %d) {
  ^bb0(%q: !tile.ptr<f32>, %f: i1, %g: i1):
    scf.if %f {
      %v = tile.load %q : !tile.ptr<f32> -> f32
      scf.if %g {
        %old = tile.atomic_rmw fadd relaxed gpu %q, %v : !tile.ptr<f32>, f32
      }
    } else {
      %one = arith.constant 1.0 : f32
      tile.store %q, %one : !tile.ptr<f32>, f32
      tile.assert %g, "here" : i1
    }
    tile.yield
  } : (tensor<64x!tile.ptr<f32>>, tensor<64xi1>, tensor<64xi1>) -> ()
  return
}

// -----

// What depends on no element stays scalar: its branch stays a branch, and so does the count of a loop.
// CHECK-LABEL: func.func @uniform(
// CHECK: %[[PID:.*]] = tile.program_id x
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[PID]], %{{.*}} : i32
// CHECK: scf.if %[[FIRST]] -> (tensor<4x8xi32>) {
// CHECK: scf.for %[[I:.*]] = %{{.*}} to %[[PID]] step %{{.*}} iter_args(%{{.*}} = %{{.*}}) -> (tensor<4x8xi32>)
// CHECK: tile.splat %[[I]] : i32 -> tensor<4x8xi32>
func.func @uniform(%x: tensor<4x8xi32>) -> tensor<4x8xi32> {
  %y = tile.map(%x) {
  ^bb0(%a: i32):
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %pid = tile.program_id x : i32
    %first = arith.cmpi eq, %pid, %zero : i32
    %c = scf.if %first -> i32 {
      scf.yield %a : i32
    } else {
      scf.yield %zero : i32
    }
    %d = scf.for %i = %zero to %pid step %one iter_args(%s = %c) -> (i32) : i32 {
      %t = arith.addi %s, %i : i32
      scf.yield %t : i32
    }
    tile.yield %d : i32
  } : (tensor<4x8xi32>) -> tensor<4x8xi32>
  return %y : tensor<4x8xi32>
}

// -----

// A loop that elements leave at different times runs until the last has left; each keeps the values it left with.
// CHECK-LABEL: func.func @until_the_last(
// CHECK-SAME: %[[N:.*]]: tensor<8xi32>
// CHECK: %[[L:.*]]:3 = scf.while (%[[AT:.*]] = %{{.*}}, %[[KEPT:.*]] = %{{.*}}, %[[LIVE:.*]] = %{{.*}})
// CHECK: %[[GO:.*]] = arith.cmpi slt, %[[AT]], %[[N]] : tensor<8xi32>
// CHECK: %[[NOW:.*]] = arith.select %[[LIVE]], %[[AT]], %[[KEPT]]
// CHECK: %[[LEFT:.*]] = arith.andi %[[LIVE]], %[[GO]]
// CHECK: tile.reduce(%{{.*}}) axis 0
// CHECK: scf.condition(%{{.*}}) %[[AT]], %[[NOW]], %[[LEFT]]
// CHECK: arith.addi
// CHECK: return %[[L]]#1
func.func @until_the_last(%n: tensor<8xi32>) -> tensor<8xi32> {
  %y = tile.map(%n) {
  ^bb0(%m: i32):
    %one = arith.constant 1 : i32
    %r = scf.while (%i = %one) : (i32) -> i32 {
      %go = arith.cmpi slt, %i, %m : i32
      scf.condition(%go) %i : i32
    } do {
    ^bb0(%i: i32):
      %j = arith.addi %i, %i : i32
      scf.yield %j : i32
    }
    tile.yield %r : i32
  } : (tensor<8xi32>) -> tensor<8xi32>
  return %y : tensor<8xi32>
}

// -----

// The region of a reduction stays scalar: its branches become selects.
// CHECK-LABEL: func.func @combine(
// CHECK: tile.reduce(%{{.*}}) axis 0 {
// CHECK: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32):
// CHECK: %[[MORE:.*]] = arith.cmpf ogt, %[[A]], %[[B]] : f32
// CHECK: %[[S:.*]] = arith.subf %[[A]], %[[B]] : f32
// CHECK: %[[R:.*]] = arith.select %[[MORE]], %[[S]], %[[B]] : f32
// CHECK: tile.yield %[[R]] : f32
func.func @combine(%x: tensor<64xf32>) -> f32 {
  %s = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %more = arith.cmpf ogt, %a, %b : f32
    %c = scf.if %more -> f32 {
      %d = arith.subf %a, %b : f32
      scf.yield %d : f32
    } else {
      scf.yield %b : f32
    }
    tile.yield %c : f32
  } : (tensor<64xf32>) -> f32
  return %s : f32
}

// -----

// An unlikely branch of an element is taken for all of them.
// CHECK-LABEL: func.func @unlikely(
// CHECK-SAME: %[[X:.*]]: tensor<64xf32>
// CHECK-NOT: select
// CHECK: %[[E:.*]] = math.exp %[[X]] : tensor<64xf32>
// CHECK-NOT: select
// CHECK: return %[[E]]
func.func @unlikely(%x: tensor<64xf32>) -> tensor<64xf32> {
  %y = tile.map(%x) {
  ^bb0(%a: f32):
    %zero = arith.constant 0.0 : f32
    %low = arith.cmpf olt, %a, %zero : f32
    %any = tile.unlikely %low : i1
    %b = scf.if %any -> f32 {
      %e = math.exp %a : f32
      scf.yield %e : f32
    } else {
      scf.yield %a : f32
    }
    tile.yield %b : f32
  } : (tensor<64xf32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}
