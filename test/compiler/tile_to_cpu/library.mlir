// RUN: kiln-opt %s --kiln-tile-to-cpu | FileCheck %s

// A device-library function without an op: one declaration, one call per lane.
// CHECK-COUNT-1: llvm.func @__nv_erfinvf(f32) -> f32
// CHECK-LABEL: func.func @kiln_inverse
// CHECK-COUNT-8: llvm.call @__nv_erfinvf(
// CHECK-NOT: llvm.call @__nv_erfinvf(
func.func @inverse(%p: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 8 : tensor<8xi32>
  %ps = tile.splat %p : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %q = tile.addptr %ps, %r : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %v = tile.load %q : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
  %y = tile.extern_call "__nv_erfinvf" from "libdevice" (%v) {isPure} : (tensor<8xf32>) -> tensor<8xf32>
  tile.store %q, %y : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
  return
}
