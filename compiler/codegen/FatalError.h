// Turns LLVM's fatal errors (report_fatal_error) into results instead of ending the process.
#pragma once
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

namespace kiln::codegen {

/// Runs `action`; a fatal error of LLVM inside it is returned as an error. LLVM may have held locks or half-built
/// global state at that point, so the process is poisoned: every later call is refused with the reason. Code outside
/// such a call keeps LLVM's own behaviour.
llvm::Error runProtected(llvm::function_ref<llvm::Error()> action);

} // namespace kiln::codegen
