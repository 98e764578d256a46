// Loads and stores of matrices through pointers that walk a box become descriptor accesses.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-widen-offsets,kiln-describe-pointers{all=true},cse))' 2>/dev/null | FileCheck %s

// Bounds come from the masks; no pointers or masks are left.
// CHECK-LABEL: func @masked
// CHECK-SAME: (%[[A:[^:]*]]: {{[^)]*}}, %[[M:[^:]*]]: i32, %[[K:[^:]*]]: i32, %[[S:[^:]*]]: i32
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1 : i64
// CHECK-DAG: %[[C64:.*]] = arith.constant 64 : i32
// CHECK-DAG: %[[WM:.*]] = arith.extsi %[[M]] : i32 to i64
// CHECK-DAG: %[[WS:.*]] = arith.extsi %[[S]] : i32 to i64
// CHECK-DAG: %[[WK:.*]] = arith.extsi %[[K]] : i32 to i64
// CHECK-DAG: %[[DESC:.*]] = tile.make_desc %[[A]], shape[%[[WM]], %[[WK]]] strides[%[[WS]], %[[ONE]]]
// CHECK-DAG: %[[OUT:.*]] = tile.make_desc %{{.*}}, shape[%[[WM]], %[[WM]]] strides[%[[WS]], %[[ONE]]]
// CHECK: %[[PID:.*]] = tile.program_id x
// CHECK: %[[ROW:.*]] = arith.muli %[[PID]], %[[C64]]
// CHECK: scf.for %[[STEP:.*]] = {{.*}} iter_args(%{{[^,)]*}}) -> (tensor<64x64xf32>)
// CHECK-NEXT: %[[X:.*]] = tile.desc_load %[[DESC]][%[[ROW]], %[[STEP]]] : <tensor<64x32xf16>>
// CHECK-NEXT: tile.trans %[[X]]
// CHECK-NEXT: tile.dot %[[X]]
// CHECK-NOT: !tile.ptr<f16>>
// CHECK: tile.desc_store %[[OUT]][%[[ROW]], %[[ROW]]]

func.func @masked(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
    %m: i32, %k: i32, %s: i32 {tile.divisibility = 8 : i64}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %pid = tile.program_id x : i32
  %start = arith.muli %pid, %c64 : i32
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %depths = tile.make_range 0 to 32 : tensor<32xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %rows = arith.addi %starts, %lanes : tensor<64xi32>
  %sum = scf.for %k0 = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %at = tile.splat %k0 : i32 -> tensor<32xi32>
    %columns = arith.addi %at, %depths : tensor<32xi32>
    %i = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
    %j = tile.expand_dims %columns 0 : tensor<32xi32> -> tensor<1x32xi32>
    %stride = tile.splat %s : i32 -> tensor<64x1xi32>
    %is = arith.muli %i, %stride : tensor<64x1xi32>
    %o0 = tile.broadcast %is : tensor<64x1xi32> -> tensor<64x32xi32>
    %o1 = tile.broadcast %j : tensor<1x32xi32> -> tensor<64x32xi32>
    %o = arith.addi %o0, %o1 : tensor<64x32xi32>
    %base = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
    %p = tile.addptr %base, %o : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %ms = tile.splat %m : i32 -> tensor<64x1xi32>
    %mi = arith.cmpi slt, %i, %ms : tensor<64x1xi32>
    %mm = tile.broadcast %mi : tensor<64x1xi1> -> tensor<64x32xi1>
    %ends = tile.splat %k : i32 -> tensor<1x32xi32>
    %mj = arith.cmpi slt, %j, %ends : tensor<1x32xi32>
    %mk = tile.broadcast %mj : tensor<1x32xi1> -> tensor<64x32xi1>
    %mask2 = arith.andi %mm, %mk : tensor<64x32xi1>
    %none = arith.constant dense<0.0> : tensor<64x32xf16>
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  %ri = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
  %ci = tile.expand_dims %rows 0 : tensor<64xi32> -> tensor<1x64xi32>
  %rs = tile.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %ri, %rs : tensor<64x1xi32>
  %r0 = tile.broadcast %ro : tensor<64x1xi32> -> tensor<64x64xi32>
  %r1 = tile.broadcast %ci : tensor<1x64xi32> -> tensor<64x64xi32>
  %r = arith.addi %r0, %r1 : tensor<64x64xi32>
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %q = tile.addptr %cs, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %lr = tile.splat %m : i32 -> tensor<64x1xi32>
  %br = arith.cmpi slt, %ri, %lr : tensor<64x1xi32>
  %m0 = tile.broadcast %br : tensor<64x1xi1> -> tensor<64x64xi1>
  %lc = tile.splat %m : i32 -> tensor<1x64xi32>
  %bc = arith.cmpi slt, %ci, %lc : tensor<1x64xi32>
  %m1 = tile.broadcast %bc : tensor<1x64xi1> -> tensor<64x64xi1>
  %all = arith.andi %m0, %m1 : tensor<64x64xi1>
  tile.store %q, %sum mask %all : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32> mask tensor<64x64xi1>
  return
}

// As large as boxes may reach, 2^19 programs and K up to 2^30: reads are the same as through the pointers.
// CHECK-LABEL: func @unmasked
// CHECK-DAG: %[[ROWS:.*]] = arith.constant 33554432 : i64
// CHECK-DAG: %[[COLUMNS:.*]] = arith.constant 1073741824 : i64
// CHECK: tile.make_desc %{{.*}}, shape[%[[ROWS]], %[[COLUMNS]]]
// CHECK: tile.desc_load
func.func @unmasked(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
    %m: i32, %k: i32, %s: i32 {tile.divisibility = 8 : i64}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %pid = tile.program_id x : i32
  %start = arith.muli %pid, %c64 : i32
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %depths = tile.make_range 0 to 32 : tensor<32xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %rows = arith.addi %starts, %lanes : tensor<64xi32>
  %sum = scf.for %k0 = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %at = tile.splat %k0 : i32 -> tensor<32xi32>
    %columns = arith.addi %at, %depths : tensor<32xi32>
    %i = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
    %j = tile.expand_dims %columns 0 : tensor<32xi32> -> tensor<1x32xi32>
    %stride = tile.splat %s : i32 -> tensor<64x1xi32>
    %is = arith.muli %i, %stride : tensor<64x1xi32>
    %o0 = tile.broadcast %is : tensor<64x1xi32> -> tensor<64x32xi32>
    %o1 = tile.broadcast %j : tensor<1x32xi32> -> tensor<64x32xi32>
    %o = arith.addi %o0, %o1 : tensor<64x32xi32>
    %base = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
    %p = tile.addptr %base, %o : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %x = tile.load %p : tensor<64x32x!tile.ptr<f16>> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  %ri = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
  %ci = tile.expand_dims %rows 0 : tensor<64xi32> -> tensor<1x64xi32>
  %rs = tile.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %ri, %rs : tensor<64x1xi32>
  %r0 = tile.broadcast %ro : tensor<64x1xi32> -> tensor<64x64xi32>
  %r1 = tile.broadcast %ci : tensor<1x64xi32> -> tensor<64x64xi32>
  %r = arith.addi %r0, %r1 : tensor<64x64xi32>
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %q = tile.addptr %cs, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %lr = tile.splat %m : i32 -> tensor<64x1xi32>
  %br = arith.cmpi slt, %ri, %lr : tensor<64x1xi32>
  %m0 = tile.broadcast %br : tensor<64x1xi1> -> tensor<64x64xi1>
  %lc = tile.splat %m : i32 -> tensor<1x64xi32>
  %bc = arith.cmpi slt, %ci, %lc : tensor<1x64xi32>
  %m1 = tile.broadcast %bc : tensor<1x64xi1> -> tensor<64x64xi1>
  %all = arith.andi %m0, %m1 : tensor<64x64xi1>
  tile.store %q, %sum mask %all : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32> mask tensor<64x64xi1>
  return
}

// Rows wrap around in the loads, and are masked in the store.
// CHECK-LABEL: func @remainders
// CHECK-SAME: %[[M:[^:]*]]: i32, %[[K:[^:]*]]: i32
// CHECK-DAG: %[[WM:.*]] = arith.extsi %[[M]] : i32 to i64
// CHECK-DAG: %[[WK:.*]] = arith.extsi %[[K]] : i32 to i64
// CHECK-DAG: tile.make_desc %{{.*}}, shape[%[[WM]], %[[WK]]]
// CHECK: tile.desc_load
func.func @remainders(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
    %m: i32, %k: i32, %s: i32 {tile.divisibility = 8 : i64}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %pid = tile.program_id x : i32
  %start = arith.muli %pid, %c64 : i32
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %depths = tile.make_range 0 to 32 : tensor<32xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %rows = arith.addi %starts, %lanes : tensor<64xi32>
  %ms0 = tile.splat %m : i32 -> tensor<64xi32>
  %folded = arith.remsi %rows, %ms0 : tensor<64xi32>
  %sum = scf.for %k0 = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %at = tile.splat %k0 : i32 -> tensor<32xi32>
    %columns = arith.addi %at, %depths : tensor<32xi32>
    %i = tile.expand_dims %folded 1 : tensor<64xi32> -> tensor<64x1xi32>
    %j = tile.expand_dims %columns 0 : tensor<32xi32> -> tensor<1x32xi32>
    %stride = tile.splat %s : i32 -> tensor<64x1xi32>
    %is = arith.muli %i, %stride : tensor<64x1xi32>
    %o0 = tile.broadcast %is : tensor<64x1xi32> -> tensor<64x32xi32>
    %o1 = tile.broadcast %j : tensor<1x32xi32> -> tensor<64x32xi32>
    %o = arith.addi %o0, %o1 : tensor<64x32xi32>
    %base = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
    %p = tile.addptr %base, %o : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %ends = tile.splat %k : i32 -> tensor<1x32xi32>
    %mj = arith.cmpi slt, %j, %ends : tensor<1x32xi32>
    %mk = tile.broadcast %mj : tensor<1x32xi1> -> tensor<64x32xi1>
    %none = arith.constant dense<0.0> : tensor<64x32xf16>
    %x = tile.load %p mask %mk other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  %ri = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
  %ci = tile.expand_dims %rows 0 : tensor<64xi32> -> tensor<1x64xi32>
  %rs = tile.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %ri, %rs : tensor<64x1xi32>
  %r0 = tile.broadcast %ro : tensor<64x1xi32> -> tensor<64x64xi32>
  %r1 = tile.broadcast %ci : tensor<1x64xi32> -> tensor<64x64xi32>
  %r = arith.addi %r0, %r1 : tensor<64x64xi32>
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %q = tile.addptr %cs, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %lr = tile.splat %m : i32 -> tensor<64x1xi32>
  %br = arith.cmpi slt, %ri, %lr : tensor<64x1xi32>
  %m0 = tile.broadcast %br : tensor<64x1xi1> -> tensor<64x64xi1>
  %lc = tile.splat %m : i32 -> tensor<1x64xi32>
  %bc = arith.cmpi slt, %ci, %lc : tensor<1x64xi32>
  %m1 = tile.broadcast %bc : tensor<1x64xi1> -> tensor<64x64xi1>
  %all = arith.andi %m0, %m1 : tensor<64x64xi1>
  tile.store %q, %sum mask %all : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32> mask tensor<64x64xi1>
  return
}

// The same, written differently.
// CHECK-LABEL: func @chosen
// CHECK-SAME: %[[M:[^:]*]]: i32, %[[K:[^:]*]]: i32
// CHECK-DAG: %[[WM:.*]] = arith.extsi %[[M]] : i32 to i64
// CHECK-DAG: %[[WK:.*]] = arith.extsi %[[K]] : i32 to i64
// CHECK-DAG: tile.make_desc %{{.*}}, shape[%[[WM]], %[[WK]]]
// CHECK: tile.desc_load
func.func @chosen(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
    %m: i32, %k: i32, %s: i32 {tile.divisibility = 8 : i64}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %pid = tile.program_id x : i32
  %start = arith.muli %pid, %c64 : i32
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %depths = tile.make_range 0 to 32 : tensor<32xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %rows = arith.addi %starts, %lanes : tensor<64xi32>
  %ms0 = tile.splat %m : i32 -> tensor<64xi32>
  %inside = arith.cmpi slt, %rows, %ms0 : tensor<64xi32>
  %nowhere = arith.constant dense<0> : tensor<64xi32>
  %folded = arith.select %inside, %rows, %nowhere : tensor<64xi1>, tensor<64xi32>
  %sum = scf.for %k0 = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %at = tile.splat %k0 : i32 -> tensor<32xi32>
    %columns = arith.addi %at, %depths : tensor<32xi32>
    %i = tile.expand_dims %folded 1 : tensor<64xi32> -> tensor<64x1xi32>
    %j = tile.expand_dims %columns 0 : tensor<32xi32> -> tensor<1x32xi32>
    %stride = tile.splat %s : i32 -> tensor<64x1xi32>
    %is = arith.muli %i, %stride : tensor<64x1xi32>
    %o0 = tile.broadcast %is : tensor<64x1xi32> -> tensor<64x32xi32>
    %o1 = tile.broadcast %j : tensor<1x32xi32> -> tensor<64x32xi32>
    %o = arith.addi %o0, %o1 : tensor<64x32xi32>
    %base = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
    %p = tile.addptr %base, %o : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %ends = tile.splat %k : i32 -> tensor<1x32xi32>
    %mj = arith.cmpi slt, %j, %ends : tensor<1x32xi32>
    %mk = tile.broadcast %mj : tensor<1x32xi1> -> tensor<64x32xi1>
    %none = arith.constant dense<0.0> : tensor<64x32xf16>
    %x = tile.load %p mask %mk other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  %ri = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
  %ci = tile.expand_dims %rows 0 : tensor<64xi32> -> tensor<1x64xi32>
  %rs = tile.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %ri, %rs : tensor<64x1xi32>
  %r0 = tile.broadcast %ro : tensor<64x1xi32> -> tensor<64x64xi32>
  %r1 = tile.broadcast %ci : tensor<1x64xi32> -> tensor<64x64xi32>
  %r = arith.addi %r0, %r1 : tensor<64x64xi32>
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %q = tile.addptr %cs, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %lr = tile.splat %m : i32 -> tensor<64x1xi32>
  %br = arith.cmpi slt, %ri, %lr : tensor<64x1xi32>
  %m0 = tile.broadcast %br : tensor<64x1xi1> -> tensor<64x64xi1>
  %lc = tile.splat %m : i32 -> tensor<1x64xi32>
  %bc = arith.cmpi slt, %ci, %lc : tensor<1x64xi32>
  %m1 = tile.broadcast %bc : tensor<1x64xi1> -> tensor<64x64xi1>
  %all = arith.andi %m0, %m1 : tensor<64x64xi1>
  tile.store %q, %sum mask %all : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32> mask tensor<64x64xi1>
  return
}

// Rows are contiguous: the box is transposed.
// CHECK-LABEL: func @across
// CHECK-SAME: %[[M:[^:]*]]: i32, %[[K:[^:]*]]: i32, %[[S:[^:]*]]: i32
// CHECK-DAG: %[[WK:.*]] = arith.extsi %[[K]] : i32 to i64
// CHECK-DAG: %[[WS:.*]] = arith.extsi %[[S]] : i32 to i64
// CHECK-DAG: %[[WM:.*]] = arith.extsi %[[M]] : i32 to i64
// CHECK-DAG: %[[DESC:.*]] = tile.make_desc %{{.*}}, shape[%[[WK]], %[[WM]]] strides[%[[WS]], %{{.*}}] : <f16> -> <tensor<32x64xf16>>
// CHECK: scf.for %[[STEP:[^ ]*]]
// CHECK: %[[X:.*]] = tile.desc_load %[[DESC]][%[[STEP]], %{{.*}}]
// CHECK: tile.trans %[[X]] [1, 0] : tensor<32x64xf16> -> tensor<64x32xf16>
func.func @across(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
    %m: i32, %k: i32, %s: i32 {tile.divisibility = 8 : i64}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %pid = tile.program_id x : i32
  %start = arith.muli %pid, %c64 : i32
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %depths = tile.make_range 0 to 32 : tensor<32xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %rows = arith.addi %starts, %lanes : tensor<64xi32>
  %one = arith.constant 1 : i32
  %sum = scf.for %k0 = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %at = tile.splat %k0 : i32 -> tensor<32xi32>
    %columns = arith.addi %at, %depths : tensor<32xi32>
    %i = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
    %j = tile.expand_dims %columns 0 : tensor<32xi32> -> tensor<1x32xi32>
    %stride = tile.splat %one : i32 -> tensor<64x1xi32>
    %is = arith.muli %i, %stride : tensor<64x1xi32>
    %across = tile.splat %s : i32 -> tensor<1x32xi32>
    %js = arith.muli %j, %across : tensor<1x32xi32>
    %o0 = tile.broadcast %is : tensor<64x1xi32> -> tensor<64x32xi32>
    %o1 = tile.broadcast %js : tensor<1x32xi32> -> tensor<64x32xi32>
    %o = arith.addi %o0, %o1 : tensor<64x32xi32>
    %base = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
    %p = tile.addptr %base, %o : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %ms = tile.splat %m : i32 -> tensor<64x1xi32>
    %mi = arith.cmpi slt, %i, %ms : tensor<64x1xi32>
    %mm = tile.broadcast %mi : tensor<64x1xi1> -> tensor<64x32xi1>
    %ends = tile.splat %k : i32 -> tensor<1x32xi32>
    %mj = arith.cmpi slt, %j, %ends : tensor<1x32xi32>
    %mk = tile.broadcast %mj : tensor<1x32xi1> -> tensor<64x32xi1>
    %mask2 = arith.andi %mm, %mk : tensor<64x32xi1>
    %none = arith.constant dense<0.0> : tensor<64x32xf16>
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  %ri = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
  %ci = tile.expand_dims %rows 0 : tensor<64xi32> -> tensor<1x64xi32>
  %rs = tile.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %ri, %rs : tensor<64x1xi32>
  %r0 = tile.broadcast %ro : tensor<64x1xi32> -> tensor<64x64xi32>
  %r1 = tile.broadcast %ci : tensor<1x64xi32> -> tensor<64x64xi32>
  %r = arith.addi %r0, %r1 : tensor<64x64xi32>
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %q = tile.addptr %cs, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %lr = tile.splat %m : i32 -> tensor<64x1xi32>
  %br = arith.cmpi slt, %ri, %lr : tensor<64x1xi32>
  %m0 = tile.broadcast %br : tensor<64x1xi1> -> tensor<64x64xi1>
  %lc = tile.splat %m : i32 -> tensor<1x64xi32>
  %bc = arith.cmpi slt, %ci, %lc : tensor<1x64xi32>
  %m1 = tile.broadcast %bc : tensor<1x64xi1> -> tensor<64x64xi1>
  %all = arith.andi %m0, %m1 : tensor<64x64xi1>
  tile.store %q, %sum mask %all : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32> mask tensor<64x64xi1>
  return
}

// A matrix of a batch: an extra dimension.
// CHECK-LABEL: func @batched
// CHECK-SAME: %[[S:[^:]*]]: i32 {{[^,]*}}, %[[SB:[^:]*]]: i32
// CHECK-DAG: %[[WSB:.*]] = arith.extsi %[[SB]] : i32 to i64
// CHECK-DAG: %[[WS:.*]] = arith.extsi %[[S]] : i32 to i64
// CHECK-DAG: %[[DESC:.*]] = tile.make_desc %{{.*}}, shape[%{{.*}}, %{{.*}}, %{{.*}}] strides[%[[WSB]], %[[WS]], %{{.*}}] : <f16> -> <tensor<1x64x32xf16>>
// CHECK: %[[Y:.*]] = tile.program_id y
// CHECK: %[[X:.*]] = tile.desc_load %[[DESC]][%[[Y]], %{{.*}}, %{{.*}}]
// CHECK: tile.reshape %[[X]] : tensor<1x64x32xf16> -> tensor<64x32xf16>
func.func @batched(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
    %m: i32, %k: i32, %s: i32 {tile.divisibility = 8 : i64}, %sb: i32 {tile.divisibility = 8 : i64}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %pid = tile.program_id x : i32
  %start = arith.muli %pid, %c64 : i32
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %depths = tile.make_range 0 to 32 : tensor<32xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %rows = arith.addi %starts, %lanes : tensor<64xi32>
  %y = tile.program_id y : i32
  %moved = arith.muli %y, %sb : i32
  %of = tile.addptr %a, %moved : !tile.ptr<f16>, i32
  %sum = scf.for %k0 = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %at = tile.splat %k0 : i32 -> tensor<32xi32>
    %columns = arith.addi %at, %depths : tensor<32xi32>
    %i = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
    %j = tile.expand_dims %columns 0 : tensor<32xi32> -> tensor<1x32xi32>
    %stride = tile.splat %s : i32 -> tensor<64x1xi32>
    %is = arith.muli %i, %stride : tensor<64x1xi32>
    %o0 = tile.broadcast %is : tensor<64x1xi32> -> tensor<64x32xi32>
    %o1 = tile.broadcast %j : tensor<1x32xi32> -> tensor<64x32xi32>
    %o = arith.addi %o0, %o1 : tensor<64x32xi32>
    %base = tile.splat %of : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
    %p = tile.addptr %base, %o : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %ms = tile.splat %m : i32 -> tensor<64x1xi32>
    %mi = arith.cmpi slt, %i, %ms : tensor<64x1xi32>
    %mm = tile.broadcast %mi : tensor<64x1xi1> -> tensor<64x32xi1>
    %ends = tile.splat %k : i32 -> tensor<1x32xi32>
    %mj = arith.cmpi slt, %j, %ends : tensor<1x32xi32>
    %mk = tile.broadcast %mj : tensor<1x32xi1> -> tensor<64x32xi1>
    %mask2 = arith.andi %mm, %mk : tensor<64x32xi1>
    %none = arith.constant dense<0.0> : tensor<64x32xf16>
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  %ri = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
  %ci = tile.expand_dims %rows 0 : tensor<64xi32> -> tensor<1x64xi32>
  %rs = tile.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %ri, %rs : tensor<64x1xi32>
  %r0 = tile.broadcast %ro : tensor<64x1xi32> -> tensor<64x64xi32>
  %r1 = tile.broadcast %ci : tensor<1x64xi32> -> tensor<64x64xi32>
  %r = arith.addi %r0, %r1 : tensor<64x64xi32>
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %q = tile.addptr %cs, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %lr = tile.splat %m : i32 -> tensor<64x1xi32>
  %br = arith.cmpi slt, %ri, %lr : tensor<64x1xi32>
  %m0 = tile.broadcast %br : tensor<64x1xi1> -> tensor<64x64xi1>
  %lc = tile.splat %m : i32 -> tensor<1x64xi32>
  %bc = arith.cmpi slt, %ci, %lc : tensor<1x64xi32>
  %m1 = tile.broadcast %bc : tensor<1x64xi1> -> tensor<64x64xi1>
  %all = arith.andi %m0, %m1 : tensor<64x64xi1>
  tile.store %q, %sum mask %all : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32> mask tensor<64x64xi1>
  return
}
