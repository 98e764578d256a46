// Masks that promises, ranges or the end of a loop make true, and masks that must stay.
// RUN: kiln-opt %s --kiln-drop-masks --canonicalize --cse > %t
// RUN: FileCheck %s --input-file=%t
// RUN: kiln-opt %t --kiln-drop-masks | diff %t -

// By ranges: a row of 64 columns has all that a program holds. The access loses its mask.
// CHECK-LABEL: func @as_many_columns
// CHECK: tile.load %{{[a-z0-9]+}} : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
func.func @as_many_columns(%p: !tile.ptr<f32>, %n: i32) -> tensor<64xf32> {
  %c64 = arith.constant 64 : i32
  %same = arith.cmpi eq, %n, %c64 : i32
  tile.assume %same
  %i = tile.make_range 0 to 64 : tensor<64xi32>
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  %mask = arith.cmpi slt, %i, %ns : tensor<64xi32>
  %ps = tile.splat %p : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %at = tile.addptr %ps, %i : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %x = tile.load %at mask %mask : tensor<64x!tile.ptr<f32>> mask tensor<64xi1> -> tensor<64xf32>
  return %x : tensor<64xf32>
}

// By a promise about the first element: start + 63 < n, in either order of the comparison, whatever moves the elements.
// CHECK-LABEL: func @promised
// CHECK-NOT: arith.cmpi slt
// CHECK-NOT: arith.cmpi sgt
// CHECK: return
func.func @promised(%start: i32, %n: i32) -> (tensor<64xi1>, tensor<64xi1>, tensor<1x64xi1>) {
  %c64 = arith.constant 64 : i32
  %many = arith.cmpi sge, %n, %c64 : i32
  tile.assume %many
  %last = arith.subi %n, %c64 : i32
  %whole = arith.cmpi sle, %start, %last : i32
  tile.assume %whole
  %range = tile.make_range 0 to 64 : tensor<64xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %i = arith.addi %starts, %range : tensor<64xi32>
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  %a = arith.cmpi slt, %i, %ns : tensor<64xi32>
  %b = arith.cmpi sgt, %ns, %i : tensor<64xi32>
  %row = tile.expand_dims %i 0 : tensor<64xi32> -> tensor<1x64xi32>
  %nrow = tile.splat %n : i32 -> tensor<1x64xi32>
  %c = arith.cmpi slt, %row, %nrow : tensor<1x64xi32>
  return %a, %b, %c : tensor<64xi1>, tensor<64xi1>, tensor<1x64xi1>
}

// One element more than promised; a promise about another number; a promise made in a branch.
// CHECK-LABEL: func @not_promised
// CHECK-COUNT-3: arith.cmpi slt, {{.*}} : tensor<64xi32>
func.func @not_promised(%start: i32, %n: i32, %m: i32, %k: i32, %maybe: i1)
    -> (tensor<64xi1>, tensor<64xi1>, tensor<64xi1>) {
  %c64 = arith.constant 64 : i32
  %many = arith.cmpi sge, %n, %c64 : i32
  tile.assume %many
  %last = arith.subi %n, %c64 : i32
  %whole = arith.cmpi sle, %start, %last : i32
  tile.assume %whole
  %manyk = arith.cmpi sge, %k, %c64 : i32
  tile.assume %manyk
  scf.if %maybe {
    %lastk = arith.subi %k, %c64 : i32
    %wholek = arith.cmpi sle, %start, %lastk : i32
    tile.assume %wholek
  }
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %beyond = tile.make_range 1 to 65 : tensor<64xi32>
  %later = arith.addi %starts, %beyond : tensor<64xi32>
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  %a = arith.cmpi slt, %later, %ns : tensor<64xi32>
  %range = tile.make_range 0 to 64 : tensor<64xi32>
  %i = arith.addi %starts, %range : tensor<64xi32>
  %ms = tile.splat %m : i32 -> tensor<64xi32>
  %b = arith.cmpi slt, %i, %ms : tensor<64xi32>
  %ks = tile.splat %k : i32 -> tensor<64xi32>
  %c = arith.cmpi slt, %i, %ks : tensor<64xi32>
  return %a, %b, %c : tensor<64xi1>, tensor<64xi1>, tensor<64xi1>
}

// Promised only after the mask was used: an assertion in between may have stopped the program.
// CHECK-LABEL: func @promised_later
// CHECK: arith.cmpi slt, {{.*}} : tensor<64xi32>
func.func @promised_later(%start: i32, %n: i32) -> tensor<64xi1> {
  %c64 = arith.constant 64 : i32
  %many = arith.cmpi sge, %n, %c64 : i32
  tile.assume %many
  %range = tile.make_range 0 to 64 : tensor<64xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %i = arith.addi %starts, %range : tensor<64xi32>
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  %a = arith.cmpi slt, %i, %ns : tensor<64xi32>
  %last = arith.subi %n, %c64 : i32
  %whole = arith.cmpi sle, %start, %last : i32
  tile.assume %whole
  return %a : tensor<64xi1>
}

// start + 64 may wrap to a negative number, and then it is below n although no element is; so may n - 64 and n + 1.
// CHECK-LABEL: func @wraps
// CHECK-COUNT-3: arith.cmpi {{slt|sle}}, {{.*}} : tensor<
func.func @wraps(%start: i32, %n: i32, %k: i32, %m: i32) -> (tensor<64xi1>, tensor<64xi1>, tensor<64xi1>) {
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %end = arith.addi %start, %c64 : i32
  %whole = arith.cmpi sle, %end, %n : i32
  tile.assume %whole
  %last = arith.subi %k, %c64 : i32
  %whole2 = arith.cmpi sle, %start, %last : i32
  tile.assume %whole2
  %whole3 = arith.cmpi slt, %start, %m : i32
  tile.assume %whole3
  %range = tile.make_range 0 to 64 : tensor<64xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %i = arith.addi %starts, %range : tensor<64xi32>
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  %a = arith.cmpi slt, %i, %ns : tensor<64xi32>
  %ks = tile.splat %k : i32 -> tensor<64xi32>
  %b = arith.cmpi slt, %i, %ks : tensor<64xi32>
  %above = arith.addi %m, %c1 : i32
  %aboves = tile.splat %above : i32 -> tensor<64xi32>
  %c = arith.cmpi sle, %starts, %aboves : tensor<64xi32>
  return %a, %b, %c : tensor<64xi1>, tensor<64xi1>, tensor<64xi1>
}

// A loop in steps of 64 up to a multiple of 64 has whole blocks.
// CHECK-LABEL: func @whole_blocks
// CHECK: scf.for
// CHECK-NOT: arith.cmpi
// CHECK: return
func.func @whole_blocks(%n: i32, %out: tensor<64x!tile.ptr<i1>>) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %rest = arith.remsi %n, %c64 : i32
  %even = arith.cmpi eq, %rest, %c0 : i32
  tile.assume %even
  %range = tile.make_range 0 to 64 : tensor<64xi32>
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  scf.for %start = %c0 to %n step %c64 : i32 {
    %starts = tile.splat %start : i32 -> tensor<64xi32>
    %i = arith.addi %starts, %range : tensor<64xi32>
    %mask = arith.cmpi slt, %i, %ns : tensor<64xi32>
    tile.store %out, %mask : tensor<64x!tile.ptr<i1>>, tensor<64xi1>
  }
  return
}

// Multiples of 32 only; a loop that begins at any number; a loop up to another number.
// CHECK-LABEL: func @partial_blocks
// CHECK-COUNT-3: arith.cmpi slt, {{.*}} : tensor<64xi32>
func.func @partial_blocks(%n: i32, %m: i32, %k: i32, %out: tensor<64x!tile.ptr<i1>>) {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %rest = arith.remsi %n, %c32 : i32
  %even = arith.cmpi eq, %rest, %c0 : i32
  tile.assume %even
  %restm = arith.remsi %m, %c64 : i32
  %evenm = arith.cmpi eq, %restm, %c0 : i32
  tile.assume %evenm
  %range = tile.make_range 0 to 64 : tensor<64xi32>
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  %ms = tile.splat %m : i32 -> tensor<64xi32>
  scf.for %start = %c0 to %n step %c64 : i32 {
    %starts = tile.splat %start : i32 -> tensor<64xi32>
    %i = arith.addi %starts, %range : tensor<64xi32>
    %mask = arith.cmpi slt, %i, %ns : tensor<64xi32>
    tile.store %out, %mask : tensor<64x!tile.ptr<i1>>, tensor<64xi1>
  }
  scf.for %start = %k to %m step %c64 : i32 {
    %starts = tile.splat %start : i32 -> tensor<64xi32>
    %i = arith.addi %starts, %range : tensor<64xi32>
    %mask = arith.cmpi slt, %i, %ms : tensor<64xi32>
    tile.store %out, %mask : tensor<64x!tile.ptr<i1>>, tensor<64xi1>
  }
  scf.for %start = %c0 to %k step %c64 : i32 {
    %starts = tile.splat %start : i32 -> tensor<64xi32>
    %i = arith.addi %starts, %range : tensor<64xi32>
    %mask = arith.cmpi slt, %i, %ms : tensor<64xi32>
    tile.store %out, %mask : tensor<64x!tile.ptr<i1>>, tensor<64xi1>
  }
  return
}
