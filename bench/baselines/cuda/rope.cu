// Rotary embedding of (tokens, heads, 2 * half) in float16 with float32 tables (tokens, half), by hand: one pair a
// thread, then eight neighbouring pairs of PER_THREAD heads a thread, whose angles it reads once.

extern "C" __global__ void rope_naive(const half_t *q, const float *cosines, const float *sines, half_t *y, int heads,
                                      int half) {
  int token = blockIdx.x;
  for (int pair = threadIdx.x; pair < heads * half; pair += blockDim.x) {
    int head = pair / half, column = pair % half;
    long long at = ((long long)token * heads + head) * 2 * half + column;
    float c = cosines[(long long)token * half + column], s = sines[(long long)token * half + column];
    float first = toFloat(q[at]), second = toFloat(q[at + half]);
    y[at] = toHalf(first * c - second * s);
    y[at + half] = toHalf(second * c + first * s);
  }
}

__device__ __forceinline__ void load8(const float *from, float (&values)[8]) {
  float4 low = ((const float4 *)from)[0], high = ((const float4 *)from)[1];
  values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
  values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
}

// HALF is a multiple of 8 and HEADS of PER_THREAD: HEADS / PER_THREAD * HALF / 8 threads rotate one token.
extern "C" __global__ void __launch_bounds__(THREADS)
    rope_vector(const uint4 *q, const float *cosines, const float *sines, uint4 *y, int tokens) {
  const int columns = HALF / 8, perToken = HEADS / PER_THREAD * columns;
  int thread = blockIdx.x * THREADS + threadIdx.x;
  int token = thread / perToken, rest = thread % perToken;
  if (token >= tokens)
    return;
  int column = rest % columns, head = rest / columns;
  uint4 first[PER_THREAD], second[PER_THREAD];
  long long at[PER_THREAD];
#pragma unroll
  for (int k = 0; k < PER_THREAD; ++k) {
    at[k] = ((long long)token * HEADS + head + k * (HEADS / PER_THREAD)) * 2 * columns + column;
    first[k] = q[at[k]];
    second[k] = q[at[k] + columns];
  }
  float c[8], s[8];
  load8(cosines + (long long)token * HALF + 8 * column, c);
  load8(sines + (long long)token * HALF + 8 * column, s);
#pragma unroll
  for (int k = 0; k < PER_THREAD; ++k) {
    float a[8], b[8], left[8], right[8];
    unpack8(first[k], a);
    unpack8(second[k], b);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      left[j] = a[j] * c[j] - b[j] * s[j];
      right[j] = b[j] * c[j] + a[j] * s[j];
    }
    y[at[k]] = pack8(left);
    y[at[k] + columns] = pack8(right);
  }
}
