// Warps branch by their number into roles, each with its own threads, barriers and registers; values computed once are
// computed at the role's entry.
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-overlap-launches --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// Roles start at multiples of four warps if registers are reallocated, and the block is launched with equal shares:
// 65536 / 384 is 168, rounded down to a multiple of eight. There is one chain of branches on a uniform number. Filler
// warps give their registers back too, and do nothing else.
// CHECK-LABEL: llvm.func @kiln_two(
// CHECK-SAME: kiln.cuda = {cluster = 1 : i64, max_registers = 0 : i64, num_warps = 12 : i64, pdl = false, roles = true, shared_bytes = 0 : i64, threads = 384 : i64}
// CHECK-SAME: nvvm.maxnreg = 168 : i32
// CHECK-SAME: nvvm.reqntid = array<i32: 384, 1, 1>
// CHECK: %[[TID:.*]] = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.tid.x"
// CHECK: %[[SHIFT:.*]] = arith.shrui %[[TID]], %c5_i32
// CHECK: %[[WARP:.*]] = llvm.call_intrinsic "llvm.nvvm.shfl.sync.idx.i32"(%c-1_i32, %[[SHIFT]], %c0_i32, %c31_i32)
// CHECK: %[[FIRST:.*]] = arith.cmpi ult, %[[WARP]], %c4_i32
// CHECK: scf.if %[[FIRST]] {
// CHECK-NEXT: "setmaxnreg.dec.sync.aligned.u32 24;"
// CHECK: %[[WORKS:.*]] = arith.cmpi ult, %[[WARP]], %c1_i32
// CHECK: scf.if %[[WORKS]] {
// A scalar is stored by the role's first thread, here that of the block.
// CHECK: %[[MINE:.*]] = arith.cmpi eq, %[[TID]], %c0_i32
// CHECK: "llvm.nvvm.bar.warp.sync"
// CHECK: } else {
// CHECK-NEXT: "setmaxnreg.inc.sync.aligned.u32 240;"
// Thread 128 of the block is the first of this role and its groups are counted from there. Its barrier is the second,
// for its 256 threads. Its groups have the two barriers after those of roles and of earlier groups, each for 128
// threads.
// CHECK: %[[OWN:.*]] = arith.subi %[[TID]], %c128_i32
// CHECK: arith.cmpi eq, %[[OWN]], %c0_i32
// CHECK: %[[GROUP:.*]] = arith.divui %{{.*}}, %c4_i32
// CHECK: %[[NUMBER:.*]] = arith.addi %[[GROUP]], %c4_i32
// CHECK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.count"(%c2_i32, %c256_i32)
// CHECK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.count"(%[[NUMBER]], %c128_i32)
// CHECK: llvm.return
module attributes {kgpu.num_warps = 8 : i32} {
  func.func public @two(%p: !tile.ptr<i32>) attributes {tile.kernel} {
    kgpu.roles @load warps 1 registers 24 {
      %one = arith.constant 1 : i32
      tile.store %p, %one : !tile.ptr<i32>, i32
      kgpu.barrier role
      kgpu.end_role
    } @multiply groups 2 warps 4 registers 240 {
      %two = arith.constant 2 : i32
      tile.store %p, %two : !tile.ptr<i32>, i32
      kgpu.barrier role
      kgpu.barrier group
      kgpu.end_role
    }
    return
  }
}

// -----

// Roles that share four warps split up after the one instruction by which all four release registers; their barriers are
// theirs alone.
// CHECK-LABEL: llvm.func @kiln_three(
// CHECK-SAME: threads = 384 : i64
// CHECK: %[[TID:.*]] = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.tid.x"
// CHECK: %[[COPY:.*]] = arith.cmpi ult, %[[WARP:.*]], %c4_i32
// CHECK: scf.if %[[COPY]] {
// CHECK-NEXT: "setmaxnreg.dec.sync.aligned.u32 24;"
// CHECK-NOT: setmaxnreg
// CHECK: %[[LOADS:.*]] = arith.cmpi ult, %[[WARP]], %c1_i32
// CHECK: scf.if %[[LOADS]] {
// CHECK: arith.cmpi eq, %[[TID]], %c0_i32
// CHECK: } else {
// CHECK: %[[ADDS:.*]] = arith.cmpi ult, %[[WARP]], %c2_i32
// CHECK: scf.if %[[ADDS]] {
// CHECK: %[[OWN:.*]] = arith.subi %[[TID]], %c32_i32
// CHECK: arith.cmpi eq, %[[OWN]], %c0_i32
// CHECK: "setmaxnreg.inc.sync.aligned.u32 240;"
// CHECK-NOT: setmaxnreg
// CHECK: llvm.return
module attributes {kgpu.num_warps = 8 : i32} {
  func.func public @three(%p: !tile.ptr<i32>) attributes {tile.kernel} {
    kgpu.roles @load warps 1 registers 24 {
      %one = arith.constant 1 : i32
      tile.store %p, %one : !tile.ptr<i32>, i32
      kgpu.end_role
    } @add warps 1 registers 24 {
      %two = arith.constant 2 : i32
      tile.store %p, %two : !tile.ptr<i32>, i32
      kgpu.end_role
    } @multiply groups 2 warps 4 registers 240 {
      %three = arith.constant 3 : i32
      tile.store %p, %three : !tile.ptr<i32>, i32
      kgpu.end_role
    }
    return
  }
}

// -----

// Turns have barriers of their own, after those of roles and groups: the group whose turn it is and the one before it
// come to each. Where the role starts the last group opens the first one's turn; where it ends, the first group takes
// the turn that is left.
// CHECK-LABEL: llvm.func @kiln_turns(
// CHECK: %[[GROUP:.*]] = arith.divui %{{.*}}, %c4_i32
// CHECK: %[[NEXT:.*]] = arith.addi %[[GROUP]], %c1_i32
// CHECK: %[[LAST:.*]] = arith.cmpi eq, %[[NEXT]], %c3_i32
// CHECK: %[[AFTER:.*]] = arith.select %[[LAST]], %c0_i32, %[[NEXT]]
// CHECK: %[[NEXTS:.*]] = arith.addi %[[AFTER]], %c8_i32
// CHECK: %[[OPENS:.*]] = arith.cmpi eq, %[[GROUP]], %c2_i32
// CHECK: scf.if %[[OPENS]] {
// CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.barrier.cta.arrive.aligned.count"(%[[NEXTS]], %c256_i32)
// CHECK-NEXT: }
// CHECK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.count"(%[[OWN:.*]], %c256_i32)
// CHECK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.arrive.aligned.count"(%[[NEXTS]], %c256_i32)
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[GROUP]], %c0_i32
// CHECK: scf.if %[[FIRST]] {
// CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.count"(%[[OWN]], %c256_i32)
// CHECK-NEXT: }
module attributes {kgpu.num_warps = 8 : i32} {
  func.func public @turns() attributes {tile.kernel} {
    kgpu.roles @load warps 1 {
      kgpu.end_role
    } @multiply groups 3 warps 4 {
      kgpu.begin_turn
      kgpu.end_turn
      kgpu.end_role
    }
    return
  }
}

// -----

// A thread's position in a tile: warp and group within the role, from the uniform number. The second role computes its
// own and uses nothing of the first.
// CHECK-LABEL: llvm.func @kiln_parts(
// CHECK-SAME: nvvm.reqntid = array<i32: 512, 1, 1>
// CHECK-NOT: setmaxnreg
// CHECK: %[[WARP:.*]] = llvm.call_intrinsic "llvm.nvvm.shfl.sync.idx.i32"
// CHECK: scf.if
// CHECK:   %[[G0:.*]] = arith.divui %[[WARP]], %c4_i32
// CHECK: } else {
// CHECK:   %[[OWN:.*]] = arith.subi %[[WARP]], %c8_i32
// CHECK:   %[[G1:.*]] = arith.divui %[[OWN]], %c4_i32
#t = #layout.map<digits [256] lane (1) (2) (4) (8) (16) warp (32) (64) group (128)>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @parts(%q: !tile.ptr<i32>) attributes {tile.kernel} {
    kgpu.roles @one groups 2 warps 4 {
      %r = tile.make_range 0 to 256 : tensor<256xi32, #t>
      %y = tile.splat %q : !tile.ptr<i32> -> tensor<256x!tile.ptr<i32>, #t>
      %z = tile.addptr %y, %r : tensor<256x!tile.ptr<i32>, #t>, tensor<256xi32, #t>
      tile.store %z, %r : tensor<256x!tile.ptr<i32>, #t>, tensor<256xi32, #t>
      kgpu.end_role
    } @other groups 2 warps 4 {
      %r = tile.make_range 0 to 256 : tensor<256xi32, #t>
      %y = tile.splat %q : !tile.ptr<i32> -> tensor<256x!tile.ptr<i32>, #t>
      %z = tile.addptr %y, %r : tensor<256x!tile.ptr<i32>, #t>, tensor<256xi32, #t>
      tile.store %z, %r : tensor<256x!tile.ptr<i32>, #t>, tensor<256xi32, #t>
      kgpu.end_role
    }
    return
  }
}

// -----

// With pdl each role waits before its own first access to global memory; a role without accesses does not wait.
// CHECK-LABEL: llvm.func @kiln_waits(
// CHECK: "griddepcontrol.launch_dependents;"
// CHECK: scf.if
// CHECK-NOT: griddepcontrol
// CHECK: "llvm.nvvm.bar.warp.sync"
// CHECK: "griddepcontrol.wait;"
// CHECK: } else {
// CHECK: scf.if
// CHECK-NOT: griddepcontrol
// CHECK: "llvm.nvvm.bar.warp.sync"
// CHECK: } else {
// CHECK: "griddepcontrol.wait;"
// CHECK: llvm.return
module attributes {kgpu.pdl} {
  func.func public @waits(%p: !tile.ptr<i32>) attributes {tile.kernel} {
    %one = arith.constant 1 : i32
    kgpu.roles @one warps 1 {
      kgpu.barrier role
      tile.store %p, %one : !tile.ptr<i32>, i32
      kgpu.end_role
    } @two warps 1 {
      kgpu.barrier role
      kgpu.end_role
    } @three warps 2 {
      tile.store %p, %one : !tile.ptr<i32>, i32
      kgpu.end_role
    }
    return
  }
}
