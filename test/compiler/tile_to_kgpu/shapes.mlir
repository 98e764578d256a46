// Shapes whose layouts follow from one another.
// RUN: kiln-opt %s --split-input-file --kiln-assign-layouts --kiln-verify-layouts | FileCheck %s

// Two contiguous halves: a separate register digit.
// CHECK-DAG: #[[H:.*]] = #layout.map<blocked [256] vector 2 warps 4>
// CHECK-DAG: #[[W:.*]] = #layout.map<blocked [512] vector 2 warps 4>
// CHECK-LABEL: @cats
// CHECK-NOT: kgpu.convert
// CHECK: tile.cat {{.*}} : tensor<256xf32, #[[H]]>, tensor<256xf32, #[[H]]> -> tensor<512xf32, #[[W]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @cats(%arg0: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c256_i32 = arith.constant 256 : i32
    %0 = tile.make_range 0 to 256 : tensor<256xi32>
    %1 = tile.splat %arg0 : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
    %2 = tile.addptr %1, %0 : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
    %3 = tile.load %2 : tensor<256x!tile.ptr<f32>> -> tensor<256xf32>
    %4 = tile.addptr %arg0, %c256_i32 : !tile.ptr<f32>, i32
    %5 = tile.splat %4 : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
    %6 = tile.addptr %5, %0 : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
    %7 = tile.load %6 : tensor<256x!tile.ptr<f32>> -> tensor<256xf32>
    %8 = tile.make_range 0 to 512 : tensor<512xi32>
    %9 = tile.splat %arg1 : !tile.ptr<f32> -> tensor<512x!tile.ptr<f32>>
    %10 = tile.addptr %9, %8 : tensor<512x!tile.ptr<f32>>, tensor<512xi32>
    %11 = tile.cat %3, %7 0 : tensor<256xf32>, tensor<256xf32> -> tensor<512xf32>
    tile.store %10, %11 : tensor<512x!tile.ptr<f32>>, tensor<512xf32>
    return
  }
}

// -----

// 6x10 and 15x4 divide their elements differently whatever the layout: the op is left to use shared memory.
// CHECK-LABEL: @oddshape
// CHECK-NOT: kgpu.convert
// CHECK: tile.reshape {{.*}} : tensor<6x10xf32, #[[A:.*]]> -> tensor<15x4xf32, #[[B:.*]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @oddshape(%arg0: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %cst = arith.constant dense<4> : tensor<15xi32>
    %cst_0 = arith.constant dense<10> : tensor<6xi32>
    %0 = tile.make_range 0 to 6 : tensor<6xi32>
    %1 = arith.muli %0, %cst_0 : tensor<6xi32>
    %2 = tile.splat %arg0 : !tile.ptr<f32> -> tensor<6x!tile.ptr<f32>>
    %3 = tile.addptr %2, %1 : tensor<6x!tile.ptr<f32>>, tensor<6xi32>
    %4 = tile.expand_dims %3 1 : tensor<6x!tile.ptr<f32>> -> tensor<6x1x!tile.ptr<f32>>
    %5 = tile.make_range 0 to 10 : tensor<10xi32>
    %6 = tile.expand_dims %5 0 : tensor<10xi32> -> tensor<1x10xi32>
    %7 = tile.broadcast %4 : tensor<6x1x!tile.ptr<f32>> -> tensor<6x10x!tile.ptr<f32>>
    %8 = tile.broadcast %6 : tensor<1x10xi32> -> tensor<6x10xi32>
    %9 = tile.addptr %7, %8 : tensor<6x10x!tile.ptr<f32>>, tensor<6x10xi32>
    %10 = tile.load %9 : tensor<6x10x!tile.ptr<f32>> -> tensor<6x10xf32>
    %11 = tile.make_range 0 to 15 : tensor<15xi32>
    %12 = arith.muli %11, %cst : tensor<15xi32>
    %13 = tile.splat %arg1 : !tile.ptr<f32> -> tensor<15x!tile.ptr<f32>>
    %14 = tile.addptr %13, %12 : tensor<15x!tile.ptr<f32>>, tensor<15xi32>
    %15 = tile.expand_dims %14 1 : tensor<15x!tile.ptr<f32>> -> tensor<15x1x!tile.ptr<f32>>
    %16 = tile.make_range 0 to 4 : tensor<4xi32>
    %17 = tile.expand_dims %16 0 : tensor<4xi32> -> tensor<1x4xi32>
    %18 = tile.broadcast %15 : tensor<15x1x!tile.ptr<f32>> -> tensor<15x4x!tile.ptr<f32>>
    %19 = tile.broadcast %17 : tensor<1x4xi32> -> tensor<15x4xi32>
    %20 = tile.addptr %18, %19 : tensor<15x4x!tile.ptr<f32>>, tensor<15x4xi32>
    %21 = tile.reshape %10 : tensor<6x10xf32> -> tensor<15x4xf32>
    tile.store %20, %21 : tensor<15x4x!tile.ptr<f32>>, tensor<15x4xf32>
    return
  }
}

// -----

// Pairs to be split are in one thread, though no access needs two adjacent elements.
// CHECK-LABEL: @pairs
// CHECK-NOT: kgpu.convert
// CHECK: tile.split
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @pairs(%arg0: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %arg2: i32) attributes {tile.kernel} {
    %0 = tile.make_range 0 to 2048 : tensor<2048xi32>
    %1 = tile.splat %arg0 : !tile.ptr<f32> -> tensor<2048x!tile.ptr<f32>>
    %2 = tile.addptr %1, %0 : tensor<2048x!tile.ptr<f32>>, tensor<2048xi32>
    %3 = tile.splat %arg2 : i32 -> tensor<2048xi32>
    %4 = arith.cmpi slt, %0, %3 : tensor<2048xi32>
    %5 = tile.load %2 mask %4 : tensor<2048x!tile.ptr<f32>> mask tensor<2048xi1> -> tensor<2048xf32>
    %6 = tile.reshape %5 : tensor<2048xf32> -> tensor<1024x2xf32>
    %lhs, %rhs = tile.split %6 : tensor<1024x2xf32> -> tensor<1024xf32>
    %7 = tile.make_range 0 to 1024 : tensor<1024xi32>
    %8 = tile.splat %arg1 : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
    %9 = tile.addptr %8, %7 : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    %10 = arith.mulf %lhs, %rhs fastmath<contract> : tensor<1024xf32>
    tile.store %9, %10 : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
    return
  }
}

// -----

// Factors for the columns of one tile and the rows of another: read in both layouts instead of moved between threads.
// CHECK-LABEL: @shared_factor
// CHECK: tile.load {{.*}} -> tensor<64xf32, #[[A:.*]]>
// CHECK-NEXT: tile.load {{.*}} -> tensor<64xf32, #[[B:.*]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @shared_factor(%arg0: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %arg2: !tile.ptr<f16> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %cst = arith.constant dense<32> : tensor<64xi32>
    %cst_0 = arith.constant dense<64> : tensor<32xi32>
    %c65536_i32 = arith.constant 65536 : i32
    %0 = tile.make_range 0 to 64 : tensor<64xi32>
    %1 = tile.splat %arg1 : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
    %2 = tile.addptr %1, %0 : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
    %3 = tile.load %2 : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
    %4 = tile.make_range 0 to 32 : tensor<32xi32>
    %5 = arith.muli %4, %cst_0 : tensor<32xi32>
    %6 = tile.expand_dims %5 1 : tensor<32xi32> -> tensor<32x1xi32>
    %7 = tile.expand_dims %0 0 : tensor<64xi32> -> tensor<1x64xi32>
    %8 = tile.broadcast %6 : tensor<32x1xi32> -> tensor<32x64xi32>
    %9 = tile.broadcast %7 : tensor<1x64xi32> -> tensor<32x64xi32>
    %10 = arith.addi %8, %9 : tensor<32x64xi32>
    %11 = arith.muli %0, %cst : tensor<64xi32>
    %12 = tile.expand_dims %11 1 : tensor<64xi32> -> tensor<64x1xi32>
    %13 = tile.expand_dims %4 0 : tensor<32xi32> -> tensor<1x32xi32>
    %14 = tile.broadcast %12 : tensor<64x1xi32> -> tensor<64x32xi32>
    %15 = tile.broadcast %13 : tensor<1x32xi32> -> tensor<64x32xi32>
    %16 = arith.addi %14, %15 : tensor<64x32xi32>
    %17 = tile.splat %arg2 : !tile.ptr<f16> -> tensor<32x64x!tile.ptr<f16>>
    %18 = tile.addptr %17, %10 : tensor<32x64x!tile.ptr<f16>>, tensor<32x64xi32>
    %19 = tile.splat %arg0 : !tile.ptr<f16> -> tensor<32x64x!tile.ptr<f16>>
    %20 = tile.addptr %19, %10 : tensor<32x64x!tile.ptr<f16>>, tensor<32x64xi32>
    %21 = tile.load %20 : tensor<32x64x!tile.ptr<f16>> -> tensor<32x64xf16>
    %22 = tile.expand_dims %3 0 : tensor<64xf32> -> tensor<1x64xf32>
    %23 = arith.extf %21 : tensor<32x64xf16> to tensor<32x64xf32>
    %24 = tile.broadcast %22 : tensor<1x64xf32> -> tensor<32x64xf32>
    %25 = arith.mulf %23, %24 fastmath<contract> : tensor<32x64xf32>
    %26 = arith.truncf %25 : tensor<32x64xf32> to tensor<32x64xf16>
    tile.store %18, %26 : tensor<32x64x!tile.ptr<f16>>, tensor<32x64xf16>
    %27 = tile.addptr %arg2, %c65536_i32 : !tile.ptr<f16>, i32
    %28 = tile.splat %27 : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
    %29 = tile.addptr %28, %16 : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %30 = tile.addptr %arg0, %c65536_i32 : !tile.ptr<f16>, i32
    %31 = tile.splat %30 : !tile.ptr<f16> -> tensor<64x32x!tile.ptr<f16>>
    %32 = tile.addptr %31, %16 : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %33 = tile.load %32 : tensor<64x32x!tile.ptr<f16>> -> tensor<64x32xf16>
    %34 = tile.expand_dims %3 1 : tensor<64xf32> -> tensor<64x1xf32>
    %35 = arith.extf %33 : tensor<64x32xf16> to tensor<64x32xf32>
    %36 = tile.broadcast %34 : tensor<64x1xf32> -> tensor<64x32xf32>
    %37 = arith.mulf %35, %36 fastmath<contract> : tensor<64x32xf32>
    %38 = arith.truncf %37 : tensor<64x32xf32> to tensor<64x32xf16>
    tile.store %29, %38 : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xf16>
    return
  }
}
