// Runs the stages in order; see Compile.h. Passes are in Pipeline.cpp, code generation in compiler/codegen.
#include "compiler/pipeline/Compile.h"
#include "compiler/codegen/Codegen.h"
#include "compiler/codegen/FatalError.h"
#include "compiler/pipeline/Metadata.h"
#include "compiler/pipeline/Reproducer.h"
#include "compiler/pipeline/UserAssembly.h"
#include "dialects/kgpu/KgpuAttributes.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/kgpu/LaunchFacts.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
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
  // With locations: a dumped file that is fed back keeps the user's lines.
  module.print(stream, OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/false));
  stream << "\n";
  return text;
}

// Spilled bytes per thread that are tolerated with the schedule `streams`: some of a program's position stays in memory
// until its end.
static constexpr int64_t kStreamsSpill = 64;

// Lines of instructions from which a kernel of the schedule `attention` is assembled by -O1, unless it then spills.
// That takes a fifth less time; the order of such a kernel is its schedule's, and its code is as fast
// (compiler/transforms/schedule/RATIONALE.md). Three groups of warps have too few registers for that: -O1 spilled some.
static constexpr size_t kLongAttention = 2750;
static constexpr int64_t kThreadsOfTwoGroups = 384;

static bool isAssembledFast(const artifact::CudaLaunch &cuda, StringRef ptx) {
  return cuda.attends && cuda.threads <= kThreadsOfTwoGroups && ptx.count(";\n") >= kLongAttention;
}

namespace {

class Compilation {
public:
  Compilation(const CompileOptions &options, CompileResult &result) : options(options), result(result) {}

  /// Runs the MLIR stages and continues with the rest.
  void runModule(ModuleOp module, Stage from);
  void runLLVM(StringRef text);
  void runAssembly(StringRef text);
  /// The compiler chose the schedule itself.
  bool isChosen() const { return chosen; }
  /// ptxas would serialize warp-group products, and no schedule was requested by name.
  bool isSerialized() const { return serialized; }
  /// Bytes that a thread spills.
  int64_t spilt() const { return spiltBytes; }
  /// Slots of the schedule with which the kernel did not fit shared memory; 0: no schedule, or it fits.
  int64_t slotsTooMany() const { return tooMany; }

private:
  using Build = void (*)(OpPassManager &, const PipelineOptions &);
  /// Whether the compile has been cancelled, which counts as a failure.
  bool isCancelled(Stage stage);
  bool chooseTarget(ModuleOp module);
  bool chooseTarget(const artifact::Metadata &metadata);
  bool chooseLaunch(ModuleOp module);
  bool chooseSchedule(ModuleOp module);
  bool checkTarget();
  bool runPasses(ModuleOp module, Stage stage, StringRef what, Build build);
  void generate(codegen::Unit unit, bool optimize);
  void finishAssembly(std::string ptx);
  bool finishObject(std::string object);
  bool linkLibrary(codegen::Unit &unit);
  /// Writes the dump, and returns whether this was the last requested stage.
  bool reached(Stage stage, llvm::function_ref<std::string()> text);
  void dump(StringRef extension, StringRef bytes);

  void fail(Failure::Kind kind, Stage stage, const Twine &message) {
    result.failure = Failure(kind, message.str(), stageInfo(stage, target.kind).name);
  }
  void fail(Stage stage, OutOfResource what) {
    fail(Failure::Kind::Resource, stage, what.message());
    result.failure->resource = std::move(what);
  }
  void fail(Stage stage, llvm::Error error) {
    Failure::Kind kind = error.isA<codegen::MachineError>() ? Failure::Kind::Input : Failure::Kind::Internal;
    fail(kind, stage, llvm::toString(std::move(error)));
  }

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
  bool chosen = false, free = false, serialized = false;
  std::string schedule; ///< requested by name; empty: none
  UserAssembly assembly;
  int64_t spiltBytes = 0, tooMany = 0;
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
    return checkTarget();
  }
  Attribute present = module->getAttr(kTargetAttrName);
  if (!present) {
    target = hostTarget();
    target.attachTo(module);
    return checkTarget();
  }
  std::string error = "expected kiln.target to be a dictionary";
  auto dictionary = dyn_cast<DictionaryAttr>(present);
  std::optional<Target> row = dictionary ? Target::fromAttr(dictionary, &error) : std::nullopt;
  if (!row) {
    fail(Failure::Kind::Input, Stage::Tile, error);
    return false;
  }
  target = *row;
  return checkTarget();
}

bool Compilation::checkTarget() {
  result.kind = target.kind;
  // "object" is the last stage of any target.
  if (options.toName.empty() || options.toName == "object" || isStageOf(options.toName, target.kind))
    return true;
  std::string known;
  for (const StageInfo &info : stages(target.kind))
    known += (known.empty() ? "" : ", ") + info.name.str();
  fail(Failure::Kind::Input, options.to,
       "expected one of " + known + " (because these are the stages of target " + target.name + "), got " +
           options.toName);
  return false;
}

bool Compilation::chooseSchedule(ModuleOp module) {
  auto present = module->getAttrOfType<StringAttr>(kgpu::kScheduleAttrName);
  const std::string &given = options.pipeline.schedule;
  if (present && !given.empty() && present.getValue() != given) {
    fail(Failure::Kind::Input, Stage::Lowered,
         "expected schedule " + present.getValue() + " (because the file was made for it), got " + given);
    return false;
  }
  schedule = present ? present.getValue().str() : given;
  if (schedule.empty())
    return true;
  const SmallVector<StringRef> known(std::begin(kSchedules), std::end(kSchedules));
  if (!llvm::is_contained(known, schedule)) {
    fail(Failure::Kind::Input, Stage::Lowered,
         "expected schedule to be one of " + llvm::join(known, ", ") + ", got " + schedule);
    return false;
  }
  module->setAttr(kgpu::kScheduleAttrName, StringAttr::get(module.getContext(), schedule));
  return true;
}

static bool multipliesInLoop(ModuleOp module) {
  WalkResult found = module.walk([](tile::DotOp dot) {
    return dot->getParentOfType<scf::ForOp>() ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found.wasInterrupted();
}

// Records the launch's choices on the module, so that a dumped file is self-contained.
bool Compilation::chooseLaunch(ModuleOp module) {
  Builder b(module.getContext());
  const PipelineOptions &asked = options.pipeline;
  auto settle = [&](StringRef attr, StringRef option, int64_t given, int64_t byDefault) -> std::optional<int64_t> {
    auto present = module->getAttrOfType<IntegerAttr>(attr);
    if (present && given && present.getInt() != given) {
      fail(Failure::Kind::Input, Stage::Lowered,
           "expected " + option + " " + Twine(present.getInt()) + " (because the file was made for it), got " +
               Twine(given));
      return std::nullopt;
    }
    return given ? given : present ? present.getInt() : byDefault;
  };
  auto warps = settle(kgpu::kNumWarpsAttrName, "num_warps", asked.numWarps, 4);
  auto cluster = settle(kgpu::kClusterAttrName, "cluster", asked.cluster, 1);
  auto registers = settle(kgpu::kMaxRegistersAttrName, "maxnreg", asked.maxRegisters, 0);
  auto stages = settle(kgpu::kStagesAttrName, "stages", asked.stages, 0);
  auto consumers = settle(kgpu::kConsumersAttrName, "consumers", asked.consumers, 0);
  if (!warps || !cluster || !registers || !stages || !consumers)
    return false;
  auto refuse = [&](StringRef option, const Twine &range, int64_t given) {
    fail(Failure::Kind::Input, Stage::Lowered, "expected " + option + " to be " + range + ", got " + Twine(given));
    return false;
  };
  if (*warps < 1 || *warps > 32 || !llvm::isPowerOf2_64(*warps))
    return refuse("num_warps", "a power of two from 1 to 32", *warps);
  if (*cluster < 1 || *cluster > 16 || !llvm::isPowerOf2_64(*cluster))
    return refuse("cluster", "a power of two from 1 to 16", *cluster);
  if (*registers && (*registers < 16 || *registers > target.gpu.maxRegisters))
    return refuse("maxnreg", "from 16 to " + Twine(target.gpu.maxRegisters), *registers);
  if (*stages && (*stages < 1 || *stages > 32))
    return refuse("stages", "from 1 to 32", *stages);
  if (*consumers && (*consumers < 1 || *consumers > 4))
    return refuse("consumers", "from 1 to 4", *consumers);
  if (!chooseSchedule(module))
    return false;
  if (*cluster > target.gpu.maxCluster) {
    fail(Stage::Lowered,
         OutOfResource{"blocks per cluster on " + target.name, *cluster, target.gpu.maxCluster, "cluster"});
    return false;
  }
  if (*registers && *registers * *warps * kWarpLanes > target.gpu.registersPerProcessor) {
    fail(Stage::Lowered, OutOfResource{"registers per block", *registers * *warps * kWarpLanes,
                                       target.gpu.registersPerProcessor, "maxnreg or num_warps"});
    return false;
  }
  module->setAttr(kgpu::kNumWarpsAttrName, b.getI32IntegerAttr(*warps));
  module->setAttr(kgpu::kClusterAttrName, b.getI32IntegerAttr(*cluster));
  if (*registers)
    module->setAttr(kgpu::kMaxRegistersAttrName, b.getI32IntegerAttr(*registers));
  if (*stages)
    module->setAttr(kgpu::kStagesAttrName, b.getI32IntegerAttr(*stages));
  if (*consumers)
    module->setAttr(kgpu::kConsumersAttrName, b.getI32IntegerAttr(*consumers));
  // Only affects timing: without the instructions the grids run one after the other.
  if (asked.pdl && target.has(Feature::Pdl))
    module->setAttr(kgpu::kPdlAttrName, b.getUnitAttr());
  if (asked.singleWave)
    module->setAttr(kgpu::kSingleWaveAttrName, b.getUnitAttr());
  if (asked.streaming)
    module->setAttr(kgpu::kStreamingAttrName, b.getUnitAttr());
  // Code that relies on bounded counts is refused for other launches, so this is done only where it is worth that.
  if (asked.describePointers && multipliesInLoop(module))
    module->setAttr(kgpu::kDescribePointersAttrName, b.getUnitAttr());
  auto version = settle(kgpu::kPtxVersionAttrName, "the PTX version", 0, asked.ptxVersion);
  int64_t ptx = *version ? *version : codegen::kNewestPtx;
  if (ptx < target.gpu.minPtxVersion) {
    fail(Failure::Kind::Input, Stage::Lowered,
         llvm::formatv("expected an assembler that knows PTX {0}.{1} (because {2} needs it), got one for {3}.{4}",
                       target.gpu.minPtxVersion / 10, target.gpu.minPtxVersion % 10, target.name, ptx / 10, ptx % 10)
             .str());
    return false;
  }
  module->setAttr(kgpu::kPtxVersionAttrName, b.getI32IntegerAttr(std::min(ptx, codegen::kNewestPtx)));
  return true;
}

// LLVM IR and assembly belong to the target they were made for, which their metadata describes in full; a different one
// is refused rather than silently mixed.
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
  return checkTarget();
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
  if (!code) {
    stream << bytes;
    // The buffer may hold exactly the part that does not fit; left to the destructor, that error would end the process.
    stream.close();
  }
  if (!code)
    code = stream.error();
  if (code) {
    stream.clear_error();
    kiln::Diagnostic warning;
    warning.severity = kiln::Diagnostic::Severity::Warning;
    warning.message = "cannot write " + path.str().str() + ": " + code.message();
    result.diagnostics.push_back(std::move(warning));
  }
}

bool Compilation::reached(Stage stage, llvm::function_ref<std::string()> text) {
  bool last = stage == options.to;
  if (options.dumpDirectory.empty() && !last)
    return false;
  std::string bytes = text();
  if (!options.dumpDirectory.empty())
    dump((Twine(unsigned(stage)) + "." + stageInfo(stage, target.kind).extension).str(), bytes);
  if (last)
    result.output = std::move(bytes);
  return last;
}

//===-- Stages of MLIR -------------------------------------------------------------------------------------------===//

bool Compilation::isCancelled(Stage stage) {
  if (!options.cancelled || !*options.cancelled)
    return false;
  fail(Failure::Kind::Input, stage, "the compile was cancelled");
  return true;
}

bool Compilation::runPasses(ModuleOp module, Stage stage, StringRef what, Build build) {
  if (isCancelled(stage))
    return false;
  MLIRContext *context = module.getContext();
  // The unmodified input, for rerunning up to the pass that failed.
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
    // Without verification after each pass, still verify after each stage.
    if (ok && !options.verifyEach)
      ok = succeeded(verify(module));
  }
  if (ok)
    return true;
  std::string message;
  for (const kiln::Diagnostic &diagnostic : llvm::ArrayRef(result.diagnostics).drop_front(before)) {
    if (diagnostic.isUserError())
      return false;
    if (diagnostic.resource) {
      fail(stage, *diagnostic.resource);
      return false;
    }
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

static int64_t sharedBytesOf(ModuleOp module) {
  int64_t bytes = 0;
  for (Operation &op : *module.getBody())
    if (auto planned = op.getAttrOfType<IntegerAttr>(kgpu::kSharedBytesAttrName))
      bytes = std::max(bytes, planned.getInt());
  return bytes;
}

/// The largest number of slots of any channel of the kernel; 0 if there is none.
static int64_t slotsOf(ModuleOp module) {
  int64_t slots = 0;
  module.walk(
      [&](kgpu::ChannelOp channel) { slots = std::max<int64_t>(slots, channel.getChannel().getType().getSlots()); });
  return slots;
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
  std::string error;
  if (target.isGpu()) {
    if (from < Stage::Lowered)
      assembly = collectAssembly(module);
    if (!chooseLaunch(module))
      return;
    if (from < Stage::Lowered && !runPasses(module, Stage::Lowered, "kgpu", buildKgpuPipeline)) {
      bool isOut = result.failure && result.failure->resource;
      tooMany = isOut && result.failure->resource->resource == kSharedMemory ? slotsOf(module) : 0;
      return;
    }
    if (from < Stage::Lowered && reached(Stage::Lowered, text))
      return;
    auto asked = module->getAttrOfType<StringAttr>(kgpu::kScheduleAttrName);
    WalkResult channels = module.walk([](Operation *op) {
      return op->getName().getStringRef() == "kgpu.channel" ? WalkResult::interrupt() : WalkResult::advance();
    });
    free = from < Stage::Lowered && (!asked || asked.getValue() == "auto");
    chosen = free && channels.wasInterrupted();
    // Already planned; the kernel itself does not survive the next step.
    int64_t sharedBytes = sharedBytesOf(module);
    if (!runPasses(module, Stage::LLVM, "thread", buildThreadPipeline))
      return;
    if (!collectMetadata(module, target, options, result.metadata, error))
      return fail(Failure::Kind::Internal, Stage::LLVM, error);
    result.metadata.cuda->sharedBytes = sharedBytes;
  } else {
    if (from < Stage::Lowered && !runPasses(module, Stage::Lowered, "cpu", buildCpuPipeline))
      return;
    if (!collectMetadata(module, target, options, result.metadata, error))
      return fail(from == Stage::Lowered ? Failure::Kind::Input : Failure::Kind::Internal, Stage::Lowered, error);
    if (from < Stage::Lowered && reached(Stage::Lowered, text))
      return;
  }
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
  if (target.isGpu() && !linkLibrary(*unit))
    return;
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
  bool ptx = text.starts_with("//");
  if (!metadataOf(ptx ? "// " : "# ", text, result.metadata, error))
    return fail(Failure::Kind::Input, Stage::Asm, error);
  name = result.metadata.name;
  if (!chooseTarget(result.metadata))
    return;
  if (target.isGpu())
    return finishAssembly(text.split('\n').second.str());
  Timer timer(result, "object");
  llvm::Expected<std::string> object = codegen::assemble(text, target);
  if (!object)
    return fail(Failure::Kind::Input, Stage::Asm, llvm::toString(object.takeError()));
  finishObject(std::move(*object));
}

void Compilation::generate(codegen::Unit unit, bool optimize) {
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> machine =
      codegen::createTargetMachine(target, result.metadata.cuda ? result.metadata.cuda->ptxVersion : 0);
  if (!machine)
    return fail(Stage::LLVM, machine.takeError());
  if (optimize) {
    Timer timer(result, "llvm");
    if (llvm::Error error = codegen::optimize(unit, **machine, options.cancelled.get()))
      return fail(Stage::LLVM, std::move(error));
  }
  if (isCancelled(Stage::LLVM))
    return;
  if (reached(Stage::LLVM, [&] { return withMetadata("; ", result.metadata, unit.print()); }))
    return;
  if (target.isGpu()) {
    llvm::Expected<std::string> text = std::string();
    {
      Timer timer(result, "ptx");
      text = codegen::emit(unit, **machine, codegen::FileKind::Assembly);
    }
    if (!text)
      return fail(Stage::Asm, text.takeError());
    *text = codegen::withSafeNegation(*text);
    if (reached(Stage::Asm, [&] { return withMetadata("// ", result.metadata, *text); }))
      return;
    return finishAssembly(std::move(*text));
  }
  // Assembly and object are two runs of the code generator: emit assembly only if it was requested.
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

void Compilation::finishAssembly(std::string ptx) {
  artifact::CudaLaunch &cuda = *result.metadata.cuda;
  if (options.pipeline.ptxas.empty()) {
    cuda.form = "ptx";
    finishObject(std::move(ptx));
    return;
  }
  llvm::Expected<codegen::Cubin> cubin = codegen::Cubin();
  // With the options that the text was made with, whichever stage this compile started from.
  const llvm::json::Object *made = result.metadata.extra.getObject("options");
  bool lineInfo = made && made->getBoolean("line_info").value_or(false);
  int level = isAssembledFast(cuda, ptx) ? 1 : 3;
  {
    Timer timer(result, "ptxas");
    auto assemble = [&](StringRef text) {
      return codegen::assemblePtx(text, target, options.pipeline.ptxas, level, lineInfo, options.cancelled.get());
    };
    auto lacksRegisters = [&] { return cubin && (cubin->spills() || !cubin->changes.empty()); };
    cubin = assemble(ptx);
    bool refused = !cubin && !cubin.errorIsA<codegen::MachineError>();
    if (level < 3 && (refused || lacksRegisters())) {
      if (refused)
        llvm::consumeError(cubin.takeError());
      level = 3;
      cubin = assemble(ptx);
    }
    // ptxas spills to fit more blocks on a processor; with an explicit block count of one it gets all registers. If it
    // already used them all, or all that roles begin with, there is nothing to gain, and a large kernel takes seconds.
    if (lacksRegisters() && !cuda.maxRegisters && !cuda.roles && cubin->registers < target.gpu.maxRegisters) {
      auto roomy = assemble(codegen::withOneBlock(ptx));
      if (!roomy)
        llvm::consumeError(roomy.takeError());
      else if (std::pair(roomy->changes.size(), roomy->spills()) < std::pair(cubin->changes.size(), cubin->spills()))
        cubin = std::move(roomy);
    }
  }
  if (!cubin || !cubin->changes.empty()) {
    bool isShort = cubin && llvm::any_of(cubin->changes, [](StringRef change) {
                     return change.contains("serialized due to insufficient register resources");
                   });
    serialized = isShort && free;
    if (isShort && !schedule.empty())
      return fail(Stage::Object, {"registers per thread for products that go on beside each other, at least",
                                  int64_t(target.gpu.maxRegisters) + 1, target.gpu.maxRegisters,
                                  "the tile's sides, or spread them over more groups of warps by consumers="});
    if (cubin)
      fail(Failure::Kind::Internal, Stage::Object,
           "ptxas says of the kernel '" + name + "': " + llvm::join(cubin->changes, "; "));
    else
      fail(Stage::Object, cubin.takeError());
    if (failed(reportRefused(assembly, ptx, result.failure->message))) {
      result.failure.reset(); // the user's fault; the error names the source line
      return;
    }
    if (result.failure->kind == Failure::Kind::Input)
      return;
    std::string saved = saveFile(options.crashDirectory, name, "ptx", ptx);
    result.failure->irPath = saved;
    result.failure->reproduce = options.pipeline.ptxas + " -arch=" + target.cpu + " -O" + std::to_string(level) +
                                " -v " + (saved.empty() ? "KERNEL.ptx" : saved) + " -o /dev/null";
    return;
  }
  spiltBytes = std::max(cubin->spillStores, cubin->spillLoads);
  // Registers are divided among roles so that none spills; if one does, the schedule was a wrong choice for its tile.
  bool isStreams = schedule == "streams" || schedule == "rotated";
  if (cuda.roles && cubin->spills() > (isStreams ? kStreamsSpill : 0))
    return fail(Stage::Object,
                {"bytes per thread beyond the registers of its role", std::max(cubin->spillStores, cubin->spillLoads),
                 0, "the tile's sides, or spread them over more groups of warps by consumers="});
  cuda.form = "cubin";
  if (llvm::json::Object *tools = result.metadata.extra.getObject("toolchain"))
    (*tools)["ptxas"] = options.pipeline.ptxasVersion;
  cuda.usage =
      artifact::CudaLaunch::Usage{cubin->registers, cubin->spillStores, cubin->spillLoads, cubin->stack, cubin->shared};
  finishObject(std::move(cubin->bytes));
}

// Device code links nothing but the device library from the user's toolkit.
bool Compilation::linkLibrary(codegen::Unit &unit) {
  std::vector<std::string> missing = codegen::missingFunctions(unit);
  if (missing.empty())
    return true;
  for (const std::string &function : missing)
    if (!StringRef(function).starts_with("__nv_")) {
      fail(Failure::Kind::Input, Stage::LLVM,
           "expected a function of CUDA's device library (because device code links no other library), got '" +
               function + "'");
      return false;
    }
  if (options.pipeline.libdevice.empty()) {
    fail(Failure::Kind::Input, Stage::LLVM,
         "expected CUDA's device library libdevice.10.bc (because the kernel calls '" + missing[0] +
             "'), found none: set KILN_LIBDEVICE, or install the package nvidia-nvvm");
    return false;
  }
  Timer timer(result, "libdevice");
  if (llvm::Error error = codegen::linkLibdevice(unit, options.pipeline.libdevice)) {
    fail(Failure::Kind::Input, Stage::LLVM, llvm::toString(std::move(error)));
    return false;
  }
  missing = codegen::missingFunctions(unit);
  if (missing.empty())
    return true;
  fail(Failure::Kind::Input, Stage::LLVM,
       "expected a function that " + options.pipeline.libdevice + " holds, got '" + missing[0] + "'");
  return false;
}

bool Compilation::finishObject(std::string object) {
  if (target.isGpu()) {
    if (!options.dumpDirectory.empty())
      dump("5.json", result.metadata.print());
    return reached(Stage::Object, [&] { return std::move(object); });
  }
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
    result.failure = Failure(Failure::Kind::Internal, llvm::toString(std::move(error)));
}

static bool checkOrder(Stage from, const CompileOptions &options, CompileResult &result) {
  if (from <= options.to)
    return true;
  result.failure =
      Failure(Failure::Kind::Input, ("expected a stage from " + stageInfo(from).name +
                                     " onwards (because the input is of that stage), got " + stageInfo(options.to).name)
                                        .str());
  return false;
}

namespace {
struct Attempt {
  CompileResult result;
  bool chosen = false, serialized = false;
  int64_t spilt = 0, slotsTooMany = 0;

  /// It lacks registers.
  bool isShort() const { return spilt > 0 || serialized; }
};
} // namespace

static Attempt compileOnce(Program &program, Stage from, const CompileOptions &options) {
  Attempt attempt;
  DiagnosticCapture capture(program.getContext(), attempt.result.diagnostics);
  protect(attempt.result, [&] {
    OwningOpRef<ModuleOp> module = program.getModule().clone();
    Compilation compilation(options, attempt.result);
    compilation.runModule(*module, from);
    attempt.chosen = compilation.isChosen();
    attempt.serialized = compilation.isSerialized();
    attempt.spilt = compilation.spilt();
    attempt.slotsTooMany = compilation.slotsTooMany();
  });
  attempt.result.fitted = options.pipeline;
  return attempt;
}

/// The first slot count to try when making a kernel fit: no schedule chooses more.
static constexpr int64_t kMostSlots = 8;

static void addRemark(CompileResult &result, std::string message) {
  kiln::Diagnostic remark;
  remark.severity = kiln::Diagnostic::Severity::Remark;
  remark.message = std::move(message);
  result.diagnostics.push_back(std::move(remark));
}

/// Slots are chosen before layouts determine the exchanges next to them. A kernel that then does not fit is compiled
/// with one slot fewer at a time, and if even two do not fit, with products left in place; `options` become those it
/// was compiled with. If nothing fits, the first failure is reported.
static Attempt compileToFit(Program &program, Stage from, CompileOptions &options) {
  Attempt first = compileOnce(program, from, options);
  bool mayDrop = options.pipeline.schedule.empty() || options.pipeline.schedule == "auto";
  CompileOptions less = options;
  for (int64_t slots = std::min<int64_t>(first.slotsTooMany, kMostSlots + 1) - 1; slots >= (mayDrop ? 1 : 2); --slots) {
    if (slots < 2)
      less.pipeline.schedule = "none";
    less.pipeline.stages = slots < 2 ? options.pipeline.stages : slots;
    Attempt next = compileOnce(program, from, less);
    if (next.slotsTooMany)
      slots = std::min(slots, next.slotsTooMany);
    if (!next.result.succeeded())
      continue;
    const OutOfResource &lacking = *first.result.failure->resource;
    addRemark(next.result, llvm::formatv("{0}: {1} stages would take {2} bytes of shared memory per block, and there "
                                         "are {3}",
                                         slots < 2 ? "no schedule" : llvm::formatv("{0} stages", slots).str(),
                                         first.slotsTooMany, lacking.required, lacking.available));
    options = less;
    return next;
  }
  return first;
}

CompileResult kiln::compile(Program &program, Stage from, const CompileOptions &options) {
  CompileResult result;
  if (!checkOrder(from, options, result))
    return result;
  std::lock_guard<std::mutex> lock(program.getMutex());
  CompileOptions simpler = options;
  Attempt best = compileToFit(program, from, simpler);
  // A schedule chosen by the compiler that is short of registers: try the next simpler one, if it needs fewer.
  bool again = best.chosen && best.isShort();
  for (const char *schedule : {"simple", "none"}) {
    // A successful compile without roles already used `simple`.
    if (!again || !best.isShort() || (best.chosen && best.result.succeeded() && schedule == StringRef("simple")))
      continue;
    simpler.pipeline.schedule = schedule;
    Attempt next = compileOnce(program, from, simpler);
    if (!next.result.succeeded() || (best.result.succeeded() && next.spilt >= best.spilt))
      continue;
    std::string lacking = "no registers for products that go on beside each other";
    if (!best.serialized)
      lacking = llvm::formatv("{0} bytes per thread beyond its registers", best.spilt).str();
    addRemark(next.result, llvm::formatv("schedule {0}: what fits better otherwise has {1}", schedule, lacking));
    best = std::move(next);
  }
  if (best.serialized) {
    simpler.pipeline.schedule = "none";
    simpler.pipeline.byWarps = true;
    Attempt next = compileOnce(program, from, simpler);
    if (next.result.succeeded()) {
      addRemark(next.result,
                "products of single warps: those of groups of warps have no registers to go on beside each "
                "other");
      best = std::move(next);
    }
  }
  return std::move(best.result);
}

CompileResult kiln::compileText(StringRef text, Stage from, const CompileOptions &options) {
  CompileResult result;
  if (!checkOrder(from, options, result))
    return result;
  if (from <= Stage::Lowered) {
    std::string error;
    std::unique_ptr<Program> program = Program::parse(text.str(), error);
    if (program)
      return compile(*program, from, options);
    result.failure = Failure(Failure::Kind::Input, StringRef(error).rtrim().str(), stageInfo(from).name);
    return result;
  }
  if (from == Stage::Object) {
    result.failure = Failure(Failure::Kind::Input, "expected text of an earlier stage, got an object", "object");
    return result;
  }
  protect(result, [&] {
    Compilation compilation(options, result);
    from == Stage::LLVM ? compilation.runLLVM(text) : compilation.runAssembly(text);
  });
  return result;
}
