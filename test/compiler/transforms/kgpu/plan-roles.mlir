// Channels live as long as the kernel; memories of different roles are live together; what the copy engine or products
// access is aligned to the swizzle's period.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-plan-shared-memory | FileCheck %s

// 1024 bytes and 16 bytes of barriers per slot: 2 * 1024 + 32, starting at a multiple of 1024. The first and the second
// exchange of one role share memory if there is a barrier between them anyway, as elsewhere; the other role may be
// anywhere meanwhile.
// CHECK-LABEL: @roles
// CHECK-SAME: kgpu.shared_bytes = 3616 : i64
// CHECK: kgpu.channel bytes fillers 1 readers 4 {offset = 0 : i64}
// CHECK: kgpu.roles @one
// CHECK: kgpu.alloc {offset = 2080 : i64}
// CHECK: kgpu.alloc {offset = 2592 : i64}
// CHECK: kgpu.alloc {offset = 2080 : i64}
// CHECK: @two
// CHECK: kgpu.alloc {offset = 3104 : i64}
#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
#r = #layout.map<row_major [256]>
func.func @roles() attributes {tile.kernel} {
  %ring = kgpu.channel bytes fillers 1 readers 4 : !kgpu.channel<2 x (!kgpu.mem<256xf32, #r>)>
  kgpu.roles @one warps 4 {
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
    kgpu.end_role
  } @two warps 4 {
    %c = arith.constant dense<0.0> : tensor<128xf32, #t>
    %a = kgpu.alloc : !kgpu.mem<128xf32, #m>
    kgpu.local_store %c, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
    %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
    kgpu.end_role
  }
  return
}

// -----

// Allocated outside the roles and used in one: live while any role runs. Memory whose uses end before is not.
// CHECK-LABEL: @around
// CHECK-SAME: kgpu.shared_bytes = 32768 : i64
// CHECK: kgpu.alloc {offset = 0 : i64}
// CHECK: kgpu.alloc {offset = 0 : i64}
// CHECK: kgpu.roles
// CHECK: @two
// CHECK: kgpu.alloc {offset = 16384 : i64}
#t = #layout.map<blocked [4096] vector 4 warps 8>
#u = #layout.map<blocked [4096] vector 4 warps 4>
#m = #layout.map<row_major [4096]>
func.func @around() attributes {tile.kernel} {
  %c = arith.constant dense<0.0> : tensor<4096xf32, #t>
  %before = kgpu.alloc : !kgpu.mem<4096xf32, #m>
  kgpu.local_store %c, %before : tensor<4096xf32, #t>, !kgpu.mem<4096xf32, #m>
  %y = kgpu.local_load %before : !kgpu.mem<4096xf32, #m> -> tensor<4096xf32, #t>
  %a = kgpu.alloc : !kgpu.mem<4096xf32, #m>
  kgpu.roles @one warps 4 {
    %d = arith.constant dense<0.0> : tensor<4096xf32, #u>
    kgpu.local_store %d, %a : tensor<4096xf32, #u>, !kgpu.mem<4096xf32, #m>
    %z = kgpu.local_load %a : !kgpu.mem<4096xf32, #m> -> tensor<4096xf32, #u>
    kgpu.end_role
  } @two warps 4 {
    %d = arith.constant dense<0.0> : tensor<4096xf32, #u>
    %b = kgpu.alloc : !kgpu.mem<4096xf32, #m>
    kgpu.local_store %d, %b : tensor<4096xf32, #u>, !kgpu.mem<4096xf32, #m>
    %z = kgpu.local_load %b : !kgpu.mem<4096xf32, #m> -> tensor<4096xf32, #u>
    kgpu.end_role
  }
  return
}

// -----

// Copies swizzle by address: such memory starts at a multiple of 1024, and, as copies read after the op that starts
// them, it is live until the end. Unswizzled rows start at 128; with the same layout for threads only, at 16.
// CHECK-LABEL: @out
// CHECK: kgpu.alloc {offset = 0 : i64} : <304xf32
// CHECK: kgpu.alloc {offset = 1216 : i64} : <8x64xf16
// CHECK: kgpu.alloc {offset = 3072 : i64} : <8x64xf16
// CHECK: kgpu.alloc {offset = 4096 : i64} : <8x64xf16
// CHECK: kgpu.alloc {offset = 2304 : i64} : <96xf32
#t = #layout.map<blocked [8, 64] vector 2 warps 4>
#s = #layout.map<blocked [304] vector 1 warps 4>
#m = #layout.map<swizzled [8, 64] element 2 bytes 128>
#r = #layout.map<row_major [96]>
#w = #layout.map<row_major [304]>
func.func @out(%p: !tile.ptr<f16>, %q: !tile.ptr<f32>, %i: i32) attributes {tile.kernel} {
  %one = arith.constant 1 : i64
  %side = arith.constant 4096 : i64
  %d = tile.make_desc %p, shape [%side, %side] strides [%side, %one] : !tile.ptr<f16> -> !tile.desc<tensor<8x64xf16>>
  %map = kgpu.tensor_map %d box [8, 64] swizzle 128 : !tile.desc<tensor<8x64xf16>>
  %e = tile.make_desc %q, shape [%side] strides [%one] : !tile.ptr<f32> -> !tile.desc<tensor<96xf32>>
  %row = kgpu.tensor_map %e box [96] swizzle 0 : !tile.desc<tensor<96xf32>>
  %wide = arith.constant dense<0.0> : tensor<304xf32, #s>
  %around = kgpu.alloc : !kgpu.mem<304xf32, #w>
  kgpu.local_store %wide, %around : tensor<304xf32, #s>, !kgpu.mem<304xf32, #w>
  %c = arith.constant dense<0.0> : tensor<8x64xf16, #t>
  %alone = kgpu.alloc : !kgpu.mem<8x64xf16, #m>
  kgpu.local_store %c, %alone : tensor<8x64xf16, #t>, !kgpu.mem<8x64xf16, #m>
  %first = kgpu.alloc : !kgpu.mem<8x64xf16, #m>
  kgpu.local_store %c, %first : tensor<8x64xf16, #t>, !kgpu.mem<8x64xf16, #m>
  kgpu.copy_out %first to %map[%i, %i] : !kgpu.mem<8x64xf16, #m>
  kgpu.copy_out_wait read 0
  %second = kgpu.alloc : !kgpu.mem<8x64xf16, #m>
  kgpu.local_store %c, %second : tensor<8x64xf16, #t>, !kgpu.mem<8x64xf16, #m>
  kgpu.copy_out %second to %map[%i, %i] : !kgpu.mem<8x64xf16, #m>
  %third = kgpu.alloc : !kgpu.mem<96xf32, #r>
  kgpu.copy_out %third to %row[%i] : !kgpu.mem<96xf32, #r>
  %y = kgpu.local_load %alone : !kgpu.mem<8x64xf16, #m> -> tensor<8x64xf16, #t>
  %z = kgpu.local_load %around : !kgpu.mem<304xf32, #w> -> tensor<304xf32, #s>
  return
}

// -----

// Roles take turns with the memory of turn 0, the larger allocation decides its size; that of turn 1, and what a role
// has for itself, have their own bytes.
// CHECK-LABEL: @turns
// CHECK-SAME: kgpu.shared_bytes = 7168 : i64
// CHECK: kgpu.roles @one
// CHECK: kgpu.alloc {offset = 0 : i64, turn = 0 : i32}
// CHECK: kgpu.alloc {offset = 4096 : i64, turn = 1 : i32}
// CHECK: @two
// CHECK: kgpu.alloc {offset = 0 : i64, turn = 0 : i32}
// CHECK: kgpu.alloc {offset = 6144 : i64}
#t = #layout.map<blocked [512] vector 1 warps 4>
#u = #layout.map<blocked [1024] vector 1 warps 4>
#v = #layout.map<blocked [256] vector 1 warps 4>
!small = !kgpu.mem<512xf32, #layout.map<row_major [512]>>
!large = !kgpu.mem<1024xf32, #layout.map<row_major [1024]>>
!own = !kgpu.mem<256xf32, #layout.map<row_major [256]>>
func.func @turns() attributes {tile.kernel} {
  kgpu.roles @one warps 4 {
    %c = arith.constant dense<0.0> : tensor<512xf32, #t>
    %a = kgpu.alloc {turn = 0 : i32} : !small
    kgpu.local_store %c, %a : tensor<512xf32, #t>, !small
    %x = kgpu.local_load %a : !small -> tensor<512xf32, #t>
    %b = kgpu.alloc {turn = 1 : i32} : !small
    kgpu.local_store %x, %b : tensor<512xf32, #t>, !small
    %y = kgpu.local_load %b : !small -> tensor<512xf32, #t>
    kgpu.end_role
  } @two warps 4 {
    %c = arith.constant dense<0.0> : tensor<1024xf32, #u>
    %a = kgpu.alloc {turn = 0 : i32} : !large
    kgpu.local_store %c, %a : tensor<1024xf32, #u>, !large
    %x = kgpu.local_load %a : !large -> tensor<1024xf32, #u>
    %d = arith.constant dense<0.0> : tensor<256xf32, #v>
    %e = kgpu.alloc : !own
    kgpu.local_store %d, %e : tensor<256xf32, #v>, !own
    %z = kgpu.local_load %e : !own -> tensor<256xf32, #v>
    kgpu.end_role
  }
  return
}
