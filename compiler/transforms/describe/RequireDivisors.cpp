// kiln-require-divisors: has the launch check that divisors are positive, where it can compute them.
//
//   height = min(cdiv(m, 128) - program / (8 * cdiv(n, 128)) * 8, 8);  column = program % ... / height
//
// Nothing in the kernel says that `height` is positive: it is, as long as the grid is no larger than it should be.
// Without that, the sign of `column` is unknown, and so is whether addresses are contiguous. But `height` decreases
// from one program to the next, so checking the last program covers all, and the launch knows the last program.
#include "compiler/analysis/Range.h"
#include "compiler/transforms/describe/Passes.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "runtime/artifact/Artifact.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kiln {
#define GEN_PASS_DEF_REQUIREDIVISORSPASS
#include "compiler/transforms/describe/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

// The number of words in one expression. Every launch evaluates it.
static constexpr size_t kMostWords = 64;

namespace {
/// How a number changes as a variable grows.
enum class Trend : int8_t { Falls = -1, Same = 0, Rises = 1 };

/// A number that a launch can compute except for its variables, in postfix notation. Variables are indices of the
/// program and of loops; `trends` says how the number changes with each. Everything else is the same for all programs.
struct Number {
  struct Word {
    std::string text;
    Value variable; ///< null: the text
  };
  SmallVector<Word> words;
  llvm::SmallDenseMap<Value, Trend> trends;
};

class Finder {
public:
  /// `counts`: values whose last operation is promised not to wrap.
  Finder(const RangeAnalysis &ranges, const llvm::SmallDenseSet<Value> &counts) : ranges(ranges), counts(counts) {}

  /// `exact`: the launch's number must equal the value; otherwise the value's last operation may wrap.
  std::optional<Number> find(Value value, bool exact = true);
  /// A lower bound of `number` over all programs, attained or not.
  std::optional<std::string> least(const Number &number);

private:
  std::optional<Number> combine(Operation *op, StringRef word, bool exact);
  bool isNegative(Value value) const { return ranges.get(value).smin().isNegative(); }

  const RangeAnalysis &ranges;
  const llvm::SmallDenseSet<Value> &counts;
};
} // namespace

static Trend turned(Trend trend) { return Trend(-int8_t(trend)); }

/// The trend of a sum, minimum or maximum of two numbers.
static std::optional<Trend> joined(Trend a, Trend b) {
  if (a == Trend::Same || a == b)
    return b;
  return b == Trend::Same ? std::optional(a) : std::nullopt;
}

static Number leaf(std::string text) {
  Number number;
  number.words.push_back({std::move(text), Value()});
  return number;
}

std::optional<Number> Finder::find(Value value, bool exact) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return leaf(std::to_string(constant.getSExtValue()));
  auto variable = [&] {
    Number number;
    number.words.push_back({"", value});
    number.trends[value] = Trend::Rises;
    return number;
  };
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    Operation *parent = argument.getOwner()->getParentOp();
    if (auto loop = dyn_cast<scf::ForOp>(parent))
      return argument == loop.getInductionVar() && !loop.getUnsignedCmp() ? std::optional(variable()) : std::nullopt;
    // Narrower integers may be unsigned, which their type does not say.
    bool isCount =
        isa<func::FuncOp>(parent) && argument.getType().isInteger() && argument.getType().getIntOrFloatBitWidth() >= 32;
    return isCount ? std::optional(leaf("$" + std::to_string(argument.getArgNumber()))) : std::nullopt;
  }
  return llvm::TypeSwitch<Operation *, std::optional<Number>>(value.getDefiningOp())
      .Case([&](tile::ProgramIdOp) { return variable(); })
      .Case([&](tile::NumProgramsOp op) { return leaf("programs" + std::to_string(uint32_t(op.getAxis()))); })
      .Case([&](arith::ExtSIOp op) { return find(op.getIn()); })
      .Case([&](arith::AddIOp op) { return combine(op, "+", exact); })
      .Case([&](arith::SubIOp op) { return combine(op, "-", exact); })
      .Case([&](arith::MulIOp op) { return combine(op, "*", exact); })
      .Case([&](arith::DivSIOp op) { return combine(op, "/", exact); })
      .Case([&](arith::RemSIOp op) { return combine(op, "%", exact); })
      .Case([&](arith::MinSIOp op) { return combine(op, "min", exact); })
      .Case([&](arith::MaxSIOp op) { return combine(op, "max", exact); })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<Number> Finder::combine(Operation *op, StringRef word, bool exact) {
  Value left = op->getOperand(0), right = op->getOperand(1);
  // The launch computes without wrapping, and so must the program.
  if (exact && isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op) && ranges.mayOverflowSigned(op))
    return std::nullopt;
  std::optional<Number> a = find(left), b = find(right);
  if (!a || !b || a->words.size() + b->words.size() >= kMostWords)
    return std::nullopt;
  Number number;
  llvm::append_range(number.words, a->words);
  llvm::append_range(number.words, b->words);
  number.words.push_back({word.str(), Value()});
  llvm::SmallDenseSet<Value> variables;
  for (const Number *part : {&*a, &*b})
    for (auto [variable, trend] : part->trends)
      variables.insert(variable);
  for (Value variable : variables) {
    Trend x = a->trends.lookup(variable), y = b->trends.lookup(variable);
    std::optional<Trend> trend;
    if (isa<arith::AddIOp, arith::MinSIOp, arith::MaxSIOp>(op))
      trend = joined(x, y);
    else if (isa<arith::SubIOp>(op))
      trend = joined(x, turned(y));
    // A multiplier or divisor that is the same for all programs, and not negative.
    else if (isa<arith::MulIOp>(op) && a->trends.empty() && !isNegative(left))
      trend = y;
    else if (isa<arith::MulIOp, arith::DivSIOp>(op) && b->trends.empty() && !isNegative(right))
      trend = x;
    if (!trend)
      return std::nullopt;
    number.trends[variable] = *trend;
  }
  return number;
}

std::optional<std::string> Finder::least(const Number &number) {
  std::string text;
  for (const Number::Word &word : number.words) {
    if (!text.empty())
      text += ' ';
    if (!word.variable) {
      text += word.text;
      continue;
    }
    Trend trend = number.trends.lookup(word.variable);
    auto id = word.variable.getDefiningOp<tile::ProgramIdOp>();
    if (trend == Trend::Rises) {
      if (isNegative(word.variable))
        return std::nullopt;
      text += '0';
    } else if (id) {
      text += "last" + std::to_string(uint32_t(id.getAxis()));
    } else {
      auto loop = cast<scf::ForOp>(cast<BlockArgument>(word.variable).getOwner()->getParentOp());
      std::optional<Number> end = find(loop.getUpperBound(), !counts.contains(loop.getUpperBound()));
      if (!end || !end->trends.empty())
        return std::nullopt;
      text += *least(*end) + " 1 -";
    }
  }
  return text;
}

/// Loops over tiles: those that contain another loop that multiplies.
static SmallVector<scf::ForOp> loopsOverTiles(func::FuncOp kernel) {
  SetVector<scf::ForOp> loops;
  kernel.walk([&](tile::DotOp dot) {
    auto inner = dot->getParentOfType<scf::ForOp>();
    for (auto loop = inner ? inner->getParentOfType<scf::ForOp>() : scf::ForOp(); loop;
         loop = loop->getParentOfType<scf::ForOp>())
      loops.insert(loop);
  });
  return loops.takeVector();
}

namespace {
struct RequireDivisors : kiln::impl::RequireDivisorsPassBase<RequireDivisors> {
  void runOnOperation() override;

private:
  /// Asserts `value` `predicate` `limit`, from where the value is computed on.
  void promise(Value value, arith::CmpIPredicate predicate, int64_t limit);
  void requireCounts();
  void requireDivisors();
  RangeAnalysis analyze() {
    return RangeAnalysis(getOperation(), LaunchBounds{artifact::kMostCount, artifact::kMostPrograms});
  }

  SmallVector<Attribute> required;
  llvm::SmallDenseSet<Value> counts;
};
} // namespace

void RequireDivisors::promise(Value value, arith::CmpIPredicate predicate, int64_t limit) {
  ImplicitLocOpBuilder b(value.getLoc(), value.getContext());
  b.setInsertionPointAfterValue(value);
  Value than = arith::ConstantOp::create(b, b.getIntegerAttr(value.getType(), limit));
  tile::AssumeOp::create(b, arith::CmpIOp::create(b, predicate, value, than));
}

/// Trip counts of loops over tiles are bounded like grid sizes. The count is a product, which might wrap.
void RequireDivisors::requireCounts() {
  RangeAnalysis ranges = analyze();
  for (scf::ForOp loop : loopsOverTiles(getOperation())) {
    Value count = loop.getUpperBound();
    if (!count.getDefiningOp() || !count.getType().isInteger() || ranges.get(count).smax().sle(artifact::kMostPrograms))
      continue;
    Finder finder(ranges, counts);
    std::optional<Number> number = finder.find(count, /*exact=*/false);
    if (!number || !number->trends.empty())
      continue;
    // A sum, difference or product that is at most this and at least zero does not wrap.
    std::string text = *finder.least(*number);
    required.push_back(StringAttr::get(&getContext(), std::to_string(artifact::kMostPrograms + 1) + " " + text + " -"));
    required.push_back(StringAttr::get(&getContext(), text + " 1 +"));
    promise(count, arith::CmpIPredicate::sle, artifact::kMostPrograms);
    promise(count, arith::CmpIPredicate::sge, 0);
    counts.insert(count);
  }
}

void RequireDivisors::requireDivisors() {
  RangeAnalysis ranges = analyze();
  llvm::SetVector<Value> divisors;
  getOperation().walk([&](arith::DivSIOp div) {
    Value divisor = div.getRhs();
    if (divisor.getType().isInteger() && divisor.getDefiningOp() && ranges.get(divisor).smin().isNegative())
      divisors.insert(divisor);
  });
  for (Value divisor : divisors) {
    Finder finder(ranges, counts);
    std::optional<Number> number = finder.find(divisor);
    std::optional<std::string> text = number ? finder.least(*number) : std::nullopt;
    if (!text)
      continue;
    required.push_back(StringAttr::get(&getContext(), *text));
    promise(divisor, arith::CmpIPredicate::sgt, 0);
  }
}

void RequireDivisors::runOnOperation() {
  func::FuncOp kernel = getOperation();
  if (!kernel->hasAttr("tile.kernel") || !kgpu::moduleHas(kernel, kgpu::kDescribePointersAttrName))
    return markAllAnalysesPreserved();
  required.clear();
  counts.clear();
  requireCounts();
  requireDivisors();
  if (required.empty())
    return markAllAnalysesPreserved();
  kernel->setAttr(kgpu::kPositiveAttrName, ArrayAttr::get(&getContext(), required));
}
