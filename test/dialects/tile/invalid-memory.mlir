// What the dialect rejects of ops that access memory.
// RUN: kiln-opt %s -split-input-file -verify-diagnostics

func.func @load_c1(%p: tensor<64x!tile.ptr<f32>>) {
  // expected-error @below {{expected result of type 'tensor<64xf32>' (because a load returns what its pointers point at), got 'tensor<64xi32>'}}
  %v = tile.load %p : tensor<64x!tile.ptr<f32>> -> tensor<64xi32>
  return
}

// -----

func.func @load_c2(%p: tensor<64x!tile.ptr<f32>>, %m: i1) {
  // expected-error @below {{expected mask to have shape [64] (because each pointer has its own mask), got a scalar}}
  %v = tile.load %p mask %m : tensor<64x!tile.ptr<f32>> mask i1 -> tensor<64xf32>
  return
}

// -----

func.func @load_c3(%p: !tile.ptr<f32>, %m: i1, %o: i32) {
  // expected-error @below {{expected other of type 'f32' (because it replaces masked-out elements of the result), got 'i32'}}
  %v = tile.load %p mask %m other %o : !tile.ptr<f32> mask i1 other i32 -> f32
  return
}

// -----

func.func @load_c4(%p: !tile.ptr<f32>, %o: f32) {
  // expected-error @below {{expected a mask with other (because without one every element is read), got none}}
  %v = tile.load %p other %o : !tile.ptr<f32> other f32 -> f32
  return
}

// -----

func.func @load_c5(%p: !tile.ptr<f32>) {
  // expected-error @below {{expected cache modifier none, ca, cg, cs or cv (because the op reads), got wt}}
  %v = tile.load %p {cache = #tile<cache wt>} : !tile.ptr<f32> -> f32
  return
}

// -----

func.func @store_c1(%p: tensor<64x!tile.ptr<f32>>, %v: f32) {
  // expected-error @below {{expected value of type 'tensor<64xf32>' (because a store writes what its pointers point at), got 'f32'}}
  tile.store %p, %v : tensor<64x!tile.ptr<f32>>, f32
  return
}

// -----

func.func @store_c2(%p: tensor<64x!tile.ptr<f32>>, %v: tensor<64xf32>, %m: tensor<32xi1>) {
  // expected-error @below {{expected mask to have shape [64] (because each pointer has its own mask), got shape [32]}}
  tile.store %p, %v mask %m : tensor<64x!tile.ptr<f32>>, tensor<64xf32> mask tensor<32xi1>
  return
}

// -----

func.func @prefetch_c1(%p: tensor<64x!tile.ptr<f32>>, %m: tensor<32xi1>) {
  // expected-error @below {{expected mask to have shape [64] (because each pointer has its own mask), got shape [32]}}
  tile.prefetch %p mask %m : tensor<64x!tile.ptr<f32>> mask tensor<32xi1>
  return
}

// -----

func.func @store_c3(%p: !tile.ptr<f32>, %v: f32) {
  // expected-error @below {{expected cache modifier none, wb, cg, cs or wt (because the op writes), got ca}}
  tile.store %p, %v {cache = #tile<cache ca>} : !tile.ptr<f32>, f32
  return
}

// -----

func.func @make_desc_c1(%b: !tile.ptr<f32>, %n: i64) {
  // expected-error @below {{expected 4 extents and strides (because there is one of each per dimension of the block), got 2}}
  %d = tile.make_desc %b, shape [%n] strides [%n] : !tile.ptr<f32> -> !tile.desc<tensor<8x8xf32>>
  return
}

// -----

func.func @make_desc_c1_uneven(%b: !tile.ptr<f32>, %n: i64) {
  // expected-error @below {{expected 2 extents and strides (because there is one of each per dimension of the block), got 3}}
  %d = tile.make_desc %b, shape [%n, %n] strides [%n] : !tile.ptr<f32> -> !tile.desc<tensor<8xf32>>
  return
}

// -----

func.func @make_desc_c2(%b: !tile.ptr<f16>, %n: i64) {
  // expected-error @below {{expected base of type '!tile.ptr<f32>' (because the block holds what it points at), got '!tile.ptr<f16>'}}
  %d = tile.make_desc %b, shape [%n] strides [%n] : !tile.ptr<f16> -> !tile.desc<tensor<8xf32>>
  return
}

// -----

func.func @make_desc_c3(%b: !tile.ptr<i32>, %n: i64) {
  // expected-error @below {{expected zero padding (because 'i32' has no nan), got nan}}
  %d = tile.make_desc %b, shape [%n] strides [%n] {padding = #tile<padding nan>} : !tile.ptr<i32> -> !tile.desc<tensor<8xi32>>
  return
}

// -----

func.func @desc_load_c1(%d: !tile.desc<tensor<8x8xf32>>, %i: i32) {
  // expected-error @below {{expected 2 offsets (because there is one per dimension of the block), got 1}}
  %v = tile.desc_load %d[%i] : !tile.desc<tensor<8x8xf32>> -> tensor<8x8xf32>
  return
}

// -----

func.func @desc_load_c2(%d: !tile.desc<tensor<8xf32>>, %i: i32) {
  // expected-error @below {{expected result of type 'tensor<8xf32>' (because a load returns the descriptor's block), got 'tensor<8xf16>'}}
  %v = tile.desc_load %d[%i] : !tile.desc<tensor<8xf32>> -> tensor<8xf16>
  return
}

// -----

func.func @desc_load_c3(%d: !tile.desc<tensor<8xf32>>, %i: i32) {
  // expected-error @below {{expected boundary to list dimensions in 0..0, ascending, each once (because the block has rank 1), got [1]}}
  %v = tile.desc_load %d[%i] {boundary = array<i32: 1>} : !tile.desc<tensor<8xf32>> -> tensor<8xf32>
  return
}

// -----

func.func @desc_load_c4(%d: !tile.desc<tensor<8xf32>>, %i: i32) {
  // expected-error @below {{expected cache modifier none, ca, cg, cs or cv (because the op reads), got wb}}
  %v = tile.desc_load %d[%i] {cache = #tile<cache wb>} : !tile.desc<tensor<8xf32>> -> tensor<8xf32>
  return
}

// -----

func.func @desc_reduce_c1(%d: !tile.desc<tensor<8xf32>>, %i: i32, %v: tensor<8xf32>) {
  // expected-error @below {{expected 1 offsets (because there is one per dimension of the block), got 2}}
  tile.desc_reduce fadd %d[%i, %i], %v : !tile.desc<tensor<8xf32>>, tensor<8xf32>
  return
}

// -----

func.func @desc_reduce_c2(%d: !tile.desc<tensor<8xf32>>, %i: i32, %v: tensor<16xf32>) {
  // expected-error @below {{expected value of type 'tensor<8xf32>' (because a reduction takes the descriptor's block), got 'tensor<16xf32>'}}
  tile.desc_reduce fadd %d[%i], %v : !tile.desc<tensor<8xf32>>, tensor<16xf32>
  return
}

// -----

func.func @desc_reduce_c3(%d: !tile.desc<tensor<8xf32>>, %i: i32, %v: tensor<8xf32>) {
  // expected-error @below {{expected i32 or i64 for add (because every target combines those atomically), got 'f32'}}
  tile.desc_reduce add %d[%i], %v : !tile.desc<tensor<8xf32>>, tensor<8xf32>
  return
}

// -----

func.func @desc_reduce_c3_xchg(%d: !tile.desc<tensor<8xf32>>, %i: i32, %v: tensor<8xf32>) {
  // expected-error @below {{expected an operation that combines for xchg (because every target combines those atomically), got 'f32'}}
  tile.desc_reduce xchg %d[%i], %v : !tile.desc<tensor<8xf32>>, tensor<8xf32>
  return
}

// -----

func.func @desc_store_c1(%d: !tile.desc<tensor<8xf32>>, %i: i32, %v: tensor<8xf32>) {
  // expected-error @below {{expected 1 offsets (because there is one per dimension of the block), got 2}}
  tile.desc_store %d[%i, %i], %v : !tile.desc<tensor<8xf32>>, tensor<8xf32>
  return
}

// -----

func.func @desc_store_c2(%d: !tile.desc<tensor<8xf32>>, %i: i32, %v: tensor<16xf32>) {
  // expected-error @below {{expected value of type 'tensor<8xf32>' (because a store takes the descriptor's block), got 'tensor<16xf32>'}}
  tile.desc_store %d[%i], %v : !tile.desc<tensor<8xf32>>, tensor<16xf32>
  return
}

// -----

func.func @desc_store_c3(%d: !tile.desc<tensor<8x8xf32>>, %i: i32, %v: tensor<8x8xf32>) {
  // expected-error @below {{expected boundary to list dimensions in 0..1, ascending, each once (because the block has rank 2), got [1, 0]}}
  tile.desc_store %d[%i, %i], %v {boundary = array<i32: 1, 0>} : !tile.desc<tensor<8x8xf32>>, tensor<8x8xf32>
  return
}

// -----

func.func @desc_store_c4(%d: !tile.desc<tensor<8xf32>>, %i: i32, %v: tensor<8xf32>) {
  // expected-error @below {{expected cache modifier none, wb, cg, cs or wt (because the op writes), got cv}}
  tile.desc_store %d[%i], %v {cache = #tile<cache cv>} : !tile.desc<tensor<8xf32>>, tensor<8xf32>
  return
}

// -----

func.func @make_block_ptr_c1_extents(%b: !tile.ptr<f32>, %n: i64, %i: i32) {
  // expected-error @below {{expected 1 extents (because there is one per dimension of the block), got 2}}
  %p = tile.make_block_ptr %b, shape [%n, %n] strides [%n] offsets [%i] {order = array<i32: 0>} : !tile.ptr<f32> -> !tile.block_ptr<tensor<8xf32>>
  return
}

// -----

func.func @make_block_ptr_c1_strides(%b: !tile.ptr<f32>, %n: i64, %i: i32) {
  // expected-error @below {{expected 1 strides (because there is one per dimension of the block), got 0}}
  %p = tile.make_block_ptr %b, shape [%n] strides [] offsets [%i] {order = array<i32: 0>} : !tile.ptr<f32> -> !tile.block_ptr<tensor<8xf32>>
  return
}

// -----

func.func @make_block_ptr_c1(%b: !tile.ptr<f32>, %n: i64, %i: i32) {
  // expected-error @below {{expected 1 offsets (because there is one per dimension of the block), got 2}}
  %p = tile.make_block_ptr %b, shape [%n] strides [%n] offsets [%i, %i] {order = array<i32: 0>} : !tile.ptr<f32> -> !tile.block_ptr<tensor<8xf32>>
  return
}

// -----

func.func @make_block_ptr_c2(%b: !tile.ptr<i32>, %n: i64, %i: i32) {
  // expected-error @below {{expected base of type '!tile.ptr<f32>' (because the block holds what it points at), got '!tile.ptr<i32>'}}
  %p = tile.make_block_ptr %b, shape [%n] strides [%n] offsets [%i] {order = array<i32: 0>} : !tile.ptr<i32> -> !tile.block_ptr<tensor<8xf32>>
  return
}

// -----

func.func @make_block_ptr_c3(%b: !tile.ptr<f32>, %n: i64, %i: i32) {
  // expected-error @below {{expected order to be a permutation of 0..1 (because it names each dimension once), got [1, 1]}}
  %p = tile.make_block_ptr %b, shape [%n, %n] strides [%n, %n] offsets [%i, %i] {order = array<i32: 1, 1>} : !tile.ptr<f32> -> !tile.block_ptr<tensor<8x8xf32>>
  return
}

// -----

func.func @advance_c1(%p: !tile.block_ptr<tensor<8x8xf32>>, %i: i32) {
  // expected-error @below {{expected 2 offsets (because there is one per dimension of the block), got 1}}
  %q = tile.advance %p[%i] : !tile.block_ptr<tensor<8x8xf32>>
  return
}

// -----

func.func @block_load_c1(%p: !tile.block_ptr<tensor<8x8xf32>>) {
  // expected-error @below {{expected result of type 'tensor<8x8xf32>' (because a load returns the pointer's block), got 'tensor<64xf32>'}}
  %v = tile.block_load %p : !tile.block_ptr<tensor<8x8xf32>> -> tensor<64xf32>
  return
}

// -----

func.func @block_load_c2(%p: !tile.block_ptr<tensor<8x8xf32>>) {
  // expected-error @below {{expected boundary to list dimensions in 0..1, ascending, each once (because the block has rank 2), got [0, 0]}}
  %v = tile.block_load %p {boundary = array<i32: 0, 0>} : !tile.block_ptr<tensor<8x8xf32>> -> tensor<8x8xf32>
  return
}

// -----

func.func @block_load_c3(%p: !tile.block_ptr<tensor<8xi32>>) {
  // expected-error @below {{expected zero padding (because 'i32' has no nan), got nan}}
  %v = tile.block_load %p {boundary = array<i32: 0>, padding = #tile<padding nan>} : !tile.block_ptr<tensor<8xi32>> -> tensor<8xi32>
  return
}

// -----

func.func @block_load_c4(%p: !tile.block_ptr<tensor<8xf32>>) {
  // expected-error @below {{expected cache modifier none, ca, cg, cs or cv (because the op reads), got wt}}
  %v = tile.block_load %p {cache = #tile<cache wt>} : !tile.block_ptr<tensor<8xf32>> -> tensor<8xf32>
  return
}

// -----

func.func @block_store_c1(%p: !tile.block_ptr<tensor<8xf32>>, %v: tensor<8xf64>) {
  // expected-error @below {{expected value of type 'tensor<8xf32>' (because a store takes the pointer's block), got 'tensor<8xf64>'}}
  tile.block_store %p, %v : !tile.block_ptr<tensor<8xf32>>, tensor<8xf64>
  return
}

// -----

func.func @block_store_c2(%p: !tile.block_ptr<tensor<8xf32>>, %v: tensor<8xf32>) {
  // expected-error @below {{expected boundary to list dimensions in 0..0, ascending, each once (because the block has rank 1), got [-1]}}
  tile.block_store %p, %v {boundary = array<i32: -1>} : !tile.block_ptr<tensor<8xf32>>, tensor<8xf32>
  return
}

// -----

func.func @block_store_c3(%p: !tile.block_ptr<tensor<8xf32>>, %v: tensor<8xf32>) {
  // expected-error @below {{expected cache modifier none, wb, cg, cs or wt (because the op writes), got ca}}
  tile.block_store %p, %v {cache = #tile<cache ca>} : !tile.block_ptr<tensor<8xf32>>, tensor<8xf32>
  return
}

// -----

func.func @atomic_rmw_c1(%p: !tile.ptr<i32>, %v: i64) {
  // expected-error @below {{expected value of type 'i32' (because it is combined with what the pointers point at), got 'i64'}}
  %old = tile.atomic_rmw add relaxed gpu %p, %v : !tile.ptr<i32>, i64
  return
}

// -----

func.func @atomic_rmw_c2(%p: tensor<8x!tile.ptr<i32>>, %v: tensor<8xi32>, %m: tensor<4xi1>) {
  // expected-error @below {{expected mask to have shape [8] (because each pointer has its own mask), got shape [4]}}
  %old = tile.atomic_rmw add relaxed gpu %p, %v mask %m : tensor<8x!tile.ptr<i32>>, tensor<8xi32> mask tensor<4xi1>
  return
}

// -----

func.func @atomic_rmw_c3(%p: !tile.ptr<f32>, %v: f32) {
  // expected-error @below {{expected i32 or i64 for add (because every target combines those atomically), got 'f32'}}
  %old = tile.atomic_rmw add relaxed gpu %p, %v : !tile.ptr<f32>, f32
  return
}

// -----

func.func @atomic_rmw_c3_narrow(%p: !tile.ptr<i8>, %v: i8) {
  // expected-error @below {{expected i32 or i64 for xor (because every target combines those atomically), got 'i8'}}
  %old = tile.atomic_rmw xor relaxed gpu %p, %v : !tile.ptr<i8>, i8
  return
}

// -----

func.func @atomic_rmw_c4(%p: !tile.ptr<i32>, %v: i32) {
  // expected-error @below {{expected f16, bf16, f32 or f64 for fadd (because every target combines those atomically), got 'i32'}}
  %old = tile.atomic_rmw fadd relaxed gpu %p, %v : !tile.ptr<i32>, i32
  return
}

// -----

func.func @atomic_rmw_c4_max(%p: !tile.ptr<f8E5M2>, %v: f8E5M2) {
  // expected-error @below {{expected f16, bf16, f32 or f64 for fmax (because every target combines those atomically), got 'f8E5M2'}}
  %old = tile.atomic_rmw fmax acquire sys %p, %v : !tile.ptr<f8E5M2>, f8E5M2
  return
}

// -----

func.func @atomic_rmw_c5(%p: !tile.ptr<f16>, %v: f16) {
  // expected-error @below {{expected i32, i64, f32 or f64 for xchg (because every target combines those atomically), got 'f16'}}
  %old = tile.atomic_rmw xchg release cta %p, %v : !tile.ptr<f16>, f16
  return
}

// -----

func.func @atomic_cas_c1(%p: !tile.ptr<i32>, %v: i64) {
  // expected-error @below {{expected value of type 'i32' (because it replaces what the pointers point at), got 'i64'}}
  %old = tile.atomic_cas acq_rel gpu %p, %v, %v : !tile.ptr<i32>, i64
  return
}

// -----

func.func @atomic_cas_c2(%p: !tile.ptr<i8>, %v: i8) {
  // expected-error @below {{expected an element of 16, 32 or 64 bits (because every target compares those atomically), got 'i8'}}
  %old = tile.atomic_cas acq_rel gpu %p, %v, %v : !tile.ptr<i8>, i8
  return
}
