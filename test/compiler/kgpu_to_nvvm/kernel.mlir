// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// A cluster of two blocks is one program instance; its number is that of the cluster.
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

// With pdl the next grid may start at once, and the wait stands before the first access to memory, also where that is
// inside a loop. No argument is promised to be read only: the grid before may still be writing it.
// CHECK-LABEL: llvm.func @kiln_pdl(%{{.*}}: !llvm.ptr<1>, %{{.*}}: i32)
// CHECK: "griddepcontrol.launch_dependents;"
// CHECK: arith.muli
// CHECK: "griddepcontrol.wait;"
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

// Arguments lie in the packed block with their natural alignment; bool and f8 are bytes.
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
