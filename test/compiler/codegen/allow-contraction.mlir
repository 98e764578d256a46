// RUN: kiln-opt %s --kiln-allow-contraction | FileCheck %s

// CHECK-LABEL: @sums_and_products
// CHECK: arith.mulf %{{.*}} fastmath<contract> : tensor<8xf32>
// CHECK: arith.addf %{{.*}} fastmath<contract> : tensor<8xf32>
// CHECK: arith.subf %{{.*}} fastmath<contract> : tensor<8xf32>
func.func @sums_and_products(%x: tensor<8xf32>) -> tensor<8xf32> {
  %m = arith.mulf %x, %x : tensor<8xf32>
  %a = arith.addf %m, %x : tensor<8xf32>
  %s = arith.subf %a, %m : tensor<8xf32>
  return %s : tensor<8xf32>
}

// Existing flags stay; only `contract` is added.
// CHECK-LABEL: @keeps_flags
// CHECK: arith.mulf %{{.*}} fastmath<nnan,contract> : f32
func.func @keeps_flags(%x: f32) -> f32 {
  %m = arith.mulf %x, %x fastmath<nnan> : f32
  return %m : f32
}

// No other operation is relaxed.
// CHECK-LABEL: @nothing_else
// CHECK-NOT: fastmath
func.func @nothing_else(%x: f32, %n: i32) -> (f32, f32, i1) {
  %d = arith.divf %x, %x : f32
  %e = math.exp %d : f32
  %m = arith.maximumf %d, %e : f32
  %c = arith.cmpf olt, %x, %m : f32
  return %e, %m, %c : f32, f32, i1
}
