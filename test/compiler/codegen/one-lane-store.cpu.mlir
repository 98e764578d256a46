// A masked store of one known lane writes that element and not its neighbours, even if the vector was narrowed: LLVM 22
// would store the wide element then (llvm/llvm-project#179489).
// RUN: %python -m kiln.cli compile %s --to asm --target cpu-avx512 | FileCheck %s
// CHECK-LABEL: kiln_narrowed:
// CHECK-NOT: vmov{{(d|ss|q|sd|dqu|ups)}} {{.*}}, {{[0-9]*}}(%r
// CHECK: {{vpextrb|movb}} {{.*}}2(%r
// CHECK: retq
module {
  func.func @kiln_narrowed(%args: !llvm.ptr, %launch: !llvm.ptr, %begin: i64, %end: i64)
      attributes {kiln.arguments = [{name = "x", type = "*i8", kind = "pointer", offset = 0, size = 8, align = 8},
                                    {name = "y", type = "*i32", kind = "pointer", offset = 8, size = 8, align = 8}],
                  kiln.arguments_bytes = 16, kiln.frame_bytes = 0} {
    %mask = arith.constant dense<[false, false, true, false]> : vector<4xi1>
    %x = llvm.load %args : !llvm.ptr -> !llvm.ptr
    %at = llvm.getelementptr %args[8] : (!llvm.ptr) -> !llvm.ptr, i8
    %y = llvm.load %at : !llvm.ptr -> !llvm.ptr
    %wide = llvm.load %y {alignment = 4 : i64} : !llvm.ptr -> vector<4xi32>
    %sum = arith.addi %wide, %wide : vector<4xi32>
    %narrow = arith.trunci %sum : vector<4xi32> to vector<4xi8>
    llvm.intr.masked.store %narrow, %x, %mask {alignment = 1 : i32} : vector<4xi8>, vector<4xi1> into !llvm.ptr
    return
  }
}
