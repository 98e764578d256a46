module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @maps(%x: !tile.ptr<f16>, %m: i32, %s: i64) attributes {tile.kernel, kgpu.persistent} {
    %one = arith.constant 1 : i64
    %rows = arith.extsi %m : i32 to i64
    %d = tile.make_desc %x, shape [%rows, %s] strides [%s, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
    %u = kgpu.tensor_map %d box [32, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
    %n = tile.num_programs x : i32
    %v = arith.sitofp %n : i32 to f16
    tile.store %x, %v : !tile.ptr<f16>, f16
    return
  }
}
