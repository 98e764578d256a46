// From a module of the LLVM dialect to machine code: translate, optimise, emit, check. Errors are sentences without a
// source position: at this stage every failure is the compiler's fault. Callers wrap a whole compile in runProtected()
// (FatalError.h).
#pragma once
#include "compiler/target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
} // namespace llvm

namespace kiln::codegen {

/// An LLVM module together with the context that owns it.
class Unit {
public:
  Unit();
  Unit(Unit &&);
  ~Unit();

  llvm::LLVMContext &context() { return *ownedContext; }
  std::unique_ptr<llvm::Module> module;
  std::string print() const;

private:
  std::unique_ptr<llvm::LLVMContext> ownedContext;
  friend llvm::Error diagnosticsOf(Unit &unit);
  struct Collector;
  Collector *collector = nullptr; // owned by the context; collects what LLVM would print
};

/// The LLVM IR of `module`. For a CPU every function gets the target's features and vector width, and the externally
/// visible functions are those with KilnEntry's signature; for a GPU they are its kernels. All others become internal.
llvm::Expected<Unit> translate(mlir::ModuleOp module, const Target &target);
/// Parses LLVM IR text, as dumped from stage `llvm`.
llvm::Expected<Unit> parse(llvm::StringRef text, const Target &target);

/// `ptxVersion` (major * 10 + minor) applies to GPUs; 0 means kNewestPtx.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createTargetMachine(const Target &target, int64_t ptxVersion = 0);
/// The newest PTX that LLVM 22 writes.
constexpr int64_t kNewestPtx = 90;

/// LLVM's O3 pipeline without knowledge of library functions; loops are neither unrolled nor vectorised (they are
/// already). Once `cancelled` becomes true, it skips what it can.
llvm::Error optimize(Unit &unit, llvm::TargetMachine &machine, const std::atomic<bool> *cancelled = nullptr);

enum class FileKind { Assembly, Object };
/// Emits the optimised module; `unit` is consumed unless `keep` (which costs a copy).
llvm::Expected<std::string> emit(Unit &unit, llvm::TargetMachine &machine, FileKind kind, bool keep = false);
/// Assembly text to an object.
llvm::Expected<std::string> assemble(llvm::StringRef text, const Target &target);

/// The names that an object leaves undefined, sorted.
llvm::Expected<std::vector<std::string>> undefinedSymbols(llvm::StringRef object);
/// Rejects an object that does not define `symbol`, or that needs anything but memcpy, memmove, memset and the
/// functions
/// of runtime/artifact/HostLibrary.h.
llvm::Error checkObject(llvm::StringRef object, llvm::StringRef symbol);

/// The functions that device code calls and the module does not contain, sorted.
std::vector<std::string> missingFunctions(const Unit &unit);
/// Links the functions that `unit` lacks from CUDA's device library, the bitcode file at `path`.
llvm::Error linkLibdevice(Unit &unit, llvm::StringRef path);

/// The output of ptxas and its report.
struct Cubin {
  std::string bytes;
  int64_t registers = 0, spillStores = 0, spillLoads = 0, stack = 0, shared = 0;
  std::vector<std::string> changes; ///< notes on what it did not do as written, with their numbers: see changesIn()

  int64_t spills() const { return spillStores + spillLoads; }
};
/// The notes in ptxas's output that say it dropped something that a kernel relies on: registers do not move between
/// roles (then a role that was promised more spills, or the others wait), products are serialised, or it had to insert
/// a wait for products that the code lacks.
std::vector<std::string> changesIn(llvm::StringRef log);
/// Changes the PTX of a kernel to ask for only one block per processor, so that it may use more registers.
std::string withOneBlock(llvm::StringRef ptx);
/// Writes some negations of integers as complement and increment, which ptxas 13.0 compiles correctly. It assumes that
/// neg.s16 never wraps and drops the sign extension after it (-(-32768) became 32768), and it drops a neg.s32 that
/// feeds one of two maximums or minimums which it fuses into one instruction.
std::string withSafeNegation(llvm::StringRef ptx);
/// Something is wrong with the machine: a missing folder, a full disk, a program that hangs.
class MachineError : public llvm::ErrorInfo<MachineError> {
public:
  static char ID;
  explicit MachineError(std::string message) : message(std::move(message)) {}
  void log(llvm::raw_ostream &stream) const override { stream << message; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  std::string message;
};

/// The processor seconds that a process has used so far, including children it waited for; 0 if there is no such
/// process.
double processorSeconds(int process);

/// Assembles PTX to a cubin for exactly `target`, with the program at `ptxas`, at its optimization level `level`. The
/// program is killed if it does nothing for 30 seconds, after five minutes of work, or when the compile is cancelled.
llvm::Expected<Cubin> assemblePtx(llvm::StringRef ptx, const Target &target, llvm::StringRef ptxas, int level,
                                  bool lineInfo, const std::atomic<bool> *cancelled = nullptr);

} // namespace kiln::codegen
