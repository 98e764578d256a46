// Decomposes integers and pointers of tile IR.
#include "compiler/transforms/describe/Polynomial.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::describe;
using llvm::APInt;

// Products of this many 64-bit numbers fit the width in which bounds are computed.
static constexpr unsigned kBoundBits = 512, kMostFactors = 6;

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Polynomial describe::constant(int64_t value) { return value ? Polynomial{{{}, value}} : Polynomial(); }
Polynomial describe::symbol(unsigned id) { return {{{id}, 1}}; }

static bool accumulate(Polynomial &sum, const std::vector<unsigned> &term, int64_t coefficient) {
  int64_t &slot = sum[term];
  if (llvm::AddOverflow(slot, coefficient, slot))
    return false;
  if (slot == 0)
    sum.erase(term);
  return true;
}

std::optional<Polynomial> describe::add(const Polynomial &a, const Polynomial &b, int64_t times) {
  Polynomial sum = a;
  for (auto &[term, coefficient] : b) {
    int64_t product;
    if (llvm::MulOverflow(coefficient, times, product) || !accumulate(sum, term, product))
      return std::nullopt;
  }
  return sum;
}

std::optional<Polynomial> describe::multiply(const Polynomial &a, const Polynomial &b) {
  Polynomial sum;
  for (auto &[left, times] : a)
    for (auto &[right, by] : b) {
      int64_t product;
      std::vector<unsigned> term(left);
      term.insert(term.end(), right.begin(), right.end());
      llvm::sort(term);
      if (llvm::MulOverflow(times, by, product) || !accumulate(sum, term, product))
        return std::nullopt;
    }
  return sum;
}

std::optional<int64_t> describe::asConstant(const Polynomial &polynomial) {
  if (polynomial.empty())
    return 0;
  auto &[term, coefficient] = *polynomial.begin();
  return polynomial.size() == 1 && term.empty() ? std::optional<int64_t>(coefficient) : std::nullopt;
}

std::optional<int64_t> describe::constantStep(scf::ForOp loop) {
  APInt step;
  if (loop.getUnsignedCmp() || !matchPattern(loop.getStep(), m_ConstantInt(&step)) || !step.isStrictlyPositive())
    return std::nullopt;
  return step.getSExtValue();
}

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

unsigned Polynomials::intern(Symbol symbol) {
  for (auto [id, known] : llvm::enumerate(symbols))
    if (known.kind == symbol.kind && known.value == symbol.value && known.dim == symbol.dim &&
        known.start == symbol.start && known.limit == symbol.limit)
      return id;
  symbols.push_back(std::move(symbol));
  return symbols.size() - 1;
}

std::optional<unsigned> Polynomials::alongDim(const std::vector<unsigned> &term, bool &more) const {
  std::optional<unsigned> found;
  for (unsigned id : term)
    if (symbols[id].alongDim()) {
      more |= found.has_value();
      found = id;
    }
  return found;
}

bool Polynomials::isUniform(const Polynomial &polynomial) const {
  return llvm::none_of(polynomial, [&](const auto &entry) {
    return llvm::any_of(entry.first, [&](unsigned id) { return symbols[id].alongDim(); });
  });
}

bool Polynomials::isInvariant(const Polynomial &polynomial, scf::ForOp loop) const {
  return llvm::all_of(polynomial, [&](const auto &entry) {
    return llvm::all_of(entry.first, [&](unsigned id) {
      const Symbol &symbol = symbols[id];
      return symbol.kind != Symbol::Kind::Carried && (!symbol.value || loop.isDefinedOutsideOfLoop(symbol.value));
    });
  });
}

std::optional<std::pair<APInt, APInt>> Polynomials::boundsOfTerms(const Polynomial &polynomial,
                                                                  ArrayRef<int64_t> shape) const {
  auto wide = [](const APInt &value) { return value.sext(kBoundBits); };
  auto number = [](int64_t value) { return APInt(kBoundBits, value, /*isSigned=*/true); };
  using Pair = std::pair<APInt, APInt>;
  std::function<std::optional<Pair>(const Symbol &)> ofSymbol = [&](const Symbol &symbol) -> std::optional<Pair> {
    switch (symbol.kind) {
    case Symbol::Kind::Scalar: {
      if (!isIntegerLike(symbol.value.getType()))
        return std::nullopt;
      const ConstantIntRanges &range = ranges.get(symbol.value);
      return Pair{wide(range.smin()), wide(range.smax())};
    }
    case Symbol::Kind::Iteration: {
      auto loop = cast<scf::ForOp>(cast<BlockArgument>(symbol.value).getOwner()->getParentOp());
      APInt last = wide(ranges.get(loop.getUpperBound()).smax()) - 1;
      APInt most = (last - wide(ranges.get(loop.getLowerBound()).smin())).sdiv(number(*constantStep(loop)));
      return Pair{number(0), llvm::APIntOps::smax(number(0), most)};
    }
    case Symbol::Kind::Index:
      if (symbol.dim >= shape.size())
        return std::nullopt;
      return Pair{number(0), number(shape[symbol.dim] - 1)};
    case Symbol::Kind::Folded:
    case Symbol::Kind::Carried:
      return std::nullopt;
    }
    return std::nullopt;
  };
  Pair sum{number(0), number(0)};
  for (auto &[term, coefficient] : polynomial) {
    if (term.size() > kMostFactors)
      return std::nullopt;
    Pair product{number(coefficient), number(coefficient)};
    for (unsigned id : term) {
      std::optional<Pair> factor = ofSymbol(symbols[id]);
      if (!factor)
        return std::nullopt;
      APInt corners[] = {product.first * factor->first, product.first * factor->second, product.second * factor->first,
                         product.second * factor->second};
      product = {corners[0], corners[0]};
      for (const APInt &corner : corners)
        product = {llvm::APIntOps::smin(product.first, corner), llvm::APIntOps::smax(product.second, corner)};
    }
    sum = {sum.first + product.first, sum.second + product.second};
  }
  return sum;
}

Polynomial Polynomials::byVariables(const Polynomial &polynomial) {
  Polynomial result = polynomial;
  for (auto &[term, coefficient] : polynomial) {
    if (term.size() != 1 || symbols[term.front()].kind != Symbol::Kind::Iteration)
      continue;
    Value variable = symbols[term.front()].value;
    auto loop = cast<scf::ForOp>(cast<BlockArgument>(variable).getOwner()->getParentOp());
    int64_t step = *constantStep(loop);
    std::optional<Polynomial> first = get(loop.getLowerBound(), known);
    if (coefficient % step || !first)
      continue;
    Polynomial without = result;
    without.erase(term);
    Polynomial counter = symbol(intern({Symbol::Kind::Scalar, variable, 0, {}, {}}));
    std::optional<Polynomial> next = add(without, counter, coefficient / step);
    next = next ? add(*next, *first, -(coefficient / step)) : std::nullopt;
    if (next)
      result = *next;
  }
  return result;
}

std::optional<std::pair<APInt, APInt>> Polynomials::bounds(const Polynomial &polynomial, ArrayRef<int64_t> shape) {
  // An induction variable stays below its loop's upper bound, which its start and the iteration number do not express.
  auto terms = boundsOfTerms(polynomial, shape), variables = boundsOfTerms(byVariables(polynomial), shape);
  if (!terms || !variables)
    return terms ? terms : variables;
  return std::pair(llvm::APIntOps::smax(terms->first, variables->first),
                   llvm::APIntOps::smin(terms->second, variables->second));
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

std::optional<Polynomial> Polynomials::of(Value value, std::string &why) {
  reason.clear();
  std::optional<Polynomial> result = get(value, known);
  if (!result)
    why = reason;
  return result;
}

std::optional<Polynomial> Polynomials::get(Value value, Memo &memo) {
  if (auto found = memo.find(value); found != memo.end()) {
    if (!found->second && reason.empty())
      reason = "addresses are not sums of products of scalars and indices";
    return found->second;
  }
  std::optional<Polynomial> result = compute(value, memo);
  memo[value] = result;
  return result;
}

std::optional<Polynomial> Polynomials::leaf(Value value, StringRef otherwise) {
  if (!isa<RankedTensorType>(value.getType()))
    return symbol(intern({Symbol::Kind::Scalar, value, 0, {}, {}}));
  if (reason.empty())
    reason = otherwise.str();
  return std::nullopt;
}

/// `dims`: the new number of each dimension; -1 for one of size 1, which has no index.
std::optional<Polynomial> Polynomials::renamed(std::optional<Polynomial> polynomial, ArrayRef<int64_t> dims) {
  if (!polynomial)
    return std::nullopt;
  Polynomial result;
  for (auto &[term, coefficient] : *polynomial) {
    std::vector<unsigned> to;
    for (unsigned id : term) {
      Symbol moved = symbols[id];
      if (moved.alongDim())
        moved.dim = dims[moved.dim];
      to.push_back(moved.alongDim() ? intern(moved) : id);
    }
    llvm::sort(to);
    if (!accumulate(result, to, coefficient))
      return std::nullopt;
  }
  return result;
}

/// Where the dimensions of an op's operand end up in its result; std::nullopt for an op that does more than move
/// dimensions.
static std::optional<SmallVector<int64_t>> movedDims(Operation *op) {
  auto rankOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getRank(); };
  if (isa<tile::BroadcastOp, tile::HintOp>(op)) {
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    return llvm::to_vector(llvm::seq<int64_t>(0, type ? type.getRank() : 0));
  }
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
    SmallVector<int64_t> dims;
    for (int64_t dim = 0; dim < rankOf(expand.getValue()); ++dim)
      dims.push_back(dim + (dim >= int64_t(expand.getAxis())));
    return dims;
  }
  if (auto trans = dyn_cast<tile::TransOp>(op)) {
    SmallVector<int64_t> dims(trans.getOrder().size());
    for (auto [to, from] : llvm::enumerate(trans.getOrder()))
      dims[from] = int64_t(to);
    return dims;
  }
  if (auto reshape = dyn_cast<tile::ReshapeOp>(op)) {
    // Dimensions of size 1 may be added or removed.
    ArrayRef<int64_t> from = cast<RankedTensorType>(reshape.getValue().getType()).getShape();
    ArrayRef<int64_t> to = cast<RankedTensorType>(reshape.getType()).getShape();
    SmallVector<int64_t> dims(from.size(), -1);
    size_t next = 0;
    for (auto [dim, side] : llvm::enumerate(from)) {
      if (side == 1)
        continue;
      while (next < to.size() && to[next] == 1)
        ++next;
      if (next == to.size() || to[next] != side)
        return std::nullopt;
      dims[dim] = int64_t(next++);
    }
    return dims;
  }
  return std::nullopt;
}

/// `(start + i) % limit` and similar forms.
std::optional<Polynomial> Polynomials::folded(Value value, Value number, Value limit, Memo &memo) {
  std::optional<Polynomial> inner = get(number, memo), most = get(limit, memo);
  if (!inner || !most || !isUniform(*most))
    return std::nullopt;
  Symbol symbol{Symbol::Kind::Folded, value, 0, *inner, *most};
  unsigned found = 0;
  for (auto &[term, coefficient] : *inner) {
    bool more = false;
    std::optional<unsigned> along = alongDim(term, more);
    if (!along)
      continue;
    if (symbols[*along].kind != Symbol::Kind::Index || term.size() != 1 || coefficient != 1)
      return std::nullopt;
    ++found;
    symbol.dim = symbols[*along].dim;
    symbol.start.erase(term);
  }
  if (found != 1)
    return std::nullopt;
  return describe::symbol(intern(symbol));
}

std::optional<Polynomial> Polynomials::ofCarried(scf::ForOp loop, unsigned index, Memo &memo) {
  BlockArgument carried = loop.getRegionIterArg(index);
  std::optional<Polynomial> first = get(loop.getInitArgs()[index], memo);
  if (!first || !constantStep(loop) || !open.insert(carried).second)
    return std::nullopt;
  unsigned self = intern({Symbol::Kind::Carried, carried, 0, {}, {}});
  Memo inside = memo;
  inside[carried] = symbol(self);
  std::optional<Polynomial> next = get(loop.getYieldedValues()[index], inside);
  open.erase(carried);
  std::optional<Polynomial> step = next ? add(*next, symbol(self), -1) : std::nullopt;
  if (!step || !isUniform(*step) || !isInvariant(*step, loop))
    return std::nullopt;
  Polynomial iterations = symbol(intern({Symbol::Kind::Iteration, loop.getInductionVar(), 0, {}, {}}));
  std::optional<Polynomial> way = multiply(*step, iterations);
  return way ? add(*first, *way) : std::nullopt;
}

std::optional<Polynomial> Polynomials::ofArgument(BlockArgument argument, Memo &memo) {
  auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
  if (!loop)
    return leaf(argument, "a tile comes from outside of the kernel");
  if (argument == loop.getInductionVar()) {
    std::optional<int64_t> step = constantStep(loop);
    std::optional<Polynomial> first = step ? get(loop.getLowerBound(), memo) : std::nullopt;
    if (!first)
      return leaf(argument, "");
    return add(*first, symbol(intern({Symbol::Kind::Iteration, argument, 0, {}, {}})), *step);
  }
  std::optional<Polynomial> result = ofCarried(loop, argument.getArgNumber() - loop.getNumInductionVars(), memo);
  return result ? result : leaf(argument, "a loop does not step the addresses by the same distance each time");
}

std::optional<Polynomial> Polynomials::compute(Value value, Memo &memo) {
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number)) && number.isSignedIntN(64))
    return constant(number.getSExtValue());
  if (auto argument = dyn_cast<BlockArgument>(value))
    return ofArgument(argument, memo);
  Operation *op = value.getDefiningOp();
  const char *odd = "addresses are not sums of products of scalars and indices";
  auto orLeaf = [&](std::optional<Polynomial> result) { return result ? result : leaf(value, odd); };
  auto operand = [&](unsigned i) { return get(op->getOperand(i), memo); };
  auto fitsInto = [&](Value from, unsigned bits) {
    const ConstantIntRanges &range = ranges.get(from);
    return range.smin().isSignedIntN(bits) && range.smax().isSignedIntN(bits);
  };
  if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::ShLIOp>(op)) {
    if (ranges.mayOverflowSigned(op))
      return leaf(value, "an offset may pass the width that it is computed in");
    std::optional<Polynomial> lhs = operand(0), rhs = operand(1), result;
    if (lhs && rhs) {
      if (isa<arith::AddIOp>(op))
        result = add(*lhs, *rhs);
      else if (isa<arith::SubIOp>(op))
        result = add(*lhs, *rhs, -1);
      else if (isa<arith::MulIOp>(op))
        result = multiply(*lhs, *rhs);
      else if (std::optional<int64_t> by = asConstant(*rhs); by && *by >= 0 && *by < 62)
        result = multiply(*lhs, constant(int64_t(1) << *by));
    }
    return orLeaf(result);
  }
  if (std::optional<SmallVector<int64_t>> dims = movedDims(op))
    return orLeaf(renamed(operand(0), *dims));
  return llvm::TypeSwitch<Operation *, std::optional<Polynomial>>(op)
      .Case([&](tile::MakeRangeOp range) {
        Polynomial first = constant(int32_t(range.getStart()));
        return range.getEnd() - range.getStart() == 1 ? first : add(first, symbol(index(0)));
      })
      .Case<tile::SplatOp, arith::ExtSIOp>([&](Operation *) { return orLeaf(operand(0)); })
      .Case([&](arith::ExtUIOp ext) {
        bool same = ranges.get(ext.getIn()).smin().isNonNegative();
        return same ? orLeaf(operand(0)) : leaf(value, odd);
      })
      .Case<arith::TruncIOp, arith::IndexCastOp>([&](Operation *cast) {
        bool same = fitsInto(cast->getOperand(0), integerWidth(value.getType()));
        return same ? orLeaf(operand(0)) : leaf(value, "an offset may pass the width that it is computed in");
      })
      .Case([&](tile::AddPtrOp step) {
        std::optional<Polynomial> from = operand(0), by = operand(1);
        return orLeaf(from && by ? add(*from, *by) : std::nullopt);
      })
      .Case([&](arith::RemSIOp rem) {
        bool isTile = isa<RankedTensorType>(value.getType());
        return orLeaf(isTile ? folded(value, rem.getLhs(), rem.getRhs(), memo) : std::nullopt);
      })
      .Case([&](arith::RemUIOp rem) {
        bool isTile = isa<RankedTensorType>(value.getType());
        bool same = ranges.get(rem.getLhs()).smin().isNonNegative() && ranges.get(rem.getRhs()).smin().isNonNegative();
        return orLeaf(isTile && same ? folded(value, rem.getLhs(), rem.getRhs(), memo) : std::nullopt);
      })
      .Case([&](arith::SelectOp select) {
        auto less = select.getCondition().getDefiningOp<arith::CmpIOp>();
        bool isTile = isa<RankedTensorType>(value.getType());
        if (!less || !isTile || less.getPredicate() != arith::CmpIPredicate::slt)
          return leaf(value, odd);
        std::optional<Polynomial> number = operand(1);
        bool same = number && number == get(less.getLhs(), memo);
        return orLeaf(same ? folded(value, select.getTrueValue(), less.getRhs(), memo) : std::nullopt);
      })
      .Default([&](Operation *) { return leaf(value, odd); });
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

std::optional<SmallVector<Polynomial>> Polynomials::conditionsOf(Value mask, std::string &why) {
  SmallVector<Polynomial> conditions;
  if (!mask)
    return conditions;
  reason.clear();
  auto type = dyn_cast<RankedTensorType>(mask.getType());
  if (collectConditions(mask, llvm::to_vector(llvm::seq<int64_t>(0, type ? type.getRank() : 0)), conditions))
    return conditions;
  why = reason.empty() ? "the mask is not a conjunction of comparisons" : reason;
  return std::nullopt;
}

/// `dims`: which dimension of the tile each dimension of its mask is.
bool Polynomials::collectConditions(Value mask, ArrayRef<int64_t> dims, SmallVector<Polynomial> &conditions) {
  APInt all;
  if (matchPattern(mask, m_ConstantInt(&all)) && all.isOne())
    return true;
  Operation *op = mask.getDefiningOp();
  if (!op)
    return false;
  if (isa<arith::AndIOp>(op))
    return collectConditions(op->getOperand(0), dims, conditions) &&
           collectConditions(op->getOperand(1), dims, conditions);
  if (isa<tile::SplatOp>(op))
    return collectConditions(op->getOperand(0), {}, conditions);
  if (std::optional<SmallVector<int64_t>> moved = movedDims(op)) {
    for (int64_t &dim : *moved)
      dim = dim < 0 ? -1 : dims[dim];
    return collectConditions(op->getOperand(0), *moved, conditions);
  }
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare || !isIntegerLike(compare.getLhs().getType()))
    return false;
  auto lhs = renamed(get(compare.getLhs(), known), dims), rhs = renamed(get(compare.getRhs(), known), dims);
  auto less = [&](const std::optional<Polynomial> &a, const std::optional<Polynomial> &b, int64_t more) {
    std::optional<Polynomial> difference = a && b ? add(*a, *b, -1) : std::nullopt;
    difference = difference ? add(*difference, constant(more)) : std::nullopt;
    if (difference)
      conditions.push_back(*difference);
    return difference.has_value();
  };
  auto isPositive = [&](Value value) { return ranges.get(value).smin().isNonNegative(); };
  switch (compare.getPredicate()) {
  case arith::CmpIPredicate::slt:
    return less(lhs, rhs, 0);
  case arith::CmpIPredicate::sle:
    return less(lhs, rhs, -1);
  case arith::CmpIPredicate::sgt:
    return less(rhs, lhs, 0);
  case arith::CmpIPredicate::sge:
    return less(rhs, lhs, -1);
  case arith::CmpIPredicate::ult:
    return isPositive(compare.getLhs()) && isPositive(compare.getRhs()) && less(lhs, rhs, 0);
  default:
    return false;
  }
}
