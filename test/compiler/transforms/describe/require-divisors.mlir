// Divisors that the launch can check are positive; the requirements are attached to the kernel.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(kiln-require-divisors))' | FileCheck %s

// The height of a group falls from program to program: the last one decides for all. Loads that use it then have a
// known sign.
module attributes {kgpu.describe_pointers} {
  // CHECK-LABEL: func @grouped
  // CHECK-SAME: kgpu.positive = ["$0 last0 $1 128 / 8 * / 8 * - 8 min"]
  // CHECK: %[[HEIGHT:.*]] = arith.minsi
  // CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0 : i32
  // CHECK-NEXT: %[[GOOD:.*]] = arith.cmpi sgt, %[[HEIGHT]], %[[ZERO]] : i32
  // CHECK-NEXT: tile.assume %[[GOOD]]
  // CHECK-NEXT: arith.divsi %{{.*}}, %[[HEIGHT]]
  func.func @grouped(%m: i32, %n: i32, %out: !tile.ptr<i32>) attributes {tile.kernel} {
    %c8 = arith.constant 8 : i32
    %pid = tile.program_id x : i32
    %c128 = arith.constant 128 : i32
    %across = arith.divsi %n, %c128 : i32
    %width = arith.muli %across, %c8 : i32
    %group = arith.divsi %pid, %width : i32
    %first = arith.muli %group, %c8 : i32
    %left = arith.subi %m, %first : i32
    %height = arith.minsi %left, %c8 : i32
    %column = arith.divsi %pid, %height : i32
    tile.store %out, %column : !tile.ptr<i32>, i32
    return
  }

  // If the divisor rises, the first program is checked; a divisor that is known needs no check.
  // CHECK-LABEL: func @rising
  // CHECK-SAME: kgpu.positive = ["0 $0 -"]
  func.func @rising(%m: i32, %out: !tile.ptr<i32>) attributes {tile.kernel} {
    %pid = tile.program_id y : i32
    %divisor = arith.subi %pid, %m : i32
    %a = arith.divsi %pid, %divisor : i32
    %b = arith.divsi %a, %m : i32
    tile.store %out, %b : !tile.ptr<i32>, i32
    return
  }

  // Neither rising nor falling, read from memory, or masked by bits: cannot be checked.
  // CHECK-LABEL: func @unknown
  // CHECK-NOT: tile.assume
  func.func @unknown(%m: i32, %k: i8, %out: !tile.ptr<i32>) attributes {tile.kernel} {
    %c3 = arith.constant 3 : i32
    %pid = tile.program_id x : i32
    %rest = arith.remsi %pid, %c3 : i32
    %turns = arith.subi %rest, %m : i32
    %a = arith.divsi %pid, %turns : i32
    %read = tile.load %out : !tile.ptr<i32> -> i32
    %b = arith.divsi %a, %read : i32
    %bits = arith.xori %pid, %m : i32
    %far = arith.subi %bits, %m : i32
    %c = arith.divsi %b, %far : i32
    %narrow = arith.extsi %k : i8 to i32
    %d = arith.divsi %c, %narrow : i32
    // A product of two arguments may wrap.
    %square = arith.muli %m, %m : i32
    %e = arith.divsi %d, %square : i32
    tile.store %out, %e : !tile.ptr<i32>, i32
    return
  }

  // The tile number in a loop over tiles: the last is their count minus one, and the count is at most the largest grid.
  // CHECK-LABEL: func @tiles
  // CHECK-SAME: kgpu.positive = ["524289 $0 $1 * -", "$0 $1 * 1 +", "$0 $0 $1 * 1 - $1 / -"]
  // CHECK: %[[COUNT:.*]] = arith.muli %arg0, %arg1
  // CHECK-DAG: arith.cmpi sle, %[[COUNT]]
  // CHECK-DAG: arith.cmpi sge, %[[COUNT]]
  func.func @tiles(%m: i32, %n: i32, %out: !tile.ptr<i32>) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant dense<0.0> : tensor<16x16xf32>
    %ones = arith.constant dense<1.0> : tensor<16x16xf16>
    %pid = tile.program_id x : i32
    %step = tile.num_programs x : i32
    %count = arith.muli %m, %n : i32
    scf.for %tile = %pid to %count step %step : i32 {
      %row = arith.divsi %tile, %n : i32
      %left = arith.subi %m, %row : i32
      %part = arith.divsi %tile, %left : i32
      %sum = scf.for %k = %c0 to %part step %c1 iter_args(%acc = %zero) -> (tensor<16x16xf32>) : i32 {
        %next = tile.dot %ones, %ones, %acc : tensor<16x16xf16>, tensor<16x16xf16> -> tensor<16x16xf32>
        scf.yield %next : tensor<16x16xf32>
      }
      tile.store %out, %part : !tile.ptr<i32>, i32
    }
    return
  }
}

// -----

// CHECK-LABEL: func @unasked
// CHECK-NOT: tile.assume
func.func @unasked(%m: i32, %out: !tile.ptr<i32>) attributes {tile.kernel} {
  %pid = tile.program_id x : i32
  %divisor = arith.subi %m, %pid : i32
  %a = arith.divsi %pid, %divisor : i32
  tile.store %out, %a : !tile.ptr<i32>, i32
  return
}
