// More than a block may have: the error gives what is required, what is available and which option to change, at the
// largest tile. On targets without clusters it does not advise one.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_86 --kiln-plan-shared-memory -verify-diagnostics

#t = #layout.map<blocked [32768] vector 4 warps 4>
#m = #layout.map<row_major [32768]>
func.func @too_much() attributes {tile.kernel} {
  %c = arith.constant dense<0.0> : tensor<32768xf32, #t>
  // expected-error @below {{out of bytes of shared memory per block: required 131072, available 101376 (reduce the tile's size)}}
  %a = kgpu.alloc : !kgpu.mem<32768xf32, #m>
  kgpu.local_store %c, %a : tensor<32768xf32, #t>, !kgpu.mem<32768xf32, #m>
  %y = kgpu.local_load %a : !kgpu.mem<32768xf32, #m> -> tensor<32768xf32, #t>
  return
}

// -----

// A ring of slots: use fewer slots, or smaller ones.
#m = #layout.map<swizzled [128, 64] element 2 bytes 128>
func.func @too_many_slots() attributes {tile.kernel} {
  // expected-error @below {{out of bytes of shared memory per block: required 114800, available 101376 (reduce stages= or the tile's size)}}
  %c = kgpu.channel bytes fillers 1 readers 4 : !kgpu.channel<7 x (!kgpu.mem<128x64xf16, #m>)>
  return
}

// -----

// Slots are consecutive, and the copy engine needs each at a multiple of 128.
#m = #layout.map<row_major [40]>
func.func @slots(%p: !tile.ptr<f32>, %i: i32) attributes {tile.kernel} {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %p, shape [%one] strides [%one] : !tile.ptr<f32> -> !tile.desc<tensor<40xf32>>
  %map = kgpu.tensor_map %d box [40] swizzle 0 : !tile.desc<tensor<40xf32>>
  // expected-error @below {{expected slots of a multiple of 128 bytes (because the copy engine and products need that alignment), got 160}}
  %a = kgpu.alloc {slots = 2 : i32} : !kgpu.mem<40xf32, #m>
  %s = kgpu.slot %a[%i] : !kgpu.mem<40xf32, #m>
  kgpu.copy_out %s to %map[%i] : !kgpu.mem<40xf32, #m>
  return
}
