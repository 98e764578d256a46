// The schedule of several products: chooses the numbers of groups and slots.
#include "compiler/transforms/schedule/ChainedProducts.h"
#include "compiler/transforms/schedule/Streams.h"
#include "dialects/layout/Constructors.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;

// More slots of streamed blocks than this gained nothing.
static constexpr int64_t kMaxStages = 4;
// Registers per thread for accumulators and for a step's products with their rounded forms, by the number of groups.
static constexpr int64_t kMaxRegisters[] = {0, 200, 216, 144};
// The same where the next step's first product begins, in rotated loops.
static constexpr int64_t kMaxRotated[] = {0, 192, 208, 132};
// The same for a step's sums and products with a vector of numbers, and the rounded form of one product.
static constexpr int64_t kMaxWithVector[] = {0, 224, 224, 144};
// Registers for the positions of slots through which groups share an operand.
static constexpr int64_t kPositions = 8;
// Shared memory reserved for barriers and mbarriers.
static constexpr int64_t kSpareBytes = 2048;

/// Registers per thread, by block: all accumulators that loops carry, and the results of one step's products that are
/// live together. Products with an operand that goes through memory begin after those are dead.
static llvm::SmallDenseMap<Block *, int64_t> registersOf(const Streams &streams, int64_t consumers) {
  llvm::SmallDenseMap<Block *, int64_t> registers;
  for (tile::DotOp dot : streams.dots) {
    bool fresh = matchPattern(dot.getAcc(), m_AnyZeroFloat());
    if (!fresh || !(streams.isStored(dot, /*right=*/false) || streams.isStored(dot, /*right=*/true)))
      registers[dot->getBlock()] += dot.getType().getNumElements() / (128 * consumers);
  }
  return registers;
}

/// Products of 64 rows can be split by columns, in runs as wide as the panels of a computed right operand.
static bool fitsByColumns(Streams &streams, tile::DotOp dot, int64_t consumers) {
  StreamFactor left = streams.factorOf(dot.getLhs()), right = streams.factorOf(dot.getRhs());
  auto side = layout::splitSide(dot.getType().getShape()[1]);
  return (left.load || left.transposed) && !right.load && !right.transposed && llvm::isPowerOf2_64(consumers) && side &&
         side->power / consumers >= 16 && dot.getType().getShape()[0] % 64 == 0;
}

/// The rows of each product divide into 64s for the groups, or else its columns do, and the instruction supports its
/// columns and depth.
static bool fits(Streams &streams, int64_t consumers) {
  bool fitting = llvm::all_of(streams.dots, [&](tile::DotOp dot) {
    ArrayRef<int64_t> sides = dot.getType().getShape();
    return dot.getType().getRank() == 2 && sides[1] % 8 == 0 && sides[1] <= 256 &&
           (!Streams::isCutByColumns(dot, consumers) || fitsByColumns(streams, dot, consumers)) &&
           dot.getLhs().getType().getShape()[1] % 16 == 0;
  });
  return fitting && llvm::all_of(llvm::make_second_range(registersOf(streams, consumers)),
                                 [&](int64_t registers) { return registers <= kMaxRegisters[consumers]; });
}

std::optional<Schedule> schedule::chooseStreams(func::FuncOp kernel, Streams &streams, const Target &target,
                                                const AlignmentAnalysis &alignment, std::optional<int64_t> stages,
                                                std::optional<int64_t> consumers, std::string &why) {
  for (tile::DotOp dot : streams.dots) {
    auto isHalf = [](Value value) {
      Type element = cast<RankedTensorType>(value.getType()).getElementType();
      return element.isF16() || element.isBF16();
    };
    if (!isHalf(dot.getLhs()) || !isHalf(dot.getRhs()) || !dot.getType().getElementType().isF32()) {
      why = "streamed products need 16-bit elements and f32 sums";
      return std::nullopt;
    }
  }
  int64_t groups = consumers.value_or(3);
  while (!consumers && groups > 1 && !fits(streams, groups))
    --groups;
  if (groups < 1 || groups > 3 || !fits(streams, groups)) {
    why = "the rows of a product do not divide into 64 per group of four warps, or sums and products do not fit in "
          "registers";
    return std::nullopt;
  }
  Schedule schedule;
  schedule.name = kStreams;
  schedule.consumers = int32_t(groups);
  // Held blocks have one slot, streamed blocks several.
  int64_t held = 0, slot = 0;
  for (const auto &ring : streams.rings())
    for (Operation *load : ring.front()) {
      const Stream &stream = streams.blocks[load];
      auto memory = slotMemory(stream);
      if (!mayFetch(stream.load, alignment, why))
        return std::nullopt;
      if (!memory) {
        why = "the copy engine cannot write the blocks in the layout that products read";
        return std::nullopt;
      }
      (streams.isHeld(load) ? held : slot) += llvm::alignTo(memory->getBytes(), 1024) + 16;
    }
  // Computed operands that are read from shared memory.
  bool bySlots = sharesBySlots(kernel, streams, alignment);
  for (Type tile : bySlots ? SmallVector<Type>(2, streams.sharedType()) : streams.storedFactors()) {
    auto memory = streams.factorMemory(cast<RankedTensorType>(tile), groups);
    if (!memory) {
      why = "a computed factor cannot be stored in the layout that products read";
      return std::nullopt;
    }
    held += llvm::alignTo(memory->getBytes(), 1024) + 16;
  }
  // Blocks that are added to global memory leave through slots of their own, one for each type.
  llvm::SmallDenseSet<Type> reduced;
  SmallVector<tile::DescReduceOp> reductions = copyableReductions(kernel, streams.turns, alignment);
  for (const Turn &turn : streams.turns)
    if (!llvm::all_of(turn.reductions, [&](tile::DescReduceOp op) { return llvm::is_contained(reductions, op); })) {
      why = "the copy engine cannot make a reduction that programs make in turns";
      return std::nullopt;
    }
  for (tile::DescReduceOp op : reductions) {
    kgpu::MemType memory = *reductionMemory(op, streams.turns, alignment);
    if (reduced.insert(memory).second)
      held += llvm::alignTo(memory.getBytes(), 1024) + 16;
  }
  schedule.reused = !storesThroughHeld(kernel, streams, alignment).empty();
  // Results of one type leave one after the other.
  llvm::SmallDenseSet<Type> types;
  int64_t results = 0;
  for (tile::DescStoreOp store : copyableStores(kernel, alignment)) {
    auto tile = cast<RankedTensorType>(storedTile(store.getValue()).getType());
    if (!schedule.reused && types.insert(tile).second)
      results += llvm::alignTo(tile.getNumElements() * tile::memoryBytes(tile.getElementType()), 1024);
  }
  int64_t left = target.gpu.maxSharedBytes - kSpareBytes - held, wanted = stages.value_or(kMaxStages);
  schedule.stagedStore = schedule.reused || (results > 0 && (left - results) / slot >= std::min<int64_t>(wanted, 2));
  int64_t fitting = (left - (schedule.stagedStore ? results : 0)) / slot;
  if (fitting < 1 || wanted < 1) {
    why = "one stage does not fit in shared memory";
    return std::nullopt;
  }
  schedule.stages = int32_t(std::min(wanted, fitting));
  return schedule;
}

/// The kernel's reductions of blocks, if the copy engine can perform all of them.
static std::optional<size_t> countCopied(func::FuncOp kernel, const Streams &streams,
                                         const AlignmentAnalysis &alignment) {
  size_t count = 0;
  kernel.walk([&](tile::DescReduceOp) { ++count; });
  return count == copyableReductions(kernel, streams.turns, alignment).size() ? std::optional(count) : std::nullopt;
}

bool schedule::sharesBySlots(func::FuncOp kernel, const Streams &streams, const AlignmentAnalysis &alignment) {
  return streams.sharedType() && countCopied(kernel, streams, alignment).value_or(0) > 0;
}

llvm::MapVector<Operation *, Operation *> schedule::storesThroughHeld(func::FuncOp kernel, const Streams &streams,
                                                                      const AlignmentAnalysis &alignment) {
  // Where a block runs several programs, the next one's operands arrive while this one's results leave.
  if (copyableReductions(kernel, streams.turns, alignment).empty())
    return {};
  llvm::MapVector<Operation *, Operation *> places;
  llvm::SmallDenseSet<Operation *> taken;
  for (tile::DescStoreOp store : copyableStores(kernel, alignment)) {
    auto type = cast<RankedTensorType>(storedTile(store.getValue()).getType());
    auto memory = storeMemory(type, /*ctas=*/1, /*cutsColumns=*/false);
    auto isFree = [&](auto &entry) {
      return streams.isHeld(entry.first) && !taken.contains(entry.first) && slotMemory(entry.second) == memory;
    };
    auto held = llvm::find_if(streams.blocks, isFree);
    bool isLast = llvm::all_of(streams.dots, [&](tile::DotOp dot) {
      return kernel.front().findAncestorOpInBlock(*dot)->isBeforeInBlock(store);
    });
    if (held == streams.blocks.end() || !isLast)
      return {};
    taken.insert(held->first);
    places[store] = held->first;
  }
  return places;
}

bool schedule::loadsVectorsLate(const Streams &streams, int64_t consumers, bool bySlots) {
  llvm::SmallDenseMap<Block *, int64_t> rounded, vectors;
  for (tile::DotOp dot : streams.dots) {
    StreamFactor left = streams.factorOf(dot.getLhs());
    int64_t &most = rounded[dot->getBlock()];
    if (!left.load && !left.transposed)
      most = std::max(most, dot.getLhs().getType().getNumElements() / (256 * consumers));
  }
  // Each thread has a quarter of a vector's numbers.
  for (auto &[load, stream] : streams.blocks)
    if (stream.isRow())
      vectors[load->getBlock()] = std::max(vectors[load->getBlock()], stream.type.getNumElements() / 4);
  return llvm::any_of(registersOf(streams, consumers), [&](auto &entry) {
    int64_t beside = rounded.lookup(entry.first) + vectors.lookup(entry.first) + (bySlots ? kPositions : 0);
    return entry.second + beside > kMaxWithVector[consumers];
  });
}

/// Registers per thread where the next step's first product begins: sums, that product, and the operands that this
/// step's products read from registers meanwhile.
static int64_t registersOf(const Streams &streams, RotatedLoop &rotated, int64_t consumers) {
  int64_t elements = 0, halves = 0;
  for (auto dot : rotated.loop.getBody()->getOps<tile::DotOp>()) {
    if (dot == rotated.lead || !matchPattern(dot.getAcc(), m_AnyZeroFloat()))
      elements += dot.getType().getNumElements();
    StreamFactor left = streams.factorOf(dot.getLhs());
    if (!left.load && !left.transposed)
      halves += dot.getLhs().getType().getNumElements();
  }
  return (elements + halves / 2) / (128 * consumers);
}

bool schedule::mayRotate(func::FuncOp kernel, const Streams &streams, int64_t consumers,
                         const AlignmentAnalysis &alignment) {
  bool rotates = false, fits = true;
  kernel.walk([&](scf::ForOp loop) {
    std::optional<RotatedLoop> rotated = streams.rotated(loop);
    rotates |= rotated.has_value();
    fits &= !rotated || registersOf(streams, *rotated, consumers) <= kMaxRotated[consumers];
  });
  return rotates && fits && countCopied(kernel, streams, alignment);
}
