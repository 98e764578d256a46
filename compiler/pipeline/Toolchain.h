// The toolchain: every id that may affect the bytes of an artifact, part of its key and of its metadata.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace kiln {

using Toolchain = std::vector<std::pair<std::string, std::string>>;

/// ("kiln", "0.1.0"), ("build", linker's build id of this library), ("llvm", "22.1.8").
const Toolchain &toolchain();

/// The same for a library that is not loaded, from its file. The build id is empty if the file cannot be read or has
/// none.
Toolchain toolchainOf(const std::string &path);

} // namespace kiln
