// The table of targets: one row each. A new machine is a new row here; a new kind of fact is a field of Target.
#include "compiler/target/Target.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/TargetParser/Host.h"
#include <map>

using namespace kiln;

static constexpr uint64_t bits(std::initializer_list<Feature> features) {
  uint64_t result = 0;
  for (Feature feature : features)
    result |= uint64_t(1) << unsigned(feature);
  return result;
}

namespace {
struct Row {
  const char *name, *cpu;
  int64_t vectorBytes, vectorRegisters, tileRows, tileCols;
  uint64_t capabilities;
};
} // namespace

static constexpr const char *kHostName = "cpu";
static constexpr const char *kCpuTriple = "x86_64-unknown-linux-gnu";

// The register tile leaves room for one row of the right operand and a broadcast: 16 of 32 zmm, 8 of 16 ymm/xmm.
// 8x32 on AVX2 spills (56 against 85 GFLOP/s with 4x16).
static constexpr Row kRows[] = {
    {"cpu-avx512", "x86-64-v4", 64, 32, 8, 32,
     bits({Feature::FMA, Feature::F16C, Feature::MaskedMemory, Feature::MaskedBytes, Feature::Gather,
           Feature::Scatter})},
    {"cpu-avx2", "x86-64-v3", 32, 16, 4, 16,
     bits({Feature::FMA, Feature::F16C, Feature::MaskedMemory, Feature::Gather})},
    {"cpu-sse", "x86-64-v2", 16, 16, 4, 8, bits({})},
};

namespace {
struct GpuRow {
  const char *name;
  int64_t vectorBytes;
  GpuLimits limits;
  uint64_t capabilities;
};
} // namespace

static constexpr const char *kCudaTriple = "nvptx64-nvidia-cuda";

// Each row adds to the one that it derives from; an `a` row is exactly that machine and no later one.
static constexpr uint64_t kAmpere =
    bits({Feature::FMA, Feature::F16C, Feature::BF16, Feature::SpecialFunctions, Feature::F16Math, Feature::Bf16Fma,
          Feature::CpAsync, Feature::PackedF16Atomics, Feature::MatrixLoad, Feature::WarpMma, Feature::Redux});
static constexpr uint64_t kAda = kAmpere | bits({Feature::Fp8Convert, Feature::Fp8WarpMma});
static constexpr uint64_t kHopper =
    kAda | bits({Feature::Bf16Math, Feature::BulkCopy, Feature::PackedBf16Atomics, Feature::VectorAtomics,
                 Feature::MatrixStore, Feature::Cluster, Feature::Pdl});
static constexpr uint64_t kBlackwell = kHopper | bits({Feature::Vector256, Feature::PackedF32Math});

// Shared memory per block and per processor, threads per block and per processor, registers per thread and per
// processor, blocks per cluster, first PTX.
static constexpr GpuRow kGpuRows[] = {
    {"sm_80", 16, {163 << 10, 164 << 10, 1024, 2048, 255, 65536, 1, 70}, kAmpere},
    {"sm_86", 16, {99 << 10, 100 << 10, 1024, 1536, 255, 65536, 1, 71}, kAmpere},
    {"sm_89", 16, {99 << 10, 100 << 10, 1024, 1536, 255, 65536, 1, 78}, kAda},
    {"sm_90a", 16, {227 << 10, 228 << 10, 1024, 2048, 255, 65536, 16, 80}, kHopper | bits({Feature::WarpgroupMma})},
    {"sm_100a", 32, {227 << 10, 228 << 10, 1024, 2048, 255, 65536, 16, 86}, kBlackwell | bits({Feature::ReduxF32})},
    {"sm_120a", 32, {99 << 10, 100 << 10, 1024, 1536, 255, 65536, 8, 87}, kBlackwell},
};

static Target fromRow(const GpuRow &row) {
  Target target;
  target.name = target.cpu = row.name;
  target.kind = TargetKind::Cuda;
  target.triple = kCudaTriple;
  target.vectorBytes = row.vectorBytes;
  target.gpu = row.limits;
  target.capabilities = row.capabilities;
  return target;
}

static Target fromRow(const Row &row) {
  Target target;
  target.name = row.name;
  target.triple = kCpuTriple;
  target.cpu = row.cpu;
  target.vectorBytes = row.vectorBytes;
  target.vectorRegisters = row.vectorRegisters;
  target.registerTileRows = row.tileRows;
  target.registerTileCols = row.tileCols;
  target.capabilities = row.capabilities;
  return target;
}

// Shapes come from the widest generic row that this machine supports; name and feature string from the machine itself.
// Absent features are spelled out, because a hypervisor may mask what the processor's name implies.
static Target detectHost() {
  std::map<std::string, bool> found;
  for (const auto &entry : llvm::sys::getHostCPUFeatures())
    found[entry.getKey().str()] = entry.getValue();
  auto has = [&](const char *name) {
    auto it = found.find(name);
    return it != found.end() && it->second;
  };
  bool avx512 = has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  bool avx2 = has("avx2") && has("fma") && has("f16c");
  Target target = fromRow(kRows[avx512 ? 0 : avx2 ? 1 : 2]);
  target.name = kHostName;
  target.cpu = llvm::sys::getHostCPUName().str();
  if (has("avx512bf16"))
    target.capabilities |= bits({Feature::BF16});
  for (auto &[name, present] : found) {
    if (!target.features.empty())
      target.features += ',';
    target.features += (present ? '+' : '-') + name;
  }
  return target;
}

const Target &kiln::hostTarget() {
  static const Target target = detectHost();
  return target;
}

std::vector<std::string> kiln::targetNames() {
  std::vector<std::string> names = {kHostName};
  for (const Row &row : kRows)
    names.push_back(row.name);
  for (const GpuRow &row : kGpuRows)
    names.push_back(row.name);
  return names;
}

std::optional<Target> kiln::lookupTarget(llvm::StringRef name) {
  if (name == kHostName)
    return hostTarget();
  for (const Row &row : kRows)
    if (name == row.name)
      return fromRow(row);
  for (const GpuRow &row : kGpuRows)
    if (name == row.name)
      return fromRow(row);
  return std::nullopt;
}

namespace {
struct Device {
  const char *name, *row;
};
} // namespace

// Common names of GPUs, in lower case; if two names match, the first counts.
static constexpr Device kDevices[] = {
    {"a100", "sm_80"},   {"a800", "sm_80"},   {"a30", "sm_80"},     {"ampere", "sm_80"},      {"a10", "sm_86"},
    {"a40", "sm_86"},    {"a6000", "sm_86"},  {"rtx30", "sm_86"},   {"3090", "sm_86"},        {"l40", "sm_89"},
    {"l4", "sm_89"},     {"ada", "sm_89"},    {"rtx40", "sm_89"},   {"4090", "sm_89"},        {"h100", "sm_90a"},
    {"h200", "sm_90a"},  {"h800", "sm_90a"},  {"h20", "sm_90a"},    {"gh200", "sm_90a"},      {"hopper", "sm_90a"},
    {"b100", "sm_100a"}, {"b200", "sm_100a"}, {"gb200", "sm_100a"}, {"blackwell", "sm_100a"}, {"rtx50", "sm_120a"},
    {"5090", "sm_120a"},
};

std::string kiln::unknownTargetMessage(llvm::StringRef name) {
  std::string message = "unknown target '" + name.str() + "': expected one of ";
  std::string nearest;
  unsigned best = 4;
  for (const Device &device : kDevices)
    if (nearest.empty() && name.contains_insensitive(device.name)) {
      nearest = device.row;
      best = 0;
    }
  for (const std::string &candidate : targetNames()) {
    if (candidate != kHostName)
      message += ", ";
    message += candidate;
    unsigned distance = name.edit_distance(candidate, /*AllowReplacements=*/true, best);
    // For sm_90, suggest sm_90a before sm_80.
    if (llvm::StringRef(candidate).starts_with(name) && distance == 1)
      distance = 0;
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  if (!nearest.empty())
    message += " (did you mean '" + nearest + "'?)";
  return message;
}
