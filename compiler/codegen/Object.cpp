// Checks what the loader relies on: an object has one entry, and depends only on block copies and the host library.
#include "compiler/codegen/Codegen.h"
#include "runtime/artifact/HostLibrary.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Object/ObjectFile.h"
#include <algorithm>

using namespace kiln;

static llvm::Error visitSymbols(llvm::StringRef object,
                                llvm::function_ref<void(llvm::StringRef name, uint32_t flags)> visit) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "kernel.o"));
  if (!file)
    return file.takeError();
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    auto name = symbol.getName();
    auto flags = symbol.getFlags();
    if (!name)
      return name.takeError();
    if (!flags)
      return flags.takeError();
    visit(*name, *flags);
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<std::string>> codegen::undefinedSymbols(llvm::StringRef object) {
  std::vector<std::string> names;
  if (llvm::Error error = visitSymbols(object, [&](llvm::StringRef name, uint32_t flags) {
        if (flags & llvm::object::SymbolRef::SF_Undefined && !name.empty())
          names.push_back(name.str());
      }))
    return std::move(error);
  std::sort(names.begin(), names.end());
  return names;
}

/// True if the runtime's loader defines the symbol.
static bool isOfLoader(llvm::StringRef name) {
  return name == "memcpy" || name == "memmove" || name == "memset" ||
         llvm::any_of(artifact::hostFunctions,
                      [&](const artifact::HostFunction &function) { return name == function.symbol; });
}

llvm::Error codegen::checkObject(llvm::StringRef object, llvm::StringRef symbol) {
  bool defined = false;
  std::string foreign;
  if (llvm::Error error = visitSymbols(object, [&](llvm::StringRef name, uint32_t flags) {
        if (flags & llvm::object::SymbolRef::SF_Undefined) {
          if (!name.empty() && !isOfLoader(name))
            foreign += (foreign.empty() ? "" : ", ") + name.str();
        } else if (name == symbol && flags & llvm::object::SymbolRef::SF_Global) {
          defined = true;
        }
      }))
    return error;
  if (!foreign.empty())
    return llvm::createStringError("the object calls out of itself (" + foreign +
                                   "): some operation was not expanded for this target");
  if (!defined)
    return llvm::createStringError("the object does not define " + symbol);
  return llvm::Error::success();
}
