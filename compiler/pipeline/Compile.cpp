// Runs the stages one after the other; see Compile.h. Passes live in Pipeline.cpp, code generation in compiler/codegen.
#include "compiler/pipeline/Compile.h"
#include "compiler/codegen/Codegen.h"
#include "compiler/codegen/FatalError.h"
#include "compiler/pipeline/Metadata.h"
#include "compiler/pipeline/Reproducer.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Target/TargetMachine.h"
#include <atomic>
#include <chrono>

using namespace mlir;
using namespace kiln;

bool CompileResult::succeeded() const { return !failure && !userError(); }

const kiln::Diagnostic *CompileResult::userError() const {
  for (const kiln::Diagnostic &diagnostic : diagnostics)
    if (diagnostic.isUserError())
      return &diagnostic;
  return nullptr;
}

static std::string printModule(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  // With locations: a dumped file that is fed back still knows the user's lines.
  module.print(stream, OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/false));
  stream << "\n";
  return text;
}

namespace {

class Compilation {
public:
  Compilation(const CompileOptions &options, CompileResult &result) : options(options), result(result) {}

  /// Takes the stages of MLIR and goes on to the rest.
  void runModule(ModuleOp module, Stage from);
  void runLLVM(StringRef text);
  void runAssembly(StringRef text);

private:
  using Build = void (*)(OpPassManager &, const PipelineOptions &);
  bool chooseTarget(ModuleOp module);
  bool chooseTarget(const artifact::Metadata &metadata);
  bool runPasses(ModuleOp module, Stage stage, StringRef what, Build build);
  void generate(codegen::Unit unit, bool optimize);
  bool finishObject(std::string object);
  /// Writes the dump, and says whether this was the last stage asked for.
  bool reached(Stage stage, llvm::function_ref<std::string()> text);
  void dump(StringRef extension, StringRef bytes);

  void fail(Failure::Kind kind, Stage stage, const Twine &message) {
    result.failure = Failure{kind, message.str(), stageInfo(stage).name.str(), "", "", ""};
  }
  void fail(Stage stage, llvm::Error error) { fail(Failure::Kind::Internal, stage, llvm::toString(std::move(error))); }

  struct Timer {
    Timer(CompileResult &result, StringRef name)
        : result(result), name(name), start(std::chrono::steady_clock::now()) {}
    ~Timer() {
      std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
      result.timings.emplace_back(name.str(), passed.count());
    }
    CompileResult &result;
    StringRef name;
    std::chrono::steady_clock::time_point start;
  };

  const CompileOptions &options;
  CompileResult &result;
  Target target;
  std::string name = "module"; // of the kernel, for file names
  unsigned serial = 0;
};

} // namespace

//===-- Target ---------------------------------------------------------------------------------------------------===//

bool Compilation::chooseTarget(ModuleOp module) {
  if (!options.target.empty()) {
    std::optional<Target> row = lookupTarget(options.target);
    if (!row) {
      fail(Failure::Kind::Input, Stage::Tile, unknownTargetMessage(options.target));
      return false;
    }
    target = *row;
    target.attachTo(module);
    return true;
  }
  Attribute present = module->getAttr(kTargetAttrName);
  if (!present) {
    target = hostTarget();
    target.attachTo(module);
    return true;
  }
  std::string error = "expected kiln.target to be a dictionary";
  auto dictionary = dyn_cast<DictionaryAttr>(present);
  std::optional<Target> row = dictionary ? Target::fromAttr(dictionary, &error) : std::nullopt;
  if (!row) {
    fail(Failure::Kind::Input, Stage::Tile, error);
    return false;
  }
  target = *row;
  return true;
}

// LLVM IR and assembly belong to the target they were made for, which their metadata describes in full; a different
// one is refused, not silently mixed.
bool Compilation::chooseTarget(const artifact::Metadata &metadata) {
  std::optional<Target> made = targetFromJSON(metadata.target);
  if (!made) {
    fail(Failure::Kind::Input, Stage::LLVM, "expected the metadata to describe a target");
    return false;
  }
  if (!options.target.empty() && options.target != made->name) {
    fail(Failure::Kind::Input, Stage::LLVM,
         lookupTarget(options.target)
             ? "expected target " + made->name + " (because the text was made for it), got " + options.target
             : unknownTargetMessage(options.target));
    return false;
  }
  target = *made;
  return true;
}

//===-- Dumps ----------------------------------------------------------------------------------------------------===//

void Compilation::dump(StringRef extension, StringRef bytes) {
  static std::atomic<unsigned> compiles{0};
  if (!serial)
    serial = ++compiles;
  llvm::SmallString<128> path(options.dumpDirectory);
  llvm::sys::fs::create_directories(path);
  llvm::sys::path::append(path, llvm::formatv("{0,0+3}.{1}.{2}", serial, name, extension).str());
  std::error_code code;
  llvm::raw_fd_ostream stream(path, code);
  if (!code)
    stream << bytes;
  if (code || stream.has_error()) {
    stream.clear_error();
    kiln::Diagnostic warning;
    warning.severity = kiln::Diagnostic::Severity::Warning;
    warning.message = "cannot write " + path.str().str() + ": " + (code ? code : stream.error()).message();
    result.diagnostics.push_back(std::move(warning));
  }
}

bool Compilation::reached(Stage stage, llvm::function_ref<std::string()> text) {
  bool last = stage == options.to;
  if (options.dumpDirectory.empty() && !last)
    return false;
  std::string bytes = text();
  if (!options.dumpDirectory.empty())
    dump((Twine(unsigned(stage)) + "." + stageInfo(stage).extension).str(), bytes);
  if (last)
    result.output = std::move(bytes);
  return last;
}

//===-- Stages of MLIR -------------------------------------------------------------------------------------------===//

bool Compilation::runPasses(ModuleOp module, Stage stage, StringRef what, Build build) {
  MLIRContext *context = module.getContext();
  // The untouched input, to run again up to the pass that failed.
  OwningOpRef<ModuleOp> input = module.clone();
  PassManager passes(context, ModuleOp::getOperationName());
  passes.enableVerifier(options.verifyEach);
  build(passes, options.pipeline);
  PassObserver observer = observePasses(passes);
  size_t before = result.diagnostics.size();
  bool ok;
  {
    Timer timer(result, what);
    ok = succeeded(passes.run(module));
    // Without verification after each pass there is still one after each stage.
    if (ok && !options.verifyEach)
      ok = succeeded(verify(module));
  }
  if (ok)
    return true;
  std::string message;
  for (const kiln::Diagnostic &diagnostic : llvm::ArrayRef(result.diagnostics).drop_front(before)) {
    if (diagnostic.isUserError())
      return false;
    if (diagnostic.severity == kiln::Diagnostic::Severity::Error)
      message += (message.empty() ? "" : "\n") + diagnostic.print();
  }
  fail(Failure::Kind::Internal, stage, message.empty() ? "the pass failed without a message" : message);
  PassManager again(context, ModuleOp::getOperationName());
  again.enableVerifier(options.verifyEach);
  build(again, options.pipeline);
  reproduce(*input, again, *observer, options.crashDirectory, name, *result.failure);
  return false;
}

static std::string kernelName(ModuleOp module) {
  for (Operation &op : *module.getBody())
    if (op.hasAttr("tile.kernel") || op.hasAttr("kiln.arguments")) {
      StringRef name = cast<StringAttr>(op.getAttr("sym_name")).getValue();
      name.consume_front("kiln_");
      return name.str();
    }
  return "module";
}

void Compilation::runModule(ModuleOp module, Stage from) {
  name = kernelName(module);
  if (!chooseTarget(module))
    return;
  auto text = [&] { return printModule(module); };
  if (reached(from, text))
    return;
  if (from < Stage::Opt) {
    if (!runPasses(module, Stage::Opt, "opt", buildTilePipeline) || reached(Stage::Opt, text))
      return;
  }
  if (from < Stage::Cpu) {
    if (!runPasses(module, Stage::Cpu, "cpu", buildCpuPipeline))
      return;
  }
  std::string error;
  if (!collectMetadata(module, target, options, result.metadata, error))
    return fail(from == Stage::Cpu ? Failure::Kind::Input : Failure::Kind::Internal, Stage::Cpu, error);
  if (from < Stage::Cpu && reached(Stage::Cpu, text))
    return;
  if (!runPasses(module, Stage::LLVM, "llvm dialect", buildLLVMPipeline))
    return;
  std::optional<codegen::Unit> unit;
  {
    Timer timer(result, "translate");
    llvm::Expected<codegen::Unit> translated = codegen::translate(module, target);
    if (!translated)
      return fail(Stage::LLVM, translated.takeError());
    unit.emplace(std::move(*translated));
  }
  generate(std::move(*unit), /*optimize=*/true);
}

//===-- Stages of LLVM -------------------------------------------------------------------------------------------===//

void Compilation::runLLVM(StringRef text) {
  std::string error;
  if (!metadataOf("; ", text, result.metadata, error))
    return fail(Failure::Kind::Input, Stage::LLVM, error);
  name = result.metadata.name;
  if (!chooseTarget(result.metadata))
    return;
  llvm::Expected<codegen::Unit> unit = codegen::parse(text, target);
  if (!unit)
    return fail(Failure::Kind::Input, Stage::LLVM, llvm::toString(unit.takeError()));
  generate(std::move(*unit), /*optimize=*/false);
}

void Compilation::runAssembly(StringRef text) {
  std::string error;
  if (!metadataOf("# ", text, result.metadata, error))
    return fail(Failure::Kind::Input, Stage::Asm, error);
  name = result.metadata.name;
  if (!chooseTarget(result.metadata))
    return;
  Timer timer(result, "object");
  llvm::Expected<std::string> object = codegen::assemble(text, target);
  if (!object)
    return fail(Failure::Kind::Input, Stage::Asm, llvm::toString(object.takeError()));
  finishObject(std::move(*object));
}

void Compilation::generate(codegen::Unit unit, bool optimize) {
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> machine = codegen::createTargetMachine(target);
  if (!machine)
    return fail(Stage::LLVM, machine.takeError());
  if (optimize) {
    Timer timer(result, "llvm");
    if (llvm::Error error = codegen::optimize(unit, **machine))
      return fail(Stage::LLVM, std::move(error));
  }
  if (reached(Stage::LLVM, [&] { return withMetadata("; ", result.metadata, unit.print()); }))
    return;
  // Assembly and object are two runs of the code generator: the first only if somebody looks at it.
  if (options.to == Stage::Asm || !options.dumpDirectory.empty()) {
    Timer timer(result, "asm");
    llvm::Expected<std::string> text =
        codegen::emit(unit, **machine, codegen::FileKind::Assembly, /*keep=*/options.to != Stage::Asm);
    if (!text)
      return fail(Stage::Asm, text.takeError());
    if (reached(Stage::Asm, [&] { return withMetadata("# ", result.metadata, *text); }))
      return;
  }
  Timer timer(result, "object");
  llvm::Expected<std::string> object = codegen::emit(unit, **machine, codegen::FileKind::Object);
  if (!object)
    return fail(Stage::Object, object.takeError());
  finishObject(std::move(*object));
}

bool Compilation::finishObject(std::string object) {
  if (llvm::Error error = codegen::checkObject(object, result.metadata.symbol)) {
    fail(Stage::Object, std::move(error));
    return false;
  }
  if (!options.dumpDirectory.empty())
    dump("5.json", result.metadata.print());
  return reached(Stage::Object, [&] { return std::move(object); });
}

//===-- Entry points ---------------------------------------------------------------------------------------------===//

static void protect(CompileResult &result, llvm::function_ref<void()> action) {
  llvm::Error error = codegen::runProtected([&] {
    action();
    return llvm::Error::success();
  });
  if (error)
    result.failure = Failure{Failure::Kind::Internal, llvm::toString(std::move(error)), "", "", "", ""};
}

static bool checkOrder(Stage from, const CompileOptions &options, CompileResult &result) {
  if (from <= options.to)
    return true;
  result.failure = Failure{Failure::Kind::Input,
                           ("expected a stage from " + stageInfo(from).name +
                            " on (because that is where this starts), got " + stageInfo(options.to).name)
                               .str(),
                           "",
                           "",
                           "",
                           ""};
  return false;
}

CompileResult kiln::compile(Program &program, Stage from, const CompileOptions &options) {
  CompileResult result;
  if (!checkOrder(from, options, result))
    return result;
  std::lock_guard<std::mutex> lock(program.getMutex());
  DiagnosticCapture capture(program.getContext(), result.diagnostics);
  protect(result, [&] {
    OwningOpRef<ModuleOp> module = program.getModule().clone();
    Compilation(options, result).runModule(*module, from);
  });
  return result;
}

CompileResult kiln::compileText(StringRef text, Stage from, const CompileOptions &options) {
  CompileResult result;
  if (!checkOrder(from, options, result))
    return result;
  if (from <= Stage::Cpu) {
    std::string error;
    std::unique_ptr<Program> program = Program::parse(text.str(), error);
    if (program)
      return compile(*program, from, options);
    result.failure =
        Failure{Failure::Kind::Input, StringRef(error).rtrim().str(), stageInfo(from).name.str(), "", "", ""};
    return result;
  }
  if (from == Stage::Object) {
    result.failure =
        Failure{Failure::Kind::Input, "expected text of an earlier stage, got an object", "object", "", "", ""};
    return result;
  }
  protect(result, [&] {
    Compilation compilation(options, result);
    from == Stage::LLVM ? compilation.runLLVM(text) : compilation.runAssembly(text);
  });
  return result;
}
