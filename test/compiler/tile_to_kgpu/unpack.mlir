// Nibbles unpacked and scaled in groups of 32: every thread has what it needs, and nothing is converted. Two per byte
// along the columns; eight per word along the rows.
// RUN: kiln-opt %s --split-input-file --kiln-assign-layouts --kiln-verify-layouts | FileCheck %s

// The bytes of a thread become twice as many columns; the scale of its columns is read by the lanes that need it.
// CHECK-DAG: #[[P:.*]] = #layout.map<blocked [4, 512] vector 4 warps 4>
// CHECK-DAG: #[[Q:.*]] = #layout.map<blocked [4, 1024] vector 8 warps 4>
// CHECK-LABEL: @unpack
// CHECK-NOT: kgpu.convert
// CHECK: tile.load {{.*}} -> tensor<4x512xi8, #[[P]]>
// CHECK-NOT: kgpu.convert
// CHECK: tile.reshape {{.*}} -> tensor<4x1024xf32, #[[Q]]>
// CHECK-NOT: kgpu.convert
// CHECK: tile.store {{.*}} tensor<4x1024xf16, #[[Q]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @unpack(%arg0: !tile.ptr<i8> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg2: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg3: i32) attributes {tile.kernel} {
    %cst = arith.constant dense<1024> : tensor<4xi64>
    %cst_0 = arith.constant dense<32> : tensor<4xi64>
    %cst_1 = arith.constant dense<512> : tensor<4xi64>
    %cst_2 = arith.constant dense<4> : tensor<4x512xi8>
    %cst_3 = arith.constant dense<15> : tensor<4x512xi8>
    %c4_i64 = arith.constant 4 : i64
    %0 = tile.program_id  x : i32
    %1 = arith.extsi %0 : i32 to i64
    %2 = arith.muli %1, %c4_i64 : i64
    %3 = tile.make_range 0 to 4 : tensor<4xi32>
    %4 = arith.extsi %3 : tensor<4xi32> to tensor<4xi64>
    %5 = tile.splat %2 : i64 -> tensor<4xi64>
    %6 = arith.addi %5, %4 : tensor<4xi64>
    %7 = arith.muli %6, %cst_1 : tensor<4xi64>
    %8 = tile.splat %arg0 : !tile.ptr<i8> -> tensor<4x!tile.ptr<i8>>
    %9 = tile.addptr %8, %7 : tensor<4x!tile.ptr<i8>>, tensor<4xi64>
    %10 = tile.expand_dims %9 1 : tensor<4x!tile.ptr<i8>> -> tensor<4x1x!tile.ptr<i8>>
    %11 = tile.make_range 0 to 512 : tensor<512xi32>
    %12 = tile.expand_dims %11 0 : tensor<512xi32> -> tensor<1x512xi32>
    %13 = tile.broadcast %10 : tensor<4x1x!tile.ptr<i8>> -> tensor<4x512x!tile.ptr<i8>>
    %14 = tile.broadcast %12 : tensor<1x512xi32> -> tensor<4x512xi32>
    %15 = tile.addptr %13, %14 : tensor<4x512x!tile.ptr<i8>>, tensor<4x512xi32>
    %16 = tile.load %15 : tensor<4x512x!tile.ptr<i8>> -> tensor<4x512xi8>
    %17 = arith.andi %16, %cst_3 : tensor<4x512xi8>
    %18 = arith.uitofp %17 : tensor<4x512xi8> to tensor<4x512xf32>
    %19 = arith.shrui %16, %cst_2 : tensor<4x512xi8>
    %20 = arith.uitofp %19 : tensor<4x512xi8> to tensor<4x512xf32>
    %21 = tile.join %18, %20 : tensor<4x512xf32> -> tensor<4x512x2xf32>
    %22 = tile.reshape %21 : tensor<4x512x2xf32> -> tensor<4x1024xf32>
    %23 = arith.muli %6, %cst_0 : tensor<4xi64>
    %24 = tile.splat %arg1 : !tile.ptr<f16> -> tensor<4x!tile.ptr<f16>>
    %25 = tile.addptr %24, %23 : tensor<4x!tile.ptr<f16>>, tensor<4xi64>
    %26 = tile.expand_dims %25 1 : tensor<4x!tile.ptr<f16>> -> tensor<4x1x!tile.ptr<f16>>
    %27 = tile.make_range 0 to 32 : tensor<32xi32>
    %28 = tile.expand_dims %27 0 : tensor<32xi32> -> tensor<1x32xi32>
    %29 = tile.broadcast %26 : tensor<4x1x!tile.ptr<f16>> -> tensor<4x32x!tile.ptr<f16>>
    %30 = tile.broadcast %28 : tensor<1x32xi32> -> tensor<4x32xi32>
    %31 = tile.addptr %29, %30 : tensor<4x32x!tile.ptr<f16>>, tensor<4x32xi32>
    %32 = tile.load %31 : tensor<4x32x!tile.ptr<f16>> -> tensor<4x32xf16>
    %33 = arith.extf %32 : tensor<4x32xf16> to tensor<4x32xf32>
    %34 = tile.expand_dims %33 2 : tensor<4x32xf32> -> tensor<4x32x1xf32>
    %35 = tile.broadcast %34 : tensor<4x32x1xf32> -> tensor<4x32x32xf32>
    %36 = tile.reshape %35 : tensor<4x32x32xf32> -> tensor<4x1024xf32>
    %37 = arith.muli %6, %cst : tensor<4xi64>
    %38 = tile.splat %arg2 : !tile.ptr<f16> -> tensor<4x!tile.ptr<f16>>
    %39 = tile.addptr %38, %37 : tensor<4x!tile.ptr<f16>>, tensor<4xi64>
    %40 = tile.expand_dims %39 1 : tensor<4x!tile.ptr<f16>> -> tensor<4x1x!tile.ptr<f16>>
    %41 = tile.make_range 0 to 1024 : tensor<1024xi32>
    %42 = tile.expand_dims %41 0 : tensor<1024xi32> -> tensor<1x1024xi32>
    %43 = tile.broadcast %40 : tensor<4x1x!tile.ptr<f16>> -> tensor<4x1024x!tile.ptr<f16>>
    %44 = tile.broadcast %42 : tensor<1x1024xi32> -> tensor<4x1024xi32>
    %45 = tile.addptr %43, %44 : tensor<4x1024x!tile.ptr<f16>>, tensor<4x1024xi32>
    %46 = arith.mulf %22, %36 fastmath<contract> : tensor<4x1024xf32>
    %47 = arith.truncf %46 : tensor<4x1024xf32> to tensor<4x1024xf16>
    tile.store %45, %47 : tensor<4x1024x!tile.ptr<f16>>, tensor<4x1024xf16>
    return
  }
}

// -----

// The store's first choice puts adjacent rows in different lanes, although the same word holds all eight; the rows that
// a word unpacks to are just as good for it.
// CHECK-LABEL: @unpack_rows
// CHECK-NOT: kgpu.convert
// CHECK: tile.load {{.*}} -> tensor<16x128xi32, #[[W:.*]]>
// CHECK-NOT: kgpu.convert
// CHECK: tile.reshape {{.*}} -> tensor<128x128xi32, #[[R:.*]]>
// CHECK-NOT: kgpu.convert
// CHECK: tile.store {{.*}} tensor<128x128xf16, #[[R]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @unpack_rows(%arg0: !tile.ptr<i32> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %arg2: !tile.ptr<f16> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %cst = arith.constant dense<128> : tensor<128xi32>
    %cst_0 = arith.constant dense<128> : tensor<4xi32>
    %cst_1 = arith.constant dense<128> : tensor<16xi32>
    %cst_2 = arith.constant dense<8.000000e+00> : tensor<128x128xf16>
    %cst_3 = arith.constant dense<15> : tensor<16x8x128xi32>
    %cst_4 = arith.constant dense<4> : tensor<8xi32>
    %0 = tile.make_range 0 to 128 : tensor<128xi32>
    %1 = tile.make_range 0 to 16 : tensor<16xi32>
    %2 = arith.muli %1, %cst_1 : tensor<16xi32>
    %3 = tile.splat %arg0 : !tile.ptr<i32> -> tensor<16x!tile.ptr<i32>>
    %4 = tile.addptr %3, %2 : tensor<16x!tile.ptr<i32>>, tensor<16xi32>
    %5 = tile.expand_dims %4 1 : tensor<16x!tile.ptr<i32>> -> tensor<16x1x!tile.ptr<i32>>
    %6 = tile.expand_dims %0 0 : tensor<128xi32> -> tensor<1x128xi32>
    %7 = tile.broadcast %5 : tensor<16x1x!tile.ptr<i32>> -> tensor<16x128x!tile.ptr<i32>>
    %8 = tile.broadcast %6 : tensor<1x128xi32> -> tensor<16x128xi32>
    %9 = tile.addptr %7, %8 : tensor<16x128x!tile.ptr<i32>>, tensor<16x128xi32>
    %10 = tile.load %9 : tensor<16x128x!tile.ptr<i32>> -> tensor<16x128xi32>
    %11 = tile.make_range 0 to 8 : tensor<8xi32>
    %12 = arith.muli %11, %cst_4 : tensor<8xi32>
    %13 = tile.expand_dims %10 1 : tensor<16x128xi32> -> tensor<16x1x128xi32>
    %14 = tile.expand_dims %12 0 : tensor<8xi32> -> tensor<1x8xi32>
    %15 = tile.expand_dims %14 2 : tensor<1x8xi32> -> tensor<1x8x1xi32>
    %16 = tile.broadcast %13 : tensor<16x1x128xi32> -> tensor<16x8x128xi32>
    %17 = tile.broadcast %15 : tensor<1x8x1xi32> -> tensor<16x8x128xi32>
    %18 = arith.shrsi %16, %17 : tensor<16x8x128xi32>
    %19 = arith.andi %18, %cst_3 : tensor<16x8x128xi32>
    %20 = tile.reshape %19 : tensor<16x8x128xi32> -> tensor<128x128xi32>
    %21 = arith.sitofp %20 : tensor<128x128xi32> to tensor<128x128xf16>
    %22 = arith.subf %21, %cst_2 fastmath<contract> : tensor<128x128xf16>
    %23 = tile.make_range 0 to 4 : tensor<4xi32>
    %24 = arith.muli %23, %cst_0 : tensor<4xi32>
    %25 = tile.splat %arg1 : !tile.ptr<f16> -> tensor<4x!tile.ptr<f16>>
    %26 = tile.addptr %25, %24 : tensor<4x!tile.ptr<f16>>, tensor<4xi32>
    %27 = tile.expand_dims %26 1 : tensor<4x!tile.ptr<f16>> -> tensor<4x1x!tile.ptr<f16>>
    %28 = tile.broadcast %27 : tensor<4x1x!tile.ptr<f16>> -> tensor<4x128x!tile.ptr<f16>>
    %29 = tile.broadcast %6 : tensor<1x128xi32> -> tensor<4x128xi32>
    %30 = tile.addptr %28, %29 : tensor<4x128x!tile.ptr<f16>>, tensor<4x128xi32>
    %31 = tile.load %30 : tensor<4x128x!tile.ptr<f16>> -> tensor<4x128xf16>
    %32 = tile.reshape %22 : tensor<128x128xf16> -> tensor<4x32x128xf16>
    %33 = tile.expand_dims %31 1 : tensor<4x128xf16> -> tensor<4x1x128xf16>
    %34 = tile.broadcast %33 : tensor<4x1x128xf16> -> tensor<4x32x128xf16>
    %35 = arith.mulf %32, %34 fastmath<contract> : tensor<4x32x128xf16>
    %36 = tile.reshape %35 : tensor<4x32x128xf16> -> tensor<128x128xf16>
    %37 = arith.muli %0, %cst : tensor<128xi32>
    %38 = tile.splat %arg2 : !tile.ptr<f16> -> tensor<128x!tile.ptr<f16>>
    %39 = tile.addptr %38, %37 : tensor<128x!tile.ptr<f16>>, tensor<128xi32>
    %40 = tile.expand_dims %39 1 : tensor<128x!tile.ptr<f16>> -> tensor<128x1x!tile.ptr<f16>>
    %41 = tile.broadcast %40 : tensor<128x1x!tile.ptr<f16>> -> tensor<128x128x!tile.ptr<f16>>
    %42 = tile.broadcast %6 : tensor<1x128xi32> -> tensor<128x128xi32>
    %43 = tile.addptr %41, %42 : tensor<128x128x!tile.ptr<f16>>, tensor<128x128xi32>
    tile.store %43, %36 : tensor<128x128x!tile.ptr<f16>>, tensor<128x128xf16>
    return
  }
}

// -----

// The low nibbles are the first half of a row, the high ones the second: a thread's eight bytes are two runs of eight
// columns, in registers of the same row.
// CHECK-DAG: #[[H:.*]] = #layout.map<blocked [128, 64] vector 8 warps 4>
// CHECK-DAG: #[[S:.*]] = #layout.map<digits [128, 128] reg (0, 1) (0, 2) (0, 4) (0, 64)
// CHECK-LABEL: @unpack_halves
// CHECK-NOT: kgpu.convert
// CHECK: tile.load {{.*}} -> tensor<128x64xi8, #[[H]]>
// CHECK-NOT: kgpu.convert
// CHECK: tile.store {{.*}} tensor<128x128xf16, #[[S]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @unpack_halves(%arg0: !tile.ptr<i8> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f16> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %cst = arith.constant dense<128> : tensor<128xi32>
    %cst_0 = arith.constant dense<64> : tensor<128xi32>
    %cst_1 = arith.constant dense<8.000000e+00> : tensor<128x128xf16>
    %cst_2 = arith.constant dense<4> : tensor<128x64xi8>
    %cst_3 = arith.constant dense<15> : tensor<128x64xi8>
    %0 = tile.make_range 0 to 128 : tensor<128xi32>
    %1 = arith.muli %0, %cst_0 : tensor<128xi32>
    %2 = tile.splat %arg0 : !tile.ptr<i8> -> tensor<128x!tile.ptr<i8>>
    %3 = tile.addptr %2, %1 : tensor<128x!tile.ptr<i8>>, tensor<128xi32>
    %4 = tile.expand_dims %3 1 : tensor<128x!tile.ptr<i8>> -> tensor<128x1x!tile.ptr<i8>>
    %5 = tile.make_range 0 to 64 : tensor<64xi32>
    %6 = tile.expand_dims %5 0 : tensor<64xi32> -> tensor<1x64xi32>
    %7 = tile.broadcast %4 : tensor<128x1x!tile.ptr<i8>> -> tensor<128x64x!tile.ptr<i8>>
    %8 = tile.broadcast %6 : tensor<1x64xi32> -> tensor<128x64xi32>
    %9 = tile.addptr %7, %8 : tensor<128x64x!tile.ptr<i8>>, tensor<128x64xi32>
    %10 = tile.load %9 : tensor<128x64x!tile.ptr<i8>> -> tensor<128x64xi8>
    %11 = arith.andi %10, %cst_3 : tensor<128x64xi8>
    %12 = arith.shrui %10, %cst_2 : tensor<128x64xi8>
    %13 = tile.join %11, %12 : tensor<128x64xi8> -> tensor<128x64x2xi8>
    %14 = tile.trans %13 [0, 2, 1] : tensor<128x64x2xi8> -> tensor<128x2x64xi8>
    %15 = tile.reshape %14 : tensor<128x2x64xi8> -> tensor<128x128xi8>
    %16 = arith.uitofp %15 : tensor<128x128xi8> to tensor<128x128xf16>
    %17 = arith.subf %16, %cst_1 fastmath<contract> : tensor<128x128xf16>
    %18 = arith.muli %0, %cst : tensor<128xi32>
    %19 = tile.splat %arg1 : !tile.ptr<f16> -> tensor<128x!tile.ptr<f16>>
    %20 = tile.addptr %19, %18 : tensor<128x!tile.ptr<f16>>, tensor<128xi32>
    %21 = tile.expand_dims %20 1 : tensor<128x!tile.ptr<f16>> -> tensor<128x1x!tile.ptr<f16>>
    %22 = tile.expand_dims %0 0 : tensor<128xi32> -> tensor<1x128xi32>
    %23 = tile.broadcast %21 : tensor<128x1x!tile.ptr<f16>> -> tensor<128x128x!tile.ptr<f16>>
    %24 = tile.broadcast %22 : tensor<1x128xi32> -> tensor<128x128xi32>
    %25 = tile.addptr %23, %24 : tensor<128x128x!tile.ptr<f16>>, tensor<128x128xi32>
    tile.store %25, %17 : tensor<128x128x!tile.ptr<f16>>, tensor<128x128xf16>
    return
  }
}

