// What the dialect rejects of types, tiles and the attributes of functions and loops.
// RUN: kiln-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{expected pointee to be a number or a pointer (because a pointer advances by whole elements in memory), got 'i7'}}
func.func private @ptr_c1(!tile.ptr<i7>)

// -----

// expected-error @below {{expected pointee to be a number or a pointer (because a pointer advances by whole elements in memory), got 'tensor<4xf32>'}}
func.func private @ptr_c1_tile(!tile.ptr<tensor<4xf32>>)

// -----

// expected-error @below {{expected block to be a tile of numbers (because it is loaded and stored whole), got 'tensor<?xf32>'}}
func.func private @desc_c1(!tile.desc<tensor<?xf32>>)

// -----

// expected-error @below {{expected side 0 of block to be 2^k * m with m odd and at most 31 (because layouts on every target are made of such digits), got 33 in 'tensor<33xf32>'}}
func.func private @desc_c1_side(!tile.desc<tensor<33xf32>>)

// -----

// expected-error @below {{expected block to be a tile of numbers (because it is loaded and stored whole), got 'tensor<64xindex>'}}
func.func private @block_ptr_c1(!tile.block_ptr<tensor<64xindex>>)

// -----

func.func @tile_c1(%x: f32) {
  // expected-error @below {{expected result #0 to have a dimension (because a single element is a scalar), got 'tensor<f32>'}}
  %y = tile.splat %x : f32 -> tensor<f32>
  return
}

// -----

func.func @tile_c2(%x: f32) {
  // expected-error @below {{expected side 1 of result #0 to be 2^k * m with m odd and at most 31 (because layouts on every target are made of such digits), got 66 in 'tensor<64x66xf32>'}}
  %y = tile.splat %x : f32 -> tensor<64x66xf32>
  return
}

// -----

func.func @tile_c2_empty(%x: f32) {
  // expected-error @below {{expected side 0 of result #0 to be 2^k * m with m odd and at most 31 (because layouts on every target are made of such digits), got 0 in 'tensor<0xf32>'}}
  %y = tile.splat %x : f32 -> tensor<0xf32>
  return
}

// -----

func.func @tile_c2_operand(%x: tensor<37xf32>) {
  // expected-error @below {{expected side 0 of operand #0 to be 2^k * m}}
  %y = tile.expand_dims %x 0 : tensor<37xf32> -> tensor<1x37xf32>
  return
}

// -----

func.func @tile_c3(%x: f32) {
  // expected-error @below {{expected result #0 to have at most 1048576 elements (because one program instance holds the whole tile), got 'tensor<1024x2048xf32>'}}
  %y = tile.splat %x : f32 -> tensor<1024x2048xf32>
  return
}

// -----

func.func @tile_c3_overflow(%x: f32) {
  // expected-error @below {{expected result #0 to have at most 1048576 elements}}
  %y = tile.splat %x : f32 -> tensor<4294967296x4294967296xf32>
  return
}

// -----

func.func @tile_c4(%x: f32) {
  // expected-error @below {{expected result #0 without encoding other than a #layout.map (because a layout is all that a tile's type may add to its shape and elements), got 'tensor<64xf32, 1 : i32>'}}
  %y = tile.splat %x : f32 -> tensor<64xf32, 1 : i32>
  return
}

// -----

// expected-error @below {{expected tile.kernel to be a unit attribute of a func.func (because it marks an entry point), got 1 : i32}}
func.func @kernel_c1() attributes {tile.kernel = 1 : i32} {
  return
}

// -----

// expected-error @below {{expected argument #0 of a kernel to be a number or a pointer (because a launch passes nothing else), got 'tensor<64xf32>'}}
func.func @kernel_c2(%x: tensor<64xf32>) attributes {tile.kernel} {
  return
}

// -----

// expected-error @below {{expected a kernel to have no results (because a launch returns nothing), got 1}}
func.func @kernel_c3(%x: f32) -> f32 attributes {tile.kernel} {
  return %x : f32
}

// -----

// expected-error @below {{expected tile.divisibility to be a positive integer on an integer or pointer argument (because it promises a divisor), got 0 : i64 on 'i32'}}
func.func @kernel_c4(%x: i32 {tile.divisibility = 0 : i64}) {
  return
}

// -----

// expected-error @below {{expected tile.divisibility to be a positive integer on an integer or pointer argument (because it promises a divisor), got 16 : i64 on 'f32'}}
func.func @kernel_c4_float(%x: f32 {tile.divisibility = 16 : i64}) {
  return
}

// -----

// expected-error @below {{expected tile.disjoint to be a unit attribute on a pointer argument (because it says that no other argument reaches its storage), got unit on 'i32'}}
func.func @kernel_c5(%n: i32 {tile.disjoint}) {
  return
}

// -----

func.func @loop_c1(%a: index, %b: index, %c: index) {
  // expected-error @below {{expected tile.unroll to be an i32 from 1 to 4096 on an scf.for (because it is a hint about a counted loop), got 0 : i32}}
  scf.for %i = %a to %b step %c {
  } {tile.unroll = 0 : i32}
  return
}

// -----

func.func @loop_c1_most(%a: index, %b: index, %c: index) {
  // expected-error @below {{expected tile.unroll to be an i32 from 1 to 4096 on an scf.for (because it is a hint about a counted loop), got 4097 : i32}}
  scf.for %i = %a to %b step %c {
  } {tile.unroll = 4097 : i32}
  return
}

// -----

// expected-error @below {{expected tile.unroll to be an i32 from 1 to 4096 on an scf.for (because it is a hint about a counted loop), got 2 : i32}}
func.func @loop_c1_function() attributes {tile.unroll = 2 : i32} {
  return
}

// -----

func.func @loop_c2(%a: index, %b: index, %c: index) {
  // expected-error @below {{expected tile.num_stages to be an i32 from 0 to 4096 on an scf.for (because it is a hint about a counted loop), got 3 : i64}}
  scf.for %i = %a to %b step %c {
  } {tile.num_stages = 3 : i64}
  return
}

// -----

// expected-error @below {{expected tile.divisibility to be a positive integer on an integer or pointer argument (because it promises a divisor), got 16 : i64 on 'f32'}}
func.func private @kernel_c4_declaration(f32 {tile.divisibility = 16 : i64})
