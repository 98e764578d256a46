// The messages of a compile as data: severity, sentence, source frames. Nothing is printed.
//
// How an error was raised determines whose fault it is. A user's mistake is `op.emitError("expected X (because Y), got
// Z")` at a source position. Any other error that ends a pass is ours: a verifier or emitOpError message (these begin
// with the op's name), "failed to legalize ...", a pass that fails without a message.
#pragma once
#include "compiler/target/Resource.h"
#include "mlir/IR/Diagnostics.h"
#include <string>
#include <vector>

namespace kiln {

/// One source position. Lines and columns count from 1; 0 is unknown.
struct Frame {
  std::string file;
  unsigned line = 0, column = 0, endLine = 0, endColumn = 0;
  std::string function; ///< the enclosing function, if known
};

/// The chain of positions of `loc`, innermost first: the position itself, then the call that led there, and so on.
std::vector<Frame> sourceFrames(mlir::Location loc);

struct Diagnostic {
  enum class Severity { Note, Remark, Warning, Error };
  Severity severity = Severity::Error;
  std::string message;
  std::vector<Frame> frames;
  std::vector<Diagnostic> notes;
  /// Set if the program is correct but does not fit the machine.
  std::optional<OutOfResource> resource;

  /// An error in the user's program, see above.
  bool isUserError() const;
  /// "file:line:column: error: message", for text outputs.
  std::string print() const;
};

llvm::StringRef severityName(Diagnostic::Severity severity);

/// Collects everything emitted on a context while it lives.
class DiagnosticCapture {
public:
  DiagnosticCapture(mlir::MLIRContext &context, std::vector<Diagnostic> &into);

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace kiln
