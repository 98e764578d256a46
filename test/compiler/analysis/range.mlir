// Bounds of integers: sources, wrapping, loops and assumptions.
// RUN: kiln-opt %s --kiln-print-alignment | FileCheck %s

// CHECK-LABEL: func @sources
func.func @sources() {
  // CHECK: tile.program_id {{.*}}range [0, 2147483646]
  %pid = tile.program_id x : i32
  // CHECK: tile.num_programs {{.*}}range [1, 2147483647]
  %count = tile.num_programs x : i32
  // CHECK: tile.make_range {{.*}}range [16, 47]
  %lanes = tile.make_range 16 to 48 : tensor<32xi32>
  // CHECK: arith.constant {{.*}}range [-3, 5]
  %list = arith.constant dense<[1, -3, 5, 0]> : tensor<4xi32>
  // A product that may wrap has no bounds.
  %block = arith.constant 1024 : i32
  // CHECK: arith.muli {{.*}}range [-2147483648, 2147483647]
  %start = arith.muli %pid, %block : i32
  %wide = arith.extsi %pid : i32 to i64
  %wide_block = arith.constant 1024 : i64
  // CHECK: arith.muli {{.*}}range [0, 2199023253504]
  %wide_start = arith.muli %wide, %wide_block : i64
  return
}

// A remainder has the sign of the dividend, whatever the divisor.
// CHECK-LABEL: func @remainder
func.func @remainder(%n: i32) {
  %pid = tile.program_id x : i32
  // CHECK: arith.remsi {{.*}}range [0, 2147483646]
  %inner = arith.remsi %pid, %n : i32
  // A quotient's sign depends on the divisor's too.
  // CHECK: arith.divsi {{.*}}range [-2147483646, 2147483646]
  %outer = arith.divsi %pid, %n : i32
  return
}

// CHECK-LABEL: func @sizes
func.func @sizes(%n: i32) {
  %lanes = tile.make_range 0 to 32 : tensor<32xi32>
  %ten = arith.constant dense<10> : tensor<32xi32>
  %forty = arith.constant dense<40> : tensor<32xi32>
  %across = arith.subi %lanes, %ten : tensor<32xi32>
  // CHECK: math.absi {{.*}}range [0, 21]
  %near = math.absi %across : tensor<32xi32>
  %below = arith.subi %lanes, %forty : tensor<32xi32>
  // CHECK: math.absi {{.*}}range [9, 40]
  %far = math.absi %below : tensor<32xi32>
  // The smallest integer has no absolute value.
  // CHECK: math.absi {{.*}}range [-2147483648, 2147483647]
  %any = math.absi %n : i32
  return
}

// CHECK-LABEL: func @loops
func.func @loops(%n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %by = arith.constant 16 : i32
  %end = arith.constant 160 : i32
  // A sum of loop-invariant steps over a known trip count is bounded; over an unknown count it is not.
  %0 = scf.for %i = %zero to %end step %by iter_args(%s = %zero) -> (i32) : i32 {
    // CHECK: arith.addi {{.*}}range [1, 11]
    %t = arith.addi %s, %one : i32
    scf.yield %t : i32
  }
  // CHECK: kiln.alignment = ["{{[^"]*}}range [0, 10]
  // CHECK-SAME: kiln.alignment_args = ["{{[^"]*}}range [0, 159]
  %1 = scf.for %i = %zero to %n step %by iter_args(%s = %zero) -> (i32) : i32 {
    %t = arith.addi %s, %end : i32
    scf.yield %t : i32
  }
  // CHECK: kiln.alignment = ["{{[^"]*}}range [-2147483648, 2147483647]
  return
}

// CHECK-LABEL: func @assumptions
func.func @assumptions(%n: i32, %m: i32) {
  %zero = arith.constant 0 : i32
  %top = arith.constant 65536 : i32
  %a = arith.cmpi sgt, %n, %zero : i32
  %b = arith.cmpi sgt, %top, %n : i32
  %both = arith.andi %a, %b : i1
  tile.assume %both
  // m < n bounds m by what is known about n.
  %c = arith.cmpi ult, %m, %n : i32
  tile.assume %c
  // CHECK: arith.addi {{.*}}range [1, 65535]
  %x = arith.addi %n, %zero : i32
  %y = arith.addi %m, %zero : i32
  return
}

// CHECK-LABEL: func @assumed_on_a_branch
func.func @assumed_on_a_branch(%n: i32, %c: i1) {
  %zero = arith.constant 0 : i32
  scf.if %c {
    %a = arith.cmpi sgt, %n, %zero : i32
    tile.assume %a
  }
  // CHECK: arith.addi {{.*}}range [-2147483648, 2147483647]
  %x = arith.addi %n, %zero : i32
  return
}
