// The CTAs of a cluster share the long dimension of a tile that keeps all their threads busy; small tiles are
// replicated.
// RUN: kiln-opt %s --split-input-file --kiln-assign-layouts --kiln-verify-layouts | FileCheck %s

// Two rows for four CTAs: each CTA has a quarter of both; row numbers are replicated in all.
// CHECK-DAG: #[[R:.*]] = #layout.map<digits [2] lane (0) (0) (0) (0) (0) warp ({{.*}} cta (0) (0)>
// CHECK-DAG: #[[L:.*]] = #layout.map<{{.*}} [2, 32768] {{.*}} cta (0, 512) (0, 1024)>
// CHECK-LABEL: @wide_rows
// CHECK-NOT: kgpu.convert
// CHECK: (tensor<2x32768xf32, #[[L]]>) -> tensor<2xf32, #[[R]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 4 : i32} {
  func.func @wide_rows(%arg0: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg2: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c2_i64 = arith.constant 2 : i64
    %0 = arith.extsi %arg2 : i32 to i64
    %1 = tile.program_id  x : i32
    %2 = arith.extsi %1 : i32 to i64
    %3 = arith.muli %2, %c2_i64 : i64
    %4 = tile.make_range 0 to 2 : tensor<2xi32>
    %5 = arith.extsi %4 : tensor<2xi32> to tensor<2xi64>
    %6 = tile.splat %3 : i64 -> tensor<2xi64>
    %7 = arith.addi %6, %5 : tensor<2xi64>
    %8 = tile.splat %0 : i64 -> tensor<2xi64>
    %9 = arith.muli %7, %8 : tensor<2xi64>
    %10 = tile.splat %arg0 : !tile.ptr<f16> -> tensor<2x!tile.ptr<f16>>
    %11 = tile.addptr %10, %9 : tensor<2x!tile.ptr<f16>>, tensor<2xi64>
    %12 = tile.expand_dims %11 1 : tensor<2x!tile.ptr<f16>> -> tensor<2x1x!tile.ptr<f16>>
    %13 = tile.make_range 0 to 32768 : tensor<32768xi32>
    %14 = tile.expand_dims %13 0 : tensor<32768xi32> -> tensor<1x32768xi32>
    %15 = tile.broadcast %12 : tensor<2x1x!tile.ptr<f16>> -> tensor<2x32768x!tile.ptr<f16>>
    %16 = tile.broadcast %14 : tensor<1x32768xi32> -> tensor<2x32768xi32>
    %17 = tile.addptr %15, %16 : tensor<2x32768x!tile.ptr<f16>>, tensor<2x32768xi32>
    %18 = tile.load %17 : tensor<2x32768x!tile.ptr<f16>> -> tensor<2x32768xf16>
    %19 = arith.extf %18 : tensor<2x32768xf16> to tensor<2x32768xf32>
    %20 = tile.reduce(%19) axis 1 {
    ^bb0(%arg3: f32, %arg4: f32):
      %30 = arith.addf %arg3, %arg4 fastmath<contract> : f32
      tile.yield %30 : f32
    } : (tensor<2x32768xf32>) -> tensor<2xf32>
    %21 = tile.splat %arg1 : !tile.ptr<f16> -> tensor<2x!tile.ptr<f16>>
    %22 = tile.addptr %21, %9 : tensor<2x!tile.ptr<f16>>, tensor<2xi64>
    %23 = tile.expand_dims %22 1 : tensor<2x!tile.ptr<f16>> -> tensor<2x1x!tile.ptr<f16>>
    %24 = tile.broadcast %23 : tensor<2x1x!tile.ptr<f16>> -> tensor<2x32768x!tile.ptr<f16>>
    %25 = tile.addptr %24, %16 : tensor<2x32768x!tile.ptr<f16>>, tensor<2x32768xi32>
    %26 = tile.expand_dims %20 1 : tensor<2xf32> -> tensor<2x1xf32>
    %27 = tile.broadcast %26 : tensor<2x1xf32> -> tensor<2x32768xf32>
    %28 = arith.mulf %19, %27 fastmath<contract> : tensor<2x32768xf32>
    %29 = arith.truncf %28 : tensor<2x32768xf32> to tensor<2x32768xf16>
    tile.store %25, %29 : tensor<2x32768x!tile.ptr<f16>>, tensor<2x32768xf16>
    return
  }
}

// -----

// At least as many rows as CTAs: rows are distributed, and no sum crosses CTAs.
// CHECK: #layout.map<blocked [64, 64] vector 8 warps 4 ctas 4 split 0>
// CHECK-LABEL: @many_rows
module attributes {kgpu.num_warps = 4 : i32, kgpu.cluster = 4 : i32} {
  func.func @many_rows(%arg0: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %arg2: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c64_i64 = arith.constant 64 : i64
    %0 = arith.extsi %arg2 : i32 to i64
    %1 = tile.program_id  x : i32
    %2 = arith.extsi %1 : i32 to i64
    %3 = arith.muli %2, %c64_i64 : i64
    %4 = tile.make_range 0 to 64 : tensor<64xi32>
    %5 = arith.extsi %4 : tensor<64xi32> to tensor<64xi64>
    %6 = tile.splat %3 : i64 -> tensor<64xi64>
    %7 = arith.addi %6, %5 : tensor<64xi64>
    %8 = tile.splat %0 : i64 -> tensor<64xi64>
    %9 = arith.muli %7, %8 : tensor<64xi64>
    %10 = tile.splat %arg0 : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
    %11 = tile.addptr %10, %9 : tensor<64x!tile.ptr<f16>>, tensor<64xi64>
    %12 = tile.expand_dims %11 1 : tensor<64x!tile.ptr<f16>> -> tensor<64x1x!tile.ptr<f16>>
    %13 = tile.expand_dims %4 0 : tensor<64xi32> -> tensor<1x64xi32>
    %14 = tile.broadcast %12 : tensor<64x1x!tile.ptr<f16>> -> tensor<64x64x!tile.ptr<f16>>
    %15 = tile.broadcast %13 : tensor<1x64xi32> -> tensor<64x64xi32>
    %16 = tile.addptr %14, %15 : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
    %17 = tile.load %16 : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
    %18 = arith.extf %17 : tensor<64x64xf16> to tensor<64x64xf32>
    %19 = tile.reduce(%18) axis 1 {
    ^bb0(%arg3: f32, %arg4: f32):
      %22 = arith.addf %arg3, %arg4 fastmath<contract> : f32
      tile.yield %22 : f32
    } : (tensor<64x64xf32>) -> tensor<64xf32>
    %20 = tile.splat %arg1 : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
    %21 = tile.addptr %20, %7 : tensor<64x!tile.ptr<f32>>, tensor<64xi64>
    tile.store %21, %19 : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
    return
  }
}
