// RUN: kiln-opt %s --kiln-expand-math --split-input-file --verify-diagnostics

func.func @format(%x: vector<4xf128>) -> vector<4xf128> {
  // expected-error @+1 {{expected an operation the target cpu-avx512 can do or expand, got math.exp on 'vector<4xf128>'}}
  %y = math.exp %x : vector<4xf128>
  return %y : vector<4xf128>
}

// -----

func.func @arithmetic(%x: f8E4M3FNUZ) -> f8E4M3FNUZ {
  // expected-error @+1 {{expected an operation the target cpu-avx512 can do or expand, got arith.addf on 'f8E4M3FNUZ'}}
  %y = arith.addf %x, %x : f8E4M3FNUZ
  return %y : f8E4M3FNUZ
}

// -----

func.func @rounding(%x: f32) -> bf16 {
  // expected-error @+1 {{expected an operation the target cpu-avx512 can do or expand, got arith.truncf on 'f32' rounded upward}}
  %y = arith.truncf %x upward : f32 to bf16
  return %y : bf16
}
