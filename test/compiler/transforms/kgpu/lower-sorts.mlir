// Sorting, selecting, gathering, counting and multiplying as steps inside warps and exchanges through shared memory.
// RUN: kiln-opt %s --split-input-file --kiln-lower-sorts --kiln-lower-exchanges | FileCheck %s

// A row in one warp: seven levels would sort 128 elements, six sort 64; floats are compared as integers in the same
// order.
// CHECK-LABEL: @in_one_warp
// CHECK: %[[BITS:.*]] = arith.bitcast %{{.*}} : tensor<8x64xf32, #[[L:.*]]> to tensor<8x64xi32, #[[L]]>
// CHECK: %[[KEYS:.*]] = arith.select
// CHECK-NOT: kgpu.alloc
// CHECK: kgpu.compare %[[KEYS]] from 1 to 1 run 2 :
// CHECK: kgpu.compare {{.*}} from 2 to 1 run 4 :
// CHECK: kgpu.compare {{.*}} from 4 to 1 run 8 :
// CHECK: kgpu.compare {{.*}} from 8 to 1 run 16 :
// CHECK: kgpu.compare {{.*}} from 16 to 1 run 32 :
// CHECK: kgpu.compare {{.*}} from 32 to 1 run 64 :
// CHECK-NOT: kgpu.compare
// CHECK: arith.bitcast {{.*}} : tensor<8x64xi32, #[[L]]> to tensor<8x64xf32, #[[L]]>
#rows = #layout.map<blocked [8, 64] vector 2 warps 4>
func.func @in_one_warp(%x: tensor<8x64xf32, #rows>) -> tensor<8x64xf32, #rows> {
  %y = tile.sort %x : tensor<8x64xf32, #rows>
  return %y : tensor<8x64xf32, #rows>
}

// -----

// One row over four warps: runs longer than a warp's 256 elements need exchanges, there and back for each.
// CHECK-LABEL: @over_warps
// CHECK: kgpu.compare {{.*}} from 128 to 1 run 256 {descending, isUnsigned}
// CHECK: kgpu.local_store
// CHECK: kgpu.local_load {{.*}} -> tensor<1024xi32, #[[SWAPPED:.*]]>
// CHECK-NEXT: kgpu.compare {{.*}} from 256 to 256 run 512 {descending, isUnsigned} : tensor<1024xi32, #[[SWAPPED]]>
// CHECK: kgpu.local_store
// CHECK: kgpu.local_load {{.*}} -> tensor<1024xi32, #[[HOME:.*]]>
// CHECK-NEXT: kgpu.compare {{.*}} from 128 to 1 run 512 {descending, isUnsigned} : tensor<1024xi32, #[[HOME]]>
// CHECK: kgpu.compare {{.*}} from 512 to 256 run 1024 {descending, isUnsigned} : tensor<1024xi32, #[[SWAPPED]]>
// CHECK: kgpu.compare {{.*}} from 128 to 1 run 1024 {descending, isUnsigned} : tensor<1024xi32, #[[HOME]]>
#row = #layout.map<blocked [1024] vector 8 warps 4>
func.func @over_warps(%x: tensor<1024xi32, #row>) -> tensor<1024xi32, #row> {
  %y = tile.sort %x {descending, isUnsigned} : tensor<1024xi32, #row>
  return %y : tensor<1024xi32, #row>
}

// -----

// Rows of 48 are padded to 64; the last 16 keys sort last.
// CHECK-LABEL: @odd_rows
// CHECK: %[[MEM:.*]] = kgpu.alloc : <64xi16, #row_major>
// CHECK: %[[PART:.*]] = kgpu.view %[[MEM]] offset 0 : <64xi16, #row_major> -> <48xi16,
// CHECK: kgpu.local_store %{{.*}}, %[[PART]]
// CHECK: %[[LOADED:.*]] = kgpu.local_load %[[MEM]]
// CHECK: %[[RANGE:.*]] = tile.make_range 0 to 64
// CHECK: %[[THERE:.*]] = arith.cmpi slt, %[[RANGE]], %{{.*}}
// CHECK: %[[LAST:.*]] = arith.constant dense<32767>
// CHECK: %[[KEYS:.*]] = arith.select %[[THERE]], %[[LOADED]], %[[LAST]]
// CHECK: kgpu.compare %[[KEYS]] from 1 to 1 run 2
// CHECK: kgpu.compare {{.*}} from 32 to 1 run 64
// CHECK: kgpu.view %{{.*}} offset 0 : <64xi16, #row_major> -> <48xi16,
#row = #layout.map<blocked [48] vector 1 warps 4>
func.func @odd_rows(%x: tensor<48xi16, #row>) -> tensor<48xi16, #row> {
  %y = tile.sort %x : tensor<48xi16, #row>
  return %y : tensor<48xi16, #row>
}

// -----

// Runs of 8 that are reduced in pairs: no step is wider than 8 elements, and nothing leaves the warp.
// CHECK-LABEL: @first_eight
// CHECK: kgpu.compare {{.*}} from 4 to 1 run 8 {descending} : tensor<8x32xi32
// CHECK: tile.reshape {{.*}} -> tensor<8x2x2x8xi32
// CHECK: tile.reduce({{.*}}) axis 2 {
// CHECK: arith.maxsi
// CHECK: tile.reshape {{.*}} -> tensor<8x16xi32
// CHECK: kgpu.compare {{.*}} from 4 to 1 run 8 {descending} : tensor<8x16xi32
// CHECK: tile.reduce({{.*}}) axis 2 {
// CHECK: kgpu.compare {{.*}} from 4 to 1 run 8 {descending} : tensor<8x8xi32
// CHECK-NOT: kgpu.compare
#rows = #layout.map<blocked [8, 32] vector 4 warps 4>
#best = #layout.map<blocked [8, 8] vector 4 warps 4>
func.func @first_eight(%x: tensor<8x32xi32, #rows>) -> tensor<8x8xi32, #best> {
  %y = tile.topk %x : tensor<8x32xi32, #rows> -> tensor<8x8xi32, #best>
  return %y : tensor<8x8xi32, #best>
}

// -----

// Indices that flip bits of the position are encoded in the op: moves and shuffles with constants.
// CHECK-LABEL: @reversed
// CHECK-NOT: kgpu.alloc
// CHECK: tile.gather %{{.*}}[%{{.*}}] 0 {kgpu.indices = array<i32: 7, 6, 5, 4, 3, 2, 1, 0>}
#row = #layout.map<blocked [8] vector 2 warps 4>
func.func @reversed(%x: tensor<8xf32, #row>) -> tensor<8xf32, #row> {
  %r = tile.make_range 0 to 8 : tensor<8xi32, #row>
  %c = arith.constant dense<7> : tensor<8xi32, #row>
  %i = arith.subi %c, %r : tensor<8xi32, #row>
  %y = tile.gather %x[%i] 0 : tensor<8xf32, #row>, tensor<8xi32, #row> -> tensor<8xf32, #row>
  return %y : tensor<8xf32, #row>
}

// -----

// A gather by data: inside a warp by shuffles, between warps through memory.
// CHECK-LABEL: @picked
// CHECK-NOT: kgpu.alloc
// CHECK: tile.gather
// CHECK: %[[M:.*]] = kgpu.alloc
// CHECK: kgpu.local_store %{{.*}}, %[[M]]
// CHECK: kgpu.local_gather %[[M]][%{{.*}}] 0
#rows = #layout.map<blocked [4, 32] vector 1 warps 4>
#row = #layout.map<blocked [128] vector 1 warps 4>
func.func @picked(%x: tensor<4x32xf32, #rows>, %i: tensor<4x32xi32, #rows>, %z: tensor<128xf32, #row>,
                  %j: tensor<128xi32, #row>) -> (tensor<4x32xf32, #rows>, tensor<128xf32, #row>) {
  %y = tile.gather %x[%i] 1 : tensor<4x32xf32, #rows>, tensor<4x32xi32, #rows> -> tensor<4x32xf32, #rows>
  %w = tile.gather %z[%j] 0 : tensor<128xf32, #row>, tensor<128xi32, #row> -> tensor<128xf32, #row>
  return %y, %w : tensor<4x32xf32, #rows>, tensor<128xf32, #row>
}

// -----

// CHECK-LABEL: @counted
// CHECK: %[[M:.*]] = kgpu.alloc : <16xi32, #row_major>
// CHECK: %[[ZERO:.*]] = arith.constant dense<0>
// CHECK: kgpu.local_store %[[ZERO]], %[[M]]
// CHECK: %[[ONE:.*]] = arith.constant dense<1>
// CHECK: kgpu.local_atomic_add %[[M]][%{{.*}}], %[[ONE]] mask %{{.*}}
// CHECK: kgpu.local_load %[[M]]
#row = #layout.map<blocked [128] vector 1 warps 4>
#bins = #layout.map<blocked [16] vector 1 warps 4>
func.func @counted(%x: tensor<128xi32, #row>, %m: tensor<128xi1, #row>) -> tensor<16xi32, #bins> {
  %h = tile.histogram %x mask %m : tensor<128xi32, #row> mask tensor<128xi1, #row> -> tensor<16xi32, #bins>
  return %h : tensor<16xi32, #bins>
}

// -----

// Both inputs are contiguous along M and N; 8-bit floats are widened on the way.
// CHECK-LABEL: @product
// CHECK: %[[WIDE:.*]] = arith.extf %{{.*}} : tensor<16x8xf8E4M3FN, {{.*}} to tensor<16x8xf16,
// CHECK: %[[A:.*]] = kgpu.alloc : <16x8xf16, #[[COLUMNS:.*]]>
// CHECK: kgpu.local_store %[[WIDE]], %[[A]]
// CHECK: %[[B:.*]] = kgpu.alloc : <8x32xf16, #[[ROWS:.*]]>
// CHECK: kgpu.dot %[[A]], %[[B]], %{{.*}} : <16x8xf16, #[[COLUMNS]]>, <8x32xf16, #[[ROWS]]>
#a = #layout.map<blocked [16, 8] vector 1 warps 4>
#b = #layout.map<blocked [8, 32] vector 1 warps 4>
#c = #layout.map<blocked [16, 32] vector 4 warps 4>
func.func @product(%a: tensor<16x8xf8E4M3FN, #a>, %b: tensor<8x32xf8E5M2, #b>, %c: tensor<16x32xf32, #c>)
    -> tensor<16x32xf32, #c> {
  %d = tile.dot %a, %b, %c : tensor<16x8xf8E4M3FN, #a>, tensor<8x32xf8E5M2, #b> -> tensor<16x32xf32, #c>
  return %d : tensor<16x32xf32, #c>
}
