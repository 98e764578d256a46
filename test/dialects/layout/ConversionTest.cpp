// Conversions, executed element by element on random and on realistic pairs of layouts.
#include "dialects/layout/Conversion.h"
#include "Random.h"
#include "gtest/gtest.h"
#include <map>

using namespace kiln::layout;
using namespace llvm;

namespace {

using Thread = std::array<int64_t, 4>; // lane, warp, group, cta

int64_t bitOf(const Layout &layout, const Thread &thread, const ThreadBit &bit) {
  int64_t value = thread[unsigned(bit.coord) - 1];
  for (unsigned i = 0; i < bit.digit; ++i)
    value /= layout.digits(bit.coord)[i].radix;
  return value % 2;
}

int64_t choose(const Layout &layout, const Thread &thread, const Select &select) {
  int64_t index = 0;
  for (size_t i = 0; i < select.bits.size(); ++i) {
    int64_t parity = 0;
    for (const ThreadBit &bit : select.bits[i])
      parity ^= bitOf(layout, thread, bit);
    index |= parity << i;
  }
  return select.choices[index];
}

Point pointOf(int64_t reg, const Thread &thread) { return {reg, thread[0], thread[1], thread[2], thread[3], 0}; }

/// Runs the plan on a tile whose elements are their own indices and checks what every register holds afterwards.
void expectConverts(const Layout &from, const Layout &to, const Conversion &plan) {
  auto held = [&](const Layout &layout, int64_t reg, const Thread &thread) {
    return linear(layout.shape(), layout.at(pointOf(reg, thread)));
  };
  for (int64_t warp = 0; warp < from.size(Coord::Warp); ++warp)
    for (int64_t group = 0; group < from.size(Coord::Group); ++group)
      for (int64_t cta = 0; cta < from.size(Coord::Cta); ++cta)
        for (int64_t lane = 0; lane < 32; ++lane) {
          Thread thread = {lane, warp, group, cta};
          std::vector<int64_t> values;
          if (plan.kind == ConversionKind::Shuffle) {
            int64_t source = 0;
            for (const auto &[bit, number] : plan.laneMap)
              source ^= bitOf(from, thread, bit) * number;
            for (const ShuffleStep &step : plan.steps) {
              Thread sender = {step.shuffles ? source ^ step.laneXor : lane, warp, group, cta};
              values.push_back(held(from, choose(from, sender, step.from), sender));
            }
          }
          for (int64_t reg = 0; reg < to.registers(); ++reg) {
            int64_t got = plan.kind == ConversionKind::Shuffle ? values[choose(to, thread, plan.results[reg])]
                                                               : held(from, plan.registers[reg], thread);
            ASSERT_EQ(got, held(to, reg, thread)) << from.print() << " to " << to.print();
          }
        }
}

TEST(Conversion, RandomPairsInAWarp) {
  Rng rng(11);
  int planned = 0;
  for (int i = 0; i < 2000; ++i) {
    RandomForm form;
    form.warpBits = pick(rng, 0, 1);
    form.groupBits = pick(rng, 0, 1);
    form.mix = pick(rng, 0, 1);
    form.repeats = 3;
    Layout from = randomLayout(rng, randomShape(rng, 7), form);
    Layout to = shuffledInWarp(rng, from);
    std::optional<Conversion> plan = planShuffles(from, to);
    ASSERT_TRUE(plan) << from.print() << " to " << to.print();
    ++planned;
    expectConverts(from, to, *plan);
    if (HasFatalFailure())
      return;
  }
  EXPECT_EQ(planned, 2000);
}

TEST(Conversion, RandomPairs) {
  Rng rng(12);
  std::map<ConversionKind, int> kinds;
  for (int i = 0; i < 3000; ++i) {
    RandomForm form;
    form.warpBits = pick(rng, 0, 1);
    form.mix = pick(rng, 0, 1);
    form.repeats = 3;
    auto shape = randomShape(rng, 7);
    Layout from = randomLayout(rng, shape, form);
    Layout to = pick(rng, 0, 3) ? randomLayout(rng, shape, form) : from.withoutReplicatedRegisters();
    Conversion plan = planConversion(from, to);
    ++kinds[plan.kind];
    if (plan.kind == ConversionKind::Shared)
      continue;
    expectConverts(from, to, plan);
    if (HasFatalFailure())
      return;
  }
  EXPECT_GT(kinds[ConversionKind::None] + kinds[ConversionKind::Registers], 100);
  EXPECT_GT(kinds[ConversionKind::Shuffle], 100);
  EXPECT_GT(kinds[ConversionKind::Shared], 100);
}

TEST(Conversion, NothingAndRegisters) {
  Layout rows = blocked({32, 64}, {1, 0}, 4, {});
  EXPECT_EQ(planConversion(rows, rows).kind, ConversionKind::None);
  EXPECT_EQ(planConversion(rows, rows).cost, 0);
  // The same threads hold the same elements in different registers.
  Layout a = *Layout::parse("digits [128] reg (1) (2) lane (4) (8) (16) (32) (64)");
  Layout b = *Layout::parse("digits [128] reg (2) (1) lane (4) (8) (16) (32) (64)");
  Conversion plan = planConversion(a, b);
  EXPECT_EQ(plan.kind, ConversionKind::Registers);
  EXPECT_EQ(plan.registers, (SmallVector<int64_t, 8>{0, 2, 1, 3}));
  // What every thread holds stays where it is.
  Layout all = replicated({32, 64}, {});
  plan = planConversion(all, replicated({32, 64}, {}));
  EXPECT_EQ(plan.kind, ConversionKind::None);
}

TEST(Conversion, TransposedRegisterAndLaneBitIsOneShuffle) {
  Layout a = *Layout::parse("digits [64] reg (1) lane (2) (4) (8) (16) (32)");
  Layout b = *Layout::parse("digits [64] reg (2) lane (1) (4) (8) (16) (32)");
  Conversion plan = planConversion(a, b);
  ASSERT_EQ(plan.kind, ConversionKind::Shuffle);
  EXPECT_TRUE(plan.laneMapIsIdentity());
  ASSERT_EQ(plan.steps.size(), 2u);
  EXPECT_EQ(plan.steps[0].shuffles + plan.steps[1].shuffles, 1);
  expectConverts(a, b, plan);
}

TEST(Conversion, PermutedLanesTakeOneShufflePerRegister) {
  Layout a = *Layout::parse("digits [64] reg (1) lane (2) (4) (8) (16) (32)");
  Layout b = *Layout::parse("digits [64] reg (1) lane (8) (2) (4) (32) (16)");
  Conversion plan = planConversion(a, b);
  ASSERT_EQ(plan.kind, ConversionKind::Shuffle);
  EXPECT_EQ(plan.steps.size(), 2u);
  EXPECT_EQ(plan.cost, 4); // no register needs a select
  expectConverts(a, b, plan);
}

TEST(Conversion, WarpsSelectFromReplicatedValues) {
  // Rows of a reduction, known to every thread, are spread over warps: each warp picks its own, nothing moves.
  Layout all = replicated({128}, {});
  Layout spread = blocked({128}, {0}, 1, {});
  Conversion plan = planConversion(all, spread);
  Layout few = replicated({4}, {});
  Layout byWarp = *Layout::parse("digits [4] lane (0) (0) (0) (0) (0) warp (1) (2)");
  plan = planConversion(few, byWarp);
  ASSERT_EQ(plan.kind, ConversionKind::Shuffle);
  EXPECT_EQ(plan.cost, 3);
  for (const ShuffleStep &step : plan.steps)
    EXPECT_FALSE(step.shuffles);
  expectConverts(few, byWarp, plan);
  std::optional<Conversion> lanes = planShuffles(all, spread);
  ASSERT_TRUE(lanes);
  for (const ShuffleStep &step : lanes->steps)
    EXPECT_FALSE(step.shuffles);
  expectConverts(all, spread, *lanes);
}

TEST(Conversion, WarpsWithReplicasTakeTheirPart) {
  Layout pairs = blocked({64}, {0}, 2, {2, 1, 1}), single = blocked({64}, {0}, 1, {2, 1, 1});
  std::optional<Conversion> plan = planShuffles(pairs, single);
  ASSERT_TRUE(plan);
  // Shuffles both registers of the lane that has the element, and selects one.
  EXPECT_EQ(plan->steps.size(), 2u);
  EXPECT_EQ(plan->cost, 2 * 2 + 1);
  expectConverts(pairs, single, *plan);
}

TEST(Conversion, BetweenWarpsAndCtas) {
  Layout rows = blocked({64, 64}, {1, 0}, 4, {}), columns = blocked({64, 64}, {0, 1}, 4, {});
  EXPECT_EQ(planConversion(rows, columns).kind, ConversionKind::Shared);
  EXPECT_FALSE(planConversion(rows, columns).crossesCtas);
  Threads cluster;
  cluster.ctas = 2;
  Layout a = blocked({64, 64}, {1, 0}, 4, cluster, 0), b = blocked({64, 64}, {1, 0}, 4, cluster, 1);
  EXPECT_EQ(planConversion(a, b).kind, ConversionKind::Shared);
  EXPECT_TRUE(planConversion(a, b).crossesCtas);
  EXPECT_FALSE(registerMap(a, b));
}

TEST(Conversion, OddPartsStayInRegisters) {
  Layout rows = blocked({4, 896}, {1, 0}, 4, {});
  Layout wide = blocked({4, 896}, {1, 0}, 2, {});
  std::optional<Conversion> plan = planShuffles(rows, wide);
  ASSERT_FALSE(plan); // runs of two on 32 lanes move rows to other warps
  Layout a = *Layout::parse("digits [224] reg (1) 7*(32) lane (2) (4) (8) (16) (0)");
  Layout b = *Layout::parse("digits [224] reg 7*(32) (16) lane (1) (2) (4) (8) (0)");
  plan = planShuffles(a, b);
  ASSERT_TRUE(plan);
  expectConverts(a, b, *plan);
}

TEST(Conversion, AccumulatorBecomesTheNextOperandInPlace) {
  // P = S of attention: the accumulator of one wgmma, narrowed, is operand A of the next.
  std::optional<Layout> s = wgmmaAccumulator({64, 128}, 1), p = wgmmaOperandA({64, 128}, 16, 1);
  ASSERT_TRUE(s && p);
  Conversion plan = planConversion(*s, *p);
  EXPECT_EQ(plan.kind, ConversionKind::None);
  EXPECT_EQ(planConversion(*mmaAccumulator({64, 64}, 4, 1), *mmaOperand({64, 64}, 0, 16, 4, 1)).cost, 0);
}

} // namespace
