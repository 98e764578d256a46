// Ops that change the shape: free if one layout follows from the other, otherwise through memory.
// RUN: kiln-opt %s --split-input-file --kiln-lower-exchanges | FileCheck %s

// Across odd sides nothing follows: stored in order, and the same bytes read as the other shape.
// CHECK-LABEL: @reshape
// CHECK-NOT: tile.reshape
// CHECK: %[[M:.*]] = kgpu.alloc : <6x10xf32, #[[ROWS:.*]]>
// CHECK-NEXT: kgpu.local_store %arg0, %[[M]]
// CHECK-NEXT: %[[V:.*]] = kgpu.view %[[M]] offset 0 : <6x10xf32, #[[ROWS]]> -> <15x4xf32, #[[OTHER:.*]]>
// CHECK-NEXT: %[[Y:.*]] = kgpu.local_load %[[V]]
// CHECK-NEXT: return %[[Y]]
#from = #layout.map<blocked [6, 10] vector 2 warps 4>
#to = #layout.map<blocked [15, 4] vector 4 warps 4>
func.func @reshape(%x: tensor<6x10xf32, #from>) -> tensor<15x4xf32, #to> {
  %y = tile.reshape %x : tensor<6x10xf32, #from> -> tensor<15x4xf32, #to>
  return %y : tensor<15x4xf32, #to>
}

// -----

// Exchanging dimensions is free; converting to the requested layout is separate.
// CHECK: #[[FREE:.*]] = #layout.map<blocked [32, 64] order [0, 1] vector 4 warps 4>
// CHECK-LABEL: @transposed
// CHECK: %[[T:.*]] = tile.trans %arg0 [1, 0] : {{.*}} -> tensor<32x64xf32, #[[FREE]]>
// CHECK: kgpu.local_store %[[T]]
// CHECK: kgpu.local_load
#from = #layout.map<blocked [64, 32] vector 4 warps 4>
#to = #layout.map<blocked [32, 64] vector 4 warps 4>
func.func @transposed(%x: tensor<64x32xf32, #from>) -> tensor<32x64xf32, #to> {
  %y = tile.trans %x [1, 0] : tensor<64x32xf32, #from> -> tensor<32x64xf32, #to>
  return %y : tensor<32x64xf32, #to>
}

// -----

// CHECK-LABEL: @follows
// CHECK-NOT: kgpu.
// CHECK: tile.trans
// CHECK-NOT: kgpu.
// CHECK: return
#from = #layout.map<blocked [64, 32] vector 4 warps 4>
#to = #layout.map<blocked [32, 64] order [0, 1] vector 4 warps 4>
func.func @follows(%x: tensor<64x32xf32, #from>) -> tensor<32x64xf32, #to> {
  %y = tile.trans %x [1, 0] : tensor<64x32xf32, #from> -> tensor<32x64xf32, #to>
  return %y : tensor<32x64xf32, #to>
}

// -----

// Halves of odd sides, one after the other.
// CHECK-LABEL: @cat
// CHECK: %[[M:.*]] = kgpu.alloc : <192xf32
// CHECK-NEXT: %[[A:.*]] = kgpu.view %[[M]] offset 0
// CHECK-NEXT: kgpu.local_store %arg0, %[[A]]
// CHECK-NEXT: %[[B:.*]] = kgpu.view %[[M]] offset 96
// CHECK-NEXT: kgpu.local_store %arg1, %[[B]]
// CHECK-NEXT: kgpu.local_load %[[M]]
#half = #layout.map<blocked [96] vector 1 warps 4>
#both = #layout.map<blocked [192] vector 1 warps 4>
func.func @cat(%x: tensor<96xf32, #half>, %y: tensor<96xf32, #half>) -> tensor<192xf32, #both> {
  %z = tile.cat %x, %y 0 : tensor<96xf32, #half>, tensor<96xf32, #half> -> tensor<192xf32, #both>
  return %z : tensor<192xf32, #both>
}
