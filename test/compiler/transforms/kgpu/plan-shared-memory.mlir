// Allocations that are live together are separate; others share bytes if there is a barrier between them anyway, or if
// memory is scarce.
// RUN: kiln-opt %s --split-input-file --kiln-plan-shared-memory | FileCheck %s

#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
// The third exchange starts after the barrier of the second: the first one's bytes are free by then.
// CHECK-LABEL: @chain
// CHECK-SAME: kgpu.shared_bytes = 1024 : i64
// CHECK: kgpu.alloc {offset = 0 : i64}
// CHECK: kgpu.alloc {offset = 512 : i64}
// CHECK: kgpu.alloc {offset = 0 : i64}
func.func @chain() attributes {tile.kernel} {
  %c = arith.constant dense<0.0> : tensor<128xf32, #t>
  %a = kgpu.alloc : !kgpu.mem<128xf32, #m>
  kgpu.local_store %c, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  %b = kgpu.alloc : !kgpu.mem<128xf32, #m>
  kgpu.local_store %y, %b : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  %z = kgpu.local_load %b : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  %d = kgpu.alloc : !kgpu.mem<128xf32, #m>
  kgpu.local_store %z, %d : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  %w = kgpu.local_load %d : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  return
}

// -----

// Large tiles: sharing right away, at the price of a barrier, is better than twice the memory.
#t = #layout.map<blocked [4096] vector 4 warps 4>
#m = #layout.map<row_major [4096]>
// CHECK-LABEL: @large
// CHECK-SAME: kgpu.shared_bytes = 16384 : i64
// CHECK: kgpu.alloc {offset = 0 : i64}
// CHECK: kgpu.alloc {offset = 0 : i64}
func.func @large() attributes {tile.kernel} {
  %c = arith.constant dense<0.0> : tensor<4096xf32, #t>
  %a = kgpu.alloc : !kgpu.mem<4096xf32, #m>
  kgpu.local_store %c, %a : tensor<4096xf32, #t>, !kgpu.mem<4096xf32, #m>
  %y = kgpu.local_load %a : !kgpu.mem<4096xf32, #m> -> tensor<4096xf32, #t>
  %b = kgpu.alloc : !kgpu.mem<4096xf32, #m>
  kgpu.local_store %y, %b : tensor<4096xf32, #t>, !kgpu.mem<4096xf32, #m>
  %z = kgpu.local_load %b : !kgpu.mem<4096xf32, #m> -> tensor<4096xf32, #t>
  return
}

// -----

// Slots are live as long as the loop runs; what is live around the loop is separate from them.
#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
// CHECK-LABEL: @loop
// CHECK-SAME: kgpu.shared_bytes = 1536 : i64
// CHECK: kgpu.alloc {offset = 1024 : i64}
// CHECK: kgpu.alloc {offset = 0 : i64, slots = 2 : i32}
func.func @loop(%n: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %c = arith.constant dense<0.0> : tensor<128xf32, #t>
  %a = kgpu.alloc : !kgpu.mem<128xf32, #m>
  kgpu.local_store %c, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  %r = scf.for %i = %zero to %n step %one iter_args(%phase = %zero) -> i32 : i32 {
    %b = kgpu.alloc {slots = 2 : i32} : !kgpu.mem<128xf32, #m>
    %s = kgpu.slot %b[%phase] : !kgpu.mem<128xf32, #m>
    kgpu.local_store %c, %s : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    %y = kgpu.local_load %s : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
    %next = arith.xori %phase, %one : i32
    scf.yield %next : i32
  }
  %z = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  return
}

// -----

// Never read: both the memory and the store are removed.
#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
// CHECK-LABEL: @unread
// CHECK-SAME: kgpu.shared_bytes = 0 : i64
// CHECK-NOT: kgpu.alloc
// CHECK-NOT: kgpu.local_store
// CHECK: return
func.func @unread() attributes {tile.kernel} {
  %c = arith.constant dense<0.0> : tensor<128xf32, #t>
  %a = kgpu.alloc : !kgpu.mem<128xf32, #m>
  kgpu.local_store %c, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  return
}

// -----

// Tensor cores read after their op, and a transposed view is the same memory.
#rows = #layout.map<swizzled [64, 64] element 2 bytes 128>
#turned = #layout.map<swizzled [64, 64] order [0, 1] element 2 bytes 128>
#t = #layout.map<blocked [64, 64] vector 8 warps 4>
#acc = #layout.map<wgmma_acc [64, 64] groups 1>
// CHECK-LABEL: @under_way
// CHECK-SAME: kgpu.shared_bytes = 16384 : i64
func.func @under_way() attributes {tile.kernel} {
  %x = arith.constant dense<0.0> : tensor<64x64xf16, #t>
  %c = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %a = kgpu.alloc : !kgpu.mem<64x64xf16, #rows>
  kgpu.local_store %x, %a : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
  %v = kgpu.trans %a [1, 0] : !kgpu.mem<64x64xf16, #rows> -> !kgpu.mem<64x64xf16, #turned>
  %d = kgpu.warpgroup_mma %v, %v, %c : !kgpu.mem<64x64xf16, #turned>, !kgpu.mem<64x64xf16, #turned>
    -> tensor<64x64xf32, #acc>
  %b = kgpu.alloc : !kgpu.mem<64x64xf16, #rows>
  kgpu.local_store %x, %b : tensor<64x64xf16, #t>, !kgpu.mem<64x64xf16, #rows>
  %z = kgpu.local_load %b : !kgpu.mem<64x64xf16, #rows> -> tensor<64x64xf16, #t>
  %e = kgpu.mma_wait %d pending 0 : tensor<64x64xf32, #acc>
  return
}

// -----

// A ring of threads' own copies ends with the last receive if nothing of it is read: later allocations may use its
// bytes. Earlier ones may not.
#t = #layout.map<blocked [512] vector 4 warps 4>
#m = #layout.map<row_major [512]>
!mem = !kgpu.mem<512xf32, #m>
!ring = !kgpu.channel<2 x (!mem)>
// CHECK-LABEL: @behind_a_ring
// CHECK-SAME: kgpu.shared_bytes = 6144 : i64
// CHECK: kgpu.channel {{.*}}offset = [[RING:[0-9]+]]
// CHECK: kgpu.alloc {offset = {{[0-9]+}} : i64}
// CHECK: kgpu.alloc {offset = [[RING]] : i64}
func.func @behind_a_ring(%p: !tile.ptr<f32>, %n: i64, %i: i32) attributes {tile.kernel} {
  %one = arith.constant 1 : i64
  %d = tile.make_desc %p, shape [%n] strides [%one] : !tile.ptr<f32> -> !tile.desc<tensor<512xf32>>
  %z = arith.constant dense<0.0> : tensor<512xf32, #t>
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  %c = kgpu.cursor : !kgpu.cursor<2>
  %e = kgpu.advance %c : !kgpu.cursor<2>
  %b = kgpu.alloc : !mem
  kgpu.local_store %z, %b : tensor<512xf32, #t>, !mem
  %w = kgpu.local_load %b : !mem -> tensor<512xf32, #t>
  %s = kgpu.acquire %ch[%c] : !ring -> !mem
  kgpu.copy_block %d[%i] to %s of %ch[%c] : !tile.desc<tensor<512xf32>>, !mem, !ring
  kgpu.commit %ch[%c] : !ring
  %s1 = kgpu.acquire %ch[%e] : !ring -> !mem
  kgpu.commit %ch[%e] : !ring
  %r = kgpu.receive %ch[%c] pending 1 : !ring -> !mem
  %x = kgpu.local_load %r : !mem -> tensor<512xf32, #t>
  kgpu.release %ch[%c] : !ring
  %r1 = kgpu.receive %ch[%e] : !ring -> !mem
  kgpu.release %ch[%e] : !ring
  %sum = arith.addf %x, %w : tensor<512xf32, #t>
  %a = kgpu.alloc : !mem
  kgpu.local_store %sum, %a : tensor<512xf32, #t>, !mem
  %y = kgpu.local_load %a : !mem -> tensor<512xf32, #t>
  return
}
