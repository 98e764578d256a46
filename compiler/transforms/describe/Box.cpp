// Derives a box from the polynomial of its addresses, and its extents from the mask.
#include "compiler/transforms/describe/Box.h"
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::describe;
using llvm::APInt;

// Limits of the copy engine: dimensions, the divisor of bases and strides in bytes, coordinates (signed 32 bits).
static constexpr size_t kMostDims = 5;
static constexpr int64_t kAlign = 16, kMostCoordinate = std::numeric_limits<int32_t>::max();

namespace {
class Finder {
public:
  Finder(RankedTensorType tile, Polynomials &polynomials, const AlignmentAnalysis &alignment, std::string &why)
      : tile(tile), polynomials(polynomials), alignment(alignment), why(why) {
    bytes = tile::memoryBytes(cast<tile::PtrType>(tile.getElementType()).getPointee());
  }

  std::optional<Box> find(Value pointers, Value mask);

private:
  bool takeBase(Polynomial &address);
  bool takeStrides(const Polynomial &address);
  bool takeMask(Value mask);
  bool takeCondition(const Polynomial &condition);
  bool pin(BoxDim &dim, const Polynomial &condition);
  bool placeRest();
  bool placeInBatch(const std::vector<unsigned> &term, int64_t coefficient);
  bool fitsCopyEngine();

  bool fail(const Twine &reason) {
    why = reason.str();
    return false;
  }
  /// The kernel argument that a polynomial consists of; null if it is anything else.
  Value argumentOf(const Polynomial &polynomial) const;
  Value argumentOf(unsigned id) const;
  bool isAligned(const Polynomial &stride) const;
  /// Removes `part` from the terms that the dimensions have not accounted for, if each of its terms is there unchanged.
  bool takeRest(const std::optional<Polynomial> &part);

  RankedTensorType tile;
  Polynomials &polynomials;
  const AlignmentAnalysis &alignment;
  std::string &why;
  int64_t bytes = 1;
  Box box;
  SmallVector<bool> pinned; ///< by dimension of the tile: the mask or a fold says where it begins
  SmallVector<bool> below;  ///< the mask excludes elements before the array
  Polynomial rest;          ///< the terms of the addresses that depend on no index
};
} // namespace

Value Finder::argumentOf(unsigned id) const {
  const Symbol &symbol = polynomials[id];
  auto argument = dyn_cast_or_null<BlockArgument>(symbol.value);
  bool isArgument =
      symbol.kind == Symbol::Kind::Scalar && argument && isa<func::FuncOp>(argument.getOwner()->getParentOp());
  return isArgument ? symbol.value : Value();
}

Value Finder::argumentOf(const Polynomial &polynomial) const {
  if (polynomial.size() != 1 || polynomial.begin()->second != 1 || polynomial.begin()->first.size() != 1)
    return {};
  return argumentOf(polynomial.begin()->first.front());
}

bool Finder::isAligned(const Polynomial &stride) const {
  if (std::optional<int64_t> number = asConstant(stride))
    return *number > 0 && *number % kAlign * bytes % kAlign == 0;
  Value argument = argumentOf(stride);
  return argument && alignment.get(argument).isMultiple(kAlign, bytes);
}

bool Finder::takeRest(const std::optional<Polynomial> &part) {
  if (!part)
    return false;
  for (auto &[term, coefficient] : *part) {
    auto found = rest.find(term);
    if (found == rest.end() || found->second != coefficient)
      return false;
  }
  for (auto &entry : *part)
    rest.erase(entry.first);
  return true;
}

bool Finder::takeBase(Polynomial &address) {
  for (auto &[term, coefficient] : address)
    for (unsigned id : term) {
      const Symbol &symbol = polynomials[id];
      if (symbol.kind != Symbol::Kind::Scalar || !isa<tile::PtrType>(symbol.value.getType()))
        continue;
      box.base = dyn_cast_or_null<BlockArgument>(argumentOf(id));
      if (!box.base || term.size() != 1 || coefficient != 1)
        return fail("the array does not begin at an argument of the kernel");
      if (alignment.get(box.base).everyElement() % kAlign)
        return fail("the array is not known to begin at a multiple of 16 bytes");
      address.erase(term);
      return true;
    }
  return fail("the array does not begin at an argument of the kernel");
}

/// Each dimension of the tile has a single stride; one of them is contiguous.
bool Finder::takeStrides(const Polynomial &address) {
  box.dims.resize(2);
  SmallVector<std::optional<unsigned>> symbols(2);
  for (auto &[term, coefficient] : address) {
    bool more = false;
    std::optional<unsigned> along = polynomials.alongDim(term, more);
    if (!along) {
      rest[term] = coefficient;
      continue;
    }
    unsigned dim = polynomials[*along].dim;
    BoxDim &where = box.dims[dim];
    if (more || !where.stride.empty() || (symbols[dim] && symbols[dim] != along))
      return fail("addresses do not advance by a constant stride along each dimension");
    symbols[dim] = along;
    std::vector<unsigned> factor(term);
    factor.erase(llvm::find(factor, *along));
    where.stride[factor] = coefficient;
    where.dim = dim;
    const Symbol &symbol = polynomials[*along];
    if (symbol.kind == Symbol::Kind::Folded) {
      where.folds = pinned[dim] = true;
      where.start = symbol.start;
      where.extent = symbol.limit;
    }
  }
  for (BoxDim &dim : box.dims)
    if (dim.stride.empty())
      return fail("addresses do not advance by a constant stride along each dimension");
  bool columns = asConstant(box.dims[1].stride) == 1, rows = asConstant(box.dims[0].stride) == 1;
  if (columns == rows)
    return fail("no dimension, or more than one, is known to be contiguous");
  const Polynomial &stride = box.dims[columns ? 0 : 1].stride;
  if (!asConstant(stride) && !argumentOf(stride))
    return fail("a stride is neither a constant nor an argument of the kernel");
  if (!isAligned(stride))
    return fail("a stride is not known to be a multiple of 16 bytes");
  return true;
}

/// `condition`, less than 0, bounds the tile's dimension from above: it is `start + i - extent`. The addresses tell
/// which of its terms are the extent, since they contain the others too.
bool Finder::pin(BoxDim &dim, const Polynomial &condition) {
  std::optional<Polynomial> bound = add(condition, symbol(polynomials.index(*dim.dim)), -1);
  if (!bound)
    return false;
  SmallVector<Polynomial> extents;
  for (auto &[term, coefficient] : *bound)
    if (coefficient == -1 && term.size() == 1 && argumentOf(term.front()))
      extents.push_back({{term, 1}});
  if (auto number = bound->find({}); number != bound->end() && number->second < 0)
    extents.push_back(constant(-number->second));
  for (const Polynomial &extent : extents) {
    std::optional<Polynomial> start = add(*bound, extent);
    if (!start)
      continue;
    if (pinned[*dim.dim]) {
      if (*start != dim.start || extent != dim.extent)
        continue;
      dim.folds = false; // elements beyond the extent are masked
      return true;
    }
    if (!takeRest(multiply(*start, dim.stride)))
      continue;
    dim.start = *start;
    dim.extent = extent;
    pinned[*dim.dim] = true;
    return true;
  }
  return false;
}

bool Finder::takeCondition(const Polynomial &condition) {
  auto bounds = polynomials.bounds(condition, tile.getShape());
  if (bounds && bounds->second.isNegative())
    return true;
  const char *other = "the mask is more than the bounds of an array that is as large as arguments or constants say";
  std::optional<unsigned> symbol;
  int64_t sign = 0;
  for (auto &[term, coefficient] : condition) {
    bool more = false;
    std::optional<unsigned> along = polynomials.alongDim(term, more);
    if (!along)
      continue;
    if (symbol || more || term.size() != 1)
      return fail(other);
    symbol = along;
    sign = coefficient;
  }
  if (!symbol)
    return fail("the mask depends on more than an element's position");
  const Symbol &along = polynomials[*symbol];
  BoxDim &dim = box.dims[along.dim];
  if (along.kind == Symbol::Kind::Folded) {
    // A remainder is less than its divisor.
    std::optional<Polynomial> bound = add(describe::symbol(*symbol), along.limit, -1);
    bool holds = isa<arith::RemSIOp, arith::RemUIOp>(along.value.getDefiningOp()) && bound && condition == *bound;
    return holds || fail(other);
  }
  if (sign == 1)
    return pin(dim, condition) || fail(other);
  if (sign == -1) {
    // A lower bound of 0: `-1 - start - i` is less than 0. The start of the box must already be known.
    std::optional<Polynomial> front = pinned[along.dim] ? add(constant(-1), dim.start, -1) : std::nullopt;
    front = front ? add(*front, describe::symbol(*symbol), -1) : std::nullopt;
    below[along.dim] = true;
    return (front && condition == *front) || fail(other);
  }
  return fail(other);
}

bool Finder::takeMask(Value mask) {
  std::optional<SmallVector<Polynomial>> conditions = polynomials.conditionsOf(mask, why);
  if (!conditions)
    return false;
  auto isLower = [&](const Polynomial &condition) {
    return llvm::any_of(condition, [&](const auto &entry) {
      return entry.first.size() == 1 && entry.second == -1 && polynomials[entry.first.front()].alongDim();
    });
  };
  // Upper bounds first, since they determine where the box begins.
  for (bool lower : {false, true})
    for (const Polynomial &condition : *conditions)
      if (isLower(condition) == lower && !takeCondition(condition))
        return false;
  return true;
}

/// A term of the addresses that moves the whole box along a dimension of its own: the matrices of a batch.
bool Finder::placeInBatch(const std::vector<unsigned> &term, int64_t coefficient) {
  Polynomial stride, start;
  for (size_t i = 0; i < term.size() && stride.empty(); ++i)
    if (argumentOf(term[i]) && isAligned(symbol(term[i]))) {
      stride = symbol(term[i]);
      std::vector<unsigned> factor(term);
      factor.erase(factor.begin() + i);
      start[factor] = coefficient;
    }
  if (stride.empty() && isAligned(constant(coefficient))) {
    stride = constant(coefficient);
    start[term] = 1;
  }
  if (stride.empty())
    return false;
  for (BoxDim &dim : box.dims)
    if (!dim.dim && dim.stride == stride) {
      std::optional<Polynomial> sum = add(dim.start, start);
      if (sum)
        dim.start = *sum;
      return sum.has_value();
    }
  BoxDim dim;
  dim.stride = stride;
  dim.start = start;
  box.dims.insert(box.dims.begin(), dim);
  return true;
}

/// Distributes the terms that neither an index nor the mask accounts for: where dimensions without bounds begin, and
/// which matrix of a batch is accessed.
bool Finder::placeRest() {
  SmallVector<BoxDim *> open;
  for (BoxDim &dim : box.dims)
    if (!pinned[*dim.dim])
      open.push_back(&dim);
  Polynomial left;
  for (auto &[term, coefficient] : rest) {
    bool placed = false;
    for (BoxDim *dim : open) {
      std::optional<int64_t> number = asConstant(dim->stride);
      if (number == 1 || placed)
        continue;
      std::vector<unsigned> factor(term);
      int64_t times = coefficient;
      if (number) {
        placed = times % *number == 0;
        times /= *number;
      } else if (auto found = llvm::find(factor, dim->stride.begin()->first.front()); found != factor.end()) {
        factor.erase(found);
        placed = true;
      }
      if (placed)
        dim->start[factor] += times;
    }
    if (!placed)
      left[term] = coefficient;
  }
  bool contiguousIsOpen = llvm::any_of(open, [](BoxDim *dim) { return asConstant(dim->stride) == 1; });
  for (auto &[term, coefficient] : left) {
    bool alone = term.size() < 2;
    if (contiguousIsOpen && (alone || !placeInBatch(term, coefficient)))
      for (BoxDim &dim : box.dims) {
        if (asConstant(dim.stride) == 1)
          dim.start[term] += coefficient;
      }
    else if (!contiguousIsOpen && !placeInBatch(term, coefficient))
      return fail("the box moves by amounts other than the bounds in the mask, and not by multiples of 16 bytes");
  }
  return true;
}

bool Finder::fitsCopyEngine() {
  if (box.dims.size() > kMostDims)
    return fail("the array has more than 5 dimensions");
  for (BoxDim &dim : box.dims) {
    int64_t side = dim.dim ? tile.getShape()[*dim.dim] : 1;
    auto bounds = polynomials.bounds(dim.start, {});
    if (!bounds || bounds->second.sgt(APInt(512, uint64_t(kMostCoordinate - side))) || !bounds->first.isSignedIntN(32))
      return fail("a position is not known to fit in 32 bits");
    if (bounds->first.isNegative() && !(dim.dim && below[*dim.dim]))
      return fail("a position is not known to be 0 or more");
    // Without a bound the array is as large as boxes may reach.
    if (dim.extent.empty())
      dim.extent = constant(bounds->second.getSExtValue() + side);
    std::optional<int64_t> extent = asConstant(dim.extent);
    if (extent ? *extent < 1 || *extent > kMostCoordinate : !argumentOf(dim.extent))
      return fail("an extent is neither a constant nor an argument of the kernel");
  }
  return true;
}

std::optional<Box> Finder::find(Value pointers, Value mask) {
  Type pointee = cast<tile::PtrType>(tile.getElementType()).getPointee();
  if (!pointee.isIntOrFloat() || pointee.isInteger(1)) {
    fail("the copy engine only moves elements of whole bytes");
    return std::nullopt;
  }
  if (tile.getRank() != 2 || tile.getShape()[0] == 1 || tile.getShape()[1] == 1) {
    fail("the tile is not a matrix");
    return std::nullopt;
  }
  std::optional<Polynomial> address = polynomials.of(pointers, why);
  pinned.assign(2, false);
  below.assign(2, false);
  if (!address || !takeBase(*address) || !takeStrides(*address) || !takeMask(mask) || !placeRest())
    return std::nullopt;
  // Outermost first, the contiguous one last.
  auto place = [](const BoxDim &dim) { return !dim.dim ? 0 : asConstant(dim.stride) == 1 ? 2 : 1; };
  auto dims = std::exchange(box.dims, {});
  for (int wanted : {0, 1, 2})
    llvm::copy_if(dims, std::back_inserter(box.dims), [&](const BoxDim &dim) { return place(dim) == wanted; });
  if (!fitsCopyEngine())
    return std::nullopt;
  return box;
}

std::optional<Box> describe::findBox(Value pointers, Value mask, Polynomials &polynomials,
                                     const AlignmentAnalysis &alignment, std::string &why) {
  return Finder(cast<RankedTensorType>(pointers.getType()), polynomials, alignment, why).find(pointers, mask);
}
