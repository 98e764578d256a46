/* RMSNorm of Kiln's library from C. */
#include "rms_norm.h"

#include <stdio.h>

/* 1.0 and 2.0 in fp16. */
enum { ROWS = 2, N = 4, ONE = 0x3c00, TWO = 0x4000 };

static kiln_status launch(kiln_kernel *kernel, kiln_grid grid, const uint16_t *x, const uint16_t *weight, uint16_t *y) {
  const kiln_stream cpu = {KILN_CPU, NULL};
  return rms_norm_launch(kernel, cpu, grid, x, ROWS, N, N, 1.0f / N, weight, y, ROWS, N, N, 1.0f / N, 0.0f);
}

int main(void) {
  /* Where the code expects arrays: at multiples of 16 bytes. */
  _Alignas(16) uint16_t x[ROWS * N], y[ROWS * N];
  uint16_t weight[N];
  for (int i = 0; i < ROWS * N; ++i) {
    x[i] = i < N ? ONE : TWO;
    y[i] = 0;
  }
  for (int i = 0; i < N; ++i)
    weight[i] = TWO;

  kiln_kernel *kernel = NULL;
  if (rms_norm_load(&kernel) != KILN_OK) {
    fprintf(stderr, "%s\n", kiln_message());
    return 1;
  }
  const kiln_grid grid = {ROWS, 1, 1};
  if (launch(kernel, grid, x, weight, y) != KILN_OK) {
    fprintf(stderr, "%s\n", kiln_message());
    return 1;
  }
  /* Rows of one number become rows of 1, times the weight. */
  for (int i = 0; i < ROWS * N; ++i)
    if (y[i] != TWO) {
      fprintf(stderr, "element %d: expected %#x, got %#x\n", i, TWO, y[i]);
      return 1;
    }

  const kiln_grid wrong = {1, -1, 1};
  if (launch(kernel, wrong, x, weight, y) != KILN_INVALID_ARGUMENT)
    return 1;
  printf("refused: %s\n", kiln_message());
  kiln_kernel_release(kernel);
  kiln_kernel_release(NULL);
  return 0;
}
