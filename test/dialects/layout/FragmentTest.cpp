// Literal tables: the fragment and swizzle figures of the PTX ISA, written out from its formulas, against constructors.
#include "Random.h"
#include "dialects/layout/Algebra.h"
#include "gtest/gtest.h"

using namespace kiln::layout;
using namespace llvm;

namespace {

Index at(const Layout &layout, int64_t reg, int64_t lane, int64_t warp = 0, int64_t group = 0) {
  return layout.at(Point{reg, lane, warp, group, 0, 0});
}

//===-- mma.sync -------------------------------------------------------------------------------------------------===//
// groupID = lane >> 2, threadID_in_group = lane % 4 in all of them.

TEST(Fragments, MmaM16N8K16A) {
  Layout a = *mmaOperand({16, 16}, 0, 16, 1, 1);
  ASSERT_EQ(a.registers(), 8);
  for (int64_t lane = 0; lane < 32; ++lane)
    for (int64_t i = 0; i < 8; ++i) {
      int64_t group = lane >> 2, thread = lane % 4;
      int64_t row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
      int64_t column = i < 4 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8;
      EXPECT_EQ(at(a, i, lane), (Index{row, column}));
    }
}

TEST(Fragments, MmaM16N8K16B) {
  Layout b = *mmaOperand({16, 8}, 1, 16, 1, 1);
  ASSERT_EQ(b.registers(), 4);
  for (int64_t lane = 0; lane < 32; ++lane)
    for (int64_t i = 0; i < 4; ++i) {
      int64_t group = lane >> 2, thread = lane % 4;
      int64_t row = i < 2 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8;
      EXPECT_EQ(at(b, i, lane), (Index{row, group}));
    }
}

TEST(Fragments, MmaM16N8C) {
  Layout c = *mmaAccumulator({16, 8}, 1, 1);
  ASSERT_EQ(c.registers(), 4);
  for (int64_t lane = 0; lane < 32; ++lane)
    for (int64_t i = 0; i < 4; ++i) {
      int64_t group = lane >> 2, thread = lane % 4;
      EXPECT_EQ(at(c, i, lane), (Index{i < 2 ? group : group + 8, thread * 2 + (i & 1)}));
    }
}

TEST(Fragments, MmaM16N8K8Tf32) {
  Layout a = *mmaOperand({16, 8}, 0, 32, 1, 1), b = *mmaOperand({8, 8}, 1, 32, 1, 1);
  ASSERT_EQ(a.registers(), 4);
  ASSERT_EQ(b.registers(), 2);
  for (int64_t lane = 0; lane < 32; ++lane) {
    int64_t group = lane >> 2, thread = lane % 4;
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_EQ(at(a, i, lane), (Index{i == 0 || i == 2 ? group : group + 8, i < 2 ? thread : thread + 4}));
    for (int64_t i = 0; i < 2; ++i)
      EXPECT_EQ(at(b, i, lane), (Index{i == 0 ? thread : thread + 4, group}));
  }
}

TEST(Fragments, MmaM16N8K32Bytes) {
  Layout a = *mmaOperand({16, 32}, 0, 8, 1, 1), b = *mmaOperand({32, 8}, 1, 8, 1, 1);
  ASSERT_EQ(a.registers(), 16);
  ASSERT_EQ(b.registers(), 8);
  for (int64_t lane = 0; lane < 32; ++lane) {
    int64_t group = lane >> 2, thread = lane % 4;
    for (int64_t i = 0; i < 16; ++i) {
      int64_t row = i < 4 || (i >= 8 && i < 12) ? group : group + 8;
      int64_t column = i < 8 ? thread * 4 + (i & 3) : thread * 4 + (i & 3) + 16;
      EXPECT_EQ(at(a, i, lane), (Index{row, column}));
    }
    for (int64_t i = 0; i < 8; ++i)
      EXPECT_EQ(at(b, i, lane), (Index{i < 4 ? thread * 4 + (i & 3) : thread * 4 + (i & 3) + 16, group}));
  }
}

TEST(Fragments, WarpsAndAtomsOfABiggerTile) {
  // 64 x 64 on 2 x 2 warps: each has 32 x 32, with atoms ordered along columns first.
  Layout c = *mmaAccumulator({64, 64}, 2, 2), a = *mmaOperand({64, 32}, 0, 16, 2, 2);
  EXPECT_EQ(at(c, 4 * 3, 0), (Index{0, 24}));
  EXPECT_EQ(at(c, 4 * 4, 0), (Index{16, 0}));
  EXPECT_EQ(at(c, 0, 0, 1), (Index{32, 0}));
  EXPECT_EQ(at(c, 0, 0, 2), (Index{0, 32}));
  EXPECT_EQ(at(a, 0, 0, 1), (Index{32, 0}));
  EXPECT_EQ(at(a, 0, 0, 2), (Index{0, 0}));
  EXPECT_EQ(a.ownerMask(Coord::Warp), 2u);
  Layout b = *mmaOperand({32, 64}, 1, 16, 2, 2);
  EXPECT_EQ(b.ownerMask(Coord::Warp), 1u);
  EXPECT_EQ(at(b, 0, 0, 2), (Index{0, 32}));
  EXPECT_FALSE(mmaAccumulator({16, 64}, 2, 1));
  EXPECT_FALSE(mmaOperand({64, 8}, 0, 16, 1, 1));
  EXPECT_FALSE(mmaOperand({64, 64}, 0, 12, 1, 1));
}

TEST(Fragments, WarpsOverBatches) {
  // Four products on 1 x 2 x 2 warps: each warp has two of them, and half their columns.
  Layout c = *mmaAccumulator({4, 16, 32}, 1, 2, 2), a = *mmaOperand({4, 16, 16}, 0, 16, 1, 2, 2);
  Layout b = *mmaOperand({4, 16, 32}, 1, 16, 1, 2, 2);
  EXPECT_EQ(at(c, 0, 0, 1), (Index{0, 0, 16}));
  EXPECT_EQ(at(c, 0, 0, 2), (Index{2, 0, 0}));
  EXPECT_EQ(at(c, 4 * 2, 0), (Index{1, 0, 0}));
  EXPECT_EQ(at(a, 0, 0, 1), (Index{0, 0, 0}));
  EXPECT_EQ(at(a, 0, 0, 2), (Index{2, 0, 0}));
  EXPECT_EQ(at(b, 0, 0, 1), (Index{0, 0, 16}));
  EXPECT_EQ(at(b, 0, 0, 2), (Index{2, 0, 0}));
  EXPECT_FALSE(mmaAccumulator({4, 16, 32}, 1, 1, 8));
  EXPECT_FALSE(mmaAccumulator({16, 32}, 1, 1, 2));
  EXPECT_FALSE(mmaOperand({32, 16}, 0, 16, 1, 1, 2));
}

//===-- ldmatrix and stmatrix ------------------------------------------------------------------------------------===//

TEST(Fragments, Ldmatrix) {
  // Each 8x8 matrix of 16-bit elements: lane l holds row l / 4, columns 2 * (l % 4) and the next.
  Layout matrix = *Layout::parse("digits [8, 8] reg (0, 1) lane (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)");
  for (int64_t lane = 0; lane < 32; ++lane)
    for (int64_t i = 0; i < 2; ++i)
      EXPECT_EQ(at(matrix, i, lane), (Index{lane / 4, lane % 4 * 2 + i}));
  // Dividing by it tells whether a fragment consists of such matrices, and in which order a .x4 takes them.
  std::optional<Layout> matrices = divide(*mmaOperand({16, 16}, 0, 16, 1, 1), matrix);
  ASSERT_TRUE(matrices);
  EXPECT_EQ(matrices->print(), "digits [2, 2] reg (1, 0) (0, 1)");
  matrices = divide(*mmaAccumulator({64, 64}, 2, 2), matrix);
  ASSERT_TRUE(matrices);
  EXPECT_EQ(matrices->registers(), 16);
  // B is loaded with .trans: its transpose consists of such matrices.
  EXPECT_FALSE(divide(*mmaOperand({16, 8}, 1, 16, 1, 1), matrix));
  EXPECT_TRUE(divide(mmaOperand({16, 8}, 1, 16, 1, 1)->transpose({1, 0}), matrix));
  EXPECT_FALSE(divide(*mmaOperand({16, 32}, 0, 8, 1, 1), matrix));
  EXPECT_FALSE(divide(blocked({64, 64}, {1, 0}, 2, {}), matrix));
}

//===-- wgmma ----------------------------------------------------------------------------------------------------===//

TEST(Fragments, WgmmaAccumulator) {
  for (int64_t n : {8, 16, 24, 64, 96, 176, 192, 256}) {
    std::optional<Layout> d = wgmmaAccumulator({64, n}, 1);
    if (n == 8 || splitSide(n))
      ASSERT_TRUE(d) << n;
    ASSERT_EQ(d->registers(), n / 2);
    for (int64_t thread = 0; thread < 128; ++thread)
      for (int64_t i = 0; i < n / 2; ++i) {
        int64_t lane = thread % 32, warp = thread / 32;
        int64_t row = 16 * warp + lane / 4 + 8 * (i / 2 % 2);
        int64_t column = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
        EXPECT_EQ(at(*d, i, lane, warp), (Index{row, column})) << n;
      }
  }
  EXPECT_FALSE(wgmmaAccumulator({64, 12}, 1));
  EXPECT_FALSE(wgmmaAccumulator({64, 64}, 3));
  EXPECT_FALSE(wgmmaAccumulator({64, 24}, 4));
}

/// With only 64 rows, no group has rows of its own: runs of columns, as long as the side's power-of-two part allows,
/// are dealt to the groups in turn.
TEST(Fragments, WgmmaAccumulatorByColumns) {
  for (auto [n, groups, run] : {std::tuple<int64_t, int64_t, int64_t>{64, 2, 32}, {96, 2, 16}, {64, 4, 16}}) {
    Layout d = *wgmmaAccumulator({64, n}, groups), one = *wgmmaAccumulator({64, n / groups}, 1);
    ASSERT_EQ(d.registers(), n / 2 / groups);
    for (int64_t group = 0; group < groups; ++group)
      for (int64_t thread = 0; thread < 128; ++thread)
        for (int64_t i = 0; i < d.registers(); ++i) {
          Index own = at(one, i, thread % 32, thread / 32);
          int64_t column = own[1] / run * run * groups + group * run + own[1] % run;
          EXPECT_EQ(at(d, i, thread % 32, thread / 32, group), (Index{own[0], column})) << n;
        }
  }
}

TEST(Fragments, WgmmaOperandA) {
  for (unsigned bits : {8, 16, 32}) {
    int64_t packed = 32 / bits, k = 8 * packed;
    Layout a = *wgmmaOperandA({64, k}, bits, 1);
    ASSERT_EQ(a.registers(), 4 * packed);
    for (int64_t thread = 0; thread < 128; ++thread)
      for (int64_t i = 0; i < 4 * packed; ++i) {
        int64_t lane = thread % 32, warp = thread / 32, word = i / packed;
        int64_t row = 16 * warp + lane / 4 + 8 * (word % 2);
        int64_t column = lane % 4 * packed + i % packed + 4 * packed * (word / 2);
        EXPECT_EQ(at(a, i, lane, warp), (Index{row, column})) << bits;
      }
  }
}

/// Each thread of any warp has its column of all atoms of 8 columns; atoms follow each other along K first.
TEST(Fragments, WgmmaOperandB) {
  for (unsigned bits : {8, 16, 32})
    for (auto [depth, n, groups] :
         {std::tuple<int64_t, int64_t, int64_t>{1, 8, 1}, {2, 64, 2}, {4, 24, 3}, {3, 80, 6}}) {
      int64_t packed = 32 / bits, k = 8 * packed * depth;
      Layout b = *wgmmaOperandB({k, n}, bits, groups);
      ASSERT_EQ(b.registers(), k * n / 32);
      ASSERT_EQ(b.size(Coord::Warp), 4);
      ASSERT_EQ(b.size(Coord::Group), groups);
      for (int64_t group = 0; group < groups; ++group)
        for (int64_t thread = 0; thread < 128; ++thread)
          for (int64_t i = 0; i < b.registers(); ++i) {
            int64_t lane = thread % 32, word = i / packed, atom = word / 2;
            int64_t row = (2 * (atom % depth) + word % 2) * 4 * packed + lane % 4 * packed + i % packed;
            int64_t column = atom / depth * 8 + lane / 4;
            ASSERT_EQ(at(b, i, lane, thread / 32, group), (Index{row, column})) << bits << " " << n;
          }
    }
  EXPECT_FALSE(wgmmaOperandB({2, 32, 16}, 16, 2));
  EXPECT_FALSE(wgmmaOperandB({32, 12}, 16, 2));
  EXPECT_FALSE(wgmmaOperandB({8, 16}, 16, 2));
}

/// Single warps multiply what their group otherwise multiplies: rows of A and columns of B meet in the accumulator.
TEST(Fragments, WarpsOfGroupsMultiply) {
  Layout a = *wgmmaOperandA({192, 16}, 16, 3), b = *wgmmaOperandB({16, 8}, 16, 3), c = *wgmmaAccumulator({192, 8}, 3);
  for (int64_t group = 0; group < 3; ++group)
    for (int64_t warp = 0; warp < 4; ++warp)
      for (int64_t lane = 0; lane < 32; ++lane) {
        // The instruction's rows are those of lanes / 4 in A and C, its columns those of lanes / 4 in B.
        EXPECT_EQ(at(c, 0, lane, warp, group)[0], at(a, 0, lane, warp, group)[0]);
        EXPECT_EQ(at(c, 2, lane, warp, group)[0], at(a, 2, lane, warp, group)[0]);
        for (int64_t i = 0; i < 2; ++i)
          EXPECT_EQ(at(c, i, lane, warp, group)[1], at(b, 0, 4 * (lane % 4 * 2 + i), warp, group)[1]);
      }
}

TEST(Fragments, ConsumerGroups) {
  Layout three = *wgmmaAccumulator({192, 64}, 3), two = *wgmmaAccumulator({256, 64}, 2);
  for (int64_t group = 0; group < 3; ++group)
    EXPECT_EQ(at(three, 0, 0, 1, group), (Index{64 * group + 16, 0}));
  // Two groups of 128 rows: the second piece of 64 rows is in further registers.
  EXPECT_EQ(at(two, 0, 0, 0, 1), (Index{128, 0}));
  EXPECT_EQ(at(two, 32, 0, 0, 0), (Index{64, 0}));
  Layout six = *wgmmaAccumulator({384, 64}, 6);
  for (int64_t group = 0; group < 6; ++group)
    EXPECT_EQ(at(six, 0, 0, 0, group), (Index{64 * group, 0}));
}

TEST(Fragments, ExtraWarpsReplicate) {
  Layout two = *mmaAccumulator({16, 16}, 1, 2), eight = onWarps(two, 8);
  EXPECT_EQ(eight.size(Coord::Warp), 8);
  for (int64_t warp = 0; warp < 8; ++warp)
    for (int64_t lane = 0; lane < 32; ++lane)
      for (int64_t reg = 0; reg < two.registers(); ++reg)
        EXPECT_EQ(at(eight, reg, lane, warp), at(two, reg, lane, warp % 2));
  EXPECT_EQ(onWarps(two, 2), two);
}

//===-- Swizzles -------------------------------------------------------------------------------------------------===//

TEST(Fragments, Swizzles) {
  for (int64_t bytes : {32, 64, 128})
    for (int64_t element : {1, 2, 4}) {
      int64_t columns = bytes / element, rows = 32;
      Layout memory = *swizzled({rows, columns}, {1, 0}, element, bytes);
      // 16-byte chunks: address bits 4.. are XORed with bits 7.., as many bits as a row has chunk bits.
      int64_t mask = bytes / 16 - 1;
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t column = 0; column < columns; ++column) {
          int64_t plain = row * bytes + column * element;
          int64_t address = plain ^ (((plain >> 7) & mask) << 4);
          EXPECT_EQ(memory.at(Coord::Offset, address / element), (Index{row, column})) << bytes << " " << element;
        }
    }
}

TEST(Fragments, SwizzledPanels) {
  // 192 columns of two bytes: three panels of 64 columns, each as deep as the number of rows.
  Layout memory = *swizzled({128, 192}, {1, 0}, 2, 128);
  for (int64_t row : {0, 1, 7, 8, 127})
    for (int64_t column : {0, 8, 63, 64, 191}) {
      int64_t plain = row * 128 + column % 64 * 2;
      int64_t address = (plain ^ (((plain >> 7) & 7) << 4)) + column / 64 * 128 * 128;
      EXPECT_EQ(memory.at(Coord::Offset, address / 2), (Index{row, column}));
    }
  EXPECT_FALSE(swizzled({4, 64}, {1, 0}, 2, 128));
  EXPECT_FALSE(swizzled({64, 32}, {1, 0}, 2, 128));
  EXPECT_FALSE(swizzled({64, 96}, {1, 0}, 2, 128));
}

} // namespace
