// All threads copy into a ring, two iterations ahead, and multiply what has arrived. There is one receive per step,
// whose barrier also shows that the slot filled next has been read. Groups are committed and received even for
// iterations that never come.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_80},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse)' | FileCheck %s

module attributes {kgpu.num_warps = 4 : i32, kgpu.stages = 3 : i32} {
// CHECK-DAG: #[[A:.*]] = #layout.map<swizzled [64, 32] element 2 bytes 64>
// CHECK-DAG: #[[B:.*]] = #layout.map<swizzled [32, 64] element 2 bytes 128>
// CHECK-DAG: #[[BT:.*]] = #layout.map<swizzled [32, 64] order [0, 1] element 2 bytes 64>
// CHECK-LABEL: func.func @product
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1 : i32
// CHECK-DAG: %[[TWO:.*]] = arith.constant 2 : i32
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK-DAG: %[[AHEAD:.*]] = arith.constant 64 : i32
// CHECK: %[[RING:.*]] = kgpu.channel {{ *}}groups fillers 4 readers 4 : <3 x (!kgpu.mem<64x32xf16, #[[A]]>, !kgpu.mem<32x64xf16, #[[B]]>)>
// CHECK: %[[START:.*]] = kgpu.cursor
// CHECK: %[[DA:.*]] = tile.make_desc
// CHECK: %[[DB:.*]] = tile.make_desc
// CHECK: %[[FILLED:.*]] = scf.for %[[J:.*]] = %[[ZERO]] to %[[TWO]] step %[[ONE]] iter_args(%[[AT:.*]] = %[[START]])
// CHECK:   %[[K:.*]] = arith.muli %[[J]]
// CHECK:   %[[COMES:.*]] = arith.cmpi slt, %[[K]], %[[END:.*]] : i32
// CHECK:   %[[SLOT:.*]]:2 = kgpu.acquire %[[RING]][%[[AT]]]
// CHECK:   kgpu.copy_block %[[DA]][%{{.*}}, %[[K]]] when %[[COMES]] to %[[SLOT]]#0 of %[[RING]][%[[AT]]]
// CHECK:   kgpu.copy_block %[[DB]][%[[K]], %{{.*}}] when %[[COMES]] to %[[SLOT]]#1 of %[[RING]][%[[AT]]]
// CHECK:   kgpu.commit %[[RING]][%[[AT]]]
// CHECK:   kgpu.advance %[[AT]]
// CHECK: %[[OUT:.*]]:3 = scf.for %[[K:.*]] = %[[ZERO]] to %[[END]] {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %[[R:.*]] = %[[START]], %[[W:.*]] = %[[FILLED]])
// CHECK:   %[[GOT:.*]]:2 = kgpu.receive %[[RING]][%[[R]]] pending 1
// CHECK:   %[[NEXT:.*]] = arith.addi %[[K]], %[[AHEAD]]
// CHECK:   %[[LIMIT:.*]] = arith.subi %[[END]], %[[AHEAD]]
// CHECK:   %[[COMES:.*]] = arith.cmpi slt, %[[K]], %[[LIMIT]]
// CHECK:   %[[SLOT:.*]]:2 = kgpu.acquire %[[RING]][%[[W]]]
// CHECK:   kgpu.copy_block %[[DA]][%{{.*}}, %[[NEXT]]] when %[[COMES]] to %[[SLOT]]#0
// CHECK:   kgpu.copy_block %[[DB]][%[[NEXT]], %{{.*}}] when %[[COMES]] to %[[SLOT]]#1
// CHECK:   kgpu.commit %[[RING]][%[[W]]]
// CHECK:   %[[X:.*]] = kgpu.local_load %[[GOT]]#0
// CHECK:   %[[Y:.*]] = kgpu.local_load %[[GOT]]#1
// CHECK:   %[[SUM:.*]] = tile.dot %[[X]], %[[Y]], %[[ACC]]
// CHECK:   kgpu.release %[[RING]][%[[R]]]
// CHECK-DAG: %[[R1:.*]] = kgpu.advance %[[R]]
// CHECK-DAG: %[[W1:.*]] = kgpu.advance %[[W]]
// CHECK:   scf.yield %[[SUM]], %[[R1]], %[[W1]]
// CHECK: kgpu.receive %[[RING]][%[[OUT]]#1] :
// CHECK: kgpu.release %[[RING]][%[[OUT]]#1]
// CHECK: %[[LAST:.*]] = kgpu.advance %[[OUT]]#1
// CHECK: kgpu.receive %[[RING]][%[[LAST]]] :
// CHECK: kgpu.release %[[RING]][%[[LAST]]]
// CHECK: tile.desc_store
  func.func @product(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

// The outer loop carries the cursor, which is past the groups that were committed empty. A transposed operand is read
// from its slot in the other order; a value used only for positions is computed ahead with them.
// CHECK-LABEL: func.func @around
// CHECK: %[[START:.*]] = kgpu.cursor
// CHECK: scf.for %{{.*}} iter_args(%[[AROUND:.*]] = %[[START]])
// CHECK:   %[[FILLED:.*]]:2 = scf.for %{{.*}} iter_args(%[[K:.*]] = %{{.*}}, %{{.*}} = %[[AROUND]])
// CHECK:     arith.addi %[[K]]
// CHECK:   %[[OUT:.*]]:4 = scf.for %{{.*}} iter_args(%{{.*}} = %{{.*}}, %[[K:.*]] = %[[FILLED]]#0, %{{.*}} = %[[AROUND]], %{{.*}} = %[[FILLED]]#1)
// CHECK:     %[[NEXT:.*]] = arith.addi %[[K]]
// CHECK:     kgpu.copy_block %{{.*}}[%{{.*}}, %[[K]]]
// CHECK:     %[[T:.*]] = kgpu.trans %{{.*}}#1 [1, 0] : <64x32xf16, #[[A]]> -> <32x64xf16, #[[BT]]>
// CHECK:     kgpu.local_load %[[T]]
// CHECK-NOT: tile.trans
// CHECK:     scf.yield %{{.*}}, %[[NEXT]]
// CHECK:   %[[ONE:.*]] = kgpu.advance %[[OUT]]#2
// CHECK:   %[[TWO:.*]] = kgpu.advance %[[ONE]]
// CHECK:   tile.desc_store
// CHECK:   scf.yield %[[TWO]]
  func.func @around(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    scf.for %row = %c0 to %i step %c1 : i32 {
      %sum:2 = scf.for %n = %c0 to %end step %c1 iter_args(%acc = %zero, %k = %c0) -> (tensor<64x64xf32>, i32) : i32 {
        %x = tile.desc_load %da[%row, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
        %y = tile.desc_load %db[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
        %t = tile.trans %y [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
        %d = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
        %next = arith.addi %k, %step : i32
        scf.yield %d, %next : tensor<64x64xf32>, i32
      }
      tile.desc_store %dc[%row, %i], %sum#0 : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    }
    return
  }

// Through pointers: those of later iterations are carried, with their masks.
// CHECK-LABEL: func.func @pointers
// CHECK: kgpu.channel {{ *}}groups
// CHECK: scf.for
// CHECK:   kgpu.copy_tile %{{.*}} mask %{{.*}} when %{{.*}} to
// CHECK: scf.for %{{.*}} iter_args(%{{.*}} = %{{.*}}, %[[P:.*]] = %{{.*}}, %[[Q:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK:   kgpu.receive
// CHECK:   kgpu.copy_tile %[[P]] mask %{{.*}} when %{{.*}} to
// CHECK:   kgpu.copy_tile %[[Q]] mask %{{.*}} when %{{.*}} to
// CHECK-NOT: tile.load
// CHECK:   tile.dot
  func.func @pointers(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i32 {tile.divisibility = 16 : i64}, %end: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %none = arith.constant dense<0.0> : tensor<64x32xf16>
    %r64 = tile.make_range 0 to 64 : tensor<64xi32>
    %r32 = tile.make_range 0 to 32 : tensor<32xi32>
    %rows = tile.expand_dims %r64 1 : tensor<64xi32> -> tensor<64x1xi32>
    %columns = tile.expand_dims %r32 0 : tensor<32xi32> -> tensor<1x32xi32>
    %width = tile.splat %s : i32 -> tensor<64x1xi32>
    %starts = arith.muli %rows, %width : tensor<64x1xi32>
    %down = tile.broadcast %starts : tensor<64x1xi32> -> tensor<64x32xi32>
    %across = tile.broadcast %columns : tensor<1x32xi32> -> tensor<64x32xi32>
    %offsets = arith.addi %down, %across : tensor<64x32xi32>
    %as = tile.splat %a : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
    %bs = tile.splat %b : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
    %pa = tile.addptr %as, %offsets : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %pb = tile.addptr %bs, %offsets : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %move = arith.constant dense<32> : tensor<64x32xi32>
    %sum:3 = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero, %p = %pa, %q = %pb) -> (tensor<64x64xf32>, tensor<64x32x!tile.ptr<f16>>, tensor<64x32x!tile.ptr<f16>>) : i32 {
      %left = arith.subi %end, %k : i32
      %limit = tile.splat %left : i32 -> tensor<64x32xi32>
      %inside = arith.cmpi slt, %across, %limit : tensor<64x32xi32>
      %x = tile.load %p mask %inside other %none : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
      %y = tile.load %q mask %inside other %none : tensor<64x32x!tile.ptr<f16>> mask tensor<64x32xi1> other tensor<64x32xf16> -> tensor<64x32xf16>
      %t = tile.trans %y [1, 0] : tensor<64x32xf16> -> tensor<32x64xf16>
      %d = tile.dot %x, %t, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      %p1 = tile.addptr %p, %move : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
      %q1 = tile.addptr %q, %move : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
      scf.yield %d, %p1, %q1 : tensor<64x64xf32>, tensor<64x32x!tile.ptr<f16>>, tensor<64x32x!tile.ptr<f16>>
    }
    %one = arith.constant 1 : i64
    %side = arith.extsi %s : i32 to i64
    %dc = tile.make_desc %c, shape [%side, %side] strides [%side, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    tile.desc_store %dc[%c0, %c0], %sum#0 : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

// A block's position is in a table, which is read ahead, for later iterations.
// CHECK-LABEL: func.func @table
// CHECK: scf.for
// CHECK:   %[[COMES:.*]] = arith.cmpi slt
// CHECK:   %[[BOTH:.*]] = arith.andi %{{.*}}, %[[COMES]] : i1
// CHECK:   %[[PAGE:.*]] = tile.load %{{.*}} mask %[[BOTH]] : !tile.ptr<i32> mask i1 -> i32
// CHECK:   %[[ROW:.*]] = arith.muli %[[PAGE]]
// CHECK:   kgpu.copy_block %{{.*}}[%[[ROW]], %{{.*}}] when %[[COMES]]
// CHECK: scf.for
// CHECK:   kgpu.receive
// CHECK:   %[[COMES:.*]] = arith.cmpi slt
// CHECK:   %[[BOTH:.*]] = arith.andi %{{.*}}, %[[COMES]] : i1
// CHECK:   %[[PAGE:.*]] = tile.load %{{.*}} mask %[[BOTH]]
// CHECK:   %[[ROW:.*]] = arith.muli %[[PAGE]]
// CHECK:   kgpu.copy_block %{{.*}}[%[[ROW]], %{{.*}}] when %[[COMES]]
// CHECK-NOT: tile.load
// CHECK:   tile.dot
  func.func @table(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %pages: !tile.ptr<i32> {tile.disjoint}, %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32, %some: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %at = tile.addptr %pages, %k : !tile.ptr<i32>, i32
      %has = arith.cmpi slt, %k, %some : i32
      %page = tile.load %at mask %has : !tile.ptr<i32> mask i1 -> i32
      %row = arith.muli %page, %step : i32
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%row, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

// A product outside any loop stays in place. An operand's inputs come through a slot, even if inline assembly computes
// it.
// CHECK-LABEL: func.func @behind
// CHECK: kgpu.channel {{ *}}groups fillers 4 readers 4 : <3 x (!kgpu.mem<64x32xf16, #[[A]]>, !kgpu.mem<32x64xf16, #[[B]]>)>
// CHECK: kgpu.receive
// CHECK: tile.inline_asm
// CHECK: %[[SUM:.*]] = tile.dot
// CHECK: kgpu.release
// CHECK: tile.dot %{{.*}}, %{{.*}}, %{{.*}}#0
// CHECK: tile.desc_store
  func.func @behind(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %end: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %z = tile.inline_asm "neg.f16x2 $0, $1;" "=r,r" (%x) portable {
      ^bb0(%e: f16):
        %n = arith.negf %e : f16
        tile.yield %n : f16
      } {isPure, packed = 2 : i32} : (tensor<64x32xf16>) -> tensor<64x32xf16>
      %d = tile.dot %z, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    %x0 = tile.desc_load %da[%i, %c0] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
    %y0 = tile.desc_load %db[%c0, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
    %d0 = tile.dot %x0, %y0, %sum : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    tile.desc_store %dc[%i, %i], %d0 : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

// The first copies are issued right after a tile that is loaded alongside, with the computation of their positions in
// front of it: neither does that load queue behind them, nor do they wait for it.
// CHECK-LABEL: func.func @beside
// CHECK: %[[END:.*]] = arith.muli
// CHECK: %[[FIRST:.*]] = tile.load
// CHECK-NOT: arith.muli
// CHECK: scf.for
// CHECK:   kgpu.copy_block
// CHECK: scf.for %{{.*}} to %[[END]] {{.*}} iter_args(%{{.*}} = %[[FIRST]],
// CHECK:   kgpu.receive
  func.func @beside(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %half: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %ps = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
    %first = tile.load %ps : tensor<64x64x!tile.ptr<f32>> -> tensor<64x64xf32>
    %end = arith.muli %half, %c2 : i32
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %first) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }

// But not before the wait for the launch before, which may write what is copied.
// CHECK-LABEL: func.func @waits
// CHECK: tile.load {{.*}}isVolatile
// CHECK-NOT: copy_block
// CHECK: tile.wait_for_grid
// CHECK: tile.load
// CHECK: scf.for
// CHECK:   kgpu.copy_block
// CHECK: arith.addf
// CHECK: scf.for
// CHECK:   kgpu.receive
  func.func @waits(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f32> {tile.disjoint, tile.divisibility = 16 : i64},
      %s: i64 {tile.divisibility = 16 : i64}, %i: i32 {tile.divisibility = 16 : i64}, %half: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %step = arith.constant 32 : i32
    %one = arith.constant 1 : i64
    %da = tile.make_desc %a, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x32xf16>>
    %db = tile.make_desc %b, shape [%s, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %dc = tile.make_desc %c, shape [%s, %s] strides [%s, %one] : !tile.ptr<f32> -> !tile.desc<tensor<64x64xf32>>
    %ps = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
    %early = tile.load %ps {isVolatile} : tensor<64x64x!tile.ptr<f32>> -> tensor<64x64xf32>
    tile.wait_for_grid
    %first = tile.load %ps : tensor<64x64x!tile.ptr<f32>> -> tensor<64x64xf32>
    %start = arith.addf %early, %first : tensor<64x64xf32>
    %end = arith.muli %half, %c2 : i32
    %sum = scf.for %k = %c0 to %end step %step iter_args(%acc = %start) -> (tensor<64x64xf32>) : i32 {
      %x = tile.desc_load %da[%i, %k] : !tile.desc<tensor<64x32xf16>> -> tensor<64x32xf16>
      %y = tile.desc_load %db[%k, %i] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
      %d = tile.dot %x, %y, %acc : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    tile.desc_store %dc[%i, %i], %sum : !tile.desc<tensor<64x64xf32>>, tensor<64x64xf32>
    return
  }
}
