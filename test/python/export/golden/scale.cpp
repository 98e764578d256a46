// Launches of kernel scale of kernels.py. Made by `kiln export`: do not edit.
#include "scale.h"

/// In scale_code.cpp.
extern const kiln_export scale_export;

kiln_status scale_load(kiln_kernel **kernel) { return kiln_kernel_create(&scale_export, kernel); }

kiln_status scale_launch(kiln_kernel *kernel, kiln_stream stream, kiln_grid grid, kiln_array x, kiln_array y, int32_t n,
                         float factor, int64_t BLOCK) {
  const kiln_argument arguments[] = {
      kiln_pointer(x.data, x.element),
      kiln_pointer(y.data, y.element),
      kiln_integer(n),
      kiln_float(factor),
      kiln_integer(BLOCK),
  };
  return kiln_kernel_launch(kernel, stream, grid, arguments, sizeof arguments / sizeof *arguments);
}
