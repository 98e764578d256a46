// The list of a compile's stages, in order. Every stage's result can be dumped, edited and fed back. The name of a
// stage depends on the kind of target: CPUs go through vectors to an object, NVIDIA GPUs through tiles with layouts to
// a cubin.
#pragma once
#include "compiler/target/Target.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace kiln {

enum class Stage : unsigned { Tile, Opt, Lowered, LLVM, Asm, Object };

struct StageInfo {
  Stage stage;
  llvm::StringLiteral name;
  llvm::StringLiteral extension; ///< of its file, NAME.extension
  llvm::StringLiteral meaning;
};

/// All stages of a kind of target, first to last.
llvm::ArrayRef<StageInfo> stages(TargetKind kind);
const StageInfo &stageInfo(Stage stage, TargetKind kind = TargetKind::Cpu);
/// By name, of either kind: "tile", "cpu", "kgpu", "ptx", ...
std::optional<Stage> parseStage(llvm::StringRef name);
/// Whether `name` names a stage of that kind.
bool isStageOf(llvm::StringRef name, TargetKind kind);
/// By file extension, of either kind: "x.cpu.mlir" and "x.kgpu.mlir" are stage Lowered; a plain "x.mlir" counts as
/// tile.
std::optional<Stage> stageOfFile(llvm::StringRef path);

} // namespace kiln
