// kiln-verify-layouts: each rule is broken once.
// RUN: kiln-opt %s --split-input-file --verify-diagnostics --kiln-verify-layouts

// Valid: a row number spread over the columns; registers that would repeat an element are dropped.
#row = #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>
#tall = #layout.map<digits [4, 1] lane (0, 0) (0, 0) (0, 0) (0, 0) (0, 0) warp (1, 0) (2, 0)>
#wide = #layout.map<digits [4, 64] reg (0, 1) lane (0, 2) (0, 4) (0, 8) (0, 16) (0, 32) warp (1, 0) (2, 0)>
func.func @fits(%x: tensor<4xf32, #row>, %y: tensor<4x64xf32, #wide>) -> tensor<4xf32, #row> {
  %t = tile.expand_dims %x 1 : tensor<4xf32, #row> -> tensor<4x1xf32, #tall>
  %w = tile.broadcast %t : tensor<4x1xf32, #tall> -> tensor<4x64xf32, #wide>
  %s = arith.addf %w, %y : tensor<4x64xf32, #wide>
  %r = tile.reduce(%s) axis 1 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4x64xf32, #wide>) -> tensor<4xf32, #row>
  return %r : tensor<4xf32, #row>
}

// -----

#a = #layout.map<blocked [64] order [0] vector 1 warps 4>
func.func @no_layout(%x: tensor<64xf32, #a>) {
  // expected-error @+1 {{expected every tile to have a layout (because layouts are assigned), got 'tensor<64xf32>'}}
  %y = arith.constant dense<0.0> : tensor<64xf32>
  return
}

// -----

#a = #layout.map<blocked [64] order [0] vector 1 warps 8>
// expected-error @+1 {{expected layouts of 4 warps (because the kernel has that many), got}}
func.func @threads(%x: tensor<64xf32, #a>) {
  return
}

// -----

#a = #layout.map<blocked [64] order [0] vector 1 warps 4>
module attributes {kgpu.cluster = 2 : i32} {
  // expected-error @+1 {{expected layouts of 2 ctas (because the kernel has that many), got}}
  func.func @ctas(%x: tensor<64xf32, #a>) {
    return
  }
}

// -----

#a = #layout.map<blocked [64] order [0] vector 1 warps 4>
#b = #layout.map<blocked [64] order [0] vector 2 warps 4>
func.func @access(%p: tensor<64x!tile.ptr<f32>, #a>, %v: tensor<64xf32, #b>) {
  // expected-error @+1 {{expected tiles of one layout (because each thread operates only on its own elements), got}}
  tile.store %p, %v : tensor<64x!tile.ptr<f32>, #a>, tensor<64xf32, #b>
  return
}

// -----

#a = #layout.map<blocked [64] order [0] vector 1 warps 4>
#b = #layout.map<blocked [64] order [0] vector 2 warps 4>
#c = #layout.map<blocked [128] order [0] vector 1 warps 4>
func.func @picked(%x: tensor<128xf32, #c>, %i: tensor<64xi32, #a>) {
  // expected-error @+1 {{expected tiles of one layout}}
  %y = tile.gather %x[%i] 0 : tensor<128xf32, #c>, tensor<64xi32, #a> -> tensor<64xf32, #b>
  return
}

// -----

// Warps hold whole rows, so row 0 is only in warp 0; a sum in all warps takes an exchange that the op does not do.
#row = #layout.map<digits [4] reg (1) (2) lane (0) (0) (0) (0) (0) warp (0) (0)>
#wide = #layout.map<digits [4, 64] reg (0, 1) lane (0, 2) (0, 4) (0, 8) (0, 16) (0, 32) warp (1, 0) (2, 0)>
func.func @reduction(%s: tensor<4x64xf32, #wide>) {
  // expected-error @+1 {{expected the operand's layout to follow from the result's (because elements stay in their threads), got}}
  %r = tile.reduce(%s) axis 1 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4x64xf32, #wide>) -> tensor<4xf32, #row>
  return
}

// -----

#a = #layout.map<blocked [32, 8] order [1, 0] vector 1 warps 4>
#b = #layout.map<blocked [8, 32] order [1, 0] vector 1 warps 4>
func.func @transposed(%x: tensor<32x8xf32, #a>) {
  // expected-error @+1 {{expected the operand's layout to follow from the result's}}
  %y = tile.trans %x [1, 0] : tensor<32x8xf32, #a> -> tensor<8x32xf32, #b>
  return
}

// -----

#a = #layout.map<blocked [256] order [0] vector 1 warps 4>
#b = #layout.map<blocked [128, 2] order [0, 1] vector 1 warps 4>
func.func @reshaped(%x: tensor<256xf32, #a>) {
  // expected-error @+1 {{expected the operand's layout to follow from the result's}}
  %y = tile.reshape %x : tensor<256xf32, #a> -> tensor<128x2xf32, #b>
  return
}

// -----

#a = #layout.map<blocked [64] order [0] vector 1 warps 4>
func.func private @helper(tensor<64xf32, #a>)
func.func @not_inlined(%x: tensor<64xf32, #a>) {
  // expected-error @+1 {{expected an op whose tiles' layouts follow a rule (because each op is checked against its rule), got an op with tiles and no rule}}
  func.call @helper(%x) : (tensor<64xf32, #a>) -> ()
  return
}
