// On a GPU, a function with a long reduction of huge arguments is expanded once if a thread computes it 64 times; other
// functions are expanded in place, however often they occur.
// RUN: kiln-opt %s --kiln-set-target=target=sm_90a --kiln-expand-math | FileCheck %s

// CHECK-LABEL: func.func @often(
// CHECK-COUNT-64: call @kiln_sin(%{{.*}}) : (f32) -> f32
// CHECK-NOT: call @
// CHECK: return
func.func @often(%x0: f32) -> f32 {
  %x1 = math.sin %x0 : f32
  %x2 = math.sin %x1 : f32
  %x3 = math.sin %x2 : f32
  %x4 = math.sin %x3 : f32
  %x5 = math.sin %x4 : f32
  %x6 = math.sin %x5 : f32
  %x7 = math.sin %x6 : f32
  %x8 = math.sin %x7 : f32
  %x9 = math.sin %x8 : f32
  %x10 = math.sin %x9 : f32
  %x11 = math.sin %x10 : f32
  %x12 = math.sin %x11 : f32
  %x13 = math.sin %x12 : f32
  %x14 = math.sin %x13 : f32
  %x15 = math.sin %x14 : f32
  %x16 = math.sin %x15 : f32
  %x17 = math.sin %x16 : f32
  %x18 = math.sin %x17 : f32
  %x19 = math.sin %x18 : f32
  %x20 = math.sin %x19 : f32
  %x21 = math.sin %x20 : f32
  %x22 = math.sin %x21 : f32
  %x23 = math.sin %x22 : f32
  %x24 = math.sin %x23 : f32
  %x25 = math.sin %x24 : f32
  %x26 = math.sin %x25 : f32
  %x27 = math.sin %x26 : f32
  %x28 = math.sin %x27 : f32
  %x29 = math.sin %x28 : f32
  %x30 = math.sin %x29 : f32
  %x31 = math.sin %x30 : f32
  %x32 = math.sin %x31 : f32
  %x33 = math.sin %x32 : f32
  %x34 = math.sin %x33 : f32
  %x35 = math.sin %x34 : f32
  %x36 = math.sin %x35 : f32
  %x37 = math.sin %x36 : f32
  %x38 = math.sin %x37 : f32
  %x39 = math.sin %x38 : f32
  %x40 = math.sin %x39 : f32
  %x41 = math.sin %x40 : f32
  %x42 = math.sin %x41 : f32
  %x43 = math.sin %x42 : f32
  %x44 = math.sin %x43 : f32
  %x45 = math.sin %x44 : f32
  %x46 = math.sin %x45 : f32
  %x47 = math.sin %x46 : f32
  %x48 = math.sin %x47 : f32
  %x49 = math.sin %x48 : f32
  %x50 = math.sin %x49 : f32
  %x51 = math.sin %x50 : f32
  %x52 = math.sin %x51 : f32
  %x53 = math.sin %x52 : f32
  %x54 = math.sin %x53 : f32
  %x55 = math.sin %x54 : f32
  %x56 = math.sin %x55 : f32
  %x57 = math.sin %x56 : f32
  %x58 = math.sin %x57 : f32
  %x59 = math.sin %x58 : f32
  %x60 = math.sin %x59 : f32
  %x61 = math.sin %x60 : f32
  %x62 = math.sin %x61 : f32
  %x63 = math.sin %x62 : f32
  %x64 = math.sin %x63 : f32
  return %x64 : f32
}

// CHECK-LABEL: func.func @exponentials(
// CHECK-NOT: call @
// CHECK: return
func.func @exponentials(%x0: f32) -> f32 {
  %x1 = math.exp %x0 : f32
  %x2 = math.exp %x1 : f32
  %x3 = math.exp %x2 : f32
  %x4 = math.exp %x3 : f32
  %x5 = math.exp %x4 : f32
  %x6 = math.exp %x5 : f32
  %x7 = math.exp %x6 : f32
  %x8 = math.exp %x7 : f32
  %x9 = math.exp %x8 : f32
  %x10 = math.exp %x9 : f32
  %x11 = math.exp %x10 : f32
  %x12 = math.exp %x11 : f32
  %x13 = math.exp %x12 : f32
  %x14 = math.exp %x13 : f32
  %x15 = math.exp %x14 : f32
  %x16 = math.exp %x15 : f32
  %x17 = math.exp %x16 : f32
  %x18 = math.exp %x17 : f32
  %x19 = math.exp %x18 : f32
  %x20 = math.exp %x19 : f32
  %x21 = math.exp %x20 : f32
  %x22 = math.exp %x21 : f32
  %x23 = math.exp %x22 : f32
  %x24 = math.exp %x23 : f32
  %x25 = math.exp %x24 : f32
  %x26 = math.exp %x25 : f32
  %x27 = math.exp %x26 : f32
  %x28 = math.exp %x27 : f32
  %x29 = math.exp %x28 : f32
  %x30 = math.exp %x29 : f32
  %x31 = math.exp %x30 : f32
  %x32 = math.exp %x31 : f32
  %x33 = math.exp %x32 : f32
  %x34 = math.exp %x33 : f32
  %x35 = math.exp %x34 : f32
  %x36 = math.exp %x35 : f32
  %x37 = math.exp %x36 : f32
  %x38 = math.exp %x37 : f32
  %x39 = math.exp %x38 : f32
  %x40 = math.exp %x39 : f32
  %x41 = math.exp %x40 : f32
  %x42 = math.exp %x41 : f32
  %x43 = math.exp %x42 : f32
  %x44 = math.exp %x43 : f32
  %x45 = math.exp %x44 : f32
  %x46 = math.exp %x45 : f32
  %x47 = math.exp %x46 : f32
  %x48 = math.exp %x47 : f32
  %x49 = math.exp %x48 : f32
  %x50 = math.exp %x49 : f32
  %x51 = math.exp %x50 : f32
  %x52 = math.exp %x51 : f32
  %x53 = math.exp %x52 : f32
  %x54 = math.exp %x53 : f32
  %x55 = math.exp %x54 : f32
  %x56 = math.exp %x55 : f32
  %x57 = math.exp %x56 : f32
  %x58 = math.exp %x57 : f32
  %x59 = math.exp %x58 : f32
  %x60 = math.exp %x59 : f32
  %x61 = math.exp %x60 : f32
  %x62 = math.exp %x61 : f32
  %x63 = math.exp %x62 : f32
  %x64 = math.exp %x63 : f32
  return %x64 : f32
}

// CHECK-LABEL: func.func @tangents(
// CHECK-NOT: call @
// CHECK: return
func.func @tangents(%x0: f32) -> f32 {
  %x1 = math.tan %x0 : f32
  %x2 = math.tan %x1 : f32
  %x3 = math.tan %x2 : f32
  %x4 = math.tan %x3 : f32
  return %x4 : f32
}

// CHECK-LABEL: func.func private @kiln_sin(%{{.*}}: f32) -> f32
// CHECK-SAME: passthrough = ["noinline"]
// CHECK-NOT: math.sin
