// A persistent kernel: which instances a block runs, and how the grid is passed.
// RUN: kiln-opt %s --split-input-file --verify-diagnostics --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm --canonicalize --cse | FileCheck %s

// The grid comes as three parameters after the log; the hardware grid is one line of blocks. Reports name the instance
// that the loop is at.
// CHECK-LABEL: llvm.func @kiln_loop(
// CHECK-SAME: %[[X:[^ :]*]]: !llvm.ptr<1>, %[[LOG:[^ :]*]]: i64, %[[GX:[^ :]*]]: i32, %[[GY:[^ :]*]]: i32, %[[GZ:[^ :]*]]: i32)
// CHECK-SAME: persistent = true
// CHECK-DAG: %[[FIRST:.*]] = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.ctaid.x"
// CHECK-DAG: %[[STEP:.*]] = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.nctaid.x"
// CHECK-NOT: sreg.nctaid
// CHECK-DAG: %[[XY:.*]] = arith.muli %[[GX]], %[[GY]]
// CHECK-DAG: %[[ALL:.*]] = arith.muli %[[XY]], %[[GZ]]
// CHECK: scf.for unsigned %[[P:.*]] = %[[FIRST]] to %[[ALL]] step %[[STEP]]
// CHECK: arith.extui %[[P]] : i32 to i64
// CHECK: llvm.store %[[GX]]
// CHECK: llvm.store %[[GY]]
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @loop(%x: !tile.ptr<i32>) attributes {tile.kernel, kgpu.persistent} {
    %first = kgpu.first_program : i32
    %step = kgpu.program_step : i32
    %gx = tile.num_programs x : i32
    %gy = tile.num_programs y : i32
    %gz = tile.num_programs z : i32
    %xy = arith.muli %gx, %gy : i32
    %all = arith.muli %xy, %gz : i32
    scf.for unsigned %p = %first to %all step %step : i32 {
      %a = tile.addptr %x, %p : !tile.ptr<i32>, i32
      %v = tile.load %a : !tile.ptr<i32> -> i32
      %ok = arith.cmpi eq, %v, %p : i32
      tile.assert %ok, "v" : i1
    }
    return
  }
}

// -----

// If the grid has only one axis, a program's number is its position along it; only otherwise is it divided.
// CHECK-LABEL: llvm.func @kiln_place(
// CHECK-SAME: %{{[^ ]*}}: !llvm.ptr<1>, %[[GX:[^ :]*]]: i32
// CHECK: scf.for unsigned %[[P:.*]] =
// CHECK-NEXT: %[[LINE:.*]] = arith.cmpi ult, %[[P]], %[[GX]] : i32
// CHECK-NEXT: %[[PLACE:.*]] = scf.if %[[LINE]] -> (i32) {
// CHECK-NEXT:   scf.yield %[[P]] : i32
// CHECK-NEXT: } else {
// CHECK-NEXT:   %[[LEFT:.*]] = arith.remui %[[P]], %[[GX]] : i32
// CHECK-NEXT:   scf.yield %[[LEFT]] : i32
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @place(%x: !tile.ptr<i32>) attributes {tile.kernel, kgpu.persistent} {
    %first = kgpu.first_program : i32
    %step = kgpu.program_step : i32
    %gx = tile.num_programs x : i32
    %gy = tile.num_programs y : i32
    %all = arith.muli %gx, %gy : i32
    scf.for unsigned %p = %first to %all step %step : i32 {
      %i = arith.remui %p, %gx : i32
      %a = tile.addptr %x, %i : !tile.ptr<i32>, i32
      tile.store %a, %i : !tile.ptr<i32>, i32
    }
    return
  }
}

// -----

// With clusters, whole clusters are counted.
// CHECK-LABEL: llvm.func @kiln_clusters(
// CHECK-SAME: %{{[^ ]*}}: !llvm.ptr<1>, %{{[^ ]*}}: i32, %[[GX:[^ :]*]]: i32, %{{[^ ]*}}: i32, %{{[^ ]*}}: i32)
// CHECK-DAG: "llvm.nvvm.read.ptx.sreg.clusterid.x"
// CHECK-DAG: "llvm.nvvm.read.ptx.sreg.nclusterid.x"
module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 2 : i32} {
  func.func public @clusters(%x: !tile.ptr<i32>, %n: i32) attributes {tile.kernel, kgpu.persistent} {
    %first = kgpu.first_program : i32
    %step = kgpu.program_step : i32
    %all = tile.num_programs x : i32
    scf.for unsigned %p = %first to %all step %step : i32 {
      %a = tile.addptr %x, %p : !tile.ptr<i32>, i32
      tile.store %a, %n : !tile.ptr<i32>, i32
    }
    return
  }
}

// -----

module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @id(%x: !tile.ptr<i32>) attributes {tile.kernel, kgpu.persistent} {
    // expected-error @below {{expected no such op in a persistent kernel (because a block runs many program instances there), got one}}
    %p = tile.program_id x : i32
    tile.store %x, %p : !tile.ptr<i32>, i32
    return
  }
}

// -----

module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @unmarked(%x: !tile.ptr<i32>) attributes {tile.kernel} {
    // expected-error @below {{expected a kernel marked kgpu.persistent (because others are launched with one block per program instance), got an unmarked one}}
    %p = kgpu.first_program : i32
    tile.store %x, %p : !tile.ptr<i32>, i32
    return
  }
}

// -----

module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @outside(%x: !tile.ptr<i32>) attributes {tile.kernel, kgpu.persistent} {
    %v = tile.load %x : !tile.ptr<i32> -> i32
    %zero = arith.constant 0 : i32
    %ok = arith.cmpi eq, %v, %zero : i32
    // expected-error @below {{expected this in a loop from kgpu.first_program in steps of kgpu.program_step}}
    tile.assert %ok, "v" : i1
    return
  }
}
