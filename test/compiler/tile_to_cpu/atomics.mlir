// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize --cse | FileCheck %s

// Atomics are done element by element, masked ones skipped; old values are kept only if they are used.
// CHECK-LABEL: func.func @kiln_add
// CHECK-SAME:    kiln.frame_bytes = 0 : i64
// CHECK:         scf.for %{{.*}} = %c0_i64 to %c64_i64 step %c1_i64
// CHECK:           scf.if
// CHECK:             llvm.atomicrmw fadd %{{.*}}, %{{.*}} acq_rel {alignment = 4 : i64} : !llvm.ptr, f32
func.func @add(%x: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %r = tile.make_range 0 to 64 : tensor<64xi32>
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  %m = arith.cmpi slt, %r, %ns : tensor<64xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %p = tile.addptr %xs, %r : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %v = arith.constant dense<1.0> : tensor<64xf32>
  %old = tile.atomic_rmw fadd acq_rel gpu %p, %v mask %m : tensor<64x!tile.ptr<f32>>, tensor<64xf32> mask tensor<64xi1>
  return
}

// Atomics of 16-bit floats are compare-and-swap loops on integers.
// CHECK-LABEL: func.func @kiln_narrow
// CHECK:         llvm.load %[[P:.*]] atomic monotonic
// CHECK:         scf.while
// CHECK:           arith.addf %{{.*}} : bf16
// CHECK:           llvm.cmpxchg %[[P]], %{{.*}}, %{{.*}} release monotonic
// CHECK:           scf.condition
func.func @narrow(%p: !tile.ptr<bf16>, %v: bf16) attributes {tile.kernel} {
  %old = tile.atomic_rmw fadd release gpu %p, %v : !tile.ptr<bf16>, bf16
  return
}

// CHECK-LABEL: func.func @kiln_cas
// CHECK:         %[[R:.*]] = llvm.cmpxchg %{{.*}}, %{{.*}}, %{{.*}} acquire acquire
// CHECK:         llvm.extractvalue %[[R]][0]
func.func @cas(%p: !tile.ptr<i32>, %a: i32, %b: i32, %o: !tile.ptr<i32>) attributes {tile.kernel} {
  %old = tile.atomic_cas acquire gpu %p, %a, %b : !tile.ptr<i32>, i32
  tile.store %o, %old : !tile.ptr<i32>, i32
  return
}
