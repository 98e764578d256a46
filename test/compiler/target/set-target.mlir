// The row named on the command line is attached to the module; a bad name or an invalid row is rejected, and the error
// says what is allowed.
// RUN: kiln-opt %s --kiln-set-target=target=cpu-avx512 | FileCheck %s --check-prefix=AVX512
// RUN: kiln-opt %s --kiln-set-target=target=cpu-avx2 | FileCheck %s --check-prefix=AVX2
// RUN: kiln-opt %s --kiln-set-target=target=cpu-sse | FileCheck %s --check-prefix=SSE
// RUN: kiln-opt %s --kiln-set-target=target=sm_90a | FileCheck %s --check-prefix=SM90
// RUN: kiln-opt %s --kiln-set-target=target=sm_120a | kiln-opt --kiln-set-target | FileCheck %s --check-prefix=SM120
// RUN: kiln-opt %s --kiln-set-target | FileCheck %s --check-prefix=HOST
// RUN: kiln-opt %s --kiln-set-target=target=cpu-avx2 | kiln-opt --kiln-set-target | FileCheck %s --check-prefix=AVX2
// RUN: not kiln-opt %s --kiln-set-target=target=cpu-avx3 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not kiln-opt %s --kiln-set-target=target=wheelbarrow 2>&1 | FileCheck %s --check-prefix=FAR

// AVX512: kiln.target = {capabilities = ["fma", "f16c", "masked_memory", "masked_bytes", "gather", "scatter"]
// AVX512-SAME: cpu = "x86-64-v4", features = "", kind = "cpu", name = "cpu-avx512", register_tile = array<i64: 8, 32>
// AVX512-SAME: vector_bytes = 64 : i64, vector_registers = 32 : i64
// AVX2: kiln.target = {capabilities = ["fma", "f16c", "masked_memory", "gather"], cpu = "x86-64-v3"
// AVX2-SAME: register_tile = array<i64: 4, 16>
// AVX2-SAME: vector_bytes = 32 : i64, vector_registers = 16 : i64
// SSE: kiln.target = {capabilities = [], cpu = "x86-64-v2"
// SSE-SAME: register_tile = array<i64: 4, 8>
// SSE-SAME: vector_bytes = 16 : i64
// SM90: kiln.target = {capabilities = ["fma", "f16c", "bf16", "special_functions",
// SM90-SAME: "cluster", "pdl"], cpu = "sm_90a", features = "", kind = "cuda",
// SM90-SAME: limits = {max_cluster = 16 : i64, max_registers = 255 : i64, max_shared_bytes = 232448 : i64
// SM90-SAME: vector_bytes = 16 : i64
// SM120: limits = {max_cluster = 8 : i64, {{.*}}max_shared_bytes = 101376 : i64
// SM120-SAME: min_ptx_version = 87 : i64
// SM120-SAME: vector_bytes = 32 : i64
// HOST: kiln.target = {{.*}}name = "cpu",
// UNKNOWN: unknown target 'cpu-avx3': expected one of cpu, cpu-avx512, cpu-avx2, cpu-sse, sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a (did you mean 'cpu-avx2'?)
// FAR: unknown target 'wheelbarrow': expected one of cpu, cpu-avx512, cpu-avx2, cpu-sse, sm_80, {{.*}}sm_120a{{$}}
module {
}
