// kiln-choose-schedule: chooses which schedule a kernel gets, and its parameters.
#include "compiler/analysis/Disjoint.h"
#include "compiler/transforms/schedule/ChainedProducts.h"
#include "compiler/transforms/schedule/Passes.h"
#include "compiler/transforms/schedule/Schedule.h"
#include "compiler/transforms/schedule/StagedLoop.h"
#include "compiler/transforms/schedule/Streams.h"
#include "compiler/transforms/tile/TakeUnlikely.h"
#include "dialects/kgpu/BarrierUse.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

namespace kiln {
#define GEN_PASS_DEF_CHOOSESCHEDULEPASS
#include "compiler/transforms/schedule/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;

// More slots than this gained nothing: enough bytes are in flight.
static constexpr int32_t kMaxStages = 8;
// Accumulator registers per thread that leave room for everything else, by the number of groups: 128 rows by 192
// columns for one or two groups; 128 by 128 for three, whose threads have 160 registers.
static constexpr int64_t kMaxAccumulators[] = {0, 200, 200, 128};
// Columns of one instruction. ptxas requires its registers to fit the count that the block starts with: with three
// groups and four more warps that is 128 per thread, and 64 by 208 takes 130.
static constexpr int64_t kMaxColumns[] = {0, 256, 256, 192};
// Slots of the schedules `simple` and `lanes`, and how many are enough if that leaves room for a second block on the
// processor.
static constexpr int32_t kSimpleStages = 4, kSharedStages = 3;
// Shared memory next to the ring reserved for barriers, mbarriers and the kernel's own exchanges.
static constexpr int64_t kSpareBytes = 2048;

namespace {
class Chooser {
public:
  Chooser(func::FuncOp kernel, const Target &target) : kernel(kernel), target(target), alignment(kernel) {
    ctas = kgpu::clusterSize(kernel);
    numWarps = kgpu::moduleNumber(kernel, kgpu::kNumWarpsAttrName, numWarps);
    auto module = kernel->getParentOfType<ModuleOp>();
    if (auto name = module->getAttrOfType<StringAttr>(kgpu::kScheduleAttrName))
      asked = name.getValue().str();
    if (auto number = module->getAttrOfType<IntegerAttr>(kgpu::kStagesAttrName))
      askedStages = number.getInt();
    if (auto number = module->getAttrOfType<IntegerAttr>(kgpu::kConsumersAttrName))
      askedConsumers = number.getInt();
  }

  /// Nothing, with a sentence in `why`, if products stay in place. If a simpler schedule is chosen than the target's
  /// best, `why` says why.
  std::optional<Schedule> choose(std::string &why);

private:
  std::optional<Schedule> withRoles(std::string &why);
  std::optional<Schedule> withRoles(ProductLoop &product, std::string &why);
  std::optional<Schedule> simple(std::string &why);
  int64_t besideSlots(tile::DotOp dot, const StagedLoop &staged) const;
  bool fitsGroups(ProductLoop &product, int64_t consumers, bool swapped, bool split, int64_t accumulators) const;
  bool maySplit(ProductLoop &product, bool swapped, std::string &why) const;
  /// A block that the program loads or stores in addition to the product's operands.
  struct Beside {
    Operation *op;
    RankedTensorType tile;
    bool isLoad, byEngine; ///< the copy engine could prefetch or store it
  };
  SmallVector<Beside> blocksBeside(ProductLoop &product);
  int64_t besideRing(ArrayRef<Beside> blocks, const Schedule &schedule) const;
  bool mayReuse(ProductLoop &product, ArrayRef<Beside> blocks, const Schedule &schedule) const;
  bool mayEndApart(ProductLoop &product, ArrayRef<Beside> blocks, const Schedule &schedule) const;

  func::FuncOp kernel;
  const Target &target;
  AlignmentAnalysis alignment;
  int64_t ctas = 1, numWarps = 4;
  std::string asked = "auto";
  std::optional<int64_t> askedStages, askedConsumers;
};
} // namespace

/// The tile that an op loads or stores; null for other ops, and for scalars.
static RankedTensorType blockOf(Operation *op) {
  Value block;
  if (isa<tile::LoadOp, tile::DescLoadOp>(op))
    block = op->getResult(0);
  else if (auto store = dyn_cast<tile::DescStoreOp>(op))
    block = store.getValue();
  else if (auto store = dyn_cast<tile::StoreOp>(op))
    block = store.getValue();
  return block ? dyn_cast<RankedTensorType>(block.getType()) : RankedTensorType();
}

/// The tile lies in memory as accumulators do, in runs of eight elements. The threads that hold it then load or store
/// it directly.
static bool liesAsAccumulators(Operation *op, const AlignmentAnalysis &alignment) {
  Value pointers;
  if (auto load = dyn_cast<tile::LoadOp>(op))
    pointers = load.getPtr();
  else if (auto store = dyn_cast<tile::StoreOp>(op))
    pointers = store.getPtr();
  auto type = pointers ? dyn_cast<RankedTensorType>(pointers.getType()) : RankedTensorType();
  if (!type)
    return false;
  for (auto [dim, side] : llvm::enumerate(type.getShape()))
    if (alignment.contiguousElements(pointers, dim) == 8 && side > 8)
      return true;
  return false;
}

std::optional<Schedule> Chooser::choose(std::string &why) {
  if (asked == "none") {
    why = "the launch set schedule=none";
    return std::nullopt;
  }
  if (asked != kSimple && asked != kLanes)
    if (auto schedule = withRoles(why))
      return schedule;
  std::string whyNotSimple;
  auto schedule = simple(whyNotSimple);
  if (!schedule)
    why += (why.empty() ? "" : "; and not simple, since ") + whyNotSimple;
  return schedule;
}

std::optional<Schedule> Chooser::withRoles(std::string &why) {
  if (!target.has(Feature::BulkCopy) || !target.has(Feature::WarpgroupMma)) {
    // Kernels for this target expect no more, so only an explicit request gets a remark.
    if (asked != "auto")
      why = "the target multiplies only from registers";
    return std::nullopt;
  }
  if (asked == kStreams || asked == kRotated) {
    std::optional<Streams> streams = findStreams(kernel, why);
    if (!streams)
      return std::nullopt;
    auto loads = llvm::map_to_vector(streams->blocks, [](auto &entry) { return entry.first; });
    if (!mayRunAhead(kernel, loads, why, streams->turns))
      return std::nullopt;
    if (ctas == 1) {
      auto schedule = chooseStreams(kernel, *streams, target, alignment, askedStages, askedConsumers, why);
      if (schedule)
        schedule->rotated =
            asked == kRotated && schedule->stages >= 2 && mayRotate(kernel, *streams, schedule->consumers, alignment);
      return schedule;
    }
    why = "streamed products do not support clusters";
    return std::nullopt;
  }
  int64_t dots = 0;
  kernel.walk([&](tile::DotOp) { ++dots; });
  if (dots == 2 || asked == kAttention) {
    std::optional<ChainedProducts> chain = findChainedProducts(kernel, why);
    if (!chain || !mayRunAhead(kernel, {chain->query.load, chain->keys.load, chain->values.load}, why))
      return std::nullopt;
    if (ctas == 1) {
      auto schedule = chooseAttention(kernel, *chain, target, alignment, askedStages, askedConsumers, why);
      if (schedule)
        schedule->ordered = asked == "pingpong" && schedule->consumers > 1;
      return schedule;
    }
    why = "chained products do not support clusters";
    return std::nullopt;
  }
  std::optional<ProductLoop> product = findProductLoop(kernel, why);
  if (!product || !mayRunAhead(kernel, {product->lhs.load, product->rhs.load}, why))
    return std::nullopt;
  return withRoles(*product, why);
}

/// Shared memory for operands that warp-group products read from memory and that are not slots themselves.
int64_t Chooser::besideSlots(tile::DotOp dot, const StagedLoop &staged) const {
  int64_t bytes = 0;
  // A group multiplies 64 rows.
  ArrayRef<int64_t> sides = dot.getType().getShape();
  // Warps have no instruction for f64 products: both operands are exchanged, each through two alternating tiles.
  if (dot.getType().getElementType().isF64()) {
    for (Value factor : {dot.getLhs(), dot.getRhs()})
      bytes += 2 * tile::memoryBytes(Float64Type::get(dot.getContext())) *
               cast<RankedTensorType>(factor.getType()).getNumElements();
    return bytes;
  }
  if (sides.size() != 2 || sides[0] % 64)
    return 0;
  for (Value factor : {dot.getLhs(), dot.getRhs()}) {
    auto type = cast<RankedTensorType>(factor.getType());
    if (auto turned = factor.getDefiningOp<tile::TransOp>())
      factor = turned.getValue();
    bool isSlot = llvm::any_of(staged.loads, [&](const StagedLoad &load) { return load.op == factor.getDefiningOp(); });
    int64_t parts = type.getElementType().isF32() ? 3 : 1;
    if (target.has(Feature::WarpgroupMma) && !isSlot)
      bytes += type.getNumElements() * std::max<int64_t>(2, tile::memoryBytes(type.getElementType())) * parts;
  }
  return bytes;
}

std::optional<Schedule> Chooser::simple(std::string &why) {
  if (!target.has(Feature::CpAsync) || !target.has(Feature::WarpMma)) {
    why = "the target has no asynchronous copies to shared memory";
    return std::nullopt;
  }
  std::optional<StagedLoop> staged = findStagedLoop(kernel, alignment, why);
  if (!staged)
    return std::nullopt;
  // Warp groups do better with products that use another product's result when those stay in place.
  if (asked == "auto" && staged->products > 1 && target.has(Feature::WarpgroupMma)) {
    why = "there are several products";
    return std::nullopt;
  }
  // Other loaded and stored tiles go through exchanges, one at a time; those after the loop reuse the ring's bytes.
  int64_t before = 0, after = 0, copies = 0;
  kernel.walk([&](Operation *op) {
    RankedTensorType type = blockOf(op);
    bool isStaged = llvm::any_of(staged->loads, [&](const StagedLoad &load) { return load.op == op; });
    if (auto dot = dyn_cast<tile::DotOp>(op))
      copies += besideSlots(dot, *staged);
    if (!type || type.getRank() != 2 || isStaged || liesAsAccumulators(op, alignment))
      return;
    Operation *top = kernel.front().findAncestorOpInBlock(*op);
    // In an outer loop, through two alternating tiles.
    int64_t bytes = tile::memoryBytes(type.getElementType()) * (staged->around.empty() ? 1 : 2);
    bool isAfter = staged->around.empty() && staged->loop->isBeforeInBlock(top);
    int64_t &exchange = isAfter ? after : before;
    exchange = std::max(exchange, type.getNumElements() * bytes);
  });
  Schedule schedule;
  schedule.name = asked == kLanes ? kLanes : kSimple;
  int64_t wanted = askedStages.value_or(kSimpleStages), beside = kSpareBytes + before + copies;
  int64_t half = target.gpu.sharedBytesPerProcessor / 2;
  auto fitting = [&](int64_t bytes) { return (bytes - beside) / staged->slotBytes(); };
  schedule.stages = std::min(wanted, fitting(target.gpu.maxSharedBytes));
  // Two blocks on a processor hide each other's waits.
  if (!askedStages && after <= half && fitting(half) >= kSharedStages)
    schedule.stages = std::min(wanted, fitting(half));
  if (schedule.stages < 2) {
    why = wanted < 2 ? "the launch set stages=1, but one slot is read while the next is filled"
                     : "two stages do not fit in shared memory";
    return std::nullopt;
  }
  return schedule;
}

/// Rows of the instruction's tile divide into 64s for the groups, and a thread's accumulators fit its registers.
bool Chooser::fitsGroups(ProductLoop &product, int64_t consumers, bool swapped, bool split,
                         int64_t accumulators) const {
  ArrayRef<int64_t> sides = product.dot.getType().getShape();
  int64_t side = sides[swapped ? 1 : 0], sharers = split ? 1 : ctas, rows = side / sharers;
  int64_t columns = sides[swapped ? 0 : 1];
  if (side % sharers || rows % (64 * consumers) || columns % 8 || columns > kMaxColumns[consumers])
    return false;
  // A product that is accumulated separately has registers of its own.
  int64_t bits = product.dot.getType().getElementTypeBitWidth() * (product.isSummedApart() ? 2 : 1);
  return rows / consumers / 64 * columns / 2 * bits / 32 <= accumulators;
}

/// The CTAs of a cluster may split K: each has a partial sum, and they exchange those once per program.
bool Chooser::maySplit(ProductLoop &product, bool swapped, std::string &why) const {
  RankedTensorType type = product.dot.getType();
  Value from = product.loop.getInitArgs()[product.accumulator];
  if (!product.around.empty())
    why = "ctas add their sums once per program, but the product's loop is inside another loop";
  else if (!matchPattern(from, m_Zero()) && !matchPattern(from, m_AnyZeroFloat()))
    why = "ctas that split K start from zero, but the product is added to something else";
  else if (type.getElementTypeBitWidth() != 32)
    why = "ctas that split K exchange only 32-bit sums";
  else if (!sumMemory(product.stackedSums(swapped, ctas), ctas))
    why = "the instruction's rows, or a cta's share of its columns, are not 8 times a power of two";
  return why.empty();
}

SmallVector<Chooser::Beside> Chooser::blocksBeside(ProductLoop &product) {
  llvm::SmallDenseSet<Operation *> engines;
  engines.insert_range(fetchableLoads(kernel, product, alignment));
  engines.insert_range(copyableStores(kernel, product, alignment));
  SmallVector<Beside> blocks;
  kernel.walk([&](Operation *op) {
    if (op == product.lhs.load || op == product.rhs.load || liesAsAccumulators(op, alignment))
      return;
    RankedTensorType type = blockOf(op);
    if (type && asMatrix(type).getRank() == 2)
      blocks.push_back({op, asMatrix(type), isa<tile::LoadOp, tile::DescLoadOp>(op), engines.contains(op)});
  });
  return blocks;
}

/// Shared memory per CTA for blocks of the product's shape that are loaded and stored in addition to its operands.
/// Groups that take turns store through the same memory, but each exchanges through its own.
int64_t Chooser::besideRing(ArrayRef<Beside> blocks, const Schedule &schedule) const {
  int64_t bytes = 0, exchange = 0;
  for (const Beside &block : blocks) {
    bool own = block.byEngine && (block.isLoad ? schedule.fetched : schedule.stagedStore);
    auto memory = own ? storeMemory(block.tile, ctas, schedule.cutsColumns()) : std::nullopt;
    if (memory && block.isLoad) // a fetched block is followed by its barriers
      bytes += llvm::alignTo(memory->getBytes() + 16, 1024);
    else if (memory)
      bytes += schedule.reused ? 0 : llvm::alignTo(memory->getBytes(), 1024);
    else // one at a time: as 32-bit elements, or through two tiles that programs alternate between
      exchange = std::max(exchange, block.tile.getNumElements() / ctas *
                                        std::max<int64_t>(4, 2 * tile::memoryBytes(block.tile.getElementType())));
  }
  return bytes + (schedule.inTurns() ? schedule.consumers : 1) * exchange;
}

/// The single result can leave through the memory in which an addend arrived.
bool Chooser::mayReuse(ProductLoop &product, ArrayRef<Beside> blocks, const Schedule &schedule) const {
  if (!schedule.fetched || !schedule.stagedStore || schedule.inTurns() || schedule.swapped || schedule.split)
    return false;
  SmallVector<tile::DescLoadOp> loads;
  SmallVector<tile::DescStoreOp> stores;
  for (const Beside &block : blocks)
    if (block.byEngine && block.isLoad)
      loads.push_back(cast<tile::DescLoadOp>(block.op));
    else if (block.byEngine)
      stores.push_back(cast<tile::DescStoreOp>(block.op));
  return stores.size() == 1 && replaceableLoad(product, stores.front(), loads);
}

/// Each group stores its own rows of the single result, once per program and through the copy engine.
bool Chooser::mayEndApart(ProductLoop &product, ArrayRef<Beside> blocks, const Schedule &schedule) const {
  if (schedule.inTurns() || schedule.swapped || schedule.split || !schedule.stagedStore || !product.around.empty())
    return false;
  auto isStore = [](const Beside &block) { return block.byEngine && !block.isLoad; };
  const Beside *store = llvm::find_if(blocks, isStore);
  if (store == blocks.end() || llvm::count_if(blocks, isStore) != 1)
    return false;
  return mayStoreApart(store->tile, ctas, schedule.consumers);
}

/// The kernel reads global memory that it also writes, but for what it reads and writes through the same pointers.
static bool rereads(func::FuncOp kernel) {
  SmallVector<Operation *> reads, writes;
  kernel.walk([&](Operation *op) {
    if (writesGlobal(op))
      writes.push_back(op);
    else if (isGlobalRead(op))
      reads.push_back(op);
  });
  return llvm::any_of(reads, [&](Operation *read) {
    return llvm::any_of(writes, [&](Operation *write) {
      Value pointer = globalEffect(read)->pointer;
      bool alike = pointer && !isa<tile::DescType>(pointer.getType()) && pointer == globalEffect(write)->pointer;
      return !alike && !areDisjoint(read, write);
    });
  });
}

std::optional<Schedule> Chooser::withRoles(ProductLoop &product, std::string &why) {
  if (ctas > 1 && rereads(kernel)) {
    why = "the kernel loads what it stores, and a role of a cluster has no barrier to order its accesses by";
    return std::nullopt;
  }
  Schedule schedule;
  schedule.name = asked == "pingpong" ? "pingpong" : "cooperative";
  if (schedule.inTurns() && !product.around.empty()) {
    why = "groups alternate between programs, but the product's loop is inside another loop";
    return std::nullopt;
  }
  auto element = [](Factor &factor) { return factor.block().getElementType(); };
  Type sum = product.dot.getType().getElementType();
  int64_t depth = kgpu::productDepth(element(product.lhs), element(product.rhs), sum, /*warpgroup=*/true);
  // The instruction accumulates fp8 products with 14 bits, so the program must allow that for at least one instruction.
  // Of f32 it reads the 11 leading bits, as tf32 allows.
  int64_t step = product.dot.getLhs().getType().getShape().back();
  schedule.split = asked == "split" && ctas > 1;
  if (schedule.split && step % ctas == 0)
    step /= ctas;
  bool exact = !element(product.lhs).isF32() || product.dot.getPrecision() == tile::Precision::TF32;
  exact &= !product.isSummedApart() || int64_t(product.dot.getMaxImpreciseAcc()) >= depth;
  if (depth == 0 || !exact || product.dot.getType().getRank() != 2 || step % depth) {
    why = "no instruction multiplies these types from shared memory with the requested precision";
    return std::nullopt;
  }
  auto alongDepth = [&](Factor &factor) { return element(factor).getIntOrFloatBitWidth() == 16 || factor.across == 0; };
  if (!alongDepth(product.lhs) || !alongDepth(product.rhs)) {
    why = "a factor is not contiguous along K, which is required unless elements have 16 bits";
    return std::nullopt;
  }
  for (Factor *factor : {&product.lhs, &product.rhs})
    if (!mayFetch(cast<tile::DescLoadOp>(factor->load), alignment, why))
      return std::nullopt;
  // As many groups as the launch asked for; otherwise what its warps make, adjusted until it fits. The instruction has
  // at least 64 rows: a tile with fewer rows is swapped, and so is one for which the launch asks for it.
  schedule.swapped = asked == "skinny" || product.dot.getType().getShape()[0] / (schedule.split ? 1 : ctas) < 64;
  int64_t consumers = schedule.inTurns() ? 2 : askedConsumers.value_or(std::max<int64_t>(1, numWarps / 4));
  auto fits = [&](int64_t groups) {
    // Groups that take turns each hold the whole tile.
    bool known = groups >= 1 && groups < int64_t(std::size(kMaxAccumulators));
    return known && fitsGroups(product, schedule.inTurns() ? 1 : groups, schedule.swapped, schedule.split,
                               kMaxAccumulators[groups]);
  };
  while (!schedule.inTurns() && !askedConsumers && consumers < 3 && !fits(consumers))
    ++consumers;
  if (!schedule.inTurns() && !fits(consumers))
    for (consumers = 3; consumers > 0 && !fits(consumers);)
      --consumers;
  if (consumers < 1 || (askedConsumers && consumers != *askedConsumers) || !fits(consumers)) {
    why =
        "the tile's rows do not divide into 64 per group of four warps, or their accumulators do not fit in registers";
    return std::nullopt;
  }
  schedule.consumers = consumers;
  if (schedule.split && !maySplit(product, schedule.swapped, why))
    return std::nullopt;
  auto lhs = slotMemory(product.lhs, ctas, schedule.cutOf(product.lhs, /*isLeft=*/true));
  auto rhs = slotMemory(product.rhs, ctas, schedule.cutOf(product.rhs, /*isLeft=*/false));
  if (!lhs || !rhs) {
    why = "the copy engine cannot write the blocks in the layout that products read";
    return std::nullopt;
  }
  int64_t slot = llvm::alignTo(lhs->getBytes(), 1024) + llvm::alignTo(rhs->getBytes(), 1024) + 16;
  int64_t bytes = target.gpu.maxSharedBytes - kSpareBytes;
  if (schedule.split) // sums of this program and of the next
    bytes -= 2 * llvm::alignTo(sumMemory(product.stackedSums(schedule.swapped, ctas), ctas)->getBytes() + 16, 1024);
  int64_t wanted = askedStages.value_or(kMaxStages), fitting = 0;
  if (wanted < 2) {
    why = "the launch set stages=1, but a slot is read until the next product is in flight";
    return std::nullopt;
  }
  // Addends arrive and results leave through their own memory; otherwise they go through an exchange that the layouts
  // may require.
  SmallVector<Beside> beside = blocksBeside(product);
  auto hasEngine = [&](bool loads) {
    return llvm::any_of(beside, [&](const Beside &block) { return block.byEngine && block.isLoad == loads; });
  };
  // With turns, a group must have its addend before the next turn begins, so an addend loaded before the loop cannot be
  // fetched.
  bool mayFetch = !schedule.inTurns() || llvm::all_of(beside, [&](const Beside &block) {
    return !block.byEngine || !block.isLoad || product.loop->isBeforeInBlock(block.op);
  });
  for (bool fetched : {true, false})
    for (bool staged : {true, false}) {
      Schedule tried = schedule;
      tried.fetched = fetched && mayFetch && hasEngine(/*loads=*/true);
      tried.stagedStore = staged && hasEngine(/*loads=*/false);
      tried.reused = mayReuse(product, beside, tried);
      int64_t slots = (bytes - besideRing(beside, tried)) / slot;
      if (slots <= fitting || fitting >= std::min<int64_t>(wanted, 2))
        continue;
      fitting = slots;
      schedule.fetched = tried.fetched;
      schedule.stagedStore = tried.stagedStore;
      schedule.reused = tried.reused;
    }
  schedule.stages = std::min(wanted, fitting);
  if (fitting < 2) {
    why = "two stages do not fit in shared memory";
    return std::nullopt;
  }
  schedule.apart = mayEndApart(product, beside, schedule);
  return schedule;
}

namespace {
struct ChooseSchedule : kiln::impl::ChooseSchedulePassBase<ChooseSchedule> {
  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    bool multiplies = kernel.walk([](tile::DotOp) { return WalkResult::interrupt(); }).wasInterrupted();
    if (!multiplies || !kernel->hasAttr("tile.kernel") || kernel->hasAttr(kgpu::kScheduleAttrName))
      return;
    auto module = kernel->getParentOfType<ModuleOp>();
    Target target = Target::fromModule(module);
    // Every schedule can run the kernel that takes its unlikely branches.
    func::FuncOp chosen = kernel;
    OwningOpRef<ModuleOp> copy;
    if (kernel.walk([](tile::UnlikelyOp) { return WalkResult::interrupt(); }).wasInterrupted()) {
      copy = ModuleOp::create(module.getLoc());
      (*copy)->setAttrs(module->getAttrDictionary());
      chosen = kernel.clone();
      copy->push_back(chosen);
      takeUnlikely(chosen);
    }
    std::string why;
    std::optional<Schedule> schedule = Chooser(chosen, target).choose(why);
    if (schedule)
      kernel->setAttr(kgpu::kScheduleAttrName, schedule->toAttr(&getContext()));
    if (!why.empty())
      kernel.emitRemark() << (schedule ? "schedule simple: " : "no schedule: ") << why;
  }
};
} // namespace
