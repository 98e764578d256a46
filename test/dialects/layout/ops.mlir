// Tile ops, arith, math and scf on tensors with a layout: verifiers compare shapes and elements; types keep layouts.
// RUN: kiln-opt %s --cse | kiln-opt | FileCheck %s

#rows = #layout.map<blocked [16, 256] vector 4 warps 4>
#turned = #layout.map<blocked [256, 16] order [0, 1] vector 4 warps 4>
#row = #layout.map<blocked [256] vector 4 warps 1>
#sums = #layout.map<digits [16] reg (4) (8) lane (0) (0) (0) (0) (0) warp (1) (2)>
#pair = #layout.map<digits [16, 2] reg (0, 1) (4, 0) (8, 0) lane (0, 0) (0, 0) (0, 0) (0, 0) (0, 0) warp (1, 0) (2, 0)>

// CHECK-LABEL: func.func @compute
func.func @compute(%p: tensor<16x256x!tile.ptr<f32>, #rows>, %n: i32) -> tensor<16x256xf32, #rows> {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %c = arith.constant dense<1.0> : tensor<16x256xf32, #rows>
  // CHECK: tile.load %{{.*}} : tensor<16x256x!tile.ptr<f32>, #[[ROWS:blocked[0-9]*]]> -> tensor<16x256xf32, #[[ROWS]]>
  %x = tile.load %p : tensor<16x256x!tile.ptr<f32>, #rows> -> tensor<16x256xf32, #rows>
  // CHECK: arith.cmpf olt, {{.*}} : tensor<16x256xf32, #[[ROWS]]>
  // CHECK: arith.select {{.*}} : tensor<16x256xi1, #[[ROWS]]>, tensor<16x256xf32, #[[ROWS]]>
  %less = arith.cmpf olt, %x, %c : tensor<16x256xf32, #rows>
  %least = arith.select %less, %x, %c : tensor<16x256xi1, #rows>, tensor<16x256xf32, #rows>
  // CHECK: scf.for {{.*}} -> (tensor<16x256xf32, #[[ROWS]]>)
  %loop = scf.for %i = %zero to %n step %one iter_args(%y = %least) -> (tensor<16x256xf32, #rows>) : i32 {
    %z = math.exp %y : tensor<16x256xf32, #rows>
    scf.yield %z : tensor<16x256xf32, #rows>
  }
  tile.store %p, %loop : tensor<16x256x!tile.ptr<f32>, #rows>, tensor<16x256xf32, #rows>
  return %loop : tensor<16x256xf32, #rows>
}

// Every result shape may have its own layout.
// CHECK-LABEL: func.func @shapes
func.func @shapes(%x: tensor<16x256xf32, #rows>, %p: !tile.ptr<f32>) -> tensor<16xf32, #sums> {
  // CHECK: tile.make_range 0 to 256 : tensor<256xi32, #[[ROW:blocked[0-9]*]]>
  %r = tile.make_range 0 to 256 : tensor<256xi32, #row>
  // CHECK: tile.splat %{{.*}} : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #[[ROW]]>
  %s = tile.splat %p : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #row>
  %a = tile.addptr %s, %r : tensor<256x!tile.ptr<f32>, #row>, tensor<256xi32, #row>
  %v = tile.load %a : tensor<256x!tile.ptr<f32>, #row> -> tensor<256xf32, #row>
  tile.store %a, %v : tensor<256x!tile.ptr<f32>, #row>, tensor<256xf32, #row>
  // CHECK: tile.trans %{{.*}} [1, 0] : tensor<16x256xf32, #{{.*}}> -> tensor<256x16xf32, #{{.*}}>
  %t = tile.trans %x [1, 0] : tensor<16x256xf32, #rows> -> tensor<256x16xf32, #turned>
  // CHECK: tile.reduce
  // CHECK: (tensor<256x16xf32, #{{.*}}>) -> tensor<16xf32, #[[SUMS:digits[0-9]*]]>
  %sum = tile.reduce(%t) axis 0 {
  ^bb0(%e: f32, %f: f32):
    %g = arith.addf %e, %f : f32
    tile.yield %g : f32
  } : (tensor<256x16xf32, #turned>) -> tensor<16xf32, #sums>
  // CHECK: tile.join %{{.*}} : tensor<16xf32, #[[SUMS]]> -> tensor<16x2xf32, #{{.*}}>
  %j = tile.join %sum, %sum : tensor<16xf32, #sums> -> tensor<16x2xf32, #pair>
  // CHECK: tile.split %{{.*}} : tensor<16x2xf32, #{{.*}}> -> tensor<16xf32, #[[SUMS]]>
  %h:2 = tile.split %j : tensor<16x2xf32, #pair> -> tensor<16xf32, #sums>
  return %h#0 : tensor<16xf32, #sums>
}
