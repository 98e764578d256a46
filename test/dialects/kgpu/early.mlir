// What schedules emit is legal before layouts are assigned: tiles have none yet, memory does.
// RUN: kiln-opt %s | kiln-opt | FileCheck %s

!half = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128 ctas 2 split 0>>
// CHECK-LABEL: @through_memory_of_a_cluster
func.func @through_memory_of_a_cluster(%x: tensor<64x64xf16>) -> tensor<64x64xf16> {
  %m = kgpu.alloc : !half
  // CHECK: kgpu.local_store %{{.*}}, %{{.*}} : tensor<64x64xf16>, <64x64xf16
  kgpu.local_store %x, %m : tensor<64x64xf16>, !half
  // CHECK: kgpu.local_load %{{.*}} -> tensor<64x64xf16>
  %y = kgpu.local_load %m : !half -> tensor<64x64xf16>
  return %y : tensor<64x64xf16>
}
