// Names of features and limits, and rows as JSON. No MLIR: the runtime's bindings link it.
#include "compiler/target/TargetText.h"
#include "llvm/ADT/STLExtras.h"
#include <tuple>

using namespace kiln;
namespace json = llvm::json;

llvm::StringRef kiln::kindName(TargetKind kind) { return kind == TargetKind::Cpu ? "cpu" : "cuda"; }

// In the order of the enumeration.
static constexpr llvm::StringLiteral kFeatureNames[] = {
    "fma",
    "f16c",
    "bf16",
    "masked_memory",
    "masked_bytes",
    "gather",
    "scatter",
    "special_functions",
    "f16_math",
    "bf16_fma",
    "bf16_math",
    "fp8_convert",
    "packed_f32_math",
    "cp_async",
    "bulk_copy",
    "vector256",
    "packed_f16_atomics",
    "packed_bf16_atomics",
    "vector_atomics",
    "matrix_load",
    "matrix_store",
    "warp_mma",
    "fp8_warp_mma",
    "warpgroup_mma",
    "redux",
    "redux_f32",
    "cluster",
    "pdl",
};
static_assert(std::size(kFeatureNames) == kNumFeatures);

llvm::StringRef kiln::featureName(Feature feature) { return kFeatureNames[unsigned(feature)]; }

/// For every limit: its name in `kiln.target`, and its field.
static constexpr std::pair<llvm::StringLiteral, int64_t GpuLimits::*> kLimits[] = {
    {"max_shared_bytes", &GpuLimits::maxSharedBytes},
    {"shared_bytes_per_processor", &GpuLimits::sharedBytesPerProcessor},
    {"max_threads", &GpuLimits::maxThreads},
    {"threads_per_processor", &GpuLimits::threadsPerProcessor},
    {"max_registers", &GpuLimits::maxRegisters},
    {"registers_per_processor", &GpuLimits::registersPerProcessor},
    {"max_cluster", &GpuLimits::maxCluster},
    {"min_ptx_version", &GpuLimits::minPtxVersion},
};

llvm::ArrayRef<std::pair<llvm::StringLiteral, int64_t GpuLimits::*>> kiln::gpuLimitFields() { return kLimits; }

bool GpuLimits::operator==(const GpuLimits &other) const {
  return llvm::all_of(kLimits, [&](auto limit) { return this->*limit.second == other.*limit.second; });
}

bool Target::operator==(const Target &other) const {
  return std::tie(name, kind, triple, cpu, features, vectorBytes, vectorRegisters, registerTileRows, registerTileCols,
                  gpu, capabilities) == std::tie(other.name, other.kind, other.triple, other.cpu, other.features,
                                                 other.vectorBytes, other.vectorRegisters, other.registerTileRows,
                                                 other.registerTileCols, other.gpu, other.capabilities);
}

json::Object kiln::targetJSON(const Target &target) {
  json::Array capabilities;
  for (unsigned i = 0; i < kNumFeatures; ++i)
    if (target.has(Feature(i)))
      capabilities.push_back(featureName(Feature(i)));
  json::Object object{{"name", target.name},
                      {"kind", kindName(target.kind)},
                      {"triple", target.triple},
                      {"cpu", target.cpu},
                      {"features", target.features},
                      {"capabilities", std::move(capabilities)},
                      {"vector_bytes", target.vectorBytes}};
  if (target.isGpu()) {
    json::Object limits;
    for (auto [name, field] : gpuLimitFields())
      limits[name] = target.gpu.*field;
    object["limits"] = std::move(limits);
  } else {
    object["vector_registers"] = target.vectorRegisters;
    object["register_tile"] = json::Array{target.registerTileRows, target.registerTileCols};
  }
  return object;
}

std::optional<Target> kiln::targetFromJSON(const json::Object &object) {
  Target target;
  auto text = [&](llvm::StringRef key) { return object.getString(key).value_or("").str(); };
  auto number = [&](const json::Object &from, llvm::StringRef key, int64_t &into) {
    std::optional<int64_t> value = from.getInteger(key);
    into = value.value_or(0);
    return value && *value > 0;
  };
  target.name = text("name");
  target.triple = text("triple");
  target.cpu = text("cpu");
  target.features = text("features");
  std::string kind = text("kind");
  const json::Array *names = object.getArray("capabilities");
  if (target.name.empty() || target.triple.empty() || target.cpu.empty() || (kind != "cpu" && kind != "cuda") ||
      !names || !number(object, "vector_bytes", target.vectorBytes))
    return std::nullopt;
  if (kind == "cuda") {
    target.kind = TargetKind::Cuda;
    const json::Object *limits = object.getObject("limits");
    for (auto [name, field] : gpuLimitFields())
      if (!limits || !number(*limits, name, target.gpu.*field))
        return std::nullopt;
  } else {
    const json::Array *tile = object.getArray("register_tile");
    if (!number(object, "vector_registers", target.vectorRegisters) || !tile || tile->size() != 2 ||
        !(*tile)[0].getAsInteger() || !(*tile)[1].getAsInteger())
      return std::nullopt;
    target.registerTileRows = *(*tile)[0].getAsInteger();
    target.registerTileCols = *(*tile)[1].getAsInteger();
  }
  for (const json::Value &name : *names)
    for (unsigned i = 0; i < kNumFeatures; ++i)
      if (name.getAsString() == featureName(Feature(i)))
        target.capabilities |= uint64_t(1) << i;
  return target;
}
