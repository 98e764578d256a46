// What a compile has to say, as data: severity, sentence, source frames. Nothing is printed.
//
// Whose fault an error is follows from how it was raised. A user's mistake is `op.emitError("expected X (because Y),
// got Z")` at a source position. Everything else that ends a pass is ours: a verifier or emitOpError message (they
// begin with the op's name), "failed to legalize ...", a pass that fails without a word.
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
  std::string function; ///< the function the position is in, if known
};

/// The chain of positions of `loc`, innermost first: the place itself, then the call that led there, and so on.
std::vector<Frame> sourceFrames(mlir::Location loc);

struct Diagnostic {
  enum class Severity { Note, Remark, Warning, Error };
  Severity severity = Severity::Error;
  std::string message;
  std::vector<Frame> frames;
  std::vector<Diagnostic> notes;
  /// Set where the program is right but does not fit the machine.
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
