// What the dialect rejects of assembly, library calls, print, assert, assume and unlikely.
// RUN: kiln-opt %s -split-input-file -verify-diagnostics

func.func @inline_asm_c1(%a: tensor<8xi32>, %b: i32) {
  // expected-error @below {{expected every operand and result to have shape [8] (because the assembly runs element by element), got a scalar}}
  %c = tile.inline_asm "add.s32 $0, $1, $2;" "=r,r,r" (%a, %b) : (tensor<8xi32>, i32) -> tensor<8xi32>
  return
}

// -----

func.func @inline_asm_c2(%a: tensor<8xi8>) {
  // expected-error @below {{expected packed to be at least 1 and to divide the 8 elements (because the assembly runs on that many at a time), got 3}}
  %c = tile.inline_asm "not.b32 $0, $1;" "=r,r" (%a) {packed = 3 : i32} : (tensor<8xi8>) -> tensor<8xi8>
  return
}

// -----

func.func @inline_asm_c2_zero(%a: i32) {
  // expected-error @below {{expected packed to be at least 1 and to divide the 1 elements (because the assembly runs on that many at a time), got 0}}
  %c = tile.inline_asm "not.b32 $0, $1;" "=r,r" (%a) {packed = 0 : i32} : (i32) -> i32
  return
}

// -----

func.func @inline_asm_c3(%a: tensor<8xi32>) {
  // expected-error @below {{expected constraints for 1 output and 1 input registers (because 1 elements at a time take that many), got 1 and 2}}
  %c = tile.inline_asm "not.b32 $0, $1;" "=r,r,r,~{memory}" (%a) : (tensor<8xi32>) -> tensor<8xi32>
  return
}

// -----

// Four f32 take four registers, four i8 share one.
func.func @inline_asm_c3_packed(%a: tensor<8xi8>) {
  // expected-error @below {{expected constraints for 4 output and 1 input registers (because 4 elements at a time take that many), got 1 and 1}}
  %c = tile.inline_asm "" "=r,r" (%a) {packed = 4 : i32} : (tensor<8xi8>) -> tensor<8xf32>
  return
}

// -----

func.func @inline_asm_c4(%a: tensor<8xi32>) {
  // expected-error @below {{expected portable region to take ('i32') (because it maps one element of every operand), got ('tensor<8xi32>')}}
  %c = tile.inline_asm "not.b32 $0, $1;" "=r,r" (%a) portable {
  ^bb0(%x: tensor<8xi32>):
    %z = arith.constant 0 : i32
    tile.yield %z : i32
  } : (tensor<8xi32>) -> tensor<8xi32>
  return
}

// -----

func.func @inline_asm_c5(%a: tensor<8xi32>) {
  // expected-error @below {{expected portable region to yield ('i32') (because it returns one element for each result), got ()}}
  %c = tile.inline_asm "not.b32 $0, $1;" "=r,r" (%a) portable {
  ^bb0(%x: i32):
    tile.yield
  } : (tensor<8xi32>) -> tensor<8xi32>
  return
}

// -----

func.func @inline_asm_c6(%a: tensor<8xi32>) {
  // expected-error @below {{expected an op without results not to be pure (because it would do nothing), got isPure}}
  tile.inline_asm "prefetch.global.L1 [$0];" "r" (%a) {isPure} : (tensor<8xi32>) -> ()
  return
}

// -----

func.func @extern_call_c1(%a: tensor<8xf32>, %b: f32) {
  // expected-error @below {{expected every operand to have shape [8] (because the function is called per element), got a scalar}}
  %c = tile.extern_call "hypot" from "libdevice" (%a, %b) : (tensor<8xf32>, f32) -> tensor<8xf32>
  return
}

// -----

func.func @extern_call_c2(%a: f32) {
  // expected-error @below {{expected the name of a function (because the call is resolved by name), got ""}}
  %c = tile.extern_call "" from "libdevice" (%a) : (f32) -> f32
  return
}

// -----

func.func @print_c1(%a: i32) {
  // expected-error @below {{expected 1 isSigned entries (because there is one per operand), got 2}}
  tile.print "a" %a : i32 {isSigned = array<i32: 1, 1>}
  return
}

// -----

func.func @print_c2(%a: i32) {
  // expected-error @below {{expected isSigned entries to be 0 or 1 (because they are flags), got 2}}
  tile.print "a" %a : i32 {isSigned = array<i32: 2>}
  return
}

// -----

func.func @assert_c1(%a: i32) {
  // expected-error @below {{operand #0 must be i1 or tile of i1, but got 'i32'}}
  tile.assert %a, "a" : i32
  return
}

// -----

func.func @assume_c1(%a: tensor<8xi1>) {
  // expected-error @below {{operand #0 must be 1-bit signless integer, but got 'tensor<8xi1>'}}
  "tile.assume"(%a) : (tensor<8xi1>) -> ()
  return
}

// -----

func.func @unlikely_c1(%a: tensor<8xi32>) {
  // expected-error @below {{operand #0 must be i1 or tile of i1, but got 'tensor<8xi32>'}}
  %any = tile.unlikely %a : tensor<8xi32>
  return
}
