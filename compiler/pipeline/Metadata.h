// Metadata of the artifact: read from the attributes of the entry function, and stored in the first line of LLVM IR and
// assembly files, so that a compile can start from those.
#pragma once
#include "compiler/pipeline/Compile.h"
#include "compiler/target/TargetText.h"

namespace kiln {

/// Fills `metadata` from the one function of `module` that has `kiln.arguments`. False, with a sentence in `error`, if
/// there is not exactly one or its attributes are incomplete.
bool collectMetadata(mlir::ModuleOp module, const Target &target, const CompileOptions &options,
                     artifact::Metadata &metadata, std::string &error);

/// `text` with the metadata as its first line, a comment that starts with `comment` ("; ", "# " or "// ").
std::string withMetadata(llvm::StringRef comment, const artifact::Metadata &metadata, llvm::StringRef text);
/// The inverse; false if the first line is something else.
bool metadataOf(llvm::StringRef comment, llvm::StringRef text, artifact::Metadata &metadata, std::string &error);

} // namespace kiln
