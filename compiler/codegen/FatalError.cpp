// See FatalError.h. The handler throws: LLVM is built without exceptions but with unwind tables, so the exception
// passes through its frames (leaking what they own) to the guard.
#include "compiler/codegen/FatalError.h"
#include "llvm/Support/ErrorHandling.h"
#include <mutex>
#include <string>

namespace {
struct FatalError {
  std::string reason;
};

std::mutex mutex;
std::string poison; // guarded by mutex; the reason for the first fatal error
thread_local unsigned depth = 0;

void handle(void *, const char *reason, bool) {
  if (depth)
    throw FatalError{reason};
}

struct Depth {
  Depth() { ++depth; }
  ~Depth() { --depth; }
};
} // namespace

llvm::Error kiln::codegen::runProtected(llvm::function_ref<llvm::Error()> action) {
  static std::once_flag once;
  std::call_once(once, [] { llvm::install_fatal_error_handler(handle); });
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!poison.empty())
      return llvm::createStringError("this process cannot compile any more: LLVM failed fatally before (" + poison +
                                     "); start a new process");
  }
  Depth guard;
  try {
    return action();
  } catch (const FatalError &error) {
    std::lock_guard<std::mutex> lock(mutex);
    if (poison.empty())
      poison = error.reason.empty() ? "no reason given" : error.reason;
    return llvm::createStringError("LLVM failed fatally: " + error.reason);
  }
}
