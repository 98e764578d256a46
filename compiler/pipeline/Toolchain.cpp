// The build id is read from the library's own ELF notes: it changes with every byte of the compiler, costs nothing at
// run time, and needs no list of sources. Uses no MLIR: code that only looks up compiled results links this too.
#include "compiler/pipeline/Toolchain.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

using namespace kiln;

/// The build id among the notes in [at, end); empty if there is none.
static std::string buildIdAmong(const char *at, const char *end) {
  while (at + sizeof(ElfW(Nhdr)) <= end) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof(note));
    const char *name = at + sizeof(note), *value = name + (size_t(note.n_namesz) + 3) / 4 * 4;
    const char *next = value + (size_t(note.n_descsz) + 3) / 4 * 4;
    if (next > end)
      break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !std::memcmp(name, "GNU", 4))
      return llvm::toHex(llvm::StringRef(value, note.n_descsz), /*LowerCase=*/true);
    at = next;
  }
  return "";
}

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
    auto *at = reinterpret_cast<const char *>(info->dlpi_addr + header.p_vaddr);
    if (std::string id = header.p_type == PT_NOTE ? buildIdAmong(at, at + header.p_memsz) : ""; !id.empty())
      *static_cast<std::string *>(into) = id;
  }
  return 1;
}

static std::string buildIdOf(const std::string &path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return "";
  auto read = [&](void *into, size_t size, size_t offset) { return pread(file, into, size, offset) == ssize_t(size); };
  std::string id;
  ElfW(Ehdr) header;
  if (read(&header, sizeof(header), 0) && !std::memcmp(header.e_ident, ELFMAG, SELFMAG) &&
      header.e_phentsize == sizeof(ElfW(Phdr))) {
    std::vector<ElfW(Phdr)> segments(header.e_phnum);
    if (read(segments.data(), segments.size() * sizeof(ElfW(Phdr)), header.e_phoff))
      for (const ElfW(Phdr) &segment : segments)
        if (segment.p_type == PT_NOTE && segment.p_filesz < 65536 && id.empty()) {
          std::string notes(segment.p_filesz, '\0');
          if (read(notes.data(), notes.size(), segment.p_offset))
            id = buildIdAmong(notes.data(), notes.data() + notes.size());
        }
  }
  close(file);
  return id;
}

static Toolchain describe(const std::string &build) {
  return {{"kiln", KILN_VERSION}, {"build", build}, {"llvm", LLVM_VERSION_STRING}};
}

const Toolchain &kiln::toolchain() {
  static const Toolchain ids = [] {
    std::string build;
    dl_iterate_phdr(findBuildId, &build);
    return describe(build);
  }();
  return ids;
}

Toolchain kiln::toolchainOf(const std::string &path) { return describe(buildIdOf(path)); }
