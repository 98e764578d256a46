// Native code that is in the process, however it came there: run on a grid, spread over the thread pool.
//
// Generated code has no destructors and calls nothing but memcpy, memset, memmove, the functions of HostLibrary.h and
// the hooks; hence an instance can be abandoned from inside a hook by a jump back into the worker's loop.
#pragma once
#include "runtime/device/Device.h"

namespace kiln::device {

/// `code` lives as long as the kernel: what is to be unloaded with it. Null for code that is linked in.
std::shared_ptr<LoadedKernel> makeCpuKernel(artifact::Metadata metadata, KilnEntry entry,
                                            std::shared_ptr<void> code = nullptr);

/// Called from a hook: leaves the running program instance, never to return, and stops the launch. Chunks of lower
/// program ids are already under way and finish, so the lowest program that fails is always seen.
[[noreturn]] void abandonInstance(const KilnLaunch *launch);

} // namespace kiln::device
