// Two accesses that prefer opposite orders: each gets its own, with one conversion of the narrowest elements in
// between.
// RUN: kiln-opt %s --split-input-file --kiln-assign-layouts --kiln-verify-layouts | FileCheck %s

// CHECK-DAG: #[[L:.*]] = #layout.map<blocked [64, 64] vector 8 warps 4>
// CHECK-DAG: #[[T:.*]] = #layout.map<blocked [64, 64] order [0, 1] vector 8 warps 4>
// CHECK-LABEL: @transpose
// CHECK: tile.load {{.*}} -> tensor<64x64xf16, #[[L]]>
// CHECK: tile.trans {{.*}} : tensor<64x64xf32, #[[L]]> -> tensor<64x64xf32, #[[T]]>
// CHECK: kgpu.convert {{.*}} : tensor<64x64xf16, #[[T]]> -> tensor<64x64xf16, #[[L]]>
// CHECK-NOT: kgpu.convert
// CHECK: tile.store {{.*}} tensor<64x64xf16, #[[L]]>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @transpose(%arg0: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg2: i32 {tile.divisibility = 16 : i64}, %arg3: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c64_i64 = arith.constant 64 : i64
    %cst = arith.constant dense<2.000000e+00> : tensor<64x64xf32>
    %0 = arith.extsi %arg2 : i32 to i64
    %1 = arith.extsi %arg3 : i32 to i64
    %2 = tile.program_id  x : i32
    %3 = arith.extsi %2 : i32 to i64
    %4 = arith.muli %3, %c64_i64 : i64
    %5 = tile.make_range 0 to 64 : tensor<64xi32>
    %6 = arith.extsi %5 : tensor<64xi32> to tensor<64xi64>
    %7 = tile.splat %4 : i64 -> tensor<64xi64>
    %8 = arith.addi %7, %6 : tensor<64xi64>
    %9 = tile.program_id  y : i32
    %10 = arith.extsi %9 : i32 to i64
    %11 = arith.muli %10, %c64_i64 : i64
    %12 = tile.splat %11 : i64 -> tensor<64xi64>
    %13 = arith.addi %12, %6 : tensor<64xi64>
    %14 = tile.splat %1 : i64 -> tensor<64xi64>
    %15 = arith.muli %8, %14 : tensor<64xi64>
    %16 = tile.splat %arg0 : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
    %17 = tile.addptr %16, %15 : tensor<64x!tile.ptr<f16>>, tensor<64xi64>
    %18 = tile.expand_dims %17 1 : tensor<64x!tile.ptr<f16>> -> tensor<64x1x!tile.ptr<f16>>
    %19 = tile.expand_dims %13 0 : tensor<64xi64> -> tensor<1x64xi64>
    %20 = tile.broadcast %18 : tensor<64x1x!tile.ptr<f16>> -> tensor<64x64x!tile.ptr<f16>>
    %21 = tile.broadcast %19 : tensor<1x64xi64> -> tensor<64x64xi64>
    %22 = tile.addptr %20, %21 : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi64>
    %23 = tile.load %22 : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
    %24 = arith.extf %23 : tensor<64x64xf16> to tensor<64x64xf32>
    %25 = tile.splat %0 : i64 -> tensor<64xi64>
    %26 = arith.muli %13, %25 : tensor<64xi64>
    %27 = tile.splat %arg1 : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
    %28 = tile.addptr %27, %26 : tensor<64x!tile.ptr<f16>>, tensor<64xi64>
    %29 = tile.expand_dims %28 1 : tensor<64x!tile.ptr<f16>> -> tensor<64x1x!tile.ptr<f16>>
    %30 = tile.expand_dims %8 0 : tensor<64xi64> -> tensor<1x64xi64>
    %31 = tile.broadcast %29 : tensor<64x1x!tile.ptr<f16>> -> tensor<64x64x!tile.ptr<f16>>
    %32 = tile.broadcast %30 : tensor<1x64xi64> -> tensor<64x64xi64>
    %33 = tile.addptr %31, %32 : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi64>
    %34 = tile.trans %24 [1, 0] : tensor<64x64xf32> -> tensor<64x64xf32>
    %35 = arith.mulf %34, %cst fastmath<contract> : tensor<64x64xf32>
    %36 = arith.truncf %35 : tensor<64x64xf32> to tensor<64x64xf16>
    tile.store %33, %36 : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xf16>
    return
  }
}

// -----

// 64 KiB do not fit the shared memory that every GPU has: the store keeps the load's layout.
// CHECK: #[[L:.*]] = #layout.map<blocked [128, 128] vector 4 warps 4>
// CHECK-LABEL: @transpose_large
// CHECK-NOT: kgpu.convert
// CHECK: tile.store
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @transpose_large(%arg0: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %arg2: i32 {tile.divisibility = 16 : i64}, %arg3: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %0 = arith.extsi %arg2 : i32 to i64
    %1 = arith.extsi %arg3 : i32 to i64
    %2 = tile.make_range 0 to 128 : tensor<128xi32>
    %3 = arith.extsi %2 : tensor<128xi32> to tensor<128xi64>
    %4 = tile.splat %1 : i64 -> tensor<128xi64>
    %5 = arith.muli %3, %4 : tensor<128xi64>
    %6 = tile.splat %arg0 : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %7 = tile.addptr %6, %5 : tensor<128x!tile.ptr<f32>>, tensor<128xi64>
    %8 = tile.expand_dims %7 1 : tensor<128x!tile.ptr<f32>> -> tensor<128x1x!tile.ptr<f32>>
    %9 = tile.expand_dims %2 0 : tensor<128xi32> -> tensor<1x128xi32>
    %10 = tile.broadcast %8 : tensor<128x1x!tile.ptr<f32>> -> tensor<128x128x!tile.ptr<f32>>
    %11 = tile.broadcast %9 : tensor<1x128xi32> -> tensor<128x128xi32>
    %12 = tile.addptr %10, %11 : tensor<128x128x!tile.ptr<f32>>, tensor<128x128xi32>
    %13 = tile.load %12 : tensor<128x128x!tile.ptr<f32>> -> tensor<128x128xf32>
    %14 = tile.splat %0 : i64 -> tensor<128xi64>
    %15 = arith.muli %3, %14 : tensor<128xi64>
    %16 = tile.splat %arg1 : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %17 = tile.addptr %16, %15 : tensor<128x!tile.ptr<f32>>, tensor<128xi64>
    %18 = tile.expand_dims %17 1 : tensor<128x!tile.ptr<f32>> -> tensor<128x1x!tile.ptr<f32>>
    %19 = tile.broadcast %18 : tensor<128x1x!tile.ptr<f32>> -> tensor<128x128x!tile.ptr<f32>>
    %20 = tile.addptr %19, %11 : tensor<128x128x!tile.ptr<f32>>, tensor<128x128xi32>
    %21 = tile.trans %13 [1, 0] : tensor<128x128xf32> -> tensor<128x128xf32>
    tile.store %20, %21 : tensor<128x128x!tile.ptr<f32>>, tensor<128x128xf32>
    return
  }
}
