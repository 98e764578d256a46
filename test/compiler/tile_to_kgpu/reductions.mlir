// Reduced rows: lanes and warps are placed along a row only as far as that is cheaper than separate rows.
// RUN: kiln-opt %s --split-input-file --kiln-assign-layouts --kiln-verify-layouts | FileCheck %s

// As many rows as warps: a row each, so that no warp needs another's sum.
// CHECK-DAG: #[[R:.*]] = #layout.map<digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)>
// CHECK-DAG: #[[L:.*]] = #layout.map<digits [4, 4096] reg (0, 1) (0, 2) (0, 4) {{.*}} lane (0, 8) (0, 16) (0, 32) (0, 64) (0, 128) warp (1, 0) (2, 0)>
// CHECK-LABEL: @row_per_warp
// CHECK-NOT: kgpu.convert
// CHECK: tile.reduce
// CHECK: (tensor<4x4096xf32, #[[L]]>) -> tensor<4xf32, #[[R]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @row_per_warp(%arg0: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg2: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c4_i64 = arith.constant 4 : i64
    %0 = arith.extsi %arg2 : i32 to i64
    %1 = tile.program_id  x : i32
    %2 = arith.extsi %1 : i32 to i64
    %3 = arith.muli %2, %c4_i64 : i64
    %4 = tile.make_range 0 to 4 : tensor<4xi32>
    %5 = arith.extsi %4 : tensor<4xi32> to tensor<4xi64>
    %6 = tile.splat %3 : i64 -> tensor<4xi64>
    %7 = arith.addi %6, %5 : tensor<4xi64>
    %8 = tile.splat %0 : i64 -> tensor<4xi64>
    %9 = arith.muli %7, %8 : tensor<4xi64>
    %10 = tile.splat %arg0 : !tile.ptr<f16> -> tensor<4x!tile.ptr<f16>>
    %11 = tile.addptr %10, %9 : tensor<4x!tile.ptr<f16>>, tensor<4xi64>
    %12 = tile.expand_dims %11 1 : tensor<4x!tile.ptr<f16>> -> tensor<4x1x!tile.ptr<f16>>
    %13 = tile.make_range 0 to 4096 : tensor<4096xi32>
    %14 = tile.expand_dims %13 0 : tensor<4096xi32> -> tensor<1x4096xi32>
    %15 = tile.broadcast %12 : tensor<4x1x!tile.ptr<f16>> -> tensor<4x4096x!tile.ptr<f16>>
    %16 = tile.broadcast %14 : tensor<1x4096xi32> -> tensor<4x4096xi32>
    %17 = tile.addptr %15, %16 : tensor<4x4096x!tile.ptr<f16>>, tensor<4x4096xi32>
    %18 = tile.load %17 : tensor<4x4096x!tile.ptr<f16>> -> tensor<4x4096xf16>
    %19 = arith.extf %18 : tensor<4x4096xf16> to tensor<4x4096xf32>
    %20 = tile.reduce(%19) axis 1 {
    ^bb0(%arg3: f32, %arg4: f32):
      %30 = arith.addf %arg3, %arg4 fastmath<contract> : f32
      tile.yield %30 : f32
    } : (tensor<4x4096xf32>) -> tensor<4xf32>
    %21 = tile.splat %arg1 : !tile.ptr<f16> -> tensor<4x!tile.ptr<f16>>
    %22 = tile.addptr %21, %9 : tensor<4x!tile.ptr<f16>>, tensor<4xi64>
    %23 = tile.expand_dims %22 1 : tensor<4x!tile.ptr<f16>> -> tensor<4x1x!tile.ptr<f16>>
    %24 = tile.broadcast %23 : tensor<4x1x!tile.ptr<f16>> -> tensor<4x4096x!tile.ptr<f16>>
    %25 = tile.addptr %24, %16 : tensor<4x4096x!tile.ptr<f16>>, tensor<4x4096xi32>
    %26 = tile.expand_dims %20 1 : tensor<4xf32> -> tensor<4x1xf32>
    %27 = tile.broadcast %26 : tensor<4x1xf32> -> tensor<4x4096xf32>
    %28 = arith.mulf %19, %27 fastmath<contract> : tensor<4x4096xf32>
    %29 = arith.truncf %28 : tensor<4x4096xf32> to tensor<4x4096xf16>
    tile.store %25, %29 : tensor<4x4096x!tile.ptr<f16>>, tensor<4x4096xf16>
    return
  }
}

// -----

// Short rows: a few lanes each, still 16 bytes per access.
// CHECK-DAG: #[[L:.*]] = #layout.map<blocked [64, 32] vector 8 warps 4>
// CHECK-DAG: #[[R:.*]] = #layout.map<digits [64] reg (32) lane (0) (0) (1) (2) (4) warp (8) (16)>
// CHECK-LABEL: @short_rows
// CHECK-NOT: kgpu.convert
// CHECK: (tensor<64x32xf32, #[[L]]>) -> tensor<64xf32, #[[R]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @short_rows(%arg0: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg2: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
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
    %13 = tile.make_range 0 to 32 : tensor<32xi32>
    %14 = tile.expand_dims %13 0 : tensor<32xi32> -> tensor<1x32xi32>
    %15 = tile.broadcast %12 : tensor<64x1x!tile.ptr<f16>> -> tensor<64x32x!tile.ptr<f16>>
    %16 = tile.broadcast %14 : tensor<1x32xi32> -> tensor<64x32xi32>
    %17 = tile.addptr %15, %16 : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %18 = tile.load %17 : tensor<64x32x!tile.ptr<f16>> -> tensor<64x32xf16>
    %19 = arith.extf %18 : tensor<64x32xf16> to tensor<64x32xf32>
    %20 = tile.reduce(%19) axis 1 {
    ^bb0(%arg3: f32, %arg4: f32):
      %30 = arith.addf %arg3, %arg4 fastmath<contract> : f32
      tile.yield %30 : f32
    } : (tensor<64x32xf32>) -> tensor<64xf32>
    %21 = tile.splat %arg1 : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
    %22 = tile.addptr %21, %9 : tensor<64x!tile.ptr<f16>>, tensor<64xi64>
    %23 = tile.expand_dims %22 1 : tensor<64x!tile.ptr<f16>> -> tensor<64x1x!tile.ptr<f16>>
    %24 = tile.broadcast %23 : tensor<64x1x!tile.ptr<f16>> -> tensor<64x32x!tile.ptr<f16>>
    %25 = tile.addptr %24, %16 : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xi32>
    %26 = tile.expand_dims %20 1 : tensor<64xf32> -> tensor<64x1xf32>
    %27 = tile.broadcast %26 : tensor<64x1xf32> -> tensor<64x32xf32>
    %28 = arith.mulf %19, %27 fastmath<contract> : tensor<64x32xf32>
    %29 = arith.truncf %28 : tensor<64x32xf32> to tensor<64x32xf16>
    tile.store %25, %29 : tensor<64x32x!tile.ptr<f16>>, tensor<64x32xf16>
    return
  }
}

// -----

// A sum over rows in a loop: the carried value has the loads' layout, and nothing is converted inside.
// CHECK: #[[L:.*]] = #layout.map<blocked [16, 256] vector 8 warps 4>
// CHECK-LABEL: @colsum
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (tensor<16x256xf32, #[[L]]>)
// CHECK-NOT: kgpu.convert
// CHECK: tile.load {{.*}} -> tensor<16x256xf16, #[[L]]>
// CHECK-NOT: kgpu.convert
// CHECK: scf.yield {{.*}} : tensor<16x256xf32, #[[L]]>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @colsum(%arg0: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %arg2: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %cst = arith.constant dense<4096> : tensor<16xi64>
    %c16_i32 = arith.constant 16 : i32
    %c0_i32 = arith.constant 0 : i32
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<16x256xf32>
    %c256_i64 = arith.constant 256 : i64
    %0 = tile.program_id  x : i32
    %1 = arith.extsi %0 : i32 to i64
    %2 = arith.muli %1, %c256_i64 : i64
    %3 = tile.make_range 0 to 256 : tensor<256xi32>
    %4 = arith.extsi %3 : tensor<256xi32> to tensor<256xi64>
    %5 = tile.splat %2 : i64 -> tensor<256xi64>
    %6 = arith.addi %5, %4 : tensor<256xi64>
    %7 = tile.make_range 0 to 16 : tensor<16xi32>
    %8 = arith.extsi %7 : tensor<16xi32> to tensor<16xi64>
    %9 = tile.splat %arg0 : !tile.ptr<f16> -> tensor<16x!tile.ptr<f16>>
    %10 = tile.expand_dims %6 0 : tensor<256xi64> -> tensor<1x256xi64>
    %11 = tile.broadcast %10 : tensor<1x256xi64> -> tensor<16x256xi64>
    %12 = scf.for %arg3 = %c0_i32 to %arg2 step %c16_i32 iter_args(%arg4 = %cst_0) -> (tensor<16x256xf32>)  : i32 {
      %16 = arith.extsi %arg3 : i32 to i64
      %17 = tile.splat %16 : i64 -> tensor<16xi64>
      %18 = arith.addi %17, %8 : tensor<16xi64>
      %19 = arith.muli %18, %cst : tensor<16xi64>
      %20 = tile.addptr %9, %19 : tensor<16x!tile.ptr<f16>>, tensor<16xi64>
      %21 = tile.expand_dims %20 1 : tensor<16x!tile.ptr<f16>> -> tensor<16x1x!tile.ptr<f16>>
      %22 = tile.broadcast %21 : tensor<16x1x!tile.ptr<f16>> -> tensor<16x256x!tile.ptr<f16>>
      %23 = tile.addptr %22, %11 : tensor<16x256x!tile.ptr<f16>>, tensor<16x256xi64>
      %24 = tile.load %23 : tensor<16x256x!tile.ptr<f16>> -> tensor<16x256xf16>
      %25 = arith.extf %24 : tensor<16x256xf16> to tensor<16x256xf32>
      %26 = arith.addf %arg4, %25 fastmath<contract> : tensor<16x256xf32>
      scf.yield %26 : tensor<16x256xf32>
    }
    %13 = tile.splat %arg1 : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
    %14 = tile.addptr %13, %6 : tensor<256x!tile.ptr<f32>>, tensor<256xi64>
    %15 = tile.reduce(%12) axis 0 {
    ^bb0(%arg3: f32, %arg4: f32):
      %16 = arith.addf %arg3, %arg4 fastmath<contract> : f32
      tile.yield %16 : f32
    } : (tensor<16x256xf32>) -> tensor<256xf32>
    tile.store %14, %15 : tensor<256x!tile.ptr<f32>>, tensor<256xf32>
    return
  }
}
