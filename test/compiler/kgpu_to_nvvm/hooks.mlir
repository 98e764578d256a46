// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// The address of the log is the last argument. Every thread asks for as many records as it owns elements and fills those
// there is room for; a scalar is the first thread's.
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

// The first element that fails of each thread; the lowest code of all threads stays. Then the thread ends.
// CHECK-LABEL: llvm.func @kiln_assert(
// CHECK: %[[WORST:.*]] = arith.minui
// CHECK: %[[FAILS:.*]] = arith.cmpi ne, %[[WORST]], %c-1_i32
// CHECK: scf.if %[[FAILS]]
// CHECK: arith.shli %{{.*}}, %c30_i64
// CHECK: llvm.atomicrmw umin %{{.*}}, %{{.*}} syncscope("device") monotonic
// CHECK: "exit;"
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @assert(%n: i32) attributes {tile.kernel} {
    %r = tile.make_range 0 to 256 : tensor<256xi32, #b>
    %s = tile.splat %n : i32 -> tensor<256xi32, #b>
    %m = arith.cmpi slt, %r, %s : tensor<256xi32, #b>
    tile.assert %m, "inside" : tensor<256xi1, #b>
    return
  }
}
