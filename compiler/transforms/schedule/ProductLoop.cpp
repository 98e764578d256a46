// Recognizes the product loop.
#include "compiler/transforms/schedule/ProductLoop.h"
#include "compiler/analysis/Disjoint.h"
#include "dialects/kgpu/BarrierUse.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;

static bool isTile(Value value) { return isa<RankedTensorType>(value.getType()); }

RankedTensorType schedule::asMatrix(RankedTensorType tile) {
  ArrayRef<int64_t> shape = tile.getShape();
  while (shape.size() > 2 && shape.front() == 1)
    shape = shape.drop_front();
  return tile.clone(shape);
}

/// The block that an operand of the dot is made of, loaded in the loop and used by nothing else.
static std::optional<Factor> factorOf(Value operand, scf::ForOp loop, std::string &why) {
  Factor factor;
  if (auto trans = operand.getDefiningOp<tile::TransOp>(); trans && trans.getOrder() == ArrayRef<int32_t>{1, 0}) {
    factor.transposition = trans;
    operand = trans.getValue();
  }
  if (auto reshape = operand.getDefiningOp<tile::ReshapeOp>()) {
    auto source = cast<RankedTensorType>(reshape.getValue().getType());
    if (asMatrix(source) == reshape.getType() && operand.hasOneUse()) {
      factor.reshape = reshape;
      operand = reshape.getValue();
    }
  }
  factor.load = operand.getDefiningOp<tile::DescLoadOp>();
  bool inside = factor.load && factor.load->getParentOp() == loop;
  if (!inside || !operand.hasOneUse()) {
    why = "a factor is not a block that the loop loads through a descriptor for this product only";
    return std::nullopt;
  }
  factor.desc = factor.load.getDesc().getDefiningOp<tile::MakeDescOp>();
  if (!factor.desc || factor.desc.getPadding() != tile::Padding::Zero) {
    why = "a factor's descriptor is not known, or does not pad with zeros";
    return std::nullopt;
  }
  return factor;
}

bool ProductLoop::isSummedApart() {
  Type element = lhs.block().getElementType();
  return isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8 && dot.getType().getElementType().isF32() &&
         int64_t(dot.getMaxImpreciseAcc()) <= dot.getLhs().getType().getShape().back();
}

RankedTensorType ProductLoop::stackedSums(bool swapped, int64_t ctas) {
  RankedTensorType type = dot.getType();
  int64_t rows = type.getDimSize(swapped ? 1 : 0), columns = type.getDimSize(swapped ? 0 : 1);
  return RankedTensorType::get({rows * ctas, columns}, type.getElementType());
}

/// Scalar ops, and the parts of the product.
static bool belongs(Operation &op, ProductLoop &product) {
  if (product.isPart(&op))
    return true;
  return op.getNumRegions() == 0 && isMemoryEffectFree(&op) && llvm::none_of(op.getOperands(), isTile) &&
         llvm::none_of(op.getResults(), isTile);
}

std::optional<ProductLoop> schedule::findProductLoop(func::FuncOp kernel, std::string &why) {
  SmallVector<tile::DotOp> dots;
  kernel.walk([&](tile::DotOp dot) { dots.push_back(dot); });
  if (dots.size() != 1) {
    why = dots.empty() ? "there is no product" : "there are several products";
    return std::nullopt;
  }
  ProductLoop product;
  product.dot = dots.front();
  product.loop = dyn_cast<scf::ForOp>(product.dot->getParentOp());
  if (!product.loop) {
    why = "the product is not in a loop";
    return std::nullopt;
  }
  auto acc = dyn_cast<BlockArgument>(product.dot.getAcc());
  if (!acc || acc.getOwner() != product.loop.getBody() || acc == product.loop.getInductionVar() || !acc.hasOneUse() ||
      !product.dot.getResult().hasOneUse() ||
      product.loop.getTiedLoopYieldedValue(acc)->get() != product.dot.getResult()) {
    why = "the product is not added to an accumulator that the loop carries";
    return std::nullopt;
  }
  product.accumulator = acc.getArgNumber() - 1;
  auto lhs = factorOf(product.dot.getLhs(), product.loop, why);
  auto rhs = lhs ? factorOf(product.dot.getRhs(), product.loop, why) : std::nullopt;
  if (!rhs)
    return std::nullopt;
  product.lhs = *lhs;
  product.rhs = *rhs;
  product.lhs.across = lhs->transposition ? 1 : 0;
  product.rhs.across = rhs->transposition ? 0 : 1;
  for (Operation &op : product.loop.getBody()->without_terminator())
    if (!belongs(op, product)) {
      why = "the loop does more than load, multiply and count";
      return std::nullopt;
    }
  for (auto [i, value] : llvm::enumerate(product.loop.getInitArgs()))
    if (i != product.accumulator && isTile(value)) {
      why = "the loop carries other tiles";
      return std::nullopt;
    }
  SmallVector<Value> steered(product.loop.getOperands().begin(), product.loop.getOperands().end());
  llvm::erase(steered, product.loop.getInitArgs()[product.accumulator]);
  llvm::append_range(steered, product.lhs.load.getOffsets());
  llvm::append_range(steered, product.rhs.load.getOffsets());
  for (Operation *parent = product.loop->getParentOp(); parent != kernel; parent = parent->getParentOp()) {
    auto loop = dyn_cast<scf::ForOp>(parent);
    if (!loop) {
      why = "the loop is inside a branch";
      return std::nullopt;
    }
    product.around.insert(product.around.begin(), loop);
    if (llvm::any_of(loop.getInitArgs(), isTile)) {
      why = "a loop around it carries tiles";
      return std::nullopt;
    }
    llvm::append_range(steered, loop.getOperands());
    llvm::append_range(steered, loop.getYieldedValues());
  }
  if (!isScalarWork(steered, kernel)) {
    why = "the position or number of the loads depends on tiles or on memory";
    return std::nullopt;
  }
  return product;
}

bool schedule::isScalarWork(ValueRange values, func::FuncOp kernel, bool reads) {
  SmallVector<Value> open(values);
  DenseSet<Value> seen;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    if (isTile(value))
      return false;
    Operation *op = value.getDefiningOp();
    if (!op) {
      Operation *owner = cast<BlockArgument>(value).getOwner()->getParentOp();
      if (owner != kernel && !isa<scf::ForOp>(owner))
        return false;
      continue;
    }
    // Results of a loop are accepted if the loop carries only scalars; loops around the product are checked separately.
    bool isRead = reads && isa<tile::LoadOp>(op) && isConstantRead(kernel, op);
    if (op->getNumRegions() != 0 || !(isRead || isMemoryEffectFree(op)))
      return false;
    llvm::append_range(open, op->getOperands());
  }
  return true;
}

/// The copy engine requires addresses and positions along rows to be multiples of this many bytes.
static constexpr int64_t kEngineBytes = 16;

static bool isMappable(tile::MakeDescOp desc, const AlignmentAnalysis &alignment, std::string &why) {
  int64_t rank = desc.getStrides().size(), bytes = tile::memoryBytes(desc.getType().getBlock().getElementType());
  if (rank < 1 || rank > 5 || !llvm::all_of(desc.getOperands(), kgpu::isDerivedFromArguments)) {
    why = "a descriptor is not made of the kernel's arguments";
    return false;
  }
  if (!matchPattern(desc.getStrides().back(), m_One())) {
    why = "the rows of a described array are not contiguous";
    return false;
  }
  bool aligned = alignment.get(desc.getBase()).isMultiple(kEngineBytes);
  for (Value stride : desc.getStrides().drop_back())
    aligned &= alignment.get(stride).isMultiple(kEngineBytes, bytes);
  if (!aligned)
    why = "base or strides of a described array are not known to be multiples of 16 bytes";
  return aligned;
}

/// An H200 aborts a launch with an illegal instruction if a box begins elsewhere.
static bool beginsInSteps(Value offset, Type element, const AlignmentAnalysis &alignment, std::string &why) {
  bool steps = alignment.get(offset).isMultiple(kEngineBytes, tile::memoryBytes(element));
  if (!steps)
    why = "the position of a block along its rows is not known to be a multiple of 16 bytes";
  return steps;
}

bool schedule::mayFetch(tile::DescLoadOp load, const AlignmentAnalysis &alignment, std::string &why) {
  auto desc = load.getDesc().getDefiningOp<tile::MakeDescOp>();
  if (!desc) {
    why = "a descriptor is not made of the kernel's arguments";
    return false;
  }
  return isMappable(desc, alignment, why) &&
         beginsInSteps(load.getOffsets().back(), load.getType().getElementType(), alignment, why);
}

/// A block at `offset` begins inside its array, or lies before it with all of its `side` elements. Reads before the
/// array give zero, but a box written there makes an H200 abort the launch.
static bool reachesFromInside(Value offset, int64_t side, const AlignmentAnalysis &alignment) {
  const RangeAnalysis &ranges = alignment.ranges();
  if (!ranges.get(offset).smin().isNegative() || alignment.get(offset).everyElement() % side == 0)
    return true;
  if (auto chosen = offset.getDefiningOp<arith::SelectOp>())
    return reachesFromInside(chosen.getTrueValue(), side, alignment) &&
           reachesFromInside(chosen.getFalseValue(), side, alignment);
  // The alignment analysis only knows power-of-two divisors.
  auto product = offset.getDefiningOp<arith::MulIOp>();
  APInt factor;
  return product && matchPattern(product.getRhs(), m_ConstantInt(&factor)) && factor.getSExtValue() % side == 0 &&
         !ranges.mayOverflowSigned(product);
}

template <typename Write> static bool mayWriteBlock(Write write, const AlignmentAnalysis &alignment, std::string &why) {
  auto desc = write.getDesc().template getDefiningOp<tile::MakeDescOp>();
  auto block = cast<RankedTensorType>(write.getValue().getType());
  if (!desc || !isMappable(desc, alignment, why) ||
      !beginsInSteps(write.getOffsets().back(), block.getElementType(), alignment, why))
    return false;
  for (auto [offset, side] : llvm::zip_equal(write.getOffsets(), block.getShape()))
    if (!reachesFromInside(offset, side, alignment)) {
      why = "a stored block may begin before its array and overlap it";
      return false;
    }
  return true;
}

bool schedule::mayCopyOut(tile::DescStoreOp store, const AlignmentAnalysis &alignment, std::string &why) {
  return mayWriteBlock(store, alignment, why);
}

bool schedule::mayCopyOut(tile::DescReduceOp op, const AlignmentAnalysis &alignment, std::string &why) {
  return mayWriteBlock(op, alignment, why);
}

/// Why programs that run `op` may wait for each other, judged by its declared effects; "" if they cannot. Only polling
/// waits: `looks` says whether the kernel has a loop that runs until a condition holds.
static StringRef whyTheyWait(Operation *op, bool looks) {
  const StringRef waits = "programs may wait for each other";
  if (isa<tile::WaitForGridOp>(op))
    return "the kernel says itself where it waits for the launch before";
  if (isMemoryEffectFree(op) || op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() || isa<func::FuncOp>(op))
    return "";
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  if (!effects)
    return waits;
  SmallVector<MemoryEffects::EffectInstance> list;
  effects.getEffects(list);
  bool reads = false, writes = false, ordered = false, anywhere = false;
  for (const MemoryEffects::EffectInstance &effect : list) {
    bool global = isa<tile::GlobalMemory>(effect.getResource());
    reads |= global && isa<MemoryEffects::Read>(effect.getEffect());
    writes |= global && isa<MemoryEffects::Write>(effect.getEffect());
    anywhere |= global && !effect.getValue();
    ordered |= isa<tile::Order>(effect.getResource());
    if (!global && !isa<tile::Order, tile::Report>(effect.getResource()))
      return waits;
  }
  // In one step, or by polling until another program has written. Inline assembly may contain its own loop.
  if (reads && (writes || ordered) && (looks || anywhere))
    return waits;
  // Ordering atomics need a barrier before or after, which a role that spans several CTAs does not have.
  if (kgpu::BarrierUses uses = kgpu::barriersOf(op);
      kgpu::clusterSize(op) > 1 && reads && writes && (uses.before || uses.after))
    return "a role of a cluster has no barrier to order its accesses by";
  return "";
}

bool schedule::mayRunAhead(func::FuncOp kernel, ArrayRef<Operation *> loads, std::string &why, ArrayRef<Turn> turns) {
  SmallVector<Operation *> stores;
  bool looks = false;
  kernel.walk([&](scf::WhileOp loop) { looks |= !isOrdering(turns, loop); });
  WalkResult result = kernel.walk([&](Operation *op) {
    if (isOrdering(turns, op))
      return WalkResult::advance();
    why = whyTheyWait(op, looks).str();
    if (writesGlobal(op))
      stores.push_back(op);
    return why.empty() ? WalkResult::advance() : WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return false;
  for (Operation *store : stores)
    for (Operation *load : loads)
      if (!areDisjoint(load, store)) {
        why = "the kernel's stores may overlap the factors that it loads";
        return false;
      }
  return true;
}
