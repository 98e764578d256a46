// What kiln-assign-layouts rejects.
// RUN: kiln-opt %s --split-input-file --verify-diagnostics --kiln-assign-layouts

#l = #layout.map<blocked [64] order [0] vector 1 warps 4>
func.func @twice(%x: tensor<64xf32, #l>) -> tensor<64xf32, #l> {
  // expected-error @+1 {{expected tiles without layouts (because this pass assigns them, once)}}
  %y = arith.addf %x, %x : tensor<64xf32, #l>
  return %y : tensor<64xf32, #l>
}

// -----

func.func private @helper(tensor<64xf32>) -> tensor<64xf32>
func.func @not_inlined(%x: tensor<64xf32>) -> tensor<64xf32> {
  // expected-error @+1 {{has tiles but no rule for their layouts}}
  %y = func.call @helper(%x) : (tensor<64xf32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}

// -----

// 64 rows are those of a single warp group.
#a = #layout.map<swizzled [64, 64] element 2 bytes 128>
#b = #layout.map<swizzled [64, 64] order [0, 1] element 2 bytes 128>
module attributes {kgpu.num_warps = 4 : i32, kgpu.num_groups = 3 : i32} {
  func.func @groups_without_rows(%c: tensor<64x64xf32>) {
    %a = kgpu.alloc : !kgpu.mem<64x64xf16, #a>
    %b = kgpu.alloc : !kgpu.mem<64x64xf16, #b>
    // expected-error @+1 {{expected tiles that its threads can hold as fragments (because the instruction fixes which thread holds which element), got 'tensor<64x64xf32>' for 3 groups of 4 warps}}
    %d = kgpu.warpgroup_mma %a, %b, %c : !kgpu.mem<64x64xf16, #a>, !kgpu.mem<64x64xf16, #b> -> tensor<64x64xf32>
    return
  }
}
