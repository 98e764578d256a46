// The schedule of two chained products: chooses the numbers of groups and slots.
#include "compiler/transforms/schedule/ChainedProducts.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;

// More slots of keys and values than this gained nothing.
static constexpr int64_t kMaxStages = 4;
// Registers per thread for scores, operand and accumulator, by the number of groups. The rest is for statistics and
// addresses.
static constexpr int64_t kMaxRegisters[] = {0, 200, 200, 128};
// The same with queries, where they are in registers too: terms of scores and masks need the rest.
static constexpr int64_t kMaxWithQueries = 160;
// Shared memory reserved for barriers and mbarriers.
static constexpr int64_t kSpareBytes = 2048;

/// f32 scores and accumulator, and the left operand that scores are rounded to.
static int64_t registersOf(ChainedProducts &chain, int64_t consumers) {
  ArrayRef<int64_t> scores = chain.scores.getType().getShape();
  int64_t threads = 128 * consumers, rows = scores[0];
  return rows * (scores[1] + scores[1] / 2 + chain.sums.getType().getShape()[1]) / threads;
}

static bool fits(ChainedProducts &chain, int64_t consumers) {
  ArrayRef<int64_t> scores = chain.scores.getType().getShape(), sums = chain.sums.getType().getShape();
  return scores[0] % (64 * consumers) == 0 && scores[1] % 16 == 0 && scores[1] <= 256 && sums[1] % 8 == 0 &&
         sums[1] <= 256 && registersOf(chain, consumers) <= kMaxRegisters[consumers];
}

std::optional<Schedule> schedule::chooseAttention(func::FuncOp kernel, ChainedProducts &chain, const Target &target,
                                                  const AlignmentAnalysis &alignment, std::optional<int64_t> stages,
                                                  std::optional<int64_t> consumers, std::string &why) {
  auto isHalf = [](RankedTensorType type) { return type.getElementType().isF16() || type.getElementType().isBF16(); };
  if (!llvm::all_of(ArrayRef{chain.query.type, chain.keys.type, chain.values.type}, isHalf) ||
      !chain.scores.getType().getElementType().isF32() || !chain.sums.getType().getElementType().isF32() ||
      chain.query.type.getShape()[1] % 16) {
    why = "chained products need 16-bit elements and f32 sums";
    return std::nullopt;
  }
  for (Block2D *block : {&chain.query, &chain.keys, &chain.values})
    if (!mayFetch(block->load, alignment, why))
      return std::nullopt;
  Schedule schedule;
  schedule.name = kAttention;
  // Each group has 64 queries, or a multiple of 64: softmax of one group then overlaps products of another.
  int64_t groups = consumers.value_or(3);
  while (!consumers && groups > 1 && !fits(chain, groups))
    --groups;
  if (groups < 1 || groups > 3 || !fits(chain, groups)) {
    why = "the queries do not divide into 64 rows per group of four warps, or scores and sums do not fit in registers";
    return std::nullopt;
  }
  schedule.consumers = int32_t(groups);
  auto bytesOf = [](RankedTensorType type) -> std::optional<int64_t> {
    auto memory = storeMemory(type, /*ctas=*/1, /*swapped=*/false);
    return memory ? std::optional<int64_t>(llvm::alignTo(memory->getBytes(), 1024)) : std::nullopt;
  };
  auto query = bytesOf(chain.query.type), keys = bytesOf(chain.keys.type), values = bytesOf(chain.values.type);
  if (!query || !keys || !values) {
    why = "the copy engine cannot write the blocks in the layout that products read";
    return std::nullopt;
  }
  tile::DescStoreOp store = copyableStore(chain, alignment);
  auto stored = store ? bytesOf(cast<RankedTensorType>(storedTile(store.getValue()).getType())) : std::nullopt;
  // Results that the copy engine does not store may go through an exchange, as 32-bit elements.
  int64_t sums = chain.sums.getType().getNumElements() * 4;
  int64_t left = target.gpu.maxSharedBytes - kSpareBytes - *query - (stored ? *stored : sums);
  // Tiles that a step reads through pointers are exchanged through two alternating slots.
  int64_t beside = 0;
  chain.loop.walk([&](tile::LoadOp load) {
    if (auto type = dyn_cast<RankedTensorType>(load.getType()))
      beside += 2 * type.getNumElements() * tile::memoryBytes(type.getElementType());
  });
  left -= beside;
  int64_t wanted = stages.value_or(kMaxStages), fitting = left / (*keys + *values);
  // Queries in registers need not be read from shared memory in each step, and their slot is free at once.
  int64_t queries = chain.query.type.getNumElements() / (2 * 128 * groups);
  schedule.heldQueries =
      groups < 3 && !chain.query.transposition && !beside && registersOf(chain, groups) + queries <= kMaxWithQueries;
  // Otherwise prefetch the next program's queries if that leaves two slots of keys and values.
  int64_t with = (left - *query) / (*keys + *values);
  if (!schedule.heldQueries && with >= std::min<int64_t>(wanted, 2)) {
    schedule.queries = 2;
    fitting = with;
  }
  if (fitting < 1 || wanted < 1) {
    why = "one stage does not fit in shared memory";
    return std::nullopt;
  }
  schedule.stagedStore = stored.has_value();
  schedule.apart =
      stored && mayStoreApart(cast<RankedTensorType>(storedTile(store.getValue()).getType()), /*ctas=*/1, groups);
  schedule.stages = int32_t(std::min(wanted, fitting));
  return schedule;
}
