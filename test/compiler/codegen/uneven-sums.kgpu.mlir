// Sixteen or more sums of a loop's counter and a loaded value that differ only by constants become one sum, frozen, plus
// each constant: loop strength reduction would try all combinations of their terms, and does not look beyond a frozen
// value. Fifteen sums stay as they are, and so do those of a loop that contains another, and sums that grow by the same
// step in each turn, unless they are only converted to floating point or compared.
// DEFINE: %{kiln} = %python -m kiln.cli compile --target sm_90a --to llvm
// RUN: %{kiln} %s | FileCheck %s
// RUN: sed 's/512/480/g' %s > %t.few.kgpu.mlir
// RUN: %{kiln} %t.few.kgpu.mlir | FileCheck %s --check-prefix=FEW
// RUN: sed 's/subi %vs, %keys/addi %is, %range/' %s > %t.even.kgpu.mlir
// RUN: %{kiln} %t.even.kgpu.mlir | FileCheck %s --check-prefix=EVEN
// RUN: sed -e 's|// float: ||' -e 's/, %distances :/, %bits :/' %t.even.kgpu.mlir > %t.float.kgpu.mlir
// RUN: %{kiln} %t.float.kgpu.mlir | FileCheck %s --check-prefix=FLOAT
// RUN: sed -e 's|// compared: ||' -e 's/, %distances :/, %bits :/' %t.even.kgpu.mlir > %t.compared.kgpu.mlir
// RUN: %{kiln} %t.compared.kgpu.mlir | FileCheck %s --check-prefix=COMPARED
// RUN: sed 's|// inner: ||' %s > %t.outer.kgpu.mlir
// RUN: %{kiln} %t.outer.kgpu.mlir | FileCheck %s --check-prefix=OUTER

// CHECK: %[[I:[0-9]+]] = phi i32 [ 0,
// CHECK: %[[V:[0-9]+]] = load i32
// CHECK-NEXT: %[[KEY:.*]] = sub i32 %{{.*}}, %
// CHECK-NEXT: %[[FIRST:[0-9]+]] = add i32 %[[KEY]], %[[V]]
// CHECK-NEXT: %[[BASE:[0-9]+]] = freeze i32 %[[FIRST]]
// CHECK-NEXT: %[[SECOND:[0-9]+]] = add i32 %[[BASE]], -32
// CHECK-NEXT: add i32 %[[BASE]], -64
// CHECK-COUNT-12: add i32 %[[BASE]], -
// CHECK-NEXT: %[[LAST:[0-9]+]] = add i32 %[[BASE]], -480
// CHECK-NEXT: shl i32 %[[I]], 9
// CHECK: store i32 %[[BASE]], ptr
// CHECK-NEXT: store i32 %[[SECOND]], ptr
// CHECK: store i32 %[[LAST]], ptr
// CHECK-NOT: store

// FEW-NOT: freeze
// FEW: %[[V:[0-9]+]] = load i32
// FEW-COUNT-15: add i32 %{{[^,]+}}, %[[V]]
// FEW-NOT: freeze

// EVEN-NOT: freeze
// EVEN: %[[I:[0-9]+]] = phi i32
// EVEN-COUNT-16: add nuw i32 %[[I]], %
// EVEN-NOT: freeze

// FLOAT: %[[I:[0-9]+]] = phi i32
// FLOAT: %[[FIRST:[0-9]+]] = add nuw i32 %[[I]], %
// FLOAT-NEXT: %[[BASE:[0-9]+]] = freeze i32 %[[FIRST]]
// FLOAT-NEXT: %[[SECOND:[0-9]+]] = add i32 %[[BASE]], 32
// FLOAT-COUNT-14: add i32 %[[BASE]], {{[0-9]+}}
// FLOAT: sitofp i32 %[[BASE]] to float
// FLOAT-NEXT: sitofp i32 %[[SECOND]] to float

// COMPARED: %[[I:[0-9]+]] = phi i32
// COMPARED: %[[FIRST:[0-9]+]] = add nuw i32 %[[I]], %
// COMPARED-NEXT: %[[BASE:[0-9]+]] = freeze i32 %[[FIRST]]
// COMPARED-NEXT: %[[SECOND:[0-9]+]] = add i32 %[[BASE]], 32
// COMPARED-COUNT-14: add i32 %[[BASE]], {{[0-9]+}}
// COMPARED: icmp ult i32 %[[BASE]], %
// COMPARED-NEXT: icmp ult i32 %[[SECOND]], %

// OUTER-NOT: freeze
// OUTER: %[[V:[0-9]+]] = load i32
// OUTER-COUNT-16: add i32 %{{[^,]+}}, %[[V]]
// OUTER-NOT: freeze

#b = #layout.map<blocked [512] order [0] vector 1 warps 1>

module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @distances(%x: !tile.ptr<i32>, %y: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c512 = arith.constant 512 : i32
    %range = tile.make_range 0 to 512 : tensor<512xi32, #b>
    scf.for %i = %c0 to %n step %c1 : i32 {
      %from = tile.addptr %x, %i : !tile.ptr<i32>, i32
      %v = tile.load %from : !tile.ptr<i32> -> i32
      %is = tile.splat %i : i32 -> tensor<512xi32, #b>
      %vs = tile.splat %v : i32 -> tensor<512xi32, #b>
      %keys = arith.addi %is, %range : tensor<512xi32, #b>
      %distances = arith.subi %vs, %keys : tensor<512xi32, #b>
      // float: %floats = arith.sitofp %distances : tensor<512xi32, #b> to tensor<512xf32, #b>
      // float: %bits = arith.bitcast %floats : tensor<512xf32, #b> to tensor<512xi32, #b>
      // compared: %ns = tile.splat %n : i32 -> tensor<512xi32, #b>
      // compared: %less = arith.cmpi ult, %distances, %ns : tensor<512xi32, #b>
      // compared: %bits = arith.extui %less : tensor<512xi1, #b> to tensor<512xi32, #b>
      %row = arith.muli %i, %c512 : i32
      %base = tile.addptr %y, %row : !tile.ptr<i32>, i32
      %bases = tile.splat %base : !tile.ptr<i32> -> tensor<512x!tile.ptr<i32>, #b>
      %to = tile.addptr %bases, %range : tensor<512x!tile.ptr<i32>, #b>, tensor<512xi32, #b>
      tile.store %to, %distances : tensor<512x!tile.ptr<i32>, #b>, tensor<512xi32, #b>
      // inner: scf.for %j = %c0 to %v step %c1 : i32 { tile.store %from, %j : !tile.ptr<i32>, i32 }
    }
    return
  }
}
