// A program's hints on a loop stay with the loop whatever is done to it: carried values are dropped, carried offsets
// widened, iterations unrolled.
// RUN: kiln-opt %s --kiln-tile-pipeline | FileCheck %s

// CHECK-LABEL: func.func @hints(
// CHECK: scf.for {{.*}}tensor<64xi64>)
// CHECK: } {tile.disallow_acc_multi_buffer, tile.flatten, tile.num_stages = 3 : i32, tile.warp_specialize}
// The remainder of the unrolled loop.
// CHECK: scf.for
// CHECK: } {tile.disallow_acc_multi_buffer, tile.flatten, tile.num_stages = 3 : i32, tile.warp_specialize}
// CHECK-NOT: scf.for
func.func @hints(%p: !tile.ptr<f32>, %n: i32, %m: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64xf32>
  %one = arith.constant dense<1.0> : tensor<64xf32>
  %range = tile.make_range 0 to 64 : tensor<64xi32>
  %ps = tile.splat %p : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %moved = tile.splat %m : i32 -> tensor<64xi32>
  %r:4 = scf.for %i = %c0 to %n step %c1 iter_args(%unused = %zero, %same = %one, %sum = %zero, %offset = %range)
      -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xi32>) : i32 {
    %q = tile.addptr %ps, %offset : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
    %x = tile.load %q : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
    %y = arith.addf %x, %same : tensor<64xf32>
    %next = arith.addf %sum, %y : tensor<64xf32>
    %further = arith.addi %offset, %moved : tensor<64xi32>
    scf.yield %x, %same, %next, %further : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xi32>
  } {tile.num_stages = 3 : i32, tile.flatten, tile.warp_specialize, tile.disallow_acc_multi_buffer,
     tile.unroll = 2 : i32}
  tile.store %ps, %r#2 : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}
