// One compile: from a module or a file of any stage to any later stage. Nothing is printed, nothing thrown; what went
// wrong comes back as data, in the three kinds that are never mixed.
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
  /// Row of the target table. Empty: what the module says, else the host.
  std::string target;
  Stage to = Stage::Object;
  /// The same as the user wrote it, to refuse a stage of another kind of target; may be empty.
  std::string toName;
  PipelineOptions pipeline;
  bool verifyEach = false;
  std::string dumpDirectory;  ///< one numbered file per stage, if not empty
  std::string crashDirectory; ///< where an internal failure saves IR, if not empty
  /// Set from outside to end the compile early; what it gives back then means nothing.
  std::shared_ptr<std::atomic<bool>> cancelled;
  llvm::json::Object recorded; ///< options of the launch that the compiler only records in the metadata
};

/// A failure that is not the user's program.
struct Failure {
  enum class Kind {
    Input,    ///< the given text, file, target name: whoever called is wrong
    Resource, ///< nobody is wrong, but the machine lacks something
    Internal, ///< we are wrong
  };
  Failure(Kind kind, std::string message, llvm::StringRef stage = "")
      : kind(kind), message(std::move(message)), stage(stage) {}

  Kind kind;
  std::string message;
  std::string stage;                                    ///< the stage being made
  std::string pass;                                     ///< its pass, if it was one
  std::string irPath;                                   ///< the IR before that pass, saved
  std::string reproduce;                                ///< the command that fails in the same way
  std::optional<OutOfResource> resource = std::nullopt; ///< exactly for Kind::Resource
};

struct CompileResult {
  /// Text or bytes of stage `to`; meaningless unless succeeded().
  std::string output;
  TargetKind kind = TargetKind::Cpu;                   ///< of the target that was compiled for
  artifact::Metadata metadata;                         ///< from the lowered stage on
  std::vector<std::pair<std::string, double>> timings; ///< stage, milliseconds
  std::vector<Diagnostic> diagnostics;
  std::optional<Failure> failure;
  /// What the code was made with: options that were asked for, but for a schedule that was chosen and did not fit.
  std::optional<PipelineOptions> fitted;

  bool succeeded() const;
  /// The first error in the user's program.
  const Diagnostic *userError() const;
};

/// Compiles `program`, a module of stage `from` (tile, opt or lowered). The program itself stays as it is.
CompileResult compile(Program &program, Stage from, const CompileOptions &options);
/// The same from the text of any stage but the last.
CompileResult compileText(llvm::StringRef text, Stage from, const CompileOptions &options);

} // namespace kiln
