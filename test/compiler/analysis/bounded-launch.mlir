// What a checked launch guarantees: arguments from 0 to 2^30, at most 2^19 programs along an axis.
// RUN: sed 's/^module/module attributes {kgpu.describe_pointers}/' %s | kiln-opt --pass-pipeline='builtin.module(func.func(kiln-print-alignment))' | FileCheck %s
// RUN: kiln-opt %s --pass-pipeline='builtin.module(func.func(kiln-print-alignment))' | FileCheck %s --check-prefix=ANY

module {
  // Rows that wrap around into an array count up as far as the divisor of their number: no intermediate sum wraps.
  func.func @folded(%n: i32 {tile.divisibility = 16 : i64}) -> tensor<128xi32> {
    %c128 = arith.constant 128 : i32
    // CHECK: tile.program_id {{.*}}range [0, 524287]
    // ANY: tile.program_id {{.*}}range [0, 2147483646]
    %pid = tile.program_id x : i32
    // CHECK: tile.num_programs {{.*}}range [1, 524288]
    %programs = tile.num_programs x : i32
    %start = arith.muli %pid, %c128 : i32
    %lanes = tile.make_range 0 to 128 : tensor<128xi32>
    %starts = tile.splat %start : i32 -> tensor<128xi32>
    %rows = arith.addi %starts, %lanes : tensor<128xi32>
    // CHECK: tile.splat {{.*}}range [0, 1073741824]
    %limit = tile.splat %n : i32 -> tensor<128xi32>
    // CHECK: arith.remsi {{.*}}group [16] step [1] divisible [16]
    // ANY: arith.remsi {{.*}}group [1] step [0]
    %folded = arith.remsi %rows, %limit : tensor<128xi32>
    return %folded : tensor<128xi32>
  }
}
