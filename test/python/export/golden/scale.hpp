// Launches of kernel scale of kernels.py. Made by `kiln export`: do not edit.
#pragma once
#include "scale.h"
#include <kiln/runtime.hpp>

namespace kernels {

/// y = x * factor, in y's type.
///
/// One program a block of BLOCK elements.
///
/// Variants; a launch takes the most special one that its arguments fit and its device runs:
///   0. sm_90a: x=*fp32:16, y=*fp32:16, n=i32:16, factor=fp32, BLOCK=1024; launched with num_warps=8
///   1. cpu-avx2: x=*fp32:16, y=*fp32:16, n=i32:16, factor=fp32, BLOCK=1024; launched with num_warps=8
///   2. cpu-sse: x=*fp32:16, y=*fp32:16, n=i32:16, factor=fp32, BLOCK=1024; launched with num_warps=8
///   3. sm_90a: x=*fp32, y=*fp32, n=i32, factor=fp32, BLOCK=1024
///   4. cpu-avx2: x=*fp32, y=*fp32, n=i32, factor=fp32, BLOCK=1024
///   5. cpu-sse: x=*fp32, y=*fp32, n=i32, factor=fp32, BLOCK=1024
///   6. sm_90a: x=*fp16, y=*fp16, n=i32, factor=fp32, BLOCK=2048
///   7. cpu-avx2: x=*fp16, y=*fp16, n=i32, factor=fp32, BLOCK=2048
///   8. cpu-sse: x=*fp16, y=*fp16, n=i32, factor=fp32, BLOCK=2048
class scale {
public:
  /// Touches no device: code is put on one by the first launch there, or by `prepare`.
  static kiln::Result<scale> load() {
    kiln::Result<kiln::Kernel> made = kiln::Kernel::create(scale_load);
    if (!made)
      return made.status();
    return scale(*std::move(made));
  }

  /// Loads all that `device` runs, so that no launch there has to: before a graph is captured, or a request is timed.
  kiln::Status prepare(int device) const { return kernel_.prepare(device); }

  ///   x: array of an element type that a variant has, read
  ///   y: array of an element type that a variant has, written
  ///   n: i32
  ///   factor: fp32
  ///   BLOCK: chooses the variant
  /// An array may be null where the kernel touches none of it, which a launch cannot know: to touch it ends the process
  /// on the CPU, and loses the device on a GPU.
  kiln::Status launch(kiln::Stream stream, kiln::Grid grid, kiln::AnyArray x, kiln::AnyArray y, std::int32_t n,
                      float factor, std::int64_t BLOCK) const {
    return kiln::Status::of(scale_launch(kernel_.get(), stream, grid, x, y, n, factor, BLOCK));
  }

private:
  explicit scale(kiln::Kernel kernel) : kernel_(std::move(kernel)) {}
  kiln::Kernel kernel_;
};

} // namespace kernels
