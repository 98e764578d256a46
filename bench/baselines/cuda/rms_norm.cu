// RMSNorm of float16 rows by hand: first as one writes it down, then with 16-byte accesses and warp shuffles.

// One block of 256 threads per row; two passes over the row, sums through shared memory.
extern "C" __global__ void rms_norm_naive(const half_t *x, const half_t *weight, half_t *y, int n, float eps) {
  __shared__ float partial[256];
  const half_t *row = x + (long long)blockIdx.x * n;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float value = toFloat(row[i]);
    sum += value * value;
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step)
      partial[threadIdx.x] += partial[threadIdx.x + step];
    __syncthreads();
  }
  float scale = rsqrtf(partial[0] / n + eps);
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    y[(long long)blockIdx.x * n + i] = toHalf(toFloat(row[i]) * scale * toFloat(weight[i]));
}

// One block of THREADS per row of n = 8 * vectors elements. The row stays in registers, VECTORS accesses a thread; with
// RELOAD it is too long for that and the second pass reads it again, mostly from the L2.
extern "C" __global__ void __launch_bounds__(THREADS)
    rms_norm_vector(const uint4 *x, const uint4 *weight, uint4 *y, int vectors, float eps) {
  __shared__ float partial[32];
  const uint4 *row = x + (long long)blockIdx.x * vectors;
  uint4 *out = y + (long long)blockIdx.x * vectors;
  float sum = 0.0f;
#if RELOAD
#pragma unroll 4
  for (int i = threadIdx.x; i < vectors; i += THREADS) {
    float values[8];
    uint4 held = row[i]; // whole: a reference would be read word by word
    unpack8(held, values);
#pragma unroll
    for (int j = 0; j < 8; ++j)
      sum += values[j] * values[j];
  }
#else
  uint4 held[VECTORS], scales[VECTORS];
#pragma unroll
  for (int k = 0; k < VECTORS; ++k) {
    int i = threadIdx.x + k * THREADS;
    held[k] = i < vectors ? row[i] : make_uint4(0, 0, 0, 0);
    scales[k] = i < vectors ? weight[i] : make_uint4(0, 0, 0, 0);
  }
#pragma unroll
  for (int k = 0; k < VECTORS; ++k) {
    float values[8];
    unpack8(held[k], values);
#pragma unroll
    for (int j = 0; j < 8; ++j)
      sum += values[j] * values[j];
  }
#endif
  sum = warpSum(sum);
  if (threadIdx.x % 32 == 0)
    partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = warpSum(threadIdx.x % 32 < THREADS / 32 ? partial[threadIdx.x % 32] : 0.0f);
  float scale = rsqrtf(sum / (8.0f * vectors) + eps);
#if RELOAD
#pragma unroll 4
  for (int i = threadIdx.x; i < vectors; i += THREADS) {
    float values[8], factors[8];
    uint4 held = row[i], scales = weight[i];
    unpack8(held, values);
    unpack8(scales, factors);
#pragma unroll
    for (int j = 0; j < 8; ++j)
      values[j] *= scale * factors[j];
    out[i] = pack8(values);
  }
#else
#pragma unroll
  for (int k = 0; k < VECTORS; ++k) {
    int i = threadIdx.x + k * THREADS;
    float values[8], factors[8];
    unpack8(held[k], values);
    unpack8(scales[k], factors);
#pragma unroll
    for (int j = 0; j < 8; ++j)
      values[j] *= scale * factors[j];
    if (i < vectors)
      out[i] = pack8(values);
  }
#endif
}
