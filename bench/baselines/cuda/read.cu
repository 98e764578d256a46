// Reads an array and writes nothing: the ceiling of a product of few rows, whose weights come once from memory. A thread
// has UNROLL loads of 16 bytes in flight; blocks walk the array with the stride of the grid. What is read is folded and
// stored only if it equals `never`, which random data do not give.

extern "C" __global__ void __launch_bounds__(THREADS)
    read(const uint4 *in, uint4 *out, long long vectors, unsigned never) {
  uint4 folded = make_uint4(0, 0, 0, 0);
  long long stride = (long long)gridDim.x * THREADS * UNROLL;
  for (long long start = (long long)blockIdx.x * THREADS * UNROLL; start < vectors; start += stride) {
    uint4 held[UNROLL];
#pragma unroll
    for (int k = 0; k < UNROLL; ++k) {
      long long i = start + k * THREADS + threadIdx.x;
      held[k] = make_uint4(0, 0, 0, 0);
      if (i < vectors)
#if HINT == 1
        asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(held[k].x), "=r"(held[k].y), "=r"(held[k].z), "=r"(held[k].w)
                     : "l"(in + i));
#else
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(held[k].x), "=r"(held[k].y), "=r"(held[k].z), "=r"(held[k].w)
                     : "l"(in + i));
#endif
    }
#pragma unroll
    for (int k = 0; k < UNROLL; ++k) {
      folded.x ^= held[k].x, folded.y ^= held[k].y;
      folded.z ^= held[k].z, folded.w ^= held[k].w;
    }
  }
  if ((folded.x | folded.y | folded.z | folded.w) == never)
    out[0] = folded;
}
