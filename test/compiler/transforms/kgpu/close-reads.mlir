// RUN: kiln-opt %s --split-input-file --kiln-close-reads | FileCheck %s

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// The op is placed after the last of several reads, before the first later use; uses of earlier reads may come in
// between.
// CHECK-LABEL: func.func public @run(
// CHECK: tile.load
// CHECK-NEXT: arith.addi
// CHECK-NEXT: tile.load
// CHECK-NEXT: kgpu.close_reads
// CHECK-NEXT: arith.addi
// CHECK-NOT: close_reads
// CHECK: return
func.func public @run(%xp: !tile.ptr<i32>, %yp: !tile.ptr<i32>) attributes {tile.kernel} {
  %x = tile.splat %xp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
  %y = tile.splat %yp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
  %v = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
  %d = arith.addi %v, %v : tensor<128xi32, #b>
  %w = tile.load %y : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
  %s = arith.addi %d, %w : tensor<128xi32, #b>
  tile.store %x, %s : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
  return
}

// -----

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// A single read has no other to be kept together with; a read after a possible write is in no run.
// CHECK-LABEL: func.func public @one(
// CHECK-NOT: close_reads
// CHECK: return
func.func public @one(%xp: !tile.ptr<i32>) attributes {tile.kernel} {
  %x = tile.splat %xp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
  %v = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
  tile.store %x, %v : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
  %w = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
  %u = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
  %s = arith.addi %w, %u : tensor<128xi32, #b>
  tile.store %x, %s : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
  return
}

// -----

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// Where the next launch may begin, the reads keep their place as well.
// CHECK-LABEL: func.func public @begins(
// CHECK: tile.load
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.launch_dependents
// CHECK-NEXT: arith.addi
module attributes {kgpu.pdl} {
  func.func public @begins(%xp: !tile.ptr<i32>) attributes {tile.kernel} {
    %x = tile.splat %xp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %v = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    %w = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    tile.launch_dependents
    %s = arith.addi %v, %w : tensor<128xi32, #b>
    tile.store %x, %s : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    return
  }
}

// -----

#b = #layout.map<blocked [128] order [0] vector 1 warps 4>

// If launches do not overlap, launch_dependents has no effect, so close_reads is still needed.
// CHECK-LABEL: func.func public @begins_alone(
// CHECK: tile.load
// CHECK-NEXT: tile.load
// CHECK-NEXT: tile.launch_dependents
// CHECK-NEXT: kgpu.close_reads
// CHECK-NEXT: arith.addi
module {
  func.func public @begins_alone(%xp: !tile.ptr<i32>) attributes {tile.kernel} {
    %x = tile.splat %xp : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #b>
    %v = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    %w = tile.load %x : tensor<128x!tile.ptr<i32>, #b> -> tensor<128xi32, #b>
    tile.launch_dependents
    %s = arith.addi %v, %w : tensor<128xi32, #b>
    tile.store %x, %s : tensor<128x!tile.ptr<i32>, #b>, tensor<128xi32, #b>
    return
  }
}
