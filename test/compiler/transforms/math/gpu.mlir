// On a GPU instructions replace formulas; the row's features decide which.
// RUN: kiln-opt %s --kiln-set-target=target=sm_90a --kiln-expand-math | FileCheck %s --check-prefixes=CHECK,HOPPER
// RUN: kiln-opt %s --kiln-set-target=target=sm_80 --kiln-expand-math | FileCheck %s --check-prefixes=CHECK,AMPERE

// One fused step saturates the exponent, ex2 computes the fraction, a shift applies the scale.
// CHECK-LABEL: func @exp
// CHECK: llvm.call_intrinsic "llvm.nvvm.fma.rn.sat.f"
// CHECK-COUNT-3: math.fma
// CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"
// CHECK: arith.shli
// CHECK: arith.mulf
// CHECK-NEXT: return
func.func @exp(%x: f32) -> f32 {
  %y = math.exp %x : f32
  return %y : f32
}

// CHECK-LABEL: func @exp_of_doubles
// CHECK-NOT: call_intrinsic
// CHECK: return
func.func @exp_of_doubles(%x: f64) -> f64 {
  %y = math.exp %x : f64
  return %y : f64
}

// Only operations marked `afn` are approximate.
// CHECK-LABEL: func @quotients
// CHECK: llvm.call_intrinsic "llvm.nvvm.div.full"
// CHECK-NEXT: arith.divf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.sqrt.approx.f"
// CHECK-NEXT: math.sqrt %{{.*}} : f32
// CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.rsqrt.approx.f"
// CHECK-NEXT: arith.divf %{{.*}} fastmath<afn> : f64
func.func @quotients(%x: f32, %y: f32, %d: f64) -> (f32, f32, f32, f32, f32, f64) {
  %a = arith.divf %x, %y fastmath<afn> : f32
  %b = arith.divf %x, %y : f32
  %c = math.sqrt %x fastmath<afn> : f32
  %e = math.sqrt %x : f32
  %f = math.rsqrt %x : f32
  %g = arith.divf %d, %d fastmath<afn> : f64
  return %a, %b, %c, %e, %f, %g : f32, f32, f32, f32, f32, f64
}

// erf whose result is used only as f16: one ex2. With any other use: two polynomials.
// CHECK-LABEL: func @gelu_narrow
// CHECK: math.absf
// CHECK: arith.minimumf
// CHECK-COUNT-5: math.fma
// CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"
// CHECK: arith.truncf %{{.*}} : f32 to f16
func.func @gelu_narrow(%x: f32) -> f16 {
  %one = arith.constant 1.0 : f32
  %e = math.erf %x : f32
  %s = arith.addf %e, %one : f32
  %y = arith.mulf %s, %x : f32
  %r = arith.truncf %y : f32 to f16
  return %r : f16
}

// CHECK-LABEL: func @gelu_seen_wide
// CHECK-NOT: ex2
// CHECK: return
func.func @gelu_seen_wide(%x: f32) -> (f16, f32) {
  %one = arith.constant 1.0 : f32
  %e = math.erf %x : f32
  %s = arith.addf %e, %one : f32
  %y = arith.mulf %s, %x : f32
  %r = arith.truncf %y : f32 to f16
  return %r, %s : f16, f32
}

// A quotient magnifies errors: the bound is not propagated through it.
// CHECK-LABEL: func @erf_through_a_quotient
// CHECK-NOT: ex2
// CHECK: return
func.func @erf_through_a_quotient(%x: f32) -> f16 {
  %e = math.erf %x : f32
  %q = arith.divf %x, %e : f32
  %r = arith.truncf %q : f32 to f16
  return %r : f16
}

// Sums and products of narrow floats stay if the machine has them; other functions go through f32.
// CHECK-LABEL: func @narrow
// CHECK: arith.addf %{{.*}} : f16
// HOPPER: arith.mulf %{{.*}} : bf16
// AMPERE: arith.mulf %{{.*}} : f32
// CHECK: math.fma %{{.*}} : bf16
// CHECK: arith.maximumf %{{.*}} : bf16
// CHECK: arith.cmpf olt, %{{.*}} : f16
// CHECK: arith.divf %{{.*}} : f32
func.func @narrow(%h: f16, %b: bf16) -> (f16, bf16, bf16, bf16, i1, f16) {
  %a = arith.addf %h, %h : f16
  %c = arith.mulf %b, %b : bf16
  %d = math.fma %b, %b, %b : bf16
  %e = arith.maximumf %b, %d : bf16
  %f = arith.cmpf olt, %h, %a : f16
  %g = arith.divf %h, %a : f16
  return %a, %c, %d, %e, %f, %g : f16, bf16, bf16, bf16, i1, f16
}

// CHECK-LABEL: func @conversions
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: arith.extf %{{.*}} : bf16 to f32
// HOPPER: llvm.call_intrinsic "llvm.nvvm.ff.to.e4m3x2.rn"
// HOPPER: llvm.call_intrinsic "llvm.nvvm.ff.to.e5m2x2.rn"
// HOPPER: llvm.call_intrinsic "llvm.nvvm.e4m3x2.to.f16x2.rn"
// HOPPER: vector.extract
// HOPPER: arith.extf %{{.*}} : f16 to f32
// AMPERE-NOT: call_intrinsic
// CHECK: arith.sitofp %{{.*}} : i32 to f16
// CHECK: arith.maxnumf %{{.*}} : f32
func.func @conversions(%x: f32, %q: f8E4M3FN, %i: i32) -> (bf16, f32, f8E4M3FN, f8E5M2, f32, f16, f32) {
  %a = arith.truncf %x : f32 to bf16
  %b = arith.extf %a : bf16 to f32
  %c = arith.truncf %x : f32 to f8E4M3FN
  %d = arith.truncf %x : f32 to f8E5M2
  %e = arith.extf %q : f8E4M3FN to f32
  %f = arith.sitofp %i : i32 to f16
  %g = arith.maxnumf %x, %b : f32
  return %a, %b, %c, %d, %e, %f, %g : bf16, f32, f8E4M3FN, f8E5M2, f32, f16, f32
}

// Both branches get the sign of x, as the polynomial's last sum turns -0.0 into 0.0.
// CHECK-LABEL: func @tanh
// CHECK: %[[Y:.*]] = arith.select
// CHECK-NEXT: %[[SIGNED:.*]] = math.copysign %[[Y]], %arg0
// CHECK-NEXT: return %[[SIGNED]]
func.func @tanh(%x: f32) -> f32 {
  %y = math.tanh %x : f32
  return %y : f32
}
