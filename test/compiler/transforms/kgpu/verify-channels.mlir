// Correct uses of channels: each kernel is accepted. mutate-channels.test mutates them.
// RUN: kiln-opt %s --kiln-verify-channels -split-input-file | FileCheck %s

// One warp copies, two groups multiply, one product stays in flight (lag 1); program instances run one after the other.
!a = !kgpu.mem<128x64xf16, #layout.map<swizzled [128, 64] element 2 bytes 128>>
!b = !kgpu.mem<64x128xf16, #layout.map<swizzled [64, 128] element 2 bytes 128>>
!ring = !kgpu.channel<4 x (!a, !b)>
// CHECK-LABEL: @cooperative
func.func @cooperative(%pa: !tile.ptr<f16>, %pb: !tile.ptr<f16>, %pc: !tile.ptr<f32>, %m: i64, %k: i64) {
  %one = arith.constant 1 : i64
  %descA = tile.make_desc %pa, shape [%m, %k] strides [%k, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
  %descB = tile.make_desc %pb, shape [%k, %m] strides [%m, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
  %descC = tile.make_desc %pc, shape [%m, %m] strides [%m, %one] : !tile.ptr<f32> -> !tile.desc<tensor<128x128xf32>>
  %mapA = kgpu.tensor_map %descA box [128, 64] swizzle 128 : !tile.desc<tensor<128x64xf16>>
  %mapB = kgpu.tensor_map %descB box [64, 64] swizzle 128 : !tile.desc<tensor<64x128xf16>>
  %ch = kgpu.channel bytes fillers 1 readers 8 : !ring
  %first = kgpu.first_program : i32
  %hop = kgpu.program_step : i32
  %programs = tile.num_programs x : i32
  kgpu.roles @load warps 1 registers 40 {
    %zero = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %c0 = kgpu.cursor : !kgpu.cursor<4>
    %last = scf.for %p = %first to %programs step %hop iter_args(%c = %c0) -> (!kgpu.cursor<4>) : i32 {
      %i = arith.muli %p, %c64 : i32
      %end = arith.trunci %k : i64 to i32
      %c3 = scf.for %q = %zero to %end step %c64 iter_args(%c1 = %c) -> (!kgpu.cursor<4>) : i32 {
        %s:2 = kgpu.acquire %ch[%c1] : !ring -> !a, !b
        kgpu.copy_in %mapA[%i, %q] to %s#0 of %ch[%c1] : !a, !ring
        kgpu.copy_in %mapB[%q, %i] to %s#1 of %ch[%c1] : !b, !ring
        kgpu.commit %ch[%c1] : !ring
        %c2 = kgpu.advance %c1 : !kgpu.cursor<4>
        scf.yield %c2 : !kgpu.cursor<4>
      }
      scf.yield %c3 : !kgpu.cursor<4>
    }
    kgpu.end_role
  } @multiply groups 2 warps 4 registers 232 {
    %zero = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %none = arith.constant dense<0.0> : tensor<128x128xf32>
    %c0 = kgpu.cursor : !kgpu.cursor<4>
    %last = scf.for %p = %first to %programs step %hop iter_args(%c = %c0) -> (!kgpu.cursor<4>) : i32 {
      %i = arith.muli %p, %c64 : i32
      %end = arith.trunci %k : i64 to i32
      %r:3 = scf.for %q = %zero to %end step %c64 iter_args(%acc = %none, %c1 = %c, %before = %c)
          -> (tensor<128x128xf32>, !kgpu.cursor<4>, !kgpu.cursor<4>) : i32 {
        %s:2 = kgpu.receive %ch[%c1] : !ring -> !a, !b
        %x = kgpu.warpgroup_mma %s#0, %s#1, %acc : !a, !b -> tensor<128x128xf32>
        %y = kgpu.mma_wait %x pending 1 : tensor<128x128xf32>
        %again = arith.cmpi ne, %q, %zero : i32
        kgpu.release %ch[%before] when %again : !ring
        %c2 = kgpu.advance %c1 : !kgpu.cursor<4>
        scf.yield %y, %c2, %c1 : tensor<128x128xf32>, !kgpu.cursor<4>, !kgpu.cursor<4>
      }
      %ran = arith.cmpi slt, %zero, %end : i32
      %z = kgpu.mma_wait %r#0 pending 0 : tensor<128x128xf32>
      kgpu.release %ch[%r#2] when %ran : !ring
      tile.desc_store %descC[%i, %i], %z : !tile.desc<tensor<128x128xf32>>, tensor<128x128xf32>
      scf.yield %r#1 : !kgpu.cursor<4>
    }
    kgpu.end_role
  }
  return
}

// -----

// Nothing stays in flight (lag 0); the tile is stored by the copy engine, from its own memory.
!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!acc = tensor<64x64xf16, #layout.map<wgmma_acc [64, 64] groups 1>>
!ring = !kgpu.channel<2 x (!a, !a)>
// CHECK-LABEL: @stored_by_copies
func.func @stored_by_copies(%pa: !tile.ptr<f16>, %pc: !tile.ptr<f16>, %m: i64, %begin: index, %end: index) {
  %one = arith.constant 1 : i64
  %desc = tile.make_desc %pa, shape [%m, %m] strides [%m, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %descC = tile.make_desc %pc, shape [%m, %m] strides [%m, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %map = kgpu.tensor_map %desc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %mapC = kgpu.tensor_map %descC box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %ch = kgpu.channel bytes fillers 1 readers 4 {offset = 0 : i64} : !ring
  kgpu.roles @load warps 1 {
    %step = arith.constant 64 : index
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    %last = scf.for %q = %begin to %end step %step iter_args(%c1 = %c0) -> (!kgpu.cursor<2>) {
      %s:2 = kgpu.acquire %ch[%c1] : !ring -> !a, !a
      %o = arith.index_cast %q : index to i32
      kgpu.copy_in %map[%o, %o] to %s#0 of %ch[%c1] : !a, !ring
      kgpu.copy_in %map[%o, %o] to %s#1 of %ch[%c1] : !a, !ring
      kgpu.commit %ch[%c1] : !ring
      %c2 = kgpu.advance %c1 : !kgpu.cursor<2>
      scf.yield %c2 : !kgpu.cursor<2>
    }
    kgpu.end_role
  } @multiply warps 4 {
    %step = arith.constant 64 : index
    %i = arith.constant 0 : i32
    %none = arith.constant dense<0.0> : !acc
    %out = kgpu.alloc {offset = 32768 : i64} : !a
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    %r:2 = scf.for %q = %begin to %end step %step iter_args(%acc = %none, %c1 = %c0) -> (!acc, !kgpu.cursor<2>) {
      %s:2 = kgpu.receive %ch[%c1] : !ring -> !a, !a
      %t = kgpu.trans %s#1 [1, 0] : !a -> !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] order [0, 1] element 2 bytes 128>>
      %x = kgpu.warpgroup_mma %s#0, %t, %acc : !a, !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] order [0, 1] element 2 bytes 128>> -> !acc
      %y = kgpu.mma_wait %x pending 0 : !acc
      kgpu.release %ch[%c1] : !ring
      %c2 = kgpu.advance %c1 : !kgpu.cursor<2>
      scf.yield %y, %c2 : !acc, !kgpu.cursor<2>
    }
    kgpu.local_store %r#0, %out : !acc, !a
    kgpu.fence_async
    kgpu.barrier role
    kgpu.copy_out %out to %mapC[%i, %i] : !a
    kgpu.copy_out_wait read 0
    kgpu.end_role
  }
  return
}

// -----

// Two channels of different lengths, as for keys and values; two consumer roles read the keys.
!k = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!keys = !kgpu.channel<3 x (!k)>
!values = !kgpu.channel<2 x (!k)>
// CHECK-LABEL: @two_channels
func.func @two_channels(%pa: !tile.ptr<f16>, %m: i64, %n: i32, %q: tensor<64x64xf16>) {
  %one = arith.constant 1 : i64
  %desc = tile.make_desc %pa, shape [%m, %m] strides [%m, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %map = kgpu.tensor_map %desc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %keys = kgpu.channel bytes fillers 1 readers 8 : !keys
  %values = kgpu.channel bytes fillers 1 readers 4 : !values
  kgpu.roles @load warps 1 {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %end = arith.ceildivsi %n, %c64 : i32
    %k0 = kgpu.cursor : !kgpu.cursor<3>
    %v0 = kgpu.cursor : !kgpu.cursor<2>
    %last:2 = scf.for %i = %c0 to %end step %c1 iter_args(%k1 = %k0, %v1 = %v0) -> (!kgpu.cursor<3>, !kgpu.cursor<2>) : i32 {
      %s = kgpu.acquire %keys[%k1] : !keys -> !k
      kgpu.copy_in %map[%i, %i] to %s of %keys[%k1] : !k, !keys
      kgpu.commit %keys[%k1] : !keys
      %t = kgpu.acquire %values[%v1] : !values -> !k
      kgpu.copy_in %map[%i, %i] to %t of %values[%v1] : !k, !values
      kgpu.commit %values[%v1] : !values
      %k2 = kgpu.advance %k1 : !kgpu.cursor<3>
      %v2 = kgpu.advance %v1 : !kgpu.cursor<2>
      scf.yield %k2, %v2 : !kgpu.cursor<3>, !kgpu.cursor<2>
    }
    kgpu.end_role
  } @attend warps 4 {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %end = arith.ceildivsi %n, %c64 : i32
    %none = arith.constant dense<0.0> : tensor<64x64xf32>
    %k0 = kgpu.cursor : !kgpu.cursor<3>
    %v0 = kgpu.cursor : !kgpu.cursor<2>
    %last:2 = scf.for %i = %c0 to %end step %c1 iter_args(%k1 = %k0, %v1 = %v0) -> (!kgpu.cursor<3>, !kgpu.cursor<2>) : i32 {
      %s = kgpu.receive %keys[%k1] : !keys -> !k
      %x = kgpu.warpgroup_mma %s, %s, %none : !k, !k -> tensor<64x64xf32>
      %t = kgpu.receive %values[%v1] : !values -> !k
      %y = kgpu.warpgroup_mma %t, %t, %x : !k, !k -> tensor<64x64xf32>
      %z = kgpu.mma_wait %y pending 1 : tensor<64x64xf32>
      kgpu.release %keys[%k1] : !keys
      %w = kgpu.mma_wait %z pending 0 : tensor<64x64xf32>
      kgpu.release %values[%v1] : !values
      %k2 = kgpu.advance %k1 : !kgpu.cursor<3>
      %v2 = kgpu.advance %v1 : !kgpu.cursor<2>
      scf.yield %k2, %v2 : !kgpu.cursor<3>, !kgpu.cursor<2>
    }
    kgpu.end_role
  } @look warps 4 {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %end = arith.ceildivsi %n, %c64 : i32
    %k0 = kgpu.cursor : !kgpu.cursor<3>
    %last = scf.for %i = %c0 to %end step %c1 iter_args(%k1 = %k0) -> (!kgpu.cursor<3>) : i32 {
      %s = kgpu.receive %keys[%k1] : !keys -> !k
      %x = kgpu.local_load %s : !k -> tensor<64x64xf16>
      kgpu.release %keys[%k1] : !keys
      %k2 = kgpu.advance %k1 : !kgpu.cursor<3>
      scf.yield %k2 : !kgpu.cursor<3>
    }
    kgpu.end_role
  }
  return
}

// -----

// One role does both: two of three slots are filled ahead, then each iteration fills the slot two steps after the one
// it reads. The first operand is copied by one thread, and the second is stored by all.
!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!ring = !kgpu.channel<3 x (!a)>
// CHECK-LABEL: @simple
func.func @simple(%pa: !tile.ptr<f16>, %m: i64, %begin: i32, %end: i32, %v: tensor<64x64xf16>) attributes {} {
  %one = arith.constant 1 : i64
  %desc = tile.make_desc %pa, shape [%m, %m] strides [%m, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
  %map = kgpu.tensor_map %desc box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
  %copied = kgpu.channel bytes fillers 1 readers 4 : !ring
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %none = arith.constant dense<0.0> : tensor<64x64xf32>
  %p0 = kgpu.cursor : !kgpu.cursor<3>
  %r0 = kgpu.cursor : !kgpu.cursor<3>
  %some = arith.cmpi slt, %begin, %end : i32
  %p1 = scf.if %some -> (!kgpu.cursor<3>) {
    %s = kgpu.acquire %copied[%p0] : !ring -> !a
    kgpu.copy_in %map[%begin, %begin] to %s of %copied[%p0] : !a, !ring
    kgpu.commit %copied[%p0] : !ring
    %next = kgpu.advance %p0 : !kgpu.cursor<3>
    scf.yield %next : !kgpu.cursor<3>
  } else {
    scf.yield %p0 : !kgpu.cursor<3>
  }
  %second = arith.addi %begin, %c64 : i32
  %more = arith.cmpi slt, %second, %end : i32
  %p2 = scf.if %more -> (!kgpu.cursor<3>) {
    %s = kgpu.acquire %copied[%p1] : !ring -> !a
    kgpu.copy_in %map[%second, %begin] to %s of %copied[%p1] : !a, !ring
    kgpu.commit %copied[%p1] : !ring
    %next = kgpu.advance %p1 : !kgpu.cursor<3>
    scf.yield %next : !kgpu.cursor<3>
  } else {
    scf.yield %p1 : !kgpu.cursor<3>
  }
  %out:4 = scf.for %q = %begin to %end step %c64 iter_args(%acc = %none, %p = %p2, %r = %r0, %before = %r0)
      -> (tensor<64x64xf32>, !kgpu.cursor<3>, !kgpu.cursor<3>, !kgpu.cursor<3>) : i32 {
    %s = kgpu.receive %copied[%r] : !ring -> !a
    %x = kgpu.warpgroup_mma %s, %s, %acc : !a, !a -> tensor<64x64xf32>
    %y = kgpu.mma_wait %x pending 1 : tensor<64x64xf32>
    %again = arith.cmpi sgt, %q, %begin : i32
    kgpu.release %copied[%before] when %again : !ring
    %ahead = arith.addi %q, %c128 : i32
    %left = arith.cmpi slt, %ahead, %end : i32
    %p4 = scf.if %left -> (!kgpu.cursor<3>) {
      %t = kgpu.acquire %copied[%p] : !ring -> !a
      kgpu.copy_in %map[%ahead, %begin] to %t of %copied[%p] : !a, !ring
      kgpu.commit %copied[%p] : !ring
      %next = kgpu.advance %p : !kgpu.cursor<3>
      scf.yield %next : !kgpu.cursor<3>
    } else {
      scf.yield %p : !kgpu.cursor<3>
    }
    %r1 = kgpu.advance %r : !kgpu.cursor<3>
    scf.yield %y, %p4, %r1, %r : tensor<64x64xf32>, !kgpu.cursor<3>, !kgpu.cursor<3>, !kgpu.cursor<3>
  }
  %z = kgpu.mma_wait %out#0 pending 0 : tensor<64x64xf32>
  kgpu.release %copied[%out#3] when %some : !ring
  return
}

// -----

// The loop's start is computed after its end, and both are used before it: everything copied ahead is read, however
// often the loop runs.
!m = !kgpu.mem<64x64xf16, #layout.map<row_major [64, 64]>>
!ring = !kgpu.channel<2 x (!m)>
// CHECK-LABEL: @begins_late
func.func @begins_late(%d: !tile.desc<tensor<64x64xf16>>, %n: i32, %from: i32) {
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  %zero = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %end = arith.divsi %n, %c64 : i32
  %begin = arith.divsi %from, %c64 : i32
  %r0 = kgpu.cursor : !kgpu.cursor<2>
  %p1 = scf.for %i = %zero to %c1 step %c1 iter_args(%p = %r0) -> (!kgpu.cursor<2>) : i32 {
    %q = arith.addi %begin, %i : i32
    %is = arith.cmpi slt, %q, %end : i32
    %s = kgpu.acquire %ch[%p] : !ring -> !m
    kgpu.copy_block %d[%q, %q] when %is to %s of %ch[%p] : !tile.desc<tensor<64x64xf16>>, !m, !ring
    kgpu.commit %ch[%p] : !ring
    %next = kgpu.advance %p : !kgpu.cursor<2>
    scf.yield %next : !kgpu.cursor<2>
  }
  %out:2 = scf.for %q = %begin to %end step %c1 iter_args(%r = %r0, %p = %p1) -> (!kgpu.cursor<2>, !kgpu.cursor<2>) : i32 {
    %s = kgpu.receive %ch[%r] : !ring -> !m
    %ahead = arith.addi %q, %c1 : i32
    %last = arith.subi %end, %c1 : i32
    %is = arith.cmpi slt, %q, %last : i32
    %t = kgpu.acquire %ch[%p] : !ring -> !m
    kgpu.copy_block %d[%ahead, %ahead] when %is to %t of %ch[%p] : !tile.desc<tensor<64x64xf16>>, !m, !ring
    kgpu.commit %ch[%p] : !ring
    %x = kgpu.local_load %s : !m -> tensor<64x64xf16>
    kgpu.release %ch[%r] : !ring
    %r1 = kgpu.advance %r : !kgpu.cursor<2>
    %p2 = kgpu.advance %p : !kgpu.cursor<2>
    scf.yield %r1, %p2 : !kgpu.cursor<2>, !kgpu.cursor<2>
  }
  %s = kgpu.receive %ch[%out#0] : !ring -> !m
  kgpu.release %ch[%out#0] : !ring
  return
}

// -----

// The threads' own copies (here stores), read by the same threads: the receives order them, without mbarriers.
!a = !kgpu.mem<64x64xf16, #layout.map<row_major [64, 64]>>
!ring = !kgpu.channel<3 x (!a)>
// CHECK-LABEL: @own_copies
func.func @own_copies(%end: i32, %v: tensor<64x64xf16>) {
  %ch = kgpu.channel groups fillers 4 readers 4 : !ring
  %zero = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %r0 = kgpu.cursor : !kgpu.cursor<3>
  %p2 = scf.for %i = %zero to %c2 step %c1 iter_args(%p = %r0) -> (!kgpu.cursor<3>) : i32 {
    %is = arith.cmpi slt, %i, %end : i32
    %n = scf.if %is -> (!kgpu.cursor<3>) {
      %s = kgpu.acquire %ch[%p] : !ring -> !a
      kgpu.local_store %v, %s : tensor<64x64xf16>, !a
      kgpu.commit %ch[%p] : !ring
      %next = kgpu.advance %p : !kgpu.cursor<3>
      scf.yield %next : !kgpu.cursor<3>
    } else {
      scf.yield %p : !kgpu.cursor<3>
    }
    scf.yield %n : !kgpu.cursor<3>
  }
  %out:2 = scf.for %q = %zero to %end step %c1 iter_args(%p = %p2, %r = %r0) -> (!kgpu.cursor<3>, !kgpu.cursor<3>) : i32 {
    %s = kgpu.receive %ch[%r] : !ring -> !a
    %ahead = arith.addi %q, %c2 : i32
    %left = arith.cmpi slt, %ahead, %end : i32
    %p4 = scf.if %left -> (!kgpu.cursor<3>) {
      %t = kgpu.acquire %ch[%p] : !ring -> !a
      kgpu.local_store %v, %t : tensor<64x64xf16>, !a
      kgpu.commit %ch[%p] : !ring
      %next = kgpu.advance %p : !kgpu.cursor<3>
      scf.yield %next : !kgpu.cursor<3>
    } else {
      scf.yield %p : !kgpu.cursor<3>
    }
    %x = kgpu.local_load %s : !a -> tensor<64x64xf16>
    kgpu.release %ch[%r] : !ring
    %r1 = kgpu.advance %r : !kgpu.cursor<3>
    scf.yield %p4, %r1 : !kgpu.cursor<3>, !kgpu.cursor<3>
  }
  return
}

// -----

// A cluster of two: each CTA has rows of the left operand, and sends half of the right one to both. A condition that
// both roles compute decides which tiles there are.
!a = !kgpu.mem<256x64xf16, #layout.map<swizzled [256, 64] element 2 bytes 128 ctas 2 split 0>>
!b = !kgpu.mem<64x128xf16, #layout.map<swizzled [64, 128] element 2 bytes 128 ctas 2>>
!ring = !kgpu.channel<3 x (!a, !b)>
module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 2 : i32} {
// CHECK-LABEL: @cluster
func.func @cluster(%pa: !tile.ptr<f16>, %pb: !tile.ptr<f16>, %m: i64, %k: i32, %limit: i32) {
  %one = arith.constant 1 : i64
  %descA = tile.make_desc %pa, shape [%m, %m] strides [%m, %one] : !tile.ptr<f16> -> !tile.desc<tensor<256x64xf16>>
  %descB = tile.make_desc %pb, shape [%m, %m] strides [%m, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x128xf16>>
  %mapA = kgpu.tensor_map %descA box [128, 64] swizzle 128 : !tile.desc<tensor<256x64xf16>>
  %mapB = kgpu.tensor_map %descB box [32, 64] swizzle 128 : !tile.desc<tensor<64x128xf16>>
  %ch = kgpu.channel bytes fillers 1 readers 8 : !ring
  kgpu.roles @load warps 1 {
    %zero = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %pid = tile.program_id x : i32
    %rest = arith.remsi %pid, %c64 : i32
    %inside = arith.cmpi slt, %rest, %limit : i32
    %c0 = kgpu.cursor : !kgpu.cursor<3>
    scf.if %inside {
      %last = scf.for %q = %zero to %k step %c64 iter_args(%c1 = %c0) -> (!kgpu.cursor<3>) : i32 {
        %s:2 = kgpu.acquire %ch[%c1] : !ring -> !a, !b
        kgpu.copy_in %mapA[%pid, %q] to %s#0 of %ch[%c1] : !a, !ring
        kgpu.copy_in %mapB[%q, %pid] to %s#1 of %ch[%c1] : !b, !ring
        kgpu.commit %ch[%c1] : !ring
        %c2 = kgpu.advance %c1 : !kgpu.cursor<3>
        scf.yield %c2 : !kgpu.cursor<3>
      }
    }
    kgpu.end_role
  } @multiply groups 2 warps 4 {
    %zero = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %pid = tile.program_id x : i32
    %rest = arith.remsi %pid, %c64 : i32
    %inside = arith.cmpi sgt, %limit, %rest : i32
    %none = arith.constant dense<0.0> : tensor<256x128xf32>
    %c0 = kgpu.cursor : !kgpu.cursor<3>
    scf.if %inside {
      %r:2 = scf.for %q = %zero to %k step %c64 iter_args(%acc = %none, %c1 = %c0)
          -> (tensor<256x128xf32>, !kgpu.cursor<3>) : i32 {
        %s:2 = kgpu.receive %ch[%c1] : !ring -> !a, !b
        %x = kgpu.warpgroup_mma %s#0, %s#1, %acc : !a, !b -> tensor<256x128xf32>
        %y = kgpu.mma_wait %x pending 0 : tensor<256x128xf32>
        kgpu.release %ch[%c1] : !ring
        %c2 = kgpu.advance %c1 : !kgpu.cursor<3>
        scf.yield %y, %c2 : tensor<256x128xf32>, !kgpu.cursor<3>
      }
    }
    kgpu.end_role
  }
  return
}
}

// -----

// One role stores what another multiplies: there is a fence between the stores and the commit.
!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!ring = !kgpu.channel<2 x (!a)>
// CHECK-LABEL: @stored_by_threads
func.func @stored_by_threads(%p: !tile.ptr<f16>, %n: i32) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %zero = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %v = arith.constant dense<1.0> : tensor<64x64xf16>
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    %last = scf.for %i = %zero to %n step %c1 iter_args(%c = %c0) -> (!kgpu.cursor<2>) : i32 {
      %s = kgpu.acquire %ch[%c] : !ring -> !a
      kgpu.local_store %v, %s : tensor<64x64xf16>, !a
      kgpu.fence_async
      kgpu.commit %ch[%c] : !ring
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %next : !kgpu.cursor<2>
    }
    kgpu.end_role
  } @multiply warps 4 {
    %zero = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : tensor<64x64xf32>
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    %r:2 = scf.for %i = %zero to %n step %c1 iter_args(%acc = %none, %c = %c0) -> (tensor<64x64xf32>, !kgpu.cursor<2>) : i32 {
      %s = kgpu.receive %ch[%c] : !ring -> !a
      %x = kgpu.warpgroup_mma %s, %s, %acc : !a, !a -> tensor<64x64xf32>
      %y = kgpu.mma_wait %x pending 0 : tensor<64x64xf32>
      kgpu.release %ch[%c] : !ring
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %y, %next : tensor<64x64xf32>, !kgpu.cursor<2>
    }
    kgpu.end_role
  }
  return
}

// -----

// Bounds are constants, and so is what was computed from them: the last slot is released in any case.
!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
!ring = !kgpu.channel<2 x (!a)>
// CHECK-LABEL: @known_to_run
func.func @known_to_run() {
  %few = kgpu.channel threads fillers 4 readers 4 : !ring
  %many = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %zero = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %n = arith.constant 512 : i32
    %m = arith.constant 1048576 : i32
    %v = arith.constant dense<1.0> : tensor<64x64xf16>
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    %first = scf.for %i = %zero to %n step %c64 iter_args(%c = %c0) -> (!kgpu.cursor<2>) : i32 {
      %s = kgpu.acquire %few[%c] : !ring -> !a
      kgpu.local_store %v, %s : tensor<64x64xf16>, !a
      kgpu.fence_async
      kgpu.commit %few[%c] : !ring
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %next : !kgpu.cursor<2>
    }
    %second = scf.for %i = %zero to %m step %c64 iter_args(%c = %c0) -> (!kgpu.cursor<2>) : i32 {
      %u = kgpu.acquire %many[%c] : !ring -> !a
      kgpu.local_store %v, %u : tensor<64x64xf16>, !a
      kgpu.fence_async
      kgpu.commit %many[%c] : !ring
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %next : !kgpu.cursor<2>
    }
    kgpu.end_role
  } @multiply warps 4 {
    %zero = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %n = arith.constant 512 : i32
    %m = arith.constant 1048576 : i32
    %none = arith.constant dense<0.0> : tensor<64x64xf32>
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    %r:3 = scf.for %i = %zero to %n step %c64 iter_args(%acc = %none, %c = %c0, %before = %c0) -> (tensor<64x64xf32>, !kgpu.cursor<2>, !kgpu.cursor<2>) : i32 {
      %s = kgpu.receive %few[%c] : !ring -> !a
      %x = kgpu.warpgroup_mma %s, %s, %acc : !a, !a -> tensor<64x64xf32>
      %y = kgpu.mma_wait %x pending 1 : tensor<64x64xf32>
      %again = arith.cmpi ne, %i, %zero : i32
      kgpu.release %few[%before] when %again : !ring
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %y, %next, %c : tensor<64x64xf32>, !kgpu.cursor<2>, !kgpu.cursor<2>
    }
    %z = kgpu.mma_wait %r#0 pending 0 : tensor<64x64xf32>
    kgpu.release %few[%r#2] : !ring
    %t:3 = scf.for %i = %zero to %m step %c64 iter_args(%acc = %z, %c = %c0, %before = %c0) -> (tensor<64x64xf32>, !kgpu.cursor<2>, !kgpu.cursor<2>) : i32 {
      %u = kgpu.receive %many[%c] : !ring -> !a
      %x = kgpu.warpgroup_mma %u, %u, %acc : !a, !a -> tensor<64x64xf32>
      %y = kgpu.mma_wait %x pending 1 : tensor<64x64xf32>
      %again = arith.cmpi ne, %i, %zero : i32
      kgpu.release %many[%before] when %again : !ring
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %y, %next, %c : tensor<64x64xf32>, !kgpu.cursor<2>, !kgpu.cursor<2>
    }
    %w = kgpu.mma_wait %t#0 pending 0 : tensor<64x64xf32>
    kgpu.release %many[%t#2] : !ring
    kgpu.end_role
  }
  return
}

// -----

// Ops that are no steps of a channel may be in a loop that runs until a condition fails.
!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
// CHECK-LABEL: @until_something
func.func @until_something(%x: tensor<64x64xf16>, %c: tensor<64x64xf32>, %p: !tile.ptr<i1>) {
  %m = kgpu.alloc {offset = 0 : i64} : !a
  scf.while : () -> () {
    %go = tile.load %p : !tile.ptr<i1> -> i1
    scf.condition(%go)
  } do {
    kgpu.local_store %x, %m : tensor<64x64xf16>, !a
    kgpu.fence_async
    %y = kgpu.warpgroup_mma %m, %m, %c : !a, !a -> tensor<64x64xf32>
    %z = kgpu.mma_wait %y pending 0 : tensor<64x64xf32>
    scf.yield
  }
  return
}

// -----

// Of two products in flight the first is waited for separately, and used while the second continues.
!a = !kgpu.mem<64x64xf16, #layout.map<swizzled [64, 64] element 2 bytes 128>>
// CHECK-LABEL: @one_of_two
func.func @one_of_two(%c: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %m = kgpu.alloc : !a
  %x = kgpu.warpgroup_mma %m, %m, %c : !a, !a -> tensor<64x64xf32>
  %y = kgpu.warpgroup_mma %m, %m, %c : !a, !a -> tensor<64x64xf32>
  %z = kgpu.mma_wait %x pending 1 : tensor<64x64xf32>
  %w = arith.addf %z, %z : tensor<64x64xf32>
  %v = kgpu.mma_wait %y pending 0 : tensor<64x64xf32>
  %u = arith.addf %w, %v : tensor<64x64xf32>
  return %u : tensor<64x64xf32>
}

// -----

// Each role reads the bound itself: nothing writes it, so both read the same value.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
// CHECK-LABEL: @bounds_read_twice_of_constants
func.func @bounds_read_twice_of_constants(%p: !tile.ptr<i32>, %if: i1) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  kgpu.roles @store warps 4 {
    %zero = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %v1 = arith.constant dense<1.0> : tensor<64xf32>
    %n = tile.load %p : !tile.ptr<i32> -> i32
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    %last = scf.for %i = %zero to %n step %c1 iter_args(%c = %c0) -> (!kgpu.cursor<2>) : i32 {
      %s = kgpu.acquire %ch[%c] : !ring -> !m
      kgpu.local_store %v1, %s : tensor<64xf32>, !m
      kgpu.commit %ch[%c] : !ring
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %next : !kgpu.cursor<2>
    }
    kgpu.end_role
  } @load warps 4 {
    %zero = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %n = tile.load %p : !tile.ptr<i32> -> i32
    %c0 = kgpu.cursor : !kgpu.cursor<2>
    %last = scf.for %i = %zero to %n step %c1 iter_args(%c = %c0) -> (!kgpu.cursor<2>) : i32 {
      %s = kgpu.receive %ch[%c] : !ring -> !m
      kgpu.release %ch[%c] : !ring
      %next = kgpu.advance %c : !kgpu.cursor<2>
      scf.yield %next : !kgpu.cursor<2>
    }
    kgpu.end_role
  }
  return
}

// -----

// Roles take turns with memory: a channel says when the first is done with it.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!token = !kgpu.channel<1 x ()>
// CHECK-LABEL: @memory_in_turns
func.func @memory_in_turns() {
  %ch = kgpu.channel threads fillers 4 readers 4 : !token
  kgpu.roles @one warps 4 {
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %c = kgpu.cursor : !kgpu.cursor<1>
    %m = kgpu.alloc {turn = 0 : i32} : !m
    kgpu.local_store %v, %m : tensor<64xf32>, !m
    %x = kgpu.local_load %m : !m -> tensor<64xf32>
    kgpu.acquire %ch[%c] : !token
    kgpu.commit %ch[%c] : !token
    kgpu.end_role
  } @two warps 4 {
    %v = arith.constant dense<2.0> : tensor<64xf32>
    %c = kgpu.cursor : !kgpu.cursor<1>
    kgpu.receive %ch[%c] : !token
    kgpu.release %ch[%c] : !token
    %m = kgpu.alloc {turn = 0 : i32} : !m
    kgpu.local_store %v, %m : tensor<64xf32>, !m
    %x = kgpu.local_load %m : !m -> tensor<64xf32>
    kgpu.end_role
  }
  return
}

// -----

// A step begins during the one before: an iteration takes over a slot that the role holds, and receives the next one
// before it releases this one.
!m = !kgpu.mem<64xf32, #layout.map<row_major [64]>>
!ring = !kgpu.channel<2 x (!m)>
// CHECK-LABEL: @taken_over
func.func @taken_over(%n: i32) {
  %ch = kgpu.channel threads fillers 4 readers 4 : !ring
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  kgpu.roles @fill warps 4 {
    %v = arith.constant dense<1.0> : tensor<64xf32>
    %c = kgpu.cursor : !kgpu.cursor<2>
    %end = scf.for %i = %zero to %n step %one iter_args(%at = %c) -> (!kgpu.cursor<2>) : i32 {
      %s = kgpu.acquire %ch[%at] : !ring -> !m
      kgpu.local_store %v, %s : tensor<64xf32>, !m
      kgpu.commit %ch[%at] : !ring
      %next = kgpu.advance %at : !kgpu.cursor<2>
      scf.yield %next : !kgpu.cursor<2>
    }
    kgpu.end_role
  } @read warps 4 {
    %c = kgpu.cursor : !kgpu.cursor<2>
    %runs = arith.cmpi slt, %zero, %n : i32
    scf.if %runs {
      %s = kgpu.receive %ch[%c] : !ring -> !m
      %first = kgpu.local_load %s : !m -> tensor<64xf32>
      %end = scf.for %i = %one to %n step %one iter_args(%at = %c) -> (!kgpu.cursor<2>) : i32 {
        %next = kgpu.advance %at : !kgpu.cursor<2>
        %r = kgpu.receive %ch[%at] again : !ring -> !m
        %t = kgpu.receive %ch[%next] : !ring -> !m
        %x = kgpu.local_load %t : !m -> tensor<64xf32>
        %y = kgpu.local_load %r : !m -> tensor<64xf32>
        kgpu.release %ch[%at] : !ring
        scf.yield %next : !kgpu.cursor<2>
      }
      %r = kgpu.receive %ch[%end] again : !ring -> !m
      %y = kgpu.local_load %r : !m -> tensor<64xf32>
      kgpu.release %ch[%end] : !ring
    }
    kgpu.end_role
  }
  return
}
