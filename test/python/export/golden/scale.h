/* Launches of kernel scale of kernels.py. Made by `kiln export`: do not edit. */
#ifndef KILN_EXPORT_SCALE_H
#define KILN_EXPORT_SCALE_H
#include <kiln/runtime.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the kernel, to be released by kiln_kernel_release. Touches no device. */
kiln_status scale_load(kiln_kernel **kernel);

/* Launches a grid of it, from any thread.
 * x: array of an element type that a variant has, read
 * y: array of an element type that a variant has, written
 * n: i32
 * factor: fp32
 * BLOCK: chooses the variant
 * An array may be null where the kernel touches none of it, which a launch cannot know: to touch it ends the process on
 * the CPU, and loses the device on a GPU. */
kiln_status scale_launch(kiln_kernel *kernel, kiln_stream stream, kiln_grid grid, kiln_array x, kiln_array y, int32_t n,
                         float factor, int64_t BLOCK);

#ifdef __cplusplus
}
#endif
#endif
