// Who compiled: every id that may change the bytes of an artifact, part of its key and of its metadata.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace kiln {

/// ("kiln", "0.1.0"), ("build", linker's build id of this library), ("llvm", "22.1.8").
const std::vector<std::pair<std::string, std::string>> &toolchain();

} // namespace kiln
