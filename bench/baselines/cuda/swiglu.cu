// SwiGLU of float16 arrays by hand: one element a thread, then UNROLL 16-byte accesses of each input a thread.

__device__ __forceinline__ float gated(float gate, float up) { return gate / (1.0f + __expf(-gate)) * up; }

extern "C" __global__ void swiglu_naive(const half_t *gate, const half_t *up, half_t *y, long long n) {
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = toHalf(gated(toFloat(gate[i]), toFloat(up[i])));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    swiglu_vector(const uint4 *gate, const uint4 *up, uint4 *y, long long vectors) {
  long long start = (long long)blockIdx.x * THREADS * UNROLL + threadIdx.x;
  uint4 gates[UNROLL], ups[UNROLL];
#pragma unroll
  for (int k = 0; k < UNROLL; ++k) {
    long long i = start + k * THREADS;
    if (i < vectors) {
      gates[k] = gate[i];
      ups[k] = up[i];
    }
  }
#pragma unroll
  for (int k = 0; k < UNROLL; ++k) {
    long long i = start + k * THREADS;
    if (i >= vectors)
      return;
    float left[8], right[8];
    unpack8(gates[k], left);
    unpack8(ups[k], right);
#pragma unroll
    for (int j = 0; j < 8; ++j)
      left[j] = gated(left[j], right[j]);
    y[i] = pack8(left);
  }
}
