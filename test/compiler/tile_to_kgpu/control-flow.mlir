// Loops and branches: carried values have one layout inside and outside.
// RUN: kiln-opt %s --split-input-file --kiln-assign-layouts --kiln-verify-layouts | FileCheck %s

// CHECK: #[[L:.*]] = #layout.map<blocked [256] vector 2 warps 4>
// CHECK-LABEL: @whiles
// CHECK-NOT: kgpu.convert
// CHECK: scf.while {{.*}} : ({{.*}}tensor<256xf32, #[[L]]>{{.*}}) ->
// CHECK: scf.if {{.*}} -> (tensor<256xf32, #[[L]]>)
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @whiles(%arg0: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %arg1: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %arg2: i32) attributes {tile.kernel} {
    %cst = arith.constant dense<1.000000e+00> : tensor<256xf32>
    %cst_0 = arith.constant dense<2.000000e+00> : tensor<256xf32>
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<256xf32>
    %c3_i32 = arith.constant 3 : i32
    %c1_i32 = arith.constant 1 : i32
    %c0_i32 = arith.constant 0 : i32
    %0 = tile.make_range 0 to 256 : tensor<256xi32>
    %1 = tile.splat %arg0 : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
    %2 = tile.addptr %1, %0 : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
    %3 = tile.load %2 : tensor<256x!tile.ptr<f32>> -> tensor<256xf32>
    %4 = arith.sitofp %0 : tensor<256xi32> to tensor<256xf32>
    %5:2 = scf.while (%arg3 = %3, %arg4 = %c0_i32) : (tensor<256xf32>, i32) -> (tensor<256xf32>, i32) {
      %10 = arith.cmpi slt, %arg4, %arg2 : i32
      scf.condition(%10) %arg3, %arg4 : tensor<256xf32>, i32
    } do {
    ^bb0(%arg3: tensor<256xf32>, %arg4: i32):
      %10 = arith.mulf %arg3, %cst_0 fastmath<contract> : tensor<256xf32>
      %11 = arith.addf %10, %4 fastmath<contract> : tensor<256xf32>
      %12 = arith.addi %arg4, %c1_i32 : i32
      scf.yield %11, %12 : tensor<256xf32>, i32
    }
    %6 = arith.cmpi sgt, %arg2, %c3_i32 : i32
    %7 = scf.if %6 -> (tensor<256xf32>) {
      %10 = arith.addf %5#0, %cst fastmath<contract> : tensor<256xf32>
      scf.yield %10 : tensor<256xf32>
    } else {
      scf.yield %cst_1 : tensor<256xf32>
    }
    %8 = tile.splat %arg1 : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
    %9 = tile.addptr %8, %0 : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
    tile.store %9, %7 : tensor<256x!tile.ptr<f32>>, tensor<256xf32>
    return
  }
}
