// CUDA's device library: bitcode that is part of the user's toolkit, linked only for kernels that call it by name.
#include "compiler/codegen/Unit.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>

using namespace kiln;
using namespace kiln::codegen;

std::vector<std::string> kiln::codegen::missingFunctions(const Unit &unit) {
  std::vector<std::string> names;
  for (const llvm::Function &function : *unit.module)
    // The library asks __nvvm_reflect for the machine it runs on; LLVM replaces the call by the answer.
    if (function.isDeclaration() && !function.isIntrinsic() && !function.use_empty() &&
        function.getName() != "__nvvm_reflect")
      names.push_back(function.getName().str());
  std::sort(names.begin(), names.end());
  return names;
}

llvm::Error kiln::codegen::linkLibdevice(Unit &unit, llvm::StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return llvm::createStringError("cannot read the device library " + path + ": " + file.getError().message());
  // Loaded lazily: of several hundred functions a kernel needs one or two.
  auto library = llvm::getOwningLazyBitcodeModule(std::move(*file), unit.context());
  if (!library)
    return library.takeError();
  (*library)->setTargetTriple(unit.module->getTargetTriple());
  (*library)->setDataLayout(unit.module->getDataLayout());
  std::vector<llvm::GlobalValue *> before;
  for (llvm::Function &function : *unit.module)
    if (!function.isDeclaration())
      before.push_back(&function);
  if (llvm::Linker::linkModules(*unit.module, std::move(*library), llvm::Linker::Flags::LinkOnlyNeeded)) {
    llvm::Error reported = diagnosticsOf(unit);
    return reported ? std::move(reported) : llvm::createStringError("cannot link the device library " + path);
  }
  for (llvm::Function &function : *unit.module)
    if (!function.isDeclaration() && !llvm::is_contained(before, &function))
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
  return diagnosticsOf(unit);
}
