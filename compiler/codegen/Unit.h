// Internals of codegen::Unit: what LLVM reports is collected in a list instead of going to stderr.
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

/// Deletes what it holds, except while a fatal error of LLVM propagates (see FatalError.cpp). LLVM's frames are then
/// left without running destructors, and value handles that lived in them are still linked to their values and to each
/// other: deleting any of those would write to a stack that has other owners by now.
struct UnlessFatal {
  template <typename T> void operator()(T *object) const {
    if (!std::uncaught_exceptions())
      delete object;
  }
};

/// The errors that LLVM has reported on `unit` since the last call, as one error.
llvm::Error diagnosticsOf(Unit &unit);

/// True if the function has KilnEntry's signature.
bool isEntry(const llvm::Function &function);
/// Makes a CPU entry check its safepoint in each loop that may take long; see Safepoints.cpp.
void insertSafepoints(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);

} // namespace kiln::codegen
