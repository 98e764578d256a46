// RUN: kiln-opt %s --kiln-combine-tiles > %t
// RUN: FileCheck %s --input-file=%t
// RUN: kiln-opt %t --kiln-combine-tiles | diff %t -
// RUN: kiln-opt %t --canonicalize | FileCheck %s --check-prefix=MLIR

// CHECK-LABEL: func @dot_plus
// CHECK-SAME: (%[[A:.*]]: tensor<16x32xf16>, %[[B:.*]]: tensor<32x16xf16>, %[[C:.*]]: tensor<16x16xf32>)
// CHECK: %[[D:.*]] = tile.dot %[[A]], %[[B]], %[[C]] {precision = #tile<precision tf32>}
// CHECK-NEXT: return %[[D]]
func.func @dot_plus(%a: tensor<16x32xf16>, %b: tensor<32x16xf16>, %c: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %d = tile.dot %a, %b, %zero {precision = #tile<precision tf32>} : tensor<16x32xf16>, tensor<32x16xf16> -> tensor<16x16xf32>
  %r = arith.addf %c, %d : tensor<16x16xf32>
  return %r : tensor<16x16xf32>
}

// CHECK-LABEL: func @integer_dot_plus
// CHECK: tile.dot %{{.*}}, %{{.*}}, %arg2
// CHECK-NOT: arith.addi
func.func @integer_dot_plus(%a: tensor<16x32xi8>, %b: tensor<32x16xi8>, %c: tensor<16x16xi32>) -> tensor<16x16xi32> {
  %zero = arith.constant 0 : i32
  %zeros = tile.splat %zero : i32 -> tensor<16x16xi32>
  %d = tile.dot %a, %b, %zeros : tensor<16x32xi8>, tensor<32x16xi8> -> tensor<16x16xi32>
  %r = arith.addi %d, %c : tensor<16x16xi32>
  return %r : tensor<16x16xi32>
}

// The product has another use, or already an accumulator, or would be computed again in each iteration.
// CHECK-LABEL: func @dot_stays
// CHECK: arith.addf
// CHECK: arith.addf
// CHECK: scf.for
// CHECK: arith.addf
func.func @dot_stays(%a: tensor<16x32xf32>, %b: tensor<32x16xf32>, %c: tensor<16x16xf32>, %n: i32)
    -> (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) {
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %twice = tile.dot %a, %b, %zero : tensor<16x32xf32>, tensor<32x16xf32> -> tensor<16x16xf32>
  %x = arith.addf %twice, %c : tensor<16x16xf32>
  %full = tile.dot %a, %b, %c : tensor<16x32xf32>, tensor<32x16xf32> -> tensor<16x16xf32>
  %y = arith.addf %full, %c : tensor<16x16xf32>
  %i0 = arith.constant 0 : i32
  %i1 = arith.constant 1 : i32
  %outside = tile.dot %a, %b, %zero : tensor<16x32xf32>, tensor<32x16xf32> -> tensor<16x16xf32>
  %z = scf.for %i = %i0 to %n step %i1 iter_args(%acc = %c) -> (tensor<16x16xf32>) : i32 {
    %w = arith.addf %acc, %outside : tensor<16x16xf32>
    scf.yield %w : tensor<16x16xf32>
  }
  return %twice, %x, %y, %z : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>
}

// CHECK-LABEL: func @select_of_load
// CHECK-SAME: (%[[P:.*]]: tensor<16x!tile.ptr<f32>>, %[[M:.*]]: tensor<16xi1>, %[[Z:.*]]: tensor<16xf32>)
// CHECK: %[[V:.*]] = tile.load %[[P]] mask %[[M]] other %[[Z]]
// CHECK-NEXT: return %[[V]]
func.func @select_of_load(%p: tensor<16x!tile.ptr<f32>>, %m: tensor<16xi1>, %z: tensor<16xf32>) -> tensor<16xf32> {
  %v = tile.load %p mask %m : tensor<16x!tile.ptr<f32>> mask tensor<16xi1> -> tensor<16xf32>
  %r = arith.select %m, %v, %z : tensor<16xi1>, tensor<16xf32>
  return %r : tensor<16xf32>
}

// A different mask, a volatile load, or a store between the load and a replacement that is not known earlier.
// CHECK-LABEL: func @select_stays
// CHECK-COUNT-3: arith.select
func.func @select_stays(%p: tensor<16x!tile.ptr<f32>>, %m: tensor<16xi1>, %k: tensor<16xi1>, %z: tensor<16xf32>)
    -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) {
  %v = tile.load %p mask %m : tensor<16x!tile.ptr<f32>> mask tensor<16xi1> -> tensor<16xf32>
  %a = arith.select %k, %v, %z : tensor<16xi1>, tensor<16xf32>
  %w = tile.load %p mask %m {isVolatile} : tensor<16x!tile.ptr<f32>> mask tensor<16xi1> -> tensor<16xf32>
  %b = arith.select %m, %w, %z : tensor<16xi1>, tensor<16xf32>
  %u = tile.load %p mask %m : tensor<16x!tile.ptr<f32>> mask tensor<16xi1> -> tensor<16xf32>
  tile.store %p, %z : tensor<16x!tile.ptr<f32>>, tensor<16xf32>
  %late = tile.load %p : tensor<16x!tile.ptr<f32>> -> tensor<16xf32>
  %c = arith.select %m, %u, %late : tensor<16xi1>, tensor<16xf32>
  return %a, %b, %c : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
}

// CHECK-LABEL: func @nested_selects
// CHECK-SAME: (%[[A:.*]]: tensor<16xi1>, %[[B:.*]]: tensor<16xi1>, %[[X:.*]]: tensor<16xf32>, %[[Y:.*]]: tensor<16xf32>)
// CHECK-DAG: %[[AB:.*]] = arith.andi %[[A]], %[[B]]
// CHECK-DAG: %[[Q:.*]] = arith.select %[[AB]], %[[X]], %[[Y]]
// CHECK-DAG: %[[OR:.*]] = arith.ori %[[A]], %[[B]]
// CHECK-DAG: %[[R:.*]] = arith.select %[[OR]], %[[X]], %[[Y]]
// CHECK: return %[[Q]], %[[R]]
func.func @nested_selects(%a: tensor<16xi1>, %b: tensor<16xi1>, %x: tensor<16xf32>, %y: tensor<16xf32>)
    -> (tensor<16xf32>, tensor<16xf32>) {
  %1 = arith.select %b, %x, %y : tensor<16xi1>, tensor<16xf32>
  %q = arith.select %a, %1, %y : tensor<16xi1>, tensor<16xf32>
  %2 = arith.select %b, %x, %y : tensor<16xi1>, tensor<16xf32>
  %r = arith.select %a, %x, %2 : tensor<16xi1>, tensor<16xf32>
  return %q, %r : tensor<16xf32>, tensor<16xf32>
}

// Selects with the same condition are left to canonicalization after this pass, which merges them.
// MLIR-LABEL: func @one_condition
// MLIR-SAME: (%[[A:.*]]: tensor<16xi1>, %[[X:.*]]: tensor<16xf32>, %{{.*}}: tensor<16xf32>, %[[Z:.*]]: tensor<16xf32>)
// MLIR-NEXT: %[[P:.*]] = arith.select %[[A]], %[[X]], %[[Z]]
// MLIR-NEXT: %[[Q:.*]] = arith.select %[[A]], %[[Z]], %[[X]]
// MLIR-NEXT: return %[[P]], %[[Q]]
func.func @one_condition(%a: tensor<16xi1>, %x: tensor<16xf32>, %y: tensor<16xf32>, %z: tensor<16xf32>)
    -> (tensor<16xf32>, tensor<16xf32>) {
  %0 = arith.select %a, %x, %y : tensor<16xi1>, tensor<16xf32>
  %p = arith.select %a, %0, %z : tensor<16xi1>, tensor<16xf32>
  %1 = arith.select %a, %y, %x : tensor<16xi1>, tensor<16xf32>
  %q = arith.select %a, %z, %1 : tensor<16xi1>, tensor<16xf32>
  return %p, %q : tensor<16xf32>, tensor<16xf32>
}

// CHECK-LABEL: func @before_spreading
// CHECK-SAME: (%[[X:.*]]: tensor<16xf32>, %[[S:.*]]: f32)
// CHECK: %[[T:.*]] = tile.splat %[[S]] : f32 -> tensor<16xf32>
// CHECK: %[[Y:.*]] = arith.mulf %[[X]], %[[T]] fastmath<contract> : tensor<16xf32>
// CHECK: %[[C:.*]] = arith.cmpf olt, %[[Y]], %{{.*}} : tensor<16xf32>
// CHECK: %[[E:.*]] = tile.expand_dims %[[C]] 1 : tensor<16xi1> -> tensor<16x1xi1>
// CHECK: %[[B:.*]] = tile.broadcast %[[E]] : tensor<16x1xi1> -> tensor<16x32xi1>
// CHECK: return %[[B]]
func.func @before_spreading(%x: tensor<16xf32>, %s: f32) -> tensor<16x32xi1> {
  %e = tile.expand_dims %x 1 : tensor<16xf32> -> tensor<16x1xf32>
  %b = tile.broadcast %e : tensor<16x1xf32> -> tensor<16x32xf32>
  %t = tile.splat %s : f32 -> tensor<16x32xf32>
  %two = arith.constant dense<2.0> : tensor<16x32xf32>
  %y = arith.mulf %b, %t fastmath<contract> : tensor<16x32xf32>
  %c = arith.cmpf olt, %y, %two : tensor<16x32xf32>
  return %c : tensor<16x32xi1>
}

// All scalars: computed once. Pointers too.
// CHECK-LABEL: func @scalars
// CHECK: %[[M:.*]] = arith.muli %{{.*}}, %{{.*}} : i32
// CHECK: %[[P:.*]] = tile.addptr %{{.*}}, %[[M]] : !tile.ptr<f32>, i32
// CHECK: tile.splat %[[P]] : !tile.ptr<f32> -> tensor<16x!tile.ptr<f32>>
func.func @scalars(%p: !tile.ptr<f32>, %a: i32, %b: i32) -> tensor<16x!tile.ptr<f32>> {
  %x = tile.splat %a : i32 -> tensor<16xi32>
  %y = tile.splat %b : i32 -> tensor<16xi32>
  %z = arith.muli %x, %y : tensor<16xi32>
  %q = tile.splat %p : !tile.ptr<f32> -> tensor<16x!tile.ptr<f32>>
  %r = tile.addptr %q, %z : tensor<16x!tile.ptr<f32>>, tensor<16xi32>
  return %r : tensor<16x!tile.ptr<f32>>
}

// A row and a column combine only after broadcasting; a full tile is not small.
// CHECK-LABEL: func @spread_stays
// CHECK: arith.addf %{{.*}}, %{{.*}} : tensor<16x32xf32>
// CHECK: arith.mulf %{{.*}}, %{{.*}} : tensor<16x32xf32>
func.func @spread_stays(%x: tensor<16x1xf32>, %y: tensor<1x32xf32>, %z: tensor<16x32xf32>) -> tensor<16x32xf32> {
  %a = tile.broadcast %x : tensor<16x1xf32> -> tensor<16x32xf32>
  %b = tile.broadcast %y : tensor<1x32xf32> -> tensor<16x32xf32>
  %c = arith.addf %a, %b : tensor<16x32xf32>
  %d = arith.mulf %a, %z : tensor<16x32xf32>
  %e = arith.subf %c, %d : tensor<16x32xf32>
  return %e : tensor<16x32xf32>
}
