/* Kernels compiled by Kiln, from any language that can call C: loading, launching and waiting, with no compiler and no
 * Python in the process. Link libkiln_runtime; the CUDA driver is loaded when it is first needed.
 *
 * `kiln export` writes a header with one typed launch function per kernel; that is what programs call. This file is
 * what those functions are made of. From C++, include <kiln/runtime.hpp>.
 *
 * Every function is safe to call from several threads. Those that can fail return a kiln_status and leave a sentence
 * for kiln_message(). Nothing throws, nothing ends the process. */
#ifndef KILN_RUNTIME_H
#define KILN_RUNTIME_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface: a library refuses exports whose version it does not know. */
#define KILN_RUNTIME_VERSION 1

#define KILN_API __attribute__((visibility("default")))

/* ---- What went wrong -------------------------------------------------------------------------------------------- */

typedef int32_t kiln_status;
enum {
  KILN_OK = 0,
  KILN_INVALID_ARGUMENT = 1, /* the caller passed something unusable */
  KILN_CORRUPT = 2,          /* code or its description is damaged */
  KILN_OUT_OF_RESOURCES = 3, /* valid, but does not fit this machine */
  KILN_INTERNAL = 4,         /* a fault of Kiln itself, or of the driver */
  KILN_DEVICE_LOST = 5,      /* the GPU's context answers every call with an error from now on */
  KILN_NO_VARIANT = 6,       /* the kernel was not exported for such arguments, or for such a device */
  KILN_ASSERTION_FAILED = 7  /* a kl.device_assert of the kernel */
};

/* The message of the last function that failed on this thread; "" if none has. Valid until the next failure here. */
KILN_API const char *kiln_message(void);

/* ---- Devices ---------------------------------------------------------------------------------------------------- */

#define KILN_CPU (-1)

/* Where a launch goes: a GPU by its number and one of its streams (CUstream or cudaStream_t; null: the default
 * stream), or KILN_CPU, where a launch has finished when it returns. */
typedef struct kiln_stream {
  int32_t device;
  void *stream;
} kiln_stream;

/* The number of program instances along each axis; 1 for unused axes. */
typedef struct kiln_grid {
  int32_t x, y, z;
} kiln_grid;

/* The number of GPUs that the driver sees. Without a driver: KILN_INVALID_ARGUMENT, and 0. */
KILN_API kiln_status kiln_device_count(int32_t *count);

/* Waits for everything queued on a GPU. Prints of kernels go to standard output; if an assertion has failed since the
 * last call, the first one is returned as KILN_ASSERTION_FAILED. On the CPU there is nothing to wait for. */
KILN_API kiln_status kiln_synchronize(int32_t device);

/* The driver library to load instead of libcuda.so.1; must be called before the driver's first use. */
KILN_API void kiln_set_cuda_library(const char *path);

/* The number of worker threads for launches on the CPU; 0: one per processor that the process may use. */
KILN_API void kiln_set_num_threads(uint32_t count);

/* ---- Arguments -------------------------------------------------------------------------------------------------- */

typedef int32_t kiln_element;
enum {
  KILN_I1 = 0,
  KILN_I8 = 1,
  KILN_I16 = 2,
  KILN_I32 = 3,
  KILN_I64 = 4,
  KILN_U8 = 5,
  KILN_U16 = 6,
  KILN_U32 = 7,
  KILN_U64 = 8,
  KILN_FP8E4NV = 9,
  KILN_FP8E5 = 10,
  KILN_FP16 = 11,
  KILN_BF16 = 12,
  KILN_FP32 = 13,
  KILN_FP64 = 14,
  KILN_FP8E4B15 = 15
};

/* An array whose element type the caller chooses from those that the kernel was exported for. */
typedef struct kiln_array {
  void *data;
  kiln_element element;
} kiln_array;

/* An array that the kernel reads and writes in blocks: a tensor descriptor. Outermost dimension first; sizes and
 * strides in elements. The last stride is 1, the others and the address are multiples of 16 bytes. */
typedef struct kiln_descriptor {
  kiln_array base;
  int32_t rank;
  int64_t shape[5], strides[5];
} kiln_descriptor;

enum {
  KILN_ARGUMENT_NONE = 0,
  KILN_ARGUMENT_BOOL = 1,       /* integer */
  KILN_ARGUMENT_INTEGER = 2,    /* integer */
  KILN_ARGUMENT_UNSIGNED = 3,   /* natural */
  KILN_ARGUMENT_FLOAT = 4,      /* number */
  KILN_ARGUMENT_POINTER = 5,    /* pointer, element */
  KILN_ARGUMENT_DESCRIPTOR = 6, /* descriptor */
  KILN_ARGUMENT_TEXT = 7        /* text */
};

typedef struct kiln_argument {
  int32_t kind;
  kiln_element element;
  union {
    int64_t integer;
    uint64_t natural;
    double number;
    const void *pointer;
    const kiln_descriptor *descriptor;
    const char *text;
  } value;
} kiln_argument;

static inline kiln_argument kiln_none(void) {
  kiln_argument made = {KILN_ARGUMENT_NONE, 0, {0}};
  return made;
}
static inline kiln_argument kiln_bool(int32_t value) {
  kiln_argument made = {KILN_ARGUMENT_BOOL, 0, {0}};
  made.value.integer = value != 0;
  return made;
}
static inline kiln_argument kiln_integer(int64_t value) {
  kiln_argument made = {KILN_ARGUMENT_INTEGER, 0, {0}};
  made.value.integer = value;
  return made;
}
static inline kiln_argument kiln_unsigned(uint64_t value) {
  kiln_argument made = {KILN_ARGUMENT_UNSIGNED, 0, {0}};
  made.value.natural = value;
  return made;
}
static inline kiln_argument kiln_float(double value) {
  kiln_argument made = {KILN_ARGUMENT_FLOAT, 0, {0}};
  made.value.number = value;
  return made;
}
static inline kiln_argument kiln_pointer(const void *data, kiln_element element) {
  kiln_argument made = {KILN_ARGUMENT_POINTER, element, {0}};
  made.value.pointer = data;
  return made;
}
/* The descriptor must live until the launch has returned. */
static inline kiln_argument kiln_described(const kiln_descriptor *descriptor) {
  kiln_argument made = {KILN_ARGUMENT_DESCRIPTOR, 0, {0}};
  made.value.descriptor = descriptor;
  return made;
}
static inline kiln_argument kiln_text(const char *text) {
  kiln_argument made = {KILN_ARGUMENT_TEXT, 0, {0}};
  made.value.text = text;
  return made;
}

/* ---- Kernels ---------------------------------------------------------------------------------------------------- */

struct KilnLaunch;

/* Code for one specialisation on one kind of machine. */
typedef struct kiln_variant {
  const char *signature; /* the specialisation, one item per parameter: "*fp32:16, i32, 1" */
  const char *metadata;  /* JSON */
  const void *code;      /* for a GPU: a cubin or PTX; else null */
  size_t code_bytes;
  void (*entry)(const void *, const struct KilnLaunch *, int64_t, int64_t); /* on the CPU: linked in; else null */
} kiln_variant;

/* A kernel as it was exported: constant data. */
typedef struct kiln_export {
  uint32_t version; /* KILN_RUNTIME_VERSION */
  const char *name;
  const char *const *parameters; /* their names */
  size_t parameter_count;
  const kiln_variant *variants;
  size_t variant_count;
} kiln_export;

/* A kernel that can be launched on any device, from any thread. */
typedef struct kiln_kernel kiln_kernel;

/* Creates a kernel from an export, which must outlive it. Touches no device: the first launch on a device, or
 * kiln_kernel_prepare, loads the code there. Must be released. */
KILN_API kiln_status kiln_kernel_create(const kiln_export *source, kiln_kernel **kernel);
KILN_API void kiln_kernel_retain(kiln_kernel *kernel);
/* Null is allowed. Code that is running continues. */
KILN_API void kiln_kernel_release(kiln_kernel *kernel);

/* Loads every variant that `device` can run, so that launches there need not, for instance before capturing a graph. */
KILN_API kiln_status kiln_kernel_prepare(kiln_kernel *kernel, int32_t device);

/* Launches the most specialised variant that fits the arguments, one per parameter of the export. */
KILN_API kiln_status kiln_kernel_launch(kiln_kernel *kernel, kiln_stream stream, kiln_grid grid,
                                        const kiln_argument *arguments, size_t count);

#ifdef __cplusplus
}
#endif
#endif
