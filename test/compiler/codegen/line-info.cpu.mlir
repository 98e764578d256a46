// One position per operation: the one in the kernel. An inlined call is shown where the kernel calls it; operations
// without a position belong to the kernel's first line.
// RUN: kiln-opt %s --kiln-to-llvm --kiln-line-info -mlir-print-debuginfo | FileCheck %s
// RUN: %python -m kiln.cli compile %s --to asm --line-info | FileCheck %s --check-prefix=ASM
// RUN: %python -m kiln.cli compile %s --to asm | FileCheck %s --check-prefix=NONE

// CHECK: llvm.mul {{.*}} loc(#[[INLINED:loc[0-9]*]])
// CHECK: llvm.store {{.*}} loc(#[[OWN:loc[0-9]*]])
// CHECK-DAG: emissionKind = LineTablesOnly
// CHECK-DAG: #[[INLINED]] = loc("/home/me/kernel.py":7:5)
// CHECK-DAG: #[[OWN]] = loc("/home/me/kernel.py":9:5)
// ASM: .file {{.*}}"/home/me" "kernel.py"
// ASM: .loc {{[0-9]+}} 7 5
// ASM: .loc {{[0-9]+}} 9 5
// NONE-NOT: .loc
module {
  func.func @kiln_lines(%args: !llvm.ptr, %launch: !llvm.ptr, %begin: i64, %end: i64)
      attributes {kiln.arguments = [], kiln.arguments_bytes = 0, kiln.frame_bytes = 0} {
    %sum = arith.muli %begin, %end : i64 loc(callsite("helper"("/home/me/other.py":3:9 to :17) at "kernel"("/home/me/kernel.py":7:5 to :20)))
    %p = llvm.load %args : !llvm.ptr -> !llvm.ptr loc("/home/me/kernel.py":8:5 to :9)
    llvm.store %sum, %p : i64, !llvm.ptr loc("/home/me/kernel.py":9:5 to :30)
    return loc(unknown)
  } loc("/home/me/kernel.py":5:1)
}
