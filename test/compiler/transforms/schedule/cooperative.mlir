// One role copies both operands into a ring, another multiplies; each computes its own scalars. Loops carry the cursor;
// a slot is released once the product after the one that read it is in flight.
// RUN: kiln-opt %s --pass-pipeline='builtin.module(kiln-set-target{target=sm_90a},func.func(kiln-choose-schedule,kiln-materialize-schedule),canonicalize,cse)' | FileCheck %s

module attributes {kgpu.num_warps = 8 : i32} {
// CHECK-DAG: #[[A:.*]] = #layout.map<swizzled [128, 64] element 2 bytes 128>
// CHECK-DAG: #[[B:.*]] = #layout.map<swizzled [256, 64] element 2 bytes 128>
// CHECK-DAG: #[[BT:.*]] = #layout.map<swizzled [64, 256] order [0, 1] element 2 bytes 128>
// CHECK-DAG: #[[C:.*]] = #layout.map<swizzled [128, 256] element 2 bytes 128>
// CHECK-LABEL: func.func @product
// CHECK-SAME: kgpu.persistent
// CHECK-DAG: %[[MA:.*]] = kgpu.tensor_map %{{.*}} box [128, 64] swizzle 128 : <tensor<128x64xf16>>
// CHECK-DAG: %[[MB:.*]] = kgpu.tensor_map %{{.*}} box [256, 64] swizzle 128 : <tensor<256x64xf16>>
// CHECK-DAG: %[[MC:.*]] = kgpu.tensor_map %{{.*}} box [64, 64] swizzle 128 : <tensor<128x256xf16>>
// CHECK: %[[RING:.*]] = kgpu.channel {{ *}}bytes fillers 1 readers 8 : <3 x (!kgpu.mem<128x64xf16, #[[A]]>, !kgpu.mem<256x64xf16, #[[B]]>)>
// CHECK-DAG: %[[X:.*]] = tile.num_programs {{ *}}x
// CHECK-DAG: %[[FIRST:.*]] = kgpu.first_program
// CHECK-DAG: %[[STEP:.*]] = kgpu.program_step
// CHECK: kgpu.roles @load warps 1 registers 40 {
// CHECK:   %[[START:.*]] = kgpu.cursor
// CHECK:   scf.for %[[P:.*]] = %[[FIRST]] to %{{.*}} step %[[STEP]] iter_args(%[[OUTER:.*]] = %[[START]])
// CHECK:     arith.remui %[[P]], %[[X]]
// CHECK:     %[[LEFT:.*]] = scf.for %[[K:.*]] = %{{.*}} iter_args(%[[AT:.*]] = %[[OUTER]])
// CHECK:       %[[SLOT:.*]]:2 = kgpu.acquire %[[RING]][%[[AT]]]
// CHECK:       kgpu.copy_in %[[MA]][%{{.*}}, %[[K]]] to %[[SLOT]]#0 of %[[RING]][%[[AT]]]
// CHECK:       kgpu.copy_in %[[MB]][%{{.*}}, %[[K]]] to %[[SLOT]]#1 of %[[RING]][%[[AT]]]
// CHECK:       kgpu.commit %[[RING]][%[[AT]]]
// CHECK:       %[[NEXT:.*]] = kgpu.advance %[[AT]]
// CHECK:       scf.yield %[[NEXT]]
// CHECK:     scf.yield %[[LEFT]]
// CHECK-NOT: tile.desc_store
// CHECK:   kgpu.end_role
// CHECK: } @multiply groups 2 warps 4 registers 232 {
// CHECK:   scf.for
// CHECK:     scf.for %[[K:.*]] = %[[ZERO:.*]] to %[[END:.*]] step %{{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %[[AT:.*]] = %[[OUTER:.*]], %[[BEFORE:.*]] = %[[OUTER]])
// CHECK:       %[[SLOT:.*]]:2 = kgpu.receive %[[RING]][%[[AT]]]
// CHECK:       %[[T:.*]] = kgpu.trans %[[SLOT]]#1 [1, 0] : <256x64xf16, #[[B]]> -> <64x256xf16, #[[BT]]>
// CHECK:       %[[BEGUN:.*]] = kgpu.warpgroup_mma %[[SLOT]]#0, %[[T]], %[[ACC]]
// CHECK:       %[[LAST:.*]] = kgpu.mma_wait %[[BEGUN]] pending 1
// CHECK:       %[[AGAIN:.*]] = arith.cmpi ne, %[[K]], %[[ZERO]]
// CHECK:       kgpu.release %[[RING]][%[[BEFORE]]] when %[[AGAIN]]
// CHECK:       %[[NEXT:.*]] = kgpu.advance %[[AT]]
// CHECK:       scf.yield %[[LAST]], %[[NEXT]], %[[AT]]
// CHECK:     %[[RAN:.*]] = arith.cmpi sgt, %[[END]], %[[ZERO]]
// CHECK:     kgpu.mma_wait %{{.*}}#0 pending 0
// CHECK:     kgpu.release %[[RING]][%{{.*}}#2] when %[[RAN]]
// CHECK:     %[[OUT:.*]] = kgpu.alloc : <128x256xf16, #[[C]]>
// CHECK:     kgpu.copy_out_wait read 0
// CHECK:     kgpu.local_store %{{.*}}, %[[OUT]]
// CHECK:     kgpu.copy_out %[[OUT]] to %[[MC]]
// CHECK:   kgpu.copy_out_wait read 0
// CHECK:   kgpu.end_role
  func.func @product(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %m: i32 {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}, %k: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %c256 = arith.constant 256 : i32
    %one = arith.constant 1 : i64
    %zero = arith.constant dense<0.0> : tensor<128x256xf32>
    %rows = arith.extsi %m : i32 to i64
    %columns = arith.extsi %n : i32 to i64
    %depth = arith.extsi %k : i32 to i64
    %program = tile.program_id x : i32
    %across = arith.divsi %n, %c256 : i32
    %i = arith.divsi %program, %across : i32
    %j = arith.remsi %program, %across : i32
    %row = arith.muli %i, %c128 : i32
    %column = arith.muli %j, %c256 : i32
    %da = tile.make_desc %a, shape [%rows, %depth] strides [%depth, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x64xf16>>
    %db = tile.make_desc %b, shape [%columns, %depth] strides [%depth, %one] : !tile.ptr<f16> -> !tile.desc<tensor<256x64xf16>>
    %dc = tile.make_desc %c, shape [%rows, %columns] strides [%columns, %one] : !tile.ptr<f16> -> !tile.desc<tensor<128x256xf16>>
    %sum = scf.for %at = %c0 to %k step %c64 iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i32 {
      %x = tile.desc_load %da[%row, %at] : !tile.desc<tensor<128x64xf16>> -> tensor<128x64xf16>
      %y = tile.desc_load %db[%column, %at] : !tile.desc<tensor<256x64xf16>> -> tensor<256x64xf16>
      %t = tile.trans %y [1, 0] : tensor<256x64xf16> -> tensor<64x256xf16>
      %d = tile.dot %x, %t, %acc : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    %out = arith.truncf %sum : tensor<128x256xf32> to tensor<128x256xf16>
    tile.desc_store %dc[%row, %column], %out : !tile.desc<tensor<128x256xf16>>, tensor<128x256xf16>
    return
  }
}
