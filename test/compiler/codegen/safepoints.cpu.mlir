// Code checks the safepoint word of its launch before each program instance and in loops that may take long, and
// returns when told to. Loops with few iterations, and loops around them, have no check. A loop that only reads what
// others write reports that it waits.
// RUN: %python -m kiln.cli compile %s --to llvm --target cpu-avx512 | FileCheck %s
module {
  // CHECK-LABEL: define void @kiln_loops
  // CHECK: %[[FIELD:.*]] = getelementptr inbounds i8, ptr %1, i64 48
  // CHECK: %[[WORD:.*]] = load ptr, ptr %[[FIELD]]
  func.func @kiln_loops(%args: !llvm.ptr, %launch: !llvm.ptr, %begin: i64, %end: i64)
      attributes {kiln.arguments = [{name = "x", type = "*i32", kind = "pointer", offset = 0, size = 8, align = 8}],
                  kiln.arguments_bytes = 8, kiln.frame_bytes = 0} {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %few = arith.constant 1000 : index
    %many = arith.constant 1000000000 : index
    %i0 = arith.constant 0 : i32
    %i1 = arith.constant 1 : i32
    %step = arith.constant 1 : i64
    %x = llvm.load %args : !llvm.ptr -> !llvm.ptr
    // The number of instances is unknown.
    // CHECK: load volatile i32, ptr %[[WORD]]
    scf.for %program = %begin to %end step %step : i64 {
      // 1,000 iterations: no check.
      // CHECK-NOT: load volatile i32, ptr %[[WORD]]
      // CHECK: store volatile i32 0
      scf.for %i = %zero to %few step %one {
        llvm.store volatile %i0, %x : i32, !llvm.ptr
      }
      // CHECK: load volatile i32, ptr %[[WORD]]
      // CHECK: store volatile i32 1
      scf.for %i = %zero to %many step %one {
        llvm.store volatile %i1, %x : i32, !llvm.ptr
      }
      // CHECK: load volatile i32, ptr %[[WORD]]
      // CHECK: load volatile i32
      scf.while : () -> () {
        %flag = llvm.load volatile %x : !llvm.ptr -> i32
        %again = arith.cmpi eq, %flag, %i0 : i32
        scf.condition(%again)
      } do {
        scf.yield
      }
    }
    return
  }
  // CHECK-NOT: load volatile i32, ptr %[[WORD]]
  // CHECK: getelementptr inbounds i8, ptr %1, i64 56
  // CHECK: call i32 %{{.*}}(ptr %1, i32 0)
  // CHECK: call i32 %{{.*}}(ptr %1, i32 1)
  // CHECK: call i32 %{{.*}}(ptr %1, i32 0)
  // CHECK: leave:
  // CHECK-NEXT: ret void
}
