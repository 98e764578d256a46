// The fields of an artifact's key, by name. Everything that code generation depends on must be listed here;
// test/compiler/pipeline/ArtifactKeyTest.cpp changes each.
#pragma once
#include "compiler/pipeline/Compile.h"
#include "runtime/artifact/Key.h"

namespace kiln {

/// The fields for a complete compile of `ir`, the canonical text of stage `from`. If source positions reach the
/// artifact (sites, line tables, warnings), the text must be printed with them.
std::vector<artifact::KeyField> artifactFields(llvm::StringRef ir, Stage from, const CompileOptions &options);

/// The kind under which artifacts are keyed.
constexpr llvm::StringLiteral kArtifactKind{"artifact"};

} // namespace kiln
