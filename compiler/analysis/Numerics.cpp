#include "compiler/analysis/Numerics.h"
#include "compiler/analysis/Disjoint.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include <set>

using namespace mlir;
using namespace kiln;

static bool holdsFloats(Type type) { return isa<FloatType>(getElementTypeOrSelf(type)); }

static std::string print(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}
static std::string print(Attribute attribute) {
  std::string text;
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return llvm::toString(integer.getValue(), 10, /*Signed=*/true);
  llvm::raw_string_ostream(text) << attribute;
  return text;
}

static std::string digestOf(StringRef text) {
  std::array<uint8_t, 32> hash = llvm::SHA256::hash(arrayRefFromStringRef(text));
  return llvm::toHex(ArrayRef(hash).take_front(16), /*LowerCase=*/true);
}

/// The user's name for it, or its number if there is none.
static std::string nameOf(BlockArgument argument) {
  auto kernel = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto name = kernel.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "tile.name");
  return name ? name.str() : "argument" + std::to_string(argument.getArgNumber());
}

namespace {
/// What is known of a value.
struct Form {
  std::string text;
  bool program = false; ///< of an integer: differs between program instances, or is known only from memory
  bool lane = false;    ///< differs between elements of the tile
  bool varying = false; ///< differs between iterations of a loop that carries floats
};

class Describer {
public:
  explicit Describer(func::FuncOp kernel) : kernel(kernel) {}
  Numerics run();

private:
  void describe(Region &region);
  void describe(Operation *op);
  void describeLoop(scf::ForOp loop);
  void describeIf(scf::IfOp op);
  void describeOpaque(Operation *op);
  std::string describeOp(Operation *op);
  std::string describeRegion(Region &region);
  Form combine(Operation *op);
  std::string use(Value value, bool inVarying);
  void fact(const std::string &text) { facts.insert(text); }

  /// Replaces long texts by their digest, so that a chain of a thousand operations takes one line.
  static std::string shorten(std::string text) { return text.size() <= 160 ? text : "#" + digestOf(text); }

  func::FuncOp kernel;
  DenseMap<Value, Form> forms;
  llvm::SetVector<std::string, std::vector<std::string>, std::set<std::string>> facts;
  std::string stored;
  unsigned carrying = 0; ///< enclosing loops that carry floats
};
} // namespace

/// How an operand is written. For an address that changes along a loop, the part that does not change only says where a
/// program instance or an element begins.
std::string Describer::use(Value value, bool inVarying) {
  const Form &form = forms[value];
  if (!holdsFloats(value.getType()) && !form.varying && (form.lane || (inVarying && form.program)))
    return "here";
  return form.text.empty() ? "?" : form.text;
}

/// The attributes that say what is computed. Shapes are included where they matter.
std::string Describer::describeOp(Operation *op) {
  std::string text = op->getName().stripDialect().str();
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!dense)
      return print(constant.getValue());
    return dense.isSplat() ? print(dense.getSplatValue<Attribute>()) : print(constant.getValue());
  }
  if (auto range = dyn_cast<tile::MakeRangeOp>(op))
    return "range from " + std::to_string(range.getStart());
  // Integers are exact, so overflow flags do not affect the order of operations.
  for (NamedAttribute attribute : op->getAttrDictionary())
    if (attribute.getName() != "operandSegmentSizes" && attribute.getName() != "overflowFlags")
      text += " " + attribute.getName().str() + "=" + print(attribute.getValue());
  auto side = [](Value value, int64_t dimension) {
    return std::to_string(cast<RankedTensorType>(value.getType()).getDimSize(dimension));
  };
  if (auto dot = dyn_cast<tile::DotOp>(op)) {
    text += " k=" + side(dot.getLhs(), cast<RankedTensorType>(dot.getLhs().getType()).getRank() - 1);
    if (holdsFloats(dot.getType()))
      fact("product of " + side(dot.getLhs(), cast<RankedTensorType>(dot.getLhs().getType()).getRank() - 1) +
           " along K, " + print(getElementTypeOrSelf(dot.getLhs().getType())) + " to " +
           print(getElementTypeOrSelf(dot.getType())));
  } else if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
    text += " side=" + side(reduce.getOperands().front(), reduce.getAxis());
    if (llvm::any_of(reduce->getOperandTypes(), holdsFloats))
      fact("reduction of " + side(reduce.getOperands().front(), reduce.getAxis()));
  } else if (auto scan = dyn_cast<tile::ScanOp>(op)) {
    text += " side=" + side(scan.getOperands().front(), scan.getAxis());
    if (llvm::any_of(scan->getOperandTypes(), holdsFloats))
      fact("scan of " + side(scan.getOperands().front(), scan.getAxis()));
  } else if (isa<tile::ReshapeOp, tile::CatOp, tile::JoinOp, tile::SplitOp>(op)) {
    // Which elements end up along one dimension; leading sides common to both shapes are the tile's own.
    auto from = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
    auto to = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (from && to) {
      ArrayRef<int64_t> before = from.getShape(), after = to.getShape();
      while (!before.empty() && !after.empty() && before.front() == after.front()) {
        before = before.drop_front();
        after = after.drop_front();
      }
      text += " " + llvm::join(llvm::map_range(before, [](int64_t n) { return std::to_string(n); }), "x") + " to " +
              llvm::join(llvm::map_range(after, [](int64_t n) { return std::to_string(n); }), "x");
    }
  }
  for (Type type : op->getResultTypes())
    if (!getElementTypeOrSelf(type).isSignlessInteger())
      text += " " + print(getElementTypeOrSelf(type));
  return text;
}

/// A region of scalars that combines two elements.
std::string Describer::describeRegion(Region &region) {
  std::string text;
  DenseMap<Value, unsigned> numbers;
  for (Block &block : region) {
    for (BlockArgument argument : block.getArguments())
      numbers[argument] = numbers.size();
    for (Operation &op : block) {
      text += "{" + describeOp(&op);
      for (Value operand : op.getOperands()) {
        auto inner = numbers.find(operand);
        text += " " + (inner != numbers.end() ? "%" + std::to_string(inner->second) : use(operand, false));
      }
      for (Region &nested : op.getRegions())
        text += describeRegion(nested);
      for (Value result : op.getResults())
        numbers[result] = numbers.size();
      text += "}";
    }
  }
  return text;
}

/// Combines what is known of the operands.
Form Describer::combine(Operation *op) {
  Form form;
  for (Value operand : op->getOperands()) {
    const Form &of = forms[operand];
    form.varying |= of.varying;
    if (!holdsFloats(operand.getType())) {
      form.program |= of.program;
      form.lane |= of.lane;
    }
  }
  return form;
}

void Describer::describeLoop(scf::ForOp loop) {
  bool carries = llvm::any_of(loop.getInitArgs(), [](Value value) { return holdsFloats(value.getType()); });
  std::string depth = std::to_string(carrying);
  Form place;
  if (carries) {
    place = {"i" + depth, false, false, true};
    ++carrying;
  } else {
    place = {"program", true, false, false};
  }
  forms[loop.getInductionVar()] = place;
  for (auto [number, argument] : llvm::enumerate(loop.getRegionIterArgs())) {
    Form form = place;
    form.text = (holdsFloats(argument.getType()) ? "carried" : "step") + depth + "." + std::to_string(number);
    form.lane = !carries && isa<RankedTensorType>(argument.getType());
    forms[argument] = form;
  }
  describe(*loop.getBody()->getParent());
  std::string text = "for " + use(loop.getLowerBound(), false) + " to " + use(loop.getUpperBound(), false) + " step " +
                     use(loop.getStep(), false);
  if (carries) {
    --carrying;
    fact("loop from " + use(loop.getLowerBound(), false) + " to " + use(loop.getUpperBound(), false) + " by " +
         use(loop.getStep(), false));
    for (auto [init, argument, next] :
         llvm::zip_equal(loop.getInitArgs(), loop.getRegionIterArgs(), loop.getYieldedValues())) {
      // The initial value of a pointer is where a program instance begins.
      if (holdsFloats(argument.getType()))
        text += " [" + use(init, false) + "]";
      text += " (" + use(next, true) + ")";
    }
    text = shorten(text);
  }
  for (auto [number, result] : llvm::enumerate(loop.getResults())) {
    Form form;
    form.text = holdsFloats(result.getType()) ? text + "." + std::to_string(number) : "program";
    form.program = !holdsFloats(result.getType());
    form.lane = isa<RankedTensorType>(result.getType());
    form.varying = carrying != 0;
    forms[result] = form;
  }
}

void Describer::describeIf(scf::IfOp op) {
  Form form;
  for (Region *region : op.getRegions())
    describe(*region);
  for (auto [number, result] : llvm::enumerate(op.getResults())) {
    Value yes = op.thenYield().getOperand(number), no = op.elseYield().getOperand(number);
    form.text = shorten("if " + use(op.getCondition(), true) + " (" + use(yes, true) + ") (" + use(no, true) + ")");
    form.varying = forms[op.getCondition()].varying || forms[yes].varying || forms[no].varying;
    form.program = true;
    form.lane = isa<RankedTensorType>(result.getType());
    forms[result] = form;
  }
}

/// Control flow that is not analysed: the description contains its whole text.
void Describer::describeOpaque(Operation *op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  op->print(stream, OpPrintingFlags().printGenericOpForm().enableDebugInfo(false));
  fact("code that is not looked into: " + op->getName().getStringRef().str());
  for (auto [number, result] : llvm::enumerate(op->getResults()))
    forms[result] = {"#" + digestOf(text) + "." + std::to_string(number), true, isa<RankedTensorType>(result.getType()),
                     carrying != 0};
  stored += "#" + digestOf(text) + "\n";
}

void Describer::describe(Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return describeLoop(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return describeIf(branch);
  if (op->getNumRegions() != 0 && !isa<tile::ReduceOp, tile::ScanOp, tile::MapOp>(op))
    return describeOpaque(op);

  // The same elements, in a tile of another shape.
  if (isa<tile::SplatOp, tile::UnsplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::HintOp>(op)) {
    forms[op->getResult(0)] = Form(forms[op->getOperand(0)]);
    return;
  }

  Form form = combine(op);
  bool floats = llvm::any_of(op->getResultTypes(), holdsFloats) || llvm::any_of(op->getOperandTypes(), holdsFloats);
  std::optional<GlobalEffect> effect = globalEffect(op);
  if (effect && effect->pointer) {
    Value from = pointerArgument(effect->pointer);
    std::string where = from ? nameOf(cast<BlockArgument>(from)) : std::string("memory");
    std::string text = describeOp(op) + " " + where;
    // The indices of a descriptor access tell as much as the offsets of a pointer access.
    for (Value operand : op->getOperands()) {
      bool isMask = getElementTypeOrSelf(operand.getType()).isInteger(1);
      bool told = forms[operand].varying && !isMask && effect->reads && !effect->writes;
      if (holdsFloats(operand.getType()) || told)
        text += " (" + use(operand, true) + ")";
    }
    if (effect->writes && floats) {
      stored += text + "\n";
      if (effect->isAtomic())
        fact("floats combined in memory, in no order");
    }
    for (Value result : op->getResults()) {
      Form of = form;
      of.text = shorten(text);
      of.program = true;
      forms[result] = of;
    }
    return;
  }

  std::string text = describeOp(op);
  bool inVarying = form.varying;
  for (Value operand : op->getOperands())
    text += " " + use(operand, inVarying);
  for (Region &region : op->getRegions())
    text += describeRegion(region);
  if (effect && effect->writes)
    stored += text + "\n";
  for (auto [number, result] : llvm::enumerate(op->getResults())) {
    Form of = form;
    if (isa<tile::ProgramIdOp>(op))
      of.program = true;
    if (isa<tile::MakeRangeOp>(op))
      of.lane = true;
    // Ops that divide work among programs: each part is described where it is used.
    if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(op) && of.program && !of.varying)
      of.text = "program";
    else
      of.text = isa<arith::ConstantOp>(op) ? text : shorten("(" + text + ")");
    if (op->getNumResults() > 1)
      of.text += "." + std::to_string(number);
    forms[result] = of;
  }
}

void Describer::describe(Region &region) {
  for (Block &block : region)
    for (Operation &op : block.without_terminator())
      describe(&op);
}

Numerics Describer::run() {
  for (BlockArgument argument : kernel.getArguments())
    forms[argument] = {nameOf(argument)};
  describe(kernel.getBody());
  return {digestOf(stored), std::vector<std::string>(facts.begin(), facts.end())};
}

Numerics kiln::describeNumerics(func::FuncOp kernel) { return Describer(kernel).run(); }

std::vector<std::string> kiln::describeProducts(func::FuncOp kernel) {
  std::set<std::string> found;
  kernel.walk([&](Operation *op) {
    bool product = isa<kgpu::WarpgroupMmaOp, kgpu::WarpMmaOp, kgpu::DotOp>(op);
    bool reduction = isa<tile::ReduceOp, tile::ScanOp, kgpu::PartialReduceOp, kgpu::PartialScanOp>(op);
    if (!product && !reduction)
      return;
    if (llvm::none_of(op->getOperandTypes(), holdsFloats) && llvm::none_of(op->getResultTypes(), holdsFloats))
      return;
    std::string text = op->getName().getStringRef().str();
    for (NamedAttribute attribute : op->getAttrDictionary())
      if (product && attribute.getName() != "operandSegmentSizes")
        text += " " + attribute.getName().str() + "=" + print(attribute.getValue());
    for (Value operand : op->getOperands()) {
      auto memory = dyn_cast<kgpu::MemType>(operand.getType());
      Type element = memory ? memory.getElementType() : getElementTypeOrSelf(operand.getType());
      text += " " + print(reduction ? operand.getType() : element);
    }
    found.insert(text);
  });
  return {found.begin(), found.end()};
}
