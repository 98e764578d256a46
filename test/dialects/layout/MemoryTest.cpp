// Shared memory: addresses against the definition, runs and bank passes against brute force, and the chosen layouts.
#include "dialects/layout/Memory.h"
#include "Random.h"
#include "gtest/gtest.h"
#include <map>
#include <set>

using namespace kiln::layout;
using namespace llvm;

namespace {

TEST(Memory, AddressesHoldTheElement) {
  Rng rng(31);
  for (int i = 0; i < 1000; ++i) {
    auto shape = randomShape(rng, 6);
    RandomForm form;
    form.warpBits = pick(rng, 0, 2);
    form.ctaBits = pick(rng, 0, 1);
    Layout registers = randomLayout(rng, shape, form), memory = randomMemory(rng, shape);
    std::optional<MemoryAddress> address = memoryAddress(registers, memory);
    ASSERT_TRUE(address);
    EXPECT_TRUE(address->local);
    forEachPoint(registers, [&](const Point &point) {
      ASSERT_EQ(memory.at(Coord::Offset, address->offsetAt(registers, point)), registers.at(point))
          << registers.print() << " in " << memory.print();
    });
  }
}

TEST(Memory, AddressesAcrossCtas) {
  Rng rng(32);
  int local = 0, remote = 0;
  for (int i = 0; i < 500; ++i) {
    auto shape = randomShape(rng, 6);
    RandomForm form;
    form.warpBits = 1;
    form.ctaBits = 1;
    Layout load = randomLayout(rng, shape, form), store = randomLayout(rng, shape, form);
    Layout memory = chooseMemory(store, load, 4);
    for (const Layout *registers : {&load, &store}) {
      std::optional<MemoryAddress> address = memoryAddress(*registers, memory);
      ASSERT_TRUE(address) << registers->print() << " in " << memory.print();
      if (registers == &load)
        ASSERT_TRUE(address->local) << registers->print() << " in " << memory.print();
      (address->local ? local : remote) += 1;
      forEachPoint(*registers, [&](const Point &point) {
        Point place = {};
        place[unsigned(Coord::Offset)] = address->offsetAt(*registers, point);
        place[unsigned(Coord::Cta)] = address->ctaAt(*registers, point);
        ASSERT_EQ(memory.at(place), registers->at(point)) << registers->print() << " in " << memory.print();
      });
    }
  }
  EXPECT_GT(local, 500);
  EXPECT_GT(remote, 100);
}

TEST(Memory, EveryCtaReadsLocallyWhatItStores) {
  Threads cluster{4, 1, 2};
  Layout half = blocked({8, 64}, {1, 0}, 1, cluster, 0), all = replicated({8, 64}, cluster);
  // Each CTA keeps the whole tile.
  Layout whole =
      *Layout::parse("digits [8, 64] offset (0, 1) (0, 2) (0, 4) (0, 8) (0, 16) (0, 32) (1, 0) (2, 0) (4, 0) "
                     "cta (0, 0)");
  for (const Layout *registers : {&half, &all}) {
    std::optional<MemoryAddress> address = memoryAddress(*registers, whole);
    ASSERT_TRUE(address);
    EXPECT_TRUE(address->local);
    forEachPoint(*registers, [&](const Point &point) {
      ASSERT_EQ(whole.at(Coord::Offset, address->offsetAt(*registers, point)), registers->at(point));
    });
  }
  // Each keeps half of it: then a value replicated in all CTAs is read where it is stored.
  Layout halves = *Layout::parse("digits [8, 64] offset (0, 1) (0, 2) (0, 4) (0, 8) (0, 16) (0, 32) (1, 0) (2, 0) "
                                 "cta (4, 0)");
  EXPECT_TRUE(memoryAddress(half, halves)->local);
  std::optional<MemoryAddress> address = memoryAddress(all, halves);
  ASSERT_TRUE(address);
  EXPECT_FALSE(address->local);
  EXPECT_EQ(address->ctaAt(all, Point{7 * 64, 0, 0, 0, 0, 0}), 1);
}

/// Whether aligned runs of `run` offsets are held by the same registers in every thread.
bool runsOf(const Layout &registers, const MemoryAddress &address, int64_t run) {
  std::map<int64_t, std::set<int64_t>> expected;
  bool all = true, first = true;
  for (int64_t warp = 0; warp < registers.size(Coord::Warp); ++warp)
    for (int64_t lane = 0; lane < 32; ++lane) {
      std::map<int64_t, std::map<int64_t, std::set<int64_t>>> at; // start, place, registers
      for (int64_t r = 0; r < registers.registers(); ++r) {
        int64_t offset = address.offsetAt(registers, Point{r, lane, warp, 0, 0, 0});
        at[offset / run][offset % run].insert(r);
      }
      std::map<int64_t, std::set<int64_t>> places;
      for (const auto &[start, held] : at)
        for (int64_t place = 0; place < run; ++place) {
          auto found = held.find(place);
          all &= found != held.end();
          if (found != held.end())
            places[place].insert(found->second.begin(), found->second.end());
        }
      all &= first || places == expected;
      expected = places;
      first = false;
    }
  return all;
}

TEST(Memory, VectorsAreRuns) {
  Rng rng(33);
  for (int i = 0; i < 500; ++i) {
    auto shape = randomShape(rng, 8);
    RandomForm form;
    form.warpBits = pick(rng, 0, 1);
    form.mix = pick(rng, 0, 1);
    Layout registers = randomLayout(rng, shape, form);
    Layout memory =
        pick(rng, 0, 1) ? randomMemory(rng, shape) : chooseMemory(registers, randomLayout(rng, shape, form), 4);
    int64_t vector = memoryVector(registers, memory, 2);
    std::optional<MemoryAddress> address = memoryAddress(registers, memory);
    ASSERT_TRUE(runsOf(registers, *address, vector)) << registers.print() << " in " << memory.print();
    ASSERT_LE(vector, 8);
  }
  Layout rows = blocked({32, 64}, {1, 0}, 8, {});
  EXPECT_EQ(memoryVector(rows, rowMajor({32, 64}, {1, 0}), 2), 8);
  EXPECT_EQ(memoryVector(rows, rowMajor({32, 64}, {1, 0}), 4), 4);
  EXPECT_EQ(memoryVector(rows, *swizzled({32, 64}, {1, 0}, 2, 128), 2), 8);
  EXPECT_EQ(memoryVector(rows, rowMajor({32, 64}, {0, 1}), 2), 1);
}

TEST(Memory, PassesOverBanks) {
  Layout rows = blocked({32, 32}, {1, 0}, 1, {1, 1, 1}), columns = blocked({32, 32}, {0, 1}, 1, {1, 1, 1});
  Layout memory = rowMajor({32, 32}, {1, 0});
  EXPECT_EQ(bankUse(rows, memory, 4).conflicts(), 0);
  EXPECT_EQ(bankUse(rows, memory, 4).instructions, 32);
  // Each lane reads its own row 16 bytes at a time: the eight lanes of a phase need the same four banks.
  EXPECT_EQ(bankUse(columns, memory, 4).vector, 4);
  EXPECT_EQ(bankUse(columns, memory, 4).wavefronts, 8 * 4 * 8);
  EXPECT_EQ(bankUse(columns, memory, 4).minimum, 8 * 4);
  // With 64-byte rows, two rows cover all banks once.
  EXPECT_EQ(bankUse(columns, memory, 2).wavefronts, 4 * 4 * 4);
  // Each lane reads one element of a column: all are in one bank, or two rows share a word.
  Layout column = *Layout::parse("digits [32, 32] lane (1, 0) (2, 0) (4, 0) (8, 0) (16, 0) "
                                 "warp (0, 1) (0, 2) (0, 4) (0, 8) (0, 16)");
  EXPECT_EQ(bankUse(column, memory, 4).wavefronts, 32);
  EXPECT_EQ(bankUse(column, memory, 2).wavefronts, 16);
  EXPECT_EQ(bankUse(column, memory, 8).wavefronts, 2 * 16);
  // Sixteen bytes per lane: eight lanes form a pass.
  Layout wide = blocked({32, 32}, {1, 0}, 4, {1, 1, 1});
  EXPECT_EQ(bankUse(wide, memory, 4).vector, 4);
  EXPECT_EQ(bankUse(wide, memory, 4).wavefronts, 8 * 4);
  EXPECT_EQ(bankUse(wide, memory, 4).conflicts(), 0);
  // Rows read by ldmatrix: conflicts without a swizzle, none with it.
  Layout matrixRows = *Layout::parse("digits [64, 64] reg (0, 1) (0, 2) (0, 4) (0, 8) (0, 16) (0, 32) (32, 0) lane (1, "
                                     "0) (2, 0) (4, 0) (8, 0) (16, 0)");
  EXPECT_EQ(bankUse(matrixRows, rowMajor({64, 64}, {1, 0}), 2).conflicts(), 7 * 4 * 16);
  EXPECT_EQ(bankUse(matrixRows, *swizzled({64, 64}, {1, 0}, 2, 128), 2).conflicts(), 0);
}

/// Wavefronts of a warp, counted over all registers without any shortcut.
int64_t countWavefronts(const Layout &registers, const Layout &memory, int64_t elementBytes) {
  std::optional<MemoryAddress> address = memoryAddress(registers, memory);
  int64_t vector = memoryVector(registers, memory, elementBytes), total = 0;
  int64_t phase = 128 / std::max<int64_t>(4, vector * elementBytes);
  std::set<int64_t> starts;
  for (int64_t r = 0; r < registers.registers(); ++r) {
    if (!starts.insert(address->offsetAt(registers, Point{r, 0, 0, 0, 0, 0}) / vector).second)
      continue;
    for (int64_t first = 0; first < 32; first += phase) {
      std::map<int64_t, std::set<int64_t>> banks;
      for (int64_t lane = first; lane < first + phase; ++lane) {
        int64_t byte = address->offsetAt(registers, Point{r, lane, 0, 0, 0, 0}) / vector * vector * elementBytes;
        for (int64_t b = byte; b < byte + vector * elementBytes; ++b)
          banks[b / 4 % 32].insert(b / 4);
      }
      size_t most = 0;
      for (const auto &[bank, words] : banks)
        most = std::max(most, words.size());
      total += most;
    }
  }
  return total;
}

TEST(Memory, ChosenLayoutsOnRandomPairs) {
  Rng rng(34);
  int free = 0, total = 0;
  for (int i = 0; i < 600; ++i) {
    auto shape = randomShape(rng, 10);
    RandomForm form;
    form.warpBits = pick(rng, 0, 2);
    form.mix = pick(rng, 0, 1);
    form.repeats = 0;
    Layout store = randomLayout(rng, shape, form), load = randomLayout(rng, shape, form);
    int64_t bytes = int64_t(1) << pick(rng, 0, 3);
    Layout memory = chooseMemory(store, load, bytes);
    ASSERT_EQ(memory.size(Coord::Offset), elements(shape));
    BankUse written = bankUse(store, memory, bytes), read = bankUse(load, memory, bytes);
    ASSERT_EQ(written.wavefronts, countWavefronts(store, memory, bytes)) << store.print() << " in " << memory.print();
    ASSERT_EQ(read.wavefronts, countWavefronts(load, memory, bytes)) << load.print() << " in " << memory.print();
    // Never worse than plain row-major.
    SmallVector<int32_t, 3> order;
    for (unsigned d = shape.size(); d-- > 0;)
      order.push_back(d);
    Layout plain = rowMajor(shape, order);
    auto cost = [](const BankUse &use) { return use.wavefronts + use.instructions; };
    EXPECT_LE(cost(written) + cost(read), cost(bankUse(store, plain, bytes)) + cost(bankUse(load, plain, bytes)));
    ++total;
    free += written.conflicts() == 0 && read.conflicts() == 0;
  }
  EXPECT_GT(free, total * 95 / 100) << free << " of " << total;
}

TEST(Memory, ChosenLayoutsOfRealPairs) {
  auto conflictFree = [](const Layout &store, const Layout &load, int64_t bytes, int64_t vector) {
    Layout memory = chooseMemory(store, load, bytes);
    BankUse written = bankUse(store, memory, bytes), read = bankUse(load, memory, bytes);
    EXPECT_EQ(written.conflicts(), 0) << store.print() << " in " << memory.print();
    EXPECT_EQ(read.conflicts(), 0) << load.print() << " in " << memory.print();
    EXPECT_EQ(std::min(written.vector, read.vector), vector) << memory.print();
    return memory;
  };
  // A transposition through memory, all element sizes.
  for (int64_t bytes : {1, 2, 4, 8})
    conflictFree(blocked({64, 64}, {1, 0}, 1, {}), blocked({64, 64}, {0, 1}, 1, {}), bytes, 1);
  conflictFree(blocked({128, 64}, {1, 0}, 4, {}), blocked({128, 64}, {0, 1}, 4, {}), 4, 1);
  // From accumulators to rows for a wide store, and from rows to operands: runs that both sides hold, even across two
  // rows.
  conflictFree(*wgmmaAccumulator({64, 128}, 1), blocked({64, 128}, {1, 0}, 8, {}), 2, 4);
  conflictFree(blocked({64, 64}, {1, 0}, 8, {}), *mmaOperand({64, 64}, 0, 16, 2, 2), 2, 4);
  conflictFree(*mmaAccumulator({64, 192}, 2, 2), blocked({64, 192}, {1, 0}, 4, {}), 4, 4);
  // No swizzle where none is needed.
  Layout plain = conflictFree(blocked({64, 64}, {1, 0}, 4, {}), blocked({64, 64}, {1, 0}, 4, {8, 1, 1}), 4, 4);
  EXPECT_EQ(plain, rowMajor({64, 64}, {1, 0}));
}

} // namespace
