// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-overlap-launches --kiln-close-reads --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// A cluster of two blocks is one program instance; the instance number is the cluster's.
// CHECK-LABEL: llvm.func @kiln_launch(
// CHECK-SAME: kiln.cuda = {cluster = 2 : i64, max_registers = 64 : i64, num_warps = 8 : i64, pdl = false, shared_bytes = 512 : i64, threads = 256 : i64}
// CHECK-SAME: nvvm.cluster_dim = array<i32: 2, 1, 1>
// CHECK-SAME: nvvm.maxnreg = 64 : i32
// CHECK-SAME: nvvm.reqntid = array<i32: 256, 1, 1>
// CHECK-DAG: "llvm.nvvm.read.ptx.sreg.clusterid.x"
// CHECK-DAG: "llvm.nvvm.read.ptx.sreg.nctaid.y"
// CHECK-DAG: %[[RANK:.*]] = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.cluster.ctarank"
// CHECK: arith.ori %{{.*}}, %[[RANK]]
module attributes {kgpu.num_warps = 8 : i32, kgpu.cluster = 2 : i32, kgpu.max_registers = 64 : i32} {
  func.func public @launch(%x: !tile.ptr<i32>) attributes {tile.kernel, kgpu.shared_bytes = 512 : i64} {
    %id = tile.program_id x : i32
    %n = tile.num_programs y : i32
    %s = arith.addi %id, %n : i32
    %p = tile.addptr %x, %s : !tile.ptr<i32>, i32
    tile.store %p, %s : !tile.ptr<i32>, i32
    return
  }
}

// -----

// With pdl the wait comes before the first memory access, even inside a loop. If there is no run of tile reads, the
// next grid may start after it. No argument is promised to be read only: the previous grid may still be writing it.
// CHECK-LABEL: llvm.func @kiln_pdl(%{{.*}}: !llvm.ptr<1>, %{{.*}}: i32)
// CHECK: arith.muli
// CHECK: "griddepcontrol.wait;"
// CHECK-NEXT: "griddepcontrol.launch_dependents;"
// CHECK-NEXT: scf.for
// CHECK: llvm.load
// CHECK-NOT: griddepcontrol
module attributes {kgpu.num_warps = 1 : i32, kgpu.pdl} {
  func.func public @pdl(%x: !tile.ptr<i32> {tile.disjoint}, %n: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %m = arith.muli %n, %n : i32
    %sum = scf.for %i = %c0 to %m step %c1 iter_args(%a = %c0) -> (i32) : i32 {
      %p = tile.addptr %x, %i : !tile.ptr<i32>, i32
      %v = tile.load %p : !tile.ptr<i32> -> i32
      %b = arith.addi %a, %v : i32
      scf.yield %b : i32
    }
    tile.store %x, %sum : !tile.ptr<i32>, i32
    return
  }
}

// -----

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// After the first run of tile reads the next grid may start; launch_dependents keeps the reads in place, so there is no
// pmevent. A single read is a run too; the second run triggers nothing.
// CHECK-LABEL: llvm.func @kiln_pdl_run(
// CHECK-NOT: griddepcontrol
// CHECK: "griddepcontrol.wait;"
// CHECK: "ld.global.b32 $0, [$1];"
// CHECK: "ld.global.b32 $0, [$1];"
// CHECK-NEXT: "griddepcontrol.launch_dependents;"
// CHECK-NOT: inline_asm
// CHECK: llvm.store
// CHECK-NOT: griddepcontrol
// CHECK-LABEL: llvm.func @kiln_pdl_one(
// CHECK-NOT: griddepcontrol
// CHECK: "griddepcontrol.wait;"
// CHECK: "ld.global.b32 $0, [$1];"
// CHECK-NEXT: "griddepcontrol.launch_dependents;"
// CHECK-NEXT: llvm.store
// CHECK: "ld.global.b32 $0, [$1];"
// CHECK-NOT: griddepcontrol
module attributes {kgpu.num_warps = 4 : i32, kgpu.pdl} {
  func.func public @pdl_run(%x: !tile.ptr<i32> {tile.disjoint}, %y: !tile.ptr<i32> {tile.disjoint}) attributes {tile.kernel} {
    %r = tile.make_range 0 to 128 : tensor<128xi32, #b>
    %xs = tile.splat %x : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %xp = tile.addptr %xs, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %ys = tile.splat %y : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %yp = tile.addptr %ys, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %v = tile.load %xp : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    %w = tile.load %yp : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    %s = arith.addi %v, %w : tensor<128xi32, #b>
    tile.store %yp, %s : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    return
  }
  func.func public @pdl_one(%x: !tile.ptr<i32> {tile.disjoint}, %y: !tile.ptr<i32> {tile.disjoint}) attributes {tile.kernel} {
    %r = tile.make_range 0 to 128 : tensor<128xi32, #b>
    %xs = tile.splat %x : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %xp = tile.addptr %xs, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %ys = tile.splat %y : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %yp = tile.addptr %ys, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %v = tile.load %xp : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    tile.store %yp, %v : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %w = tile.load %xp : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    %s = arith.addi %w, %w : tensor<128xi32, #b>
    tile.store %yp, %s : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    return
  }
}

// -----

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// A loop ends the run, even if only its body uses the values: after it, the next grid would start late. Reads in loops
// only are no run: the trigger is behind the wait.
// CHECK-LABEL: llvm.func @kiln_pdl_before_loop(
// CHECK-NOT: griddepcontrol
// CHECK: "griddepcontrol.wait;"
// CHECK: "ld.global.b32 $0, [$1];"
// CHECK-NEXT: "griddepcontrol.launch_dependents;"
// CHECK: scf.for
// CHECK-NOT: griddepcontrol
// CHECK-LABEL: llvm.func @kiln_pdl_in_loop(
// CHECK: "griddepcontrol.wait;"
// CHECK-NEXT: "griddepcontrol.launch_dependents;"
// CHECK-NEXT: scf.for
// CHECK: "ld.global.b32 $0, [$1];"
// CHECK-NOT: griddepcontrol
module attributes {kgpu.num_warps = 4 : i32, kgpu.pdl} {
  func.func public @pdl_before_loop(%x: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %r = tile.make_range 0 to 128 : tensor<128xi32, #b>
    %xs = tile.splat %x : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %xp = tile.addptr %xs, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %v = tile.load %xp : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    scf.for %i = %c0 to %n step %c1 : i32 {
      %is = tile.splat %i : i32 -> tensor<128xi32, #b>
      %ip = tile.addptr %xp, %is : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
      tile.store %ip, %v : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    }
    return
  }
  func.func public @pdl_in_loop(%x: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %r = tile.make_range 0 to 128 : tensor<128xi32, #b>
    %xs = tile.splat %x : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %xp = tile.addptr %xs, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    scf.for %i = %c0 to %n step %c1 : i32 {
      %v = tile.load %xp : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
      %w = arith.addi %v, %v : tensor<128xi32, #b>
      tile.store %xp, %w : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    }
    return
  }
}

// -----

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// A loop comes first: after it the next grid would start late, even if tiles are read there.
// CHECK-LABEL: llvm.func @kiln_pdl_behind_loop(
// CHECK: "griddepcontrol.wait;"
// CHECK-NEXT: "griddepcontrol.launch_dependents;"
// CHECK-NEXT: scf.for
// CHECK: "ld.global.b32 $0, [$1];"
// CHECK-NOT: griddepcontrol
// A write ends a run of reads that nothing has used yet; the op that replaces pmevent is emitted once.
// CHECK-LABEL: llvm.func @kiln_pdl_before_store(
// CHECK: "griddepcontrol.wait;"
// CHECK: "ld.global.b32 $0, [$1];"
// CHECK: "ld.global.b32 $0, [$1];"
// CHECK-NEXT: "griddepcontrol.launch_dependents;"
// CHECK-NOT: inline_asm
// CHECK: llvm.return
// Every grid waits, so that the next one, which waits only for it, waits for all.
// CHECK-LABEL: llvm.func @kiln_pdl_nothing(
// CHECK: "griddepcontrol.launch_dependents;"
// CHECK: "griddepcontrol.wait;"
// CHECK-NEXT: llvm.return
module attributes {kgpu.num_warps = 4 : i32, kgpu.pdl} {
  func.func public @pdl_behind_loop(%x: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %r = tile.make_range 0 to 128 : tensor<128xi32, #b>
    %xs = tile.splat %x : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %xp = tile.addptr %xs, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    scf.for %i = %c0 to %n step %c1 : i32 {
      tile.store %xp, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    }
    %v = tile.load %xp : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    tile.store %xp, %v : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    return
  }
  func.func public @pdl_before_store(%x: !tile.ptr<i32> {tile.disjoint}, %y: !tile.ptr<i32> {tile.disjoint})
      attributes {tile.kernel} {
    %r = tile.make_range 0 to 128 : tensor<128xi32, #b>
    %c = arith.constant dense<128> : tensor<128xi32, #b>
    %xs = tile.splat %x : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %xp = tile.addptr %xs, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %xq = tile.addptr %xp, %c : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %ys = tile.splat %y : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %yp = tile.addptr %ys, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %yq = tile.addptr %yp, %c : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %v = tile.load %xp : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    %w = tile.load %xq : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    tile.store %yp, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %s = arith.addi %v, %w : tensor<128xi32, #b>
    tile.store %yq, %s : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    return
  }
  func.func public @pdl_nothing() attributes {tile.kernel} {
    return
  }
}

// -----

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// A kernel that triggers or waits explicitly gets no other op of that kind. Neither op is a memory access, and memory
// after the wait is still not promised to be constant.
// CHECK-LABEL: llvm.func @kiln_pdl_said(%{{.*}}: !llvm.ptr<1>, %{{.*}}: i8)
// CHECK-NOT: griddepcontrol
// CHECK: "griddepcontrol.wait;"
// CHECK: "ld.global.b32 $0, [$1];"
// CHECK: "ld.global.b32 $0, [$1];"
// CHECK-NOT: pmevent
// CHECK: scf.if
// CHECK-NEXT: "griddepcontrol.launch_dependents;"
// CHECK-NOT: griddepcontrol
// CHECK-LABEL: llvm.func @kiln_pdl_trigger_first(
// CHECK: "griddepcontrol.launch_dependents;"
// CHECK-NEXT: "griddepcontrol.wait;"
// CHECK-NEXT: st.global.b32
// CHECK-NOT: griddepcontrol
// CHECK-LABEL: llvm.func @kiln_pdl_wait_later(%{{.*}}: !llvm.ptr<1>)
// CHECK-NOT: griddepcontrol
// CHECK: "ld.global.b32 $0, [$1];"
// CHECK: "ld.global.b32 $0, [$1];"
// CHECK-NEXT: "griddepcontrol.launch_dependents;"
// CHECK-NEXT: "griddepcontrol.wait;"
// CHECK-NOT: pmevent
// CHECK: llvm.store
// CHECK-NOT: griddepcontrol
module attributes {kgpu.num_warps = 4 : i32, kgpu.pdl} {
  func.func public @pdl_said(%x: !tile.ptr<i32> {tile.disjoint}, %c: i1) attributes {tile.kernel} {
    %r = tile.make_range 0 to 128 : tensor<128xi32, #b>
    %xs = tile.splat %x : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %xp = tile.addptr %xs, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %v = tile.load %xp : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    %rp = tile.addptr %xp, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %w = tile.load %rp : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    scf.if %c {
      tile.launch_dependents
    }
    return
  }
  func.func public @pdl_trigger_first(%x: !tile.ptr<i32>) attributes {tile.kernel} {
    %c1 = arith.constant 1 : i32
    tile.launch_dependents
    tile.store %x, %c1 : !tile.ptr<i32>, i32
    return
  }
  func.func public @pdl_wait_later(%x: !tile.ptr<i32> {tile.disjoint}) attributes {tile.kernel} {
    %r = tile.make_range 0 to 128 : tensor<128xi32, #b>
    %xs = tile.splat %x : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %xp = tile.addptr %xs, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %v = tile.load %xp : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    %rp = tile.addptr %xp, %r : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    %w = tile.load %rp : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    tile.wait_for_grid
    %s = arith.addi %v, %w : tensor<128xi32, #b>
    tile.store %xp, %s : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    return
  }
}

// -----

// Without pdl there is neither.
// CHECK-LABEL: llvm.func @kiln_no_pdl(
// CHECK-NOT: griddepcontrol
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @no_pdl(%x: !tile.ptr<i32>) attributes {tile.kernel} {
    tile.wait_for_grid
    %v = tile.load %x : !tile.ptr<i32> -> i32
    tile.launch_dependents
    tile.store %x, %v : !tile.ptr<i32>, i32
    return
  }
}

// -----

// Arguments are in the packed block at natural alignment; bool and f8 take a byte.
// CHECK-LABEL: llvm.func @kiln_arguments(%{{.*}}: i8, %{{.*}}: f64, %{{.*}}: i8, %{{.*}}: f16, %{{.*}}: !llvm.ptr<1>)
// CHECK-SAME: {align = 1 : i64, kind = "scalar", name = "arg0", offset = 0 : i64, size = 1 : i64, type = "i1"}
// CHECK-SAME: {align = 8 : i64, kind = "scalar", name = "arg1", offset = 8 : i64, size = 8 : i64, type = "fp64"}
// CHECK-SAME: {align = 1 : i64, kind = "scalar", name = "arg2", offset = 16 : i64, size = 1 : i64, type = "fp8e4nv"}
// CHECK-SAME: {align = 2 : i64, kind = "scalar", name = "arg3", offset = 18 : i64, size = 2 : i64, type = "fp16"}
// CHECK-SAME: {align = 8 : i64, kind = "pointer", name = "arg4", offset = 24 : i64, size = 8 : i64, type = "*fp64", written = true}
// CHECK-SAME: kiln.arguments_bytes = 32
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @arguments(%a: i1, %b: f64, %c: f8E4M3FN, %d: f16, %x: !tile.ptr<f64>) attributes {tile.kernel} {
    tile.store %x, %b mask %a : !tile.ptr<f64>, f64 mask i1
    return
  }
}
