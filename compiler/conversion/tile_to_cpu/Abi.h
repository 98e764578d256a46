// The offsets in runtime/launch/Abi.h that generated code uses, checked against that header.
#pragma once
#include "runtime/launch/Abi.h"
#include <cstddef>

namespace kiln::cpu {

constexpr int64_t kGridOffset = 0, kFrameOffset = 16, kWorkspaceOffset = 24, kHooksOffset = 32;
constexpr int64_t kPrintHook = 0, kFailHook = 8, kAccessHook = 16;
constexpr int64_t kFrameAlign = 64;

static_assert(KILN_ABI_VERSION == 2, "generated code is written for version 2");
static_assert(offsetof(KilnLaunch, grid) == kGridOffset && offsetof(KilnLaunch, frame) == kFrameOffset &&
                  offsetof(KilnLaunch, workspace) == kWorkspaceOffset && offsetof(KilnLaunch, hooks) == kHooksOffset,
              "KilnLaunch has moved");
static_assert(offsetof(KilnHooks, print) == kPrintHook && offsetof(KilnHooks, fail) == kFailHook &&
                  offsetof(KilnHooks, access) == kAccessHook,
              "KilnHooks has moved");

} // namespace kiln::cpu
