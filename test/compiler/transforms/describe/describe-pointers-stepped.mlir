// Pointers and indices that a loop advances: the box follows from the iteration, and none of them is carried.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-widen-offsets,kiln-describe-pointers{all=true},cse))' --verify-diagnostics | FileCheck %s

// The mask counts what is left of K; pointers advance by 32 columns.
// CHECK-LABEL: func @stepped_pointers
// CHECK: scf.for %[[T:[^ ]*]] = %{{.*}} iter_args(%{{[^,)]*}}) -> (tensor<64x64xf32>)
// CHECK: %[[AT:.*]] = arith.muli %[[T]], %{{.*}} : i32
// CHECK: tile.desc_load %{{.*}}[%{{.*}}, %[[AT]]]
func.func @stepped_pointers(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %k: i32, %s: i32 {tile.divisibility = 8 : i64},
    %steps: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %none = arith.constant dense<0.0> : tensor<64x32xf16>
  %by = arith.constant dense<32> : tensor<64x32xi32>
  %pid = tile.program_id x : i32
  %start = arith.muli %pid, %c64 : i32
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %depths = tile.make_range 0 to 32 : tensor<32xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %rows = arith.addi %starts, %lanes : tensor<64xi32>
  %i = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
  %j = tile.expand_dims %depths 0 : tensor<32xi32> -> tensor<1x32xi32>
  %ss = tile.splat %s : i32 -> tensor<64x1xi32>
  %is = arith.muli %i, %ss : tensor<64x1xi32>
  %o0 = tile.broadcast %is : tensor<64x1xi32> -> tensor<64x32xi32>
  %o1 = tile.broadcast %j : tensor<1x32xi32> -> tensor<64x32xi32>
  %o = arith.addi %o0, %o1 : tensor<64x32xi32>
  %base = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
  %first = tile.addptr %base, %o : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
  %last = arith.addi %k, %c32 : i32
  %trips = arith.divsi %last, %c32 : i32
  %sum:2 = scf.for %t = %c0 to %trips step %c1 iter_args(%acc = %zero, %p = %first) -> (tensor<64x64xf32>, tensor<64x32x!tile.ptr<f16>>) : i32 {
    %done = arith.muli %t, %c32 : i32
    %left = arith.subi %k, %done : i32
    %ls = tile.splat %left : i32 -> tensor<1x32xi32>
    %in = arith.cmpi slt, %j, %ls : tensor<1x32xi32>
    %mask = tile.broadcast %in : tensor<1x32xi1> -> tensor<64x32xi1>
    // expected-remark @below {{loads from 'a' through a descriptor}}
    %x = tile.load %p mask %mask other %none : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %y = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    %q = tile.addptr %p, %by : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    scf.yield %next, %q : tensor<64x64xf32>, tensor<64x32x!tile.ptr<f16>>
  }
  tile.print "sum" %sum#0 : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

// An index is carried, starting from a column that depends on the program, and the loop counts columns.
// CHECK-LABEL: func @stepped_indices
// CHECK: %[[FROM:.*]] = arith.muli %{{.*}}, %{{.*}} : i32
// CHECK: scf.for %[[T:[^ ]*]] = %[[FROM]] to {{.*}} iter_args(%{{[^,)]*}}) -> (tensor<64x64xf32>)
// CHECK-NEXT: tile.desc_load %{{.*}}[%{{.*}}, %[[T]]]
func.func @stepped_indices(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %k: i32,
    %s: i32 {tile.divisibility = 8 : i64}) attributes {tile.kernel} {
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %none = arith.constant dense<0.0> : tensor<64x32xf16>
  %by = arith.constant dense<32> : tensor<32xi32>
  %pid = tile.program_id x : i32
  %part = tile.program_id y : i32
  %from = arith.muli %part, %c64 : i32
  %start = arith.muli %pid, %c64 : i32
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %depths = tile.make_range 0 to 32 : tensor<32xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %rows = arith.addi %starts, %lanes : tensor<64xi32>
  %i = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
  %ss = tile.splat %s : i32 -> tensor<64x1xi32>
  %is = arith.muli %i, %ss : tensor<64x1xi32>
  %o0 = tile.broadcast %is : tensor<64x1xi32> -> tensor<64x32xi32>
  %base = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
  %froms = tile.splat %from : i32 -> tensor<32xi32>
  %columns = arith.addi %froms, %depths : tensor<32xi32>
  %sum:2 = scf.for %t = %from to %k step %c32 iter_args(%acc = %zero, %at = %columns) -> (tensor<64x64xf32>, tensor<32xi32>) : i32 {
    %j = tile.expand_dims %at 0 : tensor<32xi32> -> tensor<1x32xi32>
    %o1 = tile.broadcast %j : tensor<1x32xi32> -> tensor<64x32xi32>
    %o = arith.addi %o0, %o1 : tensor<64x32xi32>
    %p = tile.addptr %base, %o : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %ks = tile.splat %k : i32 -> tensor<1x32xi32>
    %in = arith.cmpi slt, %j, %ks : tensor<1x32xi32>
    %mask = tile.broadcast %in : tensor<1x32xi1> -> tensor<64x32xi1>
    // expected-remark @below {{loads from 'a' through a descriptor}}
    %x = tile.load %p mask %mask other %none : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %y = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    %later = arith.addi %at, %by : tensor<32xi32>
    scf.yield %next, %later : tensor<64x64xf32>, tensor<32xi32>
  }
  tile.print "sum" %sum#0 : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

// Each iteration advances further than the one before.
// CHECK-LABEL: func @uneven_steps
// CHECK-NOT: desc_load
func.func @uneven_steps(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %s: i32 {tile.divisibility = 8 : i64})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c9 = arith.constant 9 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %depths = tile.make_range 0 to 32 : tensor<32xi32>
  %i = tile.expand_dims %lanes 1 : tensor<64xi32> -> tensor<64x1xi32>
  %j = tile.expand_dims %depths 0 : tensor<32xi32> -> tensor<1x32xi32>
  %ss = tile.splat %s : i32 -> tensor<64x1xi32>
  %is = arith.muli %i, %ss : tensor<64x1xi32>
  %o0 = tile.broadcast %is : tensor<64x1xi32> -> tensor<64x32xi32>
  %o1 = tile.broadcast %j : tensor<1x32xi32> -> tensor<64x32xi32>
  %o = arith.addi %o0, %o1 : tensor<64x32xi32>
  %base = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
  %first = tile.addptr %base, %o : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
  %sum:2 = scf.for %t = %c0 to %c9 step %c1 iter_args(%acc = %zero, %p = %first) -> (tensor<64x64xf32>, tensor<64x32x!tile.ptr<f16>>) : i32 {
    // expected-remark @below {{loads through pointers: a loop does not step the addresses by the same distance each time}}
    %x = tile.load %p : tensor<64x32x!tile.ptr<f16>> -> tensor<64x32xf16>
    %y = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    %ts = tile.splat %t : i32 -> tensor<64x32xi32>
    %q = tile.addptr %p, %ts : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    scf.yield %next, %q : tensor<64x64xf32>, tensor<64x32x!tile.ptr<f16>>
  }
  tile.print "sum" %sum#0 : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}
