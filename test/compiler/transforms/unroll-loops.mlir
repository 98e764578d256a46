// RUN: kiln-opt %s --kiln-unroll-loops > %t
// RUN: FileCheck %s --input-file=%t
// RUN: kiln-opt %t --kiln-unroll-loops | diff %t -

// Constant bounds: 7 iterations by 3 are two rounds and one remaining iteration. Hints other than the factor stay.
// CHECK-LABEL: func @constant_bounds
// CHECK-DAG: %[[LB:.*]] = arith.constant 0 : i32
// CHECK-DAG: %[[UB:.*]] = arith.constant 14 : i32
// CHECK-DAG: %[[STEP:.*]] = arith.constant 2 : i32
// CHECK-DAG: %[[MID:.*]] = arith.constant 12 : i32
// CHECK-DAG: %[[STRIDE:.*]] = arith.constant 6 : i32
// CHECK: %[[MAIN:.*]] = scf.for %[[I:.*]] = %[[LB]] to %[[MID]] step %[[STRIDE]] iter_args(%[[S:.*]] = %{{.*}})
// CHECK-NEXT: %[[S1:.*]] = arith.addi %[[S]], %[[I]]
// CHECK-NEXT: %[[I1:.*]] = arith.addi %[[I]], %[[STEP]]
// CHECK-NEXT: %[[S2:.*]] = arith.addi %[[S1]], %[[I1]]
// CHECK-NEXT: %[[I2:.*]] = arith.addi %[[I1]], %[[STEP]]
// CHECK-NEXT: %[[S3:.*]] = arith.addi %[[S2]], %[[I2]]
// CHECK-NEXT: scf.yield %[[S3]]
// CHECK-NEXT: } {tile.num_stages = 2 : i32}
// CHECK: scf.for %{{.*}} = %[[MID]] to %[[UB]] step %[[STEP]] iter_args(%{{.*}} = %[[MAIN]])
// CHECK: } {tile.num_stages = 2 : i32}
func.func @constant_bounds() -> i32 {
  %lb = arith.constant 0 : i32
  %ub = arith.constant 14 : i32
  %step = arith.constant 2 : i32
  %r = scf.for %i = %lb to %ub step %step iter_args(%s = %lb) -> (i32) : i32 {
    %t = arith.addi %s, %i : i32
    scf.yield %t : i32
  } {tile.unroll = 3 : i32, tile.num_stages = 2 : i32}
  return %r : i32
}

// A multiple: no second loop.
// CHECK-LABEL: func @whole_rounds
// CHECK-COUNT-1: scf.for
// CHECK-NOT: scf.for
func.func @whole_rounds() -> i32 {
  %lb = arith.constant 0 : i32
  %ub = arith.constant 8 : i32
  %step = arith.constant 1 : i32
  %r = scf.for %i = %lb to %ub step %step iter_args(%s = %lb) -> (i32) : i32 {
    %t = arith.addi %s, %i : i32
    scf.yield %t : i32
  } {tile.unroll = 4 : i32}
  return %r : i32
}

// Unknown bounds: an empty loop stays empty, and the count is unsigned. The first loop never passes the upper bound.
// CHECK-LABEL: func @unknown_bounds
// CHECK-SAME: (%[[LB:.*]]: i32, %[[UB:.*]]: i32, %[[STEP:.*]]: i32)
// CHECK: %[[RUNS:.*]] = arith.cmpi slt, %[[LB]], %[[UB]]
// CHECK: %[[DIFF:.*]] = arith.subi %[[UB]], %[[LB]]
// CHECK: %[[SPAN:.*]] = arith.select %[[RUNS]], %[[DIFF]], %{{.*}}
// CHECK: %[[COUNT:.*]] = arith.ceildivui %[[SPAN]], %[[STEP]]
// CHECK: %[[WHOLE:.*]] = arith.divui %[[COUNT]], %{{.*}}
// CHECK: %[[STRIDE:.*]] = arith.muli %[[STEP]], %{{.*}}
// CHECK: %[[USED:.*]] = arith.muli %[[WHOLE]], %{{.*}}
// CHECK: %[[ALL:.*]] = arith.cmpi eq, %[[USED]], %[[COUNT]]
// CHECK: %[[REACH:.*]] = arith.muli %[[WHOLE]], %[[STRIDE]]
// CHECK: %[[LENGTH:.*]] = arith.select %[[ALL]], %[[SPAN]], %[[REACH]]
// CHECK: %[[FAR:.*]] = arith.addi %[[LB]], %[[LENGTH]]
// CHECK: %[[MID:.*]] = arith.maxsi %[[FAR]], %[[LB]]
// CHECK: scf.for %{{.*}} = %[[LB]] to %[[MID]] step %[[STRIDE]]
// CHECK: scf.for %{{.*}} = %[[MID]] to %[[UB]] step %[[STEP]]
func.func @unknown_bounds(%lb: i32, %ub: i32, %step: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %r = scf.for %i = %lb to %ub step %step iter_args(%s = %zero) -> (i32) : i32 {
    %t = arith.addi %s, %i : i32
    scf.yield %t : i32
  } {tile.unroll = 2 : i32}
  return %r : i32
}

// Unrolled by folding with constants, the sum is that of the plain loop: 3 + 5 + 7 + 9 + 11 = 35.
// RUN: kiln-opt %s --kiln-unroll-loops --sccp --canonicalize | FileCheck %s --check-prefix=SUM
// Fewer iterations than the factor: the loop stays as it is, without the hint.
// CHECK-LABEL: func @short
// CHECK-COUNT-1: scf.for
// CHECK-NOT: tile.unroll
func.func @short() -> i32 {
  %lb = arith.constant 0 : i32
  %ub = arith.constant 2 : i32
  %step = arith.constant 1 : i32
  %r = scf.for %i = %lb to %ub step %step iter_args(%s = %lb) -> (i32) : i32 {
    %t = arith.addi %s, %i : i32
    scf.yield %t : i32
  } {tile.unroll = 4 : i32}
  return %r : i32
}

// SUM-LABEL: func @one_round
// SUM: %[[R:.*]] = arith.constant 35 : i32
// SUM: return %[[R]]
func.func @one_round() -> i32 {
  %zero = arith.constant 0 : i32
  %lb = arith.constant 3 : i32
  %ub = arith.constant 12 : i32
  %step = arith.constant 2 : i32
  %r = scf.for %i = %lb to %ub step %step iter_args(%s = %zero) -> (i32) : i32 {
    %t = arith.addi %s, %i : i32
    scf.yield %t : i32
  } {tile.unroll = 5 : i32}
  return %r : i32
}

// Nested: both loops, the inner one first.
// CHECK-LABEL: func @nested
// CHECK: scf.for
// CHECK-COUNT-4: scf.for
// CHECK-NOT: tile.unroll
func.func @nested(%n: i32, %p: !tile.ptr<f32>, %v: f32) {
  %lb = arith.constant 0 : i32
  %ub = arith.constant 4 : i32
  %step = arith.constant 1 : i32
  scf.for %i = %lb to %ub step %step : i32 {
    scf.for %j = %lb to %n step %step : i32 {
      tile.store %p, %v : !tile.ptr<f32>, f32
    } {tile.unroll = 2 : i32}
  } {tile.unroll = 2 : i32}
  return
}

// No hint, no change.
// CHECK-LABEL: func @plain
// CHECK-COUNT-1: scf.for
// CHECK-NOT: scf.for
func.func @plain(%n: i32) -> i32 {
  %lb = arith.constant 0 : i32
  %step = arith.constant 1 : i32
  %r = scf.for %i = %lb to %n step %step iter_args(%s = %lb) -> (i32) : i32 {
    %t = arith.addi %s, %i : i32
    scf.yield %t : i32
  }
  return %r : i32
}
