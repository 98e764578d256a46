// RUN: kiln-opt %s --kiln-to-llvm | FileCheck %s
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},kiln-to-llvm)' | FileCheck %s --check-prefix=GPU
// Only the LLVM dialect is left; in particular no unrealized cast.
// RUN: kiln-opt %s --kiln-to-llvm | FileCheck %s --check-prefix=ONLY
// ONLY-NOT: {{[^a-z](scf|cf|arith|math|vector|ub|func)\.[a-z]}}
// ONLY-NOT: unrealized_conversion_cast

// CHECK-LABEL: llvm.func @loop
// CHECK: llvm.br ^[[HEAD:bb[0-9]+]](%{{.*}} : i64, vector<16xf32>)
// CHECK: ^[[HEAD]](%{{.*}}: i64, %{{.*}}: vector<16xf32>):
// CHECK: llvm.icmp "slt"
// CHECK: llvm.intr.fma
func.func @loop(%n: index, %x: vector<16xf32>) -> vector<16xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %x) -> (vector<16xf32>) {
    %f = math.fma %acc, %x, %x : vector<16xf32>
    scf.yield %f : vector<16xf32>
  }
  return %r : vector<16xf32>
}

// CHECK-LABEL: llvm.func @branches
// CHECK: llvm.cond_br
func.func @branches(%c: i1, %p: !llvm.ptr, %q: !llvm.ptr) -> !llvm.ptr {
  %r = scf.if %c -> (!llvm.ptr) {
    scf.yield %p : !llvm.ptr
  } else {
    scf.yield %q : !llvm.ptr
  }
  return %r : !llvm.ptr
}

// CHECK-LABEL: llvm.func @while
// CHECK: llvm.cond_br
func.func @while(%x: i32) -> i32 {
  %c1 = arith.constant 1 : i32
  %r = scf.while (%a = %x) : (i32) -> i32 {
    %more = arith.cmpi sgt, %a, %c1 : i32
    scf.condition(%more) %a : i32
  } do {
  ^bb0(%a: i32):
    %h = arith.shrui %a, %c1 : i32
    scf.yield %h : i32
  }
  return %r : i32
}

// CHECK-LABEL: llvm.func @shuffles
// CHECK: llvm.shufflevector %{{.*}}, %{{.*}} [4, 5, 6, 7] : vector<8xf32>
// CHECK: llvm.insertelement
// CHECK: llvm.shufflevector
func.func @shuffles(%x: vector<8xf32>, %s: f32) -> (vector<4xf32>, vector<8xf32>) {
  %high = vector.shuffle %x, %x [4, 5, 6, 7] : vector<8xf32>, vector<8xf32>
  %all = vector.broadcast %s : f32 to vector<8xf32>
  return %high, %all : vector<4xf32>, vector<8xf32>
}

// CHECK-LABEL: llvm.func @steps
// CHECK: llvm.mlir.constant(dense<[0, 1, 2, 3]> : vector<4xindex>) : vector<4xi64>
func.func @steps() -> vector<4xindex> {
  %r = vector.step : vector<4xindex>
  return %r : vector<4xindex>
}

// CHECK-LABEL: llvm.func @divisions
// CHECK: llvm.sdiv
func.func @divisions(%a: i32, %b: i32) -> (i32, i32) {
  %c = arith.ceildivsi %a, %b : i32
  %f = arith.floordivsi %a, %b : i32
  return %c, %f : i32, i32
}

// CHECK-LABEL: llvm.func @poison
// CHECK: llvm.mlir.poison : vector<4xf32>
func.func @poison() -> vector<4xf32> {
  %p = ub.poison : vector<4xf32>
  return %p : vector<4xf32>
}

// A counter that may wrap when it passes the upper bound. From 0, on a CPU: compared as an unsigned number, after a
// signed comparison of the bounds. On GPUs compared before the step.
// GPU-LABEL: llvm.func @from_zero
// GPU-SAME: (%[[UPPER:.*]]: i32
// GPU: %[[LIMIT:.*]] = llvm.intr.ssub.sat(%[[UPPER]], %{{.*}})
// GPU: ^{{.*}}(%[[I:.*]]: i32, %{{.*}}: i32):
// GPU: llvm.icmp "slt" %[[I]], %[[LIMIT]] : i32
// CHECK-LABEL: llvm.func @from_zero
// CHECK-SAME: (%[[UPPER:.*]]: i32)
// CHECK: %[[RUNS:.*]] = llvm.icmp "sgt" %[[UPPER]], %{{.*}} : i32
// CHECK: llvm.cond_br %[[RUNS]]
// CHECK: %[[NEXT:.*]] = llvm.add
// CHECK: %[[MORE:.*]] = llvm.icmp "ult" %[[NEXT]], %[[UPPER]] : i32
// CHECK: llvm.cond_br %[[MORE]]
func.func @from_zero(%n: i32) -> i32 {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %r = scf.for %i = %c0 to %n step %c64 iter_args(%s = %c0) -> (i32) : i32 {
    %t = arith.xori %s, %i : i32
    scf.yield %t : i32
  }
  return %r : i32
}

// From anywhere: compared before the step.
// CHECK-LABEL: llvm.func @from_anywhere
// CHECK-SAME: (%[[FIRST:.*]]: i32, %[[UPPER:.*]]: i32
// CHECK: llvm.icmp "slt" %[[FIRST]], %[[UPPER]] : i32
// CHECK: %[[LIMIT:.*]] = llvm.intr.ssub.sat(%[[UPPER]], %{{.*}})
// CHECK: ^{{.*}}(%[[I:.*]]: i32, %{{.*}}: i32):
// CHECK: llvm.add %[[I]]
// CHECK: llvm.icmp "slt" %[[I]], %[[LIMIT]] : i32
func.func @from_anywhere(%first: i32, %n: i32) -> i32 {
  %c64 = arith.constant 64 : i32
  %r = scf.for %i = %first to %n step %c64 iter_args(%s = %first) -> (i32) : i32 {
    %t = arith.xori %s, %i : i32
    scf.yield %t : i32
  }
  return %r : i32
}

// Bounds that are known to be far from the end, and steps of one, which cannot pass the upper bound.
// CHECK-LABEL: llvm.func @far_from_the_end
// CHECK-NOT: ssub
// CHECK-NOT: "ult"
// CHECK: llvm.return
func.func @far_from_the_end(%first: i32, %n: i32) -> i32 {
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %end = arith.constant 2147483584 : i32
  %r = scf.for %i = %first to %end step %c64 iter_args(%s = %first) -> (i32) : i32 {
    %t = arith.xori %s, %i : i32
    scf.yield %t : i32
  }
  %u = scf.for %i = %first to %n step %c1 iter_args(%s = %r) -> (i32) : i32 {
    %t = arith.xori %s, %i : i32
    scf.yield %t : i32
  }
  return %u : i32
}
