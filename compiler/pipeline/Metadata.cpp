// See Metadata.h.
#include "compiler/pipeline/Metadata.h"
#include "compiler/pipeline/Toolchain.h"
#include "dialects/kgpu/KgpuAttributes.h"
#include "dialects/kgpu/LaunchFacts.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "runtime/launch/Abi.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace kiln;
namespace json = llvm::json;

static constexpr llvm::StringLiteral kMark = "kiln.metadata: ";

static json::Value toJSON(Attribute attr) {
  if (auto text = dyn_cast<StringAttr>(attr))
    return text.getValue();
  if (auto flag = dyn_cast<BoolAttr>(attr))
    return flag.getValue();
  if (auto number = dyn_cast<IntegerAttr>(attr))
    return number.getInt();
  if (auto list = dyn_cast<DenseI64ArrayAttr>(attr))
    return json::Array(list.asArrayRef());
  if (auto list = dyn_cast<DenseI32ArrayAttr>(attr))
    return json::Array(list.asArrayRef());
  if (auto list = dyn_cast<ArrayAttr>(attr)) {
    json::Array array;
    for (Attribute entry : list)
      array.push_back(toJSON(entry));
    return array;
  }
  if (auto dictionary = dyn_cast<DictionaryAttr>(attr)) {
    json::Object object;
    for (NamedAttribute entry : dictionary)
      object[entry.getName().getValue()] = toJSON(entry.getValue());
    return object;
  }
  return nullptr; // the schema check refuses it
}

bool kiln::collectMetadata(ModuleOp module, const Target &target, const CompileOptions &options,
                           artifact::Metadata &metadata, std::string &error) {
  Operation *entry = nullptr;
  unsigned count = 0;
  for (Operation &function : *module.getBody())
    if (function.hasAttr("kiln.arguments")) {
      entry = &function;
      ++count;
    }
  if (count != 1) {
    error =
        llvm::formatv("expected one function with kiln.arguments (because an artifact is one kernel), got {0}", count)
            .str();
    return false;
  }
  json::Object object{
      {"abi", KILN_ABI_VERSION}, {"check", options.pipeline.check}, {"workspace_bytes", 0}, {"sites", json::Array()}};
  StringRef symbol = entry->getAttrOfType<StringAttr>("sym_name").getValue(), name = symbol;
  name.consume_front("kiln_");
  object["name"] = name;
  object["symbol"] = symbol;
  if (auto given = entry->getAttrOfType<StringAttr>("kiln.name"))
    object["name"] = given.getValue();
  for (StringRef key : {"check", "arguments", "arguments_bytes", "frame_bytes", "workspace_bytes", "sites", "waits"})
    if (Attribute attr = entry->getAttr(("kiln." + key).str()))
      object[key] = toJSON(attr);
  object["target"] = targetJSON(target);
  json::Object recorded = options.recorded;
  recorded["enable_fp_fusion"] = options.pipeline.enableFpFusion;
  recorded["line_info"] = options.pipeline.lineInfo;
  object["options"] = std::move(recorded);
  json::Object tools;
  for (auto &[tool, id] : toolchain())
    tools[tool] = id;
  if (target.isGpu()) {
    for (StringRef settled :
         {"num_warps", "cluster", "maxnreg", "pdl", "single_wave", "streaming", "describe_pointers"})
      object.getObject("options")->erase(settled);
    // As the module says, even if the compile started from a file.
    for (auto [attr, option] : {std::pair(kgpu::kScheduleAttrName, "schedule"),
                                {kgpu::kStagesAttrName, "stages"},
                                {kgpu::kConsumersAttrName, "consumers"}})
      if (Attribute asked = module->getAttr(attr))
        (*object.getObject("options"))[option] = toJSON(asked);
    for (auto [attr, option] :
         {std::pair(kgpu::kSingleWaveAttrName, "single_wave"), {kgpu::kStreamingAttrName, "streaming"}})
      if (module->hasAttr(attr))
        (*object.getObject("options"))[option] = true;
    auto number = [&](StringRef name, int64_t otherwise) { return kgpu::moduleNumber(module, name, otherwise); };
    int64_t warps = number(kgpu::kNumWarpsAttrName, 4) * number(kgpu::kNumGroupsAttrName, 1);
    object["frame_bytes"] = 0;
    json::Object cuda{{"num_warps", warps},
                      {"threads", warps * kWarpLanes},
                      {"cluster", number(kgpu::kClusterAttrName, 1)},
                      {"shared_bytes", 0},
                      {"max_registers", number(kgpu::kMaxRegistersAttrName, 0)},
                      {"pdl", module->hasAttr(kgpu::kPdlAttrName)},
                      {"ptx_version", number(kgpu::kPtxVersionAttrName, 0)},
                      {"form", ""}};
    // Results of the lowering: threads of roles, hidden parameters.
    if (auto made = entry->getAttrOfType<DictionaryAttr>("kiln.cuda"))
      for (NamedAttribute fact : made)
        cuda[fact.getName().getValue()] = toJSON(fact.getValue());
    object["cuda"] = std::move(cuda);
  }
  object["toolchain"] = std::move(tools);

  auto parsed = artifact::Metadata::fromJSON(std::move(object));
  if (!parsed.ok()) {
    error = parsed.getStatus().getMessage();
    return false;
  }
  metadata = std::move(*parsed);
  return true;
}

std::string kiln::withMetadata(StringRef comment, const artifact::Metadata &metadata, StringRef text) {
  return llvm::formatv("{0}{1}{2}\n{3}", comment, kMark, metadata.toJSON(), text).str();
}

bool kiln::metadataOf(StringRef comment, StringRef text, artifact::Metadata &metadata, std::string &error) {
  StringRef line = text.take_until([](char c) { return c == '\n'; });
  if (!line.consume_front(comment) || !line.consume_front(kMark)) {
    error =
        ("expected the first line to be '" + comment + kMark + "{...}' (because an artifact needs its metadata)").str();
    return false;
  }
  auto parsed = artifact::Metadata::parse(line);
  if (!parsed.ok()) {
    error = parsed.getStatus().getMessage();
    return false;
  }
  metadata = std::move(*parsed);
  return true;
}
