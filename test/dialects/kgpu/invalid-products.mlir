// What products reject: one test per constraint, named after it.
// RUN: kiln-opt %s -split-input-file -verify-diagnostics

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!b = !kgpu.mem<32x64xf16, #layout.map<swizzled [32, 64] element 2 bytes 128>>
func.func @warpgroup_mma_c1(%a: !a, %b: !b, %c: tensor<64x64xf32>) {
  // expected-error @below {{expected M by K times K by N in M by N (because it is a product of matrices), got [64, 64], [32, 64] and [64, 64]}}
  %d = kgpu.warpgroup_mma %a, %b, %c : !a, !b -> tensor<64x64xf32>
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!b = !kgpu.mem<64x64xbf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @warpgroup_mma_c2(%a: !a, %b: !b, %c: tensor<64x64xf32>) {
  // expected-error @below {{expected types that an instruction multiplies (because factors are not converted), got 'f16', 'bf16' and 'f32'}}
  %d = kgpu.warpgroup_mma %a, %b, %c : !a, !b -> tensor<64x64xf32>
  return
}

// -----

!a = !kgpu.mem<32x64xf16, #layout.map<swizzled [32, 64] element 2 bytes 128>>
!b = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @warpgroup_mma_c3(%a: !a, %b: !b, %c: tensor<32x64xf32>) {
  // expected-error @below {{expected M of a cta in 64s, N in 8s up to 256 or in 256s, K in the instruction's (because instructions multiply tiles of 64 by N), got 32, 64 and 64}}
  %d = kgpu.warpgroup_mma %a, %b, %c : !a, !b -> tensor<32x64xf32>
  return
}

// -----

// N of 320 is neither one instruction's nor a multiple of 256.
!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!b = !kgpu.mem<64x320xf16, #layout.map<swizzled [64, 320] element 2 bytes 128>>
func.func @warpgroup_mma_c3_columns(%a: !a, %b: !b, %c: tensor<64x320xf32>) {
  // expected-error @below {{(because instructions multiply tiles of 64 by N), got 64, 320 and 64}}
  %d = kgpu.warpgroup_mma %a, %b, %c : !a, !b -> tensor<64x320xf32>
  return
}

// -----

!b = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @warpgroup_mma_c3_registers(%a: tensor<32x64xf16>, %b: !b, %c: tensor<32x64xf32>) {
  // expected-error @below {{(because instructions multiply tiles of 64 by N), got 32, 64 and 64}}
  %d = kgpu.warpgroup_mma %a, %b, %c : tensor<32x64xf16>, !b -> tensor<32x64xf32>
  return
}

// -----

// 40 is not a multiple of 16.
!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @warpgroup_mma_c6(%a: !a, %b: !a, %c: tensor<64x64xf32>) {
  // expected-error @below {{expected a beginning and an end within K of 64 in 16s (because one instruction multiplies that many), got [0, 40]}}
  %d = kgpu.warpgroup_mma %a, %b, %c {depth = array<i64: 0, 40>} : !a, !a -> tensor<64x64xf32>
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @warpgroup_mma_c6_outside(%a: !a, %b: !a, %c: tensor<64x64xf32>) {
  // expected-error @below {{expected a beginning and an end within K of 64 in 16s (because one instruction multiplies that many), got [32, 80]}}
  %d = kgpu.warpgroup_mma %a, %b, %c {depth = array<i64: 32, 80>} : !a, !a -> tensor<64x64xf32>
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @warpgroup_mma_c6_empty(%a: !a, %b: !a, %c: tensor<64x64xf32>) {
  // expected-error @below {{expected a beginning and an end within K of 64 in 16s (because one instruction multiplies that many), got [32, 32]}}
  %d = kgpu.warpgroup_mma %a, %b, %c {depth = array<i64: 32, 32>} : !a, !a -> tensor<64x64xf32>
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @warpgroup_mma_c6_number(%a: !a, %b: !a, %c: tensor<64x64xf32>) {
  // expected-error @below {{expected a beginning and an end within K of 64 in 16s (because one instruction multiplies that many), got [32]}}
  %d = kgpu.warpgroup_mma %a, %b, %c {depth = array<i64: 32>} : !a, !a -> tensor<64x64xf32>
  return
}

// -----

// Each of two groups has 32 columns, but panels have 64.
!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
#halves = #layout.map<wgmma_acc [64, 64] groups 2>
func.func @warpgroup_mma_c7(%a: !a, %b: !a, %c: tensor<64x64xf32, #halves>) {
  // expected-error @below {{expected a right factor whose panels are as wide as the columns that a group has in a row (because each group reads its own panels), got}}
  %d = kgpu.warpgroup_mma %a, %b, %c : !a, !a -> tensor<64x64xf32, #halves>
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @warpgroup_mma_c4(%a: !a, %b: !a, %c: tensor<64x64xf32, #layout.map<blocked [64, 64] vector 4 warps 4>>) {
  // expected-error @below {{expected the accumulator in the layout of the instruction (because it is a fragment), got}}
  %d = kgpu.warpgroup_mma %a, %b, %c : !a, !a -> tensor<64x64xf32, #layout.map<blocked [64, 64] vector 4 warps 4>>
  return
}

// -----

!b = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!acc = tensor<64x64xf32, #layout.map<wgmma_acc [64, 64] groups 1>>
!a = tensor<64x64xf16, #layout.map<wgmma_a [64, 64] bits 32 groups 1>>
func.func @warpgroup_mma_c4_left(%a: !a, %b: !b, %c: !acc) {
  // expected-error @below {{expected the left factor in the layout of the instruction (because it is a fragment), got}}
  %d = kgpu.warpgroup_mma %a, %b, %c : !a, !b -> !acc
  return
}

// -----

// Each CTA has rows of the left operand, so not the whole accumulator.
!a = !kgpu.mem<128x64xf16, #layout.map<swizzled [128, 64] element 2 bytes 128 ctas 2 split 0>>
!b = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128 ctas 2>>
!acc = tensor<128x64xf32, #layout.map<wgmma_acc [128, 64] groups 2 ctas 2>>
func.func @warpgroup_mma_c4_ctas(%a: !a, %b: !b, %c: !acc) {
  // expected-error @below {{expected the accumulator in the layout of the instruction (because it is a fragment), got}}
  %d = kgpu.warpgroup_mma %a, %b, %c : !a, !b -> !acc
  return
}

// -----

!a = !kgpu.mem<64x64xf16, #layout.map<row_major [64, 64]>>
!b = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @warpgroup_mma_c5(%a: !a, %b: !b, %c: tensor<64x64xf32>) {
  // expected-error @below {{expected swizzled memory with all of K in each cta, or both factors split along it, and along K unless elements have 16 bits (because the instruction reads no other layout), got}}
  %d = kgpu.warpgroup_mma %a, %b, %c : !a, !b -> tensor<64x64xf32>
  return
}

// -----

// Elements of 8 bits are contiguous along K, which is the right operand's first dimension.
!a = !kgpu.mem<64x128xi8, #layout.map<swizzled [64, 128] element 1 bytes 128>>
!b = !kgpu.mem<128x128xi8, #layout.map<swizzled [128, 128] element 1 bytes 128>>
func.func @warpgroup_mma_c5_major(%a: !a, %b: !b, %c: tensor<64x128xi32>) {
  // expected-error @below {{expected swizzled memory with all of K in each cta, or both factors split along it, and along K unless elements have 16 bits (because the instruction reads no other layout), got}}
  %d = kgpu.warpgroup_mma %a, %b, %c : !a, !b -> tensor<64x128xi32>
  return
}

// -----

// Half of K in each CTA, for both operands: each CTA has its own sum, but there is room for one.
!a = !kgpu.mem<64x128xf16, #layout.map<swizzled [64, 128] element 2 bytes 128 ctas 2 split 1>>
!b = !kgpu.mem<128x64xf16, #layout.map<swizzled [128, 64] element 2 bytes 128 ctas 2 split 0>>
func.func @warpgroup_mma_c1_sums(%a: !a, %b: !b, %c: tensor<64x64xf32>) {
  // expected-error @below {{expected M by K times K by N in M by N (because it is a product of matrices), got [64, 128], [128, 64] and [64, 64]}}
  %d = kgpu.warpgroup_mma %a, %b, %c : !a, !b -> tensor<64x64xf32>
  return
}

// -----

// Half of K in each CTA, for one operand only.
!a = !kgpu.mem<64x128xf16, #layout.map<swizzled [64, 128] element 2 bytes 128 ctas 2 split 1>>
!b = !kgpu.mem<128x64xf16, #layout.map<swizzled [128, 64] element 2 bytes 128 ctas 2>>
func.func @warpgroup_mma_c5_depth(%a: !a, %b: !b, %c: tensor<64x64xf32>) {
  // expected-error @below {{expected swizzled memory with all of K in each cta, or both factors split along it, and along K unless elements have 16 bits (because the instruction reads no other layout), got}}
  %d = kgpu.warpgroup_mma %a, %b, %c : !a, !b -> tensor<64x64xf32>
  return
}

// -----

!b = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!acc = tensor<64x64xf32, #layout.map<wgmma_acc [64, 64] groups 1>>
func.func @kgpu_c1_early(%a: tensor<64x64xf16>, %b: !b, %c: !acc) {
  // expected-error @below {{expected operand #0 to carry a #layout.map (because at this level it is known which thread holds an element), got 'tensor<64x64xf16>'}}
  %d = kgpu.warpgroup_mma %a, %b, %c : tensor<64x64xf16>, !b -> !acc
  return
}

// -----

func.func @mma_wait_c1(%c: tensor<64x64xf32>) {
  // expected-error @below {{expected at least 0 products pending (because it is a count), got -1}}
  %d = kgpu.mma_wait %c pending -1 : tensor<64x64xf32>
  return
}

// -----

func.func @warp_mma_c1(%a: tensor<2x64x32xf16>, %b: tensor<3x32x64xf16>, %c: tensor<2x64x64xf32>) {
  // expected-error @below {{expected M by K times K by N in M by N (because it is a product of matrices), got [2, 64, 32], [3, 32, 64] and [2, 64, 64]}}
  %d = kgpu.warp_mma %a, %b, %c : tensor<2x64x32xf16>, tensor<3x32x64xf16> -> tensor<2x64x64xf32>
  return
}

// -----

func.func @warp_mma_c2(%a: tensor<64x32xf8E4M3FN>, %b: tensor<32x64xf8E4M3FN>, %c: tensor<64x64xf16>) {
  // expected-error @below {{expected types that an instruction multiplies (because factors are not converted), got 'f8E4M3FN', 'f8E4M3FN' and 'f16'}}
  %d = kgpu.warp_mma %a, %b, %c : tensor<64x32xf8E4M3FN>, tensor<32x64xf8E4M3FN> -> tensor<64x64xf16>
  return
}

// -----

func.func @warp_mma_c3(%a: tensor<64x8xf16>, %b: tensor<8x64xf16>, %c: tensor<64x64xf32>) {
  // expected-error @below {{expected M in 16s (of f64: 8s), N in 8s, K in the instruction's (because instructions multiply tiles of 16 by 8), got 64, 64 and 8}}
  %d = kgpu.warp_mma %a, %b, %c : tensor<64x8xf16>, tensor<8x64xf16> -> tensor<64x64xf32>
  return
}

// -----

// The left operand is laid out for four warps along M, the accumulator for two by two.
!a = tensor<64x32xf16, #layout.map<mma_a [64, 32] bits 16 warps 4x1>>
!b = tensor<32x64xf16, #layout.map<mma_b [32, 64] bits 16 warps 2x2>>
!c = tensor<64x64xf32, #layout.map<mma_acc [64, 64] warps 2x2>>
func.func @warp_mma_c4(%a: !a, %b: !b, %c: !c) {
  // expected-error @below {{expected fragments of one arrangement of warps (because each warp multiplies only its own fragments), got}}
  %d = kgpu.warp_mma %a, %b, %c : !a, !b -> !c
  return
}

// -----

// Three groups of 64 rows: every warp has to hold all of the right operand, here each group has columns of it.
!a = tensor<192x32xf16, #layout.map<wgmma_a [192, 32] bits 16 groups 3>>
!b = tensor<32x192xf16, #layout.map<digits [32, 192] reg (1, 0) (8, 0) (16, 0) (0, 8) (0, 16) (0, 32) lane (2, 0) (4, 0) (0, 1) (0, 2) (0, 4) warp (0, 0) (0, 0) group 3*(0, 64)>>
!c = tensor<192x192xf32, #layout.map<wgmma_acc [192, 192] groups 3>>
func.func @warp_mma_c4_groups(%a: !a, %b: !b, %c: !c) {
  // expected-error @below {{expected fragments of one arrangement of warps (because each warp multiplies only its own fragments), got}}
  %d = kgpu.warp_mma %a, %b, %c : !a, !b -> !c
  return
}

// -----

// The left operand's rows are those of the accumulator, but the warps of a group have 16 in another order.
!a = tensor<128x32xf16, #layout.map<digits [128, 32] reg (0, 1) (8, 0) (0, 8) (0, 16) lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0) warp (32, 0) (16, 0) group (64, 0)>>
!b = tensor<32x64xf16, #layout.map<digits [32, 64] reg (1, 0) (8, 0) (16, 0) (0, 8) (0, 16) (0, 32) lane (2, 0) (4, 0) (0, 1) (0, 2) (0, 4) warp (0, 0) (0, 0) group (0, 0)>>
!c = tensor<128x64xf32, #layout.map<wgmma_acc [128, 64] groups 2>>
func.func @warp_mma_c4_left(%a: !a, %b: !b, %c: !c) {
  // expected-error @below {{expected fragments of one arrangement of warps (because each warp multiplies only its own fragments), got}}
  %d = kgpu.warp_mma %a, %b, %c : !a, !b -> !c
  return
}

// -----

// Operands of groups, but the accumulator's rows are dealt to the groups one by one.
!a = tensor<128x32xf16, #layout.map<wgmma_a [128, 32] bits 16 groups 2>>
!b = tensor<32x64xf16, #layout.map<digits [32, 64] reg (1, 0) (8, 0) (16, 0) (0, 8) (0, 16) (0, 32) lane (2, 0) (4, 0) (0, 1) (0, 2) (0, 4) warp (0, 0) (0, 0) group (0, 0)>>
!c = tensor<128x64xf32, #layout.map<digits [128, 64] reg (0, 1) (8, 0) (0, 8) (0, 16) (0, 32) lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0) warp (32, 0) (64, 0) group (16, 0)>>
func.func @warp_mma_c4_accumulator(%a: !a, %b: !b, %c: !c) {
  // expected-error @below {{expected fragments of one arrangement of warps (because each warp multiplies only its own fragments), got}}
  %d = kgpu.warp_mma %a, %b, %c : !a, !b -> !c
  return
}
