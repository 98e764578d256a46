// RUN: kiln-opt %s --kiln-expand-math | FileCheck %s
// RUN: kiln-opt %s --kiln-set-target=target=cpu-sse --kiln-expand-math | FileCheck %s --check-prefix=SSE

// bf16 is the upper half of an f32; rounding to it is integer arithmetic, and NaN stays quiet.
// CHECK-LABEL: func @add_bf16
// CHECK-DAG: %[[C16:.*]] = arith.constant dense<16> : vector<16xi32>
// CHECK-DAG: %[[HALF:.*]] = arith.constant dense<32767> : vector<16xi32>
// CHECK-DAG: %[[QUIET:.*]] = arith.constant dense<64> : vector<16xi32>
// CHECK: %[[A:.*]] = arith.bitcast %{{.*}} : vector<16xbf16> to vector<16xi16>
// CHECK: %[[W:.*]] = arith.extui %[[A]] : vector<16xi16> to vector<16xi32>
// CHECK: arith.shli %[[W]], %[[C16]]
// CHECK: %[[SUM:.*]] = arith.addf %{{.*}} : vector<16xf32>
// CHECK-DAG: arith.ori %{{.*}}, %[[QUIET]]
// CHECK-DAG: arith.addi %{{.*}}, %[[HALF]]
// CHECK: arith.trunci %{{.*}} : vector<16xi32> to vector<16xi16>
// CHECK: arith.bitcast %{{.*}} : vector<16xi16> to vector<16xbf16>
func.func @add_bf16(%a: vector<16xbf16>, %b: vector<16xbf16>) -> vector<16xbf16> {
  %r = arith.addf %a, %b : vector<16xbf16>
  return %r : vector<16xbf16>
}

// Each operation rounds: a pair of conversions in between is not dropped.
// CHECK-LABEL: func @each_rounds
// CHECK: arith.mulf %{{.*}} : f32
// CHECK: arith.trunci
// CHECK: arith.addf %{{.*}} : f32
// CHECK: arith.trunci
func.func @each_rounds(%a: bf16, %b: bf16) -> bf16 {
  %m = arith.mulf %a, %b : bf16
  %r = arith.addf %m, %b : bf16
  return %r : bf16
}

// f16 has conversion instructions where the target says so, and integer operations elsewhere.
// CHECK-LABEL: func @mul_f16
// CHECK-NEXT: %[[A:.*]] = arith.extf %{{.*}} : vector<8xf16> to vector<8xf32>
// CHECK-NEXT: %[[B:.*]] = arith.extf %{{.*}} : vector<8xf16> to vector<8xf32>
// CHECK-NEXT: %[[M:.*]] = arith.mulf %[[A]], %[[B]] : vector<8xf32>
// CHECK-NEXT: arith.truncf %[[M]] : vector<8xf32> to vector<8xf16>
// SSE-LABEL: func @mul_f16
// SSE-NOT: arith.{{extf|truncf}}
// SSE: arith.mulf %{{.*}} : vector<8xf32>
// SSE-NOT: arith.{{extf|truncf}}
// SSE: return
func.func @mul_f16(%a: vector<8xf16>, %b: vector<8xf16>) -> vector<8xf16> {
  %r = arith.mulf %a, %b : vector<8xf16>
  return %r : vector<8xf16>
}

// f64 passes through an f32 rounded to odd, so that no double rounding is visible.
// CHECK-LABEL: func @f64_to_f16
// CHECK: %[[F:.*]] = arith.truncf %[[X:.*]] : f64 to f32
// CHECK: %[[BACK:.*]] = arith.extf %[[F]] : f32 to f64
// CHECK: arith.select
// CHECK: arith.truncf %{{.*}} : f32 to f16
func.func @f64_to_f16(%x: f64) -> f16 {
  %r = arith.truncf %x : f64 to f16
  return %r : f16
}

// f8E5M2 is the upper byte of an f16.
// CHECK-LABEL: func @e5m2_to_f16
// CHECK: arith.extui %{{.*}} : vector<16xi8> to vector<16xi16>
// CHECK-NEXT: arith.shli
// CHECK-NEXT: arith.bitcast %{{.*}} : vector<16xi16> to vector<16xf16>
// CHECK-NEXT: return
func.func @e5m2_to_f16(%x: vector<16xf8E5M2>) -> vector<16xf16> {
  %r = arith.extf %x : vector<16xf8E5M2> to vector<16xf16>
  return %r : vector<16xf16>
}

// Sign operations act on bits; loads, stores, selections and constants keep their type.
// CHECK-LABEL: func @signs
// CHECK: arith.xori
// CHECK: arith.andi
// CHECK: arith.select %{{.*}} : vector<16xi1>, vector<16xf8E4M3FN>
// CHECK-NOT: arith.extf
func.func @signs(%c: vector<16xi1>, %x: vector<16xf8E4M3FN>) -> vector<16xf8E4M3FN> {
  %n = arith.negf %x : vector<16xf8E4M3FN>
  %a = math.absf %x : vector<16xf8E4M3FN>
  %r = arith.select %c, %n, %a : vector<16xi1>, vector<16xf8E4M3FN>
  return %r : vector<16xf8E4M3FN>
}

// 32-bit integers reach a narrow type through f64, which holds them exactly.
// CHECK-LABEL: func @int_to_bf16
// CHECK: arith.sitofp %{{.*}} : vector<16xi32> to vector<16xf64>
func.func @int_to_bf16(%x: vector<16xi32>) -> vector<16xbf16> {
  %r = arith.sitofp %x : vector<16xi32> to vector<16xbf16>
  return %r : vector<16xbf16>
}

// Elementary functions of narrow types are those of f32.
// CHECK-LABEL: func @tanh_bf16
// CHECK: math.fma %{{.*}} : vector<16xf32>
// CHECK-NOT: math.tanh
func.func @tanh_bf16(%x: vector<16xbf16>) -> vector<16xbf16> {
  %r = math.tanh %x : vector<16xbf16>
  return %r : vector<16xbf16>
}

// Without the instruction, fma of f32 is a product in f64 and a sum rounded to odd.
// SSE-LABEL: func @fma_f32
// SSE: arith.mulf %{{.*}} : vector<4xf64>
// SSE-NOT: math.fma
// SSE: arith.truncf %{{.*}} : vector<4xf64> to vector<4xf32>
func.func @fma_f32(%a: vector<4xf32>, %b: vector<4xf32>, %c: vector<4xf32>) -> vector<4xf32> {
  %r = math.fma %a, %b, %c : vector<4xf32>
  return %r : vector<4xf32>
}

// A sum in f32, rounded to odd, is what fma of f16 rounds; the product of two bf16 may need f64 for that.
// CHECK-LABEL: func @fma_f16
// CHECK: %[[P:.*]] = arith.mulf %{{.*}} : vector<4xf32>
// CHECK: arith.addf %[[P]], %{{.*}} : vector<4xf32>
// CHECK-NOT: math.fma
// CHECK: %[[ODD:.*]] = arith.select {{.*}} : vector<4xi1>, vector<4xf32>
// CHECK: arith.truncf %[[ODD]] : vector<4xf32> to vector<4xf16>
func.func @fma_f16(%a: vector<4xf16>, %b: vector<4xf16>, %c: vector<4xf16>) -> vector<4xf16> {
  %r = math.fma %a, %b, %c : vector<4xf16>
  return %r : vector<4xf16>
}

// CHECK-LABEL: func @fma_bf16
// CHECK: arith.mulf %{{.*}} : f64
// CHECK-NOT: math.fma
func.func @fma_bf16(%a: bf16, %b: bf16, %c: bf16) -> bf16 {
  %r = math.fma %a, %b, %c : bf16
  return %r : bf16
}

// Reductions accumulate in f32 and round once.
// CHECK-LABEL: func @reductions
// CHECK: %[[R:.*]] = vector.reduction <add>, %{{.*}}, %{{.*}} : vector<16xf32> into f32
// CHECK: vector.multi_reduction <maximumf>, %{{.*}}, %{{.*}} [1] : vector<4x16xf32> to vector<4xf32>
// CHECK: vector.fma %{{.*}} : vector<16xf32>
func.func @reductions(%x: vector<16xbf16>, %a: bf16, %m: vector<4x16xf8E5M2>, %b: vector<4xf8E5M2>)
    -> (bf16, vector<4xf8E5M2>, vector<16xbf16>) {
  %0 = vector.reduction <add>, %x, %a : vector<16xbf16> into bf16
  %1 = vector.multi_reduction <maximumf>, %m, %b [1] : vector<4x16xf8E5M2> to vector<4xf8E5M2>
  %2 = vector.fma %x, %x, %x : vector<16xbf16>
  return %0, %1, %2 : bf16, vector<4xf8E5M2>, vector<16xbf16>
}

// fp8 saturates; the clamp that tells MLIR's folds so is removed, also from vectors and after an extension.
// CHECK-LABEL: func @saturates
// CHECK: %[[LARGEST:.*]] = arith.constant dense<126> : vector<8xi32>
// CHECK-NOT: arith.{{maximumf|minimumf}}
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[LARGEST]] : vector<8xi1>, vector<8xi32>
// CHECK-NOT: arith.{{maximumf|minimumf}}
// CHECK: return
func.func @saturates(%x: vector<8xf16>) -> vector<8xf8E4M3FN> {
  %low = arith.constant dense<-448.0> : vector<8xf32>
  %high = arith.constant dense<448.0> : vector<8xf32>
  %w = arith.extf %x : vector<8xf16> to vector<8xf32>
  %a = arith.maximumf %w, %low : vector<8xf32>
  %b = arith.minimumf %a, %high : vector<8xf32>
  %r = arith.truncf %b : vector<8xf32> to vector<8xf8E4M3FN>
  return %r : vector<8xf8E4M3FN>
}

// A clamp to less than the format's range is the program's own.
// CHECK-LABEL: func @own_clamp
// CHECK: arith.maximumf
// CHECK: arith.minimumf
// CHECK: return
func.func @own_clamp(%x: f32) -> f8E5M2 {
  %low = arith.constant -57344.0 : f32
  %high = arith.constant 448.0 : f32
  %a = arith.maximumf %x, %low : f32
  %b = arith.minimumf %a, %high : f32
  %r = arith.truncf %b : f32 to f8E5M2
  return %r : f8E5M2
}

// A maximum is one of its operands: an infinity is not rounded, so it is not saturated. A sum is.
// CHECK-LABEL: func @chosen
// CHECK: arith.maximumf %{{.*}} : f32
// CHECK-NEXT: arith.truncf %{{.*}} : f32 to f16
// CHECK-NEXT: arith.bitcast
// CHECK-NEXT: arith.shrui
// CHECK-NEXT: arith.trunci %{{.*}} : i16 to i8
// CHECK-NEXT: arith.bitcast
// CHECK-NEXT: return
func.func @chosen(%a: f8E5M2, %b: f8E5M2) -> f8E5M2 {
  %r = arith.maximumf %a, %b : f8E5M2
  return %r : f8E5M2
}
