// The ring of `simple`, where each warp copies what it multiplies: one member of a batch for each of four warps. Then a
// step has no barrier of all warps, but the receives after the loop do.
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_80},func.func(kiln-choose-schedule))' | FileCheck %s --check-prefix=CHOSEN
// RUN: kiln-opt %s --split-input-file --pass-pipeline='builtin.module(kiln-set-target{target=sm_80},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse)' | FileCheck %s --check-prefix=RING
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_80 --kiln-kgpu-pipeline 2>/dev/null | FileCheck %s
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_80 --kiln-kgpu-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: kiln-opt %s --split-input-file --kiln-set-target=target=sm_80 --kiln-kgpu-pipeline --kiln-kgpu-to-nvvm 2>/dev/null | FileCheck %s --check-prefix=PTX

// Members are 16 rows of 64. Warp digits have the two highest bits of the rows, in the copies and in what products read.
// CHOSEN: kgpu.schedule = {name = "lanes", stages = 3 : i32}
// RING: kgpu.channel {{ *}}groups warps_apart fillers 4 readers 4
// RING: kgpu.receive %{{.*}} pending 1 :
// CHECK-DAG: #[[COPIED:.*]] = #layout.map<digits [64, 32] reg (0, 1) (0, 2) (0, 4) (8, 0) lane {{.*}} warp (16, 0) (32, 0)>
// CHECK-LABEL: func.func @member_for_each_warp
// CHECK: scf.for
// CHECK:   kgpu.copy_tile {{.*}} tensor<64x32x!tile.ptr<f16>, #[[COPIED]]>
// CHECK: scf.for
// CHECK-NOT: kgpu.barrier
// CHECK:   kgpu.receive %{{.*}} pending 1 by_warp :
// CHECK-NOT: kgpu.barrier
// CHECK:   kgpu.copy_tile {{.*}} tensor<64x32x!tile.ptr<f16>, #[[COPIED]]>
// CHECK-NOT: kgpu.barrier
// CHECK:   kgpu.warp_mma
// CHECK-NOT: kgpu.barrier
// CHECK:   scf.yield
// CHECK: kgpu.receive %{{[^ ]*}}[%{{[^ ]*}}] :
// CHECK: kgpu.receive %{{[^ ]*}}[%{{[^ ]*}}] :
// PTX-LABEL: llvm.func @kiln_member_for_each_warp
// PTX: "cp.async.commit_group;"
// PTX: "cp.async.wait_group 1;"
// PTX-NOT: barrier.cta
// PTX: nvvm.bar.warp.sync
// PTX-NOT: barrier.cta
// PTX: "cp.async.commit_group;"
// PTX-NOT: barrier.cta
// PTX: mma.sync
// PTX-NOT: barrier.cta
// PTX: "cp.async.wait_group 0;"
// PTX: barrier.cta
module attributes {kgpu.num_warps = 4 : i32, kgpu.stages = 3 : i32, kgpu.schedule = "lanes"} {
  func.func @member_for_each_warp(%p: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %out: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %end: i32, %w: f16) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<4x16x32xf32>
    %none = arith.constant dense<0.0> : tensor<64x32xf16>
    %weights = tile.splat %w : f16 -> tensor<4x16x16xf16>
    %row = tile.make_range 0 to 64 : tensor<64xi32>
    %rows = tile.expand_dims %row 1 : tensor<64xi32> -> tensor<64x1xi32>
    %column = tile.make_range 0 to 32 : tensor<32xi32>
    %columns = tile.expand_dims %column 0 : tensor<32xi32> -> tensor<1x32xi32>
    %across = tile.broadcast %columns : tensor<1x32xi32> -> tensor<64x32xi32>
    %width = arith.constant dense<32> : tensor<64x1xi32>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<4x16x32xf32>) : i32 {
      %first = tile.splat %k : i32 -> tensor<64x1xi32>
      %token = arith.addi %rows, %first : tensor<64x1xi32>
      %last = tile.splat %end : i32 -> tensor<64x1xi32>
      %there = arith.cmpi slt, %token, %last : tensor<64x1xi32>
      %mask = tile.broadcast %there : tensor<64x1xi1> -> tensor<64x32xi1>
      %distance = arith.muli %token, %width : tensor<64x1xi32>
      %down = tile.broadcast %distance : tensor<64x1xi32> -> tensor<64x32xi32>
      %place = arith.addi %down, %across : tensor<64x32xi32>
      %base = tile.splat %p : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
      %pointers = tile.addptr %base, %place : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
      %x = tile.load %pointers mask %mask other %none : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
      %members = tile.reshape %x : tensor<64x32xf16> -> tensor<4x16x32xf16>
      %d = tile.dot %weights, %members, %acc : tensor<4x16x16xf16>, tensor<4x16x32xf16> -> tensor<4x16x32xf32>
      scf.yield %d : tensor<4x16x32xf32>
    }
    %places = tile.make_range 0 to 2048 : tensor<2048xi32>
    %flat = tile.reshape %sum : tensor<4x16x32xf32> -> tensor<2048xf32>
    %outs = tile.splat %out : !tile.ptr<f32> -> tensor<2048x!tile.ptr<f32>>
    %to = tile.addptr %outs, %places : tensor<2048x!tile.ptr<f32>>, tensor<2048xi32>
    tile.store %to, %flat : tensor<2048x!tile.ptr<f32>>, tensor<2048xf32>
    return
  }
}

// -----

// Two warps multiply the same member: each reads what the other has copied, too, so the barrier stays.
// CHECK-LABEL: func.func @member_for_two_warps
// CHECK: kgpu.channel {{ *}}groups warps_apart
// CHECK-NOT: by_warp
// REMARK: remark: schedule lanes: warps wait for each other in each step, because not every warp reads what it alone has copied here
// PTX-LABEL: llvm.func @kiln_member_for_two_warps
// PTX: "cp.async.wait_group 1;"
// PTX-NOT: bar.warp.sync
// PTX: barrier.cta
module attributes {kgpu.num_warps = 4 : i32, kgpu.stages = 3 : i32, kgpu.schedule = "lanes"} {
  func.func @member_for_two_warps(%p: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %out: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64}, %end: i32, %w: f16) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<2x16x32xf32>
    %none = arith.constant dense<0.0> : tensor<64x32xf16>
    %weights = tile.splat %w : f16 -> tensor<2x16x32xf16>
    %row = tile.make_range 0 to 64 : tensor<64xi32>
    %rows = tile.expand_dims %row 1 : tensor<64xi32> -> tensor<64x1xi32>
    %column = tile.make_range 0 to 32 : tensor<32xi32>
    %columns = tile.expand_dims %column 0 : tensor<32xi32> -> tensor<1x32xi32>
    %across = tile.broadcast %columns : tensor<1x32xi32> -> tensor<64x32xi32>
    %width = arith.constant dense<32> : tensor<64x1xi32>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<2x16x32xf32>) : i32 {
      %first = tile.splat %k : i32 -> tensor<64x1xi32>
      %token = arith.addi %rows, %first : tensor<64x1xi32>
      %last = tile.splat %end : i32 -> tensor<64x1xi32>
      %there = arith.cmpi slt, %token, %last : tensor<64x1xi32>
      %mask = tile.broadcast %there : tensor<64x1xi1> -> tensor<64x32xi1>
      %distance = arith.muli %token, %width : tensor<64x1xi32>
      %down = tile.broadcast %distance : tensor<64x1xi32> -> tensor<64x32xi32>
      %place = arith.addi %down, %across : tensor<64x32xi32>
      %base = tile.splat %p : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
      %pointers = tile.addptr %base, %place : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
      %x = tile.load %pointers mask %mask other %none : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
      %members = tile.reshape %x : tensor<64x32xf16> -> tensor<2x32x32xf16>
      %d = tile.dot %weights, %members, %acc : tensor<2x16x32xf16>, tensor<2x32x32xf16> -> tensor<2x16x32xf32>
      scf.yield %d : tensor<2x16x32xf32>
    }
    %places = tile.make_range 0 to 1024 : tensor<1024xi32>
    %flat = tile.reshape %sum : tensor<2x16x32xf32> -> tensor<1024xf32>
    %outs = tile.splat %out : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
    %to = tile.addptr %outs, %places : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    tile.store %to, %flat : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
    return
  }
}
