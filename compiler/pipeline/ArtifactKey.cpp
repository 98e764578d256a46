// See ArtifactKey.h.
#include "compiler/pipeline/ArtifactKey.h"
#include "compiler/pipeline/Metadata.h"
#include "compiler/pipeline/Toolchain.h"
#include "runtime/launch/Abi.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace kiln;
namespace json = llvm::json;

static std::string print(json::Value value) { return llvm::formatv("{0}", value).str(); }

static std::string digestOfFile(llvm::StringRef path) {
  if (path.empty())
    return "none";
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  return buffer ? artifact::digest((*buffer)->getBuffer()) : "unreadable " + path.str();
}

std::vector<artifact::KeyField> kiln::artifactFields(llvm::StringRef ir, Stage from, const CompileOptions &options) {
  std::vector<artifact::KeyField> fields;
  auto add = [&](llvm::StringRef name, const std::string &value) {
    fields.push_back(artifact::makeField(name, value));
  };
  // Lists every option by name: a new one does not compile here until its author decides whether it affects the code.
  const auto &[check, enableFpFusion, lineInfo, numWarps, cluster, maxRegisters, pdl, singleWave, streaming, schedule,
               stages, consumers, byWarps, describePointers, ptxVersion, ptxas, ptxasVersion, libdevice] =
      options.pipeline;
  add("ir", ir.str());
  add("stage", stageInfo(from).name.str());
  std::optional<Target> row = lookupTarget(options.target);
  add("target", row ? print(targetJSON(*row)) : options.target);
  // Every option of the pipeline except tool paths.
  add("options", print(json::Object{{"check", check},
                                    {"enable_fp_fusion", enableFpFusion},
                                    {"line_info", lineInfo},
                                    {"num_warps", numWarps},
                                    {"cluster", cluster},
                                    {"maxnreg", maxRegisters},
                                    {"pdl", pdl},
                                    {"single_wave", singleWave},
                                    {"streaming", streaming},
                                    {"schedule", schedule},
                                    {"stages", stages},
                                    {"consumers", consumers},
                                    {"products_by_warps", byWarps},
                                    {"describe_pointers", describePointers},
                                    {"ptx_version", ptxVersion}}));
  add("launch options", print(json::Object(options.recorded)));
  // Its command line follows from the target, the options and Kiln's build.
  add("assembler", ptxas.empty() ? "none" : "ptxas " + ptxasVersion);
  add("libdevice", digestOfFile(libdevice));
  add("metadata", std::to_string(KILN_ABI_VERSION));
  for (auto &[tool, id] : toolchain())
    add(tool, id);
  return fields;
}
