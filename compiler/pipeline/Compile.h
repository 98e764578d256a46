// One compile: from a module or a file of any stage to any later stage. Nothing is printed, nothing thrown; failures
// are returned as data, in three kinds that are never mixed.
#pragma once
#include "compiler/pipeline/Diagnostics.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/Program.h"
#include "compiler/pipeline/Stages.h"
#include "compiler/target/Target.h"
#include "runtime/artifact/Artifact.h"
#include "llvm/Support/JSON.h"
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace kiln {

struct CompileOptions {
  /// Row of the target table. Empty: the module's target, or else the host.
  std::string target;
  Stage to = Stage::Object;
  /// The stage as the user wrote it, for refusing a stage of another kind of target; may be empty.
  std::string toName;
  PipelineOptions pipeline;
  bool verifyEach = false;
  std::string dumpDirectory;  ///< one numbered file per stage, if not empty
  std::string crashDirectory; ///< where an internal failure saves IR, if not empty
  /// Set from outside to end the compile early; the result is then meaningless.
  std::shared_ptr<std::atomic<bool>> cancelled;
  llvm::json::Object recorded; ///< launch options that the compiler only records in the metadata
};

/// A failure other than a mistake in the user's program.
struct Failure {
  enum class Kind {
    Input,    ///< the given text, file or target name is invalid: the caller's mistake
    Resource, ///< the program is valid, but the machine lacks something
    Internal, ///< our mistake
  };
  Failure(Kind kind, std::string message, llvm::StringRef stage = "")
      : kind(kind), message(std::move(message)), stage(stage) {}

  Kind kind;
  std::string message;
  std::string stage;                                    ///< the stage being made
  std::string pass;                                     ///< the pass that failed, if it was one
  std::string irPath;                                   ///< the saved IR from before that pass
  std::string reproduce;                                ///< a command that fails in the same way
  std::optional<OutOfResource> resource = std::nullopt; ///< exactly for Kind::Resource
};

struct CompileResult {
  /// Text or bytes of stage `to`; meaningless unless succeeded().
  std::string output;
  TargetKind kind = TargetKind::Cpu;                   ///< the kind of the target compiled for
  artifact::Metadata metadata;                         ///< from the lowered stage on
  std::vector<std::pair<std::string, double>> timings; ///< stage, milliseconds
  std::vector<Diagnostic> diagnostics;
  std::optional<Failure> failure;
  /// The options the code was compiled with: as requested, unless a schedule that the compiler chose did not fit.
  std::optional<PipelineOptions> fitted;

  bool succeeded() const;
  /// The first error in the user's program.
  const Diagnostic *userError() const;
};

/// Compiles `program`, a module of stage `from` (tile, opt or lowered). Does not modify the program.
CompileResult compile(Program &program, Stage from, const CompileOptions &options);
/// The same from the text of any stage but the last.
CompileResult compileText(llvm::StringRef text, Stage from, const CompileOptions &options);

} // namespace kiln
