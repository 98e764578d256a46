// The alignment analysis of each op: group size, step inside a group, divisor of each group's first element.
// RUN: kiln-opt %s --kiln-print-alignment | FileCheck %s

// The offsets of a plain kernel are one run; its mask is constant in groups of the common divisor of both sides.
// CHECK-LABEL: func @block_of_a_row
func.func @block_of_a_row(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}) {
  %pid = tile.program_id x : i32
  %block = arith.constant 1024 : i32
  // CHECK: arith.muli {{.*}}group [1] step [0] divisible [1024]
  %start = arith.muli %pid, %block : i32
  // CHECK: tile.make_range {{.*}}group [1024] step [1]
  %lanes = tile.make_range 0 to 1024 : tensor<1024xi32>
  %starts = tile.splat %start : i32 -> tensor<1024xi32>
  // CHECK: arith.addi {{.*}}group [1024] step [1] divisible [1024]
  %offsets = arith.addi %starts, %lanes : tensor<1024xi32>
  %limits = tile.splat %n : i32 -> tensor<1024xi32>
  // CHECK: arith.cmpi {{.*}}group [16] step [0]
  %mask = arith.cmpi slt, %offsets, %limits : tensor<1024xi32>
  // x <= n may change inside a group; only x < n and its negation cannot.
  // CHECK: arith.cmpi sle{{.*}}group [1] step [0]
  %below = arith.cmpi sle, %offsets, %limits : tensor<1024xi32>
  // CHECK: arith.cmpi sgt, %{{.*}}group [16] step [0]
  %above = arith.cmpi sgt, %limits, %offsets : tensor<1024xi32>
  %bases = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  // CHECK: tile.addptr {{.*}}group [1024] step [4] divisible [16]
  %pointers = tile.addptr %bases, %offsets : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  return
}

// A start without a known divisor may put the end of the 32-bit range inside the tile: widening breaks the run.
// CHECK-LABEL: func @wrap_breaks_runs
func.func @wrap_breaks_runs(%start: i32, %x: !tile.ptr<f32>) {
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  // CHECK: arith.addi {{.*}}group [64] step [1] divisible [1]
  %offsets = arith.addi %starts, %lanes : tensor<64xi32>
  // CHECK: arith.extsi {{.*}}group [1] step [0]
  %wide = arith.extsi %offsets : tensor<64xi32> to tensor<64xi64>
  %bases = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  // CHECK: tile.addptr {{.*}}group [1] step [0]
  %pointers = tile.addptr %bases, %offsets : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  // In 64 bits the run stays whole.
  // CHECK: arith.extsi {{.*}}group [64] step [1]
  %wide_lanes = arith.extsi %lanes : tensor<64xi32> to tensor<64xi64>
  %wide_start = arith.extsi %start : i32 to i64
  %wide_starts = tile.splat %wide_start : i64 -> tensor<64xi64>
  %exact = arith.addi %wide_starts, %wide_lanes : tensor<64xi64>
  // CHECK: tile.addptr {{.*}}group [64] step [4]
  %good = tile.addptr %bases, %exact : tensor<64x!tile.ptr<f32>>, tensor<64xi64>
  return
}

// Sides that are not powers of two: the run is whole, and the start's divisor is that of 96.
// CHECK-LABEL: func @side_96
func.func @side_96() {
  %pid = tile.program_id x : i32
  %block = arith.constant 96 : i32
  // CHECK: arith.muli {{.*}}divisible [32]
  %start = arith.muli %pid, %block : i32
  %lanes = tile.make_range 0 to 96 : tensor<96xi32>
  %starts = tile.splat %start : i32 -> tensor<96xi32>
  // CHECK: arith.addi {{.*}}group [96] step [1] divisible [32]
  %offsets = arith.addi %starts, %lanes : tensor<96xi32>
  %eight = arith.constant dense<8> : tensor<96xi32>
  // CHECK: arith.divui {{.*}}group [8] step [0]
  %rows = arith.divui %offsets, %eight : tensor<96xi32>
  // CHECK: arith.remui {{.*}}group [8] step [1] divisible [8]
  %columns = arith.remui %offsets, %eight : tensor<96xi32>
  return
}

// Signed division and remainder are known only for dividends that cannot be negative: -1 / 8 is 0, not -1.
// CHECK-LABEL: func @signed_division
func.func @signed_division(%n: i32 {tile.divisibility = 16 : i64}) {
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %by = tile.splat %n : i32 -> tensor<64xi32>
  // CHECK: arith.remsi {{.*}}group [16] step [1] divisible [16]
  %inside = arith.remsi %lanes, %by : tensor<64xi32>
  %shift = arith.constant dense<32> : tensor<64xi32>
  %negative = arith.subi %lanes, %shift : tensor<64xi32>
  // CHECK: arith.remsi {{.*}}group [1] step [0] divisible [1]
  %bad = arith.remsi %negative, %by : tensor<64xi32>
  %eight = arith.constant dense<8> : tensor<64xi32>
  // CHECK: arith.divsi {{.*}}group [1] step [0]
  %truncated = arith.divsi %negative, %eight : tensor<64xi32>
  // CHECK: arith.floordivsi {{.*}}group [8] step [0]
  %floored = arith.floordivsi %negative, %eight : tensor<64xi32>
  // CHECK: arith.shrsi {{.*}}group [8] step [0]
  %three = arith.constant dense<3> : tensor<64xi32>
  %shifted = arith.shrsi %negative, %three : tensor<64xi32>
  return
}

// CHECK-LABEL: func @bits
func.func @bits() {
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %low = arith.constant dense<15> : tensor<64xi32>
  // CHECK: arith.andi {{.*}}group [16] step [1] divisible [16]
  %inner = arith.andi %lanes, %low : tensor<64xi32>
  %high = arith.constant dense<-16> : tensor<64xi32>
  // CHECK: arith.andi {{.*}}group [16] step [0] divisible [16]
  %outer = arith.andi %lanes, %high : tensor<64xi32>
  %two = arith.constant dense<2> : tensor<64xi32>
  // CHECK: arith.shli {{.*}}group [64] step [4]
  %quads = arith.shli %lanes, %two : tensor<64xi32>
  // CHECK: arith.shrui {{.*}}group [64] step [1]
  %back = arith.shrui %quads, %two : tensor<64xi32>
  // Bits above a stepping group: the other half of a head is as wide as the half itself.
  %half = arith.constant dense<32> : tensor<64xi32>
  // CHECK: arith.xori {{.*}}group [32] step [1] divisible [32]
  %other = arith.xori %lanes, %half : tensor<64xi32>
  %eight = arith.constant dense<8> : tensor<64xi32>
  // CHECK: arith.ori {{.*}}group [8] step [1] divisible [8]
  %upper = arith.ori %lanes, %eight : tensor<64xi32>
  // CHECK: arith.xori {{.*}}group [1] {{.*}}
  %odd = arith.xori %lanes, %low : tensor<64xi32>
  return
}

// Two dimensions: rows have an unknown stride; columns are runs, and the row stride divides their starts.
// CHECK-LABEL: func @matrix
func.func @matrix(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %ld: i64 {tile.divisibility = 16 : i64}) {
  %i = tile.make_range 0 to 32 : tensor<32xi32>
  // CHECK: tile.expand_dims {{.*}}group [32, 1] step [1, 0]
  %rows = tile.expand_dims %i 1 : tensor<32xi32> -> tensor<32x1xi32>
  %wide_rows = arith.extsi %rows : tensor<32x1xi32> to tensor<32x1xi64>
  %lds = tile.splat %ld : i64 -> tensor<32x1xi64>
  // CHECK: arith.muli {{.*}}group [1, 1] step [0, 0] divisible [16, 16]
  %row_offsets = arith.muli %wide_rows, %lds : tensor<32x1xi64>
  %j = tile.make_range 0 to 64 : tensor<64xi32>
  %columns = tile.expand_dims %j 0 : tensor<64xi32> -> tensor<1x64xi32>
  %wide_columns = arith.extsi %columns : tensor<1x64xi32> to tensor<1x64xi64>
  // CHECK: tile.broadcast {{.*}}group [1, 64] step [0, 0] divisible [16, 16]
  %a = tile.broadcast %row_offsets : tensor<32x1xi64> -> tensor<32x64xi64>
  // CHECK: tile.broadcast {{.*}}group [32, 64] step [0, 1]
  %b = tile.broadcast %wide_columns : tensor<1x64xi64> -> tensor<32x64xi64>
  // CHECK: arith.addi {{.*}}group [1, 64] step [0, 1] divisible [1, 16]
  %offsets = arith.addi %a, %b : tensor<32x64xi64>
  %bases = tile.splat %x : !tile.ptr<f16> -> tensor<32x64x!tile.ptr<f16>>
  // CHECK: tile.addptr {{.*}}group [1, 64] step [0, 2] divisible [2, 16]
  %pointers = tile.addptr %bases, %offsets : tensor<32x64x!tile.ptr<f16>>, tensor<32x64xi64>
  // CHECK: tile.trans {{.*}}group [64, 1] step [2, 0] divisible [16, 2]
  %transposed = tile.trans %pointers [1, 0] : tensor<32x64x!tile.ptr<f16>> -> tensor<64x32x!tile.ptr<f16>>
  return
}

// CHECK-LABEL: func @reshapes
func.func @reshapes() {
  %i = tile.make_range 0 to 96 : tensor<96xi32>
  // CHECK: tile.reshape {{.*}}group [3, 32] step [32, 1] divisible [1, 32]
  %matrix = tile.reshape %i : tensor<96xi32> -> tensor<3x32xi32>
  // CHECK: tile.reshape {{.*}}group [32] step [1] divisible [32]
  %flat = tile.reshape %matrix : tensor<3x32xi32> -> tensor<96xi32>
  // CHECK: tile.cat {{.*}}group [96] step [1]
  %both = tile.cat %i, %i 0 : tensor<96xi32>, tensor<96xi32> -> tensor<192xi32>
  // CHECK: tile.join {{.*}}group [96, 1] step [1, 0]
  %pairs = tile.join %i, %i : tensor<96xi32> -> tensor<96x2xi32>
  return
}

// A run moved by a loop stays a run; its start is divisible by what divides every step.
// CHECK-LABEL: func @loop_carried
func.func @loop_carried(%x: tensor<64x!tile.ptr<f32>>, %n: i32) {
  %zero = arith.constant 0 : i32
  %by = arith.constant 16 : i32
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %move = arith.constant dense<24> : tensor<64xi32>
  %out = scf.for %i = %zero to %n step %by iter_args(%offsets = %lanes) -> (tensor<64xi32>) : i32 {
    // CHECK: arith.addi {{.*}}group [64] step [1] divisible [8]
    %next = arith.addi %offsets, %move : tensor<64xi32>
    scf.yield %next : tensor<64xi32>
  }
  // The induction variable and the argument, then the result:
  // CHECK: kiln.alignment = ["group [64] step [1] divisible [8]
  // CHECK-SAME: kiln.alignment_args = ["group [1] step [0] divisible [16] range [0, 2147483646]
  // CHECK-SAME: "group [64] step [1] divisible [8]
  return
}

// Branches: the result keeps what holds on both sides.
// CHECK-LABEL: func @branches
func.func @branches(%c: i1) {
  %a = tile.make_range 0 to 64 : tensor<64xi32>
  %b = tile.make_range 32 to 96 : tensor<64xi32>
  %zero = arith.constant dense<0> : tensor<64xi32>
  %0 = scf.if %c -> (tensor<64xi32>) {
    scf.yield %a : tensor<64xi32>
  } else {
    scf.yield %b : tensor<64xi32>
  }
  // CHECK: kiln.alignment = ["group [64] step [1] divisible [32]
  // CHECK: arith.select {{.*}}group [64] step [1] divisible [32]
  %1 = arith.select %c, %a, %b : tensor<64xi32>
  // CHECK: arith.select {{.*}}group [1] step [0] divisible [1]
  %2 = arith.select %c, %a, %zero : tensor<64xi32>
  return
}

// Assumptions. Divisibility alone, on a tile of unknown spacing, applies to runs of unknown length: at most to element
// 0.
// CHECK-LABEL: func @hints
func.func @hints(%x: tensor<64xi32>, %s: i32) {
  // CHECK: tile.hint {{.*}}group [1] step [0] divisible [1]
  %0 = tile.hint %x {divisibility = array<i64: 64>} : tensor<64xi32>
  // CHECK: tile.hint {{.*}}group [64] step [1] divisible [64]
  %1 = tile.hint %0 {contiguity = array<i64: 64>} : tensor<64xi32>
  // CHECK: tile.hint {{.*}}group [16] step [1] divisible [8]
  %2 = tile.hint %x {contiguity = array<i64: 16>, divisibility = array<i64: 8>} : tensor<64xi32>
  // CHECK: tile.hint {{.*}}group [4] step [0] divisible [1]
  %3 = tile.hint %x {constancy = array<i64: 4>} : tensor<64xi32>
  // CHECK: tile.hint {{.*}}group [1] step [0] divisible [32]
  %4 = tile.hint %s {divisibility = array<i64: 32>} : i32
  return
}

// Divisors from an assumption about a value of the same block.
// CHECK-LABEL: func @assumed_divisor
func.func @assumed_divisor(%n: i32, %c: i1) {
  %by = arith.constant 64 : i32
  %zero = arith.constant 0 : i32
  %rest = arith.remsi %n, %by : i32
  %is = arith.cmpi eq, %rest, %zero : i32
  tile.assume %is
  // CHECK: arith.addi {{.*}}divisible [64]
  %a = arith.addi %n, %by : i32
  return
}

// An assumption in a branch holds only there, so it says nothing about a value from outside.
// CHECK-LABEL: func @assumed_elsewhere
func.func @assumed_elsewhere(%n: i32, %c: i1) {
  %by = arith.constant 64 : i32
  %zero = arith.constant 0 : i32
  scf.if %c {
    %rest = arith.remsi %n, %by : i32
    %is = arith.cmpi eq, %rest, %zero : i32
    tile.assume %is
  }
  // CHECK: arith.addi {{.*}}divisible [1]
  %a = arith.addi %n, %by : i32
  return
}

// What is known outside also holds inside roles, and values computed there are known too; cursors are unknown.
// CHECK-LABEL: func @roles
func.func @roles(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  kgpu.roles @one warps 4 {
    %start = kgpu.cursor : !kgpu.cursor<2>
    %end = scf.for %i = %c0 to %n step %c64 iter_args(%at = %start) -> (!kgpu.cursor<2>) : i32 {
      // CHECK: arith.addi {{.*}}divisible [16]
      %next = arith.addi %i, %n : i32
      // CHECK: arith.muli {{.*}}divisible [256]
      %far = arith.muli %next, %n : i32
      %p = kgpu.advance %at : !kgpu.cursor<2>
      scf.yield %p : !kgpu.cursor<2>
    }
    kgpu.end_role
  } @two warps 4 {
    // CHECK: arith.muli {{.*}}divisible [1024]
    %far = arith.muli %n, %c64 : i32
    kgpu.end_role
  }
  return
}

// A tile that changes its layout through shared memory is the same tile: what is known of its elements stays known, as
// long as nothing else writes the memory and it is read in the order in which it was written.
#from = #layout.map<blocked [64] vector 1 warps 2>
#to = #layout.map<blocked [64] vector 2 warps 2>
#memory = #layout.map<row_major [64]>
// CHECK-LABEL: func @exchanges
func.func @exchanges(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}, %c: i1) {
  %lanes = tile.make_range 0 to 64 : tensor<64xi32, #from>
  %sides = tile.splat %n : i32 -> tensor<64xi32, #from>
  %offsets = arith.muli %lanes, %sides : tensor<64xi32, #from>
  %bases = tile.splat %x : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>, #from>
  // CHECK: tile.addptr {{.*}}group [1] step [0] divisible [16]
  %pointers = tile.addptr %bases, %offsets : tensor<64x!tile.ptr<f16>, #from>, tensor<64xi32, #from>
  %m = kgpu.alloc : !kgpu.mem<64x!tile.ptr<f16>, #memory>
  kgpu.local_store %pointers, %m : tensor<64x!tile.ptr<f16>, #from>, !kgpu.mem<64x!tile.ptr<f16>, #memory>
  // CHECK: kgpu.local_load {{.*}}group [1] step [0] divisible [16]
  %moved = kgpu.local_load %m : !kgpu.mem<64x!tile.ptr<f16>, #memory> -> tensor<64x!tile.ptr<f16>, #to>

  %run = kgpu.alloc : !kgpu.mem<64xi32, #memory>
  // CHECK: kgpu.local_load {{.*}}group [1] step [0] divisible [1]
  %early = kgpu.local_load %run : !kgpu.mem<64xi32, #memory> -> tensor<64xi32, #to>
  kgpu.local_store %lanes, %run : tensor<64xi32, #from>, !kgpu.mem<64xi32, #memory>
  scf.if %c {
    // CHECK: kgpu.local_load {{.*}}group [64] step [1]
    %late = kgpu.local_load %run : !kgpu.mem<64xi32, #memory> -> tensor<64xi32, #to>
  }

  %slots = kgpu.alloc {slots = 2 : i32} : !kgpu.mem<64xi32, #memory>
  %here = kgpu.slot %slots[%n] : !kgpu.mem<64xi32, #memory>
  %one = arith.constant 1 : i32
  %next = arith.addi %n, %one : i32
  %there = kgpu.slot %slots[%next] : !kgpu.mem<64xi32, #memory>
  kgpu.local_store %lanes, %here : tensor<64xi32, #from>, !kgpu.mem<64xi32, #memory>
  // CHECK: kgpu.local_load {{.*}}group [64] step [1]
  %stored = kgpu.local_load %here : !kgpu.mem<64xi32, #memory> -> tensor<64xi32, #to>
  // CHECK: kgpu.local_load {{.*}}group [1] step [0] divisible [1]
  %other = kgpu.local_load %there : !kgpu.mem<64xi32, #memory> -> tensor<64xi32, #to>

  %twice = kgpu.alloc : !kgpu.mem<64xi32, #memory>
  kgpu.local_store %lanes, %twice : tensor<64xi32, #from>, !kgpu.mem<64xi32, #memory>
  kgpu.local_store %offsets, %twice : tensor<64xi32, #from>, !kgpu.mem<64xi32, #memory>
  // CHECK: kgpu.local_load {{.*}}group [1] step [0] divisible [1]
  %either = kgpu.local_load %twice : !kgpu.mem<64xi32, #memory> -> tensor<64xi32, #to>
  return
}
