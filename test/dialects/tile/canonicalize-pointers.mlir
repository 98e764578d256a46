// Pointers and hints: zero steps vanish, uniform steps move to the scalar, casts collapse.
// RUN: kiln-opt %s -canonicalize | FileCheck %s

// CHECK-LABEL: @addptr_zero(
// CHECK-SAME: %[[P:.*]]: tensor<8x!tile.ptr<f32>>
// CHECK-NEXT: return %[[P]]
func.func @addptr_zero(%p: tensor<8x!tile.ptr<f32>>) -> tensor<8x!tile.ptr<f32>> {
  %c = arith.constant dense<0> : tensor<8xi64>
  %q = tile.addptr %p, %c : tensor<8x!tile.ptr<f32>>, tensor<8xi64>
  return %q : tensor<8x!tile.ptr<f32>>
}

// CHECK-LABEL: @addptr_splat_zero(
// CHECK-SAME: %[[P:.*]]: tensor<8x!tile.ptr<f32>>
// CHECK-NEXT: return %[[P]]
func.func @addptr_splat_zero(%p: tensor<8x!tile.ptr<f32>>) -> tensor<8x!tile.ptr<f32>> {
  %c = arith.constant 0 : i32
  %o = tile.splat %c : i32 -> tensor<8xi32>
  %q = tile.addptr %p, %o : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  return %q : tensor<8x!tile.ptr<f32>>
}

// CHECK-LABEL: @addptr_of_splats(
// CHECK-SAME: %[[P:.*]]: !tile.ptr<f32>, %[[O:.*]]: i32, %[[X:.*]]: tensor<8xi32>
// CHECK-NEXT: %[[Q:.*]] = tile.addptr %[[P]], %[[O]] : !tile.ptr<f32>, i32
// CHECK-NEXT: %[[S:.*]] = tile.splat %[[Q]]
// CHECK-NEXT: %[[R:.*]] = tile.addptr %[[S]], %[[X]]
// CHECK-NEXT: return %[[R]]
func.func @addptr_of_splats(%p: !tile.ptr<f32>, %o: i32, %x: tensor<8xi32>) -> tensor<8x!tile.ptr<f32>> {
  %ps = tile.splat %p : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %os = tile.splat %o : i32 -> tensor<8xi32>
  %q = tile.addptr %ps, %os : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %r = tile.addptr %q, %x : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  return %r : tensor<8x!tile.ptr<f32>>
}

// CHECK-LABEL: @addptr_uniform_constant(
// CHECK-SAME: %[[P:.*]]: !tile.ptr<f32>
// CHECK-NEXT: %[[C:.*]] = arith.constant 7 : i32
// CHECK-NEXT: %[[Q:.*]] = tile.addptr %[[P]], %[[C]] : !tile.ptr<f32>, i32
// CHECK-NEXT: tile.splat %[[Q]]
func.func @addptr_uniform_constant(%p: !tile.ptr<f32>) -> tensor<8x!tile.ptr<f32>> {
  %ps = tile.splat %p : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %c = arith.constant dense<7> : tensor<8xi32>
  %q = tile.addptr %ps, %c : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  return %q : tensor<8x!tile.ptr<f32>>
}

// CHECK-LABEL: @addptr_constants(
// CHECK: %[[C:.*]] = arith.constant dense<-4> : tensor<8xi32>
// CHECK-NEXT: tile.addptr %{{.*}}, %[[C]]
// CHECK-NEXT: return
func.func @addptr_constants(%p: tensor<8x!tile.ptr<f32>>) -> tensor<8x!tile.ptr<f32>> {
  %a = arith.constant dense<3> : tensor<8xi32>
  %b = arith.constant dense<-7> : tensor<8xi32>
  %q = tile.addptr %p, %a : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %r = tile.addptr %q, %b : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  return %r : tensor<8x!tile.ptr<f32>>
}

// 2147483647 + 1 would step backwards; each step on its own does not.
// CHECK-LABEL: @addptr_constants_wrap(
// CHECK-COUNT-2: tile.addptr
func.func @addptr_constants_wrap(%p: !tile.ptr<f32>) -> !tile.ptr<f32> {
  %a = arith.constant 2147483647 : i32
  %b = arith.constant 1 : i32
  %q = tile.addptr %p, %a : !tile.ptr<f32>, i32
  %r = tile.addptr %q, %b : !tile.ptr<f32>, i32
  return %r : !tile.ptr<f32>
}

// CHECK-LABEL: @addptr_no_base(
// CHECK: tile.splat
// CHECK: tile.addptr
func.func @addptr_no_base(%p: tensor<8x!tile.ptr<f32>>, %o: i32) -> tensor<8x!tile.ptr<f32>> {
  %os = tile.splat %o : i32 -> tensor<8xi32>
  %q = tile.addptr %p, %os : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  return %q : tensor<8x!tile.ptr<f32>>
}

// CHECK-LABEL: @ptr_cast_same(
// CHECK-SAME: %[[P:.*]]: !tile.ptr<f32>
// CHECK-NEXT: return %[[P]]
func.func @ptr_cast_same(%p: !tile.ptr<f32>) -> !tile.ptr<f32> {
  %q = tile.ptr_cast %p : !tile.ptr<f32> -> !tile.ptr<i32>
  %r = tile.ptr_cast %q : !tile.ptr<i32> -> !tile.ptr<f32>
  return %r : !tile.ptr<f32>
}

// CHECK-LABEL: @ptr_cast_chain(
// CHECK-SAME: %[[P:.*]]: !tile.ptr<f32>
// CHECK-NEXT: %[[Q:.*]] = tile.ptr_cast %[[P]] : !tile.ptr<f32> -> !tile.ptr<i8>
// CHECK-NEXT: return %[[Q]]
func.func @ptr_cast_chain(%p: !tile.ptr<f32>) -> !tile.ptr<i8> {
  %q = tile.ptr_cast %p : !tile.ptr<f32> -> !tile.ptr<i32>
  %r = tile.ptr_cast %q : !tile.ptr<i32> -> !tile.ptr<i8>
  return %r : !tile.ptr<i8>
}

// CHECK-LABEL: @address_round_trip(
// CHECK-SAME: %[[P:.*]]: !tile.ptr<f32>, %[[A:.*]]: i64
// CHECK-NEXT: return %[[P]], %[[A]]
func.func @address_round_trip(%p: !tile.ptr<f32>, %a: i64) -> (!tile.ptr<f32>, i64) {
  %b = tile.ptr_to_int %p : !tile.ptr<f32> -> i64
  %q = tile.int_to_ptr %b : i64 -> !tile.ptr<f32>
  %r = tile.int_to_ptr %a : i64 -> !tile.ptr<i8>
  %c = tile.ptr_to_int %r : !tile.ptr<i8> -> i64
  return %q, %c : !tile.ptr<f32>, i64
}

// Another pointee type: the addresses agree, the types do not.
// CHECK-LABEL: @address_other_pointee(
// CHECK: tile.int_to_ptr
func.func @address_other_pointee(%p: !tile.ptr<f32>) -> !tile.ptr<i8> {
  %b = tile.ptr_to_int %p : !tile.ptr<f32> -> i64
  %q = tile.int_to_ptr %b : i64 -> !tile.ptr<i8>
  return %q : !tile.ptr<i8>
}

// CHECK-LABEL: @hint_of_nothing(
// CHECK-SAME: %[[X:.*]]: i32
// CHECK-NEXT: %[[C:.*]] = arith.constant 32 : i32
// CHECK-NEXT: return %[[X]], %[[C]]
func.func @hint_of_nothing(%x: i32) -> (i32, i32) {
  %y = tile.hint %x {contiguity = array<i64: 1>, divisibility = array<i64: 1>} : i32
  %c = arith.constant 32 : i32
  %d = tile.hint %c {divisibility = array<i64: 16>} : i32
  return %y, %d : i32, i32
}

// CHECK-LABEL: @hint_stays(
// CHECK: tile.hint %{{.*}} {divisibility = array<i64: 16>}
func.func @hint_stays(%x: i32) -> i32 {
  %y = tile.hint %x {divisibility = array<i64: 16>} : i32
  return %y : i32
}
