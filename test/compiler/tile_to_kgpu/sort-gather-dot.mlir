// Ops that sort or select elements, and dots.
// RUN: kiln-opt %s --split-input-file --kiln-assign-layouts --kiln-verify-layouts | FileCheck %s

// Rows that fit a warp are sorted in one: no barrier between steps.
// CHECK: #[[L:.*]] = #layout.map<digits [4, 256] reg {{.*}} lane {{.*}} warp (1, 0) (2, 0)>
// CHECK-LABEL: @sortrows
// CHECK-NOT: kgpu.convert
// CHECK: tile.sort {{.*}} : tensor<4x256xf32, #[[L]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @sortrows(%arg0: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %cst = arith.constant dense<256> : tensor<4xi64>
    %c4_i64 = arith.constant 4 : i64
    %0 = tile.program_id  x : i32
    %1 = arith.extsi %0 : i32 to i64
    %2 = arith.muli %1, %c4_i64 : i64
    %3 = tile.make_range 0 to 4 : tensor<4xi32>
    %4 = arith.extsi %3 : tensor<4xi32> to tensor<4xi64>
    %5 = tile.splat %2 : i64 -> tensor<4xi64>
    %6 = arith.addi %5, %4 : tensor<4xi64>
    %7 = arith.muli %6, %cst : tensor<4xi64>
    %8 = tile.expand_dims %7 1 : tensor<4xi64> -> tensor<4x1xi64>
    %9 = tile.make_range 0 to 256 : tensor<256xi32>
    %10 = tile.expand_dims %9 0 : tensor<256xi32> -> tensor<1x256xi32>
    %11 = tile.broadcast %8 : tensor<4x1xi64> -> tensor<4x256xi64>
    %12 = tile.broadcast %10 : tensor<1x256xi32> -> tensor<4x256xi32>
    %13 = arith.extsi %12 : tensor<4x256xi32> to tensor<4x256xi64>
    %14 = arith.addi %11, %13 : tensor<4x256xi64>
    %15 = tile.splat %arg1 : !tile.ptr<f32> -> tensor<4x256x!tile.ptr<f32>>
    %16 = tile.addptr %15, %14 : tensor<4x256x!tile.ptr<f32>>, tensor<4x256xi64>
    %17 = tile.splat %arg0 : !tile.ptr<f32> -> tensor<4x256x!tile.ptr<f32>>
    %18 = tile.addptr %17, %14 : tensor<4x256x!tile.ptr<f32>>, tensor<4x256xi64>
    %19 = tile.load %18 : tensor<4x256x!tile.ptr<f32>> -> tensor<4x256xf32>
    %20 = tile.sort %19 : tensor<4x256xf32>
    tile.store %16, %20 : tensor<4x256x!tile.ptr<f32>>, tensor<4x256xf32>
    return
  }
}

// -----

// The layouts of the counted values and of the counts are unrelated.
// CHECK-DAG: #[[L:.*]] = #layout.map<blocked [1024] vector 4 warps 4>
// CHECK-DAG: #[[B:.*]] = #layout.map<blocked [64] vector 4 warps 4>
// CHECK-LABEL: @hist
// CHECK-NOT: kgpu.convert
// CHECK: tile.histogram {{.*}} : tensor<1024xi32, #[[L]]> -> tensor<64xi32, #[[B]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @hist(%arg0: !tile.ptr<i32> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<i32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c64_i64 = arith.constant 64 : i64
    %c1024_i64 = arith.constant 1024 : i64
    %0 = tile.program_id  x : i32
    %1 = arith.extsi %0 : i32 to i64
    %2 = arith.muli %1, %c1024_i64 : i64
    %3 = tile.make_range 0 to 1024 : tensor<1024xi32>
    %4 = arith.extsi %3 : tensor<1024xi32> to tensor<1024xi64>
    %5 = tile.splat %2 : i64 -> tensor<1024xi64>
    %6 = arith.addi %5, %4 : tensor<1024xi64>
    %7 = tile.splat %arg0 : !tile.ptr<i32> -> tensor<1024x!tile.ptr<i32>>
    %8 = tile.addptr %7, %6 : tensor<1024x!tile.ptr<i32>>, tensor<1024xi64>
    %9 = tile.load %8 : tensor<1024x!tile.ptr<i32>> -> tensor<1024xi32>
    %10 = tile.histogram %9 : tensor<1024xi32> -> tensor<64xi32>
    %11 = arith.muli %1, %c64_i64 : i64
    %12 = tile.addptr %arg1, %11 : !tile.ptr<i32>, i64
    %13 = tile.make_range 0 to 64 : tensor<64xi32>
    %14 = tile.splat %12 : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>>
    %15 = tile.addptr %14, %13 : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
    tile.store %15, %10 : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
    return
  }
}

// -----

// The result has the layout of the indices; the source keeps the layout in which it was loaded.
// CHECK-DAG: #[[S:.*]] = #layout.map<blocked [1024] vector 4 warps 4>
// CHECK-DAG: #[[I:.*]] = #layout.map<blocked [256] vector 2 warps 4>
// CHECK-LABEL: @gathers
// CHECK-NOT: kgpu.convert
// CHECK: tile.gather {{.*}} : tensor<1024xf32, #[[S]]>, tensor<256xi32, #[[I]]> -> tensor<256xf32, #[[I]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @gathers(%arg0: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<i32> {tile.divisibility = 16 : i64}, %arg2: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c256_i64 = arith.constant 256 : i64
    %c1024_i64 = arith.constant 1024 : i64
    %0 = tile.program_id  x : i32
    %1 = arith.extsi %0 : i32 to i64
    %2 = arith.muli %1, %c1024_i64 : i64
    %3 = tile.addptr %arg0, %2 : !tile.ptr<f32>, i64
    %4 = tile.make_range 0 to 1024 : tensor<1024xi32>
    %5 = tile.splat %3 : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
    %6 = tile.addptr %5, %4 : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    %7 = tile.load %6 : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
    %8 = arith.muli %1, %c256_i64 : i64
    %9 = tile.make_range 0 to 256 : tensor<256xi32>
    %10 = arith.extsi %9 : tensor<256xi32> to tensor<256xi64>
    %11 = tile.splat %8 : i64 -> tensor<256xi64>
    %12 = arith.addi %11, %10 : tensor<256xi64>
    %13 = tile.splat %arg2 : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
    %14 = tile.addptr %13, %12 : tensor<256x!tile.ptr<f32>>, tensor<256xi64>
    %15 = tile.splat %arg1 : !tile.ptr<i32> -> tensor<256x!tile.ptr<i32>>
    %16 = tile.addptr %15, %12 : tensor<256x!tile.ptr<i32>>, tensor<256xi64>
    %17 = tile.load %16 : tensor<256x!tile.ptr<i32>> -> tensor<256xi32>
    %18 = tile.gather %7[%17] 0 : tensor<1024xf32>, tensor<256xi32> -> tensor<256xf32>
    tile.store %14, %18 : tensor<256x!tile.ptr<f32>>, tensor<256xf32>
    return
  }
}

// -----

// A register tile of several rows by several columns; operands stay as they were loaded, and pointers advance in that
// layout.
// CHECK-DAG: #[[C:.*]] = #layout.map<blocked [64, 64] vector 8 warps 4>
// CHECK-DAG: #[[A:.*]] = #layout.map<blocked [64, 32] vector 8 warps 4>
// CHECK-DAG: #[[B:.*]] = #layout.map<blocked [32, 64] vector 8 warps 4>
// CHECK-LABEL: @gemm
// CHECK-NOT: kgpu.convert
// CHECK: tile.dot {{.*}} : tensor<64x32xf16, #[[A]]>, tensor<32x64xf16, #[[B]]> -> tensor<64x64xf32, #[[C]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @gemm(%arg0: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg2: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg3: i32 {tile.divisibility = 16 : i64}, %arg4: i32 {tile.divisibility = 16 : i64}, %arg5: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c64_i64 = arith.constant 64 : i64
    %cst = arith.constant dense<0.000000e+00> : tensor<64x64xf32>
    %c0_i32 = arith.constant 0 : i32
    %c32_i64 = arith.constant 32 : i64
    %c32_i32 = arith.constant 32 : i32
    %cst_0 = arith.constant dense<32> : tensor<64x32xi32>
    %0 = arith.extsi %arg4 : i32 to i64
    %1 = arith.extsi %arg5 : i32 to i64
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
    %14 = tile.make_range 0 to 32 : tensor<32xi32>
    %15 = arith.extsi %14 : tensor<32xi32> to tensor<32xi64>
    %16 = tile.splat %1 : i64 -> tensor<64xi64>
    %17 = arith.muli %8, %16 : tensor<64xi64>
    %18 = tile.splat %arg0 : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
    %19 = tile.addptr %18, %17 : tensor<64x!tile.ptr<f16>>, tensor<64xi64>
    %20 = tile.expand_dims %19 1 : tensor<64x!tile.ptr<f16>> -> tensor<64x1x!tile.ptr<f16>>
    %21 = tile.expand_dims %14 0 : tensor<32xi32> -> tensor<1x32xi32>
    %22 = tile.broadcast %20 : tensor<64x1x!tile.ptr<f16>> -> tensor<64x32x!tile.ptr<f16>>
    %23 = tile.broadcast %21 : tensor<1x32xi32> -> tensor<64x32xi32>
    %24 = tile.addptr %22, %23 : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %25 = tile.splat %0 : i64 -> tensor<32xi64>
    %26 = arith.muli %15, %25 : tensor<32xi64>
    %27 = tile.splat %arg1 : !tile.ptr<f16> -> tensor<32x!tile.ptr<f16>>
    %28 = tile.addptr %27, %26 : tensor<32x!tile.ptr<f16>>, tensor<32xi64>
    %29 = tile.expand_dims %28 1 : tensor<32x!tile.ptr<f16>> -> tensor<32x1x!tile.ptr<f16>>
    %30 = tile.expand_dims %13 0 : tensor<64xi64> -> tensor<1x64xi64>
    %31 = tile.broadcast %29 : tensor<32x1x!tile.ptr<f16>> -> tensor<32x64x!tile.ptr<f16>>
    %32 = tile.broadcast %30 : tensor<1x64xi64> -> tensor<32x64xi64>
    %33 = tile.addptr %31, %32 : tensor<32x64x!tile.ptr<f16>>, tensor<32x64xi64>
    %34 = arith.muli %0, %c32_i64 : i64
    %35 = tile.splat %34 : i64 -> tensor<32x64xi64>
    %36:3 = scf.for %arg6 = %c0_i32 to %arg5 step %c32_i32 iter_args(%arg7 = %cst, %arg8 = %24, %arg9 = %33) -> (tensor<64x64xf32>, tensor<64x32x!tile.ptr<f16>>, tensor<32x64x!tile.ptr<f16>>)  : i32 {
      %46 = tile.load %arg8 : tensor<64x32x!tile.ptr<f16>> -> tensor<64x32xf16>
      %47 = tile.load %arg9 : tensor<32x64x!tile.ptr<f16>> -> tensor<32x64xf16>
      %48 = tile.dot %46, %47, %arg7 : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      %49 = tile.addptr %arg8, %cst_0 : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
      %50 = tile.addptr %arg9, %35 : tensor<32x64x!tile.ptr<f16>>, tensor<32x64xi64>
      scf.yield %48, %49, %50 : tensor<64x64xf32>, tensor<64x32x!tile.ptr<f16>>, tensor<32x64x!tile.ptr<f16>>
    }
    %37 = tile.splat %0 : i64 -> tensor<64xi64>
    %38 = arith.muli %8, %37 : tensor<64xi64>
    %39 = tile.splat %arg2 : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
    %40 = tile.addptr %39, %38 : tensor<64x!tile.ptr<f16>>, tensor<64xi64>
    %41 = tile.expand_dims %40 1 : tensor<64x!tile.ptr<f16>> -> tensor<64x1x!tile.ptr<f16>>
    %42 = tile.broadcast %41 : tensor<64x1x!tile.ptr<f16>> -> tensor<64x64x!tile.ptr<f16>>
    %43 = tile.broadcast %30 : tensor<1x64xi64> -> tensor<64x64xi64>
    %44 = tile.addptr %42, %43 : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi64>
    %45 = arith.truncf %36#0 : tensor<64x64xf32> to tensor<64x64xf16>
    tile.store %44, %45 : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xf16>
    return
  }
}
