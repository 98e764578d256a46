// RUN: kiln-opt %s --kiln-expand-math | FileCheck %s

// One formula for scalars, vectors and tensors: only the types differ.
// CHECK-LABEL: func @exp_vector
// CHECK-SAME: (%[[X:.*]]: vector<16xf32>)
// CHECK-DAG: %[[LOG2E:.*]] = arith.constant dense<1.44269502> : vector<16xf32>
// CHECK-DAG: %[[ROUND:.*]] = arith.constant dense<0x4B4000FE> : vector<16xf32>
// CHECK: %[[SHIFTED:.*]] = math.fma %{{.*}}, %[[LOG2E]], %[[ROUND]]
// CHECK: arith.subf %[[SHIFTED]], %[[ROUND]]
// CHECK-COUNT-8: math.fma
// CHECK: arith.shrui
// CHECK-COUNT-2: arith.mulf
// CHECK-NOT: math.exp
// CHECK: return
func.func @exp_vector(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.exp %x : vector<16xf32>
  return %y : vector<16xf32>
}

// CHECK-LABEL: func @exp_tensor
// CHECK: math.fma %{{.*}} : tensor<8x4xf64>
// CHECK-NOT: math.exp
func.func @exp_tensor(%x: tensor<8x4xf64>) -> tensor<8x4xf64> {
  %y = math.exp %x : tensor<8x4xf64>
  return %y : tensor<8x4xf64>
}

// CHECK-LABEL: func @exp2_scalar
// CHECK: math.fma %{{.*}} : f32
// CHECK-NOT: math.exp2
func.func @exp2_scalar(%x: f32) -> f32 {
  %y = math.exp2 %x : f32
  return %y : f32
}

// The exact reduction of huge arguments runs only if some lane needs it.
// CHECK-LABEL: func @sin_vector
// CHECK: %[[HUGE:.*]] = arith.cmpf ogt
// CHECK: %[[ANY:.*]] = vector.reduction <or>, %[[HUGE]] : vector<16xi1> into i1
// CHECK: scf.if %[[ANY]]
// CHECK: arith.muli
// CHECK: } else {
// CHECK-NEXT: scf.yield
// CHECK-NOT: math.sin
func.func @sin_vector(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.sin %x : vector<16xf32>
  return %y : vector<16xf32>
}

// A scalar is a single lane.
// CHECK-LABEL: func @cos_scalar
// CHECK: %[[HUGE:.*]] = arith.cmpf ogt
// CHECK: scf.if %[[HUGE]]
func.func @cos_scalar(%x: f64) -> f64 {
  %y = math.cos %x : f64
  return %y : f64
}

// Tensors have no reduction here: compute both ways, then select.
// CHECK-LABEL: func @sin_tensor
// CHECK-NOT: scf.if
// CHECK: arith.muli %{{.*}} : tensor<4xi64>
func.func @sin_tensor(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.sin %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// Vectors of rank two are flattened for the test.
// CHECK-LABEL: func @sin_matrix
// CHECK: vector.shape_cast %{{.*}} : vector<2x4xi1> to vector<8xi1>
func.func @sin_matrix(%x: vector<2x4xf32>) -> vector<2x4xf32> {
  %y = math.sin %x : vector<2x4xf32>
  return %y : vector<2x4xf32>
}

// fmod loops until no lane has anything left to subtract; for a tensor the loop runs as often as the exponents allow.
// CHECK-LABEL: func @remainder_vector
// CHECK: scf.while
// CHECK: vector.reduction <or>
// CHECK-NOT: arith.remf
func.func @remainder_vector(%x: vector<8xf32>, %y: vector<8xf32>) -> vector<8xf32> {
  %r = arith.remf %x, %y : vector<8xf32>
  return %r : vector<8xf32>
}

// CHECK-LABEL: func @remainder_tensor
// CHECK-DAG: %[[BOUND:.*]] = arith.constant 8 : index
// CHECK: scf.for %{{.*}} to %[[BOUND]]
func.func @remainder_tensor(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %r = arith.remf %x, %y : tensor<8xf32>
  return %r : tensor<8xf32>
}

// What is an instruction stays.
// CHECK-LABEL: func @native
// CHECK-NEXT: math.sqrt
// CHECK-NEXT: math.fma
// CHECK-NEXT: math.floor
// CHECK-NEXT: math.roundeven
// CHECK-NEXT: math.copysign
// CHECK-NEXT: arith.maximumf
// CHECK-NEXT: arith.divf
// CHECK-NEXT: return
func.func @native(%x: vector<16xf32>) -> vector<16xf32> {
  %0 = math.sqrt %x : vector<16xf32>
  %1 = math.fma %0, %x, %x : vector<16xf32>
  %2 = math.floor %1 : vector<16xf32>
  %3 = math.roundeven %2 : vector<16xf32>
  %4 = math.copysign %3, %x : vector<16xf32>
  %5 = arith.maximumf %4, %x : vector<16xf32>
  %6 = arith.divf %5, %x : vector<16xf32>
  return %6 : vector<16xf32>
}

// LLVM may turn maxnum into calls of fmaxf.
// CHECK-LABEL: func @maxnum
// CHECK-SAME: (%[[A:.*]]: vector<16xf32>, %[[B:.*]]: vector<16xf32>)
// CHECK: %[[NAN:.*]] = arith.cmpf uno, %[[B]], %[[B]]
// CHECK: %[[GREATER:.*]] = arith.cmpf ogt, %[[A]], %[[B]]
// CHECK: %[[MAX:.*]] = arith.select %[[GREATER]], %[[A]], %[[B]]
// CHECK: arith.select %[[NAN]], %[[A]], %[[MAX]]
func.func @maxnum(%a: vector<16xf32>, %b: vector<16xf32>) -> vector<16xf32> {
  %r = arith.maxnumf %a, %b : vector<16xf32>
  return %r : vector<16xf32>
}

// Formulas carry no fast-math flags, whatever the operation had.
// CHECK-LABEL: func @no_flags
// CHECK-NOT: fastmath
// CHECK: return
func.func @no_flags(%x: f32) -> f32 {
  %y = math.log1p %x fastmath<fast> : f32
  return %y : f32
}
