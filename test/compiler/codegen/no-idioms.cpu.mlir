// A loop that clears or copies stays a vector loop: LLVM is told of no library, so no call to memset or memcpy appears.
// RUN: %python -m kiln.cli compile %s --to asm --target cpu-avx2 | FileCheck %s
// CHECK-NOT: call{{.*}}mem
// CHECK-NOT: jmp{{.*}}mem
// CHECK: retq
module {
  func.func @kiln_clear(%args: !llvm.ptr, %launch: !llvm.ptr, %begin: i64, %end: i64)
      attributes {kiln.arguments = [{name = "x", type = "*i8", kind = "pointer", offset = 0, size = 8, align = 8},
                                    {name = "y", type = "*i8", kind = "pointer", offset = 8, size = 8, align = 8}],
                  kiln.arguments_bytes = 16, kiln.frame_bytes = 0} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0 : i8
    %n = arith.index_cast %end : i64 to index
    %p = llvm.load %args : !llvm.ptr -> !llvm.ptr
    %at = llvm.getelementptr %args[8] : (!llvm.ptr) -> !llvm.ptr, i8
    %q = llvm.load %at : !llvm.ptr -> !llvm.ptr
    scf.for %i = %c0 to %n step %c1 {
      %o = arith.index_cast %i : index to i64
      %d = llvm.getelementptr %p[%o] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      llvm.store %zero, %d : i8, !llvm.ptr
    }
    scf.for %i = %c0 to %n step %c1 {
      %o = arith.index_cast %i : index to i64
      %s = llvm.getelementptr %p[%o] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      %d = llvm.getelementptr %q[%o] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      %v = llvm.load %s : !llvm.ptr -> i8
      llvm.store %v, %d : i8, !llvm.ptr
    }
    return
  }
}
