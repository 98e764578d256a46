// The binary interface between compiled kernels and the code that launches them. Plain C, the same for every target:
// the artifact's metadata describes the packed argument block (kind, offset, size, alignment of each argument); what
// the user did not pass (grid, frame, workspace, hooks) is in KilnLaunch.
//
// Generated code accesses these structs by offset: a change here changes KILN_ABI_VERSION and the constants in
// compiler/conversion/tile_to_cpu/Abi.h, which static_assert against this file. GPUs have their own half below.
#pragma once
#include <stdint.h>

#define KILN_ABI_VERSION 2

#ifdef __cplusplus
extern "C" {
#endif

struct KilnLaunch;

/// The reasons for calling the access hook.
enum KilnAccess {
  KILN_ACCESS_LOAD = 0,
  KILN_ACCESS_STORE = 1,
  KILN_ACCESS_ATOMIC = 2,
  /// Not an access: an index of a tile that is not from 0 to `bytes` - 1; `address` is the index.
  KILN_ACCESS_INDEX = 3,
  /// Not an access: precedes the elements of a store (races).
  KILN_ACCESS_STORE_BEGINS = 4
};

/// Calls from generated code into the runtime. `site` indexes the `sites` list of the artifact's metadata (kind, source
/// line, operands); `program` is the linear program id, x fastest.
struct KilnHooks {
  /// tile.print: `operands[i]` points to the i-th operand's elements, row-major, densely packed, a bool as one byte.
  void (*print)(const struct KilnLaunch *, int32_t site, int64_t program, const void *const *operands);
  /// tile.assert failed at linear tile coordinate `element`. Does not return to the program instance.
  void (*fail)(const struct KilnLaunch *, int32_t site, int64_t program, int64_t element);
  /// Only in code compiled with a check: called before each unmasked access to an element. `kind` is a KilnAccess. May
  /// not return (bounds).
  void (*access)(const struct KilnLaunch *, int32_t site, int64_t program, int64_t element, const void *address,
                 int32_t bytes, int32_t kind);
};

/// One per worker and launch.
struct KilnLaunch {
  int32_t grid[3];               ///< logical grid
  int32_t worker;                ///< index of the worker thread
  void *frame;                   ///< this worker's scratch: metadata `frame_bytes`, 64-byte aligned
  void *workspace;               ///< shared by all instances of the launch: metadata `workspace_bytes`, zeroed
  const struct KilnHooks *hooks; ///< never null
  void *runtime;                 ///< private to the runtime
  /// Code checks this word at least every few milliseconds: in each loop that may take longer, and before each program
  /// instance. If it is not 0, the code calls `atSafepoint`.
  const volatile int32_t *safepoint;
  /// Returns 0 to continue; otherwise the code returns at once, whatever it has left to do. `waiting` is 1 if called
  /// from a loop that only reads memory that others write.
  int32_t (*atSafepoint)(const struct KilnLaunch *, int32_t waiting);
};

/// Runs program instances [begin, end) of the grid in order. `arguments` is the packed block.
typedef void (*KilnEntry)(const void *arguments, const struct KilnLaunch *launch, int64_t begin, int64_t end);

//===-- GPUs: what running code reports to the host --------------------------------------------------------------===//
// A kernel whose metadata has `sites` takes one hidden argument after the packed block: the device address of a
// KilnDeviceLog (u64, at `arguments_bytes` rounded up to 8). The log lies in host memory that the device can access and
// is followed directly by `capacity` records. Atomics on it have device scope; the host reads it when the kernel has
// ended.
//
// print   Each thread that owns elements atomically adds their number (over all operands) to `cursor`, and fills that
//         many records from the old value on; records at or past `capacity` are dropped, but still counted. Replicated
//         elements are printed by their one owner, scalars by one thread of the program instance. A print without
//         operands is one record with operand KILN_LOG_NO_OPERAND. `sequence` counts the prints that this instance has
//         executed (0, 1, …; control flow is uniform, so every thread has the same count) and orders the lines.
// assert  A thread whose element fails stores num_programs(0) and num_programs(1) to `grid`, and then atomically takes
//         the unsigned minimum of `failed` and KILN_LOG_FAILURE(program, site, element). The thread continues, but
// makes
//         no further accesses to tiles of global memory. If an assertion on a scalar fails, all threads of the program
//         end instead, unless others may wait for them. The host reports the lowest program that fails.
// A change here changes KILN_ABI_VERSION.

struct KilnDeviceLog {
  uint64_t failed;   ///< KILN_LOG_FAILURE of the lowest program that failed; all ones: none
  uint32_t cursor;   ///< records asked for so far
  uint32_t capacity; ///< records for which there is room; written by the host
  uint32_t grid[2];  ///< x and y of a failed launch
  uint32_t reserved[10];
};

struct KilnDeviceRecord {
  uint32_t site;
  uint32_t sequence;
  uint64_t program; ///< linear, x fastest
  uint32_t operand; ///< index in the site's operands, or KILN_LOG_NO_OPERAND
  uint32_t element; ///< linear coordinate in the tile, row-major; 0 for a scalar
  uint64_t bits;    ///< the element as it is in memory, zero-extended; bool as 0 or 1, pointers whole
};

#define KILN_LOG_NO_OPERAND 0xffffffffu
/// Program ids from 2^34 - 1 on, sites from 1023 on, elements from 2^20 - 1 on share the last code of their field.
#define KILN_LOG_PROGRAM_SHIFT 30
#define KILN_LOG_SITE_SHIFT 20
#define KILN_LOG_FAILURE(program, site, element)                                                                       \
  (((uint64_t)(program) << KILN_LOG_PROGRAM_SHIFT) | ((uint64_t)(site) << KILN_LOG_SITE_SHIFT) | (uint64_t)(element))

#ifdef __cplusplus
}
#endif
