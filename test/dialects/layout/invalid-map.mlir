// What a layout may not be, on its own and as a tensor's encoding.
// RUN: kiln-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{expected every element to have a position, got positions for 1 of 2}}
func.func private @map_c1(tensor<64xf32, #layout.map<digits [64] lane (1) (2) (4) (8) (16)>>)

// -----

// expected-error @below {{expected blocked, replicated, mma_acc, mma_a, mma_b, wgmma_acc, wgmma_a, row_major, swizzled or digits, got 'tiled'}}
func.func private @map_c1_form(tensor<64xf32, #layout.map<tiled [64]>>)

// -----

// expected-error @below {{expected a shape that wgmma_acc fits, got [96, 64]}}
func.func private @map_c1_shape(tensor<96x64xf32, #layout.map<wgmma_acc [96, 64] groups 1>>)

// -----

// expected-error @below {{expected a digit of radix 3 for dimension 0 (because every element needs a position)}}
func.func private @map_c1_odd(tensor<96xf32, #layout.map<digits [96] lane (1) (2) (4) (8) (16)>>)

// -----

// expected-error @below {{expected a layout of sides [64] (because they are the tensor's), got [128]}}
func.func private @map_c2(tensor<64xf32, #layout.map<blocked [128] vector 4 warps 4>>)

// -----

// expected-error @below {{expected a layout of registers (because threads hold a tensor in registers), got offsets of memory}}
func.func private @map_c3(tensor<64xf32, #layout.map<row_major [64]>>)

// -----

// expected-error @below {{unknown attribute `blocked` in dialect `layout`}}
func.func private @not_a_map(tensor<64xf32, #layout.blocked<[64]>>)
