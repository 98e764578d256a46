// What decides the bytes of an artifact: the fields of its key, by name. Whatever code generation takes into account
// must be told here; test/compiler/pipeline/ArtifactKeyTest.cpp changes each.
#pragma once
#include "compiler/pipeline/Compile.h"
#include "runtime/artifact/Key.h"

namespace kiln {

/// The fields for a compile of `ir`, the canonical text of stage `from`, all the way. Where source positions reach the
/// artifact (sites, line tables, warnings) the text must be printed with them.
std::vector<artifact::KeyField> artifactFields(llvm::StringRef ir, Stage from, const CompileOptions &options);

/// The kind under which artifacts have their key.
constexpr llvm::StringLiteral kArtifactKind{"artifact"};

} // namespace kiln
