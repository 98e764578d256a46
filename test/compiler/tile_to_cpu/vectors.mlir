// RUN: kiln-opt %s --kiln-verify-vectors --split-input-file --verify-diagnostics

// The register tile of AVX-512 is 8 x 32 f32: 1024 bytes.
func.func @fits(%x: vector<256xf32>) -> vector<256xf32> {
  %y = arith.addf %x, %x : vector<256xf32>
  return %y : vector<256xf32>
}

// -----

func.func @too_large(%x: vector<512xf32>) -> vector<512xf32> {
  // expected-error @+1 {{expected vectors of rank 1 and at most 1024 bytes (because that is the register tile of this target), got 'vector<512xf32>'}}
  %y = arith.addf %x, %x : vector<512xf32>
  return %y : vector<512xf32>
}

// -----

func.func @rank(%x: vector<4x4xf32>) -> vector<4x4xf32> {
  // expected-error @+1 {{expected vectors of rank 1 and at most 1024 bytes}}
  %y = arith.addf %x, %x : vector<4x4xf32>
  return %y : vector<4x4xf32>
}
