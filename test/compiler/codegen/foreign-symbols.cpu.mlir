// An object that would call an external function is rejected with the symbol's name: nothing resolves it at run time.
// RUN: not %python -m kiln.cli compile %s -o %t.o 2>&1 | FileCheck %s
// CHECK: internal error: the object calls out of itself (fmodf): some operation was not expanded for this target
// CHECK: stage: object
module {
  func.func @kiln_mod(%args: !llvm.ptr, %launch: !llvm.ptr, %begin: i64, %end: i64)
      attributes {kiln.arguments = [], kiln.arguments_bytes = 0, kiln.frame_bytes = 0} {
    %p = llvm.load %args : !llvm.ptr -> !llvm.ptr
    %x = llvm.load %p : !llvm.ptr -> f32
    %y = arith.remf %x, %x : f32
    llvm.store %y, %p : f32, !llvm.ptr
    return
  }
}
