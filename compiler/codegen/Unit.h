// Inside of codegen::Unit: what LLVM reports goes to a list instead of stderr.
#pragma once
#include "compiler/codegen/Codegen.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include <exception>

namespace kiln::codegen {

struct Unit::Collector : llvm::DiagnosticHandler {
  std::string errors;
  bool handleDiagnostics(const llvm::DiagnosticInfo &info) override;
};

/// Deletes what it holds, but not where a fatal error of LLVM passes through (see FatalError.cpp). The frames of LLVM
/// that it leaves run no destructors, and handles of values that lay in them are still linked to these values and to
/// each other: whoever deletes one of them would write to a stack that has other owners by now.
struct UnlessFatal {
  template <typename T> void operator()(T *object) const {
    if (!std::uncaught_exceptions())
      delete object;
  }
};

/// The errors LLVM reported on `unit` since the last call, as one error.
llvm::Error diagnosticsOf(Unit &unit);

/// Whether the function has KilnEntry's signature.
bool isEntry(const llvm::Function &function);
/// Lets an entry for the CPU look up in each loop that may take long; see Safepoints.cpp.
void insertSafepoints(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);

} // namespace kiln::codegen
