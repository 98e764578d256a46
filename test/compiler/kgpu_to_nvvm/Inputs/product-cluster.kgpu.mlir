// The same in a cluster of two with tiles of 256x256: each block loads its own rows of the left operand, and half of
// the right one for both.
#swizzled = #layout.map<digits [256, 64] cta (128, 0) offset (0, 1) (0, 2) (0, 4) (0, 8) (0, 16) (0, 32) (1, 8) (2, 16) (4, 32) (8, 0) (16, 0) (32, 0) (64, 0)>
#swizzled1 = #layout.map<digits [256, 64] cta (0, 0) offset (0, 1) (0, 2) (0, 4) (0, 8) (0, 16) (0, 32) (1, 8) (2, 16) (4, 32) (8, 0) (16, 0) (32, 0) (64, 0) (128, 0)>
#swizzled2 = #layout.map<digits [64, 256] cta (0, 0) offset (1, 0) (2, 0) (4, 0) (8, 0) (16, 0) (32, 0) (8, 1) (16, 2) (32, 4) (0, 8) (0, 16) (0, 32) (0, 64) (0, 128)>
#swizzled3 = #layout.map<digits [256, 256] cta (128, 0) offset (0, 1) (0, 2) (0, 4) (0, 8) (0, 16) (0, 32) (1, 8) (2, 16) (4, 32) (8, 0) (16, 0) (32, 0) (64, 0) (0, 64) (0, 128)>
#wgmma_acc = #layout.map<digits [256, 256] reg (0, 1) (8, 0) (0, 8) (0, 16) (0, 32) (0, 64) (0, 128) lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0) warp (16, 0) (32, 0) group (64, 0) cta (128, 0)>
module attributes {kgpu.cluster = 2 : i32, kgpu.num_warps = 8 : i32} {
  func.func @product(%a: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %c: !tile.ptr<f16> {tile.disjoint, tile.divisibility = 16 : i64}, %m: i32 {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}, %k: i32 {tile.divisibility = 16 : i64}) attributes {kgpu.persistent, kgpu.shared_bytes = 214016 : i64, tile.kernel} {
    %c1_i64 = arith.constant 1 : i64
    %0 = arith.extsi %m : i32 to i64
    %1 = arith.extsi %k : i32 to i64
    %2 = tile.make_desc %a, shape[%0, %1] strides[%1, %c1_i64] : <f16> -> <tensor<256x64xf16>>
    %3 = arith.extsi %n : i32 to i64
    %4 = tile.make_desc %b, shape[%3, %1] strides[%1, %c1_i64] : <f16> -> <tensor<256x64xf16>>
    %5 = tile.make_desc %c, shape[%0, %3] strides[%3, %c1_i64] : <f16> -> <tensor<256x256xf16>>
    %6 = kgpu.tensor_map %2 box [128, 64] swizzle 128 : <tensor<256x64xf16>>
    %7 = kgpu.tensor_map %4 box [128, 64] swizzle 128 : <tensor<256x64xf16>>
    %8 = kgpu.tensor_map %5 box [128, 64] swizzle 128 : <tensor<256x256xf16>>
    %9 = kgpu.channel  bytes fillers 1 readers 8 {offset = 0 : i64} : <3 x (!kgpu.mem<256x64xf16, #swizzled>, !kgpu.mem<256x64xf16, #swizzled1>)>
    %10 = tile.num_programs  x : i32
    %11 = tile.num_programs  y : i32
    %12 = tile.num_programs  z : i32
    %13 = arith.muli %10, %11 : i32
    %14 = arith.muli %13, %12 : i32
    %15 = kgpu.first_program : i32
    %16 = kgpu.program_step : i32
    kgpu.roles @load warps 1 registers 40 {
      %c256_i32 = arith.constant 256 : i32
      %c128_i32 = arith.constant 128 : i32
      %c64_i32 = arith.constant 64 : i32
      %c0_i32 = arith.constant 0 : i32
      %17 = kgpu.cursor : <3>
      %18 = scf.for %arg6 = %15 to %14 step %16 iter_args(%arg7 = %17) -> (!kgpu.cursor<3>)  : i32 {
        %19 = arith.remui %arg6, %10 : i32
        %20 = arith.divsi %n, %c256_i32 : i32
        %21 = arith.divsi %19, %20 : i32
        %22 = arith.remsi %19, %20 : i32
        %23 = arith.muli %21, %c256_i32 : i32
        %24 = arith.muli %22, %c256_i32 : i32
        %25 = scf.for %arg8 = %c0_i32 to %k step %c64_i32 iter_args(%arg9 = %arg7) -> (!kgpu.cursor<3>)  : i32 {
          %26:2 = kgpu.acquire %9[%arg9] : <3 x (!kgpu.mem<256x64xf16, #swizzled>, !kgpu.mem<256x64xf16, #swizzled1>)> -> !kgpu.mem<256x64xf16, #swizzled>, !kgpu.mem<256x64xf16, #swizzled1>
          kgpu.copy_in %6[%23, %arg8] to %26#0 of %9[%arg9] : <256x64xf16, #swizzled>, <3 x (!kgpu.mem<256x64xf16, #swizzled>, !kgpu.mem<256x64xf16, #swizzled1>)>
          kgpu.copy_in %7[%24, %arg8] to %26#1 of %9[%arg9] : <256x64xf16, #swizzled1>, <3 x (!kgpu.mem<256x64xf16, #swizzled>, !kgpu.mem<256x64xf16, #swizzled1>)>
          kgpu.commit %9[%arg9] : <3 x (!kgpu.mem<256x64xf16, #swizzled>, !kgpu.mem<256x64xf16, #swizzled1>)>
          %27 = kgpu.advance %arg9 : <3>
          scf.yield %27 : !kgpu.cursor<3>
        }
        scf.yield %25 : !kgpu.cursor<3>
      }
      kgpu.end_role
    } @multiply groups 2 warps 4 registers 232 {
      %cst = arith.constant dense<0.000000e+00> : tensor<256x256xf32, #wgmma_acc>
      %c256_i32 = arith.constant 256 : i32
      %c128_i32 = arith.constant 128 : i32
      %c64_i32 = arith.constant 64 : i32
      %c0_i32 = arith.constant 0 : i32
      %17 = kgpu.cursor : <3>
      %18 = scf.for %arg6 = %15 to %14 step %16 iter_args(%arg7 = %17) -> (!kgpu.cursor<3>)  : i32 {
        %19 = arith.remui %arg6, %10 : i32
        %20 = arith.divsi %n, %c256_i32 : i32
        %21 = arith.divsi %19, %20 : i32
        %22 = arith.remsi %19, %20 : i32
        %23 = arith.muli %21, %c256_i32 : i32
        %24 = arith.muli %22, %c256_i32 : i32
        %25 = arith.cmpi sgt, %k, %c0_i32 : i32
        %26:2 = scf.if %25 -> (tensor<256x256xf32, #wgmma_acc>, !kgpu.cursor<3>) {
          %29:3 = scf.for %arg8 = %c0_i32 to %k step %c64_i32 iter_args(%arg9 = %cst, %arg10 = %arg7, %arg11 = %arg7) -> (tensor<256x256xf32, #wgmma_acc>, !kgpu.cursor<3>, !kgpu.cursor<3>)  : i32 {
            %31:2 = kgpu.receive %9[%arg10] : <3 x (!kgpu.mem<256x64xf16, #swizzled>, !kgpu.mem<256x64xf16, #swizzled1>)> -> !kgpu.mem<256x64xf16, #swizzled>, !kgpu.mem<256x64xf16, #swizzled1>
            %32 = kgpu.trans %31#1 [1, 0] : <256x64xf16, #swizzled1> -> <64x256xf16, #swizzled2>
            %33 = kgpu.warpgroup_mma %31#0, %32, %arg9 : !kgpu.mem<256x64xf16, #swizzled>, <64x256xf16, #swizzled2> -> tensor<256x256xf32, #wgmma_acc>
            %34 = kgpu.mma_wait %33 pending 1 : tensor<256x256xf32, #wgmma_acc>
            %35 = arith.cmpi ne, %arg8, %c0_i32 : i32
            kgpu.release %9[%arg11] when %35 : <3 x (!kgpu.mem<256x64xf16, #swizzled>, !kgpu.mem<256x64xf16, #swizzled1>)>
            %36 = kgpu.advance %arg10 : <3>
            scf.yield %34, %36, %arg10 : tensor<256x256xf32, #wgmma_acc>, !kgpu.cursor<3>, !kgpu.cursor<3>
          }
          %30 = kgpu.mma_wait %29#0 pending 0 : tensor<256x256xf32, #wgmma_acc>
          kgpu.release %9[%29#2] : <3 x (!kgpu.mem<256x64xf16, #swizzled>, !kgpu.mem<256x64xf16, #swizzled1>)>
          scf.yield %30, %29#1 : tensor<256x256xf32, #wgmma_acc>, !kgpu.cursor<3>
        } else {
          scf.yield %cst, %arg7 : tensor<256x256xf32, #wgmma_acc>, !kgpu.cursor<3>
        }
        %27 = arith.truncf %26#0 : tensor<256x256xf32, #wgmma_acc> to tensor<256x256xf16, #wgmma_acc>
        %28 = kgpu.alloc {offset = 148480 : i64} : <256x256xf16, #swizzled3>
        kgpu.copy_out_wait read 0
        kgpu.barrier  role
        kgpu.local_store %27, %28 : tensor<256x256xf16, #wgmma_acc>, <256x256xf16, #swizzled3>
        kgpu.fence_async
        kgpu.barrier  role
        kgpu.copy_out %28 to %8[%23, %24] : <256x256xf16, #swizzled3>
        scf.yield %26#1 : !kgpu.cursor<3>
      }
      kgpu.copy_out_wait 0
      kgpu.end_role
    }
    return
  }
}
