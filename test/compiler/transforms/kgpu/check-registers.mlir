// A tile with more elements per thread than the limit is rejected at its largest op, with advice on what to change; so
// is a sort of too many steps. At the limit, and where registers only repeat an element, there is no error.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-check-registers -verify-diagnostics

#bound = #layout.map<blocked [131072] vector 4 warps 4>
#over = #layout.map<blocked [262144] vector 4 warps 4>
func.func @too_many(%a: tensor<131072xf32, #bound>, %b: tensor<262144xf32, #over>) {
  %x = math.exp %a : tensor<131072xf32, #bound>
  // expected-error @below {{out of elements of a tile per thread: required 2048, available 1024 (reduce the tile's size, or spread it over more threads by num_warps= or cluster=)}}
  %y = math.exp %b : tensor<262144xf32, #over>
  return
}

// -----

// The error is at the largest tile, wherever it is.
#over = #layout.map<blocked [262144] vector 4 warps 4>
#far = #layout.map<blocked [262144] vector 4 warps 1>
func.func @largest(%a: tensor<262144xf32, #over>, %b: tensor<262144xf32, #far>, %c: i1) {
  %x = math.exp %a : tensor<262144xf32, #over>
  scf.if %c {
    // expected-error @below {{required 8192, available 1024}}
    %y = math.exp %b : tensor<262144xf32, #far>
  }
  return
}

// -----

#bound = #layout.map<blocked [131072] vector 4 warps 4>
#row = #layout.map<blocked [4096] vector 1 warps 1>
func.func @enough(%a: tensor<131072xf32, #bound>, %b: tensor<4096xf32, #row>) {
  %x = math.exp %a : tensor<131072xf32, #bound>
  // 128 elements, 78 times each.
  %y = tile.sort %b : tensor<4096xf32, #row>
  return
}

// -----

#row = #layout.map<blocked [8192] vector 1 warps 1>
func.func @sort(%b: tensor<8192xf32, #row>) {
  // expected-error @below {{out of steps of a sort per thread: required 23296, available 16384}}
  %y = tile.sort %b : tensor<8192xf32, #row>
  return
}

// -----

// Selecting the first few of a row takes fewer steps than sorting all of it.
#row = #layout.map<blocked [8192] vector 1 warps 1>
#few = #layout.map<blocked [16] vector 1 warps 1>
func.func @first(%b: tensor<8192xf32, #row>) {
  %y = tile.topk %b : tensor<8192xf32, #row> -> tensor<16xf32, #few>
  return
}
