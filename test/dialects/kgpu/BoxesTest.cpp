// How copies fill memory and products read it, against the hardware's own description: a box is written row by row, and
// address bits are flipped. This test shares no code with the layouts.
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Constructors.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"
#include <numeric>

using namespace kiln;
using namespace kiln::kgpu;
using namespace kiln::layout;
using namespace mlir;

namespace {

class Boxes : public testing::Test {
protected:
  Boxes() { context.loadDialect<KgpuDialect, layout::LayoutDialect>(); }
  Type element(int64_t bytes) {
    if (bytes == 1)
      return Float8E4M3FNType::get(&context);
    if (bytes == 2)
      return Float16Type::get(&context);
    if (bytes == 4)
      return Float32Type::get(&context);
    return Float64Type::get(&context);
  }
  MemType memory(const Layout &layout, int64_t bytes) {
    return MemType::get(layout.shape(), element(bytes), MapAttr::get(&context, layout));
  }
  MLIRContext context;
};

/// The byte that the hardware accesses for byte `address`: 16-byte chunks are permuted by the number of their 128-byte
/// line.
int64_t swizzledAddress(int64_t address, int64_t swizzle) {
  int64_t flips = swizzle == 0 ? 0 : swizzle / 16 - 1;
  return address ^ (((address >> 7) & flips) << 4);
}

/// Visits every index below `sides`, the last dimension first, as a copy writes a box.
void forEachIndex(ArrayRef<int64_t> sides, llvm::function_ref<void(const Index &)> visit) {
  Index index(sides.size(), 0);
  for (;;) {
    visit(index);
    unsigned dim = sides.size();
    while (dim > 0 && ++index[dim - 1] == sides[dim - 1])
      index[--dim] = 0;
    if (dim == 0)
      return;
  }
}

/// Fills the memory of each CTA box by box and compares with where the layout puts the elements. The CTA's block begins
/// `pieceSide` elements after the previous CTA's along `split`.
void expectFills(MemType type, const BoxPlan &plan, int64_t pieces, std::optional<unsigned> split, int64_t pieceSide) {
  const Layout &layout = layoutOf(type);
  std::string what = layout.print();
  int64_t bytes = type.getElementBytes(), size = layout.size(Coord::Offset);
  for (int64_t side : plan.box)
    ASSERT_TRUE(side >= 1 && side <= 256) << what;
  ASSERT_EQ(plan.box.back() * bytes % 16, 0) << what;
  if (plan.swizzle)
    ASSERT_LE(plan.box.back() * bytes, plan.swizzle) << what;
  ASSERT_EQ(int64_t(plan.starts.size()) % pieces, 0) << what << ": each cta sends as many";
  for (int64_t cta = 0; cta < layout.size(Coord::Cta); ++cta) {
    std::vector<Index> at(size);
    int64_t address = 0;
    for (const Index &start : plan.starts) {
      ASSERT_EQ(address % 128, 0) << what;
      int64_t begin = address;
      forEachIndex(plan.box, [&](const Index &index) {
        Index element = start;
        for (unsigned d = 0; d < index.size(); ++d)
          element[d] += index[d];
        if (split)
          element[*split] += cta * pieceSide;
        int64_t place = swizzledAddress(address, plan.swizzle) / bytes;
        ASSERT_LT(place, size) << what;
        ASSERT_TRUE(at[place].empty()) << what << ": written twice";
        at[place] = element;
        address += bytes;
      });
      ASSERT_EQ(address - begin, plan.boxBytes) << what;
    }
    ASSERT_EQ(address, size * bytes) << what << ": not filled";
    for (int64_t offset = 0; offset < size; ++offset) {
      Point point = {};
      point[unsigned(Coord::Offset)] = offset;
      point[unsigned(Coord::Cta)] = cta;
      ASSERT_EQ(at[offset], layout.at(point)) << what << " at " << offset << " of cta " << cta;
    }
  }
}

SmallVector<int32_t> lastFastest(size_t rank) {
  SmallVector<int32_t> order(rank);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

/// Candidate memory layouts of a block for the copy engine.
std::vector<std::pair<Layout, int64_t>> formsOf(ArrayRef<int64_t> shape, int64_t bytes) {
  std::vector<std::pair<Layout, int64_t>> forms;
  for (int64_t swizzle : {32, 64, 128})
    if (std::optional<Layout> layout = swizzled(shape, lastFastest(shape.size()), bytes, swizzle))
      forms.push_back({*layout, swizzle});
  forms.push_back({rowMajor(shape, lastFastest(shape.size())), 0});
  return forms;
}

const std::vector<std::vector<int64_t>> kShapes = {
    {64, 64},  {128, 64}, {64, 176}, {64, 192},  {64, 96},     {32, 160},  {64, 112}, {8, 256}, {256, 256}, {512, 64},
    {384, 32}, {496, 16}, {48, 80},  {4, 8, 64}, {2, 16, 192}, {3, 8, 96}, {256},     {1024},   {16, 8},    {24, 64},
};

TEST_F(Boxes, FillMemoryAsTheLayoutSays) {
  int planned = 0, swizzledOnes = 0;
  for (const auto &shape : kShapes)
    for (int64_t bytes : {1, 2, 4, 8})
      for (auto &[layout, swizzle] : formsOf(shape, bytes)) {
        std::optional<BoxPlan> plan = planBoxes(memory(layout, bytes));
        // Swizzled layouts can always be filled; unswizzled rows may be too wide or too narrow.
        if (swizzle)
          ASSERT_TRUE(plan) << layout.print();
        if (!plan)
          continue;
        EXPECT_EQ(plan->swizzle, swizzle) << layout.print();
        expectFills(memory(layout, bytes), *plan, 1, std::nullopt, 0);
        ++planned;
        swizzledOnes += swizzle != 0;
      }
  EXPECT_GT(planned, 150);
  EXPECT_GT(swizzledOnes, 100);
}

TEST_F(Boxes, FillPiecesOfACluster) {
  int count = 0;
  for (const auto &shape : kShapes)
    for (int64_t ctas : {2, 4})
      for (unsigned dim = 0; dim < shape.size(); ++dim)
        for (auto &[piece, swizzle] : formsOf(shape, 2)) {
          std::optional<Layout> layout = inCluster(piece, ctas, dim);
          std::optional<BoxPlan> plan = layout ? planBoxes(memory(*layout, 2)) : std::nullopt;
          if (!plan)
            continue;
          expectFills(memory(*layout, 2), *plan, 1, dim, shape[dim]);
          ++count;
        }
  EXPECT_GT(count, 80);
}

TEST_F(Boxes, AreSplitIntoMulticastPieces) {
  int count = 0;
  for (const auto &shape : kShapes)
    for (int64_t ctas : {2, 4})
      for (auto &[piece, swizzle] : formsOf(shape, 2)) {
        Layout layout = *inCluster(piece, ctas, std::nullopt);
        std::optional<BoxPlan> plan = planBoxes(memory(layout, 2), ctas);
        if (!plan)
          continue;
        expectFills(memory(layout, 2), *plan, ctas, std::nullopt, 0);
        ++count;
      }
  EXPECT_GT(count, 60);
}

TEST_F(Boxes, HaveTheRequestedNumberOfRows) {
  int count = 0;
  for (const auto &shape : kShapes)
    for (int64_t rows : {8, 16, 32})
      for (int64_t pieces : {1, 2})
        for (auto &[piece, swizzle] : formsOf(shape, 2)) {
          Layout layout = pieces > 1 ? *inCluster(piece, pieces, std::nullopt) : piece;
          std::optional<BoxPlan> most = planBoxes(memory(layout, 2), pieces);
          std::optional<BoxPlan> plan = planBoxes(memory(layout, 2), pieces, rows);
          // Asking for a number of rows only divides the largest box; the result is never larger than without asking.
          EXPECT_FALSE(plan && (!most || most->box[0] % rows)) << layout.print();
          EXPECT_TRUE(plan || !swizzle || !most || most->box[0] % rows) << layout.print();
          if (!plan)
            continue;
          EXPECT_EQ(plan->box[0], rows) << layout.print();
          expectFills(memory(layout, 2), *plan, pieces, std::nullopt, 0);
          ++count;
        }
  EXPECT_GT(count, 60);
}

TEST_F(Boxes, AreAsFewAsCopiesAllow) {
  auto planOf = [&](const char *text, int64_t pieces = 1) {
    std::optional<BoxPlan> plan = planBoxes(memory(*Layout::parse(text), 2), pieces);
    EXPECT_TRUE(plan) << text;
    return *plan;
  };
  BoxPlan one = planOf("swizzled [128, 64] element 2 bytes 128");
  EXPECT_EQ(one.box, (SmallVector<int64_t>{128, 64}));
  EXPECT_EQ(one.starts.size(), 1u);
  // 176 = 11 panels of 16 columns.
  BoxPlan odd = planOf("swizzled [64, 176] element 2 bytes 32");
  EXPECT_EQ(odd.box, (SmallVector<int64_t>{64, 16}));
  EXPECT_EQ(odd.starts.size(), 11u);
  BoxPlan three = planOf("swizzled [64, 192] element 2 bytes 128 ctas 2", 2);
  EXPECT_EQ(three.box, (SmallVector<int64_t>{32, 64}));
  EXPECT_EQ(three.starts.size(), 6u);
  auto few = planBoxes(memory(*Layout::parse("swizzled [64, 192] element 2 bytes 128"), 2), 1, /*rows=*/8);
  ASSERT_TRUE(few);
  EXPECT_EQ(few->box, (SmallVector<int64_t>{8, 64}));
  EXPECT_EQ(few->starts.size(), 24u);
  BoxPlan high = planOf("swizzled [512, 64] element 2 bytes 128");
  EXPECT_EQ(high.box, (SmallVector<int64_t>{256, 64}));
}

TEST_F(Boxes, AreNoneIfTheCopyEngineCannot) {
  auto none = [&](const char *text, int64_t pieces = 1) {
    EXPECT_FALSE(planBoxes(memory(*Layout::parse(text), 2), pieces)) << text;
  };
  // First dimension fastest; the same without a swizzle; rows of 8 bytes; wider than a box; an irregular order.
  none("swizzled [64, 64] order [0, 1] element 2 bytes 128");
  none("row_major [64, 64] order [0, 1]");
  none("row_major [64, 4]");
  none("row_major [8, 512]");
  none("digits [4, 8] offset (1, 0) (0, 1) (0, 2) (0, 4) (2, 0)");
  // Swizzled for another element size.
  none("swizzled [64, 128] element 1 bytes 128");
  // Pieces of four rows, but the swizzle repeats every eight.
  none("swizzled [8, 64] element 2 bytes 128 ctas 2", 2);
  none("swizzled [24, 64] element 2 bytes 128 ctas 2", 2);
  // 64 rows do not split into three equal pieces.
  none("swizzled [64, 64] element 2 bytes 128 ctas 2", 3);
}

/// Where a product looks for an element of an operand: contiguous rows of the swizzle's width, in panels that follow
/// one another.
int64_t factorAddress(const FactorMemory &form, unsigned depthDim, const Index &element, int64_t bytes) {
  unsigned fastest = form.depthFastest ? depthDim : 1 - depthDim, slow = 1 - fastest;
  int64_t columns = form.swizzle / bytes, panel = element[fastest] / columns, column = element[fastest] % columns;
  int64_t address = panel * form.sides[slow] * form.swizzle + element[slow] * form.swizzle + column * bytes;
  return swizzledAddress(address, form.swizzle);
}

TEST_F(Boxes, OperandsAreReadAsStored) {
  int count = 0;
  for (const auto &shape : kShapes) {
    if (shape.size() != 2)
      continue;
    for (int64_t bytes : {1, 2, 4})
      for (bool turned : {false, true})
        for (int64_t swizzle : {32, 64, 128})
          for (int64_t ctas : {1, 2}) {
            SmallVector<int32_t> order = turned ? SmallVector<int32_t>{0, 1} : SmallVector<int32_t>{1, 0};
            std::optional<Layout> piece = swizzled(shape, order, bytes, swizzle);
            if (!piece)
              continue;
            MemType type = memory(*inCluster(*piece, ctas, std::nullopt), bytes);
            for (unsigned depthDim : {0u, 1u}) {
              std::optional<FactorMemory> form = factorMemory(type, depthDim);
              ASSERT_TRUE(form) << piece->print();
              EXPECT_EQ(form->swizzle, swizzle) << piece->print();
              EXPECT_EQ(form->depthFastest, (turned ? 0u : 1u) == depthDim) << piece->print();
              for (int64_t offset = 0; offset < piece->size(Coord::Offset); ++offset)
                ASSERT_EQ(factorAddress(*form, depthDim, piece->at(Coord::Offset, offset), bytes), offset * bytes)
                    << piece->print() << " at " << offset;
              ++count;
            }
          }
  }
  EXPECT_GT(count, 200);
  EXPECT_FALSE(factorMemory(memory(rowMajor({64, 64}, {1, 0}), 2), 0));
  EXPECT_FALSE(factorMemory(memory(*swizzled({64, 128}, {1, 0}, 1, 128), 2), 0));
}

} // namespace
