// Objects for the tests of the CPU device, from LLVM IR text.
#pragma once
#include "llvm/ADT/StringRef.h"
#include <string>

namespace kiln::test {
/// Compiles for this machine; fails the test program on bad IR.
std::string compileIR(llvm::StringRef text);
} // namespace kiln::test
