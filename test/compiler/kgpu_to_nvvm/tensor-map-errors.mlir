// Tensor maps that the launch cannot encode, or the hardware cannot read.
// RUN: kiln-opt %s --split-input-file --verify-diagnostics --kiln-set-target=target=sm_90a --kiln-kgpu-to-nvvm
// RUN: not kiln-opt %s --split-input-file --kiln-set-target=target=sm_89 --kiln-kgpu-to-nvvm 2>&1 | FileCheck %s --check-prefix=OLD

// OLD: 'kgpu.tensor_map' op expected a machine with a copy engine (because it reads tensor maps), got sm_89
module {
  func.func public @padding(%x: !tile.ptr<f8E5M2>, %m: i64) attributes {tile.kernel} {
    %one = arith.constant 1 : i64
    %d = tile.make_desc %x, shape [%m, %m] strides [%m, %one] {padding = #tile<padding nan>} : !tile.ptr<f8E5M2> -> !tile.desc<tensor<64x64xf8E5M2>>
    // expected-error @below {{expected padding with zeros (because the copy engine has no nan of 8 bits), got nan}}
    %t = kgpu.tensor_map %d box [64, 64] swizzle 64 : !tile.desc<tensor<64x64xf8E5M2>>
    return
  }
}

// -----

module {
  func.func public @widened(%x: !tile.ptr<f16>, %m: i16, %n: i64) attributes {tile.kernel} {
    %one = arith.constant 1 : i64
    %signed = arith.extsi %m : i16 to i32
    %both = arith.extui %signed : i32 to i64
    %d = tile.make_desc %x, shape [%both, %n] strides [%n, %one] : !tile.ptr<f16> -> !tile.desc<tensor<64x64xf16>>
    // expected-error @below {{expected an argument as base, and extents and strides that are all sign- or all zero-extended}}
    %t = kgpu.tensor_map %d box [64, 64] swizzle 128 : !tile.desc<tensor<64x64xf16>>
    return
  }
}
