// Moves bytes and computes nothing: the ceiling of a kernel with READS input arrays and WRITES output arrays of
// `vectors` 16-byte vectors each. A thread has UNROLL loads of every input in flight before its first store; blocks
// walk the arrays with the stride of the grid, so that a grid may cover them at once or stay resident.
//
// Output w is input w, bit for bit. Inputs beyond the outputs must be loaded too: they are folded into output 0 under
// `mask`, which is 0 at run time; so are EXTRAS small arrays of `vectors0` and `vectors1` vectors (weights, tables),
// each read once. Arrays may be the same (an operation in place).

__device__ __forceinline__ uint4 load(const uint4 *from) {
  uint4 value;
#if HINT == 2
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("ld.global.L1::evict_last.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from), "l"(policy));
#else
#if HINT == 1
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
#else
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
#endif
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
#endif
  return value;
}

__device__ __forceinline__ void store(uint4 *to, uint4 value) {
#if HINT == 1
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to),
#else
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to),
#endif
               "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    move(const uint4 *in0, const uint4 *in1, const uint4 *in2, const uint4 *in3, uint4 *out0, uint4 *out1, uint4 *out2,
         const uint4 *extra0, const uint4 *extra1, long long vectors0, long long vectors1, long long vectors,
         unsigned mask) {
  const uint4 *const in[4] = {in0, in1, in2, in3};
  uint4 *const out[3] = {out0, out1, out2};
  const uint4 *const extra[2] = {extra0, extra1};
  const long long extras[2] = {vectors0, vectors1};
  uint4 first[2], folded = make_uint4(0, 0, 0, 0);
  long long thread = (long long)blockIdx.x * THREADS + threadIdx.x, threads = (long long)gridDim.x * THREADS;
#pragma unroll
  for (int e = 0; e < EXTRAS; ++e) {
    first[e] = make_uint4(0, 0, 0, 0);
    if (thread < extras[e])
      first[e] = load(extra[e] + thread);
  }
  long long stride = (long long)gridDim.x * THREADS * UNROLL;
  for (long long start = (long long)blockIdx.x * THREADS * UNROLL; start < vectors; start += stride) {
    uint4 held[UNROLL][READS];
#pragma unroll
    for (int k = 0; k < UNROLL; ++k) {
      long long i = start + k * THREADS + threadIdx.x;
#pragma unroll
      for (int r = 0; r < READS; ++r)
        if (i < vectors)
          held[k][r] = load(in[r] + i);
    }
#pragma unroll
    for (int k = 0; k < UNROLL; ++k) {
      long long i = start + k * THREADS + threadIdx.x;
      if (i >= vectors)
        break;
#pragma unroll
      for (int r = WRITES; r < READS; ++r) {
        held[k][0].x ^= held[k][r].x & mask;
        held[k][0].y ^= held[k][r].y & mask;
        held[k][0].z ^= held[k][r].z & mask;
        held[k][0].w ^= held[k][r].w & mask;
      }
#pragma unroll
      for (int w = 0; w < WRITES; ++w)
        store(out[w] + i, held[k][w]);
    }
  }
#pragma unroll
  for (int e = 0; e < EXTRAS; ++e) {
    for (long long i = thread + threads; i < extras[e]; i += threads)
      folded.x ^= load(extra[e] + i).x;
    folded.x ^= first[e].x ^ first[e].y ^ first[e].z ^ first[e].w;
  }
  if (folded.x & mask)
    store(out[0], folded);
}
