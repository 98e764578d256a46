// Each question is answered with yes, and what it decides becomes what the first region does.
// RUN: kiln-opt %s --kiln-take-unlikely > %t
// RUN: FileCheck %s --input-file=%t --implicit-check-not=tile.unlikely --implicit-check-not=scf.if
// RUN: kiln-opt %t --kiln-take-unlikely | diff %t -

// Without results and without an else: the ops stand where the branch stood, in their order, among what surrounds it.
// CHECK-LABEL: func @in_place
// CHECK-NEXT: tile.print "before"
// CHECK-NEXT: tile.print "first"
// CHECK-NEXT: tile.print "second"
// CHECK-NEXT: tile.print "after"
// CHECK-NEXT: return
func.func @in_place(%c: tensor<64xi1>) {
  %any = tile.unlikely %c : tensor<64xi1>
  tile.print "before"
  scf.if %any {
    tile.print "first"
    tile.print "second"
  }
  tile.print "after"
  return
}

// With results: those of the first region, one of which it only passes on. Nothing of the else is left.
// CHECK-LABEL: func @results
// CHECK-SAME: %[[X:.*]]: f32, %[[Y:.*]]: f32, %{{.*}}: i1
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[X]], %[[Y]]
// CHECK-NEXT: return %[[SUM]], %[[Y]]
func.func @results(%x: f32, %y: f32, %c: i1) -> (f32, f32) {
  %any = tile.unlikely %c : i1
  %r:2 = scf.if %any -> (f32, f32) {
    %sum = arith.addf %x, %y : f32
    scf.yield %sum, %y : f32, f32
  } else {
    tile.print "the guess was good"
    scf.yield %x, %x : f32, f32
  }
  return %r#0, %r#1 : f32, f32
}

// Two branches on one question, the second using what the first yields.
// CHECK-LABEL: func @two_branches
// CHECK-SAME: %[[X:.*]]: f32
// CHECK-NEXT: %[[E:.*]] = math.exp %[[X]]
// CHECK-NEXT: tile.print "between"
// CHECK-NEXT: %[[S:.*]] = math.sqrt %[[E]]
// CHECK-NEXT: return %[[S]]
func.func @two_branches(%x: f32, %c: tensor<64xi1>) -> f32 {
  %any = tile.unlikely %c : tensor<64xi1>
  %y = scf.if %any -> f32 {
    %e = math.exp %x : f32
    scf.yield %e : f32
  } else {
    scf.yield %x : f32
  }
  tile.print "between" %x : f32
  %z = scf.if %any -> f32 {
    %s = math.sqrt %y : f32
    scf.yield %s : f32
  } else {
    scf.yield %y : f32
  }
  return %z : f32
}

// Another use than a branch sees true; the branch is taken all the same.
// CHECK-LABEL: func @answer
// CHECK: %[[TRUE:.*]] = arith.constant true
// CHECK: tile.print "taken"
// CHECK: return %[[TRUE]] : i1
func.func @answer(%c: tensor<64xi1>) -> i1 {
  %any = tile.unlikely %c : tensor<64xi1>
  scf.if %any {
    tile.print "taken"
  }
  return %any : i1
}

// In a loop; a branch in a branch, on questions of their own; a branch in a loop on a question before it.
// CHECK-LABEL: func @nested
// CHECK-SAME: %[[X:.*]]: f32
// CHECK: %[[SUM:.*]] = scf.for {{.*}} iter_args(%[[SO_FAR:.*]] = %[[X]])
// CHECK-NEXT: %[[E:.*]] = math.exp %[[SO_FAR]]
// CHECK-NEXT: %[[S:.*]] = math.sqrt %[[E]]
// CHECK-NEXT: tile.print "outer"
// CHECK-NEXT: tile.print "before the loop"
// CHECK-NEXT: scf.yield %[[S]]
// CHECK-NEXT: }
// CHECK-NEXT: return %[[SUM]]
func.func @nested(%x: f32, %n: i32, %c: tensor<64xi1>, %d: i1) -> f32 {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %before = tile.unlikely %c : tensor<64xi1>
  %sum = scf.for %i = %zero to %n step %one iter_args(%s = %x) -> (f32) : i32 {
    %outer = tile.unlikely %c : tensor<64xi1>
    %y = scf.if %outer -> f32 {
      %e = math.exp %s : f32
      %inner = tile.unlikely %d : i1
      %z = scf.if %inner -> f32 {
        %root = math.sqrt %e : f32
        scf.yield %root : f32
      } else {
        scf.yield %e : f32
      }
      tile.print "outer"
      scf.yield %z : f32
    } else {
      scf.yield %s : f32
    }
    scf.if %before {
      tile.print "before the loop"
    }
    scf.yield %y : f32
  }
  return %sum : f32
}

// In an else, on the same question and on another one: both go with it.
// CHECK-LABEL: func @chain
// CHECK-SAME: %[[X:.*]]: f32, %{{.*}}: f32
// CHECK-NEXT: return %[[X]]
func.func @chain(%x: f32, %y: f32, %c: tensor<64xi1>, %d: i1) -> f32 {
  %any = tile.unlikely %c : tensor<64xi1>
  %r = scf.if %any -> f32 {
    scf.yield %x : f32
  } else {
    %again = scf.if %any -> f32 {
      scf.yield %y : f32
    } else {
      scf.yield %x : f32
    }
    %other = tile.unlikely %d : i1
    %s = scf.if %other -> f32 {
      scf.yield %again : f32
    } else {
      scf.yield %y : f32
    }
    scf.yield %s : f32
  }
  return %r : f32
}
