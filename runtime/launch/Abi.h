// The binary interface between compiled kernels and whatever launches them. Plain C, the same for every target: the
// packed argument block is described by the artifact's metadata (kind, offset, size, alignment of each argument); what
// the user did not pass (grid, frame, workspace, hooks) is hidden behind KilnLaunch.
//
// Generated code reads these structs by offset: a change here is a change of KILN_ABI_VERSION and of the constants in
// compiler/conversion/tile_to_cpu/Abi.h, which static_assert against this file.
#pragma once
#include <stdint.h>

#define KILN_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

struct KilnLaunch;

/// Calls from generated code into the runtime. `site` indexes the `sites` list of the artifact's metadata (what, which
/// source line, which operands); `program` is the linear program id, x fastest.
struct KilnHooks {
  /// tile.print: `operands[i]` points at the i-th operand's elements, row-major, bool as one byte, densely packed.
  void (*print)(const struct KilnLaunch *, int32_t site, int64_t program, const void *const *operands);
  /// tile.assert failed at linear tile coordinate `element`. Does not return to the program instance.
  void (*fail)(const struct KilnLaunch *, int32_t site, int64_t program, int64_t element);
  /// Only in code compiled with a check: called before each unmasked element access.
  /// `kind`: 0 load, 1 store, 2 atomic. May not return (bounds).
  void (*access)(const struct KilnLaunch *, int32_t site, int64_t program, int64_t element, const void *address,
                 int32_t bytes, int32_t kind);
};

/// One per worker and launch.
struct KilnLaunch {
  int32_t grid[3];               ///< virtual grid
  int32_t worker;                ///< index of the worker thread
  void *frame;                   ///< this worker's scratch: metadata `frame_bytes`, 64-byte aligned
  void *workspace;               ///< shared by all instances of the launch: metadata `workspace_bytes`, zeroed
  const struct KilnHooks *hooks; ///< never null
  void *runtime;                 ///< the runtime's own
};

/// Runs program instances [begin, end) of the grid in order. `arguments` is the packed block.
typedef void (*KilnEntry)(const void *arguments, const struct KilnLaunch *launch, int64_t begin, int64_t end);

#ifdef __cplusplus
}
#endif
