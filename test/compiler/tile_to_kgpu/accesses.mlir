// Accesses are as wide as alignment, contiguity, masks, element types and the number of threads allow.
// RUN: kiln-opt %s --split-input-file --kiln-assign-layouts --kiln-verify-layouts | FileCheck %s

// 16 bytes of fp16, four times per thread.
// CHECK: #[[L:.*]] = #layout.map<blocked [4096] vector 8 warps 4>
// CHECK-LABEL: @halves
// CHECK: tile.make_range 0 to 4096 : tensor<4096xi32, #[[L]]>
// CHECK: tile.load {{.*}} -> tensor<4096xf16, #[[L]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @halves(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                    %stride: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %pid = tile.program_id x : i32
    %row = arith.muli %pid, %stride : i32
    %columns = tile.make_range 0 to 4096 : tensor<4096xi32>
    %from = tile.addptr %x, %row : !tile.ptr<f16>, i32
    %to = tile.addptr %y, %row : !tile.ptr<f16>, i32
    %froms = tile.splat %from : !tile.ptr<f16> -> tensor<4096x!tile.ptr<f16>>
    %tos = tile.splat %to : !tile.ptr<f16> -> tensor<4096x!tile.ptr<f16>>
    %p = tile.addptr %froms, %columns : tensor<4096x!tile.ptr<f16>>, tensor<4096xi32>
    %q = tile.addptr %tos, %columns : tensor<4096x!tile.ptr<f16>>, tensor<4096xi32>
    %v = tile.load %p : tensor<4096x!tile.ptr<f16>> -> tensor<4096xf16>
    tile.store %q, %v : tensor<4096x!tile.ptr<f16>>, tensor<4096xf16>
    return
  }
}

// -----

// With sixteen warps each access still has 16 bytes.
// CHECK: #layout.map<blocked [4096] vector 8 warps 16>
// CHECK-LABEL: @many_warps
module attributes {kgpu.num_warps = 16 : i32} {
  func.func @many_warps(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64})
      attributes {tile.kernel} {
    %columns = tile.make_range 0 to 4096 : tensor<4096xi32>
    %froms = tile.splat %x : !tile.ptr<f16> -> tensor<4096x!tile.ptr<f16>>
    %tos = tile.splat %y : !tile.ptr<f16> -> tensor<4096x!tile.ptr<f16>>
    %p = tile.addptr %froms, %columns : tensor<4096x!tile.ptr<f16>>, tensor<4096xi32>
    %q = tile.addptr %tos, %columns : tensor<4096x!tile.ptr<f16>>, tensor<4096xi32>
    %v = tile.load %p : tensor<4096x!tile.ptr<f16>> -> tensor<4096xf16>
    tile.store %q, %v : tensor<4096x!tile.ptr<f16>>, tensor<4096xf16>
    return
  }
}

// -----

// 1024 elements for 256 threads: four each, so that no thread repeats another's.
// CHECK: #layout.map<blocked [1024] vector 4 warps 8>
// CHECK-LABEL: @few_elements
module attributes {kgpu.num_warps = 8 : i32} {
  func.func @few_elements(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64})
      attributes {tile.kernel} {
    %columns = tile.make_range 0 to 1024 : tensor<1024xi32>
    %froms = tile.splat %x : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>>
    %tos = tile.splat %y : !tile.ptr<f16> -> tensor<1024x!tile.ptr<f16>>
    %p = tile.addptr %froms, %columns : tensor<1024x!tile.ptr<f16>>, tensor<1024xi32>
    %q = tile.addptr %tos, %columns : tensor<1024x!tile.ptr<f16>>, tensor<1024xi32>
    %v = tile.load %p : tensor<1024x!tile.ptr<f16>> -> tensor<1024xf16>
    tile.store %q, %v : tensor<1024x!tile.ptr<f16>>, tensor<1024xf16>
    return
  }
}

// -----

// Rows of fp16 with an fp32 weight that every program reads: 16 bytes of the narrow type set the width for all.
// CHECK: #[[L:.*]] = #layout.map<blocked [4096] vector 8 warps 4>
// CHECK-LABEL: @mixed
// CHECK: tile.load {{.*}} -> tensor<4096xf16, #[[L]]>
// CHECK: tile.load {{.*}} -> tensor<4096xf32, #[[L]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @mixed(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %w: !tile.ptr<f32> {tile.divisibility = 16 : i64},
                   %y: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %stride: i32 {tile.divisibility = 16 : i64})
      attributes {tile.kernel} {
    %pid = tile.program_id x : i32
    %row = arith.muli %pid, %stride : i32
    %columns = tile.make_range 0 to 4096 : tensor<4096xi32>
    %from = tile.addptr %x, %row : !tile.ptr<f16>, i32
    %to = tile.addptr %y, %row : !tile.ptr<f16>, i32
    %froms = tile.splat %from : !tile.ptr<f16> -> tensor<4096x!tile.ptr<f16>>
    %weights = tile.splat %w : !tile.ptr<f32> -> tensor<4096x!tile.ptr<f32>>
    %tos = tile.splat %to : !tile.ptr<f16> -> tensor<4096x!tile.ptr<f16>>
    %p = tile.addptr %froms, %columns : tensor<4096x!tile.ptr<f16>>, tensor<4096xi32>
    %r = tile.addptr %weights, %columns : tensor<4096x!tile.ptr<f32>>, tensor<4096xi32>
    %q = tile.addptr %tos, %columns : tensor<4096x!tile.ptr<f16>>, tensor<4096xi32>
    %v = tile.load %p : tensor<4096x!tile.ptr<f16>> -> tensor<4096xf16>
    %s = tile.load %r : tensor<4096x!tile.ptr<f32>> -> tensor<4096xf32>
    %e = arith.extf %v : tensor<4096xf16> to tensor<4096xf32>
    %m = arith.mulf %e, %s : tensor<4096xf32>
    %t = arith.truncf %m : tensor<4096xf32> to tensor<4096xf16>
    tile.store %q, %t : tensor<4096x!tile.ptr<f16>>, tensor<4096xf16>
    return
  }
}

// -----

// A mask known to change only at multiples of 16 keeps accesses wide; one that may change anywhere does not.
// CHECK: #layout.map<blocked [1024] vector 4 warps 4>
// CHECK-LABEL: @masked_wide
// CHECK: #layout.map<blocked [1024] vector 1 warps 4>
// CHECK-LABEL: @masked_narrow
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @masked_wide(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64})
      attributes {tile.kernel} {
    %columns = tile.make_range 0 to 1024 : tensor<1024xi32>
    %ns = tile.splat %n : i32 -> tensor<1024xi32>
    %mask = arith.cmpi slt, %columns, %ns : tensor<1024xi32>
    %froms = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
    %p = tile.addptr %froms, %columns : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    %v = tile.load %p mask %mask : tensor<1024x!tile.ptr<f32>> mask tensor<1024xi1> -> tensor<1024xf32>
    %t = arith.addf %v, %v : tensor<1024xf32>
    tile.store %p, %t mask %mask : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32> mask tensor<1024xi1>
    return
  }
}

// -----

module attributes {kgpu.num_warps = 4 : i32} {
  func.func @masked_narrow(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32) attributes {tile.kernel} {
    %columns = tile.make_range 0 to 1024 : tensor<1024xi32>
    %ns = tile.splat %n : i32 -> tensor<1024xi32>
    %mask = arith.cmpi slt, %columns, %ns : tensor<1024xi32>
    %froms = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
    %p = tile.addptr %froms, %columns : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    %v = tile.load %p mask %mask : tensor<1024x!tile.ptr<f32>> mask tensor<1024xi1> -> tensor<1024xf32>
    %t = arith.addf %v, %v : tensor<1024xf32>
    tile.store %p, %t mask %mask : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32> mask tensor<1024xi1>
    return
  }
}

// -----

// Rows found through a table: columns are contiguous and aligned whatever the row number.
// CHECK: #[[L:.*]] = #layout.map<blocked [16, 128] vector 8 warps 4>
// CHECK-LABEL: @page_table
// CHECK: tile.load {{.*}} -> tensor<16xi32, #[[R:.*]]>
// CHECK: tile.load {{.*}} -> tensor<16x128xf16, #[[L]]>
// CHECK-NOT: kgpu.convert
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @page_table(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %table: !tile.ptr<i32> {tile.divisibility = 16 : i64},
                        %y: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %stride: i32 {tile.divisibility = 16 : i64})
      attributes {tile.kernel} {
    %pid = tile.program_id x : i32
    %c16 = arith.constant 16 : i32
    %first = arith.muli %pid, %c16 : i32
    %i = tile.make_range 0 to 16 : tensor<16xi32>
    %firsts = tile.splat %first : i32 -> tensor<16xi32>
    %at = arith.addi %firsts, %i : tensor<16xi32>
    %tables = tile.splat %table : !tile.ptr<i32> -> tensor<16x!tile.ptr<i32>>
    %tp = tile.addptr %tables, %at : tensor<16x!tile.ptr<i32>>, tensor<16xi32>
    %rows = tile.load %tp : tensor<16x!tile.ptr<i32>> -> tensor<16xi32>
    %wide = arith.extsi %rows : tensor<16xi32> to tensor<16xi64>
    %s = arith.extsi %stride : i32 to i64
    %strides = tile.splat %s : i64 -> tensor<16xi64>
    %offsets = arith.muli %wide, %strides : tensor<16xi64>
    %column = tile.expand_dims %offsets 1 : tensor<16xi64> -> tensor<16x1xi64>
    %spread = tile.broadcast %column : tensor<16x1xi64> -> tensor<16x128xi64>
    %j = tile.make_range 0 to 128 : tensor<128xi32>
    %jr = tile.expand_dims %j 0 : tensor<128xi32> -> tensor<1x128xi32>
    %js = tile.broadcast %jr : tensor<1x128xi32> -> tensor<16x128xi32>
    %xs = tile.splat %x : !tile.ptr<f16> -> tensor<16x128x!tile.ptr<f16>>
    %xr = tile.addptr %xs, %spread : tensor<16x128x!tile.ptr<f16>>, tensor<16x128xi64>
    %p = tile.addptr %xr, %js : tensor<16x128x!tile.ptr<f16>>, tensor<16x128xi32>
    %v = tile.load %p : tensor<16x128x!tile.ptr<f16>> -> tensor<16x128xf16>
    %ys = tile.splat %y : !tile.ptr<f16> -> tensor<16x128x!tile.ptr<f16>>
    %yr = tile.addptr %ys, %js : tensor<16x128x!tile.ptr<f16>>, tensor<16x128xi32>
    tile.store %yr, %v : tensor<16x128x!tile.ptr<f16>>, tensor<16x128xf16>
    return
  }
}

// -----

// A descriptor: 16 bytes where base, strides and offsets allow.
// CHECK: #[[L:.*]] = #layout.map<blocked [32, 64] vector 8 warps 4>
// CHECK-LABEL: @described
// CHECK: tile.desc_load {{.*}} -> tensor<32x64xf16, #[[L]]>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @described(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %m: i64, %n: i64 {tile.divisibility = 16 : i64},
                       %i: i32, %j: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %one = arith.constant 1 : i64
    %d = tile.make_desc %x, shape [%m, %n] strides [%n, %one] : !tile.ptr<f16> -> !tile.desc<tensor<32x64xf16>>
    %v = tile.desc_load %d[%i, %j] : !tile.desc<tensor<32x64xf16>> -> tensor<32x64xf16>
    %t = arith.addf %v, %v : tensor<32x64xf16>
    tile.desc_store %d[%i, %j], %t : !tile.desc<tensor<32x64xf16>>, tensor<32x64xf16>
    return
  }
}

// -----

// 896 = 128 * 7: the 7 is a digit of the registers, the rest is spread over lanes; four warps take one row each.
// CHECK: #[[L:.*]] = #layout.map<blocked [4, 896] vector 4 warps 4>
// CHECK-LABEL: @odd_rows
// CHECK: tile.load {{.*}} -> tensor<4x896xf16, #[[L]]>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @odd_rows(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c896 = arith.constant dense<896> : tensor<4xi32>
    %i = tile.make_range 0 to 4 : tensor<4xi32>
    %o = arith.muli %i, %c896 : tensor<4xi32>
    %column = tile.expand_dims %o 1 : tensor<4xi32> -> tensor<4x1xi32>
    %spread = tile.broadcast %column : tensor<4x1xi32> -> tensor<4x896xi32>
    %j = tile.make_range 0 to 896 : tensor<896xi32>
    %jr = tile.expand_dims %j 0 : tensor<896xi32> -> tensor<1x896xi32>
    %js = tile.broadcast %jr : tensor<1x896xi32> -> tensor<4x896xi32>
    %at = arith.addi %spread, %js : tensor<4x896xi32>
    %xs = tile.splat %x : !tile.ptr<f16> -> tensor<4x896x!tile.ptr<f16>>
    %p = tile.addptr %xs, %at : tensor<4x896x!tile.ptr<f16>>, tensor<4x896xi32>
    %v = tile.load %p : tensor<4x896x!tile.ptr<f16>> -> tensor<4x896xf16>
    %t = arith.addf %v, %v : tensor<4x896xf16>
    tile.store %p, %t : tensor<4x896x!tile.ptr<f16>>, tensor<4x896xf16>
    return
  }
}

// -----

// 128 elements of two bytes for as many threads: they are copied asynchronously in pairs, as no copy has fewer than
// four bytes; with synchronous loads, threads would wait before each block of the loop.
// CHECK: #[[L:.*]] = #layout.map<blocked [128] vector 2 warps 4>
// CHECK-LABEL: @narrow_copies
// CHECK: kgpu.copy_tile {{.*}} : tensor<128x!tile.ptr<f16>, #[[L]]>
#row = #layout.map<row_major [128]>
!half = !kgpu.mem<128xf16, #row>
!ring = !kgpu.channel<2 x (!half)>
module attributes {kgpu.num_warps = 4 : i32} {
  func.func @narrow_copies(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %at = tile.make_range 0 to 128 : tensor<128xi32>
    %xs = tile.splat %x : !tile.ptr<f16> -> tensor<128x!tile.ptr<f16>>
    %p = tile.addptr %xs, %at : tensor<128x!tile.ptr<f16>>, tensor<128xi32>
    %ch = kgpu.channel groups fillers 1 readers 1 : !ring
    %c = kgpu.cursor : !kgpu.cursor<2>
    %slot = kgpu.acquire %ch[%c] : !ring -> !half
    kgpu.copy_tile %p to %slot of %ch[%c] : tensor<128x!tile.ptr<f16>>, !half, !ring
    kgpu.commit %ch[%c] : !ring
    return
  }
}
