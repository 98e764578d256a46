// Stages and compile() for Python. Compiling does not hold the interpreter lock; failures are passed as plain data to
// kiln.compiler.raise_failure, which knows the exception classes.
#include "compiler/pipeline/ArtifactKey.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/pipeline/Metadata.h"
#include "python/bindings/Bindings.h"
#include "python/bindings/Cache.h"
#include "python/bindings/Interpreter.h"
#include "python/bindings/ModuleHandle.h"
#include "python/bindings/PythonSide.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>
#include <mutex>
#include <pybind11/stl.h>

namespace py = pybind11;
namespace json = llvm::json;
using namespace kiln;
using kiln::python::PyModule;

//===-- Data in both directions ----------------------------------------------------------------------------------===//

static json::Value fromPython(const py::handle &object) {
  if (object.is_none())
    return nullptr;
  if (py::isinstance<py::bool_>(object))
    return py::cast<bool>(object);
  if (py::isinstance<py::int_>(object))
    return py::cast<int64_t>(object);
  if (py::isinstance<py::float_>(object))
    return py::cast<double>(object);
  if (py::isinstance<py::str>(object))
    return py::cast<std::string>(object);
  if (py::isinstance<py::list>(object) || py::isinstance<py::tuple>(object)) {
    json::Array array;
    for (py::handle entry : object)
      array.push_back(fromPython(entry));
    return array;
  }
  throw py::type_error("an option is None, bool, int, float, str or a list of these, got " +
                       std::string(py::str(py::type::handle_of(object))));
}

static Stage stageFromName(const std::string &name) {
  if (std::optional<Stage> stage = parseStage(name))
    return *stage;
  std::string known;
  for (TargetKind kind : {TargetKind::Cpu, TargetKind::Cuda})
    for (const StageInfo &info : stages(kind))
      if (kind == TargetKind::Cpu || !isStageOf(info.name, TargetKind::Cpu))
        known += (known.empty() ? "" : ", ") + info.name.str();
  throw py::value_error("unknown stage '" + name + "': expected one of " + known);
}

/// A launch option that is a number, or None: not given.
static int64_t numberFrom(const py::handle &value) { return value.is_none() ? 0 : py::cast<int64_t>(value); }

static CompileOptions optionsFrom(const py::dict &dictionary) {
  CompileOptions options;
  for (auto [key, value] : dictionary) {
    auto name = py::cast<std::string>(key);
    // For these the metadata keeps the requested values; the values used on a GPU are in its object "cuda".
    for (const char *launch : {"num_warps", "cluster", "maxnreg", "pdl", "single_wave", "streaming", "schedule",
                               "stages", "consumers", "describe_pointers"})
      if (name == launch)
        options.recorded[name] = fromPython(value);
    if (name == "target")
      options.target = value.is_none() ? "" : py::cast<std::string>(value);
    else if (name == "to") {
      options.toName = py::cast<std::string>(value);
      options.to = stageFromName(options.toName);
    } else if (name == "check") {
      options.pipeline.check = py::cast<std::string>(value);
      if (options.pipeline.check != "none" && options.pipeline.check != "bounds" && options.pipeline.check != "races")
        throw py::value_error("check: expected none, bounds or races, got '" + options.pipeline.check + "'");
    } else if (name == "enable_fp_fusion")
      options.pipeline.enableFpFusion = py::cast<bool>(value);
    else if (name == "line_info")
      options.pipeline.lineInfo = py::cast<bool>(value);
    else if (name == "num_warps")
      options.pipeline.numWarps = numberFrom(value);
    else if (name == "cluster")
      options.pipeline.cluster = numberFrom(value);
    else if (name == "maxnreg")
      options.pipeline.maxRegisters = numberFrom(value);
    else if (name == "pdl")
      options.pipeline.pdl = !value.is_none() && py::cast<bool>(value);
    else if (name == "single_wave")
      options.pipeline.singleWave = !value.is_none() && py::cast<bool>(value);
    else if (name == "streaming")
      options.pipeline.streaming = !value.is_none() && py::cast<bool>(value);
    else if (name == "schedule")
      options.pipeline.schedule = value.is_none() ? "" : py::cast<std::string>(value);
    else if (name == "stages")
      options.pipeline.stages = numberFrom(value);
    else if (name == "consumers")
      options.pipeline.consumers = numberFrom(value);
    else if (name == "describe_pointers")
      options.pipeline.describePointers = !value.is_none() && py::cast<bool>(value);
    else if (name == "ptx_version")
      options.pipeline.ptxVersion = numberFrom(value);
    else if (name == "ptxas")
      options.pipeline.ptxas = py::cast<std::string>(value);
    else if (name == "ptxas_version")
      options.pipeline.ptxasVersion = py::cast<std::string>(value);
    else if (name == "libdevice")
      options.pipeline.libdevice = py::cast<std::string>(value);
    else if (name == "verify_each")
      options.verifyEach = py::cast<bool>(value);
    else if (name == "dump_directory")
      options.dumpDirectory = py::cast<std::string>(value);
    else if (name == "crash_directory")
      options.crashDirectory = py::cast<std::string>(value);
    else
      options.recorded[name] = fromPython(value);
  }
  return options;
}

/// A message may quote arbitrary bytes, such as a failed tool's output or a file name; it must be shown even if it is
/// not valid UTF-8.
static py::str sentence(const std::string &bytes) {
  PyObject *text = PyUnicode_DecodeUTF8(bytes.data(), Py_ssize_t(bytes.size()), "backslashreplace");
  if (!text)
    throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

static py::dict diagnosticToPython(const Diagnostic &diagnostic) {
  py::list frames, notes;
  for (const Frame &frame : diagnostic.frames)
    frames.append(py::make_tuple(sentence(frame.file), frame.line, frame.column, frame.endLine, frame.endColumn,
                                 sentence(frame.function)));
  for (const Diagnostic &note : diagnostic.notes)
    notes.append(diagnosticToPython(note));
  return py::dict(py::arg("severity") = severityName(diagnostic.severity).str(),
                  py::arg("message") = sentence(diagnostic.message), py::arg("frames") = frames,
                  py::arg("notes") = notes, py::arg("user") = diagnostic.isUserError());
}

static py::list diagnosticsToPython(const CompileResult &result) {
  py::list list;
  for (const Diagnostic &diagnostic : result.diagnostics)
    list.append(diagnosticToPython(diagnostic));
  return list;
}

[[noreturn]] static void raiseFailure(const CompileResult &result) {
  py::object failure = py::none();
  if (const std::optional<Failure> &f = result.failure) {
    static constexpr const char *kinds[] = {"input", "resource", "internal"};
    failure = py::dict(py::arg("kind") = kinds[unsigned(f->kind)], py::arg("message") = sentence(f->message),
                       py::arg("stage") = f->stage, py::arg("pass_name") = f->pass,
                       py::arg("ir_path") = sentence(f->irPath), py::arg("reproduce") = sentence(f->reproduce));
    if (f->resource) {
      failure["resource"] = f->resource->resource;
      failure["required"] = f->resource->required;
      failure["available"] = f->resource->available;
      failure["option"] = f->resource->option;
    }
  }
  kiln::python::CompilerSide::get().raiseFailure(diagnosticsToPython(result), failure);
  throw std::logic_error("kiln.compiler.raise_failure returned");
}

//===-- Artifact -------------------------------------------------------------------------------------------------===//

namespace {

/// The result of compile() for Python, with its source, so that the text of any stage can be made on demand.
class PyArtifact {
public:
  PyArtifact(std::shared_ptr<Program> program, std::string source, Stage from, CompileOptions options)
      : program(std::move(program)), source(std::move(source)), from(from), options(std::move(options)) {
    kiln::python::CompilerSide::get();
    result = run(this->options);
    if (!result.succeeded())
      raiseFailure(result);
    // A context takes half a megabyte, and stage texts are rarely needed: keep their source as text.
    if (this->program) {
      this->source = this->program->print(/*locations=*/true);
      this->program = nullptr;
    }
  }

  /// The stored result of an earlier compile of `source`, text of the first stage; compiles only on demand.
  PyArtifact(std::string source, CompileOptions options, std::string object, artifact::Metadata metadata,
             std::string key)
      : source(std::move(source)), from(Stage::Tile), options(std::move(options)), key(std::move(key)),
        diagnosed(false) {
    result.output = std::move(object);
    result.kind = metadata.cuda ? TargetKind::Cuda : TargetKind::Cpu;
    result.metadata = std::move(metadata);
  }

  const std::string &getKey() {
    if (key.empty())
      key = artifact::makeKey(kArtifactKind, fields().fields);
    return key;
  }

  /// Everything that determines its bytes.
  kiln::python::PyFields fields() const {
    std::string text = source, error;
    if (!isLocated() && from <= Stage::Lowered)
      if (std::unique_ptr<Program> parsed = Program::parse(text, error))
        text = parsed->print();
    return {artifactFields(text, from, options)};
  }

  /// Whether positions in the source are part of it.
  bool isLocated() const { return !result.metadata.sites.empty() || options.pipeline.lineInfo; }

  py::object output() const {
    if (options.to == Stage::Object)
      return py::bytes(result.output);
    return py::str(result.output);
  }

  py::bytes binary() const {
    if (options.to != Stage::Object)
      throw py::value_error("expected an object, got stage '" + stageInfo(options.to, kind()).name.str() + "'");
    return py::bytes(result.output);
  }

  TargetKind kind() const { return result.kind; }

  py::list stageNames() const {
    py::list names;
    for (const StageInfo &info : stages(kind()))
      names.append(info.name.str());
    return names;
  }

  /// The text of a stage; without a name, of this compile's last stage that is text.
  std::string text(const std::optional<std::string> &asked) {
    Stage last = std::min(options.to, Stage::Asm);
    std::string name = asked ? *asked : stageInfo(last, kind()).name.str();
    if (name == "sass")
      return kiln::python::CompilerSide::get().disassemble(binary()).cast<std::string>();
    Stage stage = stageFromName(name);
    if (!isStageOf(name, kind()) && name != "object")
      throw py::value_error("unknown stage '" + name + "' of this target: expected one of " +
                            py::cast<std::string>(py::str(", ").attr("join")(stageNames())));
    if (stage == Stage::Object)
      throw py::value_error("the object is not text: use .binary, or stage '" +
                            stageInfo(Stage::Asm, kind()).name.str() + "'");
    if (stage < from)
      throw py::value_error("expected a stage from " + stageInfo(from, kind()).name.str() +
                            " on (because the compile started there), got " + name);
    auto it = texts.find(stage);
    if (it != texts.end())
      return it->second;
    // The text must be of this code, not of an attempt that did not fit.
    if (stage >= Stage::Lowered && kind() == TargetKind::Cuda)
      compileAgain();
    CompileOptions again = options;
    again.pipeline = result.fitted.value_or(options.pipeline);
    again.to = stage;
    again.toName = name;
    again.dumpDirectory.clear();
    CompileResult made = run(again);
    if (!made.succeeded())
      raiseFailure(made);
    return texts[stage] = std::move(made.output);
  }

  py::list diagnostics() {
    compileAgain();
    return diagnosticsToPython(result);
  }

  CompileResult result;

private:
  /// Recovers what stored code does not contain: remarks, and the options it was made with.
  void compileAgain() {
    if (diagnosed)
      return;
    CompileResult made = run(options); // other threads run meanwhile and must still find a result
    result.diagnostics = std::move(made.diagnostics);
    result.fitted = std::move(made.fitted);
    diagnosed = true;
  }

  CompileResult run(const CompileOptions &how) const {
    struct State {
      std::shared_ptr<Program> program;
      std::string source;
      Stage from;
      CompileOptions options;
      CompileResult result;
    };
    auto state = std::make_shared<State>(State{program, source, from, how, {}});
    state->options.cancelled = std::make_shared<std::atomic<bool>>(false);
    kiln::python::runApart(
        [state] {
          state->result = state->program ? compile(*state->program, state->from, state->options)
                                         : compileText(state->source, state->from, state->options);
        },
        state->options.cancelled);
    return std::move(state->result);
  }

  std::shared_ptr<Program> program; ///< or
  std::string source;               ///< text
  Stage from;
  CompileOptions options;
  std::string key;       ///< empty until it is asked for
  bool diagnosed = true; ///< the result's diagnostics are those of a compile
  std::map<Stage, std::string> texts;
};

} // namespace

void kiln::python::bindCompiler(py::module_ &m) {
  py::class_<PyArtifact>(m, "Artifact", "The result of one compile.")
      .def_property_readonly("output", &PyArtifact::output, "What the last stage made: bytes of an object, else text.")
      .def_property_readonly("binary", &PyArtifact::binary,
                             "The object's bytes: for a GPU a cubin, or PTX text where no assembler was given.")
      .def_property_readonly("stages", &PyArtifact::stageNames, "Names of the stages of its kind of target, in order.")
      .def_property_readonly(
          "metadata", [](const PyArtifact &self) { return self.result.metadata.print(); },
          "The metadata as JSON text; complete from the lowered stage (cpu) on, for a GPU from llvm on.")
      .def_property_readonly(
          "timings",
          [](const PyArtifact &self) {
            py::dict timings;
            for (auto &[stage, milliseconds] : self.result.timings)
              timings[py::str(stage)] = milliseconds;
            return timings;
          },
          "Milliseconds by step.")
      .def_property_readonly("fields", &PyArtifact::fields, "What its bytes follow from: the fields of its key.")
      .def_property_readonly("key", &PyArtifact::getKey, "The key of these, under which the cache keeps it.")
      .def_property_readonly("located", &PyArtifact::isLocated, "Whether positions in the source are part of it.")
      .def_property_readonly("diagnostics", &PyArtifact::diagnostics, "Warnings and remarks, as dictionaries.")
      .def(
          "text", &PyArtifact::text, py::arg("stage") = py::none(),
          "The text of a stage, made when first asked for: 'tile', 'opt', 'cpu', 'llvm' or 'asm'; for an NVIDIA GPU "
          "'tile', 'opt', 'kgpu', 'llvm', 'ptx' or 'sass' (disassembled). By default the last one the compile came to, "
          "'asm' or 'ptx' if it went all the way.");

  m.def(
      "compile",
      [](const PyModule &module, const py::dict &options) {
        return std::make_unique<PyArtifact>(module.program, "", Stage::Tile, optionsFrom(options));
      },
      py::arg("module"), py::arg("options") = py::dict(),
      "Compiles a module of tile IR. Options: target, to, check, enable_fp_fusion, line_info, verify_each, "
      "dump_directory, crash_directory; for GPUs num_warps, cluster, maxnreg, pdl, single_wave, streaming, "
      "describe_pointers, ptx_version, "
      "ptxas, ptxas_version, libdevice; any other is recorded in the metadata. Raises what kiln.errors describes.");
  m.def(
      "compile_text",
      [](const std::string &text, const std::string &stage, const py::dict &options) {
        return std::make_unique<PyArtifact>(nullptr, text, stageFromName(stage), optionsFrom(options));
      },
      py::arg("text"), py::arg("stage"), py::arg("options") = py::dict(),
      "Compiles the text of any stage but the last.");

  m.def(
      "restore",
      [](const std::string &tile, const py::dict &options, const py::bytes &object, const std::string &metadataText,
         const std::string &key) {
        ErrorOr<artifact::Metadata> metadata = artifact::Metadata::parse(metadataText);
        if (!metadata.ok())
          throw py::value_error(metadata.getStatus().getMessage());
        return std::make_unique<PyArtifact>(tile, optionsFrom(options), object, std::move(*metadata), key);
      },
      py::arg("tile"), py::arg("options"), py::arg("object"), py::arg("metadata"), py::arg("key"),
      "The artifact of an earlier compile of tile IR with these options; nothing is compiled.");
  m.def(
      "artifact_fields",
      [](const PyModule &module, const py::dict &options, bool located) {
        std::string text = module.program->print(located);
        return std::make_tuple(kiln::python::PyFields{artifactFields(text, Stage::Tile, optionsFrom(options))}, text);
      },
      py::arg("module"), py::arg("options"), py::arg("located"),
      "What the bytes of an artifact follow from, and the text of its tile IR: with positions in the source, or "
      "without.");
  m.def(
      "stages",
      [](const std::string &kind) {
        if (kind != "cpu" && kind != "cuda")
          throw py::value_error("expected a kind of target, cpu or cuda, got '" + kind + "'");
        py::list list;
        for (const StageInfo &info : stages(kind == "cpu" ? TargetKind::Cpu : TargetKind::Cuda))
          list.append(py::make_tuple(info.name.str(), info.extension.str(), info.meaning.str()));
        return list;
      },
      py::arg("kind") = "cpu", "(name, file extension, meaning) of every stage of a kind of target, in order.");
  m.def(
      "stage_of_file",
      [](const std::string &path) -> py::object {
        std::optional<Stage> stage = stageOfFile(path);
        return stage ? py::object(py::str(stageInfo(*stage).name.str())) : py::none();
      },
      py::arg("path"), "The stage a file's name stands for, by its name for processors, or None.");
}
