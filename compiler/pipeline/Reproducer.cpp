// See Reproducer.h. Saving IR before every pass of every compile would cost more than the compile; running a failed
// compile twice does not matter.
#include "compiler/pipeline/Reproducer.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "runtime/artifact/Key.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace kiln;

// Adaptors run nested pipelines and have no name of their own.
static bool isAdaptor(Pass *pass) { return pass->getArgument().empty(); }

namespace {
struct Counter : PassInstrumentation {
  Counter(PassObserver count) : count(std::move(count)) {}
  void runBeforePass(Pass *pass, Operation *) override {
    if (!isAdaptor(pass))
      ++count->started;
  }
  void runAfterPassFailed(Pass *pass, Operation *) override {
    if (!isAdaptor(pass) && !count->failed)
      count->failed = count->started - 1;
  }
  PassObserver count;
};

struct Catcher : PassInstrumentation {
  Catcher(unsigned wanted, ModuleOp module, std::string &ir, Failure &failure)
      : wanted(wanted), module(module), ir(ir), failure(failure) {}
  void runBeforePass(Pass *pass, Operation *op) override {
    if (isAdaptor(pass) || position++ != wanted)
      return;
    llvm::raw_string_ostream stream(ir);
    module.print(stream, OpPrintingFlags().enableDebugInfo(true, false).printGenericOpForm(false));
    failure.pass = pass->getArgument().str();
    std::string pipeline;
    llvm::raw_string_ostream text(pipeline);
    pass->printAsTextualPipeline(text);
    if (op != module.getOperation())
      pipeline = op->getName().getStringRef().str() + "(" + pipeline + ")";
    failure.reproduce = "--pass-pipeline='builtin.module(" + pipeline + ")'";
  }
  unsigned wanted, position = 0;
  ModuleOp module;
  std::string &ir;
  Failure &failure;
};
} // namespace

PassObserver kiln::observePasses(PassManager &passes) {
  auto count = std::make_shared<PassCount>();
  passes.addInstrumentation(std::make_unique<Counter>(count));
  return count;
}

std::string kiln::saveFile(StringRef directory, StringRef name, StringRef extension, StringRef text) {
  llvm::SmallString<128> path(directory);
  if (directory.empty() || llvm::sys::fs::create_directories(path))
    return "";
  std::string digest = artifact::digest(text).substr(0, 12);
  llvm::sys::path::append(path, (name + "-" + digest + "." + extension).str());
  std::error_code code;
  llvm::raw_fd_ostream stream(path, code);
  if (code)
    return "";
  stream << text;
  stream.close();
  if (stream.has_error()) {
    stream.clear_error();
    return "";
  }
  return path.str().str();
}

void kiln::reproduce(ModuleOp input, PassManager &passes, const PassCount &count, StringRef directory, StringRef name,
                     Failure &failure) {
  if (!count.started)
    return;
  unsigned wanted = count.failed ? *count.failed : count.started - 1;
  std::string ir;
  ScopedDiagnosticHandler silence(input.getContext(), [](mlir::Diagnostic &) { return success(); });
  passes.addInstrumentation(std::make_unique<Catcher>(wanted, input, ir, failure));
  (void)passes.run(input);
  if (!ir.empty())
    failure.irPath = saveFile(directory, name, "mlir", ir);
  if (!failure.reproduce.empty())
    failure.reproduce = "kiln-opt " + (failure.irPath.empty() ? "IR.mlir" : failure.irPath) + " " + failure.reproduce;
}
