// Each load that stays a pointer load gives the reason: the first condition that does not hold.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-widen-offsets,kiln-describe-pointers{all=true}))' --verify-diagnostics -o /dev/null

// The pointer is loaded from memory.
func.func @base_not_an_argument(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
    %m: i32, %k: i32, %s: i32 {tile.divisibility = 8 : i64}, %table: !tile.ptr<!tile.ptr<f16>>) attributes {tile.kernel} {
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
  %of = tile.load %table : !tile.ptr<!tile.ptr<f16>> -> !tile.ptr<f16>
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
    // expected-remark @below {{loads through pointers: the array does not begin at an argument of the kernel}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

func.func @base_not_aligned(%a: !tile.ptr<f16> {tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
    // expected-remark @below {{loads through pointers: the array is not known to begin at a multiple of 16 bytes}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

func.func @nothing_contiguous(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
    %m: i32, %k: i32, %s: i32 {tile.divisibility = 8 : i64}, %across_s: i32) attributes {tile.kernel} {
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
    %across = tile.splat %across_s : i32 -> tensor<1x32xi32>
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
    // expected-remark @below {{loads through pointers: no dimension, or more than one, is known to be contiguous}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

func.func @stride_not_aligned(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
    %m: i32, %k: i32, %s: i32 ) attributes {tile.kernel} {
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
    // expected-remark @below {{loads through pointers: a stride is not known to be a multiple of 16 bytes}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

func.func @stride_computed(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
  %c8 = arith.constant 8 : i32
  %half = arith.divsi %s, %c8 : i32
  %twice = arith.muli %half, %c8 : i32
  %sum = scf.for %k0 = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %at = tile.splat %k0 : i32 -> tensor<32xi32>
    %columns = arith.addi %at, %depths : tensor<32xi32>
    %i = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
    %j = tile.expand_dims %columns 0 : tensor<32xi32> -> tensor<1x32xi32>
    %stride = tile.splat %half : i32 -> tensor<64x1xi32>
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
    // expected-remark @below {{loads through pointers: a stride is neither a constant nor an argument of the kernel}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

// Every second row is repeated.
func.func @odd_steps(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
  %two = arith.constant dense<2> : tensor<64xi32>
  %halved = arith.divsi %rows, %two : tensor<64xi32>
  %sum = scf.for %k0 = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %at = tile.splat %k0 : i32 -> tensor<32xi32>
    %columns = arith.addi %at, %depths : tensor<32xi32>
    %i = tile.expand_dims %halved 1 : tensor<64xi32> -> tensor<64x1xi32>
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
    // expected-remark @below {{loads through pointers: addresses are not sums of products of scalars and indices}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

// All rows are the same.
func.func @one_row(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
  %first = tile.splat %start : i32 -> tensor<64xi32>
  %sum = scf.for %k0 = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %at = tile.splat %k0 : i32 -> tensor<32xi32>
    %columns = arith.addi %at, %depths : tensor<32xi32>
    %i = tile.expand_dims %first 1 : tensor<64xi32> -> tensor<64x1xi32>
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
    // expected-remark @below {{loads through pointers: addresses do not advance by a constant stride along each dimension}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

// The mask is loaded.
func.func @mask_of_data(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
    %m: i32, %k: i32, %s: i32 {tile.divisibility = 8 : i64}, %table: !tile.ptr<i1>) attributes {tile.kernel} {
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
  %tables = tile.splat %table : !tile.ptr<i1> -> tensor<64x32x!tile.ptr<i1>>
  // expected-remark @below {{loads through pointers: the copy engine only moves elements of whole bytes}}
  %some = tile.load %tables : tensor<64x32x!tile.ptr<i1>> -> tensor<64x32xi1>
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
    %none = arith.constant dense<0.0> : tensor<64x32xf16>
    // expected-remark @below {{loads through pointers: the mask is not a conjunction of comparisons}}
    %x = tile.load %p mask %some other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

func.func @mask_of_one_program(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
    %first = arith.cmpi slt, %pid, %s : i32
    %alone = tile.splat %first : i1 -> tensor<64x32xi1>
    %ms = tile.splat %m : i32 -> tensor<64x1xi32>
    %mi = arith.cmpi slt, %i, %ms : tensor<64x1xi32>
    %mm = tile.broadcast %mi : tensor<64x1xi1> -> tensor<64x32xi1>
    %ends = tile.splat %k : i32 -> tensor<1x32xi32>
    %mj = arith.cmpi slt, %j, %ends : tensor<1x32xi32>
    %mk = tile.broadcast %mj : tensor<1x32xi1> -> tensor<64x32xi1>
    %mask3 = arith.andi %mm, %mk : tensor<64x32xi1>
    %mask2 = arith.andi %mask3, %alone : tensor<64x32xi1>
    %none = arith.constant dense<0.0> : tensor<64x32xf16>
    // expected-remark @below {{loads through pointers: the mask depends on more than an element's position}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

// Less than half of an argument.
func.func @mask_between(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
  %two = arith.constant 2 : i32
  %half = arith.divsi %m, %two : i32
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
    %ms = tile.splat %half : i32 -> tensor<64x1xi32>
    %mi = arith.cmpi slt, %i, %ms : tensor<64x1xi32>
    %mm = tile.broadcast %mi : tensor<64x1xi1> -> tensor<64x32xi1>
    %ends = tile.splat %k : i32 -> tensor<1x32xi32>
    %mj = arith.cmpi slt, %j, %ends : tensor<1x32xi32>
    %mk = tile.broadcast %mj : tensor<1x32xi1> -> tensor<64x32xi1>
    %mask2 = arith.andi %mm, %mk : tensor<64x32xi1>
    %none = arith.constant dense<0.0> : tensor<64x32xf16>
    // expected-remark @below {{loads through pointers: the mask is more than the bounds of an array that is as large as arguments or constants say}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

// The mask tests other rows than those loaded.
func.func @mask_of_other_rows(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
  %mine = tile.splat %pid : i32 -> tensor<64xi32>
  %later = arith.addi %rows, %mine : tensor<64xi32>
  %sum = scf.for %k0 = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %at = tile.splat %k0 : i32 -> tensor<32xi32>
    %columns = arith.addi %at, %depths : tensor<32xi32>
    %i = tile.expand_dims %later 1 : tensor<64xi32> -> tensor<64x1xi32>
    %j = tile.expand_dims %columns 0 : tensor<32xi32> -> tensor<1x32xi32>
    %stride = tile.splat %s : i32 -> tensor<64x1xi32>
    %is = arith.muli %i, %stride : tensor<64x1xi32>
    %o0 = tile.broadcast %is : tensor<64x1xi32> -> tensor<64x32xi32>
    %o1 = tile.broadcast %j : tensor<1x32xi32> -> tensor<64x32xi32>
    %o = arith.addi %o0, %o1 : tensor<64x32xi32>
    %base = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
    %p = tile.addptr %base, %o : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %ri = tile.expand_dims %lanes 1 : tensor<64xi32> -> tensor<64x1xi32>
    %ns = tile.splat %s : i32 -> tensor<64x1xi32>
    %twice = arith.addi %ri, %ri : tensor<64x1xi32>
    %mi = arith.cmpi slt, %twice, %ns : tensor<64x1xi32>
    %mm = tile.broadcast %mi : tensor<64x1xi1> -> tensor<64x32xi1>
    %ends = tile.splat %k : i32 -> tensor<1x32xi32>
    %mj = arith.cmpi slt, %j, %ends : tensor<1x32xi32>
    %mk = tile.broadcast %mj : tensor<1x32xi1> -> tensor<64x32xi1>
    %mask2 = arith.andi %mk, %mm : tensor<64x32xi1>
    %none = arith.constant dense<0.0> : tensor<64x32xf16>
    // expected-remark @below {{loads through pointers: the mask is more than the bounds of an array that is as large as arguments or constants say}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

func.func @other_not_zero(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
    %none = arith.constant dense<1.0> : tensor<64x32xf16>
    // expected-remark @below {{loads through pointers: masked-out elements are not zero}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

func.func @other_negative_zero(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
    %none = arith.constant dense<-0.0> : tensor<64x32xf16>
    // expected-remark @below {{loads through pointers: masked-out elements are not zero}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

func.func @volatile(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
    // expected-remark @below {{loads through pointers: the memory is volatile}}
    %x = tile.load %p mask %mask2 other %none {isVolatile}
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

// Rows before the array are read.
func.func @position_negative(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
  %before = arith.subi %start, %c64 : i32
  %earlier = tile.splat %before : i32 -> tensor<64xi32>
  %from = arith.addi %earlier, %lanes : tensor<64xi32>
  %sum = scf.for %k0 = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %at = tile.splat %k0 : i32 -> tensor<32xi32>
    %columns = arith.addi %at, %depths : tensor<32xi32>
    %i = tile.expand_dims %from 1 : tensor<64xi32> -> tensor<64x1xi32>
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
    // expected-remark @below {{loads through pointers: a position is not known to be 0 or more}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

// The mask is compared in 32 bits; the address is 64-bit.
func.func @position_may_wrap(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
  %far = arith.muli %start, %m : i32
  %farther = tile.splat %far : i32 -> tensor<64xi32>
  %from = arith.addi %farther, %lanes : tensor<64xi32>
  %sum = scf.for %k0 = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %at = tile.splat %k0 : i32 -> tensor<32xi32>
    %columns = arith.addi %at, %depths : tensor<32xi32>
    %i = tile.expand_dims %from 1 : tensor<64xi32> -> tensor<64x1xi32>
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
    // expected-remark @below {{loads through pointers: an offset may pass the width that it is computed in}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

// Exact, in 64 bits, but not a coordinate.
func.func @position_too_far(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
  %wide = arith.extsi %pid : i32 to i64
  %much = arith.constant 8589934592 : i64
  %far = arith.muli %wide, %much : i64
  %of = tile.addptr %a, %far : !tile.ptr<f16>, i64
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
    // expected-remark @below {{loads through pointers: a position is not known to fit in 32 bits}}
    %x = tile.load %p : tensor<64x32x!tile.ptr<f16>> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

func.func @moved_by_odd_bytes(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
  %of = tile.addptr %a, %pid : !tile.ptr<f16>, i32
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
    // expected-remark @below {{loads through pointers: the box moves by amounts other than the bounds in the mask, and not by multiples of 16 bytes}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

// Rows wrap around, and only columns are masked.
func.func @rows_are_stored(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
    // expected-remark @below {{loads through pointers: rows past the end of the array, which are folded back into it, are stored}}
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
  // expected-remark @below {{stores through pointers: another factor is loaded through pointers}}
  tile.store %q, %sum mask %m1 : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32> mask tensor<64x64xi1>
  return
}

// Masked with another bound.
func.func @rows_are_stored_elsewhere(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
    // expected-remark @below {{loads through pointers: rows past the end of the array, which are folded back into it, are stored}}
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
  %lr = tile.splat %k : i32 -> tensor<64x1xi32>
  %br = arith.cmpi slt, %ri, %lr : tensor<64x1xi32>
  %m0 = tile.broadcast %br : tensor<64x1xi1> -> tensor<64x64xi1>
  %lc = tile.splat %k : i32 -> tensor<1x64xi32>
  %bc = arith.cmpi slt, %ci, %lc : tensor<1x64xi32>
  %m1 = tile.broadcast %bc : tensor<1x64xi1> -> tensor<64x64xi1>
  %all = arith.andi %m0, %m1 : tensor<64x64xi1>
  // expected-remark @below {{stores through pointers: another factor is loaded through pointers}}
  tile.store %q, %sum mask %all : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32> mask tensor<64x64xi1>
  return
}

func.func @rows_are_printed(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
    // expected-remark @below {{loads through pointers: rows past the end of the array, which are folded back into it, reach 'tile.print'}}
    %x = tile.load %p mask %mk other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

// The mask tests the row after wrapping.
func.func @mask_of_folded_rows(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
    %ms = tile.splat %k : i32 -> tensor<64x1xi32>
    %mi = arith.cmpi slt, %i, %ms : tensor<64x1xi32>
    %mm = tile.broadcast %mi : tensor<64x1xi1> -> tensor<64x32xi1>
    %ends = tile.splat %k : i32 -> tensor<1x32xi32>
    %mj = arith.cmpi slt, %j, %ends : tensor<1x32xi32>
    %mk = tile.broadcast %mj : tensor<1x32xi1> -> tensor<64x32xi1>
    %mask2 = arith.andi %mm, %mk : tensor<64x32xi1>
    %none = arith.constant dense<0.0> : tensor<64x32xf16>
    // expected-remark @below {{loads through pointers: the mask is more than the bounds of an array that is as large as arguments or constants say}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

// The remainder of a negative number is negative.
func.func @fold_begins_before(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
  %before = arith.subi %start, %c64 : i32
  %earlier = tile.splat %before : i32 -> tensor<64xi32>
  %from = arith.addi %earlier, %lanes : tensor<64xi32>
  %ms0 = tile.splat %m : i32 -> tensor<64xi32>
  %folded = arith.remsi %from, %ms0 : tensor<64xi32>
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
    // expected-remark @below {{loads through pointers: a position is not known to be 0 or more}}
    %x = tile.load %p mask %mk other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  tile.print "sum" %sum : tensor<64x64xf32> {isSigned = array<i32: 0>}
  return
}

// The rows of a result wrap around: some are written twice.
func.func @stored_where_folded(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
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
    // expected-remark @below {{loads from 'a' through a descriptor}}
    %x = tile.load %p mask %mask2 other %none
      : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  %ri = tile.expand_dims %folded 1 : tensor<64xi32> -> tensor<64x1xi32>
  %ci = tile.expand_dims %folded 0 : tensor<64xi32> -> tensor<1x64xi32>
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
  // expected-remark @below {{stores through pointers: rows past the end of the array are stored elsewhere}}
  tile.store %q, %sum mask %all : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32> mask tensor<64x64xi1>
  return
}
