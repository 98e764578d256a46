// RUN: kiln-opt %s --split-input-file --kiln-lower-exchanges --kiln-hoist-reads | FileCheck %s
// RUN: kiln-opt %s --split-input-file --kiln-lower-exchanges --kiln-hoist-reads --kiln-hoist-reads | FileCheck %s

#row = #layout.map<blocked [4096] vector 8 warps 4>

// The weights are read together with the row, with their address and mask, before a write that cannot reach them. With
// 4 warps, 32 registers for the row and 16 for the weights are few enough.
// CHECK-LABEL: func.func public @weights(
// CHECK: %[[X:.*]] = tile.load
// CHECK-NEXT: tile.splat
// CHECK-NEXT: tile.addptr
// CHECK-NEXT: tile.load
// CHECK-NEXT: arith.extf %[[X]]
// CHECK: tile.store
// CHECK: reduce(
// CHECK-NOT: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @weights(%xp: !tile.ptr<f16> {tile.disjoint}, %wp: !tile.ptr<f16> {tile.disjoint}, %yp: !tile.ptr<f16> {tile.disjoint}) attributes {tile.kernel} {
    %i = tile.make_range 0 to 4096 : tensor<4096xi32, #row>
    %xs = tile.splat %xp : !tile.ptr<f16> -> tensor<4096x!tile.ptr<f16>, #row>
    %xa = tile.addptr %xs, %i : tensor<4096x!tile.ptr<f16>, #row>, tensor<4096xi32, #row>
    %x = tile.load %xa : tensor<4096x!tile.ptr<f16>, #row> -> tensor<4096xf16, #row>
    %v = arith.extf %x : tensor<4096xf16, #row> to tensor<4096xf32, #row>
    %ys = tile.splat %yp : !tile.ptr<f16> -> tensor<4096x!tile.ptr<f16>, #row>
    %ya = tile.addptr %ys, %i : tensor<4096x!tile.ptr<f16>, #row>, tensor<4096xi32, #row>
    tile.store %ya, %x : tensor<4096x!tile.ptr<f16>, #row>, tensor<4096xf16, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<4096xf32, #row>) -> f32
    %t = tile.splat %s : f32 -> tensor<4096xf32, #row>
    %n = arith.mulf %v, %t : tensor<4096xf32, #row>
    %ws = tile.splat %wp : !tile.ptr<f16> -> tensor<4096x!tile.ptr<f16>, #row>
    %wa = tile.addptr %ws, %i : tensor<4096x!tile.ptr<f16>, #row>, tensor<4096xi32, #row>
    %w = tile.load %wa : tensor<4096x!tile.ptr<f16>, #row> -> tensor<4096xf16, #row>
    %wv = arith.extf %w : tensor<4096xf16, #row> to tensor<4096xf32, #row>
    %r = arith.mulf %n, %wv : tensor<4096xf32, #row>
    %o = arith.truncf %r : tensor<4096xf32, #row> to tensor<4096xf16, #row>
    tile.store %ya, %o : tensor<4096x!tile.ptr<f16>, #row>, tensor<4096xf16, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [3072] vector 4 warps 4>

// A thread holds 24 elements of the row; 24 more make 48 registers. A promise on the way holds no read back.
// CHECK-LABEL: func.func public @few(
// CHECK: tile.load
// CHECK-NEXT: tile.load
// CHECK: reduce(
// CHECK-NOT: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @few(%xp: !tile.ptr<f32> {tile.disjoint}, %wp: !tile.ptr<f32> {tile.disjoint}, %yp: !tile.ptr<f32> {tile.disjoint}, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %x = tile.load %x0 : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %v = arith.mulf %x, %x : tensor<3072xf32, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<3072xf32, #row>) -> f32
    tile.assume %k
    %w = tile.load %w0 : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %t = tile.splat %s : f32 -> tensor<3072xf32, #row>
    %m = arith.mulf %x, %t : tensor<3072xf32, #row>
    %r = arith.mulf %m, %w : tensor<3072xf32, #row>
    tile.store %y0, %r : tensor<3072x!tile.ptr<f32>, #row>, tensor<3072xf32, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [3584] vector 4 warps 4>

// 28 and 28 are too many if the row takes 32 bits per element.
// CHECK-LABEL: func.func public @many(
// CHECK: reduce(
// CHECK: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @many(%xp: !tile.ptr<f32> {tile.disjoint}, %wp: !tile.ptr<f32> {tile.disjoint}, %yp: !tile.ptr<f32> {tile.disjoint}, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f32> -> tensor<3584x!tile.ptr<f32>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f32> -> tensor<3584x!tile.ptr<f32>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f32> -> tensor<3584x!tile.ptr<f32>, #row>
    %x = tile.load %x0 : tensor<3584x!tile.ptr<f32>, #row> -> tensor<3584xf32, #row>
    %v = arith.mulf %x, %x : tensor<3584xf32, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<3584xf32, #row>) -> f32
    %w = tile.load %w0 : tensor<3584x!tile.ptr<f32>, #row> -> tensor<3584xf32, #row>
    %t = tile.splat %s : f32 -> tensor<3584xf32, #row>
    %m = arith.mulf %x, %t : tensor<3584xf32, #row>
    %r = arith.mulf %m, %w : tensor<3584xf32, #row>
    tile.store %y0, %r : tensor<3584x!tile.ptr<f32>, #row>, tensor<3584xf32, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [896] vector 4 warps 1>

// Warps that reduce by themselves may have 56: they wait for no other warp.
// CHECK-LABEL: func.func public @one_warp(
// CHECK: tile.load
// CHECK-NEXT: tile.load
// CHECK: reduce(
// CHECK-NOT: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 1 : i32} {
  func.func public @one_warp(%xp: !tile.ptr<f32> {tile.disjoint}, %wp: !tile.ptr<f32> {tile.disjoint}, %yp: !tile.ptr<f32> {tile.disjoint}, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f32> -> tensor<896x!tile.ptr<f32>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f32> -> tensor<896x!tile.ptr<f32>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f32> -> tensor<896x!tile.ptr<f32>, #row>
    %x = tile.load %x0 : tensor<896x!tile.ptr<f32>, #row> -> tensor<896xf32, #row>
    %v = arith.mulf %x, %x : tensor<896xf32, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<896xf32, #row>) -> f32
    %w = tile.load %w0 : tensor<896x!tile.ptr<f32>, #row> -> tensor<896xf32, #row>
    %t = tile.splat %s : f32 -> tensor<896xf32, #row>
    %m = arith.mulf %x, %t : tensor<896xf32, #row>
    %r = arith.mulf %m, %w : tensor<896xf32, #row>
    tile.store %y0, %r : tensor<896x!tile.ptr<f32>, #row>, tensor<896xf32, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [20480] vector 4 warps 32>

// Blocks of 1024 threads have 40: 20 and 20.
// CHECK-LABEL: func.func public @large_block(
// CHECK: tile.load
// CHECK-NEXT: tile.load
// CHECK: reduce(
// CHECK-NOT: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 32 : i32} {
  func.func public @large_block(%xp: !tile.ptr<f32> {tile.disjoint}, %wp: !tile.ptr<f32> {tile.disjoint}, %yp: !tile.ptr<f32> {tile.disjoint}, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f32> -> tensor<20480x!tile.ptr<f32>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f32> -> tensor<20480x!tile.ptr<f32>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f32> -> tensor<20480x!tile.ptr<f32>, #row>
    %x = tile.load %x0 : tensor<20480x!tile.ptr<f32>, #row> -> tensor<20480xf32, #row>
    %v = arith.mulf %x, %x : tensor<20480xf32, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<20480xf32, #row>) -> f32
    %w = tile.load %w0 : tensor<20480x!tile.ptr<f32>, #row> -> tensor<20480xf32, #row>
    %t = tile.splat %s : f32 -> tensor<20480xf32, #row>
    %m = arith.mulf %x, %t : tensor<20480xf32, #row>
    %r = arith.mulf %m, %w : tensor<20480xf32, #row>
    tile.store %y0, %r : tensor<20480x!tile.ptr<f32>, #row>, tensor<20480xf32, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [24576] vector 4 warps 32>

// 24 and 24 are more.
// CHECK-LABEL: func.func public @too_large_block(
// CHECK: reduce(
// CHECK: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 32 : i32} {
  func.func public @too_large_block(%xp: !tile.ptr<f32> {tile.disjoint}, %wp: !tile.ptr<f32> {tile.disjoint}, %yp: !tile.ptr<f32> {tile.disjoint}, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f32> -> tensor<24576x!tile.ptr<f32>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f32> -> tensor<24576x!tile.ptr<f32>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f32> -> tensor<24576x!tile.ptr<f32>, #row>
    %x = tile.load %x0 : tensor<24576x!tile.ptr<f32>, #row> -> tensor<24576xf32, #row>
    %v = arith.mulf %x, %x : tensor<24576xf32, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<24576xf32, #row>) -> f32
    %w = tile.load %w0 : tensor<24576x!tile.ptr<f32>, #row> -> tensor<24576xf32, #row>
    %t = tile.splat %s : f32 -> tensor<24576xf32, #row>
    %m = arith.mulf %x, %t : tensor<24576xf32, #row>
    %r = arith.mulf %m, %w : tensor<24576xf32, #row>
    tile.store %y0, %r : tensor<24576x!tile.ptr<f32>, #row>, tensor<24576xf32, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [6144] vector 4 warps 4>

// Nothing of the row is needed again: only the weights take registers.
// CHECK-LABEL: func.func public @nothing_waits(
// CHECK: tile.load
// CHECK-NEXT: tile.load
// CHECK: reduce(
// CHECK-NOT: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @nothing_waits(%xp: !tile.ptr<f32> {tile.disjoint}, %wp: !tile.ptr<f32> {tile.disjoint}, %yp: !tile.ptr<f32> {tile.disjoint}, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f32> -> tensor<6144x!tile.ptr<f32>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f32> -> tensor<6144x!tile.ptr<f32>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f32> -> tensor<6144x!tile.ptr<f32>, #row>
    %x = tile.load %x0 : tensor<6144x!tile.ptr<f32>, #row> -> tensor<6144xf32, #row>
    %v = arith.mulf %x, %x : tensor<6144xf32, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<6144xf32, #row>) -> f32
    %w = tile.load %w0 : tensor<6144x!tile.ptr<f32>, #row> -> tensor<6144xf32, #row>
    %t = tile.splat %s : f32 -> tensor<6144xf32, #row>
    %m = arith.mulf %t, %t : tensor<6144xf32, #row>
    %r = arith.mulf %m, %w : tensor<6144xf32, #row>
    tile.store %y0, %r : tensor<6144x!tile.ptr<f32>, #row>, tensor<6144xf32, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [16384] vector 8 warps 8>

// 64 elements of 16 bits and as many weights, in 8 warps: cheaper than a second wait.
// CHECK-LABEL: func.func public @small_block(
// CHECK: tile.load
// CHECK-NEXT: tile.load
// CHECK: reduce(
// CHECK-NOT: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 8 : i32} {
  func.func public @small_block(%xp: !tile.ptr<f16> {tile.disjoint}, %wp: !tile.ptr<f16> {tile.disjoint}, %yp: !tile.ptr<f16> {tile.disjoint}, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f16> -> tensor<16384x!tile.ptr<f16>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f16> -> tensor<16384x!tile.ptr<f16>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f16> -> tensor<16384x!tile.ptr<f16>, #row>
    %x = tile.load %x0 : tensor<16384x!tile.ptr<f16>, #row> -> tensor<16384xf16, #row>
    %v = arith.mulf %x, %x : tensor<16384xf16, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f16, %b: f16):
      %c = arith.addf %a, %b : f16
      tile.yield %c : f16
    } : (tensor<16384xf16, #row>) -> f16
    %w = tile.load %w0 : tensor<16384x!tile.ptr<f16>, #row> -> tensor<16384xf16, #row>
    %t = tile.splat %s : f16 -> tensor<16384xf16, #row>
    %m = arith.mulf %x, %t : tensor<16384xf16, #row>
    %r = arith.mulf %m, %w : tensor<16384xf16, #row>
    tile.store %y0, %r : tensor<16384x!tile.ptr<f16>, #row>, tensor<16384xf16, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [32768] vector 8 warps 16>

// The same in 16 warps.
// CHECK-LABEL: func.func public @more_warps(
// CHECK: reduce(
// CHECK: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 16 : i32} {
  func.func public @more_warps(%xp: !tile.ptr<f16> {tile.disjoint}, %wp: !tile.ptr<f16> {tile.disjoint}, %yp: !tile.ptr<f16> {tile.disjoint}, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f16> -> tensor<32768x!tile.ptr<f16>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f16> -> tensor<32768x!tile.ptr<f16>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f16> -> tensor<32768x!tile.ptr<f16>, #row>
    %x = tile.load %x0 : tensor<32768x!tile.ptr<f16>, #row> -> tensor<32768xf16, #row>
    %v = arith.mulf %x, %x : tensor<32768xf16, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f16, %b: f16):
      %c = arith.addf %a, %b : f16
      tile.yield %c : f16
    } : (tensor<32768xf16, #row>) -> f16
    %w = tile.load %w0 : tensor<32768x!tile.ptr<f16>, #row> -> tensor<32768xf16, #row>
    %t = tile.splat %s : f16 -> tensor<32768xf16, #row>
    %m = arith.mulf %x, %t : tensor<32768xf16, #row>
    %r = arith.mulf %m, %w : tensor<32768xf16, #row>
    tile.store %y0, %r : tensor<32768x!tile.ptr<f16>, #row>, tensor<32768xf16, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [3072] vector 4 warps 4>

// What the write in between may reach is read after it.
// CHECK-LABEL: func.func public @may_be_written(
// CHECK: reduce(
// CHECK: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @may_be_written(%xp: !tile.ptr<f32>, %wp: !tile.ptr<f32>, %yp: !tile.ptr<f32>, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %x = tile.load %x0 : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %v = arith.mulf %x, %x : tensor<3072xf32, #row>
    tile.store %y0, %x : tensor<3072x!tile.ptr<f32>, #row>, tensor<3072xf32, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<3072xf32, #row>) -> f32
    %w = tile.load %w0 : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %t = tile.splat %s : f32 -> tensor<3072xf32, #row>
    %m = arith.mulf %x, %t : tensor<3072xf32, #row>
    %r = arith.mulf %m, %w : tensor<3072xf32, #row>
    tile.store %y0, %r : tensor<3072x!tile.ptr<f32>, #row>, tensor<3072xf32, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [3072] vector 4 warps 4>

// The program may end before the read.
// CHECK-LABEL: func.func public @asserted(
// CHECK: reduce(
// CHECK: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @asserted(%xp: !tile.ptr<f32> {tile.disjoint}, %wp: !tile.ptr<f32> {tile.disjoint}, %yp: !tile.ptr<f32> {tile.disjoint}, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %x = tile.load %x0 : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %v = arith.mulf %x, %x : tensor<3072xf32, #row>
    tile.assert %k, "fits" : i1
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<3072xf32, #row>) -> f32
    %w = tile.load %w0 : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %t = tile.splat %s : f32 -> tensor<3072xf32, #row>
    %m = arith.mulf %x, %t : tensor<3072xf32, #row>
    %r = arith.mulf %m, %w : tensor<3072xf32, #row>
    tile.store %y0, %r : tensor<3072x!tile.ptr<f32>, #row>, tensor<3072xf32, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [3072] vector 4 warps 4>

// A barrier orders what others wrote before the read.
// CHECK-LABEL: func.func public @ordered(
// CHECK: reduce(
// CHECK: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @ordered(%xp: !tile.ptr<f32> {tile.disjoint}, %wp: !tile.ptr<f32> {tile.disjoint}, %yp: !tile.ptr<f32> {tile.disjoint}, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %x = tile.load %x0 : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %v = arith.mulf %x, %x : tensor<3072xf32, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<3072xf32, #row>) -> f32
    tile.barrier
    %w = tile.load %w0 : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %t = tile.splat %s : f32 -> tensor<3072xf32, #row>
    %m = arith.mulf %x, %t : tensor<3072xf32, #row>
    %r = arith.mulf %m, %w : tensor<3072xf32, #row>
    tile.store %y0, %r : tensor<3072x!tile.ptr<f32>, #row>, tensor<3072xf32, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [3072] vector 4 warps 4>

// The address depends on the sum.
// CHECK-LABEL: func.func public @found(
// CHECK: reduce(
// CHECK: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @found(%xp: !tile.ptr<f32> {tile.disjoint}, %wp: !tile.ptr<f32> {tile.disjoint}, %yp: !tile.ptr<f32> {tile.disjoint}, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %x = tile.load %x0 : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %v = arith.mulf %x, %x : tensor<3072xf32, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<3072xf32, #row>) -> f32
    %si = arith.fptosi %s : f32 to i32
    %wq = tile.addptr %wp, %si : !tile.ptr<f32>, i32
    %wn = tile.splat %wq : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %w = tile.load %wn : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %t = tile.splat %s : f32 -> tensor<3072xf32, #row>
    %m = arith.mulf %x, %t : tensor<3072xf32, #row>
    %r = arith.mulf %m, %w : tensor<3072xf32, #row>
    tile.store %y0, %r : tensor<3072x!tile.ptr<f32>, #row>, tensor<3072xf32, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [3072] vector 4 warps 4>

// Two tiles that do not fit together stay together.
// CHECK-LABEL: func.func public @all_or_none(
// CHECK: reduce(
// CHECK: tile.load
// CHECK: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @all_or_none(%xp: !tile.ptr<f32> {tile.disjoint}, %wp: !tile.ptr<f32> {tile.disjoint}, %yp: !tile.ptr<f32> {tile.disjoint}, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %x = tile.load %x0 : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %v = arith.mulf %x, %x : tensor<3072xf32, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<3072xf32, #row>) -> f32
    %w = tile.load %w0 : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %u = tile.load %y0 : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %wu = arith.addf %w, %u : tensor<3072xf32, #row>
    %t = tile.splat %s : f32 -> tensor<3072xf32, #row>
    %m = arith.mulf %x, %t : tensor<3072xf32, #row>
    %r = arith.mulf %m, %wu : tensor<3072xf32, #row>
    tile.store %y0, %r : tensor<3072x!tile.ptr<f32>, #row>, tensor<3072xf32, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [3072] vector 4 warps 4>

// A volatile read stays where the program has it.
// CHECK-LABEL: func.func public @keeps_its_place(
// CHECK: reduce(
// CHECK: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @keeps_its_place(%xp: !tile.ptr<f32> {tile.disjoint}, %wp: !tile.ptr<f32> {tile.disjoint}, %yp: !tile.ptr<f32> {tile.disjoint}, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %x = tile.load %x0 : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %v = arith.mulf %x, %x : tensor<3072xf32, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<3072xf32, #row>) -> f32
    %w = tile.load %w0 {isVolatile} : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %t = tile.splat %s : f32 -> tensor<3072xf32, #row>
    %m = arith.mulf %x, %t : tensor<3072xf32, #row>
    %r = arith.mulf %m, %w : tensor<3072xf32, #row>
    tile.store %y0, %r : tensor<3072x!tile.ptr<f32>, #row>, tensor<3072xf32, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [3072] vector 4 warps 4>

// Nor do later reads move before one.
// CHECK-LABEL: func.func public @behind_a_volatile_read(
// CHECK: reduce(
// CHECK: tile.load
// CHECK: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 4 : i32} {
  func.func public @behind_a_volatile_read(%xp: !tile.ptr<f32> {tile.disjoint}, %wp: !tile.ptr<f32> {tile.disjoint}, %yp: !tile.ptr<f32> {tile.disjoint}, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f32> -> tensor<3072x!tile.ptr<f32>, #row>
    %x = tile.load %x0 : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %v = arith.mulf %x, %x : tensor<3072xf32, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<3072xf32, #row>) -> f32
    %f = tile.load %wp {isVolatile} : !tile.ptr<f32> -> f32
    %w = tile.load %w0 : tensor<3072x!tile.ptr<f32>, #row> -> tensor<3072xf32, #row>
    %t = tile.splat %s : f32 -> tensor<3072xf32, #row>
    %m = arith.mulf %x, %t : tensor<3072xf32, #row>
    %r = arith.mulf %m, %w : tensor<3072xf32, #row>
    tile.store %y0, %r : tensor<3072x!tile.ptr<f32>, #row>, tensor<3072xf32, #row>
    return
  }
}

// -----

#row = #layout.map<blocked [16384] vector 8 warps 8>

// Long masked rows with two further tiles are unchanged, in small blocks too.
// CHECK-LABEL: func.func public @long_masked(
// CHECK: reduce(
// CHECK: tile.load
// CHECK: tile.load
// CHECK: return
module attributes {kgpu.num_warps = 8 : i32} {
  func.func public @long_masked(%xp: !tile.ptr<f16> {tile.disjoint}, %wp: !tile.ptr<f16> {tile.disjoint}, %yp: !tile.ptr<f16> {tile.disjoint}, %k: i1) attributes {tile.kernel} {
    %x0 = tile.splat %xp : !tile.ptr<f16> -> tensor<16384x!tile.ptr<f16>, #row>
    %w0 = tile.splat %wp : !tile.ptr<f16> -> tensor<16384x!tile.ptr<f16>, #row>
    %y0 = tile.splat %yp : !tile.ptr<f16> -> tensor<16384x!tile.ptr<f16>, #row>
    %x = tile.load %x0 : tensor<16384x!tile.ptr<f16>, #row> -> tensor<16384xf16, #row>
    %v = arith.mulf %x, %x : tensor<16384xf16, #row>
    %s = tile.reduce(%v) axis 0 {
    ^bb0(%a: f16, %b: f16):
      %c = arith.addf %a, %b : f16
      tile.yield %c : f16
    } : (tensor<16384xf16, #row>) -> f16
    %i = tile.make_range 0 to 16384 : tensor<16384xi32, #row>
    %e = arith.constant dense<16000> : tensor<16384xi32, #row>
    %k1 = arith.cmpi slt, %i, %e : tensor<16384xi32, #row>
    %w = tile.load %w0 : tensor<16384x!tile.ptr<f16>, #row> -> tensor<16384xf16, #row>
    %u = tile.load %y0 mask %k1 : tensor<16384x!tile.ptr<f16>, #row> mask tensor<16384xi1, #row> -> tensor<16384xf16, #row>
    %wu = arith.addf %w, %u : tensor<16384xf16, #row>
    %t = tile.splat %s : f16 -> tensor<16384xf16, #row>
    %m = arith.mulf %x, %t : tensor<16384xf16, #row>
    %r = arith.mulf %m, %wu : tensor<16384xf16, #row>
    tile.store %y0, %r : tensor<16384x!tile.ptr<f16>, #row>, tensor<16384xf16, #row>
    return
  }
}
