// The values that a loop carries for the registers of a tile are not compared with each other: with a thousand values
// that takes minutes. Equal ones stay here, and LLVM merges them; the clean-up of tile IR still merges its own.
// RUN: kiln-opt %s --kiln-set-target=target=sm_90a --kiln-thread-pipeline | FileCheck %s --check-prefix=THREAD
// RUN: kiln-opt %s --canonicalize | FileCheck %s --check-prefix=PLAIN

// THREAD: iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> (i32, i32)
// PLAIN: iter_args(%{{.*}} = %{{.*}}) -> (i32)
func.func @twice(%p: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r:2 = scf.for %i = %zero to %n step %one iter_args(%a = %zero, %b = %zero) -> (i32, i32) : i32 {
    %c = arith.xori %a, %i : i32
    %d = arith.muli %c, %i : i32
    scf.yield %d, %d : i32, i32
  }
  %s = arith.subi %r#0, %n : i32
  %t = arith.muli %s, %r#1 : i32
  tile.store %p, %t : !tile.ptr<i32>, i32
  return
}
