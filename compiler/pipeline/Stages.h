// The stages of a compile, in order: the one list. Every stage's result can be dumped, edited and fed back.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace kiln {

enum class Stage : unsigned { Tile, Opt, Cpu, LLVM, Asm, Object };

struct StageInfo {
  Stage stage;
  llvm::StringLiteral name;
  llvm::StringLiteral extension; ///< of its file, NAME.extension
  llvm::StringLiteral meaning;
};

/// All stages, first to last.
llvm::ArrayRef<StageInfo> stages();
const StageInfo &stageInfo(Stage stage);
/// By name: "tile", "opt", ...
std::optional<Stage> parseStage(llvm::StringRef name);
/// By the file's extension: "x.cpu.mlir" is stage cpu; a plain "x.mlir" counts as tile.
std::optional<Stage> stageOfFile(llvm::StringRef path);

} // namespace kiln
