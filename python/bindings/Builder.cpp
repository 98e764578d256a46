// Builder and Module: how the Python front end makes tile IR. Python refers to values, locations and regions by integer
// handles, and to types and attributes by their text, so no MLIR object outlives or escapes the program that owns it.
#include "compiler/analysis/Disjoint.h"
#include "compiler/analysis/Numerics.h"
#include "dialects/tile/TileOps.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "python/bindings/Bindings.h"
#include "python/bindings/Interpreter.h"
#include "python/bindings/ModuleHandle.h"
#include "runtime/artifact/ElementType.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace mlir;
using kiln::python::PyModule;

namespace {

using Handles = std::vector<int>;
using Names = std::vector<std::string>;

class IRBuilder {
public:
  IRBuilder()
      : program(std::make_shared<kiln::Program>()), builder(&program->getContext()),
        unknown(UnknownLoc::get(&program->getContext())) {
    builder.setInsertionPointToEnd(program->getModule().getBody());
    locations.push_back(unknown);
    current = unknown;
  }

  /// Emission that failed leaves regions open, whose ops use values of regions around them: no op may refer to another
  /// any more when the first is destroyed.
  ~IRBuilder() {
    for (const std::unique_ptr<Region> &region : regions)
      if (region)
        region->dropAllReferences();
    for (const Saved &open : saved)
      if (open.region)
        open.region->dropAllReferences();
  }

  //===--- locations -----------------------------------------------------===//

  int fileLoc(const std::string &file, unsigned line, unsigned column, unsigned endLine, unsigned endColumn) {
    return addLocation(FileLineColRange::get(StringAttr::get(context(), file), line, column, endLine, endColumn));
  }
  int callLoc(int callee, int caller) { return addLocation(CallSiteLoc::get(location(callee), location(caller))); }
  int nameLoc(const std::string &name, int child) {
    return addLocation(NameLoc::get(StringAttr::get(context(), name), location(child)));
  }
  void setLoc(int handle) {
    kiln::python::stopAtEnd(); // emission can be long, and every step of it comes here
    current = location(handle);
  }

  //===--- functions -----------------------------------------------------===//

  /// Opens a function at the end of the module; its result types are those of the values `endFunction` returns.
  Handles beginFunction(const std::string &name, const Names &argumentTypes, const std::vector<py::dict> &argumentAttrs,
                        bool isPublic, const py::dict &attrs) {
    saved.push_back({builder.saveInsertionPoint(), nullptr});
    builder.setInsertionPointToEnd(program->getModule().getBody());
    auto type = FunctionType::get(context(), parseTypes(argumentTypes), {});
    auto function = func::FuncOp::create(builder, current, name, type);
    function.setVisibility(isPublic ? SymbolTable::Visibility::Public : SymbolTable::Visibility::Private);
    for (auto [key, value] : attrs)
      function->setAttr(py::cast<std::string>(key), attribute(value));
    for (auto [index, dictionary] : llvm::enumerate(argumentAttrs))
      for (auto [key, value] : dictionary)
        function.setArgAttr(index, py::cast<std::string>(key), attribute(value));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToEnd(entry);
    functions.push_back(function);
    return addValues(entry->getArguments());
  }

  void endFunction(const Handles &results) {
    if (functions.empty())
      throw py::value_error("end_function without begin_function");
    func::FuncOp function = functions.back();
    SmallVector<Value> operands = operandsOf(results);
    func::ReturnOp::create(builder, current, operands);
    function.setFunctionType(
        FunctionType::get(context(), function.getArgumentTypes(), TypeRange(ValueRange(operands))));
    functions.pop_back();
    builder.restoreInsertionPoint(saved.back().point);
    saved.pop_back();
  }

  //===--- regions -------------------------------------------------------===//

  /// Makes a region of one block and moves the insertion point into it; `create` takes it once it is ended.
  Handles beginRegion(const Names &argumentTypes) {
    auto region = std::make_unique<Region>();
    Block *block = new Block;
    region->push_back(block);
    SmallVector<Type> types = parseTypes(argumentTypes);
    block->addArguments(types, SmallVector<Location>(types.size(), current));
    saved.push_back({builder.saveInsertionPoint(), std::move(region)});
    builder.setInsertionPointToEnd(block);
    return addValues(block->getArguments());
  }

  int endRegion() {
    regions.push_back(popRegion());
    return static_cast<int>(regions.size()) - 1;
  }

  /// Goes back to the end of an ended region, to add a terminator that depends on what came after it.
  void reopenRegion(int handle) {
    std::unique_ptr<Region> region = takeRegion(handle);
    Block *block = &region->back();
    saved.push_back({builder.saveInsertionPoint(), std::move(region)});
    builder.setInsertionPointToEnd(block);
  }

  /// Forgets the region being built and all that is in it.
  void dropRegion() { popRegion(); }

  /// How many functions and regions are open; to check that emission is balanced.
  int depth() { return static_cast<int>(saved.size()); }

  //===--- ops -----------------------------------------------------------===//

  Handles create(const std::string &name, const Handles &operands, const Names &resultTypes, const py::dict &attrs,
                 const Handles &regionHandles, const std::optional<std::vector<int>> &segments) {
    auto registered = RegisteredOperationName::lookup(name, context());
    if (!registered)
      throw py::value_error("unknown op '" + name + "'");
    OperationState state(current, *registered);
    state.addOperands(operandsOf(operands));
    state.addTypes(parseTypes(resultTypes));
    for (auto [key, value] : attrs)
      if (!value.is_none())
        state.addAttribute(py::cast<std::string>(key), attribute(value));
    if (segments)
      state.addAttribute("operandSegmentSizes",
                         builder.getDenseI32ArrayAttr(SmallVector<int32_t>(segments->begin(), segments->end())));
    for (int handle : regionHandles) // -1: an empty region
      state.addRegion(handle < 0 ? std::make_unique<Region>() : takeRegion(handle));
    return addValues(builder.create(state)->getResults());
  }

  int constant(const std::string &typeText, const py::object &value) {
    Type type = parseType(typeText);
    auto shaped = dyn_cast<RankedTensorType>(type);
    Type element = shaped ? shaped.getElementType() : type;
    TypedAttr scalar;
    if (auto integer = dyn_cast<IntegerType>(element)) {
      unsigned long long bits = PyLong_AsUnsignedLongLongMask(py::int_(value).ptr());
      scalar = IntegerAttr::get(integer, APInt(64, bits).trunc(integer.getWidth()));
    } else if (auto floating = dyn_cast<FloatType>(element)) {
      APFloat number(kiln::artifact::saturated(py::cast<double>(py::float_(value)), floating.getFloatSemantics()));
      bool inexact = false;
      number.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven, &inexact);
      scalar = FloatAttr::get(floating, number);
    } else {
      throw py::value_error("no constant of type " + typeText);
    }
    TypedAttr attr = shaped ? TypedAttr(DenseElementsAttr::get(shaped, Attribute(scalar))) : scalar;
    return addValue(arith::ConstantOp::create(builder, current, attr));
  }

  std::string typeOf(int handle) {
    std::string text;
    llvm::raw_string_ostream(text) << value(handle).getType();
    return text;
  }

  /// Name of the op that made a value; empty for a block argument.
  std::string definingOp(int handle) {
    Operation *op = value(handle).getDefiningOp();
    return op ? op->getName().getStringRef().str() : "";
  }

  std::string print() { return program->print(/*locations=*/false, /*generic=*/true); }

  PyModule finish() {
    if (!saved.empty())
      throw py::value_error("finish inside a function or region");
    std::string error;
    if (!program->verify(error))
      throw std::runtime_error(error);
    return {program};
  }

private:
  struct Saved {
    OpBuilder::InsertPoint point;
    std::unique_ptr<Region> region; ///< null for a function
  };

  MLIRContext *context() { return &program->getContext(); }

  int addLocation(Location location) {
    locations.push_back(location);
    return static_cast<int>(locations.size()) - 1;
  }
  Location location(int handle) { return locations.at(handle); }

  int addValue(Value value) {
    values.push_back(value);
    return static_cast<int>(values.size()) - 1;
  }
  Handles addValues(ValueRange range) {
    Handles handles;
    for (Value value : range)
      handles.push_back(addValue(value));
    return handles;
  }
  Value value(int handle) { return values.at(handle); }
  SmallVector<Value> operandsOf(const Handles &handles) {
    SmallVector<Value> operands;
    for (int handle : handles)
      operands.push_back(value(handle));
    return operands;
  }

  std::unique_ptr<Region> popRegion() {
    if (saved.empty() || !saved.back().region)
      throw py::value_error("no region is open");
    std::unique_ptr<Region> region = std::move(saved.back().region);
    builder.restoreInsertionPoint(saved.back().point);
    saved.pop_back();
    return region;
  }
  std::unique_ptr<Region> takeRegion(int handle) {
    std::unique_ptr<Region> region = std::move(regions.at(handle));
    if (!region)
      throw py::value_error("a region was used twice");
    return region;
  }

  /// Runs a parser of MLIR text; its diagnostics become the exception.
  template <typename Result, typename Parse> Result parseText(const std::string &text, const char *what, Parse parse) {
    std::string error;
    ScopedDiagnosticHandler handler(context(), [&](Diagnostic &diagnostic) {
      error += diagnostic.str();
      return success();
    });
    Result result = parse();
    if (!result)
      throw py::value_error(std::string("bad ") + what + " '" + text + "': " + error);
    return result;
  }
  Type parseType(const std::string &text) {
    Type &cached = types[text];
    if (!cached)
      cached = parseText<Type>(text, "type", [&] { return mlir::parseType(text, context()); });
    return cached;
  }
  SmallVector<Type> parseTypes(const Names &texts) {
    SmallVector<Type> result;
    for (const std::string &text : texts)
      result.push_back(parseType(text));
    return result;
  }

  /// str: the text of an attribute; bool, int (i64), float (f64), list of int (array<i64>), bytes (a string attribute).
  Attribute attribute(const py::handle &object) {
    if (py::isinstance<py::str>(object)) {
      std::string text = py::cast<std::string>(object);
      Attribute &cached = attributes[text];
      if (!cached)
        cached = parseText<Attribute>(text, "attribute", [&] { return parseAttribute(text, context()); });
      return cached;
    }
    if (py::isinstance<py::bytes>(object))
      return builder.getStringAttr(std::string(py::cast<py::bytes>(py::reinterpret_borrow<py::object>(object))));
    if (py::isinstance<py::bool_>(object))
      return builder.getBoolAttr(py::cast<bool>(object));
    if (py::isinstance<py::int_>(object))
      return builder.getI64IntegerAttr(py::cast<int64_t>(object));
    if (py::isinstance<py::float_>(object))
      return builder.getF64FloatAttr(py::cast<double>(object));
    if (py::isinstance<py::sequence>(object))
      return builder.getDenseI64ArrayAttr(py::cast<std::vector<int64_t>>(object));
    throw py::type_error("no attribute can be made of " + std::string(py::str(py::type::handle_of(object))));
  }

  std::shared_ptr<kiln::Program> program;
  OpBuilder builder;
  Location unknown;
  Location current = unknown;
  std::vector<Location> locations;
  std::vector<Value> values;
  std::vector<std::unique_ptr<Region>> regions;
  std::vector<Saved> saved;
  std::vector<func::FuncOp> functions;
  llvm::StringMap<Type> types;
  llvm::StringMap<Attribute> attributes;
};

} // namespace

void kiln::python::bindBuilder(py::module_ &m) {
  py::class_<PyModule>(m, "Module", "A module of IR and the context that owns it.")
      .def(
          "print", [](PyModule &self, bool locations, bool generic) { return self.program->print(locations, generic); },
          py::arg("locations") = false, py::arg("generic") = false, "The module as text.")
      .def("__str__", [](PyModule &self) { return self.program->print(); })
      .def(
          "verify",
          [](PyModule &self) {
            std::string error;
            if (!self.program->verify(error))
              throw std::runtime_error(error);
          },
          "Raises RuntimeError with the diagnostics unless the module is valid.")
      .def(
          "numerics",
          [](PyModule &self) {
            std::lock_guard lock(self.program->getMutex());
            py::list found;
            for (auto kernel : self.program->getModule().getOps<func::FuncOp>()) {
              if (!kernel->hasAttr("tile.kernel"))
                continue;
              kiln::Numerics numerics = kiln::describeNumerics(kernel);
              found.append(py::make_tuple(numerics.digest, numerics.facts, kiln::describeProducts(kernel)));
            }
            return found;
          },
          "For each kernel: a digest of the order in which it combines floats, what in it is about order, and its "
          "products and reductions with layouts.")
      .def(
          "written_pointers",
          [](PyModule &self) {
            std::lock_guard lock(self.program->getMutex());
            std::vector<unsigned> found;
            for (auto kernel : self.program->getModule().getOps<func::FuncOp>()) {
              if (!kernel->hasAttr("tile.kernel"))
                continue;
              SmallVector<unsigned> written = kiln::writtenArguments(kernel);
              unsigned pointers = 0;
              for (BlockArgument argument : kernel.getArguments()) {
                if (!isa<kiln::tile::PtrType>(argument.getType()))
                  continue;
                if (llvm::is_contained(written, argument.getArgNumber()))
                  found.push_back(pointers);
                ++pointers;
              }
            }
            return found;
          },
          "Which pointers of the kernel's arguments, counted among those, it may write through; calls are inlined.")
      .def_static(
          "parse",
          [](const std::string &text) {
            std::string error;
            std::shared_ptr<kiln::Program> program = kiln::Program::parse(text, error);
            if (!program)
              throw std::runtime_error(error);
            return PyModule{program};
          },
          py::arg("text"), "Parses and verifies a module; raises RuntimeError with the diagnostics.");

  py::class_<IRBuilder>(m, "Builder", "Makes the IR of one module; values, regions and locations are integer handles.")
      .def(py::init<>())
      .def("file_loc", &IRBuilder::fileLoc)
      .def("call_loc", &IRBuilder::callLoc, py::arg("callee"), py::arg("caller"))
      .def("name_loc", &IRBuilder::nameLoc)
      .def("set_loc", &IRBuilder::setLoc)
      .def("begin_function", &IRBuilder::beginFunction, py::arg("name"), py::arg("argument_types"),
           py::arg("argument_attrs"), py::arg("public"), py::arg("attrs") = py::dict())
      .def("end_function", &IRBuilder::endFunction, py::arg("results"))
      .def("begin_region", &IRBuilder::beginRegion, py::arg("argument_types"))
      .def("end_region", &IRBuilder::endRegion)
      .def("reopen_region", &IRBuilder::reopenRegion)
      .def("drop_region", &IRBuilder::dropRegion)
      .def("depth", &IRBuilder::depth)
      .def("create", &IRBuilder::create, py::arg("name"), py::arg("operands"), py::arg("result_types"),
           py::arg("attrs") = py::dict(), py::arg("regions") = Handles(), py::arg("segments") = py::none())
      .def("constant", &IRBuilder::constant, py::arg("type"), py::arg("value"))
      .def("type_of", &IRBuilder::typeOf)
      .def("defining_op", &IRBuilder::definingOp)
      .def("print", &IRBuilder::print)
      .def("finish", &IRBuilder::finish);
}
