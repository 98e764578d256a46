// What the dialect rejects of ops that create and reshape tiles.
// RUN: kiln-opt %s -split-input-file -verify-diagnostics

func.func @make_range_c1() {
  // expected-error @below {{expected start below end (because a range has at least one element), got 8 to 8}}
  %r = tile.make_range 8 to 8 : tensor<8xi32>
  return
}

// -----

func.func @make_range_c2() {
  // expected-error @below {{expected result of type 'tensor<8xi32>' (because it counts from start to end), got 'tensor<16xi32>'}}
  %r = tile.make_range 8 to 16 : tensor<16xi32>
  return
}

// -----

func.func @splat_c1(%x: f32) {
  // expected-error @below {{expected result of type 'tensor<8xf32>' (because every element is the value), got 'tensor<8xf16>'}}
  %t = tile.splat %x : f32 -> tensor<8xf16>
  return
}

// -----

func.func @unsplat_c1(%t: tensor<2xf32>) {
  // expected-error @below {{expected a tile of one element (because that element becomes the scalar), got 'tensor<2xf32>'}}
  %x = tile.unsplat %t : tensor<2xf32> -> f32
  return
}

// -----

func.func @unsplat_c2(%t: tensor<1xf32>) {
  // expected-error @below {{expected result of type 'f32' (because it is the element of the tile), got 'f16'}}
  %x = tile.unsplat %t : tensor<1xf32> -> f16
  return
}

// -----

func.func @expand_dims_c1(%x: tensor<8xf32>) {
  // expected-error @below {{expected axis in 0..1 (because the result has rank 2), got 2}}
  %y = tile.expand_dims %x 2 : tensor<8xf32> -> tensor<8x1xf32>
  return
}

// -----

func.func @expand_dims_c1_negative(%x: tensor<8xf32>) {
  // expected-error @below {{expected axis in 0..1 (because the result has rank 2), got -1}}
  %y = tile.expand_dims %x -1 : tensor<8xf32> -> tensor<8x1xf32>
  return
}

// -----

func.func @expand_dims_c2(%x: tensor<8xf32>) {
  // expected-error @below {{expected result of type 'tensor<1x8xf32>' (because a dimension of size 1 is inserted), got 'tensor<8x1xf32>'}}
  %y = tile.expand_dims %x 0 : tensor<8xf32> -> tensor<8x1xf32>
  return
}

// -----

func.func @broadcast_c1(%x: tensor<8xf32>) {
  // expected-error @below {{expected result to have rank 1 and elements of 'f32' (because a broadcast only repeats elements), got 'tensor<8x8xf32>'}}
  %y = tile.broadcast %x : tensor<8xf32> -> tensor<8x8xf32>
  return
}

// -----

func.func @broadcast_c2(%x: tensor<8x2xf32>) {
  // expected-error @below {{expected side 1 to be 1 or 4 (because only dimensions of size 1 are repeated), got 2}}
  %y = tile.broadcast %x : tensor<8x2xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @reshape_c1(%x: tensor<8xf32>) {
  // expected-error @below {{expected result to have elements of 'f32' (because a reshape keeps the elements), got 'tensor<2x4xi32>'}}
  %y = tile.reshape %x : tensor<8xf32> -> tensor<2x4xi32>
  return
}

// -----

func.func @reshape_c2(%x: tensor<8xf32>) {
  // expected-error @below {{expected 8 elements in the result (because a reshape keeps the elements), got 16}}
  %y = tile.reshape %x : tensor<8xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @trans_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expected order to be a permutation of 0..1 (because it names each dimension once), got [0, 2]}}
  %y = tile.trans %x [0, 2] : tensor<8x4xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @trans_c1_short(%x: tensor<8x4xf32>) {
  // expected-error @below {{expected order to be a permutation of 0..1 (because it names each dimension once), got [0]}}
  %y = tile.trans %x [0] : tensor<8x4xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @trans_c2(%x: tensor<8x4xf32>) {
  // expected-error @below {{expected result of type 'tensor<4x8xf32>' (because its dimension i is dimension order[i] of the value), got 'tensor<8x4xf32>'}}
  %y = tile.trans %x [1, 0] : tensor<8x4xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @join_c1(%x: tensor<8xf32>) {
  // expected-error @below {{expected result of type 'tensor<8x2xf32>' (because the pairs form a new innermost dimension), got 'tensor<2x8xf32>'}}
  %y = tile.join %x, %x : tensor<8xf32> -> tensor<2x8xf32>
  return
}

// -----

func.func @split_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expected a tile of rank 2 or more whose innermost side is 2 (because each half is a tile), got 'tensor<8x4xf32>'}}
  %a, %b = tile.split %x : tensor<8x4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @split_c1_rank(%x: tensor<2xf32>) {
  // expected-error @below {{expected a tile of rank 2 or more whose innermost side is 2 (because each half is a tile), got 'tensor<2xf32>'}}
  %a, %b = tile.split %x : tensor<2xf32> -> tensor<1xf32>
  return
}

// -----

func.func @split_c2(%x: tensor<8x2xf32>) {
  // expected-error @below {{expected each result of type 'tensor<8xf32>' (because a half has no innermost dimension), got 'tensor<8x1xf32>'}}
  %a, %b = tile.split %x : tensor<8x2xf32> -> tensor<8x1xf32>
  return
}

// -----

func.func @cat_c1(%a: tensor<8xf32>, %b: tensor<8xi32>) {
  // expected-error @below {{expected rank 1 and elements of 'f32' everywhere (because both inputs become one tile), got 'tensor<8xi32>'}}
  %t = tile.cat %a, %b 0 : tensor<8xf32>, tensor<8xi32> -> tensor<16xf32>
  return
}

// -----

func.func @cat_c2(%a: tensor<8xf32>) {
  // expected-error @below {{expected axis in 0..0 (because the result has rank 1), got 1}}
  %t = tile.cat %a, %a 1 : tensor<8xf32>, tensor<8xf32> -> tensor<16xf32>
  return
}

// -----

func.func @cat_c3(%a: tensor<8xf32>) {
  // expected-error @below {{expected sides 0 to add up (because the inputs follow each other there), got 8, 8 and 8}}
  %t = tile.cat %a, %a 0 : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @cat_c3_other(%a: tensor<8x2xf32>, %b: tensor<8x4xf32>) {
  // expected-error @below {{expected sides 1 to be equal (because only the axis grows), got 2, 4 and 2}}
  %t = tile.cat %a, %b 0 : tensor<8x2xf32>, tensor<8x4xf32> -> tensor<16x2xf32>
  return
}
