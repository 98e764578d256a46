// The tables of stages, one per kind of target.
#include "compiler/pipeline/Stages.h"

using namespace kiln;

static constexpr StageInfo kCpuStages[] = {
    {Stage::Tile, "tile", "tile.mlir", "tile IR as the front end emitted it"},
    {Stage::Opt, "opt", "opt.mlir", "tile IR after the tile passes"},
    {Stage::Lowered, "cpu", "cpu.mlir", "loops over vectors, frame planned, math expanded"},
    {Stage::LLVM, "llvm", "ll", "LLVM IR after optimisation"},
    {Stage::Asm, "asm", "s", "assembly"},
    {Stage::Object, "object", "o", "relocatable object"},
};

static constexpr StageInfo kCudaStages[] = {
    {Stage::Tile, "tile", "tile.mlir", "tile IR as the front end emitted it"},
    {Stage::Opt, "opt", "opt.mlir", "tile IR after the tile passes"},
    {Stage::Lowered, "kgpu", "kgpu.mlir", "tiles with layouts, shared memory planned, barriers placed"},
    {Stage::LLVM, "llvm", "ll", "LLVM IR after optimisation"},
    {Stage::Asm, "ptx", "ptx", "PTX"},
    {Stage::Object, "cubin", "cubin", "machine code, or PTX where no ptxas is found"},
};

static constexpr TargetKind kKinds[] = {TargetKind::Cpu, TargetKind::Cuda};

llvm::ArrayRef<StageInfo> kiln::stages(TargetKind kind) { return kind == TargetKind::Cpu ? kCpuStages : kCudaStages; }
const StageInfo &kiln::stageInfo(Stage stage, TargetKind kind) { return stages(kind)[unsigned(stage)]; }

std::optional<Stage> kiln::parseStage(llvm::StringRef name) {
  for (TargetKind kind : kKinds)
    for (const StageInfo &info : stages(kind))
      if (info.name == name)
        return info.stage;
  return std::nullopt;
}

bool kiln::isStageOf(llvm::StringRef name, TargetKind kind) {
  return llvm::any_of(stages(kind), [&](const StageInfo &info) { return info.name == name; });
}

std::optional<Stage> kiln::stageOfFile(llvm::StringRef path) {
  for (TargetKind kind : kKinds)
    for (const StageInfo &info : stages(kind))
      if (path.ends_with(("." + info.extension).str()))
        return info.stage;
  if (path.ends_with(".mlir"))
    return Stage::Tile;
  return std::nullopt;
}
