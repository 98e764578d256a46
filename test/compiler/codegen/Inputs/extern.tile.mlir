// A kernel that calls NAME.
module {
  func.func public @extern(%x: !tile.ptr<f32> {tile.name = "x", tile.type = "*fp32"}) attributes {tile.kernel} {
    %0 = tile.make_range 0 to 128 : tensor<128xi32>
    %1 = tile.splat %x : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
    %2 = tile.addptr %1, %0 : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
    %3 = tile.load %2 : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
    %4 = tile.extern_call "NAME" from "libdevice"(%3) {isPure} : (tensor<128xf32>) -> tensor<128xf32>
    tile.store %2, %4 : tensor<128x!tile.ptr<f32>>, tensor<128xf32>
    return
  }
}
