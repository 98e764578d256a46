// RUN: kiln-opt %s --kiln-tile-to-cpu --split-input-file --verify-diagnostics

func.func @asm(%p: !tile.ptr<i32>, %x: i32) attributes {tile.kernel} {
  // expected-error @+1 {{expected a portable body (because the cpu target cannot run PTX assembly), got none}}
  %y = tile.inline_asm "add.u32 $0, $1, 1;" "=r,r" (%x) {isPure} : (i32) -> i32
  tile.store %p, %y : !tile.ptr<i32>, i32
  return
}

// -----

func.func @extern(%p: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 16 : tensor<16xi32>
  %ps = tile.splat %p : !tile.ptr<f32> -> tensor<16x!tile.ptr<f32>>
  %q = tile.addptr %ps, %r : tensor<16x!tile.ptr<f32>>, tensor<16xi32>
  %v = tile.load %q : tensor<16x!tile.ptr<f32>> -> tensor<16xf32>
  // expected-error @+1 {{expected a libdevice function with its declared types (because the cpu target links no other library), got '__nv_nothingf'}}
  %y = tile.extern_call "__nv_nothingf" from "libdevice" (%v) {isPure} : (tensor<16xf32>) -> tensor<16xf32>
  tile.store %q, %y : tensor<16x!tile.ptr<f32>>, tensor<16xf32>
  return
}

// -----

// All ops that this target does not support are reported at once, before any code is emitted.
func.func @both(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %x: f32) attributes {tile.kernel} {
  // expected-error @+1 {{got '__nv_nothingf'}}
  %y = tile.extern_call "__nv_nothingf" from "libdevice" (%x) {isPure} : (f32) -> f32
  tile.store %p, %y : !tile.ptr<f32>, f32
  // expected-error @+1 {{got '__nv_neverf'}}
  %z = tile.extern_call "__nv_neverf" from "libdevice" (%x) {isPure} : (f32) -> f32
  tile.store %q, %z : !tile.ptr<f32>, f32
  return
}
