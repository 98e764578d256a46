// What the kgpu dialect rejects: one test per constraint, named after it.
// RUN: kiln-opt %s -split-input-file -verify-diagnostics

func.func @kgpu_c1(%x: tensor<128xf32>) {
  // expected-error @below {{expected operand #0 to carry a #layout.map (because at this level it is known which thread holds an element), got 'tensor<128xf32>'}}
  %m = "kgpu.convert"(%x) : (tensor<128xf32>) -> tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>
  return
}

// -----

// expected-error @below {{expected kgpu.num_warps to be an i32 from 1 to 32, a power of two (because layouts are made of bits), got 3 : i32}}
module @kgpu_c2 attributes {kgpu.num_warps = 3 : i32} {}

// -----

// expected-error @below {{expected kgpu.cluster to be an i32 from 1 to 16, a power of two (because layouts are made of bits), got 0 : i32}}
module @kgpu_c2_no_ctas attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 0 : i32} {}

// -----

// expected-error @below {{expected kgpu.cluster to be an i32 from 1 to 16, a power of two (because layouts are made of bits), got 2 : i64}}
module @kgpu_c2_wide attributes {kgpu.cluster = 2 : i64} {}

// -----

// expected-error @below {{expected kgpu.num_groups to be an i32 from 1 to 32 (because a block has at most that many warps), got -1 : i32}}
module @kgpu_c2_groups attributes {kgpu.num_groups = -1 : i32} {}

// -----

// expected-error @below {{expected sides of 2^k * m with m odd and at most 31, at least one (because memory holds a tile), got [33]}}
func.func private @mem_c1(!kgpu.mem<33xf32, #layout.map<row_major [32]>>)

// -----

// expected-error @below {{expected elements that are numbers or pointers (because memory holds a tile), got 'index'}}
func.func private @mem_c2(!kgpu.mem<32xindex, #layout.map<row_major [32]>>)

// -----

// expected-error @below {{expected a #layout.map (because memory says where each element lies), got 3 : i64}}
func.func private @mem_c3(!kgpu.mem<32xf32, 3>)

// -----

// expected-error @below {{expected a layout of shape [32] (because that is the memory's shape), got [64]}}
func.func private @mem_c3_shape(!kgpu.mem<32xf32, #layout.map<row_major [64]>>)

// -----

// expected-error @below {{expected a layout over offset and cta (because shared memory is not divided among threads), got digits of lane}}
func.func private @mem_c3_coordinates(!kgpu.mem<32xf32, #layout.map<blocked [32] vector 1 warps 1>>)

// -----

func.func @convert_c1(%x: tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>) {
  // expected-error @below {{expected a result of shape [128] and 'f32' (because only the layout changes), got}}
  %y = kgpu.convert %x : tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>
    -> tensor<128xf16, #layout.map<blocked [128] vector 1 warps 4>>
  return
}

// -----

func.func @convert_c2(%x: tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>) {
  // expected-error @below {{expected a layout over 4 of coordinate warp (because the same threads hold the result), got 2}}
  %y = kgpu.convert %x : tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>
    -> tensor<128xf32, #layout.map<blocked [128] vector 1 warps 2>>
  return
}

// -----

func.func @alloc_c1() {
  // expected-error @below {{expected an offset of at least 0 that 16 divides (because the widest access needs that alignment), got 8}}
  %m = kgpu.alloc {offset = 8 : i64} : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
  return
}

// -----

func.func @alloc_c2() {
  // expected-error @below {{expected at least one slot (because it holds a tile), got 0}}
  %m = kgpu.alloc {slots = 0 : i32} : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
  return
}

// -----

func.func @slot_c1(%i: i32) {
  %m = kgpu.alloc {slots = 2 : i32} : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
  %s = kgpu.slot %m[%i] : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
  // expected-error @below {{expected the result of a kgpu.alloc (because only an allocation has slots), got}}
  %t = kgpu.slot %s[%i] : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
  return
}

// -----

func.func @local_store_c1(%x: tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>) {
  %m = kgpu.alloc : !kgpu.mem<64xf32, #layout.map<row_major [64]>>
  // expected-error @below {{expected memory of shape [128] and 'f32' (because it holds the value), got}}
  kgpu.local_store %x, %m : tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>,
    !kgpu.mem<64xf32, #layout.map<row_major [64]>>
  return
}

// -----

func.func @local_store_c1_scalar(%x: f32) {
  %m = kgpu.alloc : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
  // expected-error @below {{expected memory of shape [1] and 'f32' (because it holds the value), got}}
  kgpu.local_store %x, %m : f32, !kgpu.mem<4xf32, #layout.map<row_major [4]>>
  return
}

// -----

func.func @local_store_c2(%x: tensor<256xf32, #layout.map<blocked [256] vector 1 warps 4 ctas 2>>) {
  %m = kgpu.alloc : !kgpu.mem<256xf32, #layout.map<digits [256] cta (128) offset (1) (2) (4) (8) (16) (32) (64)>>
  // expected-error @below {{expected memory with the whole tile in each cta, split as the tile is, or with an mbarrier and split so that each thread has registers for each cta (because an element is stored to every cta, to its own, or to its owner), got}}
  kgpu.local_store %x, %m : tensor<256xf32, #layout.map<blocked [256] vector 1 warps 4 ctas 2>>,
    !kgpu.mem<256xf32, #layout.map<digits [256] cta (128) offset (1) (2) (4) (8) (16) (32) (64)>>
  return
}

// -----

// The lane decides which CTA has an element: some threads have nothing for the second.
#rows = #layout.map<wgmma_acc [128, 8] groups 1 ctas 2 split 0>
#lanes = #layout.map<digits [128, 8] cta (0, 4) offset (0, 1) (0, 2) (1, 0) (2, 0) (4, 0) (8, 0) (16, 0) (32, 0) (64, 0)>
func.func @local_store_c2_dealt(%x: tensor<128x8xf32, #rows>) {
  %m = kgpu.alloc {mbarrier} : !kgpu.mem<128x8xf32, #lanes>
  // expected-error @below {{or with an mbarrier and split so that each thread has registers for each cta}}
  kgpu.local_store %x, %m : tensor<128x8xf32, #rows>, !kgpu.mem<128x8xf32, #lanes>
  return
}

// -----

// Without an mbarrier, no CTA would know when everything has arrived.
#rows = #layout.map<wgmma_acc [128, 16] groups 1 ctas 2 split 0>
#columns = #layout.map<digits [128, 16] cta (0, 8) offset (0, 1) (0, 2) (0, 4) (1, 0) (2, 0) (4, 0) (8, 0) (16, 0) (32, 0) (64, 0)>
func.func @local_store_c2_counted(%x: tensor<128x16xf32, #rows>) {
  %m = kgpu.alloc : !kgpu.mem<128x16xf32, #columns>
  // expected-error @below {{or with an mbarrier and split so that each thread has registers for each cta}}
  kgpu.local_store %x, %m : tensor<128x16xf32, #rows>, !kgpu.mem<128x16xf32, #columns>
  return
}

// -----

func.func @local_load_c1() {
  %m = kgpu.alloc : !kgpu.mem<64xf32, #layout.map<row_major [64]>>
  // expected-error @below {{expected memory of shape [64] and 'i32' (because it holds the value), got}}
  %x = kgpu.local_load %m : !kgpu.mem<64xf32, #layout.map<row_major [64]>>
    -> tensor<64xi32, #layout.map<blocked [64] vector 1 warps 4>>
  return
}

// -----

func.func @local_load_c2() {
  %m = kgpu.alloc : !kgpu.mem<256xf32, #layout.map<digits [256] cta (128) offset (1) (2) (4) (8) (16) (32) (64)>>
  // expected-error @below {{expected memory with the whole tile in each cta, or split as the result is (because a thread reads its own cta's memory), got}}
  %x = kgpu.local_load %m : !kgpu.mem<256xf32, #layout.map<digits [256] cta (128) offset (1) (2) (4) (8) (16) (32) (64)>>
    -> tensor<256xf32, #layout.map<blocked [256] vector 1 warps 4 ctas 2>>
  return
}

// -----

func.func @local_gather_c1(%i: tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>) {
  %m = kgpu.alloc : !kgpu.mem<128xf32, #layout.map<row_major [128]>>
  // expected-error @below {{expected axis in 0..0 (because the memory has rank 1), got 1}}
  %x = kgpu.local_gather %m[%i] 1 : !kgpu.mem<128xf32, #layout.map<row_major [128]>>,
    tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>> -> tensor<64xf32, #layout.map<blocked [64] vector 1 warps 2>>
  return
}

// -----

func.func @local_gather_c2(%i: tensor<4x8xi32, #layout.map<blocked [4, 8] vector 1 warps 1>>) {
  %m = kgpu.alloc : !kgpu.mem<8x8xf32, #layout.map<row_major [8, 8]>>
  // expected-error @below {{expected indices of shape [8, 8] except along axis 1 (because each row gathers from its own elements), got shape [4, 8]}}
  %x = kgpu.local_gather %m[%i] 1 : !kgpu.mem<8x8xf32, #layout.map<row_major [8, 8]>>,
    tensor<4x8xi32, #layout.map<blocked [4, 8] vector 1 warps 1>> -> tensor<4x8xf32, #layout.map<blocked [4, 8] vector 1 warps 1>>
  return
}

// -----

func.func @local_gather_c3(%i: tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>) {
  %m = kgpu.alloc : !kgpu.mem<128xf32, #layout.map<row_major [128]>>
  // expected-error @below {{expected result of type 'tensor<64xf32, #layout.map<blocked [64] vector 1 warps 2>>' (because each thread gathers for the indices that it holds), got}}
  %x = kgpu.local_gather %m[%i] 0 : !kgpu.mem<128xf32, #layout.map<row_major [128]>>,
    tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>> -> tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>
  return
}

// -----

func.func @local_gather_c4(%i: tensor<64xi1, #layout.map<blocked [64] vector 1 warps 2>>) {
  %m = kgpu.alloc : !kgpu.mem<128xf32, #layout.map<row_major [128]>>
  // expected-error @below {{expected indices of 8 to 64 bits (because i1 is a condition), got}}
  %x = kgpu.local_gather %m[%i] 0 : !kgpu.mem<128xf32, #layout.map<row_major [128]>>,
    tensor<64xi1, #layout.map<blocked [64] vector 1 warps 2>> -> tensor<64xf32, #layout.map<blocked [64] vector 1 warps 2>>
  return
}

// -----

func.func @local_atomic_add_c1(%i: tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>) {
  %m = kgpu.alloc : !kgpu.mem<16xf32, #layout.map<row_major [16]>>
  // expected-error @below {{expected memory of one dimension and i32 (because its elements are counters), got}}
  kgpu.local_atomic_add %m[%i], %i : !kgpu.mem<16xf32, #layout.map<row_major [16]>>,
    tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>, tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>
  return
}

// -----

func.func @local_atomic_add_c2(%i: tensor<8x8xi32, #layout.map<blocked [8, 8] vector 1 warps 2>>) {
  %m = kgpu.alloc : !kgpu.mem<16xi32, #layout.map<row_major [16]>>
  // expected-error @below {{expected indices of one dimension and 8 to 64 bits (because each names a counter), got}}
  kgpu.local_atomic_add %m[%i], %i : !kgpu.mem<16xi32, #layout.map<row_major [16]>>,
    tensor<8x8xi32, #layout.map<blocked [8, 8] vector 1 warps 2>>, tensor<8x8xi32, #layout.map<blocked [8, 8] vector 1 warps 2>>
  return
}

// -----

func.func @local_atomic_add_c3(%i: tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>,
                               %v: tensor<64xi32, #layout.map<blocked [64] vector 2 warps 2>>) {
  %m = kgpu.alloc : !kgpu.mem<16xi32, #layout.map<row_major [16]>>
  // expected-error @below {{(because each index adds its own value), got 'tensor<64xi32, #layout.map<blocked [64] vector 2 warps 2>>'}}
  kgpu.local_atomic_add %m[%i], %v : !kgpu.mem<16xi32, #layout.map<row_major [16]>>,
    tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>, tensor<64xi32, #layout.map<blocked [64] vector 2 warps 2>>
  return
}

// -----

func.func @local_atomic_add_c3_mask(%i: tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>,
                                    %k: tensor<64xi1, #layout.map<blocked [64] vector 2 warps 2>>) {
  %m = kgpu.alloc : !kgpu.mem<16xi32, #layout.map<row_major [16]>>
  // expected-error @below {{(because each index has its own condition), got 'tensor<64xi1, #layout.map<blocked [64] vector 2 warps 2>>'}}
  kgpu.local_atomic_add %m[%i], %i mask %k : !kgpu.mem<16xi32, #layout.map<row_major [16]>>,
    tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>, tensor<64xi32, #layout.map<blocked [64] vector 1 warps 2>>
    mask tensor<64xi1, #layout.map<blocked [64] vector 2 warps 2>>
  return
}

// -----

func.func @partial_reduce_c1(%x: tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>) {
  // expected-error @below {{expected axis in 0..0 (because the operand has rank 1), got 1}}
  %s = kgpu.partial_reduce(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    kgpu.yield %a : f32
  } : (tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>)
    -> (tensor<4xf32, #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>>)
  return
}

// -----

func.func @partial_reduce_c2(%x: tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>) {
  // expected-error @below {{expected result of type 'tensor<4xf32, #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>>' (because each warp contributes its own partial results), got}}
  %s = kgpu.partial_reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    kgpu.yield %a : f32
  } : (tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>)
    -> (tensor<4xf32, #layout.map<replicated [4] warps 4>>)
  return
}

// -----

func.func @partial_reduce_c3(%x: tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>) {
  // expected-error @below {{expected combine region to take ('f32', 'f32') (because it combines two elements of every tile), got ('f32')}}
  %s = kgpu.partial_reduce(%x) axis 0 {
  ^bb0(%a: f32):
    kgpu.yield %a : f32
  } : (tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>)
    -> (tensor<4xf32, #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>>)
  return
}

// -----

func.func @partial_reduce_c4(%x: tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>) {
  // expected-error @below {{expected combine region to end in kgpu.yield of ('f32') (because it returns one element for each tile), got}}
  %s = kgpu.partial_reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    kgpu.yield %a, %b : f32, f32
  } : (tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>)
    -> (tensor<4xf32, #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>>)
  return
}

// -----

func.func @partial_reduce_c5(%x: tensor<2x2xf32, #layout.map<digits [2, 2] lane (0, 1) (1, 1) (0, 0) (0, 0) (0, 0)>>) {
  // expected-error @below {{expected a layout whose digits along axis 1 step along no other axis (because a warp must own all the indices that it combines), got}}
  %s = kgpu.partial_reduce(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    kgpu.yield %a : f32
  } : (tensor<2x2xf32, #layout.map<digits [2, 2] lane (0, 1) (1, 1) (0, 0) (0, 0) (0, 0)>>)
    -> (tensor<2x1xf32, #layout.map<digits [2, 1] lane (0, 0) (1, 0) (0, 0) (0, 0) (0, 0)>>)
  return
}

// -----

func.func @partial_reduce_c6(%x: tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>, %p: !tile.ptr<f32>) {
  // expected-error @below {{expected a combine region that touches no memory (because it runs in any order), got tile.load}}
  %s = kgpu.partial_reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %v = tile.load %p : !tile.ptr<f32> -> f32
    kgpu.yield %v : f32
  } : (tensor<128xf32, #layout.map<blocked [128] vector 1 warps 4>>)
    -> (tensor<4xf32, #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>>)
  return
}

// -----

func.func @yield_c1(%x: f32) {
  // expected-error @below {{expects parent op to be one of 'kgpu.partial_reduce, kgpu.partial_scan, kgpu.add_prefix'}}
  kgpu.yield %x : f32
}

// -----

func.func @view_c1() {
  %m = kgpu.alloc : !kgpu.mem<128xf32, #layout.map<row_major [128]>>
  %v = kgpu.view %m offset 0 : !kgpu.mem<128xf32, #layout.map<row_major [128]>> -> !kgpu.mem<64xf32, #layout.map<row_major [64]>>
  // expected-error @below {{expected the result of a kgpu.alloc or kgpu.slot (because a view is taken of a whole slot), got}}
  %w = kgpu.view %v offset 0 : !kgpu.mem<64xf32, #layout.map<row_major [64]>> -> !kgpu.mem<64xf32, #layout.map<row_major [64]>>
  return
}

// -----

func.func @view_c2() {
  %m = kgpu.alloc : !kgpu.mem<128xf32, #layout.map<row_major [128]>>
  // expected-error @below {{expected elements of 'f32' (because a view moves no data), got 'i32'}}
  %v = kgpu.view %m offset 0 : !kgpu.mem<128xf32, #layout.map<row_major [128]>> -> !kgpu.mem<64xi32, #layout.map<row_major [64]>>
  return
}

// -----

func.func @view_c3() {
  %m = kgpu.alloc : !kgpu.mem<128xf32, #layout.map<row_major [128]>>
  // expected-error @below {{expected elements 0 to 128 at most (because the memory holds no more), got 96 to 160}}
  %v = kgpu.view %m offset 96 : !kgpu.mem<128xf32, #layout.map<row_major [128]>> -> !kgpu.mem<64xf32, #layout.map<row_major [64]>>
  return
}

// -----

func.func @view_c4() {
  %m = kgpu.alloc : !kgpu.mem<128xf32, #layout.map<row_major [128]>>
  // expected-error @below {{expected memory that each cta holds whole, or a view split over the ctas in the same way (because a view moves no data), got}}
  %v = kgpu.view %m offset 0 : !kgpu.mem<128xf32, #layout.map<row_major [128]>>
    -> !kgpu.mem<128xf32, #layout.map<digits [128] cta (64) offset (1) (2) (4) (8) (16) (32)>>
  return
}

// -----

// Rows are split over CTAs, columns are not.
#columns = #layout.map<digits [16, 16] cta (0, 8) offset (0, 1) (0, 2) (0, 4) (1, 0) (2, 0) (4, 0) (8, 0)>
#rows = #layout.map<digits [8, 16] cta (4, 0) offset (0, 1) (0, 2) (0, 4) (0, 8) (1, 0) (2, 0)>
func.func @view_c4_pieces() {
  %m = kgpu.alloc : !kgpu.mem<16x16xf32, #columns>
  // expected-error @below {{expected memory that each cta holds whole, or a view split over the ctas in the same way (because a view moves no data), got}}
  %v = kgpu.view %m offset 0 : !kgpu.mem<16x16xf32, #columns> -> !kgpu.mem<8x16xf32, #rows>
  return
}

// -----

func.func @compare_c1(%x: tensor<48xi32, #layout.map<blocked [48] vector 1 warps 4>>) {
  // expected-error @below {{expected a power of two as the last side (because every element is compared with a partner), got 48}}
  %y = kgpu.compare %x from 1 to 1 run 2 : tensor<48xi32, #layout.map<blocked [48] vector 1 warps 4>>
  return
}

// -----

func.func @compare_c2(%x: tensor<64xi32, #layout.map<blocked [64] vector 2 warps 4>>) {
  // expected-error @below {{expected powers of two 1 <= to <= from < run <= 64 (because each stride is half the one before), got from 4 to 1 run 4}}
  %y = kgpu.compare %x from 4 to 1 run 4 : tensor<64xi32, #layout.map<blocked [64] vector 2 warps 4>>
  return
}

// -----

func.func @compare_c3(%x: tensor<64xi32, #layout.map<blocked [64] vector 1 warps 4>>) {
  // expected-error @below {{expected strides 32 to 16 to be digits of registers or lanes that step along no other dimension (because elements are exchanged within a warp), got}}
  %y = kgpu.compare %x from 32 to 16 run 64 : tensor<64xi32, #layout.map<blocked [64] vector 1 warps 4>>
  return
}

// -----

func.func @dot_c1(%c: tensor<16xf32, #layout.map<blocked [16] vector 1 warps 4>>) {
  %a = kgpu.alloc : !kgpu.mem<16xf32, #layout.map<row_major [16]>>
  // expected-error @below {{expected all of rank 2 or all of rank 3 (because these are matrices, or batches of them), got ranks 1, 1 and 1}}
  %d = kgpu.dot %a, %a, %c : !kgpu.mem<16xf32, #layout.map<row_major [16]>>, !kgpu.mem<16xf32, #layout.map<row_major [16]>>
    -> tensor<16xf32, #layout.map<blocked [16] vector 1 warps 4>>
  return
}

// -----

func.func @dot_c2(%c: tensor<16x16xf32, #layout.map<blocked [16, 16] vector 1 warps 4>>) {
  %a = kgpu.alloc : !kgpu.mem<16x8xf32, #layout.map<row_major [16, 8]>>
  // expected-error @below {{expected inputs of M by K and K by N (because the accumulator is [16, 16]), got [16, 8] and [16, 8]}}
  %d = kgpu.dot %a, %a, %c : !kgpu.mem<16x8xf32, #layout.map<row_major [16, 8]>>, !kgpu.mem<16x8xf32, #layout.map<row_major [16, 8]>>
    -> tensor<16x16xf32, #layout.map<blocked [16, 16] vector 1 warps 4>>
  return
}

// -----

func.func @dot_c3(%c: tensor<16x16xf32, #layout.map<blocked [16, 16] vector 1 warps 4>>) {
  %a = kgpu.alloc : !kgpu.mem<16x16xi8, #layout.map<row_major [16, 16]>>
  // expected-error @below {{expected inputs that widen to 'f32' (because products are summed in it), got 'i8'}}
  %d = kgpu.dot %a, %a, %c : !kgpu.mem<16x16xi8, #layout.map<row_major [16, 16]>>, !kgpu.mem<16x16xi8, #layout.map<row_major [16, 16]>>
    -> tensor<16x16xf32, #layout.map<blocked [16, 16] vector 1 warps 4>>
  return
}

// -----

func.func @dot_c4(%c: tensor<16x16xf32, #layout.map<blocked [16, 16] vector 1 warps 4>>) {
  %a = kgpu.alloc : !kgpu.mem<16x16xf32, #layout.map<digits [16, 16] cta (8, 0) offset (0, 1) (0, 2) (0, 4) (0, 8) (1, 0) (2, 0) (4, 0)>>
  // expected-error @below {{expected memory with the whole tile in each cta (because every thread reads whole rows and columns), got}}
  %d = kgpu.dot %a, %a, %c : !kgpu.mem<16x16xf32, #layout.map<digits [16, 16] cta (8, 0) offset (0, 1) (0, 2) (0, 4) (0, 8) (1, 0) (2, 0) (4, 0)>>,
    !kgpu.mem<16x16xf32, #layout.map<digits [16, 16] cta (8, 0) offset (0, 1) (0, 2) (0, 4) (0, 8) (1, 0) (2, 0) (4, 0)>>
    -> tensor<16x16xf32, #layout.map<blocked [16, 16] vector 1 warps 4>>
  return
}

// -----

#row = #layout.map<blocked [512] vector 4 warps 4>
#sums = #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>
func.func @partial_scan_c1(%x: tensor<512xi32, #row>) {
  // expected-error @below {{expected axis in 0..0 (because the operand has rank 1), got 1}}
  %y, %s = kgpu.partial_scan(%x) axis 1 {
  ^bb0(%a: i32, %b: i32):
    kgpu.yield %a : i32
  } : (tensor<512xi32, #row>) -> (tensor<512xi32, #row>, tensor<4xi32, #sums>)
  return
}

// -----

#row = #layout.map<blocked [512] vector 4 warps 4>
func.func @partial_scan_c2(%x: tensor<512xi32, #row>) {
  // expected-error @below {{expected 2 results (because there are two per operand), got 1}}
  %y = kgpu.partial_scan(%x) axis 0 {
  ^bb0(%a: i32, %b: i32):
    kgpu.yield %a : i32
  } : (tensor<512xi32, #row>) -> tensor<512xi32, #row>
  return
}

// -----

#row = #layout.map<blocked [512] vector 4 warps 4>
func.func @partial_scan_c2_sums(%x: tensor<512xi32, #row>) {
  // expected-error @below {{(because each segment has a sum), got 'tensor<4xi32, #layout.map<replicated [4] warps 4>>'}}
  %y, %s = kgpu.partial_scan(%x) axis 0 {
  ^bb0(%a: i32, %b: i32):
    kgpu.yield %a : i32
  } : (tensor<512xi32, #row>) -> (tensor<512xi32, #row>, tensor<4xi32, #layout.map<replicated [4] warps 4>>)
  return
}

// -----

#row = #layout.map<blocked [512] vector 4 warps 4>
#sums = #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>
func.func @partial_scan_c3(%x: tensor<512xi32, #row>) {
  // expected-error @below {{expected combine region to take ('i32', 'i32') (because it combines two elements of every tile), got ('i32')}}
  %y, %s = kgpu.partial_scan(%x) axis 0 {
  ^bb0(%a: i32):
    kgpu.yield %a : i32
  } : (tensor<512xi32, #row>) -> (tensor<512xi32, #row>, tensor<4xi32, #sums>)
  return
}

// -----

#row = #layout.map<blocked [512] vector 4 warps 4>
#sums = #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>
func.func @partial_scan_c4(%x: tensor<512xi32, #row>) {
  // expected-error @below {{expected combine region to end in kgpu.yield of ('i32') (because it returns one element for each tile), got}}
  %y, %s = kgpu.partial_scan(%x) axis 0 {
  ^bb0(%a: i32, %b: i32):
    kgpu.yield %a, %b : i32, i32
  } : (tensor<512xi32, #row>) -> (tensor<512xi32, #row>, tensor<4xi32, #sums>)
  return
}

// -----

#row = #layout.map<digits [512] reg (1) (2) lane (16) (32) (64) (128) (256) warp (4) (8)>
#sums = #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>
func.func @partial_scan_c5(%x: tensor<512xi32, #row>) {
  // expected-error @below {{expected registers, then lanes, then registers and warps along axis 0, by digits that step along no other axis (because a segment belongs to a single warp), got}}
  %y, %s = kgpu.partial_scan(%x) axis 0 {
  ^bb0(%a: i32, %b: i32):
    kgpu.yield %a : i32
  } : (tensor<512xi32, #row>) -> (tensor<512xi32, #row>, tensor<4xi32, #sums>)
  return
}

// -----

#row = #layout.map<blocked [512] vector 4 warps 4>
#sums = #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>
func.func @partial_scan_c6(%x: tensor<512xi32, #row>, %p: !tile.ptr<i32>) {
  // expected-error @below {{expected a combine region that touches no memory (because it runs in any order), got tile.load}}
  %y, %s = kgpu.partial_scan(%x) axis 0 {
  ^bb0(%a: i32, %b: i32):
    %v = tile.load %p : !tile.ptr<i32> -> i32
    kgpu.yield %v : i32
  } : (tensor<512xi32, #row>) -> (tensor<512xi32, #row>, tensor<4xi32, #sums>)
  return
}

// -----

#row = #layout.map<blocked [512] vector 4 warps 4>
func.func @add_prefix_c1(%y: tensor<512xi32, #row>) {
  // expected-error @below {{expected 2 operands (because each result needs a scanned tile and its sums), got 1}}
  %z = kgpu.add_prefix(%y) axis 0 {
  ^bb0(%a: i32, %b: i32):
    kgpu.yield %a : i32
  } : (tensor<512xi32, #row>) -> tensor<512xi32, #row>
  return
}

// -----

#row = #layout.map<blocked [512] vector 4 warps 4>
#all = #layout.map<blocked [4] vector 1 warps 4>
func.func @add_prefix_c2(%y: tensor<512xi32, #row>, %p: tensor<4xi32, #all>) {
  // expected-error @below {{expected axis in 0..0 (because the tile has rank 1), got 1}}
  %z = kgpu.add_prefix(%y, %p) axis 1 {
  ^bb0(%a: i32, %b: i32):
    kgpu.yield %a : i32
  } : (tensor<512xi32, #row>, tensor<4xi32, #all>) -> tensor<512xi32, #row>
  return
}

// -----

#row = #layout.map<blocked [512] vector 4 warps 4>
#all = #layout.map<replicated [4] warps 4>
func.func @add_prefix_c3(%y: tensor<512xi32, #row>, %p: tensor<4xi32, #all>) {
  // expected-error @below {{(because each lane fetches its sums from another lane), got 'tensor<4xi32, #layout.map<replicated [4] warps 4>>'}}
  %z = kgpu.add_prefix(%y, %p) axis 0 {
  ^bb0(%a: i32, %b: i32):
    kgpu.yield %a : i32
  } : (tensor<512xi32, #row>, tensor<4xi32, #all>) -> tensor<512xi32, #row>
  return
}

// -----

#row = #layout.map<blocked [512] vector 4 warps 4>
#all = #layout.map<blocked [4] vector 1 warps 4>
func.func @add_prefix_c4(%y: tensor<512xi32, #row>, %p: tensor<4xi32, #all>) {
  // expected-error @below {{expected combine region to take ('i32', 'i32') (because it combines two elements of every tile), got ('i32', 'i64')}}
  %z = kgpu.add_prefix(%y, %p) axis 0 {
  ^bb0(%a: i32, %b: i64):
    kgpu.yield %a : i32
  } : (tensor<512xi32, #row>, tensor<4xi32, #all>) -> tensor<512xi32, #row>
  return
}

// -----

#row = #layout.map<blocked [512] vector 4 warps 4>
#all = #layout.map<blocked [4] vector 1 warps 4>
func.func @add_prefix_c5(%y: tensor<512xi32, #row>, %p: tensor<4xi32, #all>) {
  // expected-error @below {{expected combine region to end in kgpu.yield of ('i32') (because it returns one element for each tile), got}}
  %z = kgpu.add_prefix(%y, %p) axis 0 {
  ^bb0(%a: i32, %b: i32):
    kgpu.yield
  } : (tensor<512xi32, #row>, tensor<4xi32, #all>) -> tensor<512xi32, #row>
  return
}

// -----

#row = #layout.map<blocked [512] vector 4 warps 4>
#all = #layout.map<blocked [4] vector 1 warps 4>
func.func @add_prefix_c6(%y: tensor<512xi32, #row>, %p: tensor<4xi32, #all>, %q: !tile.ptr<i32>) {
  // expected-error @below {{expected a combine region that touches no memory (because it runs in any order), got tile.load}}
  %z = kgpu.add_prefix(%y, %p) axis 0 {
  ^bb0(%a: i32, %b: i32):
    %v = tile.load %q : !tile.ptr<i32> -> i32
    kgpu.yield %v : i32
  } : (tensor<512xi32, #row>, tensor<4xi32, #all>) -> tensor<512xi32, #row>
  return
}

// -----

func.func @alloc_c3() {
  // expected-error @below {{expected memory with an mbarrier to have elements of 4 or 8 bytes, all of them or one piece in each cta}}
  %m = kgpu.alloc {mbarrier} : !kgpu.mem<4xf16, #layout.map<row_major [4]>>
  return
}

// -----

// CTAs alternate by element.
func.func @alloc_c3_pieces() {
  // expected-error @below {{expected memory with an mbarrier to have elements of 4 or 8 bytes, all of them or one piece in each cta}}
  %m = kgpu.alloc {mbarrier} : !kgpu.mem<8xf32, #layout.map<digits [8] cta (1) offset (2) (4)>>
  return
}

// -----

func.func @alloc_c4_outside() {
  // expected-error @below {{expected one slot without an mbarrier, in a role (because roles take turns with the whole allocation), got an allocation outside roles}}
  %m = kgpu.alloc {turn = 0 : i32} : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
  return
}

// -----

func.func @alloc_c4_slots() {
  kgpu.roles @one warps 1 {
    // expected-error @below {{expected one slot without an mbarrier, in a role (because roles take turns with the whole allocation), got several slots}}
    %m = kgpu.alloc {slots = 2 : i32, turn = 0 : i32} : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
    kgpu.end_role
  }
  return
}

// -----

func.func @await_c1() {
  %m = kgpu.alloc : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
  // expected-error @below {{expected a slot of memory with an mbarrier (because only an mbarrier counts the bytes that have arrived), got}}
  kgpu.await %m : !kgpu.mem<4xf32, #layout.map<row_major [4]>>
  return
}

// -----

func.func @keep_c1(%x: tensor<512xi64, #layout.map<blocked [512] vector 2 warps 4>>) {
  // expected-error @below {{expected elements of 8, 16 or 32 bits (because a register holds 32 bits), got 'i64'}}
  %y = kgpu.keep %x : tensor<512xi64, #layout.map<blocked [512] vector 2 warps 4>>
  return
}

// -----

func.func @rescale_c1(%x: tensor<64x8xf32>, %f: tensor<64x8xf16>) {
  // expected-error @below {{all of {value, factor, result} have same type}}
  %y = "kgpu.rescale"(%x, %f) : (tensor<64x8xf32>, tensor<64x8xf16>) -> tensor<64x8xf32>
  return
}

// -----

func.func @any_c1(%c: tensor<64xi32>) {
  // expected-error @below {{operand #0 must be tile of i1, but got 'tensor<64xi32>'}}
  %any = kgpu.any %c : tensor<64xi32>
  return
}

// -----

func.func @trans_c1(%m: !kgpu.mem<64x32xf16, #layout.map<row_major [64, 32]>>) {
  // expected-error @below {{expected an order that names each dimension once (because it is a permutation), got [1, 1]}}
  %t = kgpu.trans %m [1, 1] : !kgpu.mem<64x32xf16, #layout.map<row_major [64, 32]>>
    -> !kgpu.mem<32x64xf16, #layout.map<row_major [32, 64] order [0, 1]>>
  return
}

// -----

func.func @trans_c2(%m: !kgpu.mem<64x32xf16, #layout.map<row_major [64, 32]>>) {
  // expected-error @below {{(because only the indexing changes), got '!kgpu.mem<32x64xf16, #layout.map<row_major [32, 64]>>'}}
  %t = kgpu.trans %m [1, 0] : !kgpu.mem<64x32xf16, #layout.map<row_major [64, 32]>>
    -> !kgpu.mem<32x64xf16, #layout.map<row_major [32, 64]>>
  return
}
