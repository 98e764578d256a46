// Runs native objects in this process: linked by LLVM's JITLink, spread over the thread pool.
//
// Generated code has no destructors and calls nothing but memcpy, memset, memmove and the hooks; hence an instance can
// be abandoned from inside a hook by a jump back into the worker's loop.
#pragma once
#include "runtime/device/Device.h"

namespace kiln::device {

/// The process's CPU device.
Device &getCpuDevice();

/// Called from a hook: leaves the running program instance, never to return, and stops the launch. Chunks of lower
/// program ids are already under way and finish, so the lowest program that fails is always seen.
[[noreturn]] void abandonInstance(const KilnLaunch *launch);

} // namespace kiln::device
