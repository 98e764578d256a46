// RUN: kiln-opt %s --kiln-widen-offsets > %t
// RUN: FileCheck %s --input-file=%t
// RUN: kiln-opt %t --kiln-widen-offsets | diff %t -

// The address is exact; the mask, computed from the same offsets, still wraps.
// CHECK-LABEL: func @row
// CHECK-SAME: (%[[P:.*]]: !tile.ptr<f32>, %[[S:.*]]: i32, %[[N:.*]]: i32)
// CHECK: %[[WS:.*]] = arith.extsi %[[S]] : i32 to i64
// CHECK: %[[PID:.*]] = tile.program_id
// CHECK: %[[WPID:.*]] = arith.extsi %[[PID]] : i32 to i64
// CHECK: %[[START:.*]] = arith.muli %[[PID]], %[[S]] : i32
// CHECK: %[[WSTART:.*]] = arith.muli %[[WPID]], %[[WS]] : i64
// CHECK: %[[O:.*]] = arith.addi %{{.*}} : tensor<64xi32>
// CHECK: %[[WO:.*]] = arith.addi %{{.*}} : tensor<64xi64>
// CHECK: arith.cmpi slt, %[[O]], %{{.*}} : tensor<64xi32>
// CHECK: tile.addptr %{{.*}}, %[[WO]] : tensor<64x!tile.ptr<f32>>, tensor<64xi64>
func.func @row(%p: !tile.ptr<f32>, %stride: i32, %n: i32) -> tensor<64xf32> {
  %pid = tile.program_id x : i32
  %start = arith.muli %pid, %stride : i32
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %offsets = arith.addi %starts, %lanes : tensor<64xi32>
  %limit = tile.splat %n : i32 -> tensor<64xi32>
  %mask = arith.cmpi slt, %offsets, %limit : tensor<64xi32>
  %bases = tile.splat %p : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %q = tile.addptr %bases, %offsets : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %v = tile.load %q mask %mask : tensor<64x!tile.ptr<f32>> mask tensor<64xi1> -> tensor<64xf32>
  return %v : tensor<64xf32>
}

// Values used only as addresses leave no 32-bit copy behind; constants are widened, not extended.
// CHECK-LABEL: func @only_an_address
// CHECK-DAG: arith.constant 4096 : i64
// CHECK-NOT: arith.muli {{.*}} : i32
// CHECK: arith.muli {{.*}} : i64
// CHECK: tile.addptr {{.*}} : !tile.ptr<f32>, i64
func.func @only_an_address(%p: !tile.ptr<f32>) -> f32 {
  %pid = tile.program_id x : i32
  %c = arith.constant 4096 : i32
  %o = arith.muli %pid, %c : i32
  %q = tile.addptr %p, %o : !tile.ptr<f32>, i32
  %v = tile.load %q : !tile.ptr<f32> -> f32
  return %v : f32
}

// Offsets known to fit in 32 bits are unchanged: by constants, by an assumption, by a loop's bounds.
// CHECK-LABEL: func @small_enough
// CHECK-NOT: i64
// CHECK: return
func.func @small_enough(%p: !tile.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %c = arith.constant 4096 : i32
  %top = arith.constant 1000 : i32
  %a = arith.cmpi ult, %n, %top : i32
  tile.assume %a
  %o = arith.muli %n, %c : i32
  %q = tile.addptr %p, %o : !tile.ptr<f32>, i32
  %v = tile.load %q : !tile.ptr<f32> -> f32
  scf.for %i = %zero to %top step %one : i32 {
    %k = arith.muli %i, %c : i32
    %l = arith.addi %k, %one : i32
    %r = tile.addptr %p, %l : !tile.ptr<f32>, i32
    tile.store %r, %v : !tile.ptr<f32>, f32
  }
  return
}

// If a quotient, a remainder or a bit operation has used it, wrapping is intended: such a value is extended as it is.
// CHECK-LABEL: func @hash
// CHECK: %[[H:.*]] = arith.muli %{{.*}}, %{{.*}} : i32
// CHECK: %[[R:.*]] = arith.remsi %[[H]], %{{.*}} : i32
// CHECK: tile.addptr %{{.*}}, %[[R]] : !tile.ptr<f32>, i32
func.func @hash(%p: !tile.ptr<f32>, %x: i32, %size: i32) -> f32 {
  %c = arith.constant 40503 : i32
  %h = arith.muli %x, %c : i32
  %r = arith.remsi %h, %size : i32
  %q = tile.addptr %p, %r : !tile.ptr<f32>, i32
  %v = tile.load %q : !tile.ptr<f32> -> f32
  return %v : f32
}

// A cast in the program comes after the wrap that it asked for.
// CHECK-LABEL: func @explicit_cast
// CHECK: arith.muli {{.*}} : i32
// CHECK: arith.extsi
func.func @explicit_cast(%p: !tile.ptr<f32>, %x: i32, %y: i32) -> f32 {
  %m = arith.muli %x, %y : i32
  %w = arith.extsi %m : i32 to i64
  %q = tile.addptr %p, %w : !tile.ptr<f32>, i64
  %v = tile.load %q : !tile.ptr<f32> -> f32
  return %v : f32
}

// Two dimensions, a select and a branch: the sum is exact, and its leaves are extended where they are defined.
// CHECK-LABEL: func @matrix
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : i64
// CHECK: tile.expand_dims %{{.*}} : tensor<32xi64> -> tensor<32x1xi64>
// CHECK: tile.addptr {{.*}} : tensor<32x64x!tile.ptr<f16>>, tensor<32x64xi64>
func.func @matrix(%p: !tile.ptr<f16>, %ld: i32, %c: i1) -> tensor<32x64xf16> {
  %pid = tile.program_id x : i32
  %zero = arith.constant 0 : i32
  %block = arith.constant 32 : i32
  %start = arith.muli %pid, %block : i32
  %chosen = arith.select %c, %start, %zero : i32
  %i = tile.make_range 0 to 32 : tensor<32xi32>
  %starts = tile.splat %chosen : i32 -> tensor<32xi32>
  %rows = arith.addi %starts, %i : tensor<32xi32>
  %column = tile.expand_dims %rows 1 : tensor<32xi32> -> tensor<32x1xi32>
  %lds = tile.splat %ld : i32 -> tensor<32x1xi32>
  %row_offsets = arith.muli %column, %lds : tensor<32x1xi32>
  %j = tile.make_range 0 to 64 : tensor<64xi32>
  %line = tile.expand_dims %j 0 : tensor<64xi32> -> tensor<1x64xi32>
  %a = tile.broadcast %row_offsets : tensor<32x1xi32> -> tensor<32x64xi32>
  %b = tile.broadcast %line : tensor<1x64xi32> -> tensor<32x64xi32>
  %offsets = arith.addi %a, %b : tensor<32x64xi32>
  %bases = tile.splat %p : !tile.ptr<f16> -> tensor<32x64x!tile.ptr<f16>>
  %q = tile.addptr %bases, %offsets : tensor<32x64x!tile.ptr<f16>>, tensor<32x64xi32>
  %v = tile.load %q : tensor<32x64x!tile.ptr<f16>> -> tensor<32x64xf16>
  return %v : tensor<32x64xf16>
}

// An offset that a loop accumulates is carried in 64 bits, and no longer in 32 if nothing else uses it.
// CHECK-LABEL: func @accumulated
// CHECK: scf.for {{.*}} iter_args(%[[O:.*]] = %{{.*}}) -> (i64)
// CHECK: tile.addptr %{{.*}}, %[[O]] : !tile.ptr<f32>, i64
// CHECK: %[[N:.*]] = arith.addi %[[O]], %{{.*}} : i64
// CHECK: scf.yield %[[N]] : i64
// CHECK: } {tile.num_stages = 2 : i32}
func.func @accumulated(%p: !tile.ptr<f32>, %n: i32, %stride: i32, %v: f32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%o = %zero) -> (i32) : i32 {
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i32
    tile.store %q, %v : !tile.ptr<f32>, f32
    %next = arith.addi %o, %stride : i32
    scf.yield %next : i32
  } {tile.num_stages = 2 : i32}
  return
}

// The 32-bit value stays for the mask and for the result; inner loops and branches carry both as well.
// CHECK-LABEL: func @carried_twice
// CHECK: scf.for {{.*}} -> (tensor<64xi32>, tensor<64xi64>)
// CHECK: scf.for {{.*}} -> (tensor<64xi32>, tensor<64xi64>)
// CHECK: arith.cmpi slt, %{{.*}}, %{{.*}} : tensor<64xi32>
// CHECK: tile.addptr {{.*}} : tensor<64x!tile.ptr<f32>>, tensor<64xi64>
// CHECK: scf.if {{.*}} -> (tensor<64xi32>, tensor<64xi64>)
// CHECK: scf.yield %{{.*}}, %{{.*}} : tensor<64xi32>, tensor<64xi64>
func.func @carried_twice(%p: !tile.ptr<f32>, %n: i32, %c: i1, %v: tensor<64xf32>) -> tensor<64xi32> {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %limit = tile.splat %n : i32 -> tensor<64xi32>
  %bases = tile.splat %p : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %r = scf.for %i = %zero to %n step %one iter_args(%o = %lanes) -> (tensor<64xi32>) : i32 {
    %s = scf.for %j = %zero to %n step %one iter_args(%u = %o) -> (tensor<64xi32>) : i32 {
      %mask = arith.cmpi slt, %u, %limit : tensor<64xi32>
      %q = tile.addptr %bases, %u : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
      tile.store %q, %v mask %mask : tensor<64x!tile.ptr<f32>>, tensor<64xf32> mask tensor<64xi1>
      %w = arith.addi %u, %limit : tensor<64xi32>
      scf.yield %w : tensor<64xi32>
    }
    %t = scf.if %c -> (tensor<64xi32>) {
      %x = arith.addi %s, %lanes : tensor<64xi32>
      scf.yield %x : tensor<64xi32>
    } else {
      scf.yield %s : tensor<64xi32>
    }
    scf.yield %t : tensor<64xi32>
  }
  return %r : tensor<64xi32>
}

// Carried through an inner loop and used only by addresses: one wide value in each loop.
// CHECK-LABEL: func @nested
// CHECK: scf.for {{.*}} -> (i64)
// CHECK: scf.for {{.*}} -> (i64)
// CHECK: tile.addptr {{.*}} : !tile.ptr<f32>, i64
// CHECK: scf.yield %{{.*}} : i64
// CHECK: scf.yield %{{.*}} : i64
func.func @nested(%p: !tile.ptr<f32>, %n: i32, %stride: i32, %v: f32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%o = %zero) -> (i32) : i32 {
    %s = scf.for %j = %zero to %n step %one iter_args(%u = %o) -> (i32) : i32 {
      %q = tile.addptr %p, %u : !tile.ptr<f32>, i32
      tile.store %q, %v : !tile.ptr<f32>, f32
      %w = arith.addi %u, %stride : i32
      scf.yield %w : i32
    }
    %next = arith.addi %s, %stride : i32
    scf.yield %next : i32
  }
  return
}
