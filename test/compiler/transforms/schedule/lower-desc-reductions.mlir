// Tiles that are combined into arrays through descriptors: what no schedule took becomes atomics of threads, on every
// target.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-lower-desc-reductions))' | FileCheck %s
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_80},func.func(kiln-lower-desc-reductions))' | FileCheck %s
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=cpu-avx2},func.func(kiln-lower-desc-reductions))' | FileCheck %s

// Elements before the start or after the end of the array touch nothing; positions are computed in 64 bits.
// CHECK-LABEL: func.func @sums
// CHECK: scf.if
// CHECK: arith.extsi %{{.*}} : i32 to i64
// CHECK: %[[ROW:.*]] = arith.addi %{{.*}} : tensor<64xi64>
// CHECK: arith.muli %[[ROW]],
// CHECK: %[[BEHIND:.*]] = arith.cmpi sge, %[[ROW]],
// CHECK: %[[BEFORE:.*]] = arith.cmpi slt, %[[ROW]],
// CHECK: arith.andi %[[BEHIND]], %[[BEFORE]] : tensor<64xi1>
// CHECK: %[[COLUMN:.*]] = arith.addi %{{.*}} : tensor<32xi64>
// CHECK: arith.cmpi sge, %[[COLUMN]],
// CHECK: arith.cmpi slt, %[[COLUMN]],
// CHECK: %[[INSIDE:.*]] = arith.andi %{{.*}} : tensor<64x32xi1>
// CHECK: %[[WHERE:.*]] = tile.addptr
// CHECK: tile.atomic_rmw umax relaxed gpu %[[WHERE]], %{{.*}} mask %[[INSIDE]]
// CHECK-NOT: tile.desc_reduce
func.func @sums(%y: !tile.ptr<i32>, %v: tensor<64x32xi32>, %n: i64, %s: i64, %i: i32, %j: i32, %more: i1) {
  %one = arith.constant 1 : i64
  scf.if %more {
    %d = tile.make_desc %y, shape [%n, %s] strides [%s, %one] : !tile.ptr<i32> -> !tile.desc<tensor<64x32xi32>>
    tile.desc_reduce umax %d[%i, %j], %v : !tile.desc<tensor<64x32xi32>>, tensor<64x32xi32>
  }
  return
}
