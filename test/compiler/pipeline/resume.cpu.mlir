// Compilation can resume from each stage's file: starting from the dumped LLVM IR or assembly gives the same object and
// metadata, byte for byte.
// RUN: rm -rf %t && mkdir -p %t
// RUN: %python -m kiln.cli compile %s --target cpu-avx2 -o %t/direct.o
// RUN: %python -m kiln.cli compile %s --target cpu-avx2 --to cpu -o %t/a.cpu.mlir
// RUN: %python -m kiln.cli compile %t/a.cpu.mlir --to llvm -o %t/a.ll
// RUN: %python -m kiln.cli compile %t/a.ll --to asm -o %t/a.s
// RUN: %python -m kiln.cli compile %t/a.s -o %t/resumed.o
// RUN: cmp %t/direct.o %t/resumed.o
// RUN: cmp %t/direct.json %t/resumed.json
// RUN: FileCheck %s --input-file=%t/direct.json --check-prefix=JSON
// RUN: llvm-nm %t/direct.o | FileCheck %s --check-prefix=NM
// RUN: not %python -m kiln.cli compile %t/a.s --target cpu-sse -o %t/x.o 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not %python -m kiln.cli compile %t/a.s --to llvm 2>&1 | FileCheck %s --check-prefix=BACK
// RUN: env KILN_DUMP=%t/dump %python -m kiln.cli compile %s --target cpu-avx2 -o %t/dumped.o
// RUN: cmp %t/direct.o %t/dumped.o
// RUN: ls %t/dump | FileCheck %s --check-prefix=DUMP

// JSON: "abi": 2
// JSON: "name": "n"
// JSON: "type": "i32"
// JSON: "arguments_bytes": 8
// JSON: "check": "none"
// JSON: "frame_bytes": 64
// JSON: "name": "resume"
// JSON: "hex": true
// JSON: "kind": "print"
// JSON: "kernel.py"
// JSON: "message": "n"
// JSON: "symbol": "kiln_resume"
// JSON: "name": "cpu-avx2"
// JSON: "llvm": "22.
// NM: {{^[0-9a-f]+}} T kiln_resume
// NM-NOT: U
// OTHER: expected target cpu-avx2 (because the text was made for it), got cpu-sse
// BACK: expected a stage from asm onwards (because the input is of that stage), got llvm
// DUMP: 001.resume.2.cpu.mlir
// DUMP-NEXT: 001.resume.3.ll
// DUMP-NEXT: 001.resume.4.s
// DUMP-NEXT: 001.resume.5.json
// DUMP-NEXT: 001.resume.5.o
module {
  func.func @kiln_resume(%args: !llvm.ptr, %launch: !llvm.ptr, %begin: i64, %end: i64)
      attributes {kiln.arguments = [{name = "n", type = "i32", kind = "scalar", offset = 0, size = 4, align = 4}],
                  kiln.arguments_bytes = 8, kiln.frame_bytes = 64,
                  kiln.sites = [{kind = "print", message = "n", location = [["kernel.py", 3, 8, "kernel"]],
                                 operands = [{type = "i32", shape = array<i64>}], hex = true}]} {
    %n = llvm.load %args : !llvm.ptr -> i32
    %at = llvm.getelementptr %launch[16] : (!llvm.ptr) -> !llvm.ptr, i8
    %frame = llvm.load %at : !llvm.ptr -> !llvm.ptr
    %v = vector.broadcast %n : i32 to vector<16xi32>
    llvm.store %v, %frame {alignment = 64 : i64} : vector<16xi32>, !llvm.ptr
    return
  }
}
