// What the dialect rejects of ops about programs, pointers and hints.
// RUN: kiln-opt %s -split-input-file -verify-diagnostics

func.func @program_id_c1() {
  // expected-error @+2 {{expected one of [x, y, z] for axis of the launch grid, got: w}}
  // expected-error @+1 {{failed to parse Tile_AxisAttr parameter 'value'}}
  %p = tile.program_id w : i32
  return
}

// -----

func.func @num_programs_c1() {
  // expected-error @below {{attribute 'axis' failed to satisfy constraint: axis of the launch grid}}
  %p = "tile.num_programs"() {axis = 3 : i32} : () -> i32
  return
}

// -----

func.func @addptr_c1(%p: tensor<64x!tile.ptr<f32>>, %o: tensor<32xi32>) {
  // expected-error @below {{expected offset to have shape [64] (because each pointer advances by its own offset), got shape [32]}}
  %q = tile.addptr %p, %o : tensor<64x!tile.ptr<f32>>, tensor<32xi32>
  return
}

// -----

func.func @addptr_c1_scalar(%p: !tile.ptr<f32>, %o: tensor<32xi32>) {
  // expected-error @below {{expected offset to be a scalar (because each pointer advances by its own offset), got shape [32]}}
  %q = tile.addptr %p, %o : !tile.ptr<f32>, tensor<32xi32>
  return
}

// -----

func.func @addptr_c2(%p: !tile.ptr<f32>, %o: i1) {
  // expected-error @below {{expected offset of 8 to 64 bits (because offsets are signed, and a true i1 is -1), got 'i1'}}
  %q = tile.addptr %p, %o : !tile.ptr<f32>, i1
  return
}

// -----

func.func @ptr_to_int_c1(%p: tensor<64x!tile.ptr<f32>>) {
  // expected-error @below {{expected result to have shape [64] (because each pointer has its own address), got shape [32]}}
  %a = tile.ptr_to_int %p : tensor<64x!tile.ptr<f32>> -> tensor<32xi64>
  return
}

// -----

func.func @int_to_ptr_c1(%a: i64) {
  // expected-error @below {{expected result to be a scalar (because each address becomes a pointer), got shape [32]}}
  %p = tile.int_to_ptr %a : i64 -> tensor<32x!tile.ptr<f32>>
  return
}

// -----

func.func @ptr_cast_c1(%p: tensor<64x!tile.ptr<f32>>) {
  // expected-error @below {{expected result to have shape [64] (because a cast changes the pointee only), got shape [8, 8]}}
  %q = tile.ptr_cast %p : tensor<64x!tile.ptr<f32>> -> tensor<8x8x!tile.ptr<i32>>
  return
}

// -----

func.func @hint_c1(%x: tensor<8x8xi32>) {
  // expected-error @below {{expected 2 contiguity entries (because there is one per dimension), got 1}}
  %y = tile.hint %x {contiguity = array<i64: 8>} : tensor<8x8xi32>
  return
}

// -----

func.func @hint_c1_scalar(%x: i32) {
  // expected-error @below {{expected 1 divisibility entries (because there is one per dimension), got 0}}
  %y = tile.hint %x {divisibility = array<i64>} : i32
  return
}

// -----

func.func @hint_c2(%x: i32) {
  // expected-error @below {{expected divisibility of at least 1 (because 1 already promises nothing), got 0}}
  %y = tile.hint %x {divisibility = array<i64: 0>} : i32
  return
}

// -----

func.func @hint_c3(%x: f32) {
  // expected-error @below {{expected a value of integers or pointers (because its promises concern addresses), got 'f32'}}
  %y = tile.hint %x {divisibility = array<i64: 16>} : f32
  return
}
