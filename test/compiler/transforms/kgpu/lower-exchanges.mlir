// What crosses warps goes through shared memory; what stays inside a warp is unchanged.
// RUN: kiln-opt %s --split-input-file --kiln-lower-exchanges | FileCheck %s

// One partial per warp, one exchange; every warp reduces the partials.
// CHECK: #[[ROW:.*]] = #layout.map<blocked [4096] vector 8 warps 4>
// CHECK: #[[PART:.*]] = #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>
// CHECK-LABEL: @sum
// CHECK: %[[P:.*]] = kgpu.partial_reduce(%{{.*}}) axis 0 {
// CHECK: arith.addf
// CHECK: kgpu.yield
// CHECK: } : (tensor<4096xf32, #[[ROW]]>) -> tensor<4xf32, #[[PART]]>
// CHECK: %[[M:.*]] = kgpu.alloc : <4xf32, #row_major>
// CHECK: kgpu.local_store %[[P]], %[[M]]
// CHECK-NOT: kgpu.barrier
// CHECK: %[[Q:.*]] = kgpu.local_load %[[M]] : <4xf32, #row_major> -> tensor<4xf32, #replicated>
// CHECK: tile.reduce(%[[Q]]) axis 0 {
// CHECK: } : (tensor<4xf32, #replicated>) -> f32
#row = #layout.map<blocked [4096] vector 8 warps 4>
func.func @sum(%x: tensor<4096xf32, #row>) -> f32 {
  %s = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4096xf32, #row>) -> f32
  return %s : f32
}

// -----

// Rows that lie inside a warp: nothing to exchange.
// CHECK-LABEL: @rows
// CHECK-NOT: kgpu.
// CHECK: return
#tile = #layout.map<blocked [16, 128] vector 4 warps 4>
#rows = #layout.map<digits [16] reg (4) (8) lane (0) (0) (0) (0) (0) warp (1) (2)>
func.func @rows(%x: tensor<16x128xf32, #tile>) -> tensor<16xf32, #rows> {
  %s = tile.reduce(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<16x128xf32, #tile>) -> tensor<16xf32, #rows>
  return %s : tensor<16xf32, #rows>
}

// -----

// Sixteen warps: four partials in registers of each of four lanes.
// CHECK: #[[PARTS:.*]] = #layout.map<blocked [16] vector 4 warps 16>
// CHECK-LABEL: @many_warps
// CHECK: kgpu.local_load {{.*}} -> tensor<16xf32, #[[PARTS]]>
#row = #layout.map<blocked [16384] vector 8 warps 16>
func.func @many_warps(%x: tensor<16384xf32, #row>) -> f32 {
  %s = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<16384xf32, #row>) -> f32
  return %s : f32
}

// -----

// A region not known to be commutative: the four pieces of each warp stay separate, in the order of the axis.
// CHECK: #[[PART:.*]] = #layout.map<digits [16] reg (4) (8) lane (0) (0) (0) (0) (0) warp (1) (2)>
// CHECK-LABEL: @ordered
// CHECK: kgpu.partial_reduce(%{{.*}}) axis 0 ordered {
// CHECK: -> tensor<16xf32, #[[PART]]>
#row = #layout.map<blocked [4096] vector 8 warps 4>
func.func @ordered(%x: tensor<4096xf32, #row>) -> f32 {
  %s = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    tile.yield %b : f32
  } : (tensor<4096xf32, #row>) -> f32
  return %s : f32
}

// -----

// The mean, then squares of the deviations: the second reduction needs the first.
// CHECK-LABEL: @dependent
// CHECK-COUNT-2: kgpu.partial_reduce
#row = #layout.map<blocked [4096] vector 8 warps 4>
func.func @dependent(%x: tensor<4096xf32, #row>) -> f32 {
  %s = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4096xf32, #row>) -> f32
  %m = tile.splat %s : f32 -> tensor<4096xf32, #row>
  %y = arith.subf %x, %m : tensor<4096xf32, #row>
  %t = tile.reduce(%y) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4096xf32, #row>) -> f32
  return %t : f32
}

// -----

// A conversion between warps is a store and a load; one inside a warp stays.
// CHECK-LABEL: @convert
// CHECK: kgpu.alloc
// CHECK: kgpu.local_store
// CHECK: %[[Y:.*]] = kgpu.local_load
// CHECK: kgpu.convert %[[Y]]
#one = #layout.map<blocked [512] vector 4 warps 4>
#two = #layout.map<blocked [512] vector 1 warps 4>
#three = #layout.map<digits [512] reg (128) (256) lane (2) (1) (4) (8) (16) warp (32) (64)>
func.func @convert(%x: tensor<512xf32, #one>) -> tensor<512xf32, #three> {
  %y = kgpu.convert %x : tensor<512xf32, #one> -> tensor<512xf32, #two>
  %z = kgpu.convert %y : tensor<512xf32, #two> -> tensor<512xf32, #three>
  return %z : tensor<512xf32, #three>
}

// -----

// A scan across warps: scan each warp's segments, scan their totals, and combine; one exchange.
// CHECK-LABEL: @scan
// CHECK: %[[Y:.*]]:2 = kgpu.partial_scan(%{{.*}}) axis 0 {
// CHECK: kgpu.local_store %[[Y]]#1, %[[M:.*]] :
// CHECK: %[[T:.*]] = kgpu.local_load %[[M]]
// CHECK: %[[P:.*]] = tile.scan(%[[T]]) axis 0 {
// CHECK: kgpu.add_prefix(%[[Y]]#0, %[[P]]) axis 0 {
// CHECK-NOT: kgpu.local_store
#row = #layout.map<blocked [1024] vector 4 warps 4>
func.func @scan(%x: tensor<1024xi32, #row>) -> tensor<1024xi32, #row> {
  %s = tile.scan(%x) axis 0 {
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    tile.yield %c : i32
  } : (tensor<1024xi32, #row>) -> tensor<1024xi32, #row>
  return %s : tensor<1024xi32, #row>
}

// -----

// Only the owner of its element knows the result of an atomic. If it is unused, or held by no other thread, there is
// nothing to do.
// CHECK-LABEL: @atomics
// CHECK: %[[OLD:.*]] = tile.atomic_rmw add
// CHECK: kgpu.local_store %[[OLD]], %[[M:.*]] {byOwner}
// CHECK: %[[KNOWN:.*]] = kgpu.local_load %[[M]]
// CHECK: tile.atomic_rmw add
// CHECK-NOT: kgpu.local_store
// CHECK: tile.atomic_rmw add
// CHECK-NOT: kgpu.local_store
// CHECK: tile.atomic_rmw add
// CHECK: kgpu.local_store %{{.*}} {byOwner}
// CHECK: kgpu.local_load
// CHECK: return %[[KNOWN]]
#row = #layout.map<blocked [128] vector 1 warps 4>
#few = #layout.map<blocked [32] vector 1 warps 4>
func.func @atomics(%p: !tile.ptr<i32>, %q: tensor<128x!tile.ptr<i32>, #row>, %v: tensor<128xi32, #row>, %one: i32,
                   %r: tensor<32x!tile.ptr<i32>, #few>, %w: tensor<32xi32, #few>)
    -> (i32, tensor<128xi32, #row>, tensor<32xi32, #few>) {
  %old = tile.atomic_rmw add relaxed gpu %p, %one : !tile.ptr<i32>, i32
  %unused = tile.atomic_rmw add relaxed gpu %p, %one : !tile.ptr<i32>, i32
  %own = tile.atomic_rmw add relaxed gpu %q, %v : tensor<128x!tile.ptr<i32>, #row>, tensor<128xi32, #row>
  %all = tile.atomic_rmw add relaxed gpu %r, %w : tensor<32x!tile.ptr<i32>, #few>, tensor<32xi32, #few>
  return %old, %own, %all : i32, tensor<128xi32, #row>, tensor<32xi32, #few>
}

// -----

// A row spread over the CTAs of a cluster: every CTA gets every partial, in memory with an mbarrier that counts
// arrivals.
// CHECK: #[[PART:.*]] = #layout.map<digits [16] lane (0) (0) (0) (0) (0) warp (1) (2) cta (4) (8)>
// CHECK: #[[MEM:.*]] = #layout.map<row_major [16] ctas 4>
// CHECK-LABEL: @cluster
// CHECK: kgpu.partial_reduce
// CHECK: -> tensor<16xf32, #[[PART]]>
// CHECK: %[[M:.*]] = kgpu.alloc {mbarrier} : <16xf32, #[[MEM]]>
// CHECK-NEXT: kgpu.local_store %{{.*}}, %[[M]] : tensor<16xf32, #[[PART]]>, <16xf32, #[[MEM]]>
// CHECK-NEXT: kgpu.await %[[M]]
// CHECK-NEXT: kgpu.local_load %[[M]]
#row = #layout.map<blocked [16384] vector 8 warps 4 ctas 4 split 0>
module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 4 : i32} {
  func.func @cluster(%x: tensor<16384xf32, #row>) -> f32 {
    %s = tile.reduce(%x) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<16384xf32, #row>) -> f32
    return %s : f32
  }
}

// -----

// Two bytes cannot be sent and counted, and a branch may send again before the first value was read: plain memory and
// barriers.
// CHECK-LABEL: @no_mbarrier
// CHECK-NOT: mbarrier
// CHECK-NOT: kgpu.await
// CHECK: kgpu.alloc : <16xf16
// CHECK: kgpu.local_store
// CHECK-NEXT: kgpu.local_load
// CHECK: scf.if
// CHECK: kgpu.alloc : <16xf32
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.local_load
#row = #layout.map<blocked [16384] vector 8 warps 4 ctas 4 split 0>
module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 4 : i32} {
  func.func @no_mbarrier(%x: tensor<16384xf16, #row>, %y: tensor<16384xf32, #row>, %c: i1, %zero: f32) -> (f16, f32) {
    %s = tile.reduce(%x) axis 0 {
    ^bb0(%a: f16, %b: f16):
      %t = arith.addf %a, %b : f16
      tile.yield %t : f16
    } : (tensor<16384xf16, #row>) -> f16
    %r = scf.if %c -> f32 {
      %u = tile.reduce(%y) axis 0 {
      ^bb0(%a: f32, %b: f32):
        %t = arith.addf %a, %b : f32
        tile.yield %t : f32
      } : (tensor<16384xf32, #row>) -> f32
      scf.yield %u : f32
    } else {
      scf.yield %zero : f32
    }
    return %s, %r : f16, f32
  }
}

// -----

// Memory that the copy engine reads is waited for: a single slot is enough for all iterations.
#tile = #layout.map<blocked [64, 64] order [1, 0] vector 8 warps 4>
#memory = #layout.map<swizzled [64, 64] element 2 bytes 128>
// CHECK-LABEL: @copied_out
// CHECK: kgpu.alloc : <64x64xf16
// CHECK-NOT: kgpu.slot
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @copied_out(%p: !tile.ptr<f16>, %n: i64, %x: tensor<64x64xf16, #tile>, %lb: i32, %ub: i32, %step: i32) {
    %one = arith.constant 1 : i64
    %d = tile.make_desc %p, shape [%n, %n] strides [%n, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
    scf.for %i = %lb to %ub step %step : i32 {
      %m = kgpu.alloc : !kgpu.mem<64x64xf16, #memory>
      kgpu.copy_out_wait read 0
      kgpu.local_store %x, %m : tensor<64x64xf16, #tile>, !kgpu.mem<64x64xf16, #memory>
      kgpu.copy_out %m to %t[%i, %i] : !kgpu.mem<64x64xf16, #memory>
    }
    return
  }
}

// -----

// If a scalar decides control flow, one thread reads it for all, as it may be written meanwhile; in a waiting loop it
// is read again each time, even if this kernel writes nothing.
// CHECK-LABEL: @flags
// CHECK: tile.load %arg0
// CHECK-NEXT: %[[M:.*]] = kgpu.alloc
// CHECK-NEXT: kgpu.local_store %{{.*}}, %[[M]] {byOwner}
// CHECK-NEXT: %[[N:.*]] = kgpu.local_load %[[M]]
// CHECK: %[[C:.*]] = tile.load %arg1
// CHECK-NEXT: scf.for %{{.*}} = %{{.*}} to %[[N]] step
// CHECK: scf.for %{{.*}} = %{{.*}} to %[[C]] step
// CHECK: scf.while
// CHECK: tile.load %arg1 {isVolatile}
// CHECK-NEXT: kgpu.alloc
// CHECK-NEXT: kgpu.local_store
// CHECK-NEXT: kgpu.local_load
// CHECK: tile.load
// CHECK-NEXT: tile.store
func.func @flags(%p: !tile.ptr<i32>, %q: !tile.ptr<i32> {tile.disjoint}) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = tile.load %p : !tile.ptr<i32> -> i32
  %c = tile.load %q : !tile.ptr<i32> -> i32
  scf.for %i = %zero to %n step %one : i32 {
    tile.barrier
  }
  scf.for %i = %zero to %c step %one : i32 {
    tile.barrier
  }
  scf.while : () -> () {
    %f = tile.load %q : !tile.ptr<i32> -> i32
    %again = arith.cmpi eq, %f, %zero : i32
    scf.condition(%again)
  } do {
    scf.yield
  }
  %v = tile.load %p : !tile.ptr<i32> -> i32
  tile.store %p, %v : !tile.ptr<i32>, i32
  return
}

// -----

// The same for a tile, if several threads hold an element; otherwise a reduction exchanges it. In a loop that searches,
// the address changes: it waits for no program, and the read is not volatile.
#each = #layout.map<replicated [4] warps 4>
#once = #layout.map<blocked [128] vector 1 warps 4>
// CHECK-LABEL: @flag_tiles
// CHECK: tile.load
// CHECK-NEXT: %[[M:.*]] = kgpu.alloc
// CHECK-NEXT: kgpu.local_store %{{.*}}, %[[M]] {byOwner}
// CHECK-NEXT: %[[F:.*]] = kgpu.local_load %[[M]]
// CHECK-NEXT: tile.reduce(%[[F]])
// CHECK: tile.load
// CHECK-NEXT: kgpu.partial_reduce
// CHECK: scf.while
// CHECK: tile.load %{{.*}} {isVolatile}
// CHECK-NEXT: kgpu.alloc
// CHECK: scf.while
// CHECK: tile.load %{{[0-9a-z_]+}} :
// CHECK-NEXT: kgpu.alloc
func.func @flag_tiles(%p: !tile.ptr<i32>, %q: !tile.ptr<i32> {tile.disjoint}) {
  %zero = arith.constant 0 : i32
  %r = tile.make_range 0 to 4 : tensor<4xi32, #each>
  %s = tile.splat %p : !tile.ptr<i32> -> tensor<4x!tile.ptr<i32>, #each>
  %a = tile.addptr %s, %r : tensor<4x!tile.ptr<i32>, #each>, tensor<4xi32, #each>
  %v = tile.load %a : tensor<4x!tile.ptr<i32>, #each> -> tensor<4xi32, #each>
  %m = tile.reduce(%v) axis 0 {
  ^bb0(%x: i32, %y: i32):
    %o = arith.maxsi %x, %y : i32
    tile.yield %o : i32
  } : (tensor<4xi32, #each>) -> i32
  %c = arith.cmpi eq, %m, %zero : i32
  scf.if %c {
    tile.store %p, %zero : !tile.ptr<i32>, i32
  }
  %r1 = tile.make_range 0 to 128 : tensor<128xi32, #once>
  %s1 = tile.splat %p : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #once>
  %a1 = tile.addptr %s1, %r1 : tensor<128x!tile.ptr<i32>, #once>, tensor<128xi32, #once>
  %v1 = tile.load %a1 : tensor<128x!tile.ptr<i32>, #once> -> tensor<128xi32, #once>
  %m1 = tile.reduce(%v1) axis 0 {
  ^bb0(%x: i32, %y: i32):
    %o = arith.maxsi %x, %y : i32
    tile.yield %o : i32
  } : (tensor<128xi32, #once>) -> i32
  %c1 = arith.cmpi eq, %m1, %zero : i32
  scf.if %c1 {
    tile.store %p, %zero : !tile.ptr<i32>, i32
  }
  %s2 = tile.splat %q : !tile.ptr<i32> -> tensor<4x!tile.ptr<i32>, #each>
  scf.while : () -> () {
    %v2 = tile.load %s2 : tensor<4x!tile.ptr<i32>, #each> -> tensor<4xi32, #each>
    %m2 = tile.reduce(%v2) axis 0 {
    ^bb0(%x: i32, %y: i32):
      %o = arith.maxsi %x, %y : i32
      tile.yield %o : i32
    } : (tensor<4xi32, #each>) -> i32
    %again = arith.cmpi eq, %m2, %zero : i32
    scf.condition(%again)
  } do {
    scf.yield
  }
  %end = scf.while (%at = %s2) : (tensor<4x!tile.ptr<i32>, #each>) -> tensor<4x!tile.ptr<i32>, #each> {
    %v3 = tile.load %at : tensor<4x!tile.ptr<i32>, #each> -> tensor<4xi32, #each>
    %m3 = tile.reduce(%v3) axis 0 {
    ^bb0(%x: i32, %y: i32):
      %o = arith.maxsi %x, %y : i32
      tile.yield %o : i32
    } : (tensor<4xi32, #each>) -> i32
    %again = arith.cmpi eq, %m3, %zero : i32
    scf.condition(%again) %at : tensor<4x!tile.ptr<i32>, #each>
  } do {
  ^bb0(%at: tensor<4x!tile.ptr<i32>, #each>):
    %next = tile.addptr %at, %r : tensor<4x!tile.ptr<i32>, #each>, tensor<4xi32, #each>
    scf.yield %next : tensor<4x!tile.ptr<i32>, #each>
  }
  return
}
