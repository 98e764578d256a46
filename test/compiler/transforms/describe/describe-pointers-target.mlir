// Nothing changes unless the launch asks for it and for no schedule that needs pointers, the target has a copy engine,
// and what is loaded is multiplied in a loop.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-widen-offsets,kiln-describe-pointers))' 2>&1 | FileCheck %s --check-prefix=AS-IS
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_80},func.func(kiln-widen-offsets,kiln-describe-pointers{all=true}))' 2>&1 | FileCheck %s --check-prefix=AS-IS
// RUN: sed 's/^module/module attributes {kgpu.describe_pointers, kgpu.schedule = "lanes"}/' %s | kiln-opt --pass-pipeline='builtin.module(kiln-set-target{target=sm_120a},func.func(kiln-widen-offsets,kiln-describe-pointers))' 2>&1 | FileCheck %s --check-prefix=AS-IS
// RUN: sed 's/^module/module attributes {kgpu.describe_pointers}/' %s | kiln-opt --pass-pipeline='builtin.module(kiln-set-target{target=sm_120a},func.func(kiln-widen-offsets,kiln-describe-pointers))' 2>&1 | FileCheck %s --check-prefix=ASKED

// AS-IS-NOT: remark
// AS-IS-NOT: desc_load
// ASKED: remark: loads from 'a' through a descriptor
// ASKED: kgpu.described
// ASKED: desc_load
// ASKED-LABEL: func.func @not_multiplied
// ASKED-NOT: kgpu.described
// ASKED-NOT: desc_load
module {
func.func @unmasked(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
    %m: i32, %k: i32, %s: i32 {tile.divisibility = 8 : i64}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %pid = tile.program_id x : i32
  %start = arith.muli %pid, %c64 : i32
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %depths = tile.make_range 0 to 32 : tensor<32xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %rows = arith.addi %starts, %lanes : tensor<64xi32>
  %sum = scf.for %k0 = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %at = tile.splat %k0 : i32 -> tensor<32xi32>
    %columns = arith.addi %at, %depths : tensor<32xi32>
    %i = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
    %j = tile.expand_dims %columns 0 : tensor<32xi32> -> tensor<1x32xi32>
    %stride = tile.splat %s : i32 -> tensor<64x1xi32>
    %is = arith.muli %i, %stride : tensor<64x1xi32>
    %o0 = tile.broadcast %is : tensor<64x1xi32> -> tensor<64x32xi32>
    %o1 = tile.broadcast %j : tensor<1x32xi32> -> tensor<64x32xi32>
    %o = arith.addi %o0, %o1 : tensor<64x32xi32>
    %base = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
    %p = tile.addptr %base, %o : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %x = tile.load %p : tensor<64x32x!tile.ptr<f16>> -> tensor<64x32xf16>
    %t = tile.trans %x [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
    %next = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %next : tensor<64x64xf32>
  }
  %ri = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
  %ci = tile.expand_dims %rows 0 : tensor<64xi32> -> tensor<1x64xi32>
  %rs = tile.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %ri, %rs : tensor<64x1xi32>
  %r0 = tile.broadcast %ro : tensor<64x1xi32> -> tensor<64x64xi32>
  %r1 = tile.broadcast %ci : tensor<1x64xi32> -> tensor<64x64xi32>
  %r = arith.addi %r0, %r1 : tensor<64x64xi32>
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %q = tile.addptr %cs, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %lr = tile.splat %m : i32 -> tensor<64x1xi32>
  %br = arith.cmpi slt, %ri, %lr : tensor<64x1xi32>
  %m0 = tile.broadcast %br : tensor<64x1xi1> -> tensor<64x64xi1>
  %lc = tile.splat %m : i32 -> tensor<1x64xi32>
  %bc = arith.cmpi slt, %ci, %lc : tensor<1x64xi32>
  %m1 = tile.broadcast %bc : tensor<1x64xi1> -> tensor<64x64xi1>
  %all = arith.andi %m0, %m1 : tensor<64x64xi1>
  tile.store %q, %sum mask %all : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32> mask tensor<64x64xi1>
  return
}

func.func @not_multiplied(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
    %m: i32, %k: i32, %s: i32 {tile.divisibility = 8 : i64}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %pid = tile.program_id x : i32
  %start = arith.muli %pid, %c64 : i32
  %lanes = tile.make_range 0 to 64 : tensor<64xi32>
  %depths = tile.make_range 0 to 32 : tensor<32xi32>
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %rows = arith.addi %starts, %lanes : tensor<64xi32>
  %sum = scf.for %k0 = %c0 to %k step %c32 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %at = tile.splat %k0 : i32 -> tensor<32xi32>
    %columns = arith.addi %at, %depths : tensor<32xi32>
    %i = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
    %j = tile.expand_dims %columns 0 : tensor<32xi32> -> tensor<1x32xi32>
    %stride = tile.splat %s : i32 -> tensor<64x1xi32>
    %is = arith.muli %i, %stride : tensor<64x1xi32>
    %o0 = tile.broadcast %is : tensor<64x1xi32> -> tensor<64x32xi32>
    %o1 = tile.broadcast %j : tensor<1x32xi32> -> tensor<64x32xi32>
    %o = arith.addi %o0, %o1 : tensor<64x32xi32>
    %base = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
    %p = tile.addptr %base, %o : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %x = tile.load %p : tensor<64x32x!tile.ptr<f16>> -> tensor<64x32xf16>
    tile.print "x" %x : tensor<64x32xf16> {isSigned = array<i32: 0>}
    scf.yield %acc : tensor<64x64xf32>
  }
  %ri = tile.expand_dims %rows 1 : tensor<64xi32> -> tensor<64x1xi32>
  %ci = tile.expand_dims %rows 0 : tensor<64xi32> -> tensor<1x64xi32>
  %rs = tile.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %ri, %rs : tensor<64x1xi32>
  %r0 = tile.broadcast %ro : tensor<64x1xi32> -> tensor<64x64xi32>
  %r1 = tile.broadcast %ci : tensor<1x64xi32> -> tensor<64x64xi32>
  %r = arith.addi %r0, %r1 : tensor<64x64xi32>
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %q = tile.addptr %cs, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %lr = tile.splat %m : i32 -> tensor<64x1xi32>
  %br = arith.cmpi slt, %ri, %lr : tensor<64x1xi32>
  %m0 = tile.broadcast %br : tensor<64x1xi1> -> tensor<64x64xi1>
  %lc = tile.splat %m : i32 -> tensor<1x64xi32>
  %bc = arith.cmpi slt, %ci, %lc : tensor<1x64xi32>
  %m1 = tile.broadcast %bc : tensor<1x64xi1> -> tensor<64x64xi1>
  %all = arith.andi %m0, %m1 : tensor<64x64xi1>
  tile.store %q, %sum mask %all : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32> mask tensor<64x64xi1>
  return
}
}
