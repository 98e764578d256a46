// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// The address of the log is the last argument. Every thread reserves as many records as it owns elements and fills
// those that fit; a scalar is printed by the first thread.
// CHECK-LABEL: llvm.func @kiln_print(
// CHECK-SAME: i32, %[[LOG:.*]]: i64)
// CHECK-SAME: kiln.arguments_bytes = 8
// CHECK-SAME: kiln.sites = [{hex = false, kind = "print", location = {{.*}}, message = "x: ", operands = [{shape = [128], type = "u32"}, {shape = [], type = "i32"}]}]
// CHECK: llvm.inttoptr %[[LOG]] : i64 to !llvm.ptr<1>
// CHECK: llvm.atomicrmw add %{{.*}}, %c1_i32 syncscope("device") monotonic
// CHECK: %[[FITS:.*]] = arith.cmpi ult
// CHECK: scf.if %[[FITS]]
// CHECK-COUNT-6: llvm.store
// CHECK: scf.if %{{.*}} {
// CHECK: llvm.atomicrmw add
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @print(%n: i32) attributes {tile.kernel} {
    %r = tile.make_range 0 to 128 : tensor<128xi32, #b>
    tile.print "x: " %r, %n : tensor<128xi32, #b>, i32 {isSigned = array<i32: 0, 1>}
    return
  }
}

// -----

#b = #layout.map<blocked [256] order [0] vector 1 warps 4>

// Each thread reports its first failing element; the lowest code of all threads is kept. Other threads may shuffle with
// this one, so it continues.
// CHECK-LABEL: llvm.func @kiln_assert(
// CHECK: %[[WORST:.*]] = arith.minui
// CHECK: %[[FAILS:.*]] = arith.cmpi ne, %[[WORST]], %c-1_i32
// CHECK: scf.if %[[FAILS]]
// CHECK: arith.shli %{{.*}}, %c30_i64
// CHECK: llvm.atomicrmw umin %{{.*}}, %{{.*}} syncscope("device") monotonic
// CHECK-NOT: "exit;"
// CHECK: llvm.return
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @assert(%n: i32) attributes {tile.kernel} {
    %r = tile.make_range 0 to 256 : tensor<256xi32, #b>
    %s = tile.splat %n : i32 -> tensor<256xi32, #b>
    %m = arith.cmpi slt, %r, %s : tensor<256xi32, #b>
    tile.assert %m, "inside" : tensor<256xi1, #b>
    return
  }
}

// -----

#b = #layout.map<blocked [256] order [0] vector 1 warps 4 ctas 2 split 0>

// In a cluster, others wait for what this thread has yet to send: it continues, but accesses no tile of global memory.
// CHECK-LABEL: llvm.func @kiln_assert_in_cluster(
// CHECK: %[[CELL:.*]] = llvm.alloca
// CHECK: llvm.store %{{.*}}, %[[CELL]]
// CHECK: llvm.atomicrmw umin
// CHECK-NOT: "exit;"
// CHECK: llvm.store %c1_i8, %[[CELL]]
// CHECK: %[[FAILED:.*]] = llvm.load %[[CELL]]
// CHECK: %[[HOLDS:.*]] = arith.cmpi eq, %[[FAILED]], %c0_i8
// CHECK: "@$2 ld.global.b32 $0, [$1];"{{.*}} %[[HOLDS]]
// CHECK: "@$2 st.global.b32 [$0], $1;"
module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 2 : i32} {
  func.func public @assert_in_cluster(%p: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
    %r = tile.make_range 0 to 256 : tensor<256xi32, #b>
    %s = tile.splat %n : i32 -> tensor<256xi32, #b>
    %m = arith.cmpi slt, %r, %s : tensor<256xi32, #b>
    tile.assert %m, "inside" : tensor<256xi1, #b>
    %q = tile.splat %p : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #b>
    %a = tile.addptr %q, %r : tensor<256x!tile.ptr<f32>, #b>, tensor<256xi32, #b>
    %x = tile.load %a : tensor<256x!tile.ptr<f32>, #b> -> tensor<256xf32, #b>
    tile.store %a, %x : tensor<256x!tile.ptr<f32>, #b>, tensor<256xf32, #b>
    return
  }
}

// -----

// A scalar fails in all threads alike: if no other program waits for this one they exit together, and nothing after the
// failed assertion is done. In a loop without a count another program may wait for this one.
// CHECK-LABEL: llvm.func @kiln_scalar(
// CHECK: llvm.atomicrmw umin
// CHECK: "exit;"
// CHECK-LABEL: llvm.func @kiln_awaited(
// CHECK: llvm.atomicrmw umin
// CHECK-NOT: "exit;"
// CHECK: llvm.return
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @scalar(%p: !tile.ptr<f32>, %c: i1) attributes {tile.kernel} {
    tile.assert %c, "inside" : i1
    %x = tile.load %p : !tile.ptr<f32> -> f32
    tile.store %p, %x : !tile.ptr<f32>, f32
    return
  }

  func.func public @awaited(%p: !tile.ptr<f32>, %c: i1) attributes {tile.kernel} {
    tile.assert %c, "inside" : i1
    scf.while : () -> () {
      scf.condition(%c)
    } do {
      scf.yield
    }
    return
  }
}
