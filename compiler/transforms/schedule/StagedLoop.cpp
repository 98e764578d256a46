// Recognizes the loop of the schedules `simple` and `lanes`, and what its loads depend on.
#include "compiler/transforms/schedule/StagedLoop.h"
#include "compiler/analysis/Disjoint.h"
#include "compiler/analysis/Grouping.h"
#include "dialects/kgpu/BarrierUse.h"
#include "dialects/layout/Constructors.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;

// Sizes of the pieces that threads copy asynchronously, bypassing registers.
static constexpr int64_t kLeastBytes = 4, kMostBytes = 16;

int64_t StagedLoop::slotBytes() const {
  int64_t bytes = 0;
  for (const StagedLoad &load : loads) {
    kgpu::MemType memory = load.memory;
    bytes += llvm::alignTo(memory.getBytes(), kgpu::kSwizzleAlign);
  }
  return bytes;
}

//===----------------------------------------------------------------------===//
// Loads
//===----------------------------------------------------------------------===//

/// Collects the loads of `loop` that an operand is computed from, by ops without effects.
static void collectLoads(Value factor, scf::ForOp loop, llvm::SetVector<Operation *> &loads) {
  SmallVector<Value> open = {factor};
  llvm::SmallDenseSet<Value> seen;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    Operation *op = value.getDefiningOp();
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!op || op->getParentOp() != loop || !type || !seen.insert(value).second)
      continue;
    if (isa<tile::DescLoadOp, tile::LoadOp>(op)) {
      if (type.getRank() == 2)
        loads.insert(op);
    } else if (!isa<tile::DotOp>(op) && (op->getNumRegions() == 0 || isa<tile::InlineAsmOp>(op)) &&
               isMemoryEffectFree(op)) {
      llvm::append_range(open, op->getOperands());
    }
  }
}

/// The dimension that is contiguous in memory, and how many bytes of it one copy moves.
static std::pair<unsigned, int64_t> pieceOf(tile::DescLoadOp load, const AlignmentAnalysis &alignment) {
  auto desc = load.getDesc().getDefiningOp<tile::MakeDescOp>();
  RankedTensorType block = load.getType();
  unsigned fastest = block.getRank() - 1;
  if (!desc || !matchPattern(desc.getStrides()[fastest], m_One()))
    return {fastest, 0};
  int64_t bytes = tile::memoryBytes(block.getElementType());
  auto divisor = [&](Value value) { return std::min(alignment.get(value).everyElement(), kMostBytes); };
  int64_t piece = std::min({kMostBytes, divisor(desc.getBase()), divisor(load.getOffsets()[fastest]) * bytes,
                            powerOf2Factor(block.getShape()[fastest]) * bytes});
  for (auto [dim, stride] : llvm::enumerate(desc.getStrides()))
    if (dim != fastest)
      piece = std::min(piece, divisor(stride) * bytes);
  return {fastest, piece};
}

static std::pair<unsigned, int64_t> pieceOf(tile::LoadOp load, const AlignmentAnalysis &alignment) {
  auto block = cast<RankedTensorType>(load.getType());
  int64_t bytes = tile::memoryBytes(block.getElementType());
  std::pair<unsigned, int64_t> best = {1, 0};
  for (unsigned dim = 0; dim < 2; ++dim) {
    int64_t side = block.getShape()[dim];
    int64_t count = std::min({powerOf2Factor(alignment.contiguousElements(load.getPtr(), dim)), powerOf2Factor(side),
                              powerOf2Factor(alignment.maskConstancy(load.getMask(), dim, side))});
    int64_t piece =
        std::min({kMostBytes, count * bytes, powerOf2Factor(alignment.alignmentInBytes(load.getPtr(), dim))});
    if (piece >= best.second)
      best = {dim, piece};
  }
  return best;
}

/// Rows along `fastest`, swizzled so that eight of them can be read at once.
static kgpu::MemType slotMemory(RankedTensorType block, unsigned fastest) {
  int64_t bytes = tile::memoryBytes(block.getElementType());
  SmallVector<int32_t> order = {int32_t(fastest), int32_t(1 - fastest)};
  layout::Layout layout = layout::rowMajor(block.getShape(), order);
  for (int64_t swizzle : {128, 64, 32})
    if (auto swizzled = layout::swizzled(block.getShape(), order, bytes, swizzle)) {
      layout = *swizzled;
      break;
    }
  return kgpu::MemType::get(block.getShape(), block.getElementType(), layout::MapAttr::get(block.getContext(), layout));
}

/// How a load goes through a slot; std::nullopt if it cannot.
static std::optional<StagedLoad> stagedOf(Operation *op, const AlignmentAnalysis &alignment, std::string &why) {
  StagedLoad staged;
  staged.op = op;
  std::pair<unsigned, int64_t> piece;
  if (auto load = dyn_cast<tile::DescLoadOp>(op)) {
    auto desc = load.getDesc().getDefiningOp<tile::MakeDescOp>();
    if (!desc || desc.getPadding() != tile::Padding::Zero) {
      why = "a factor's descriptor is not known, or does not pad with zeros";
      return std::nullopt;
    }
    piece = pieceOf(load, alignment);
  } else {
    auto access = cast<tile::LoadOp>(op);
    bool zero = !access.getOther() || matchPattern(access.getOther(), m_Zero()) ||
                matchPattern(access.getOther(), m_AnyZeroFloat());
    if (access.getIsVolatile() || access.getCache() == tile::CacheModifier::CV || !zero) {
      why = "a factor is loaded from volatile memory, or is not zero where its mask is false";
      return std::nullopt;
    }
    piece = pieceOf(access, alignment);
  }
  if (piece.second < kLeastBytes) {
    why = "rows of a factor, or their ends, are not known to be multiples of 4 bytes";
    return std::nullopt;
  }
  staged.memory = slotMemory(staged.block(), piece.first);
  return staged;
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

/// A read that may be made some iterations ahead if the iteration happens: for example from a page table.
static bool isPlainLoad(Operation *op) {
  auto load = dyn_cast<tile::LoadOp>(op);
  return load && !load.getIsVolatile() && load.getCache() != tile::CacheModifier::CV;
}

/// Traces the addresses of loads back through the loop's body and its carried values. They are also computed for
/// iterations that may not happen, so only pure ops are allowed, and reads that are predicated on the iteration.
static bool followAddresses(StagedLoop &staged, std::string &why) {
  scf::ForOp loop = staged.loop;
  staged.ahead.assign(loop.getNumRegionIterArgs(), false);
  SmallVector<Value> open;
  for (const StagedLoad &load : staged.loads)
    llvm::append_range(open, load.op->getOperands());
  llvm::SmallDenseSet<Value> seen;
  SetVector<Operation *> found;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (argument.getOwner() == loop.getBody() && argument != loop.getInductionVar()) {
        staged.ahead[argument.getArgNumber() - 1] = true;
        open.push_back(loop.getTiedLoopYieldedValue(argument)->get());
      }
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (!loop->isProperAncestor(op))
      continue;
    bool computes = isMemoryEffectFree(op) && !isa<tile::DotOp>(op);
    if (op->getParentOp() != loop || op->getNumRegions() != 0 || !(computes || isPlainLoad(op))) {
      why = "the position of a load depends on a branch, on products or on memory that is not read-only";
      return false;
    }
    found.insert(op);
    llvm::append_range(open, op->getOperands());
  }
  // In program order.
  for (Operation &op : *loop.getBody())
    if (found.contains(&op))
      staged.addresses.insert(&op);
  return true;
}

/// In a block that the loop is in too, in front of it: what is loaded ahead comes after it as well.
static bool isAheadOf(Operation *op, const StagedLoop &staged) {
  Operation *top = op->getBlock()->findAncestorOpInBlock(*staged.loop);
  return top && op->isBeforeInBlock(top);
}

/// The kernel must not write what is loaded ahead.
static bool mayLoadAhead(func::FuncOp kernel, const StagedLoop &staged, std::string &why) {
  SmallVector<Operation *> stores;
  WalkResult result = kernel.walk([&](Operation *op) {
    if (isa<tile::StoreOp, tile::DescStoreOp>(op)) {
      stores.push_back(op);
      return WalkResult::advance();
    }
    bool known = isa<func::FuncOp, scf::ForOp, scf::IfOp, scf::WhileOp, tile::LoadOp, tile::DescLoadOp>(op);
    bool silent =
        known || isMemoryEffectFree(op) || isa<tile::AssertOp, tile::PrintOp, tile::AssumeOp, tile::PrefetchOp>(op);
    if (silent || (isa<tile::WaitForGridOp>(op) && isAheadOf(op, staged)))
      return WalkResult::advance();
    // After the loop any access is allowed that does not reach what the loop has read, even in a branch.
    Operation *top = staged.loop->getBlock()->findAncestorOpInBlock(*op);
    if (top && staged.loop->isBeforeInBlock(top) && staged.around.empty() &&
        isa<tile::AtomicRMWOp, tile::AtomicCASOp, tile::DescReduceOp>(op)) {
      stores.push_back(op);
      return WalkResult::advance();
    }
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted()) {
    why = "programs may wait for each other";
    return false;
  }
  for (Operation *store : stores) {
    for (const StagedLoad &load : staged.loads)
      if (!areDisjoint(load.op, store)) {
        why = "the kernel's stores may overlap the factors that it loads";
        return false;
      }
    for (Operation *op : staged.addresses)
      if (isa<tile::LoadOp>(op) && !areDisjoint(op, store)) {
        why = "the kernel's stores may overlap the memory that positions of loads are read from";
        return false;
      }
  }
  return true;
}

/// Threads have a product instruction for these types. Other products read shared memory anyway.
static bool hasInstruction(tile::DotOp dot) {
  auto typeOf = [](Value tile) { return cast<RankedTensorType>(tile.getType()); };
  Type lhs = typeOf(dot.getLhs()).getElementType(), rhs = typeOf(dot.getRhs()).getElementType();
  Type sum = typeOf(dot.getAcc()).getElementType();
  if (lhs.isF32() && dot.getPrecision() == tile::Precision::IEEE)
    return false;
  if (sum.isF16())
    sum = Float32Type::get(dot.getContext());
  int64_t depth = kgpu::productDepth(lhs, rhs, sum, /*warpgroup=*/false);
  return depth && typeOf(dot.getLhs()).getShape().back() % depth == 0;
}

std::optional<StagedLoop> schedule::findStagedLoop(func::FuncOp kernel, const AlignmentAnalysis &alignment,
                                                   std::string &why) {
  StagedLoop staged;
  SmallVector<tile::DotOp> dots;
  bool found = false, several = false;
  // Products outside loops stay in place.
  kernel.walk([&](tile::DotOp dot) {
    found = true;
    if (auto loop = dot->getParentOfType<LoopLikeOpInterface>()) {
      several |= dot->getParentOp() != loop || (staged.loop && staged.loop != loop);
      staged.loop = dyn_cast<scf::ForOp>(loop.getOperation());
      dots.push_back(dot);
    }
  });
  if (!staged.loop || several) {
    why = several ? "the products are in several loops or blocks"
          : found ? "the product is not in a loop"
                  : "there is no product";
    return std::nullopt;
  }
  staged.products = dots.size();
  if (!llvm::all_of(dots, hasInstruction)) {
    why = "no instruction multiplies these types from registers with the requested precision";
    return std::nullopt;
  }
  if (staged.loop.getUnsignedCmp() || kgpu::clusterSize(kernel) > 1) {
    why = "the loop counter is unsigned, or a cluster shares the loads";
    return std::nullopt;
  }
  for (Operation *parent = staged.loop->getParentOp(); parent != kernel; parent = parent->getParentOp()) {
    auto loop = dyn_cast<scf::ForOp>(parent);
    if (!loop) {
      why = "the loop is inside a branch";
      return std::nullopt;
    }
    staged.around.insert(staged.around.begin(), loop);
  }
  llvm::SetVector<Operation *> loads;
  for (tile::DotOp dot : dots)
    for (Value factor : {dot.getLhs(), dot.getRhs()})
      collectLoads(factor, staged.loop, loads);
  if (loads.empty()) {
    why = "no factor is a block that the loop loads";
    return std::nullopt;
  }
  for (Operation &op : *staged.loop.getBody())
    if (loads.contains(&op)) {
      auto load = stagedOf(&op, alignment, why);
      if (!load)
        return std::nullopt;
      staged.loads.push_back(*load);
    }
  if (!followAddresses(staged, why) || !mayLoadAhead(kernel, staged, why))
    return std::nullopt;
  return staged;
}
