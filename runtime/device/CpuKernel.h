// Runs native code, loaded or linked into the process, on a grid, spread over the thread pool.
//
// Generated code has no destructors and calls nothing but memcpy, memset, memmove, the functions of HostLibrary.h and
// the hooks. So a hook can abandon an instance by jumping back into the worker's loop.
#pragma once
#include "runtime/device/Device.h"

namespace kiln::device {

/// `code` is kept alive as long as the kernel: what has to be unloaded with it. Null for code that is linked in.
std::shared_ptr<LoadedKernel> makeCpuKernel(artifact::Metadata metadata, KilnEntry entry,
                                            std::shared_ptr<void> code = nullptr);

/// Called from a hook: leaves the running program instance for good and stops the launch. Chunks of lower program ids
/// are already running and finish, so the lowest program that fails is always seen.
[[noreturn]] void abandonInstance(const KilnLaunch *launch);

} // namespace kiln::device
