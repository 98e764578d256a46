// A module of IR together with the context that owns it. One compile uses one Program with one single-threaded context,
// so that programs of different threads share no state and nothing has to survive a fork.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include <memory>
#include <mutex>
#include <string>

namespace kiln {

/// Registers every dialect and extension that Kiln uses, lazily loaded.
void registerDialects(mlir::DialectRegistry &registry);

/// Text on which MLIR's parser would crash, as a sentence with its line; empty if there is none. MLIR 22 asks for the
/// width of `index` in `array<index: 1>`, which has none.
std::string findUnparsable(llvm::StringRef text);

class Program {
public:
  /// An empty module in a fresh context with the front end's dialects loaded.
  Program();

  /// Parses `text`; on failure returns null and puts the diagnostics into `error`.
  static std::unique_ptr<Program> parse(const std::string &text, std::string &error);

  mlir::MLIRContext &getContext() { return *context; }
  mlir::ModuleOp getModule() { return *module; }
  /// Must be held to use a finished program: its context is not made for two threads.
  std::mutex &getMutex() { return mutex; }

  /// Prints the module; with `locations`, each op's location too.
  std::string print(bool locations = false, bool generic = false);

  /// Verifies the whole module; on failure puts the diagnostics into `error`.
  bool verify(std::string &error);

private:
  std::mutex mutex;
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace kiln
