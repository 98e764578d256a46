// RUN: kiln-opt %s --kiln-lower-block-pointers --verify-diagnostics

// expected-error @below {{expected no block pointer in the signature (because calls are inlined first), got}}
func.func @argument(%b: !tile.block_ptr<tensor<32xf32>>) {
  return
}
