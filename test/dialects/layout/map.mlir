// The layout attribute as text: constructor forms are kept or recognised, other layouts are printed as digits, aliases
// name the kind.
// RUN: kiln-opt %s | FileCheck %s
// RUN: kiln-opt %s | kiln-opt | FileCheck %s
// RUN: kiln-opt %s --mlir-print-op-generic | kiln-opt | FileCheck %s

// CHECK-DAG: #[[ROWS:blocked[0-9]*]] = #layout.map<blocked [4096] vector 4 warps 4>
// CHECK-DAG: #[[COLUMNS:blocked[0-9]*]] = #layout.map<blocked [64, 32] order [0, 1] vector 8 warps 8>
// CHECK-DAG: #[[CLUSTER:blocked[0-9]*]] = #layout.map<blocked [65536] vector 4 warps 8 ctas 4 split 0>
// CHECK-DAG: #[[ACC:wgmma_acc[0-9]*]] = #layout.map<wgmma_acc [192, 176] groups 3>
// CHECK-DAG: #[[SMALL:mma_acc[0-9]*]] = #layout.map<mma_acc [64, 64] warps 2x2>
// CHECK-DAG: #[[ONES:replicated[0-9]*]] = #layout.map<replicated [8] warps 4>
// CHECK-DAG: #[[MEMORY:swizzled[0-9]*]] = #layout.map<swizzled [64, 64] element 2 bytes 128>
// CHECK-DAG: #[[OTHER:digits[0-9]*]] = #layout.map<digits [12] reg 3*(4) lane (2) (1) (3) (0) (0) warp (0) (0)>

// CHECK: @rows(tensor<4096xf32, #[[ROWS]]>)
func.func private @rows(tensor<4096xf32, #layout.map<blocked [4096] vector 4 warps 4>>)

// Defaults are not printed, a form is recognised from digits, and lanes or warps that repeat are printed.
// CHECK: @found(tensor<64x32xf16, #[[COLUMNS]]>, tensor<8xi1, #[[ONES]]>)
func.func private @found(
  tensor<64x32xf16, #layout.map<digits [64, 32] reg (1, 0) (2, 0) (4, 0)
    lane (8, 0) (16, 0) (32, 0) (0, 1) (0, 2) warp (0, 4) (0, 8) (0, 16)>>,
  tensor<8xi1, #layout.map<digits [8] reg (1) (2) (4) lane (0) (0) (0) (0) (0) warp (0) (0)>>)

// CHECK: @cluster(tensor<65536xbf16, #[[CLUSTER]]>)
func.func private @cluster(tensor<65536xbf16, #layout.map<blocked [65536] order [0] vector 4 warps 8 ctas 4 split 0>>)

// CHECK: @fragments(tensor<192x176xf32, #[[ACC]]>, tensor<64x64xf32, #[[SMALL]]>)
func.func private @fragments(tensor<192x176xf32, #layout.map<wgmma_acc [192, 176] groups 3>>,
                             tensor<64x64xf32, #layout.map<mma_acc [64, 64] warps 2x2>>)

// CHECK: @digits(tensor<12x!tile.ptr<f32>, #[[OTHER]]>)
func.func private @digits(
  tensor<12x!tile.ptr<f32>, #layout.map<digits [12] reg 3*(4) lane (2) (1) (3) (0) (0) warp (0) (0)>>)

// As an attribute of anything: memory too.
// CHECK: @memory() attributes {form = #[[MEMORY]]}
func.func private @memory() attributes {form = #layout.map<swizzled [64, 64] element 2 bytes 128>}
