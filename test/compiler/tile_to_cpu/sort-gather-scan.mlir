// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize --cse | FileCheck %s

// Blocks of eight vectors are sorted in registers, as integers in the order of the floats; then a loop over merge
// levels makes passes over memory. Vectors are compared with vectors; only the last four levels compare lanes.
// CHECK-LABEL: func.func @kiln_sort
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c256_i64 step %c8_i64
// CHECK:           arith.cmpi sgt, %{{.*}} : vector<16xi32>
// CHECK-COUNT-19:  arith.minsi %{{.*}} : vector<16xi32>
// CHECK-NOT:       vector.shuffle
// CHECK:         scf.for {{.*}} = %c0_i64 to %c9_i64 step %c1_i64 iter_args(%[[LENGTH:.*]] = %c8_i64)
// CHECK:           arith.cmpi ult, %[[LENGTH]], %c256_i64
// CHECK:           scf.if
// CHECK-NOT:         vector.shuffle
// CHECK:           } else {
// CHECK:             arith.cmpi eq, %[[LENGTH]], %c256_i64
// CHECK:             vector.shuffle
// CHECK:             arith.cmpi eq, %[[LENGTH]], %c2048_i64
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c256_i64 step %c16_i64
// CHECK-COUNT-64:  vector.shuffle
func.func @sort(%x: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 4096 : tensor<4096xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<4096x!tile.ptr<f32>>
  %p = tile.addptr %xs, %r : tensor<4096x!tile.ptr<f32>>, tensor<4096xi32>
  %v = tile.load %p : tensor<4096x!tile.ptr<f32>> -> tensor<4096xf32>
  %s = tile.sort %v : tensor<4096xf32>
  tile.store %p, %s : tensor<4096x!tile.ptr<f32>>, tensor<4096xf32>
  return
}

// For a small top-k of many: eight vectors stay in registers, the others are read once and no scratch row is written.
// CHECK-LABEL: func.func @kiln_topk
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c512_i64 step %c8_i64 iter_args
// CHECK-NOT:       llvm.store
// CHECK-COUNT-19:  arith.maxsi %{{.*}} : vector<8xi64>
// CHECK:           scf.yield
// CHECK:         vector.shuffle
// CHECK-NOT:     scf.for
// CHECK-COUNT-8: vector.extract
func.func @topk(%x: !tile.ptr<i64>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 4096 : tensor<4096xi32>
  %xs = tile.splat %x : !tile.ptr<i64> -> tensor<4096x!tile.ptr<i64>>
  %p = tile.addptr %xs, %r : tensor<4096x!tile.ptr<i64>>, tensor<4096xi32>
  %v = tile.load %p : tensor<4096x!tile.ptr<i64>> -> tensor<4096xi64>
  %t = tile.topk %v : tensor<4096xi64> -> tensor<8xi64>
  %j = tile.make_range 0 to 8 : tensor<8xi32>
  %xj = tile.splat %x : !tile.ptr<i64> -> tensor<8x!tile.ptr<i64>>
  %q = tile.addptr %xj, %j : tensor<8x!tile.ptr<i64>>, tensor<8xi32>
  tile.store %q, %t : tensor<8x!tile.ptr<i64>>, tensor<8xi64>
  return
}

// For a large top-k, the sort is in memory, block by block: 64 vectors with the best, 64 to merge into them.
// CHECK-LABEL: func.func @kiln_topk_many
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c512_i64 step %c64_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c8_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c3_i64 step %c1_i64 iter_args
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c3_i64 step %c1_i64 iter_args
// CHECK:           vector.shuffle
func.func @topk_many(%x: !tile.ptr<i64>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 4096 : tensor<4096xi32>
  %xs = tile.splat %x : !tile.ptr<i64> -> tensor<4096x!tile.ptr<i64>>
  %p = tile.addptr %xs, %r : tensor<4096x!tile.ptr<i64>>, tensor<4096xi32>
  %v = tile.load %p : tensor<4096x!tile.ptr<i64>> -> tensor<4096xi64>
  %t = tile.topk %v : tensor<4096xi64> -> tensor<64xi64>
  %j = tile.make_range 0 to 64 : tensor<64xi32>
  %xj = tile.splat %x : !tile.ptr<i64> -> tensor<64x!tile.ptr<i64>>
  %q = tile.addptr %xj, %j : tensor<64x!tile.ptr<i64>>, tensor<64xi32>
  tile.store %q, %t : tensor<64x!tile.ptr<i64>>, tensor<64xi64>
  return
}

// A histogram counts values in [0, bins), and without a branch the others in one extra slot.
// CHECK-LABEL: func.func @kiln_histogram
// CHECK:         %[[BIN:.*]] = arith.minui %{{.*}}, %c16_i64
// CHECK-NEXT:    %[[SLOT:.*]] = llvm.getelementptr %{{.*}}[%[[BIN]]]
// CHECK-NEXT:    %[[OLD:.*]] = llvm.load %[[SLOT]]
// CHECK-NEXT:    arith.addi %[[OLD]], %c1_i32
func.func @histogram(%x: !tile.ptr<i32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 64 : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>>
  %p = tile.addptr %xs, %r : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
  %v = tile.load %p : tensor<64x!tile.ptr<i32>> -> tensor<64xi32>
  %h = tile.histogram %v : tensor<64xi32> -> tensor<16xi32>
  %j = tile.make_range 0 to 16 : tensor<16xi32>
  %xj = tile.splat %x : !tile.ptr<i32> -> tensor<16x!tile.ptr<i32>>
  %q = tile.addptr %xj, %j : tensor<16x!tile.ptr<i32>>, tensor<16xi32>
  tile.store %q, %h : tensor<16x!tile.ptr<i32>>, tensor<16xi32>
  return
}

// A gather reads its source's buffer, within bounds whatever the index.
// CHECK-LABEL: func.func @kiln_gather
// CHECK:         arith.minui
// CHECK:         llvm.intr.masked.gather
func.func @gather(%x: !tile.ptr<f32>, %ix: !tile.ptr<i32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 64 : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %p = tile.addptr %xs, %r : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %is = tile.splat %ix : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>>
  %ip = tile.addptr %is, %r : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
  %v = tile.load %p : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %i = tile.load %ip : tensor<64x!tile.ptr<i32>> -> tensor<64xi32>
  %g = tile.gather %v[%i] 0 : tensor<64xf32>, tensor<64xi32> -> tensor<64xf32>
  tile.store %p, %g : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}

// A scan along its rows: log2 of the width steps in a vector, with the accumulated value as the left operand each time;
// then the total of the previous vectors is combined in. Backwards if asked to.
// CHECK-LABEL: func.func @kiln_scan
// CHECK:         scf.for %[[I:.*]] = %c0_i64 to %c64_i64 step %c16_i64 iter_args(%[[A:.*]] = %{{.*}}) -> (vector<16xf32>)
// CHECK:           arith.subi %c48_i64, %[[I]]
// CHECK:           %[[X:.*]] = llvm.load
// CHECK:           %[[Y:.*]] = vector.shuffle %[[X]], %[[X]] [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 15]
// CHECK:           arith.addf %[[Y]], %[[X]]
// CHECK-COUNT-3:   vector.shuffle
// CHECK:           %[[L:.*]] = arith.select
// CHECK:           %[[S:.*]] = arith.addf %[[A]], %[[L]]
// CHECK:           arith.select %{{.*}}, %[[L]], %[[S]]
// CHECK:           %[[E:.*]] = vector.shuffle %[[L]], %[[L]] [0, 0,
// CHECK:           %[[N:.*]] = arith.addf %[[A]], %[[E]]
// CHECK:           arith.select %{{.*}}, %[[E]], %[[N]]
func.func @scan(%x: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 64 : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %p = tile.addptr %xs, %r : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %v = tile.load %p : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %s = tile.scan(%v) axis 0 reverse {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<64xf32>) -> tensor<64xf32>
  tile.store %p, %s : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}

// Rows too short for that are scanned element by element.
// CHECK-LABEL: func.func @kiln_scan_short
// CHECK:         scf.for %[[I:.*]] = %c0_i64 to %c12_i64 step %c1_i64 iter_args(%[[A:.*]] = %{{.*}}) -> (f32)
// CHECK:           %[[S:.*]] = arith.addf %[[A]]
// CHECK:           arith.select %{{.*}}, %{{.*}}, %[[S]]
func.func @scan_short(%x: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 12 : tensor<12xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<12x!tile.ptr<f32>>
  %p = tile.addptr %xs, %r : tensor<12x!tile.ptr<f32>>, tensor<12xi32>
  %v = tile.load %p : tensor<12x!tile.ptr<f32>> -> tensor<12xf32>
  %s = tile.scan(%v) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<12xf32>) -> tensor<12xf32>
  tile.store %p, %s : tensor<12x!tile.ptr<f32>>, tensor<12xf32>
  return
}
