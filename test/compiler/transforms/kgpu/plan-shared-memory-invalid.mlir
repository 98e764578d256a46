// More than a block may have: what is required, what there is, which option to change; at the largest tile.
// Before there were clusters, none is advised.
// RUN: kiln-opt %s --kiln-set-target=target=sm_86 --kiln-plan-shared-memory -verify-diagnostics

#t = #layout.map<blocked [32768] vector 4 warps 4>
#m = #layout.map<row_major [32768]>
func.func @too_much() attributes {tile.kernel} {
  %c = arith.constant dense<0.0> : tensor<32768xf32, #t>
  // expected-error @below {{out of bytes of shared memory per block: required 131072, available 101376 (reduce the tile's size)}}
  %a = kgpu.alloc : !kgpu.mem<32768xf32, #m>
  kgpu.local_store %c, %a : tensor<32768xf32, #t>, !kgpu.mem<32768xf32, #m>
  %y = kgpu.local_load %a : !kgpu.mem<32768xf32, #m> -> tensor<32768xf32, #t>
  return
}
