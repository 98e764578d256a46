// What the dialect rejects of ops that compute across elements.
// RUN: kiln-opt %s -split-input-file -verify-diagnostics

func.func @dot_c1(%a: tensor<8x8x8xf32>, %b: tensor<8x8xf32>) {
  // expected-error @below {{expected three tiles of rank 2 or of rank 3 (because those are matrices or batches of them), got ranks 3, 2 and 2}}
  %d = tile.dot %a, %b, %b : tensor<8x8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return
}

// -----

func.func @dot_c1_vector(%a: tensor<8xf32>) {
  // expected-error @below {{expected three tiles of rank 2 or of rank 3 (because those are matrices or batches of them), got ranks 1, 1 and 1}}
  %d = tile.dot %a, %a, %a : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @dot_c2(%a: tensor<8x4xf32>, %b: tensor<8x16xf32>, %c: tensor<8x16xf32>) {
  // expected-error @below {{expected 4 rows in rhs (because lhs has that many columns), got 8}}
  %d = tile.dot %a, %b, %c : tensor<8x4xf32>, tensor<8x16xf32> -> tensor<8x16xf32>
  return
}

// -----

func.func @dot_c3(%a: tensor<2x8x8xf32>, %b: tensor<4x8x8xf32>) {
  // expected-error @below {{expected batch dimensions of size 2 (because lhs has that many matrices), got 4 in rhs and 2 in acc}}
  %d = tile.dot %a, %b, %a : tensor<2x8x8xf32>, tensor<4x8x8xf32> -> tensor<2x8x8xf32>
  return
}

// -----

func.func @dot_c4(%a: tensor<8x4xf32>, %b: tensor<4x16xf32>, %c: tensor<16x8xf32>) {
  // expected-error @below {{expected an accumulator of 8 by 16 (because lhs has that many rows and rhs that many columns), got 16 by 8}}
  %d = tile.dot %a, %b, %c : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<16x8xf32>
  return
}

// -----

func.func @dot_c5(%a: tensor<8x8xf16>, %b: tensor<8x8xbf16>, %c: tensor<8x8xf32>) {
  // expected-error @below {{expected elements of 'f16' in rhs (because only the two f8 types mix), got 'bf16'}}
  %d = tile.dot %a, %b, %c : tensor<8x8xf16>, tensor<8x8xbf16> -> tensor<8x8xf32>
  return
}

// -----

func.func @dot_c6(%a: tensor<8x8xbf16>) {
  // expected-error @below {{expected an accumulator of f32 (because the inputs are 'bf16'), got 'bf16'}}
  %d = tile.dot %a, %a, %a : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
  return
}

// -----

func.func @dot_c6_f8(%a: tensor<8x8xf8E5M2>, %b: tensor<8x8xf8E4M3FN>, %c: tensor<8x8xf64>) {
  // expected-error @below {{expected an accumulator of f16 or f32 (because the inputs are 'f8E5M2'), got 'f64'}}
  %d = tile.dot %a, %b, %c : tensor<8x8xf8E5M2>, tensor<8x8xf8E4M3FN> -> tensor<8x8xf64>
  return
}

// -----

func.func @dot_c6_input(%a: tensor<8x8xi16>, %c: tensor<8x8xi32>) {
  // expected-error @below {{expected elements of i8, f8E4M3FN, f8E5M2, f16, bf16, f32 or f64 (because no target multiplies others), got 'i16'}}
  %d = tile.dot %a, %a, %c : tensor<8x8xi16>, tensor<8x8xi16> -> tensor<8x8xi32>
  return
}

// -----

func.func @dot_c7(%a: tensor<8x8xf32>) {
  // expected-error @below {{expected maxImpreciseAcc of at least 0 (because it counts products), got -1}}
  %d = tile.dot %a, %a, %a {maxImpreciseAcc = -1 : i32} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return
}

// -----

func.func @reduce_c1(%x: tensor<8xf32>) {
  // expected-error @below {{expected axis in 0..0 (because the operand has rank 1), got 1}}
  %s = tile.reduce(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a : f32
  } : (tensor<8xf32>) -> f32
  return
}

// -----

func.func @reduce_c2(%x: tensor<8x4xf32>) {
  // expected-error @below {{expected result of type 'tensor<8xf32>' (because a reduction removes the axis), got 'tensor<4xf32>'}}
  %s = tile.reduce(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a : f32
  } : (tensor<8x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @reduce_c2_count(%x: tensor<8xf32>) {
  // expected-error @below {{expected 2 results (because there is one per operand), got 1}}
  %s = tile.reduce(%x, %x) axis 0 {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    tile.yield %a, %b : f32, f32
  } : (tensor<8xf32>, tensor<8xf32>) -> f32
  return
}

// -----

func.func @reduce_c3(%x: tensor<8xf32>) {
  // expected-error @below {{expected combine region to take ('f32', 'f32') (because it combines two elements of every operand), got ('f32', 'i32')}}
  %s = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: i32):
    tile.yield %a : f32
  } : (tensor<8xf32>) -> f32
  return
}

// -----

func.func @reduce_c4(%x: tensor<8xf32>) {
  // expected-error @below {{expected combine region to yield ('f32') (because it returns one element for each operand), got ('i1')}}
  %s = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ogt, %a, %b : f32
    tile.yield %c : i1
  } : (tensor<8xf32>) -> f32
  return
}

// -----

func.func @reduce_c4_terminator(%x: tensor<8xf32>) {
  // expected-error @below {{expected combine region to end in tile.yield (because it yields the results), got ub.unreachable}}
  %s = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    ub.unreachable
  } : (tensor<8xf32>) -> f32
  return
}

// -----

func.func @reduce_c5(%x: tensor<8xf32>, %p: !tile.ptr<f32>) {
  // expected-error @below {{expected a combine region that touches no memory (because it runs in any order), got tile.load}}
  %s = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = tile.load %p : !tile.ptr<f32> -> f32
    tile.yield %c : f32
  } : (tensor<8xf32>) -> f32
  return
}

// -----

func.func @reduce_c6(%x: tensor<8xf32>, %y: tensor<4xf32>) {
  // expected-error @below {{requires the same shape for all operands}}
  %s:2 = tile.reduce(%x, %y) axis 0 {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    tile.yield %a, %b : f32, f32
  } : (tensor<8xf32>, tensor<4xf32>) -> (f32, f32)
  return
}

// -----

func.func @reduce_c6_none() {
  // expected-error @below {{expected 1 or more operands, but found 0}}
  tile.reduce() axis 0 {
    tile.yield
  } : () -> ()
  return
}

// -----

func.func @scan_c1(%x: tensor<8xf32>) {
  // expected-error @below {{expected axis in 0..0 (because the operand has rank 1), got 1}}
  %s = tile.scan(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a : f32
  } : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @scan_c2(%x: tensor<8x4xf32>) {
  // expected-error @below {{expected result of type 'tensor<8x4xf32>' (because a scan keeps every element), got 'tensor<4x8xf32>'}}
  %s = tile.scan(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a : f32
  } : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @scan_c2_count(%x: tensor<8xf32>) {
  // expected-error @below {{expected 2 results (because there is one per operand), got 1}}
  %s = tile.scan(%x, %x) axis 0 {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    tile.yield %a, %b : f32, f32
  } : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @scan_c3(%x: tensor<8xf32>) {
  // expected-error @below {{expected combine region to take ('f32', 'f32') (because it combines two elements of every operand), got ('f32', 'i32')}}
  %s = tile.scan(%x) axis 0 {
  ^bb0(%a: f32, %b: i32):
    tile.yield %a : f32
  } : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @scan_c4(%x: tensor<8xf32>) {
  // expected-error @below {{expected combine region to yield ('f32') (because it returns one element for each operand), got ('i1')}}
  %s = tile.scan(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ogt, %a, %b : f32
    tile.yield %c : i1
  } : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @scan_c4_terminator(%x: tensor<8xf32>) {
  // expected-error @below {{expected combine region to end in tile.yield (because it yields the results), got ub.unreachable}}
  %s = tile.scan(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    ub.unreachable
  } : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @scan_c5(%x: tensor<8xf32>, %p: !tile.ptr<f32>) {
  // expected-error @below {{expected a combine region that touches no memory (because it runs in any order), got tile.load}}
  %s = tile.scan(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = tile.load %p : !tile.ptr<f32> -> f32
    tile.yield %c : f32
  } : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @scan_c6(%x: tensor<8xf32>, %y: tensor<4xf32>) {
  // expected-error @below {{requires the same shape for all operands}}
  %s:2 = tile.scan(%x, %y) axis 0 {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    tile.yield %a, %b : f32, f32
  } : (tensor<8xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @scan_c6_none() {
  // expected-error @below {{expected 1 or more operands, but found 0}}
  tile.scan() axis 0 {
    tile.yield
  } : () -> ()
  return
}

// -----

func.func @yield_c1() {
  // expected-error @below {{expects parent op to be one of 'tile.reduce, tile.scan, tile.map, tile.inline_asm'}}
  tile.yield
}

// -----

func.func @gather_c1(%x: tensor<8xf32>, %i: tensor<8xi32>) {
  // expected-error @below {{expected axis in 0..0 (because the source has rank 1), got -1}}
  %y = tile.gather %x[%i] -1 : tensor<8xf32>, tensor<8xi32> -> tensor<8xf32>
  return
}

// -----

func.func @gather_c2(%x: tensor<8x4xf32>, %i: tensor<4x4xi32>) {
  // expected-error @below {{expected indices to have shape [8, 4] except along axis 1 (because each row gathers from its own elements), got shape [4, 4]}}
  %y = tile.gather %x[%i] 1 : tensor<8x4xf32>, tensor<4x4xi32> -> tensor<4x4xf32>
  return
}

// -----

func.func @gather_c3(%x: tensor<8xf32>, %i: tensor<4xi32>) {
  // expected-error @below {{expected result of type 'tensor<4xf32>' (because every index picks an element), got 'tensor<8xf32>'}}
  %y = tile.gather %x[%i] 0 : tensor<8xf32>, tensor<4xi32> -> tensor<8xf32>
  return
}

// -----

func.func @gather_c4(%x: tensor<8xf32>, %i: tensor<8xi1>) {
  // expected-error @below {{expected indices of 8 to 64 bits (because i1 is a condition), got 'tensor<8xi1>'}}
  %y = tile.gather %x[%i] 0 : tensor<8xf32>, tensor<8xi1> -> tensor<8xf32>
  return
}

// -----

func.func @histogram_c1(%x: tensor<8x8xi32>) {
  // expected-error @below {{expected value and result of rank 1 (because bins count the elements of one row), got 'tensor<8x8xi32>' and 'tensor<16xi32>'}}
  %h = tile.histogram %x : tensor<8x8xi32> -> tensor<16xi32>
  return
}

// -----

func.func @histogram_c2(%x: tensor<8xi32>, %m: tensor<16xi1>) {
  // expected-error @below {{expected mask to have shape [8] (because each element has its own mask), got shape [16]}}
  %h = tile.histogram %x mask %m : tensor<8xi32> mask tensor<16xi1> -> tensor<16xi32>
  return
}

// -----

func.func @histogram_c3(%x: tensor<8xi1>) {
  // expected-error @below {{expected values of 8 to 64 bits (because i1 is a condition), got 'tensor<8xi1>'}}
  %h = tile.histogram %x : tensor<8xi1> -> tensor<2xi32>
  return
}

// -----

func.func @sort_c1(%x: tensor<8xf32>) {
  // expected-error @below {{expected isUnsigned only with integers (because floats have no unsigned order), got 'f32'}}
  %y = tile.sort %x {isUnsigned} : tensor<8xf32>
  return
}

// -----

func.func @topk_c1(%x: tensor<4x8xf32>) {
  // expected-error @below {{expected result of type 'tensor<4x2xf32>' (because only the last dimension shrinks), got 'tensor<2x2xf32>'}}
  %y = tile.topk %x : tensor<4x8xf32> -> tensor<2x2xf32>
  return
}

// -----

func.func @topk_c2(%x: tensor<8xf32>) {
  // expected-error @below {{expected at most 8 elements of each row (because a row has no more), got 16}}
  %y = tile.topk %x : tensor<8xf32> -> tensor<16xf32>
  return
}

// -----

func.func @topk_c3(%x: tensor<8xf32>) {
  // expected-error @below {{expected isUnsigned only with integers (because floats have no unsigned order), got 'f32'}}
  %y = tile.topk %x {isUnsigned} : tensor<8xf32> -> tensor<2xf32>
  return
}

// -----

func.func @map_c1(%x: tensor<8xf32>) {
  // expected-error @below {{expected every operand and result to have shape [8] (because the region is applied element by element), got shape [4]}}
  %y = tile.map(%x) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @map_c1_none() {
  // expected-error @below {{expected at least one operand (because it determines the shape of the results), got none}}
  tile.map() {
    tile.yield
  } : () -> ()
  return
}

// -----

func.func @map_c2(%x: tensor<8xf32>) {
  // expected-error @below {{expected body region to take ('f32') (because it takes one element of each operand), got ('f16')}}
  %y = tile.map(%x) {
  ^bb0(%a: f16):
    tile.yield %a : f16
  } : (tensor<8xf32>) -> tensor<8xf16>
  return
}

// -----

func.func @map_c3(%x: tensor<8xf32>) {
  // expected-error @below {{expected body region to yield ('f16') (because it returns one element for each result), got ('f32')}}
  %y = tile.map(%x) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : (tensor<8xf32>) -> tensor<8xf16>
  return
}

// -----

func.func @map_c4(%x: tensor<8xf32>) {
  // expected-error @below {{expected numbers and pointers in the region (because it is applied element by element), got 'tensor<8xf32>'}}
  %y = tile.map(%x) {
  ^bb0(%a: f32):
    %b = tile.splat %a : f32 -> tensor<8xf32>
    tile.yield %a : f32
  } : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @map_c5(%x: tensor<8xf32>) {
  // expected-error @below {{expected loads, stores, tile.atomic_rmw and tile.assert in the region (because only these can be masked per element), got tile.barrier}}
  %y = tile.map(%x) {
  ^bb0(%a: f32):
    tile.barrier
    tile.yield %a : f32
  } : (tensor<8xf32>) -> tensor<8xf32>
  return
}
