// The build id is read from this library's own ELF notes: it changes with every byte of the compiler, costs nothing at
// run time, and needs no list of sources.
#include "compiler/pipeline/Toolchain.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include <cstring>
#include <elf.h>
#include <link.h>

static int findBuildId(dl_phdr_info *info, size_t, void *into) {
  auto self = reinterpret_cast<uintptr_t>(&findBuildId);
  bool ours = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &header = info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + header.p_vaddr;
    ours |= header.p_type == PT_LOAD && self >= start && self < start + header.p_memsz;
  }
  if (!ours)
    return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE)
      continue;
    auto *at = reinterpret_cast<const char *>(info->dlpi_addr + header.p_vaddr), *end = at + header.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof(note));
      const char *name = at + sizeof(note), *value = name + (note.n_namesz + 3) / 4 * 4;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !std::memcmp(name, "GNU", 4))
        *static_cast<std::string *>(into) = llvm::toHex(llvm::StringRef(value, note.n_descsz), /*LowerCase=*/true);
      at = value + (note.n_descsz + 3) / 4 * 4;
    }
  }
  return 1;
}

const std::vector<std::pair<std::string, std::string>> &kiln::toolchain() {
  static const std::vector<std::pair<std::string, std::string>> ids = [] {
    std::string build;
    dl_iterate_phdr(findBuildId, &build);
    return std::vector<std::pair<std::string, std::string>>{
        {"kiln", KILN_VERSION}, {"build", build}, {"llvm", LLVM_VERSION_STRING}};
  }();
  return ids;
}
