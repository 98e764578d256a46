// Put before every baseline: float16 pairs and 16-byte vectors, without headers (NVRTC comes without them).
typedef unsigned short half_t;

__device__ __forceinline__ float toFloat(half_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ __forceinline__ half_t toHalf(float value) {
  half_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ __forceinline__ void unpack(unsigned pair, float &low, float &high) {
  low = toFloat((half_t)(pair & 0xffffu));
  high = toFloat((half_t)(pair >> 16));
}

__device__ __forceinline__ unsigned pack(float low, float high) {
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// Eight float16 values of one 16-byte access.
__device__ __forceinline__ void unpack8(const uint4 &vector, float (&values)[8]) {
  unpack(vector.x, values[0], values[1]);
  unpack(vector.y, values[2], values[3]);
  unpack(vector.z, values[4], values[5]);
  unpack(vector.w, values[6], values[7]);
}

__device__ __forceinline__ uint4 pack8(const float (&values)[8]) {
  return make_uint4(pack(values[0], values[1]), pack(values[2], values[3]), pack(values[4], values[5]),
                    pack(values[6], values[7]));
}

__device__ __forceinline__ float warpSum(float value) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, lane);
  return value;
}
