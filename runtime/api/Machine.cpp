// See Machine.h.
#include "runtime/api/Machine.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace kiln;

static std::string textOf(const artifact::Metadata &metadata, llvm::StringRef field) {
  return metadata.target.getString(field).value_or("").str();
}

std::optional<int> kiln::api::rankOnCpu(const artifact::Metadata &metadata, std::string &why) {
  static const llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  // First the features that the processor's name implies, then those that are added and removed by name.
  llvm::StringMap<bool> needed;
  llvm::SmallVector<llvm::StringRef> implied;
  std::string cpu = textOf(metadata, "cpu"), features = textOf(metadata, "features");
  if (llvm::X86::parseArchX86(cpu) != llvm::X86::CK_None)
    llvm::X86::getFeaturesForCPU(cpu, implied);
  for (llvm::StringRef feature : implied)
    needed[feature] = true;
  for (llvm::StringRef rest = features, feature; !rest.empty();) {
    std::tie(feature, rest) = rest.split(',');
    if (!feature.empty())
      needed[feature.drop_front()] = feature.front() == '+';
  }
  int count = 0;
  for (const auto &entry : needed) {
    auto there = host.find(entry.getKey());
    if (!entry.getValue() || there == host.end()) // some are in every processor, so the host does not list them
      continue;
    if (!there->getValue()) {
      why = llvm::formatv("{0} needs {1}, which this processor has not", textOf(metadata, "name"), entry.getKey());
      return std::nullopt;
    }
    ++count;
  }
  return count;
}

std::optional<int> kiln::api::rankOnGpu(const artifact::Metadata &metadata, const device::CudaProperties &has,
                                        std::string &why) {
  // sm_90a: generation 9, step 0, exactly that machine. Machine code for a plain row runs on later machines of its
  // generation, PTX on all later machines.
  std::string name = textOf(metadata, "name");
  llvm::StringRef digits = name;
  bool exact = digits.consume_back("a");
  int number = 0, capability = 10 * has.major + has.minor;
  bool known = digits.consume_front("sm_") && !digits.getAsInteger(10, number);
  bool isText = metadata.cuda && metadata.cuda->form == "ptx";
  bool runs = exact    ? capability == number
              : isText ? capability >= number
                       : capability / 10 == number / 10 && capability >= number;
  if (known && runs)
    return 2 * number + exact;
  why = llvm::formatv("{0} is not for compute capability {1}.{2}", name, has.major, has.minor);
  return std::nullopt;
}
