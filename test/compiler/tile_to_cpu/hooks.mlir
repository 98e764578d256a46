// RUN: kiln-opt %s --kiln-tile-to-cpu --canonicalize --cse --mlir-print-local-scope | FileCheck %s
// RUN: kiln-opt %s --kiln-tile-to-cpu=check=bounds --canonicalize --cse | FileCheck %s --check-prefix=BOUNDS

// CHECK-LABEL: func.func @kiln_print
// CHECK-SAME:    kiln.sites = [{hex = true, kind = "print", location = {{\[\[}}"k.py", 3, 8, "helper"], ["k.py", 9, 4, "print"]], message = "v", operands = [{shape = [16], type = "u32"}, {shape = [], type = "fp32"}]}
// CHECK-SAME:    {hex = false, kind = "assert", {{.*}} message = "negative", operands = [{shape = [16], type = "i1"}]}]
// CHECK:         llvm.call %{{.*}}(%arg1, %c0_i32, %{{.*}}, %{{.*}}) : !llvm.ptr, (!llvm.ptr, i32, i64, !llvm.ptr) -> ()
// CHECK:         scf.for %[[I:.*]] = %c0_i64 to %c16_i64 step %c1_i64
// CHECK:           scf.if
// CHECK:             llvm.call %{{.*}}(%arg1, %c1_i32, %{{.*}}, %[[I]]) : !llvm.ptr, (!llvm.ptr, i32, i64, i64) -> ()
func.func @print(%x: !tile.ptr<i32>, %f: f32) attributes {tile.kernel} {
  %r = tile.make_range 0 to 16 : tensor<16xi32>
  %xs = tile.splat %x : !tile.ptr<i32> -> tensor<16x!tile.ptr<i32>>
  %p = tile.addptr %xs, %r : tensor<16x!tile.ptr<i32>>, tensor<16xi32>
  %v = tile.load %p : tensor<16x!tile.ptr<i32>> -> tensor<16xi32>
  tile.print "v" %v, %f : tensor<16xi32>, f32 {hex, isSigned = array<i32: 0, 1>}
      loc(callsite("helper"("k.py":3:8) at "k.py":9:4))
  %zero = arith.constant dense<0> : tensor<16xi32>
  %c = arith.cmpi sge, %v, %zero : tensor<16xi32>
  tile.assert %c, "negative" : tensor<16xi1>
  return
}

// With checks on, every accessed element is reported first, with its coordinate.
// BOUNDS-LABEL: func.func @kiln_checked
// BOUNDS-SAME:    kiln.check = "bounds"
// BOUNDS-SAME:    kind = "load"
// BOUNDS-SAME:    kind = "store"
// BOUNDS:         scf.for %{{.*}} = %c0_i64 to %c16_i64 step %c1_i64
// BOUNDS:           vector.extract %{{.*}} : i1 from vector<16xi1>
// BOUNDS:           scf.if
// BOUNDS:             llvm.call %{{.*}}(%arg1, %c0_i32, %{{.*}}, %{{.*}}, %{{.*}}, %c4_i32, %c0_i32)
// BOUNDS:         llvm.intr.masked.load
// BOUNDS:         llvm.call %{{.*}}(%arg1, %c1_i32, %{{.*}}, %{{.*}}, %{{.*}}, %c4_i32, %c1_i32)
func.func @checked(%x: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
  %r = tile.make_range 0 to 16 : tensor<16xi32>
  %ns = tile.splat %n : i32 -> tensor<16xi32>
  %m = arith.cmpi slt, %r, %ns : tensor<16xi32>
  %xs = tile.splat %x : !tile.ptr<i32> -> tensor<16x!tile.ptr<i32>>
  %p = tile.addptr %xs, %r : tensor<16x!tile.ptr<i32>>, tensor<16xi32>
  %q = tile.addptr %p, %r : tensor<16x!tile.ptr<i32>>, tensor<16xi32>
  %v = tile.load %p mask %m : tensor<16x!tile.ptr<i32>> mask tensor<16xi1> -> tensor<16xi32>
  tile.store %q, %v mask %m : tensor<16x!tile.ptr<i32>>, tensor<16xi32> mask tensor<16xi1>
  return
}
