// Tensor maps: one parameter for each distinct one, and the values from which the launch derives it.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// Equal maps are merged, even from different make_desc ops. They come after the assertion's log (at 40), at multiples
// of 64. Each block prefetches them at its start, one per thread. Extents are read as the kernel widens them; constants
// are included.
// CHECK-LABEL: llvm.func @kiln_maps(
// CHECK-SAME: %[[X:[^ :]*]]: !llvm.ptr<1>
// CHECK-SAME: %[[A:[^ :]*]]: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.struct<(array<128 x i8>)>, nvvm.grid_constant}
// CHECK-SAME: %[[B:[^ :]*]]: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.struct<(array<128 x i8>)>, nvvm.grid_constant})
// CHECK-SAME: tensor_maps = [
// CHECK-SAME: {base = 0 : i64, box = [64, 64], element = "fp16", offset = 64 : i64, padding = "zero", shape = [{argument = 1 : i64}, {argument = 2 : i64, unsigned = true}], strides = [{argument = 3 : i64}, 1], swizzle = 128 : i64},
// CHECK-SAME: {base = 0 : i64, box = [64, 32], element = "fp16", offset = 192 : i64, padding = "nan", shape = [-5, {argument = 2 : i64, unsigned = true}], strides = [{argument = 3 : i64}, 1], swizzle = 64 : i64}]
// CHECK: %[[TID:.*]] = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.tid.x"
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[TID]], %c0_i32
// CHECK: "@$1 prefetch.tensormap [$0];", "l,b,~{memory}" %[[A]], %[[FIRST]]
// CHECK: prefetch.tensormap {{.*}} %[[B]], %[[FIRST]]
// CHECK-NOT: prefetch.tensormap
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @maps(%x: !tile.ptr<f16>, %m: i32, %n: i32, %s: i64) attributes {tile.kernel} {
    %one = arith.constant 1 : i64
    %minus = arith.constant -5 : i32
    %true = arith.constant true
    %mw = arith.extsi %m : i32 to i64
    %nw = arith.extui %n : i32 to i64
    %mw2 = arith.extsi %m : i32 to i64
    %c = arith.extsi %minus : i32 to i64
    %sh = tile.hint %s {divisibility = array<i64: 8>} : i64
    %d = tile.make_desc %x, shape [%mw, %nw] strides [%sh, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %e = tile.make_desc %x, shape [%mw2, %nw] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %f = tile.make_desc %x, shape [%c, %nw] strides [%s, %one] {padding = #tile<padding nan>} : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %t0 = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
    %t1 = kgpu.tensor_map %e box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
    %t2 = kgpu.tensor_map %f box [64, 32] swizzle 64 : !tile.desc<tensor<64x64xf16>>
    tile.assert %true, "" : i1
    return
  }
}

// -----

// Without a log or a counted grid they come after the arguments; an unused map still gets a parameter.
// CHECK-LABEL: llvm.func @kiln_row(
// CHECK-SAME: tensor_maps = [{base = 0 : i64, box = [256], element = "i8", offset = 64 : i64, padding = "zero", shape = [4096], strides = [1], swizzle = 0 : i64}]
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @row(%x: !tile.ptr<i8>) attributes {tile.kernel} {
    %one = arith.constant 1 : i64
    %n = arith.constant 4096 : i64
    %d = tile.make_desc %x, shape [%n] strides [%one] : !tile.ptr<i8> -> !tile.desc<tensor<256xi8>>
    %t = kgpu.tensor_map %d box [256] swizzle 0 : !tile.desc<tensor<256xi8>>
    return
  }
}
