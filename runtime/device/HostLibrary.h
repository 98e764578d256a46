// The functions listed in runtime/artifact/HostLibrary.h, for the loader of the CPU target.
#pragma once
#include "runtime/artifact/HostLibrary.h"
#include <utility>
#include <vector>

namespace kiln::device {

/// Each function that compiled code may call, with its name.
const std::vector<std::pair<const char *, void *>> &getHostLibrary();

} // namespace kiln::device
