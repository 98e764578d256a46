// From a module of the LLVM dialect to machine code: translate, optimise, emit, check. Errors are sentences without a
// source position: by this point whatever goes wrong is the compiler's fault. Callers wrap a whole compile in
// runProtected() (FatalError.h).
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
  Collector *collector = nullptr; // owned by the context; gathers what LLVM would print
};

/// The LLVM IR of `module`. For a processor every function gets its features and vector width, and functions the
/// outside may call are those with KilnEntry's signature; for a GPU those are its kernels. The others become internal.
llvm::Expected<Unit> translate(mlir::ModuleOp module, const Target &target);
/// Parses LLVM IR text, as dumped from stage `llvm`.
llvm::Expected<Unit> parse(llvm::StringRef text, const Target &target);

/// `ptxVersion` (major * 10 + minor) counts for GPUs; 0 is kNewestPtx.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createTargetMachine(const Target &target, int64_t ptxVersion = 0);
/// The newest PTX that LLVM 22 writes.
constexpr int64_t kNewestPtx = 90;

/// LLVM's O3 pipeline with no library function known, loops neither unrolled nor vectorised (they are already).
/// Where `cancelled` becomes true it leaves out what it can.
llvm::Error optimize(Unit &unit, llvm::TargetMachine &machine, const std::atomic<bool> *cancelled = nullptr);

enum class FileKind { Assembly, Object };
/// Emits the optimised module; `unit` is spent unless `keep` (costs a copy).
llvm::Expected<std::string> emit(Unit &unit, llvm::TargetMachine &machine, FileKind kind, bool keep = false);
/// Assembly text to an object.
llvm::Expected<std::string> assemble(llvm::StringRef text, const Target &target);

/// Names an object leaves undefined, sorted.
llvm::Expected<std::vector<std::string>> undefinedSymbols(llvm::StringRef object);
/// Refuses an object that does not define `symbol` or that needs anything but memcpy, memmove, memset and the functions
/// of runtime/artifact/HostLibrary.h.
llvm::Error checkObject(llvm::StringRef object, llvm::StringRef symbol);

/// Functions that device code calls and does not hold, sorted.
std::vector<std::string> missingFunctions(const Unit &unit);
/// Links what `unit` lacks of CUDA's device library, the bitcode file at `path`.
llvm::Error linkLibdevice(Unit &unit, llvm::StringRef path);

/// What ptxas made and said.
struct Cubin {
  std::string bytes;
  int64_t registers = 0, spillStores = 0, spillLoads = 0, stack = 0, shared = 0;
  std::vector<std::string> changes; ///< notes of what it did not do as written, with their numbers: see changesIn()

  int64_t spills() const { return spillStores + spillLoads; }
};
/// The notes in ptxas's output that say it left out what a kernel relies on: registers that do not move between roles
/// (a role that was promised more then spills, or the others wait), products that run one after the other, a wait for
/// products that the code forgot.
std::vector<std::string> changesIn(llvm::StringRef log);
/// The PTX of a kernel that needs no more than one block per processor, and may use its registers accordingly.
std::string withOneBlock(llvm::StringRef ptx);
/// The PTX with some negations of integers spelled as complement and increment, which ptxas 13.0 gets right. It takes
/// neg.s16 for one that never wraps and leaves out the sign extension behind it (-(-32768) became 32768), and it drops
/// a neg.s32 that feeds one of two maximums or minimums which it makes one instruction of.
std::string withSafeNegation(llvm::StringRef ptx);
/// Something is wrong with the machine: a folder that is not there, a full disk, a program that hangs.
class MachineError : public llvm::ErrorInfo<MachineError> {
public:
  static char ID;
  explicit MachineError(std::string message) : message(std::move(message)) {}
  void log(llvm::raw_ostream &stream) const override { stream << message; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  std::string message;
};

/// Seconds of a processor that a process has had so far, with the children it waited for; 0 where there is none.
double processorSeconds(int process);

/// PTX to a cubin for exactly `target`, by the program at `ptxas`. One that takes 30 seconds without doing anything, or
/// that works for five minutes, is ended; so is one whose compile is cancelled.
llvm::Expected<Cubin> assemblePtx(llvm::StringRef ptx, const Target &target, llvm::StringRef ptxas, bool lineInfo,
                                  const std::atomic<bool> *cancelled = nullptr);

} // namespace kiln::codegen
