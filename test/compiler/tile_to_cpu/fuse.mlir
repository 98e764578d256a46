// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize --cse | FileCheck %s

// Launches do not overlap on a CPU, which also fetches what is read in order by itself: ops that control overlap, and
// prefetches, split no nest.
// CHECK-LABEL: func.func @kiln_copy
// CHECK-SAME:    kiln.frame_bytes = 0 : i64
// CHECK:         scf.for
// CHECK:           %[[X:.*]] = llvm.load
// CHECK:           llvm.store %[[X]]
// CHECK-NOT:     tile.
// CHECK:           return
func.func @copy(%x: !tile.ptr<f32> {tile.disjoint}, %o: !tile.ptr<f32> {tile.disjoint}) attributes {tile.kernel} {
  %r = tile.make_range 0 to 1024 : tensor<1024xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %r : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  tile.wait_for_grid
  %v = tile.load %xp : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  tile.launch_dependents
  tile.prefetch %xp : tensor<1024x!tile.ptr<f32>>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %op = tile.addptr %os, %r : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  tile.store %op, %v : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  return
}

// Loads and the reduction that reads them are one nest; code after a finished reduction is the next. The row is kept in
// the frame because two nests read it; the sum of squares is not kept.
// CHECK-LABEL: func.func @kiln_normalise
// CHECK-SAME:    kiln.frame_bytes = 4096 : i64
// CHECK:         scf.for
// CHECK:           %[[SUM:.*]] = scf.for {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}) -> (vector<64xf32>)
// CHECK:             %[[X:.*]] = llvm.load
// CHECK:             %[[SQ:.*]] = arith.mulf %[[X]], %[[X]] : vector<64xf32>
// CHECK:             arith.addf %[[ACC]], %[[SQ]]
// CHECK:             llvm.store %[[X]]
// CHECK:             scf.yield
// CHECK:           vector.shuffle
// CHECK:           %[[R:.*]] = math.rsqrt %{{.*}} : f32
// CHECK:           scf.for
// CHECK:             vector.broadcast %[[R]] : f32 to vector<16xf32>
// CHECK:             llvm.store
// CHECK-NOT:       scf.for
// CHECK:           return
func.func @normalise(%x: !tile.ptr<f32>, %o: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 1024 : tensor<1024xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %r : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %v = tile.load %xp : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %sq = arith.mulf %v, %v : tensor<1024xf32>
  %sum = tile.reduce(%sq) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  %rs = math.rsqrt %sum : f32
  %t = tile.splat %rs : f32 -> tensor<1024xf32>
  %y = arith.mulf %v, %t : tensor<1024xf32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %op = tile.addptr %os, %r : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  tile.store %op, %y : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  return
}

// What depends only on the row is computed once per row, outside the loop over columns.
// CHECK-LABEL: func.func @kiln_hoist
// CHECK:         scf.for %[[I:.*]] = %{{.*}} to %c64_i64
// CHECK:           math.exp %{{.*}} : f32
// CHECK:           scf.for
// CHECK-NOT:         math.exp
// CHECK:             llvm.store
func.func @hoist(%x: !tile.ptr<f32>, %o: !tile.ptr<f32>) attributes {tile.kernel} {
  %i = tile.make_range 0 to 64 : tensor<64xi32>
  %j = tile.make_range 0 to 128 : tensor<128xi32>
  %ic = tile.expand_dims %i 1 : tensor<64xi32> -> tensor<64x1xi32>
  %jr = tile.expand_dims %j 0 : tensor<128xi32> -> tensor<1x128xi32>
  %c128 = arith.constant dense<128> : tensor<64x1xi32>
  %row = arith.muli %ic, %c128 : tensor<64x1xi32>
  %rb = tile.broadcast %row : tensor<64x1xi32> -> tensor<64x128xi32>
  %jb = tile.broadcast %jr : tensor<1x128xi32> -> tensor<64x128xi32>
  %off = arith.addi %rb, %jb : tensor<64x128xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x1x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %ic : tensor<64x1x!tile.ptr<f32>>, tensor<64x1xi32>
  %v = tile.load %xp : tensor<64x1x!tile.ptr<f32>> -> tensor<64x1xf32>
  %e = math.exp %v : tensor<64x1xf32>
  %eb = tile.broadcast %e : tensor<64x1xf32> -> tensor<64x128xf32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<64x128x!tile.ptr<f32>>
  %op = tile.addptr %os, %off : tensor<64x128x!tile.ptr<f32>>, tensor<64x128xi32>
  tile.store %op, %eb : tensor<64x128x!tile.ptr<f32>>, tensor<64x128xf32>
  return
}

// A tile is read completely before a later store: x[i + 1] = x[i] must not be done chunk by chunk.
// CHECK-LABEL: func.func @kiln_shifted
// CHECK-SAME:    kiln.frame_bytes = 4096 : i64
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK:             %[[V:.*]] = llvm.load
// CHECK:             llvm.store %[[V]]
// CHECK:           scf.for
// CHECK:             llvm.load
// CHECK:             llvm.store
func.func @shifted(%x: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 1024 : tensor<1024xi32>
  %q = tile.make_range 1 to 1025 : tensor<1024xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %r : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %xq = tile.addptr %xs, %q : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %v = tile.load %xp : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  tile.store %xq, %v : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  return
}

// Through the same pointers it may be: no buffer.
// CHECK-LABEL: func.func @kiln_update
// CHECK-SAME:    kiln.frame_bytes = 0 : i64
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK:             llvm.load
// CHECK:             arith.addf
// CHECK:             llvm.store
// CHECK-NOT:       scf.for
// CHECK:           return
func.func @update(%x: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 1024 : tensor<1024xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %r : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %v = tile.load %xp : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %w = arith.addf %v, %v : tensor<1024xf32>
  tile.store %xp, %w : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  return
}
