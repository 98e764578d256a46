// What a program computes 32 times on one type is expanded once, in a function. What it computes less often is expanded
// in place, as is nearly everything on a GPU (repeated-gpu.mlir), where a call costs more than the code.
// RUN: kiln-opt %s --kiln-set-target=target=cpu-avx512 --kiln-expand-math | FileCheck %s
// RUN: kiln-opt %s --kiln-set-target=target=sm_90a --kiln-expand-math | FileCheck %s --check-prefix=GPU

// CHECK-LABEL: func.func @often(
// CHECK-COUNT-32: call @kiln_sin(%{{.*}}) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NOT: call
// CHECK: return
// CHECK-LABEL: func.func private @kiln_sin(%{{.*}}: vector<16xf32>) -> vector<16xf32>
// CHECK-SAME: passthrough = ["noinline"]
// CHECK: math.fma
// CHECK-NOT: math.sin
// CHECK-NOT: func.func
// GPU-NOT: call
func.func @often(%x: vector<16xf32>) -> vector<16xf32> {
  %s0 = math.sin %x : vector<16xf32>
  %s1 = math.sin %s0 : vector<16xf32>
  %s2 = math.sin %s1 : vector<16xf32>
  %s3 = math.sin %s2 : vector<16xf32>
  %s4 = math.sin %s3 : vector<16xf32>
  %s5 = math.sin %s4 : vector<16xf32>
  %s6 = math.sin %s5 : vector<16xf32>
  %s7 = math.sin %s6 : vector<16xf32>
  %s8 = math.sin %s7 : vector<16xf32>
  %s9 = math.sin %s8 : vector<16xf32>
  %s10 = math.sin %s9 : vector<16xf32>
  %s11 = math.sin %s10 : vector<16xf32>
  %s12 = math.sin %s11 : vector<16xf32>
  %s13 = math.sin %s12 : vector<16xf32>
  %s14 = math.sin %s13 : vector<16xf32>
  %s15 = math.sin %s14 : vector<16xf32>
  %s16 = math.sin %s15 : vector<16xf32>
  %s17 = math.sin %s16 : vector<16xf32>
  %s18 = math.sin %s17 : vector<16xf32>
  %s19 = math.sin %s18 : vector<16xf32>
  %s20 = math.sin %s19 : vector<16xf32>
  %s21 = math.sin %s20 : vector<16xf32>
  %s22 = math.sin %s21 : vector<16xf32>
  %s23 = math.sin %s22 : vector<16xf32>
  %s24 = math.sin %s23 : vector<16xf32>
  %s25 = math.sin %s24 : vector<16xf32>
  %s26 = math.sin %s25 : vector<16xf32>
  %s27 = math.sin %s26 : vector<16xf32>
  %s28 = math.sin %s27 : vector<16xf32>
  %s29 = math.sin %s28 : vector<16xf32>
  %s30 = math.sin %s29 : vector<16xf32>
  %s31 = math.sin %s30 : vector<16xf32>
  %y = math.cos %s31 : vector<16xf32>
  return %y : vector<16xf32>
}
