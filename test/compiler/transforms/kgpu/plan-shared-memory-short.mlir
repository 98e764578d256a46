// If memory is short, a ring ends before the exchange after its loop, which then uses its bytes.
// RUN: kiln-opt %s --kiln-set-target=target=sm_90a --kiln-plan-shared-memory --kiln-insert-barriers --kiln-verify-barriers | FileCheck %s

#t = #layout.map<blocked [16384] vector 4 warps 4>
#m = #layout.map<row_major [16384]>
!mem = !kgpu.mem<16384xf32, #m>
!ring = !kgpu.channel<3 x (!kgpu.mem<16384xf32, #m>)>
// Separately, the ring (196608 bytes) and the exchange (65536) exceed the 232448 available.
// CHECK-LABEL: func.func @short
// CHECK-SAME: kgpu.shared_bytes = 196608 : i64
// CHECK: kgpu.commit
// CHECK: kgpu.receive
// CHECK-NEXT: kgpu.release
// CHECK-NEXT: kgpu.alloc
// CHECK: return
func.func @short(%p: !tile.ptr<f32>, %n: i64, %i: i32) attributes {tile.kernel} {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %p, shape [%n] strides [%one] : !tile.ptr<f32> -> !tile.desc<tensor<16384xf32>>
  %z = arith.constant dense<0.0> : tensor<16384xf32, #t>
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<3>
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  kgpu.copy_block %d[%i] to %s of %ch[%c] : !tile.desc<tensor<16384xf32>>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %a = kgpu.alloc : !mem
  kgpu.local_store %z, %a : tensor<16384xf32, #t>, !mem
  %y = kgpu.local_load %a : !mem -> tensor<16384xf32, #t>
  %r = kgpu.receive %ch[%c] : !ring -> !mem
  kgpu.release %ch[%c] : !ring
  return
}

// Operands of products, 64 KiB each, share bytes after the waits: the second pair is where the first was.
// CHECK-LABEL: func.func @products
// CHECK-SAME: kgpu.shared_bytes = 131072 : i64
// CHECK: kgpu.mma_wait
// CHECK: kgpu.barrier
// CHECK: kgpu.local_store
// CHECK: kgpu.mma_wait
// CHECK: return
#ta = #layout.map<blocked [64, 512] vector 8 warps 4>
#tb = #layout.map<blocked [512, 64] vector 8 warps 4>
#acc = #layout.map<wgmma_acc [64, 64] groups 1>
!a = !kgpu.mem<64x512xf16, #layout.map<swizzled [64, 512] element 2 bytes 128>>
!b = !kgpu.mem<512x64xf16, #layout.map<swizzled [512, 64] element 2 bytes 128>>
func.func @products() attributes {tile.kernel} {
  %x = arith.constant dense<1.0> : tensor<64x512xf16, #ta>
  %y = arith.constant dense<1.0> : tensor<512x64xf16, #tb>
  %z = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %a = kgpu.alloc : !a
  kgpu.local_store %x, %a : tensor<64x512xf16, #ta>, !a
  %b = kgpu.alloc : !b
  kgpu.local_store %y, %b : tensor<512x64xf16, #tb>, !b
  %p = kgpu.warpgroup_mma %a, %b, %z : !a, !b -> tensor<64x64xf32, #acc>
  %q = kgpu.mma_wait %p pending 0 : tensor<64x64xf32, #acc>
  %c = kgpu.alloc : !a
  kgpu.local_store %x, %c : tensor<64x512xf16, #ta>, !a
  %d = kgpu.alloc : !b
  kgpu.local_store %y, %d : tensor<512x64xf16, #tb>, !b
  %r = kgpu.warpgroup_mma %c, %d, %q : !a, !b -> tensor<64x64xf32, #acc>
  %s = kgpu.mma_wait %r pending 0 : tensor<64x64xf32, #acc>
  return
}
