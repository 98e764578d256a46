// Every function carries the target's processor and vector width (otherwise LLVM falls back to the baseline). The
// entry's argument block is known to be read only; no function unwinds; everything but entries is internal and inlined.
// RUN: %python -m kiln.cli compile %s --to llvm --target cpu-avx512 | FileCheck %s
// RUN: %python -m kiln.cli compile %s --to asm --target cpu-avx512 | FileCheck %s --check-prefix=ZMM
// RUN: %python -m kiln.cli compile %s --to asm --target cpu-avx2 | FileCheck %s --check-prefix=YMM
// RUN: %python -m kiln.cli compile %s --to asm --target cpu-sse | FileCheck %s --check-prefix=XMM

// CHECK: ; kiln.metadata: {"abi":2,
// CHECK: target triple = "x86_64-unknown-linux-gnu"
// CHECK: define void @kiln_axpy(ptr {{.*}}noalias {{.*}}readonly {{.*}}%0, ptr noalias {{.*}}dereferenceable(64) %1, i64 {{.*}}%2, i64 {{.*}}%3){{.*}} #[[ATTRS:[0-9]+]]
// CHECK-NOT: define {{.*}}@scale
// CHECK: attributes #[[ATTRS]] = { {{.*}}nounwind{{.*}}"prefer-vector-width"="512" "target-cpu"="x86-64-v4"

// With fma the flagged product and sum are fused; the unflagged pair is not.
// ZMM: vfmadd{{.*}}zmm
// ZMM: vmulps{{.*}}zmm
// ZMM: vaddps{{.*}}zmm
// YMM-NOT: zmm
// YMM: vfmadd{{.*}}ymm
// XMM-NOT: {{ymm|zmm|fma}}
// XMM: mulps
module {
  func.func private @scale(%x: vector<16xf32>, %y: vector<16xf32>) -> vector<16xf32> {
    %m = arith.mulf %x, %y fastmath<contract> : vector<16xf32>
    %s = arith.addf %m, %y fastmath<contract> : vector<16xf32>
    return %s : vector<16xf32>
  }
  func.func @kiln_axpy(%args: !llvm.ptr, %launch: !llvm.ptr, %begin: i64, %end: i64)
      attributes {kiln.arguments = [{name = "x", type = "*fp32", kind = "pointer", offset = 0, size = 8, align = 8}],
                  kiln.arguments_bytes = 8, kiln.frame_bytes = 0} {
    %p = llvm.load %args : !llvm.ptr -> !llvm.ptr
    %x = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
    %q = llvm.getelementptr %p[%begin] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %y = llvm.load %q {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
    %s = func.call @scale(%x, %y) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
    llvm.store %s, %p {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
    %m = arith.mulf %s, %x : vector<16xf32>
    %a = arith.addf %m, %y : vector<16xf32>
    llvm.store %a, %q {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
    return
  }
}
