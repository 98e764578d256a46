// Every op in every form, in both syntaxes: what is printed parses back to the same module.
// RUN: kiln-opt %s -o %t.mlir
// RUN: kiln-opt %t.mlir | diff %t.mlir -
// RUN: kiln-opt -mlir-print-op-generic %s | kiln-opt | diff %t.mlir -
// RUN: FileCheck %s < %t.mlir

// CHECK-LABEL: @program
// CHECK: tile.program_id x : i32
// CHECK: tile.program_id y : i32
// CHECK: tile.program_id z : i32
// CHECK: tile.num_programs x : i32
func.func @program() -> (i32, i32, i32, i32) {
  %x = tile.program_id x : i32
  %y = tile.program_id y : i32
  %z = tile.program_id z : i32
  %n = tile.num_programs x : i32
  return %x, %y, %z, %n : i32, i32, i32, i32
}

// CHECK-LABEL: @pointers
// CHECK: tile.addptr %{{.*}}, %{{.*}} : !tile.ptr<f32>, i64
// CHECK: tile.addptr %{{.*}}, %{{.*}} : tensor<8x!tile.ptr<!tile.ptr<i1>>>, tensor<8xi8>
// CHECK: tile.ptr_to_int %{{.*}} : tensor<8x!tile.ptr<!tile.ptr<i1>>> -> tensor<8xi64>
// CHECK: tile.int_to_ptr %{{.*}} : i64 -> !tile.ptr<f8E4M3FN>
// CHECK: tile.ptr_cast %{{.*}} : !tile.ptr<f32> -> !tile.ptr<bf16>
func.func @pointers(%p: !tile.ptr<f32>, %o: i64, %q: tensor<8x!tile.ptr<!tile.ptr<i1>>>, %s: tensor<8xi8>) {
  %a = tile.addptr %p, %o : !tile.ptr<f32>, i64
  %b = tile.addptr %q, %s : tensor<8x!tile.ptr<!tile.ptr<i1>>>, tensor<8xi8>
  %c = tile.ptr_to_int %q : tensor<8x!tile.ptr<!tile.ptr<i1>>> -> tensor<8xi64>
  %d = tile.int_to_ptr %o : i64 -> !tile.ptr<f8E4M3FN>
  %e = tile.ptr_cast %p : !tile.ptr<f32> -> !tile.ptr<bf16>
  return
}

// CHECK-LABEL: @hints
// CHECK: tile.hint %{{.*}} {constancy = array<i64: 1, 4>, contiguity = array<i64: 8, 1>, divisibility = array<i64: 16, 1>} : tensor<8x4xi64>
// CHECK: tile.hint %{{.*}} {divisibility = array<i64: 16>} : !tile.ptr<f32>
func.func @hints(%x: tensor<8x4xi64>, %p: !tile.ptr<f32>) {
  %y = tile.hint %x {contiguity = array<i64: 8, 1>, divisibility = array<i64: 16, 1>, constancy = array<i64: 1, 4>} : tensor<8x4xi64>
  %q = tile.hint %p {divisibility = array<i64: 16>} : !tile.ptr<f32>
  return
}

// CHECK-LABEL: @loads
// CHECK: tile.load %{{[^ ]*}} : !tile.ptr<f32> -> f32
// CHECK: tile.load %{{[^ ]*}} mask %{{[^ ]*}} {cache = #tile<cache cg>, isVolatile} : !tile.ptr<f32> mask i1 -> f32
// CHECK: tile.load %{{[^ ]*}} mask %{{[^ ]*}} other %{{[^ ]*}} {evict = #tile<evict evict_last>} : tensor<8x4x!tile.ptr<i16>> mask tensor<8x4xi1> other tensor<8x4xi16> -> tensor<8x4xi16>
// CHECK: tile.load %{{[^ ]*}} : !tile.ptr<!tile.ptr<f32>> -> !tile.ptr<f32>
func.func @loads(%p: !tile.ptr<f32>, %m: i1, %q: tensor<8x4x!tile.ptr<i16>>, %n: tensor<8x4xi1>, %o: tensor<8x4xi16>,
                 %r: !tile.ptr<!tile.ptr<f32>>) {
  %a = tile.load %p : !tile.ptr<f32> -> f32
  %b = tile.load %p mask %m {cache = #tile<cache cg>, isVolatile} : !tile.ptr<f32> mask i1 -> f32
  %c = tile.load %q mask %n other %o {evict = #tile<evict evict_last>}
    : tensor<8x4x!tile.ptr<i16>> mask tensor<8x4xi1> other tensor<8x4xi16> -> tensor<8x4xi16>
  %d = tile.load %r : !tile.ptr<!tile.ptr<f32>> -> !tile.ptr<f32>
  return
}

// CHECK-LABEL: @stores
// CHECK: tile.store %{{.*}}, %{{.*}} {cache = #tile<cache wt>} : !tile.ptr<f32>, f32
// CHECK: tile.store %{{.*}}, %{{.*}} mask %{{.*}} : tensor<8x!tile.ptr<f64>>, tensor<8xf64> mask tensor<8xi1>
func.func @stores(%p: !tile.ptr<f32>, %v: f32, %q: tensor<8x!tile.ptr<f64>>, %w: tensor<8xf64>, %m: tensor<8xi1>) {
  tile.store %p, %v {cache = #tile<cache wt>} : !tile.ptr<f32>, f32
  tile.store %q, %w mask %m : tensor<8x!tile.ptr<f64>>, tensor<8xf64> mask tensor<8xi1>
  return
}

// CHECK-LABEL: @prefetches
// CHECK: tile.prefetch %{{.*}} : !tile.ptr<f32>
// CHECK: tile.prefetch %{{.*}} mask %{{.*}} : tensor<8x!tile.ptr<f64>> mask tensor<8xi1>
func.func @prefetches(%p: !tile.ptr<f32>, %q: tensor<8x!tile.ptr<f64>>, %m: tensor<8xi1>) {
  tile.prefetch %p : !tile.ptr<f32>
  tile.prefetch %q mask %m : tensor<8x!tile.ptr<f64>> mask tensor<8xi1>
  return
}

// CHECK-LABEL: @descriptors
// CHECK: tile.make_desc %{{.*}}, shape[%{{.*}}, %{{.*}}] strides[%{{.*}}, %{{.*}}] : <f16> -> <tensor<8x96xf16>>
// CHECK: tile.desc_load %{{.*}}[%{{.*}}, %{{.*}}] {boundary = array<i32>} : <tensor<8x96xf16>> -> tensor<8x96xf16>
// CHECK: tile.desc_load %{{.*}}[%{{.*}}, %{{.*}}] : <tensor<8x96xf16>> -> tensor<8x96xf16>
// CHECK: tile.desc_store %{{.*}}[%{{.*}}, %{{.*}}], %{{.*}} {boundary = array<i32: 0, 1>} : <tensor<8x96xf16>>, tensor<8x96xf16>
// CHECK: tile.desc_reduce umax %{{.*}}[%{{.*}}, %{{.*}}], %{{.*}} : <tensor<8x96xi32>>, tensor<8x96xi32>
func.func @descriptors(%b: !tile.ptr<f16>, %p: !tile.ptr<i32>, %m: i64, %n: i64, %i: i32, %j: i32) {
  %d = tile.make_desc %b, shape [%m, %n] strides [%n, %m] : !tile.ptr<f16> -> !tile.desc<tensor<8x96xf16>>
  %v = tile.desc_load %d[%i, %j] {boundary = array<i32>} : !tile.desc<tensor<8x96xf16>> -> tensor<8x96xf16>
  %w = tile.desc_load %d[%i, %j] : !tile.desc<tensor<8x96xf16>> -> tensor<8x96xf16>
  tile.desc_store %d[%i, %j], %v {boundary = array<i32: 0, 1>} : !tile.desc<tensor<8x96xf16>>, tensor<8x96xf16>
  %e = tile.make_desc %p, shape [%m, %n] strides [%n, %m] : !tile.ptr<i32> -> !tile.desc<tensor<8x96xi32>>
  %x = tile.desc_load %e[%i, %j] : !tile.desc<tensor<8x96xi32>> -> tensor<8x96xi32>
  tile.desc_reduce umax %e[%i, %j], %x : !tile.desc<tensor<8x96xi32>>, tensor<8x96xi32>
  return
}

// CHECK-LABEL: @block_pointers
// CHECK: tile.make_block_ptr %{{.*}}, shape[%{{.*}}] strides[%{{.*}}] offsets[%{{.*}}] {order = array<i32: 0>} : <i32> -> <tensor<31xi32>>
// CHECK: tile.advance %{{.*}}[%{{.*}}] : <tensor<31xi32>>
// CHECK: tile.block_load %{{.*}} : <tensor<31xi32>> -> tensor<31xi32>
// CHECK: tile.block_load %{{.*}} {boundary = array<i32: 0>, padding = #tile<padding zero>} : <tensor<31xi32>> -> tensor<31xi32>
// CHECK: tile.block_store %{{.*}}, %{{.*}} {boundary = array<i32: 0>} : <tensor<31xi32>>, tensor<31xi32>
func.func @block_pointers(%b: !tile.ptr<i32>, %n: i64, %s: i64, %i: i32) {
  %p = tile.make_block_ptr %b, shape [%n] strides [%s] offsets [%i] {order = array<i32: 0>} : !tile.ptr<i32> -> !tile.block_ptr<tensor<31xi32>>
  %q = tile.advance %p[%i] : !tile.block_ptr<tensor<31xi32>>
  %v = tile.block_load %q : !tile.block_ptr<tensor<31xi32>> -> tensor<31xi32>
  %w = tile.block_load %q {boundary = array<i32: 0>, padding = #tile<padding zero>} : !tile.block_ptr<tensor<31xi32>> -> tensor<31xi32>
  tile.block_store %p, %v {boundary = array<i32: 0>} : !tile.block_ptr<tensor<31xi32>>, tensor<31xi32>
  return
}

// CHECK-LABEL: @atomics
// CHECK: tile.atomic_rmw add relaxed cta %{{.*}}, %{{[^ ]*}} : !tile.ptr<i32>, i32
// CHECK: tile.atomic_rmw umax acquire gpu
// CHECK: tile.atomic_rmw xchg release sys
// CHECK: tile.atomic_rmw fadd acq_rel gpu %{{.*}}, %{{.*}} mask %{{.*}} : tensor<8x!tile.ptr<bf16>>, tensor<8xbf16> mask tensor<8xi1>
// CHECK: tile.atomic_cas acq_rel sys %{{.*}}, %{{.*}}, %{{.*}} : tensor<8x!tile.ptr<bf16>>, tensor<8xbf16>
func.func @atomics(%p: !tile.ptr<i32>, %v: i32, %q: tensor<8x!tile.ptr<bf16>>, %w: tensor<8xbf16>, %m: tensor<8xi1>) {
  %a = tile.atomic_rmw add relaxed cta %p, %v : !tile.ptr<i32>, i32
  %b = tile.atomic_rmw umax acquire gpu %p, %v : !tile.ptr<i32>, i32
  %c = tile.atomic_rmw xchg release sys %p, %v : !tile.ptr<i32>, i32
  %d = tile.atomic_rmw fadd acq_rel gpu %q, %w mask %m : tensor<8x!tile.ptr<bf16>>, tensor<8xbf16> mask tensor<8xi1>
  %e = tile.atomic_cas acq_rel sys %q, %w, %w : tensor<8x!tile.ptr<bf16>>, tensor<8xbf16>
  return
}

// CHECK-LABEL: @shapes
// CHECK: tile.make_range -4 to 4 : tensor<8xi32>
// CHECK: tile.splat %{{.*}} : i1 -> tensor<8x2xi1>
// CHECK: tile.expand_dims %{{.*}} 0 : tensor<8xi32> -> tensor<1x8xi32>
// CHECK: tile.broadcast %{{.*}} : tensor<1x8xi32> -> tensor<4x8xi32>
// CHECK: tile.reshape %{{.*}} : tensor<4x8xi32> -> tensor<2x2x8xi32>
// CHECK: tile.trans %{{.*}} [2, 0, 1] : tensor<2x2x8xi32> -> tensor<8x2x2xi32>
// CHECK: tile.split %{{.*}} : tensor<8x2x2xi32> -> tensor<8x2xi32>
// CHECK: tile.join %{{.*}}, %{{.*}} : tensor<8x2xi32> -> tensor<8x2x2xi32>
// CHECK: tile.cat %{{.*}}, %{{.*}} 0 : tensor<8x2xi32>, tensor<8x2xi32> -> tensor<16x2xi32>
// CHECK: tile.unsplat %{{.*}} : tensor<1x!tile.ptr<f32>> -> !tile.ptr<f32>
func.func @shapes(%c: i1, %u: tensor<1x!tile.ptr<f32>>) {
  %r = tile.make_range -4 to 4 : tensor<8xi32>
  %s = tile.splat %c : i1 -> tensor<8x2xi1>
  %e = tile.expand_dims %r 0 : tensor<8xi32> -> tensor<1x8xi32>
  %b = tile.broadcast %e : tensor<1x8xi32> -> tensor<4x8xi32>
  %h = tile.reshape %b : tensor<4x8xi32> -> tensor<2x2x8xi32>
  %t = tile.trans %h [2, 0, 1] : tensor<2x2x8xi32> -> tensor<8x2x2xi32>
  %x, %y = tile.split %t : tensor<8x2x2xi32> -> tensor<8x2xi32>
  %j = tile.join %x, %y : tensor<8x2xi32> -> tensor<8x2x2xi32>
  %k = tile.cat %x, %y 0 : tensor<8x2xi32>, tensor<8x2xi32> -> tensor<16x2xi32>
  %p = tile.unsplat %u : tensor<1x!tile.ptr<f32>> -> !tile.ptr<f32>
  return
}

// CHECK-LABEL: @dots
// CHECK: tile.dot %{{.*}}, %{{.*}}, %{{[^ ]*}} : tensor<8x4xi8>, tensor<4x16xi8> -> tensor<8x16xi32>
// CHECK: tile.dot %{{.*}}, %{{.*}}, %{{.*}} {maxImpreciseAcc = 32 : i32} : tensor<2x8x4xf8E4M3FN>, tensor<2x4x16xf8E5M2> -> tensor<2x8x16xf16>
// CHECK: tile.dot %{{.*}}, %{{.*}}, %{{.*}} {precision = #tile<precision tf32x3>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
// CHECK: tile.dot %{{.*}}, %{{.*}}, %{{[^ ]*}} : tensor<8x8xf64>, tensor<8x8xf64> -> tensor<8x8xf64>
func.func @dots(%a: tensor<8x4xi8>, %b: tensor<4x16xi8>, %c: tensor<8x16xi32>, %d: tensor<2x8x4xf8E4M3FN>,
                %e: tensor<2x4x16xf8E5M2>, %f: tensor<2x8x16xf16>, %g: tensor<8x8xf32>, %h: tensor<8x8xf64>) {
  %i = tile.dot %a, %b, %c : tensor<8x4xi8>, tensor<4x16xi8> -> tensor<8x16xi32>
  %j = tile.dot %d, %e, %f {maxImpreciseAcc = 32 : i32} : tensor<2x8x4xf8E4M3FN>, tensor<2x4x16xf8E5M2> -> tensor<2x8x16xf16>
  %k = tile.dot %g, %g, %g {precision = #tile<precision tf32x3>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %l = tile.dot %h, %h, %h : tensor<8x8xf64>, tensor<8x8xf64> -> tensor<8x8xf64>
  return
}

// CHECK-LABEL: @combines
// CHECK: tile.reduce(%{{.*}}, %{{.*}}) axis 0 {
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: i32, %{{.*}}: f32, %{{.*}}: i32):
// CHECK: tile.yield %{{.*}}, %{{.*}} : f32, i32
// CHECK: } : (tensor<8x4xf32>, tensor<8x4xi32>) -> (tensor<4xf32>, tensor<4xi32>)
// CHECK: tile.scan(%{{.*}}) axis 1 reverse {
// CHECK: } : (tensor<8x4xi32>) -> tensor<8x4xi32>
func.func @combines(%x: tensor<8x4xf32>, %i: tensor<8x4xi32>) {
  %r:2 = tile.reduce(%x, %i) axis 0 {
  ^bb0(%a: f32, %ai: i32, %b: f32, %bi: i32):
    %c = arith.cmpf oge, %a, %b : f32
    %v = arith.select %c, %a, %b : f32
    %j = arith.select %c, %ai, %bi : i32
    tile.yield %v, %j : f32, i32
  } : (tensor<8x4xf32>, tensor<8x4xi32>) -> (tensor<4xf32>, tensor<4xi32>)
  %s = tile.scan(%i) axis 1 reverse {
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    tile.yield %c : i32
  } : (tensor<8x4xi32>) -> tensor<8x4xi32>
  return
}

// CHECK-LABEL: @maps
// CHECK: %{{.*}}:2 = tile.map(%{{.*}}, %{{.*}}) {
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: !tile.ptr<i32>):
// CHECK: scf.if %{{.*}} {
// CHECK: tile.yield %{{.*}}, %{{.*}} : f32, !tile.ptr<i32>
// CHECK: } : (tensor<8x4xf32>, tensor<8x4x!tile.ptr<i32>>) -> (tensor<8x4xf32>, tensor<8x4x!tile.ptr<i32>>)
// CHECK: tile.map(%{{.*}}) {
// CHECK: tile.yield
// CHECK-NEXT: } : (tensor<8x4xf32>) -> ()
func.func @maps(%x: tensor<8x4xf32>, %p: tensor<8x4x!tile.ptr<i32>>) {
  %y:2 = tile.map(%x, %p) {
  ^bb0(%a: f32, %q: !tile.ptr<i32>):
    %zero = arith.constant 0.0 : f32
    %none = arith.constant 0 : i32
    %below = arith.cmpf olt, %a, %zero : f32
    scf.if %below {
      tile.store %q, %none : !tile.ptr<i32>, i32
    }
    tile.yield %a, %q : f32, !tile.ptr<i32>
  } : (tensor<8x4xf32>, tensor<8x4x!tile.ptr<i32>>) -> (tensor<8x4xf32>, tensor<8x4x!tile.ptr<i32>>)
  tile.map(%x) {
  ^bb0(%a: f32):
    tile.yield
  } : (tensor<8x4xf32>) -> ()
  return
}

// CHECK-LABEL: @orders
// CHECK: tile.gather %{{.*}}[%{{.*}}] 0 : tensor<8x4xf32>, tensor<16x4xi64> -> tensor<16x4xf32>
// CHECK: tile.histogram %{{.*}} mask %{{.*}} : tensor<8xi8> mask tensor<8xi1> -> tensor<24xi32>
// CHECK: tile.sort %{{.*}} {isUnsigned} : tensor<8xi8>
// CHECK: tile.topk %{{.*}} {ascending} : tensor<8x4xf32> -> tensor<8x2xf32>
func.func @orders(%x: tensor<8x4xf32>, %i: tensor<16x4xi64>, %h: tensor<8xi8>, %m: tensor<8xi1>) {
  %g = tile.gather %x[%i] 0 : tensor<8x4xf32>, tensor<16x4xi64> -> tensor<16x4xf32>
  %c = tile.histogram %h mask %m : tensor<8xi8> mask tensor<8xi1> -> tensor<24xi32>
  %s = tile.sort %h {isUnsigned} : tensor<8xi8>
  %t = tile.topk %x {ascending} : tensor<8x4xf32> -> tensor<8x2xf32>
  return
}

// CHECK-LABEL: @escapes
// CHECK: tile.inline_asm "mov.b32 $0, $1;" "=r,r" (%{{.*}}) {isPure, packed = 4 : i32} : (tensor<8xi8>) -> tensor<8xi8>
// CHECK: tile.inline_asm "membar.gl;" "~{memory}" () : () -> ()
// CHECK: tile.inline_asm "mov.b32 $0, $1;" "=r,r" (%{{.*}}) portable {
// CHECK: tile.extern_call "hypot" from "libdevice"(%{{.*}}, %{{.*}}) : (f32, f32) -> f32
func.func @escapes(%x: tensor<8xi8>, %y: f32) {
  %a = tile.inline_asm "mov.b32 $0, $1;" "=r,r" (%x) {isPure, packed = 4 : i32} : (tensor<8xi8>) -> tensor<8xi8>
  tile.inline_asm "membar.gl;" "~{memory}" () : () -> ()
  %b = tile.inline_asm "mov.b32 $0, $1;" "=r,r" (%y) portable {
  ^bb0(%e: f32):
    tile.yield %e : f32
  } : (f32) -> f32
  %c = tile.extern_call "hypot" from "libdevice" (%y, %y) : (f32, f32) -> f32
  return
}

// CHECK-LABEL: @launches
// CHECK-NEXT: tile.wait_for_grid
// CHECK-NEXT: tile.launch_dependents
func.func @launches() {
  tile.wait_for_grid
  tile.launch_dependents
  return
}

// CHECK-LABEL: @debugging
// CHECK: tile.print "here"{{$}}
// CHECK: tile.print "x" %{{.*}}, %{{.*}} : tensor<8xi8>, !tile.ptr<f32> {hex, isSigned = array<i32: 0, 0>}
// CHECK: tile.assert %{{.*}}, "no \22quotes\22" : tensor<8xi1>
// CHECK: tile.assume %{{.*}}
// CHECK: tile.unlikely %{{.*}} : tensor<8xi1>
// CHECK: tile.unlikely %{{.*}} : i1
// CHECK: tile.barrier
func.func @debugging(%x: tensor<8xi8>, %p: !tile.ptr<f32>, %m: tensor<8xi1>, %c: i1) {
  tile.print "here"
  tile.print "x" %x, %p : tensor<8xi8>, !tile.ptr<f32> {hex, isSigned = array<i32: 0, 0>}
  tile.assert %m, "no \"quotes\"" : tensor<8xi1>
  tile.assume %c
  %any = tile.unlikely %m : tensor<8xi1>
  %it = tile.unlikely %c : i1
  tile.barrier
  return
}
