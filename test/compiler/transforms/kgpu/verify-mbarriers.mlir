// No sender is told that memory with an mbarrier was read: the rules that make such memory safe are checked separately.
// RUN: kiln-opt %s --split-input-file --kiln-verify-barriers -verify-diagnostics

#part = #layout.map<digits [16] lane (0) (0) (0) (0) (0) warp (1) (2) cta (4) (8)>
#all = #layout.map<replicated [16] warps 4 ctas 4>
#m = #layout.map<digits [16] cta (0) (0) offset (1) (2) (4) (8)>
func.func @not_awaited(%x: tensor<16xf32, #part>) -> tensor<16xf32, #all> {
  kgpu.cluster_arrive relaxed
  kgpu.cluster_wait
  %m = kgpu.alloc {mbarrier, offset = 0 : i64} : !kgpu.mem<16xf32, #m>
  kgpu.local_store %x, %m : tensor<16xf32, #part>, !kgpu.mem<16xf32, #m>
  // expected-error @below {{expected memory with an mbarrier to be stored to, awaited and read in this order, got another order}}
  %y = kgpu.local_load %m : !kgpu.mem<16xf32, #m> -> tensor<16xf32, #all>
  return %y : tensor<16xf32, #all>
}

// -----

#part = #layout.map<digits [16] lane (0) (0) (0) (0) (0) warp (1) (2) cta (4) (8)>
#all = #layout.map<replicated [16] warps 4 ctas 4>
#m = #layout.map<digits [16] cta (0) (0) offset (1) (2) (4) (8)>
func.func @one_slot(%x: tensor<16xf32, #part>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  kgpu.cluster_arrive relaxed
  kgpu.cluster_wait
  scf.for %i = %zero to %n step %one : i32 {
    // expected-error @below {{expected two slots that the loop's iterations alternate between}}
    %m = kgpu.alloc {mbarrier, offset = 0 : i64} : !kgpu.mem<16xf32, #m>
    kgpu.local_store %x, %m : tensor<16xf32, #part>, !kgpu.mem<16xf32, #m>
    kgpu.await %m : !kgpu.mem<16xf32, #m>
    %y = kgpu.local_load %m : !kgpu.mem<16xf32, #m> -> tensor<16xf32, #all>
  }
  return
}

// -----

#part = #layout.map<digits [16] lane (0) (0) (0) (0) (0) warp (1) (2) cta (4) (8)>
#m = #layout.map<digits [16] cta (0) (0) offset (1) (2) (4) (8)>
func.func @deeper(%x: tensor<16xf32, #part>, %c: i1) {
  kgpu.cluster_arrive relaxed
  kgpu.cluster_wait
  scf.if %c {
    // expected-error @below {{expected memory with an mbarrier in the body of the function or of a role, or in a loop directly in it}}
    %m = kgpu.alloc {mbarrier, offset = 0 : i64} : !kgpu.mem<16xf32, #m>
    kgpu.local_store %x, %m : tensor<16xf32, #part>, !kgpu.mem<16xf32, #m>
    kgpu.await %m : !kgpu.mem<16xf32, #m>
  }
  return
}

// -----

// A view is the same memory: it is read before the data has arrived.
#rows = #layout.map<wgmma_acc [128, 16] groups 1 ctas 2 split 0>
#one = #layout.map<wgmma_acc [64, 16] groups 1 ctas 2 split 1>
#m = #layout.map<digits [128, 16] cta (0, 8) offset (0, 1) (0, 2) (0, 4) (1, 0) (2, 0) (4, 0) (8, 0) (16, 0) (32, 0) (64, 0)>
#v = #layout.map<digits [64, 16] cta (0, 8) offset (0, 1) (0, 2) (0, 4) (1, 0) (2, 0) (4, 0) (8, 0) (16, 0) (32, 0)>
module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 2 : i32} {
  func.func @view_not_awaited(%x: tensor<128x16xf32, #rows>) {
    kgpu.cluster_arrive relaxed
    kgpu.cluster_wait
    kgpu.roles @multiply warps 4 {
      %m = kgpu.alloc {mbarrier, offset = 0 : i64} : !kgpu.mem<128x16xf32, #m>
      %z = arith.constant dense<0.0> : tensor<128x16xf32, #rows>
      kgpu.local_store %z, %m : tensor<128x16xf32, #rows>, !kgpu.mem<128x16xf32, #m>
      %v = kgpu.view %m offset 512 : !kgpu.mem<128x16xf32, #m> -> !kgpu.mem<64x16xf32, #v>
      // expected-error @below {{expected memory with an mbarrier to be stored to, awaited and read in this order, got another order}}
      %y = kgpu.local_load %v : !kgpu.mem<64x16xf32, #v> -> tensor<64x16xf32, #one>
      kgpu.await %m : !kgpu.mem<128x16xf32, #m>
      kgpu.end_role
    }
    return
  }

  // In a role, awaited: nothing is missing.
  func.func @in_a_role() {
    kgpu.cluster_arrive relaxed
    kgpu.cluster_wait
    kgpu.roles @multiply warps 4 {
      %m = kgpu.alloc {mbarrier, offset = 0 : i64} : !kgpu.mem<128x16xf32, #m>
      %z = arith.constant dense<0.0> : tensor<128x16xf32, #rows>
      kgpu.local_store %z, %m : tensor<128x16xf32, #rows>, !kgpu.mem<128x16xf32, #m>
      kgpu.await %m : !kgpu.mem<128x16xf32, #m>
      %v = kgpu.view %m offset 512 : !kgpu.mem<128x16xf32, #m> -> !kgpu.mem<64x16xf32, #v>
      %y = kgpu.local_load %v : !kgpu.mem<64x16xf32, #v> -> tensor<64x16xf32, #one>
      kgpu.end_role
    }
    return
  }
}

// -----

// A relaxed arrival at the start orders nothing: a barrier for the CTA's own memory is still missing.
#t = #layout.map<blocked [128] vector 1 warps 4 ctas 2>
#m = #layout.map<digits [128] cta (0) offset (1) (2) (4) (8) (16) (32) (64)>
func.func @relaxed(%x: tensor<128xf32, #t>) -> tensor<128xf32, #t> {
  %a = kgpu.alloc {offset = 0 : i64} : !kgpu.mem<128xf32, #m>
  // expected-note @below {{the earlier access}}
  kgpu.local_store %x, %a : tensor<128xf32, #t>, !kgpu.mem<128xf32, #m>
  kgpu.cluster_arrive relaxed
  kgpu.cluster_wait
  // expected-error @below {{expected a barrier between this and an earlier access}}
  %y = kgpu.local_load %a : !kgpu.mem<128xf32, #m> -> tensor<128xf32, #t>
  return %y : tensor<128xf32, #t>
}

// -----

// The relaxed arrival initialises the mbarriers: another one leaves them as they are,
#part = #layout.map<digits [16] lane (0) (0) (0) (0) (0) warp (1) (2) cta (4) (8)>
#m = #layout.map<digits [16] cta (0) (0) offset (1) (2) (4) (8)>
func.func @never_set_up(%x: tensor<16xf32, #part>) {
  kgpu.cluster_arrive
  kgpu.cluster_wait
  %m = kgpu.alloc {mbarrier, offset = 0 : i64} : !kgpu.mem<16xf32, #m>
  // expected-error @below {{expected a relaxed arrival at the barrier of the cluster and a wait for it first (because it initialises the mbarriers), got none}}
  kgpu.local_store %x, %m : tensor<16xf32, #part>, !kgpu.mem<16xf32, #m>
  kgpu.await %m : !kgpu.mem<16xf32, #m>
  return
}

// -----

// and a second one would initialise them while they are in use.
#part = #layout.map<digits [16] lane (0) (0) (0) (0) (0) warp (1) (2) cta (4) (8)>
#m = #layout.map<digits [16] cta (0) (0) offset (1) (2) (4) (8)>
func.func @set_up_twice(%x: tensor<16xf32, #part>) {
  kgpu.cluster_arrive relaxed
  kgpu.cluster_wait
  %m = kgpu.alloc {mbarrier, offset = 0 : i64} : !kgpu.mem<16xf32, #m>
  kgpu.local_store %x, %m : tensor<16xf32, #part>, !kgpu.mem<16xf32, #m>
  // expected-error @below {{expected one relaxed arrival, in the function's body (because it initialises the mbarriers), got a second}}
  kgpu.cluster_arrive relaxed
  kgpu.cluster_wait
  kgpu.await %m : !kgpu.mem<16xf32, #m>
  return
}

// -----

#part = #layout.map<digits [16] lane (0) (0) (0) (0) (0) warp (1) (2) cta (4) (8)>
#m = #layout.map<digits [16] cta (0) (0) offset (1) (2) (4) (8)>
func.func @set_up_sometimes(%x: tensor<16xf32, #part>, %c: i1) {
  scf.if %c {
    // expected-error @below {{expected one relaxed arrival, in the function's body (because it initialises the mbarriers), got it deeper}}
    kgpu.cluster_arrive relaxed
    kgpu.cluster_wait
  }
  %m = kgpu.alloc {mbarrier, offset = 0 : i64} : !kgpu.mem<16xf32, #m>
  kgpu.local_store %x, %m : tensor<16xf32, #part>, !kgpu.mem<16xf32, #m>
  kgpu.await %m : !kgpu.mem<16xf32, #m>
  return
}

// -----

// The branch may run in some iterations only, each of which is a phase.
#part = #layout.map<digits [16] lane (0) (0) (0) (0) (0) warp (1) (2) cta (4) (8)>
#all = #layout.map<replicated [16] warps 4 ctas 4>
#m = #layout.map<digits [16] cta (0) (0) offset (1) (2) (4) (8)>
func.func @read_in_a_branch(%x: tensor<16xf32, #part>, %c: i1) {
  kgpu.cluster_arrive relaxed
  kgpu.cluster_wait
  %m = kgpu.alloc {mbarrier, offset = 0 : i64} : !kgpu.mem<16xf32, #m>
  kgpu.local_store %x, %m : tensor<16xf32, #part>, !kgpu.mem<16xf32, #m>
  kgpu.await %m : !kgpu.mem<16xf32, #m>
  scf.if %c {
    // expected-error @below {{expected memory with an mbarrier to be used in the block of its allocation (because each run of that block is one phase of the mbarrier), got another block}}
    %y = kgpu.local_load %m : !kgpu.mem<16xf32, #m> -> tensor<16xf32, #all>
  }
  return
}
