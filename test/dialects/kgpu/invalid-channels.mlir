// What channels, copies and roles reject: one test per constraint, named after it.
// RUN: kiln-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{expected 1 to 16384 slots (because each has barriers in shared memory), got 0}}
func.func private @channel_type_c1(!kgpu.channel<0 x (!kgpu.mem<32xf32, #layout.map<row_major [32]>>)>)

// -----

// expected-error @below {{expected parts of type !kgpu.mem (because slots are shared memory), got 'tensor<32xf32>'}}
func.func private @channel_type_c2(!kgpu.channel<2 x (tensor<32xf32>)>)

// -----

// expected-error @below {{expected at least one slot (because a cursor is a position in a ring), got 0}}
func.func private @cursor_type_c1(!kgpu.cursor<0>)

// -----

!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
func.func @channel_c1() {
  // expected-error @below {{expected an offset of at least 0 that 1024 divides (because swizzle patterns repeat at that distance), got 512}}
  %c = kgpu.channel threads fillers 4 readers 4 {offset = 512 : i64} : !kgpu.channel<2 x (!m)>
  return
}

// -----

func.func @channel_c1_without_parts() {
  // expected-error @below {{expected an offset of at least 0 that 16 divides (because mbarriers need that alignment), got 520}}
  %c = kgpu.channel threads fillers 4 readers 4 {offset = 520 : i64} : !kgpu.channel<1 x ()>
  return
}

// -----

!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
func.func @channel_c2() {
  // expected-error @below {{expected at least one filler and one reader (because a slot goes from one to the other), got 4 and 0}}
  %c = kgpu.channel threads fillers 4 readers 0 : !kgpu.channel<2 x (!m)>
  return
}

// -----

!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
func.func @channel_c3(%if: i1) {
  scf.if %if {
    // expected-error @below {{expected this in the function's body (because a channel lives as long as the kernel), got scf.if around it}}
    %c = kgpu.channel threads fillers 4 readers 4 : !kgpu.channel<2 x (!m)>
  }
  return
}

// -----

!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
func.func @channel_c4() {
  // expected-error @below {{expected a channel that completes by groups (because only there do the warps that read a slot copy to it), got one that completes by threads}}
  %c = kgpu.channel threads warps_apart fillers 4 readers 4 : !kgpu.channel<2 x (!m)>
  return
}

// -----

!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
func.func @acquire_c1(%c: !kgpu.channel<2 x (!m)>, %p: !kgpu.cursor<3>) {
  // expected-error @below {{failed to verify that the cursor has as many slots as the channel}}
  %m = "kgpu.acquire"(%c, %p) : (!kgpu.channel<2 x (!m)>, !kgpu.cursor<3>) -> !m
  return
}

// -----

!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
!n = !kgpu.mem<32xi32, #layout.map<row_major [32]>>
func.func @acquire_c2(%c: !kgpu.channel<2 x (!m, !n)>, %p: !kgpu.cursor<2>) {
  // expected-error @below {{expected results of the types of the channel's parts, got}}
  %m = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m, !n)> -> !m
  return
}

// -----

!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
func.func @commit_c1(%c: !kgpu.channel<2 x (!m)>, %p: !kgpu.cursor<4>) {
  // expected-error @below {{failed to verify that the cursor has as many slots as the channel}}
  "kgpu.commit"(%c, %p) : (!kgpu.channel<2 x (!m)>, !kgpu.cursor<4>) -> ()
  return
}

// -----

!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
func.func @receive_c1(%c: !kgpu.channel<2 x (!m)>, %p: !kgpu.cursor<1>) {
  // expected-error @below {{failed to verify that the cursor has as many slots as the channel}}
  %m = "kgpu.receive"(%c, %p) : (!kgpu.channel<2 x (!m)>, !kgpu.cursor<1>) -> !m
  return
}

// -----

!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
!n = !kgpu.mem<32xi32, #layout.map<row_major [32]>>
func.func @receive_c2(%c: !kgpu.channel<2 x (!m, !n)>, %p: !kgpu.cursor<2>) {
  // expected-error @below {{expected results of the types of the channel's parts, got}}
  %m:2 = kgpu.receive %c[%p] : !kgpu.channel<2 x (!m, !n)> -> !n, !m
  return
}

// -----

!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
func.func @release_c1(%c: !kgpu.channel<2 x (!m)>, %p: !kgpu.cursor<3>) {
  // expected-error @below {{failed to verify that the cursor has as many slots as the channel}}
  "kgpu.release"(%c, %p) : (!kgpu.channel<2 x (!m)>, !kgpu.cursor<3>) -> ()
  return
}

// -----

func.func @tensor_map_c1(%b: !tile.ptr<f16>, %m: i64, %n: i64, %s: i64) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%m, %n] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<512x64xf16>>
  // expected-error @below {{expected one side of 1 to 256 per dimension of the block (because a copy moves no larger box), got [512, 64]}}
  %t = kgpu.tensor_map %d box [512, 64] swizzle 128 : !tile.desc<tensor<512x64xf16>>
  return
}

// -----

func.func @tensor_map_c2_swizzle(%b: !tile.ptr<f16>, %m: i64, %n: i64, %s: i64) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%m, %n] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  // expected-error @below {{expected a swizzle of 0, 32, 64 or 128 bytes and rows of a multiple of 16 bytes within it (because the copy engine supports no others), got 64 and rows of 128}}
  %t = kgpu.tensor_map %d box [128, 64] swizzle 64 : !tile.desc<tensor<128x64xf16>>
  return
}

// -----

func.func @tensor_map_c2_rows(%b: !tile.ptr<f16>, %m: i64, %n: i64, %s: i64) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%m, %n] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x4xf16>>
  // expected-error @below {{and rows of a multiple of 16 bytes within it (because the copy engine supports no others), got 0 and rows of 8}}
  %t = kgpu.tensor_map %d box [128, 4] swizzle 0 : !tile.desc<tensor<128x4xf16>>
  return
}

// -----

func.func @tensor_map_c3(%b: !tile.ptr<f16>, %m: i64, %s: i64) {
  %one = arith.constant 1 : i64
  %n = arith.addi %m, %one : i64
  %d = tile.make_desc %b, shape [%m, %n] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  // expected-error @below {{expected a descriptor made from the kernel's arguments and constants (because the launch builds the tensor map), got another}}
  %t = kgpu.tensor_map %d box [128, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  return
}

// -----

func.func @tensor_map_c4(%b: !tile.ptr<f16>, %m: i64, %s: i64) {
  %d = tile.make_desc %b, shape [%m, %m] strides [%s, %s] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  // expected-error @below {{expected rank 1 to 5 and a last stride of 1 (because the copy engine reads contiguous rows), got rank 2 and}}
  %t = kgpu.tensor_map %d box [128, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_in_c1(%b: !tile.ptr<f16>, %e: i64, %p: !kgpu.cursor<2>, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e] strides [%e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %c = kgpu.channel bytes fillers 1 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{expected one offset per dimension of the box, got 1}}
  kgpu.copy_in %t[%i] to %s of %c[%p] : !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_in_c2(%b: !tile.ptr<f16>, %e: i64, %p: !kgpu.cursor<2>, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e] strides [%e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %c = kgpu.channel bytes fillers 1 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  %q = kgpu.advance %p : !kgpu.cursor<2>
  // expected-error @below {{expected memory acquired from this channel at this cursor (because the slot's mbarrier counts the bytes that arrive), got other memory}}
  kgpu.copy_in %t[%i, %i] to %s of %c[%q] : !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_in_c3(%b: !tile.ptr<f16>, %e: i64, %p: !kgpu.cursor<2>, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e] strides [%e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %t = kgpu.tensor_map %d box [24, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %c = kgpu.channel bytes fillers 1 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{expected boxes that fill the memory (because copies write whole boxes), got [24, 64] swizzled over 128 for}}
  kgpu.copy_in %t[%i, %i] to %s of %c[%p] : !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

// For dimensions that the memory lacks, the box has one element.
!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_in_c3_in_front(%b: !tile.ptr<f16>, %e: i64, %p: !kgpu.cursor<2>, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e, %e] strides [%e, %e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<2x64x64xf16>>
  %t = kgpu.tensor_map %d box [2, 64, 64] swizzle 128 : !tile.desc<tensor<2x64x64xf16>>
  %c = kgpu.channel bytes fillers 1 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{expected boxes that fill the memory (because copies write whole boxes), got [2, 64, 64] swizzled over 128 for}}
  kgpu.copy_in %t[%i, %i, %i] to %s of %c[%p] : !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

// A box is written with its last dimension fastest: memory in another order cannot be its target.
!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] order [0, 1] element 2 bytes 128>>
func.func @copy_in_c3_transposed(%b: !tile.ptr<f16>, %e: i64, %p: !kgpu.cursor<2>, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e] strides [%e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %c = kgpu.channel bytes fillers 1 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{expected boxes that fill the memory (because copies write whole boxes), got [64, 64] swizzled over 128 for}}
  kgpu.copy_in %t[%i, %i] to %s of %c[%p] : !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

// Every CTA has the whole block, so each of two sends half of it to both.
!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128 ctas 2>>
func.func @copy_in_c3_multicast(%b: !tile.ptr<f16>, %e: i64, %p: !kgpu.cursor<2>, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e] strides [%e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %c = kgpu.channel bytes fillers 1 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{expected boxes that fill the memory (because copies write whole boxes), got [64, 64] swizzled over 128 for}}
  kgpu.copy_in %t[%i, %i] to %s of %c[%p] : !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_in_c4(%b: !tile.ptr<f16>, %e: i64, %p: !kgpu.cursor<2>, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e] strides [%e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %c = kgpu.channel threads fillers 4 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{expected a channel that completes by bytes (because the copy engine signals bytes), got one that completes by threads}}
  kgpu.copy_in %t[%i, %i] to %s of %c[%p] : !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
func.func @receive_c3(%p: !kgpu.cursor<2>) {
  %c = kgpu.channel threads fillers 4 readers 4 : !kgpu.channel<2 x (!m)>
  // expected-error @below {{expected a number of pending groups, 0 unless the channel completes by groups (because other slots have an mbarrier each), got 1}}
  %m = kgpu.receive %c[%p] pending 1 : !kgpu.channel<2 x (!m)> -> !m
  return
}

// -----

!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
func.func @receive_c4(%p: !kgpu.cursor<2>) {
  %c = kgpu.channel groups fillers 4 readers 4 : !kgpu.channel<2 x (!m)>
  // expected-error @below {{expected a channel with mbarriers (because copies by groups are received with a barrier of the role, so a slot is received once), got one that completes by groups}}
  %m = kgpu.receive %c[%p] again : !kgpu.channel<2 x (!m)> -> !m
  return
}

// -----

!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
func.func @receive_c5(%p: !kgpu.cursor<2>) {
  %c = kgpu.channel bytes fillers 1 readers 4 : !kgpu.channel<2 x (!m)>
  // expected-error @below {{expected a channel that completes by groups (because only there does a warp wait for its own copies), got one that completes by bytes}}
  %m = kgpu.receive %c[%p] by_warp : !kgpu.channel<2 x (!m)> -> !m
  return
}

// -----

!m = !kgpu.mem<32xf32, #layout.map<row_major [32]>>
func.func @receive_c6(%p: !kgpu.cursor<2>, %other: i1) {
  %c = kgpu.channel threads fillers 4 readers 4 : !kgpu.channel<2 x (!m)>
  // expected-error @below {{expected `again` (because any other slot is waited for unconditionally), got a condition alone}}
  %m = kgpu.receive %c[%p] unless %other : !kgpu.channel<2 x (!m)> -> !m
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_block_c1(%d: !tile.desc<tensor<64x64xf16>>, %p: !kgpu.cursor<2>, %i: i32) {
  %c = kgpu.channel groups fillers 4 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{expected one offset per dimension of the block, got 1}}
  kgpu.copy_block %d[%i] to %s of %c[%p] : !tile.desc<tensor<64x64xf16>>, !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_block_evicts_by_a_known_number(%d: !tile.desc<tensor<64x64xf16>>, %p: !kgpu.cursor<2>, %i: i32) {
  %c = kgpu.channel groups fillers 4 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{attribute 'evict' failed to satisfy constraint: 32-bit signless integer attribute whose minimum value is 0 whose maximum value is 2}}
  kgpu.copy_block %d[%i, %i] to %s of %c[%p] {evict = -1 : i32} : !tile.desc<tensor<64x64xf16>>, !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_block_c2(%d: !tile.desc<tensor<64x64xf16>>, %p: !kgpu.cursor<2>, %i: i32) {
  %c = kgpu.channel groups fillers 4 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  %q = kgpu.advance %p : !kgpu.cursor<2>
  // expected-error @below {{expected memory acquired from this channel at this cursor (because its commit commits the group of these copies), got other memory}}
  kgpu.copy_block %d[%i, %i] to %s of %c[%q] : !tile.desc<tensor<64x64xf16>>, !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_block_c3(%d: !tile.desc<tensor<64x32xf16>>, %p: !kgpu.cursor<2>, %i: i32) {
  %c = kgpu.channel groups fillers 4 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{expected memory of the shape and element type of the copied tile, got}}
  kgpu.copy_block %d[%i, %i] to %s of %c[%p] : !tile.desc<tensor<64x32xf16>>, !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_block_c4(%d: !tile.desc<tensor<64x64xf16>>, %p: !kgpu.cursor<2>, %i: i32) {
  %c = kgpu.channel threads fillers 4 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{expected a channel that completes by groups (because copies by threads are committed in groups), got one that completes by threads}}
  kgpu.copy_block %d[%i, %i] to %s of %c[%p] : !tile.desc<tensor<64x64xf16>>, !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_tile_c1(%x: tensor<64x64x!tile.ptr<f16>>, %inside: tensor<64x32xi1>, %p: !kgpu.cursor<2>) {
  %c = kgpu.channel groups fillers 4 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{expected a tile of pointers and a mask of its shape (because each pointer needs its own condition), got}}
  kgpu.copy_tile %x mask %inside to %s of %c[%p] : tensor<64x64x!tile.ptr<f16>> mask tensor<64x32xi1>, !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_tile_c2(%x: tensor<64x64x!tile.ptr<f16>>, %p: !kgpu.cursor<2>) {
  %c = kgpu.channel groups fillers 4 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.receive %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{expected memory acquired from this channel at this cursor (because its commit commits the group of these copies), got other memory}}
  kgpu.copy_tile %x to %s of %c[%p] : tensor<64x64x!tile.ptr<f16>>, !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_tile_c3(%x: tensor<64x64x!tile.ptr<bf16>>, %p: !kgpu.cursor<2>) {
  %c = kgpu.channel groups fillers 4 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{expected memory of the shape and element type of the copied tile, got}}
  kgpu.copy_tile %x to %s of %c[%p] : tensor<64x64x!tile.ptr<bf16>>, !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_tile_c4(%x: tensor<64x64x!tile.ptr<f16>>, %p: !kgpu.cursor<2>) {
  %c = kgpu.channel bytes fillers 1 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{expected a channel that completes by groups (because copies by threads are committed in groups), got one that completes by bytes}}
  kgpu.copy_tile %x to %s of %c[%p] : tensor<64x64x!tile.ptr<f16>>, !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

// Before the memory's dimensions a box has one element.
!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_in_c3_in_front(%b: !tile.ptr<f16>, %e: i64, %p: !kgpu.cursor<2>, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e, %e] strides [%e, %e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<2x64x64xf16>>
  %t = kgpu.tensor_map %d box [2, 64, 64] swizzle 128 : !tile.desc<tensor<2x64x64xf16>>
  %c = kgpu.channel bytes fillers 1 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{expected boxes that fill the memory (because copies write whole boxes), got [2, 64, 64] swizzled over 128 for}}
  kgpu.copy_in %t[%i, %i, %i] to %s of %c[%p] : !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

// The memory has a dimension that the array lacks.
!m = !kgpu.mem<1x64xf16, #layout.map<row_major [1, 64]>>
func.func @copy_in_c3_rank(%b: !tile.ptr<f16>, %e: i64, %p: !kgpu.cursor<2>, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e] strides [%one] : !tile.ptr<f16> -> !tile.desc<tensor<64xf16>>
  %t = kgpu.tensor_map %d box [64] swizzle 0 : !tile.desc<tensor<64xf16>>
  %c = kgpu.channel bytes fillers 1 readers 4 : !kgpu.channel<2 x (!m)>
  %s = kgpu.acquire %c[%p] : !kgpu.channel<2 x (!m)> -> !m
  // expected-error @below {{expected boxes that fill the memory (because copies write whole boxes), got [64] swizzled over 0 for}}
  kgpu.copy_in %t[%i] to %s of %c[%p] : !m, !kgpu.channel<2 x (!m)>
  return
}

// -----

func.func @prefetch_c1(%b: !tile.ptr<f16>, %e: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e] strides [%e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  // expected-error @below {{expected one offset per dimension of the box, got 3}}
  kgpu.prefetch %t[%i, %i, %i] as !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
  return
}

// -----

func.func @prefetch_c2(%b: !tile.ptr<f16>, %e: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e] strides [%e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %t = kgpu.tensor_map %d box [24, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  // expected-error @below {{expected boxes that fill the memory (because copies write whole boxes), got [24, 64] swizzled over 128 for}}
  kgpu.prefetch %t[%i, %i] as !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_out_c1(%b: !tile.ptr<f16>, %e: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e] strides [%e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %m = kgpu.alloc : !m
  // expected-error @below {{expected one offset per dimension of the box, got 3}}
  kgpu.copy_out %m to %t[%i, %i, %i] : !m
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_out_c2(%b: !tile.ptr<f16>, %e: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e] strides [%e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %t = kgpu.tensor_map %d box [64, 32] swizzle 64 : !tile.desc<tensor<64x64xf16>>
  %m = kgpu.alloc : !m
  // expected-error @below {{expected boxes that fill the memory (because copies write whole boxes), got [64, 32] swizzled over 64 for}}
  kgpu.copy_out %m to %t[%i, %i] : !m
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_out_c3(%b: !tile.ptr<f16>, %e: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e] strides [%e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %m = kgpu.alloc : !m
  kgpu.copy_out %m by "fadd" to %t[%i, %i] : !m
  // expected-error @below {{expected a kind and elements that the copy engine combines (because it adds f16, bf16, f32 and i32, and compares i32 as unsigned), got fmax of 'f16'}}
  kgpu.copy_out %m by "fmax" to %t[%i, %i] : !m
  return
}

// -----

!m = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
func.func @copy_out_c3_unknown(%b: !tile.ptr<f16>, %e: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e] strides [%e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %m = kgpu.alloc : !m
  // expected-error @below {{expected a kind and elements that the copy engine combines (because it adds f16, bf16, f32 and i32, and compares i32 as unsigned), got sum of 'f16'}}
  kgpu.copy_out %m by "sum" to %t[%i, %i] : !m
  return
}

// -----

!m = !kgpu.mem<128x64xf16, #layout.map<swizzled [128, 64] element 2 bytes 128>>
func.func @copy_out_c4(%b: !tile.ptr<f16>, %e: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e] strides [%e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %whole = kgpu.tensor_map %d box [128, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  %half = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  %m = kgpu.alloc : !m
  kgpu.roles @multiply groups 2 warps 4 {
    kgpu.copy_out %m to %half[%i, %i] by_group : !m
    // expected-error @below {{expected a role in which each group has whole boxes of the matrix's rows (because one thread of each group copies them), got}}
    kgpu.copy_out %m to %whole[%i, %i] by_group : !m
    kgpu.end_role
  }
  return
}

// -----

!m = !kgpu.mem<128x64xf16, #layout.map<swizzled [128, 64] element 2 bytes 128>>
func.func @copy_out_c4_without_groups(%b: !tile.ptr<f16>, %e: i64, %i: i32) {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %b, shape [%e, %e] strides [%e, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  %m = kgpu.alloc : !m
  // expected-error @below {{expected a role in which each group has whole boxes of the matrix's rows}}
  kgpu.copy_out %m to %t[%i, %i] by_group : !m
  return
}

// -----

func.func @begin_turn_c1() {
  kgpu.roles @load warps 1 {
    kgpu.end_role
  } @multiply warps 4 {
    // expected-error @below {{expected a role of several groups around it (because groups take turns), got none}}
    kgpu.begin_turn
    kgpu.end_turn
    kgpu.end_role
  }
  return
}

// -----

func.func @begin_turn_c2() {
  kgpu.roles @multiply groups 2 warps 4 {
    // expected-error @below {{expected kgpu.end_turn next in its block (because the next group waits for it), got none}}
    kgpu.begin_turn
    kgpu.begin_turn
    kgpu.end_turn
    kgpu.end_role
  }
  return
}

// -----

func.func @end_turn_c1() {
  kgpu.roles @multiply groups 2 warps 4 {
    kgpu.begin_turn
    kgpu.end_turn
    // expected-error @below {{expected kgpu.begin_turn before it in its block (because a group ends its own turn), got none}}
    kgpu.end_turn
    kgpu.end_role
  }
  return
}

// -----

func.func @copy_out_wait_c1() {
  // expected-error @below {{expected at least 0 groups pending (because it is a count), got -1}}
  kgpu.copy_out_wait read -1
  return
}

// -----

func.func @roles_c1() {
  // expected-error @below {{expected a name, warps, groups and registers for each region (because each is a role), got 1 names for 2 regions}}
  "kgpu.roles"() <{names = ["load"], warps = array<i32: 1, 4>, groups = array<i32: 1, 1>, registers = array<i32: 0, 0>}> ({
    kgpu.end_role
  }, {
    kgpu.end_role
  }) : () -> ()
  return
}

// -----

func.func @roles_c1_none() {
  // expected-error @below {{expected a name, warps, groups and registers for each region (because each is a role), got 0 names for 0 regions}}
  kgpu.roles
  return
}

// -----

func.func @roles_c2() {
  // expected-error @below {{expected a power of two as warps and at least one group (because layouts are powers of two), got 3 and 1}}
  kgpu.roles @load warps 3 {
    kgpu.end_role
  }
  return
}

// -----

func.func @roles_c2_groups() {
  // expected-error @below {{expected a power of two as warps and at least one group (because layouts are powers of two), got 4 and 0}}
  kgpu.roles @load groups 0 warps 4 {
    kgpu.end_role
  }
  return
}

// -----

func.func @roles_c3() {
  // expected-error @below {{expected 0 registers, or a multiple of 8 from 24 to 240 (because setmaxnreg takes no others), got 36}}
  kgpu.roles @load warps 4 registers 36 {
    kgpu.end_role
  }
  return
}

// -----

func.func @roles_c4(%x: tensor<32xf32>) {
  kgpu.roles @load warps 4 {
    // expected-error @below {{expected no tile from outside its role (because the role's threads do not hold its elements), got 'tensor<32xf32>'}}
    %y = arith.addf %x, %x : tensor<32xf32>
    kgpu.end_role
  }
  return
}

// -----

func.func @roles_c5_deeper(%if: i1) {
  scf.if %if {
    // expected-error @below {{expected a single kgpu.roles, in the function's body (because a block is divided into roles once), got scf.if}}
    kgpu.roles @load warps 4 {
      kgpu.end_role
    }
  }
  return
}

// -----

func.func @roles_c5_another() {
  // expected-error @below {{expected a single kgpu.roles, in the function's body (because a block is divided into roles once), got another}}
  kgpu.roles @load warps 4 {
    kgpu.end_role
  }
  kgpu.roles @store warps 4 {
    kgpu.end_role
  }
  return
}
