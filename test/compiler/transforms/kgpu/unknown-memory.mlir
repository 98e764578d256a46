// Memory of unknown origin is rejected by every analysis that needs its origin.
// RUN: kiln-opt %s --split-input-file --kiln-insert-barriers -verify-diagnostics
// RUN: kiln-opt %s --split-input-file --kiln-verify-barriers -verify-diagnostics
// RUN: kiln-opt %s --split-input-file --kiln-plan-shared-memory -verify-diagnostics

#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
func.func @one_of_two(%c: i1) attributes {tile.kernel} {
  %x = arith.constant dense<1.0> : tensor<128xf32, #t>
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  %b = kgpu.alloc {offset = 512 : i64} : !kgpu.mem<128xf32, #m>
  %s = arith.select %c, %a, %b : !kgpu.mem<128xf32, #m>
  // expected-error @below {{'kgpu.local_store' op expected memory of a kgpu.alloc or of a channel's slot, and declared effects on it (because barriers are placed by who reads and writes it), got memory from elsewhere}}
  kgpu.local_store %x, %s : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  return
}

// -----

#t = #layout.map<blocked [128] vector 1 warps 4>
#m = #layout.map<row_major [128]>
func.func @of_a_branch(%c: i1) attributes {tile.kernel} {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  %b = kgpu.alloc {offset = 512 : i64} : !kgpu.mem<128xf32, #m>
  %s = scf.if %c -> !kgpu.mem<128xf32, #m> {
    scf.yield %a : !kgpu.mem<128xf32, #m>
  } else {
    scf.yield %b : !kgpu.mem<128xf32, #m>
  }
  // expected-error @below {{got memory from elsewhere}}
  %y = kgpu.local_load %s : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  return
}

// -----

// Carried by a loop: which memory it is depends on the iteration.
#m = #layout.map<row_major [128]>
func.func @carried(%n: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  %b = kgpu.alloc {offset = 512 : i64} : !kgpu.mem<128xf32, #m>
  // expected-error @below {{got an op without declared effects}}
  %r:2 = scf.for %i = %zero to %n step %one iter_args(%s = %a, %t = %b)
      -> (!kgpu.mem<128xf32, #m>, !kgpu.mem<128xf32, #m>) : i32 {
    scf.yield %t, %s : !kgpu.mem<128xf32, #m>, !kgpu.mem<128xf32, #m>
  }
  return
}
