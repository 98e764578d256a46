// The table of stages.
#include "compiler/pipeline/Stages.h"

using namespace kiln;

static constexpr StageInfo kStages[] = {
    {Stage::Tile, "tile", "tile.mlir", "tile IR as the front end emitted it"},
    {Stage::Opt, "opt", "opt.mlir", "tile IR after the tile passes"},
    {Stage::Cpu, "cpu", "cpu.mlir", "loops over vectors, frame planned, math expanded"},
    {Stage::LLVM, "llvm", "ll", "LLVM IR after optimisation"},
    {Stage::Asm, "asm", "s", "assembly"},
    {Stage::Object, "object", "o", "relocatable object"},
};

llvm::ArrayRef<StageInfo> kiln::stages() { return kStages; }
const StageInfo &kiln::stageInfo(Stage stage) { return kStages[unsigned(stage)]; }

std::optional<Stage> kiln::parseStage(llvm::StringRef name) {
  for (const StageInfo &info : kStages)
    if (info.name == name)
      return info.stage;
  return std::nullopt;
}

std::optional<Stage> kiln::stageOfFile(llvm::StringRef path) {
  for (const StageInfo &info : kStages)
    if (path.ends_with(("." + info.extension).str()))
      return info.stage;
  if (path.ends_with(".mlir"))
    return Stage::Tile;
  return std::nullopt;
}
