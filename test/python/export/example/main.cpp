// RMSNorm and a matrix product of Kiln's library, launched on the CPU and checked against plain loops.
#include "matmul.hpp"
#include "rms_norm.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

/// Exits with the message of a failed status.
void require(const kiln::Status &status) {
  if (status)
    return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

template <typename T> T require(kiln::Result<T> result) {
  if (!result)
    require(result.status());
  return *std::move(result);
}

/// Elements at an address aligned to 64 bytes, with values from -1 to 1.
template <typename T> class Tensor {
public:
  explicit Tensor(std::size_t count) : storage_(count + 64 / sizeof(T)), count_(count) {
    static std::uint32_t state = 1;
    for (std::size_t i = 0; i < count; ++i) {
      state = state * 1664525u + 1013904223u;
      data()[i] = T(float(state >> 8) / float(1 << 23) - 1.0f);
    }
  }
  T *data() {
    auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    return storage_.data() + (64 - address % 64) % 64 / sizeof(T);
  }
  float operator[](std::size_t i) { return float(data()[i]); }
  std::size_t size() const { return count_; }

private:
  std::vector<T> storage_;
  std::size_t count_;
};

void expect_close(const char *what, float got, double expected, double tolerance) {
  if (std::abs(double(got) - expected) <= tolerance)
    return;
  std::fprintf(stderr, "%s: expected %g, got %g\n", what, expected, double(got));
  std::exit(1);
}

void check_rms_norm(const kernels::rms_norm &kernel, int rows, int n, int stride) {
  const float eps = 1e-5f;
  const std::size_t count = std::size_t(rows) * std::size_t(stride);
  Tensor<kiln::f16> x(count), weight(std::size_t(n) + 8), y(count);
  // If the address and strides are multiples of nothing, the general variant runs.
  const int shift = stride % 16 ? 1 : 0;
  const float per_column = 1.0f / float(n);
  require(kernel.launch(kiln::Stream::cpu(), rows, x.data(), rows, stride, n, per_column, weight.data() + shift,
                        y.data(), rows, stride, n, per_column, eps));
  for (int row = 0; row < rows; ++row) {
    double squares = 0;
    for (int i = 0; i < n; ++i)
      squares += double(x[std::size_t(row * stride + i)]) * x[std::size_t(row * stride + i)];
    const double scale = 1 / std::sqrt(squares / n + eps);
    for (int i = 0; i < n; ++i) {
      const double expected = x[std::size_t(row * stride + i)] * scale * weight[std::size_t(i + shift)];
      // The tolerance covers one rounding to fp16 and those of the fp32 sum.
      expect_close("rms_norm", y[std::size_t(row * stride + i)], expected, 1e-3 * std::abs(expected) + 1e-6);
    }
  }
}

void check_matmul(const kernels::matmul &kernel, int m, int n, int k) {
  Tensor<float> a(std::size_t(m) * std::size_t(k)), b(std::size_t(k) * std::size_t(n)),
      out(std::size_t(m) * std::size_t(n));
  const int tile = 64, programs = (m + tile - 1) / tile * ((n + tile - 1) / tile);
  require(kernel.launch(kiln::Stream::cpu(), programs, a.data(), m, k, k, b.data(), k, n, n, out.data(), m, n, n));
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double expected = 0;
      for (int l = 0; l < k; ++l)
        expected += double(a[std::size_t(i * k + l)]) * b[std::size_t(l * n + j)];
      // k products of at most 1, summed in fp32.
      expect_close("matmul", out[std::size_t(i * n + j)], expected, k * std::ldexp(1.0, -23));
    }
}

void check_errors(const kernels::rms_norm &kernel) {
  Tensor<kiln::f16> x(64);
  auto launch = [&](kiln::Stream stream, kiln::Grid grid) {
    return kernel.launch(stream, grid, x.data(), 1, 64, 64, 1.0f / 64, x.data(), x.data(), 1, 64, 64, 1.0f / 64, 1e-5f);
  };
  // A GPU that does not exist, and an invalid grid.
  kiln::Status status = launch(kiln::Stream::cuda(nullptr, 99), 1);
  if (status || status.code() == kiln::Code::Ok || status.message().empty())
    std::exit(1);
  if (launch(kiln::Stream::cpu(), -1).code() != kiln::Code::InvalidArgument)
    std::exit(1);
  // An empty grid does nothing.
  require(launch(kiln::Stream::cpu(), 0));
}

} // namespace

int main() {
  static_assert(kernels::rms_norm::PLAN_BLOCK == 1024 && !kernels::rms_norm::CAST_BEFORE);
  const auto norm = require(kernels::rms_norm::load());
  const auto product = require(kernels::matmul::load());
  require(norm.prepare(KILN_CPU));

  check_rms_norm(norm, 5, 1000, 1008);
  check_rms_norm(norm, 3, 999, 1001);
  check_rms_norm(norm, 1, 1, 1);
  check_matmul(product, 96, 80, 48);
  check_matmul(product, 7, 33, 65);
  check_errors(norm);

  // Use one kernel from several threads at once; some threads load their own.
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([i, norm] {
      const auto own = i % 2 ? norm : require(kernels::rms_norm::load());
      for (int repeat = 0; repeat < 8; ++repeat)
        check_rms_norm(own, 2 + i, 100 + repeat, 128 + repeat);
    });
  for (std::thread &thread : threads)
    thread.join();
  std::puts("all right");
}
