// Inside of codegen::Unit: what LLVM reports goes to a list instead of stderr.
#pragma once
#include "compiler/codegen/Codegen.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"

namespace kiln::codegen {

struct Unit::Collector : llvm::DiagnosticHandler {
  std::string errors;
  bool handleDiagnostics(const llvm::DiagnosticInfo &info) override;
};

/// The errors LLVM reported on `unit` since the last call, as one error.
llvm::Error diagnosticsOf(Unit &unit);

/// Whether the function has KilnEntry's signature.
bool isEntry(const llvm::Function &function);
/// Lets an entry for the CPU look up in each loop that may take long; see Safepoints.cpp.
void insertSafepoints(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);

} // namespace kiln::codegen
