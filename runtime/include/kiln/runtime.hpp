// Kernels compiled by Kiln, from C++17: what the headers that `kiln export` writes are made of.
//
//   auto kernel = kernels::rms_norm::load();
//   if (!kernel)
//     return report(kernel.status());
//   kiln::Status status = kernel->launch(kiln::Stream::cuda(stream), {rows}, x, weight, y, …);
//
// Errors are values: a Status describes a failure in one sentence; a Result<T> is a T or a Status. Nothing throws.
// Kernels may be copied, which shares them, and launched from any thread, on any device.
#pragma once
#include <kiln/runtime.h>

#include <array>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace kiln {

//===-- Errors ---------------------------------------------------------------------------------------------------===//

enum class Code : std::int32_t {
  Ok = KILN_OK,
  InvalidArgument = KILN_INVALID_ARGUMENT,
  Corrupt = KILN_CORRUPT,
  OutOfResources = KILN_OUT_OF_RESOURCES,
  Internal = KILN_INTERNAL,
  DeviceLost = KILN_DEVICE_LOST,
  NoVariant = KILN_NO_VARIANT,
  AssertionFailed = KILN_ASSERTION_FAILED,
};

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  /// The status of the C interface's function that this thread has just called.
  static Status of(kiln_status status) { return status == KILN_OK ? Status() : Status(Code(status), kiln_message()); }

  bool ok() const { return code_ == Code::Ok; }
  explicit operator bool() const { return ok(); }
  Code code() const { return code_; }
  const std::string &message() const { return message_; }

private:
  Code code_ = Code::Ok;
  std::string message_;
};

/// A value, or the reason why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status &status() const { return status_; }
  T &operator*() & { return *value_; }
  const T &operator*() const & { return *value_; }
  T &&operator*() && { return *std::move(value_); }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

private:
  std::optional<T> value_;
  Status status_;
};

//===-- Where launches go ----------------------------------------------------------------------------------------===//

/// The number of program instances along each axis; axes that are left out are 1.
struct Grid {
  constexpr Grid(std::int64_t x, std::int64_t y = 1, std::int64_t z = 1) : x(x), y(y), z(z) {}
  std::int64_t x, y, z;

  /// A number out of range becomes one that every launch refuses.
  operator kiln_grid() const { return {side(x), side(y), side(z)}; }

private:
  static constexpr std::int32_t side(std::int64_t n) { return n < 0 || n > INT32_MAX ? -1 : std::int32_t(n); }
};

/// A stream of a GPU, or the CPU, where a launch has finished when it returns.
class Stream {
public:
  static Stream cpu() { return Stream(KILN_CPU, nullptr); }
  /// `stream` is a cudaStream_t or CUstream of that device; null: its default stream.
  static Stream cuda(void *stream = nullptr, int device = 0) { return Stream(device, stream); }

  int device() const { return device_; }
  operator kiln_stream() const { return {device_, stream_}; }

private:
  Stream(int device, void *stream) : device_(device), stream_(stream) {}
  int device_;
  void *stream_;
};

/// The number of GPUs that the driver sees; without a driver an error that says so.
inline Result<int> device_count() {
  std::int32_t count = 0;
  if (Status status = Status::of(kiln_device_count(&count)); !status)
    return status;
  return int(count);
}

/// Waits for everything queued on a GPU; returns a kernel's failed assertion.
inline Status synchronize(int device = 0) { return Status::of(kiln_synchronize(device)); }

//===-- Elements -------------------------------------------------------------------------------------------------===//

namespace detail {
inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// The bits of `value` in a format with `exponent` bits of exponent and `mantissa` of fraction, rounded to nearest
/// even.
inline std::uint16_t narrow(float value, int exponent, int mantissa) {
  const std::uint32_t bits = bits_of(value), size = bits & 0x7fffffff;
  const std::uint32_t sign = (bits >> 31) << (exponent + mantissa), infinity = ((1u << exponent) - 1) << mantissa;
  if (size > 0x7f800000)
    return std::uint16_t(sign | infinity | 1u << (mantissa - 1));
  const int power = int(size >> 23 ? size >> 23 : 1) - 127, bias = (1 << (exponent - 1)) - 1;
  // A subnormal result keeps fewer bits of the fraction.
  int shift = 23 - mantissa + (power + bias < 1 ? 1 - power - bias : 0);
  if (shift > 25)
    return std::uint16_t(sign);
  std::uint32_t fraction = (size & 0x7fffff) | (size >> 23 ? 0x800000u : 0u);
  std::uint32_t rounded = fraction >> shift, rest = fraction & ((1u << shift) - 1), half = 1u << (shift - 1);
  rounded += rest > half || (rest == half && (rounded & 1));
  // The leading bit of a normal number adds one to the exponent.
  std::uint32_t result = power + bias < 1 ? rounded : rounded + (std::uint32_t(power + bias - 1) << mantissa);
  return std::uint16_t(sign | (result < infinity ? result : infinity));
}

inline float widen(std::uint16_t bits, int exponent, int mantissa) {
  const std::uint32_t sign = std::uint32_t(bits >> (exponent + mantissa)) << 31;
  const std::uint32_t power = (bits >> mantissa) & ((1u << exponent) - 1), fraction = bits & ((1u << mantissa) - 1);
  const int bias = (1 << (exponent - 1)) - 1;
  if (power == (1u << exponent) - 1)
    return float_of(sign | 0x7f800000 | fraction << (23 - mantissa));
  if (power)
    return float_of(sign | (power + 127 - bias) << 23 | fraction << (23 - mantissa));
  // A subnormal number is exact in fp32; those of bf16 have the exponent of fp32's own.
  if (bias == 127)
    return float_of(sign | fraction << (23 - mantissa));
  float unit = float_of(std::uint32_t(127 + 1 - bias - mantissa) << 23);
  return (sign ? -1.0f : 1.0f) * float(fraction) * unit;
}
} // namespace detail

/// One element in memory, for types that C++ has no name for.
struct f16 {
  std::uint16_t bits = 0;
  f16() = default;
  explicit f16(float value) : bits(detail::narrow(value, 5, 10)) {}
  explicit operator float() const { return detail::widen(bits, 5, 10); }
};
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float value) : bits(detail::narrow(value, 8, 7)) {}
  explicit operator float() const { return detail::widen(bits, 8, 7); }
};
struct f8e4m3 {
  std::uint8_t bits = 0;
};
struct f8e5m2 {
  std::uint8_t bits = 0;
};

/// The element type of an array of T. Types of other libraries with the same representation may be added:
///   template <> struct kiln::Element<__half> : kiln::Element<kiln::f16> {};
template <typename T> struct Element;
template <> struct Element<bool> {
  static constexpr kiln_element value = KILN_I1;
};
template <> struct Element<std::int8_t> {
  static constexpr kiln_element value = KILN_I8;
};
template <> struct Element<std::int16_t> {
  static constexpr kiln_element value = KILN_I16;
};
template <> struct Element<std::int32_t> {
  static constexpr kiln_element value = KILN_I32;
};
template <> struct Element<std::int64_t> {
  static constexpr kiln_element value = KILN_I64;
};
template <> struct Element<std::uint8_t> {
  static constexpr kiln_element value = KILN_U8;
};
template <> struct Element<std::uint16_t> {
  static constexpr kiln_element value = KILN_U16;
};
template <> struct Element<std::uint32_t> {
  static constexpr kiln_element value = KILN_U32;
};
template <> struct Element<std::uint64_t> {
  static constexpr kiln_element value = KILN_U64;
};
template <> struct Element<f8e4m3> {
  static constexpr kiln_element value = KILN_FP8E4NV;
};
template <> struct Element<f8e5m2> {
  static constexpr kiln_element value = KILN_FP8E5;
};
template <> struct Element<f16> {
  static constexpr kiln_element value = KILN_FP16;
};
template <> struct Element<bf16> {
  static constexpr kiln_element value = KILN_BF16;
};
template <> struct Element<float> {
  static constexpr kiln_element value = KILN_FP32;
};
template <> struct Element<double> {
  static constexpr kiln_element value = KILN_FP64;
};

//===-- Arrays ---------------------------------------------------------------------------------------------------===//

/// The address of an array of T (const T: the kernel only reads it) in the memory of the device it is launched on.
/// Converts from any pointer to a type with the same element type, and explicitly from void pointers. May be null if
/// the kernel accesses none of it, which a launch cannot know.
template <typename T> class Array {
  template <typename U>
  using if_alike = std::enable_if_t<Element<std::remove_const_t<U>>::value == Element<std::remove_const_t<T>>::value &&
                                    (std::is_const_v<T> || !std::is_const_v<U>)>;
  using Void = std::conditional_t<std::is_const_v<T>, const void, void>;

public:
  constexpr Array(std::nullptr_t) : data_(nullptr) {}
  template <typename U, typename = if_alike<U>> constexpr Array(U *data) : data_(data) {}
  template <typename U, typename = if_alike<U>> constexpr Array(Array<U> other) : data_(other.data()) {}
  explicit constexpr Array(Void *data) : data_(data) {}

  constexpr Void *data() const { return data_; }

private:
  Void *data_;
};

/// An array of any element type that the kernel was exported for; the type selects the variant.
class AnyArray {
public:
  constexpr AnyArray(std::nullptr_t) : data_(nullptr), element_(KILN_I8) {}
  template <typename T, kiln_element element = Element<std::remove_const_t<T>>::value>
  constexpr AnyArray(T *data) : data_(data), element_(element) {}
  template <typename T>
  constexpr AnyArray(Array<T> array) : data_(array.data()), element_(Element<std::remove_const_t<T>>::value) {}
  constexpr AnyArray(const void *data, kiln_element element) : data_(data), element_(element) {}

  constexpr const void *data() const { return data_; }
  constexpr kiln_element element() const { return element_; }
  operator kiln_array() const { return {const_cast<void *>(data_), element_}; }

private:
  const void *data_;
  kiln_element element_;
};

/// An array that the kernel reads and writes in blocks. Outermost dimension first, in elements; without strides, the
/// array has no gaps.
template <typename T, int rank> class Descriptor {
public:
  using Sides = std::array<std::int64_t, rank>;

  Descriptor(Array<T> base, const Sides &shape) : Descriptor(base, shape, packed(shape)) {}
  Descriptor(Array<T> base, const Sides &shape, const Sides &strides) : base_(base), shape_(shape), strides_(strides) {}

  kiln_descriptor get() const {
    kiln_descriptor result = {};
    result.base = AnyArray(base_);
    result.rank = rank;
    for (int i = 0; i < rank; ++i) {
      result.shape[i] = shape_[std::size_t(i)];
      result.strides[i] = strides_[std::size_t(i)];
    }
    return result;
  }

private:
  static Sides packed(const Sides &shape) {
    Sides strides;
    std::int64_t stride = 1;
    for (int i = rank; i-- > 0; stride *= shape[std::size_t(i)])
      strides[std::size_t(i)] = stride;
    return strides;
  }
  Array<T> base_;
  Sides shape_, strides_;
};

//===-- Kernels --------------------------------------------------------------------------------------------------===//

/// Shared ownership of a kernel: what exported classes are made of.
class Kernel {
public:
  static Result<Kernel> create(kiln_status (*load)(kiln_kernel **)) {
    kiln_kernel *made = nullptr;
    if (Status status = Status::of(load(&made)); !status)
      return status;
    return Kernel(made);
  }

  Kernel(const Kernel &other) : kernel_(other.kernel_) {
    if (kernel_)
      kiln_kernel_retain(kernel_);
  }
  Kernel(Kernel &&other) noexcept : kernel_(std::exchange(other.kernel_, nullptr)) {}
  Kernel &operator=(Kernel other) noexcept {
    std::swap(kernel_, other.kernel_);
    return *this;
  }
  ~Kernel() { kiln_kernel_release(kernel_); }

  kiln_kernel *get() const { return kernel_; }
  Status prepare(int device) const { return Status::of(kiln_kernel_prepare(kernel_, device)); }

private:
  explicit Kernel(kiln_kernel *kernel) : kernel_(kernel) {}
  kiln_kernel *kernel_;
};

} // namespace kiln
