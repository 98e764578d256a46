// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize --cse | FileCheck %s

// An arbitrary region has no known identity, so the first chunk initialises the accumulators. Several operands are
// reduced together.
// CHECK-LABEL: func.func @kiln_argmax
// CHECK:         scf.for {{.*}} iter_args(%[[V:.*]] = %{{.*}}, %[[I:.*]] = %{{.*}}) -> (vector<64xf32>, vector<64xi32>)
// CHECK:           %[[X:.*]] = llvm.load %{{.*}} : !llvm.ptr -> vector<64xf32>
// CHECK:           arith.cmpf ogt, %[[V]], %[[X]] : vector<64xf32>
// CHECK:           %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK:           arith.select %[[FIRST]], %[[X]], %{{.*}} : vector<64xf32>
// CHECK:         vector.shuffle {{.*}} : vector<64xf32>, vector<64xf32>
// CHECK:         vector.shuffle {{.*}} : vector<32xf32>, vector<32xf32>
// CHECK:         vector.shuffle {{.*}} : vector<4xf32>, vector<4xf32>
// CHECK:         vector.extract %{{.*}}[0] : f32 from vector<2xf32>
// CHECK:         llvm.store %{{.*}} : i32, !llvm.ptr
func.func @argmax(%x: !tile.ptr<f32>, %o: !tile.ptr<i32>) attributes {tile.kernel} {
  %r = tile.make_range 0 to 256 : tensor<256xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
  %p = tile.addptr %xs, %r : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
  %v = tile.load %p : tensor<256x!tile.ptr<f32>> -> tensor<256xf32>
  %m:2 = tile.reduce(%v, %r) axis 0 {
  ^bb0(%a: f32, %i: i32, %b: f32, %j: i32):
    %gt = arith.cmpf ogt, %a, %b : f32
    %w = arith.select %gt, %a, %b : f32
    %k = arith.select %gt, %i, %j : i32
    tile.yield %w, %k : f32, i32
  } : (tensor<256xf32>, tensor<256xi32>) -> (f32, i32)
  tile.store %o, %m#1 : !tile.ptr<i32>, i32
  return
}

// Down the columns: whole vectors are combined; the loop over columns is outside.
// CHECK-LABEL: func.func @kiln_columns
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c16_i64
// CHECK:           scf.for %{{.*}} = %c0_i64 to %c32_i64 step %c1_i64 iter_args({{.*}}) -> (vector<16xf32>)
// CHECK-NOT:       vector.shuffle
func.func @columns(%x: !tile.ptr<f32>) attributes {tile.kernel} {
  %i = tile.make_range 0 to 32 : tensor<32xi32>
  %j = tile.make_range 0 to 64 : tensor<64xi32>
  %ic = tile.expand_dims %i 1 : tensor<32xi32> -> tensor<32x1xi32>
  %jr = tile.expand_dims %j 0 : tensor<64xi32> -> tensor<1x64xi32>
  %c64 = arith.constant dense<64> : tensor<32x1xi32>
  %row = arith.muli %ic, %c64 : tensor<32x1xi32>
  %rb = tile.broadcast %row : tensor<32x1xi32> -> tensor<32x64xi32>
  %jb = tile.broadcast %jr : tensor<1x64xi32> -> tensor<32x64xi32>
  %off = arith.addi %rb, %jb : tensor<32x64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<32x64x!tile.ptr<f32>>
  %p = tile.addptr %xs, %off : tensor<32x64x!tile.ptr<f32>>, tensor<32x64xi32>
  %v = tile.load %p : tensor<32x64x!tile.ptr<f32>> -> tensor<32x64xf32>
  %s = tile.reduce(%v) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    tile.yield %m : f32
  } : (tensor<32x64xf32>) -> tensor<64xf32>
  %xj = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %pj = tile.addptr %xj, %j : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  tile.store %pj, %s : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}
