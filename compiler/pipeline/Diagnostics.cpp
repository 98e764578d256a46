// Converts MLIR diagnostics and locations to the compiler's own, which refer to no context.
#include "compiler/pipeline/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace kiln;

static void collectFrames(Location loc, StringRef function, std::vector<Frame> &frames) {
  if (auto range = dyn_cast<FileLineColRange>(loc)) {
    frames.push_back({range.getFilename().str(), range.getStartLine(), range.getStartColumn(), range.getEndLine(),
                      range.getEndColumn(), function.str()});
  } else if (auto name = dyn_cast<NameLoc>(loc)) {
    collectFrames(name.getChildLoc(), name.getName(), frames);
  } else if (auto call = dyn_cast<CallSiteLoc>(loc)) {
    collectFrames(call.getCallee(), function, frames);
    collectFrames(call.getCaller(), "", frames);
  } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
    size_t before = frames.size();
    for (Location part : fused.getLocations()) {
      collectFrames(part, function, frames);
      if (frames.size() > before)
        return;
    }
  }
}

std::vector<Frame> kiln::sourceFrames(Location loc) {
  std::vector<Frame> frames;
  collectFrames(loc, "", frames);
  return frames;
}

llvm::StringRef kiln::severityName(Diagnostic::Severity severity) {
  switch (severity) {
  case Diagnostic::Severity::Note:
    return "note";
  case Diagnostic::Severity::Remark:
    return "remark";
  case Diagnostic::Severity::Warning:
    return "warning";
  case Diagnostic::Severity::Error:
    return "error";
  }
  return "";
}

bool kiln::Diagnostic::isUserError() const {
  return severity == Severity::Error && !resource && !frames.empty() && StringRef(message).starts_with("expected ");
}

std::string kiln::Diagnostic::print() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (!frames.empty())
    stream << frames[0].file << ":" << frames[0].line << ":" << frames[0].column << ": ";
  stream << severityName(severity) << ": " << message;
  for (const Diagnostic &note : notes)
    stream << "\n" << note.print();
  return text;
}

static kiln::Diagnostic convert(mlir::Diagnostic &diagnostic) {
  using Severity = kiln::Diagnostic::Severity;
  kiln::Diagnostic result;
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Note:
    result.severity = Severity::Note;
    break;
  case DiagnosticSeverity::Remark:
    result.severity = Severity::Remark;
    break;
  case DiagnosticSeverity::Warning:
    result.severity = Severity::Warning;
    break;
  case DiagnosticSeverity::Error:
    result.severity = Severity::Error;
    break;
  }
  result.message = diagnostic.str();
  result.frames = sourceFrames(diagnostic.getLocation());
  result.resource = outOfResource(diagnostic);
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    result.notes.push_back(convert(note));
  return result;
}

DiagnosticCapture::DiagnosticCapture(MLIRContext &context, std::vector<kiln::Diagnostic> &into)
    : handler(&context, [&into](mlir::Diagnostic &diagnostic) {
        into.push_back(convert(diagnostic));
        return success();
      }) {}
