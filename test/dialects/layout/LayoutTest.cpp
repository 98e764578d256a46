// Properties of every layout: surjective, one owner, linear; tiles derived from tiles; runs; text.
#include "Random.h"
#include "dialects/layout/Builder.h"
#include "gtest/gtest.h"
#include <map>
#include <set>

using namespace kiln::layout;
using namespace llvm;

namespace {

RandomForm randomForm(Rng &rng) {
  RandomForm form;
  form.warpBits = pick(rng, 0, 2);
  form.groupBits = pick(rng, 0, 1);
  form.ctaBits = pick(rng, 0, 1);
  form.mix = pick(rng, 0, 1);
  return form;
}

bool isOwner(const Layout &layout, const Point &point) {
  for (unsigned c = 0; c < kNumCoords; ++c) {
    uint64_t mask = layout.ownerMask(Coord(c));
    int64_t left = point[c];
    for (const Digit &digit : layout.digits(Coord(c))) {
      if ((mask & 1) && left % digit.radix)
        return false;
      left /= digit.radix;
      mask >>= 1;
    }
  }
  return true;
}

TEST(LayoutBuilder, RebuildsALayoutFromItsDigits) {
  Rng rng(7);
  for (int i = 0; i < 100; ++i) {
    Layout layout = randomLayout(rng, randomShape(rng, 6), randomForm(rng));
    EXPECT_EQ(LayoutBuilder(layout).finish(), layout);
    LayoutBuilder again(layout.shape());
    for (unsigned c = 0; c < kNumCoords; ++c)
      for (const Digit &digit : layout.digits(Coord(c)))
        again[Coord(c)].push_back(digit);
    EXPECT_EQ(again.finish(), layout);
  }
}

TEST(LayoutBuilder, PushesReplicatesAndRejects) {
  LayoutBuilder builder({4, 6});
  builder.push(Coord::Reg, 2, 0, 1);
  builder.push(Coord::Reg, 2, 0, 2);
  builder.push(Coord::Lane, 2, 1, 1);
  EXPECT_FALSE(builder.finish()) << "no digit walks the third of the columns";
  builder.push(Coord::Lane, 3, 1, 2);
  builder.replicate(Coord::Group, 12);
  builder.replicate(Coord::Warp, 1);
  std::optional<Layout> layout = builder.finish();
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->size(Coord::Group), 12);
  EXPECT_EQ(layout->digits(Coord::Group).size(), 3u);
  EXPECT_TRUE(layout->digits(Coord::Warp).empty());
  for (const Digit &digit : layout->digits(Coord::Group))
    EXPECT_TRUE(digit.replicates());
  builder.setSide(0, 8);
  EXPECT_FALSE(builder.finish());
}

TEST(Layout, EveryElementHasOneOwner) {
  Rng rng(1);
  for (int i = 0; i < 1000; ++i) {
    auto shape = randomShape(rng, 6);
    Layout layout = randomLayout(rng, shape, randomForm(rng));
    std::vector<int> places(elements(shape)), owners(elements(shape));
    forEachPoint(layout, [&](const Point &point) {
      Index element = layout.at(point);
      for (unsigned d = 0; d < shape.size(); ++d)
        ASSERT_TRUE(element[d] >= 0 && element[d] < shape[d]) << layout.print();
      ++places[linear(shape, element)];
      owners[linear(shape, element)] += isOwner(layout, point);
    });
    for (size_t e = 0; e < places.size(); ++e) {
      ASSERT_GT(places[e], 0) << layout.print();
      ASSERT_EQ(owners[e], 1) << layout.print();
    }
  }
}

TEST(Layout, PointsCombine) {
  Rng rng(2);
  for (int i = 0; i < 2000; ++i) {
    Layout layout = randomLayout(rng, randomShape(rng), randomForm(rng));
    Point point = {};
    Index sum(layout.rank(), 0);
    for (unsigned c = 0; c < kNumCoords; ++c) {
      point[c] = pick(rng, 0, layout.size(Coord(c)) - 1);
      sum = layout.combine(sum, layout.at(Coord(c), point[c]));
    }
    EXPECT_EQ(layout.at(point), sum) << layout.print();
  }
}

TEST(Layout, TextReadsBack) {
  Rng rng(3);
  for (int i = 0; i < 1000; ++i) {
    Layout layout =
        pick(rng, 0, 3) ? randomLayout(rng, randomShape(rng), randomForm(rng)) : randomMemory(rng, randomShape(rng));
    std::string error;
    std::optional<Layout> read = Layout::parse(layout.print(), &error);
    ASSERT_TRUE(read) << layout.print() << ": " << error;
    EXPECT_EQ(*read, layout) << layout.print() << " / " << read->print();
    EXPECT_EQ(hash_value(*read), hash_value(layout));
  }
}

TEST(Layout, ConstructorsPrintAsThemselves) {
  for (const char *text : {
           "blocked [4096] vector 8 warps 4",
           "blocked [128, 64] order [0, 1] vector 4 warps 8",
           "blocked [65536] vector 4 warps 8 ctas 4 split 0",
           "blocked [4, 896] vector 4 warps 2",
           "replicated [6] warps 4",
           "replicated [16] warps 4 ctas 2",
           "mma_acc [64, 96] warps 2x2",
           "mma_acc [3, 64, 32] warps 4x1",
           "mma_a [64, 32] bits 16 warps 2x2",
           "mma_b [32, 64] bits 8 warps 2x2",
           "wgmma_acc [192, 176] groups 3",
           "wgmma_acc [128, 192] groups 2",
           "wgmma_a [192, 64] bits 8 groups 3",
           "row_major [128, 192]",
           "row_major [128, 192] order [0, 1]",
           "swizzled [64, 64] element 2 bytes 128",
           "swizzled [64, 192] element 2 bytes 128",
           "swizzled [32, 64] order [0, 1] element 4 bytes 64",
           "row_major [128, 192] ctas 2 split 0",
           "row_major [128, 64] order [0, 1] ctas 4",
           "swizzled [128, 64] element 2 bytes 128 ctas 2 split 0",
           "swizzled [64, 128] element 2 bytes 128 ctas 2 split 1",
           "swizzled [64, 192] element 2 bytes 128 ctas 2",
           "swizzled [64, 256] order [0, 1] element 1 bytes 64 ctas 4 split 1",
           "mma_acc [128, 96] warps 2x2 ctas 2 split 0",
           "mma_b [32, 128] bits 8 warps 2x2 ctas 2 split 1",
           "wgmma_acc [256, 176] groups 2 ctas 2 split 0",
           "wgmma_acc [192, 256] groups 3 ctas 2 split 1",
           "mma_a [128, 64] bits 8 warps 4x1 ctas 2 split 0",
           "wgmma_a [128, 64] bits 8 groups 2 ctas 2",
       }) {
    std::string error;
    std::optional<Layout> layout = Layout::parse(text, &error);
    ASSERT_TRUE(layout) << text << ": " << error;
    EXPECT_EQ(layout->print(), text);
  }
}

TEST(Layout, RejectsWhatIsOutsideTheForm) {
  auto refusal = [](const char *text) {
    std::string error;
    EXPECT_FALSE(Layout::parse(text, &error)) << text;
    return error;
  };
  EXPECT_EQ(refusal("digits [4] reg (1)"), "expected every element to have a position, got positions for 1 of 2");
  EXPECT_EQ(refusal("digits [4] reg (1) (4)"),
            "expected steps below 4 along dimension 0 in reg digit 1 (because bits move inside the power of two of a "
            "side), got 4");
  EXPECT_EQ(refusal("digits [6] reg (1)"),
            "expected a digit of radix 3 for dimension 0 (because every element needs a position)");
  EXPECT_EQ(refusal("digits [6] reg (1) 3*(2) 3*(2)"),
            "expected one digit for the odd part of dimension 0, got a second in reg digit 2");
  EXPECT_EQ(refusal("digits [6] reg (1) 3*(1)"),
            "expected a step of 2 along a side with the odd part 3 in reg digit 1, got 1 along a side of 6");
  EXPECT_EQ(refusal("digits [6] reg (1) 5*(2)"),
            "expected a step of 2 along a side with the odd part 5 in reg digit 1, got 2 along a side of 6");
  EXPECT_EQ(refusal("digits [6, 3] reg (1, 0) 3*(2, 1)"),
            "expected an odd digit to move along one dimension in reg digit 1");
  EXPECT_EQ(refusal("digits [2] reg 4*(1)"), "expected radix 2 or an odd radix from 3 to 31 in reg digit 0, got 4");
  EXPECT_EQ(refusal("digits [2] reg (1, 0)"), "expected one step per dimension in reg digit 0, got 2");
  EXPECT_EQ(refusal("digits [2] regs (1)"), "expected reg, lane, warp, group, cta or offset, each once, got 'regs'");
  EXPECT_EQ(refusal("digits [2] (1)"), "expected a coordinate before its digits");
  EXPECT_EQ(refusal("blocked [66]"),
            "expected sides 2^k * m with m odd and at most 31, and less than 2^31 elements, got 66");
  EXPECT_EQ(refusal("blocked [64] vector 3"), "expected vector to be a power of two up to 1024, got 3");
  EXPECT_EQ(refusal("blocked [64] order [1]"), "expected order to name each of 1 dimensions once");
  EXPECT_EQ(refusal("blocked [64] split 1"), "expected split to name one of 1 dimensions, got 1");
  EXPECT_EQ(refusal("blocked [64] lanes 4"),
            "expected order, vector, bits, element, bytes, warps, groups, ctas or split, got 'lanes'");
  EXPECT_EQ(refusal("wgmma_acc [96, 64]"), "expected a shape that wgmma_acc fits, got [96, 64]");
  EXPECT_EQ(refusal("mma_acc [8, 64]"), "expected a shape that mma_acc fits, got [8, 64]");
  // Two pieces of 96 rows would need the odd digit in two places.
  EXPECT_EQ(refusal("row_major [192, 64] ctas 2 split 0"), "expected a shape that row_major fits, got [192, 64]");
  EXPECT_EQ(refusal("swizzled [66, 64] element 2 bytes 128 ctas 4 split 0").substr(0, 14), "expected sides");
  EXPECT_EQ(refusal("wgmma_acc [64, 64] groups 1 ctas 2 split 0"),
            "expected a shape that wgmma_acc fits, got [64, 64]");
  EXPECT_EQ(refusal("tiled [64]").substr(0, 16), "expected blocked");
  EXPECT_EQ(refusal("blocked [9999999999999]").substr(0, 17), "expected a number");
}

//===-- Clusters -------------------------------------------------------------------------------------------------===//

/// A random piece of a tile, in memory or registers, without a CTA digit.
Layout randomPiece(Rng &rng) {
  if (pick(rng, 0, 1))
    return randomMemory(rng, randomShape(rng, 8));
  RandomForm form = randomForm(rng);
  form.ctaBits = 0;
  return randomLayout(rng, randomShape(rng, 8), form);
}

TEST(Layout, PiecesOfAClusterAreContiguous) {
  Rng rng(11);
  int split = 0, refused = 0;
  for (int i = 0; i < 2000; ++i) {
    Layout piece = randomPiece(rng);
    int64_t ctas = int64_t(1) << pick(rng, 1, 3);
    unsigned dim = pick(rng, 0, piece.rank() - 1);
    std::optional<Layout> layout = inCluster(piece, ctas, dim);
    // Another digit fits above a side only if the side is a power of two.
    if (splitSide(piece.shape()[dim])->odd != 1) {
      EXPECT_FALSE(layout) << piece.print();
      ++refused;
      continue;
    }
    ASSERT_TRUE(layout) << piece.print();
    ++split;
    for (int j = 0; j < 20; ++j) {
      Point point = {};
      for (unsigned c = 0; c < kNumCoords; ++c)
        point[c] = pick(rng, 0, piece.size(Coord(c)) - 1);
      Index element = piece.at(point);
      int64_t cta = pick(rng, 0, ctas - 1);
      element[dim] += cta * piece.shape()[dim];
      point[unsigned(Coord::Cta)] = cta;
      ASSERT_EQ(layout->at(point), element) << layout->print();
    }
    std::optional<ClusterPiece> held = pieceOf(*layout);
    ASSERT_TRUE(held) << layout->print();
    EXPECT_EQ(held->piece, piece) << layout->print();
    EXPECT_EQ(held->split, std::optional<unsigned>(dim)) << layout->print();
  }
  EXPECT_GT(split, 500);
  EXPECT_GT(refused, 200);
}

TEST(Layout, EveryCtaOfAClusterMayHoldTheWholeTile) {
  Rng rng(12);
  for (int i = 0; i < 1000; ++i) {
    Layout piece = randomPiece(rng);
    int64_t ctas = int64_t(1) << pick(rng, 0, 3);
    std::optional<Layout> layout = inCluster(piece, ctas, std::nullopt);
    ASSERT_TRUE(layout) << piece.print();
    EXPECT_EQ(layout->shape(), piece.shape());
    EXPECT_EQ(layout->size(Coord::Cta), ctas);
    Point point = {};
    for (unsigned c = 0; c < kNumCoords; ++c)
      point[c] = pick(rng, 0, layout->size(Coord(c)) - 1);
    Point first = point;
    first[unsigned(Coord::Cta)] = 0;
    EXPECT_EQ(layout->at(point), piece.at(first)) << layout->print();
    std::optional<ClusterPiece> held = pieceOf(*layout);
    ASSERT_TRUE(held) << layout->print();
    EXPECT_EQ(held->piece, piece);
    EXPECT_FALSE(held->split);
  }
}

TEST(Layout, OtherSplitsOfAClusterAreNotPieces) {
  // Interleaved rows, a half duplicated in each pair, and pieces along two dimensions.
  for (const char *text :
       {"digits [4, 2] cta (1, 0) offset (0, 1) (2, 0)", "digits [4, 2] cta (2, 0) (0, 0) offset (0, 1) (1, 0)",
        "digits [4, 4] cta (0, 2) (2, 0) offset (0, 1) (1, 0)"}) {
    std::optional<Layout> layout = Layout::parse(text);
    ASSERT_TRUE(layout) << text;
    EXPECT_FALSE(pieceOf(*layout)) << text;
    EXPECT_EQ(layout->print(), text);
  }
}

//===-- Tiles made from tiles ------------------------------------------------------------------------------------===//

/// Each thread of `part` holds the image under `map` of what it holds of `whole`, without duplicate registers.
void expectHoldsImage(const Layout &whole, const Layout &part, const std::function<Index(Index)> &map) {
  for (Coord coord : {Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta})
    ASSERT_EQ(whole.size(coord), part.size(coord)) << whole.print();
  std::map<std::array<int64_t, 4>, std::set<int64_t>> expected, got;
  auto thread = [](const Point &p) { return std::array<int64_t, 4>{p[1], p[2], p[3], p[4]}; };
  forEachPoint(whole, [&](const Point &p) { expected[thread(p)].insert(linear(part.shape(), map(whole.at(p)))); });
  forEachPoint(part, [&](const Point &p) {
    ASSERT_TRUE(got[thread(p)].insert(linear(part.shape(), part.at(p))).second) << whole.print();
  });
  ASSERT_EQ(expected, got) << whole.print() << " / " << part.print();
}

TEST(Layout, SliceExpandCollapse) {
  Rng rng(4);
  for (int i = 0; i < 300; ++i) {
    Layout layout = randomLayout(rng, randomShape(rng, 7), randomForm(rng));
    unsigned dim = pick(rng, 0, layout.rank() - 1);
    Layout slice = layout.slice(dim);
    expectHoldsImage(layout, slice, [&](Index element) {
      element.erase(element.begin() + dim);
      return element;
    });
    EXPECT_EQ(slice.expand(dim), layout.collapse(dim));
    EXPECT_EQ(layout.collapse(dim).shape()[dim], 1);
    EXPECT_EQ(slice.expand(dim).slice(dim), slice);
  }
}

TEST(Layout, GrowTransposeJoinSplit) {
  Rng rng(5);
  for (int i = 0; i < 60; ++i) {
    Layout layout = randomLayout(rng, randomShape(rng, 6), randomForm(rng));
    unsigned rank = layout.rank();
    Layout grown = layout.expand(rank).grow(rank, 6);
    EXPECT_EQ(grown.shape()[rank], 6);
    EXPECT_EQ(grown.registers(), layout.registers() * 6);
    forEachPoint(grown, [&](const Point &point) {
      Point small = point;
      small[0] %= layout.registers();
      Index element = layout.at(small);
      element.push_back(point[0] / layout.registers());
      ASSERT_EQ(grown.at(point), element);
    });

    SmallVector<int32_t, 3> order;
    for (unsigned d = 0; d < rank; ++d)
      order.insert(order.begin() + pick(rng, 0, d), d);
    Layout transposed = layout.transpose(order);
    Layout joined = layout.join();
    ASSERT_EQ(joined.shape().back(), 2);
    forEachPoint(layout, [&](const Point &point) {
      Index element = layout.at(point), turned = transposed.at(point);
      for (unsigned d = 0; d < rank; ++d)
        ASSERT_EQ(turned[d], element[order[d]]);
      for (int64_t half : {0, 1}) {
        Point place = point;
        place[0] = point[0] * 2 + half;
        Index pair = element;
        pair.push_back(half);
        ASSERT_EQ(joined.at(place), pair);
      }
    });
    ASSERT_TRUE(joined.split());
    EXPECT_EQ(*joined.split(), layout);
  }
  // If the halves are in lanes, or mixed into another digit, no register has them apart.
  EXPECT_FALSE(Layout::parse("digits [32, 2] reg (16, 0) lane (0, 1) (1, 0) (2, 0) (4, 0) (8, 0)")->split());
  EXPECT_FALSE(Layout::parse("digits [32, 2] reg (1, 1) lane (1, 0) (2, 0) (4, 0) (8, 0) (16, 0)")->split());
  EXPECT_FALSE(Layout::parse("replicated [4]")->split());
}

TEST(Layout, Reshape) {
  Rng rng(6);
  int done = 0, refused = 0;
  for (int i = 0; i < 2000; ++i) {
    Layout layout = randomLayout(rng, randomShape(rng, 7), randomForm(rng));
    // Splits the row-major elements into other sides at random.
    SmallVector<int64_t, 3> shape{elements(layout.shape())};
    for (int cuts = pick(rng, 1, 2); cuts--;) {
      int64_t side = shape.front(), factor = 1;
      for (int64_t candidate : {2, 3, 4, 5, 7, 8, 16})
        if (side % candidate == 0 && pick(rng, 0, 1))
          factor = candidate;
      shape.front() = side / factor;
      shape.insert(shape.begin() + 1, factor);
    }
    std::optional<Layout> reshaped = layout.reshape(shape);
    if (!reshaped) {
      ++refused;
      continue;
    }
    ++done;
    forEachPoint(layout, [&](const Point &point) {
      ASSERT_EQ(linear(shape, reshaped->at(point)), linear(layout.shape(), layout.at(point)));
    });
    ASSERT_EQ(*reshaped->reshape(layout.shape()), layout);
  }
  EXPECT_GT(done, 700);
  EXPECT_GT(refused, 100);
}

TEST(Layout, Runs) {
  Rng rng(7);
  for (int i = 0; i < 300; ++i) {
    Layout layout = randomLayout(rng, randomShape(rng, 8), randomForm(rng));
    if (pick(rng, 0, 1)) {
      auto shape = randomShape(rng, 8);
      SmallVector<int32_t, 3> order;
      for (unsigned d = 0; d < shape.size(); ++d)
        order.push_back(d);
      layout = blocked(shape, order, 1 << pick(rng, 0, 3), {});
    }
    unsigned dim = pick(rng, 0, layout.rank() - 1);
    auto isRun = [&](int64_t run) {
      if (run > layout.registers())
        return false;
      bool all = true;
      forEachPoint(layout, [&](const Point &point) {
        Point first = point;
        first[0] = point[0] / run * run;
        Index expected = layout.at(first);
        all &= expected[dim] % run == 0;
        expected[dim] += point[0] % run;
        all &= layout.at(point) == expected;
      });
      return all;
    };
    int64_t run = layout.contiguity(dim);
    EXPECT_TRUE(isRun(run)) << layout.print() << " dim " << dim;
    // Twice the length is no longer a run, unless it would end in an odd part.
    if (layout.shape()[dim] % (2 * run) == 0 && layout.registers() % (2 * run) == 0)
      EXPECT_FALSE(isRun(2 * run)) << layout.print() << " dim " << dim;
  }
}

TEST(Layout, RegistersThatRepeatAreDropped) {
  Rng rng(8);
  for (int i = 0; i < 100; ++i) {
    RandomForm form = randomForm(rng);
    form.repeats = 4;
    Layout layout = randomLayout(rng, randomShape(rng, 6), form);
    expectHoldsImage(layout, layout.withoutReplicatedRegisters(), [](Index element) { return element; });
  }
}

//===-- What is not a power of two -------------------------------------------------------------------------------===//

TEST(Layout, RowsOf896) {
  // Seven runs of 128 columns, each spread over the warp; four warps hold four rows.
  Layout rows = blocked({4, 896}, {1, 0}, 4, {});
  EXPECT_EQ(rows.registers(), 28);
  EXPECT_EQ(rows.contiguity(1), 4);
  EXPECT_FALSE(rows.isReplicated(Coord::Lane) || rows.isReplicated(Coord::Warp));
  Point point = {};
  point[unsigned(Coord::Reg)] = 4 * 5 + 3;
  point[unsigned(Coord::Lane)] = 17;
  point[unsigned(Coord::Warp)] = 2;
  EXPECT_EQ(rows.at(point), (Index{2, 5 * 128 + 17 * 4 + 3}));
  Layout sums = rows.slice(1);
  EXPECT_EQ(sums.registers(), 1);
  EXPECT_EQ(sums.ownerMask(Coord::Lane), 31u);
  EXPECT_EQ(sums.ownerMask(Coord::Warp), 0u);
  EXPECT_EQ(rows.slice(0).ownerMask(Coord::Warp), 3u);
  // One row on four warps in runs of eight: the remaining lanes and warps hold duplicates.
  Layout row = blocked({896}, {0}, 8, {});
  EXPECT_EQ(row.ownerMask(Coord::Lane), 16u);
  EXPECT_EQ(row.ownerMask(Coord::Warp), 3u);
}

TEST(Layout, AccumulatorOf176ColumnsAndThreeGroups) {
  std::optional<Layout> layout = wgmmaAccumulator({192, 176}, 3);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->size(Coord::Group), 3);
  EXPECT_EQ(layout->registers(), 88);
  // Register 4j + i of m64n176 is column 8j + …, as in the instruction.
  for (int64_t r = 0; r < 88; ++r)
    EXPECT_EQ(layout->at(Coord::Reg, r), (Index{r % 4 / 2 * 8, r / 4 * 8 + r % 2}));
  EXPECT_EQ(layout->at(Coord::Group, 2), (Index{128, 0}));
  Layout rows = layout->slice(1);
  EXPECT_EQ(rows.registers(), 2);
  EXPECT_EQ(rows.ownerMask(Coord::Lane), 3u);
  EXPECT_EQ(rows.at(Coord::Group, 1), (Index{64}));
  Layout columns = layout->slice(0);
  EXPECT_EQ(columns.registers(), 44);
  EXPECT_EQ(columns.size(Coord::Group), 3);
  EXPECT_EQ(columns.ownerMask(Coord::Group), 1u);
  EXPECT_EQ(columns.ownerMask(Coord::Warp), 3u);
}

TEST(Layout, ReshapeOf128x192) {
  Layout layout = blocked({128, 192}, {1, 0}, 4, {});
  std::optional<Layout> panels = layout.reshape({128, 3, 64});
  ASSERT_TRUE(panels);
  forEachPoint(layout, [&](const Point &point) {
    Index element = layout.at(point);
    ASSERT_EQ(panels->at(point), (Index{element[0], element[1] / 64, element[1] % 64}));
  });
  EXPECT_EQ(panels->slice(1).registers(), layout.registers() / 3);
  // Groups of 32 columns: holding a scale for each needs no extra data movement.
  std::optional<Layout> groups = layout.reshape({128, 6, 32});
  ASSERT_TRUE(groups);
  EXPECT_EQ(groups->collapse(2).grow(2, 32).shape()[2], 32);
  // The odd part would end up inside a side, or be cut.
  EXPECT_FALSE(layout.reshape({192, 128}));
  EXPECT_FALSE(layout.reshape({24576}));
  EXPECT_FALSE(layout.reshape({64, 384}));
  EXPECT_FALSE(layout.reshape({66, 372}));
}

TEST(Layout, NibblesAndScalesStayInTheirThread) {
  // Bytes of two nibbles, unpacked by join and reshape: each thread has twice as many contiguous elements.
  Layout bytes = blocked({64, 64}, {1, 0}, 8, {});
  std::optional<Layout> nibbles = bytes.join().reshape({64, 128});
  ASSERT_TRUE(nibbles);
  EXPECT_EQ(nibbles->contiguity(1), 16);
  // A scale for each 32 nibbles, spread by expand, broadcast and reshape, is in the same threads as its nibbles.
  std::optional<Layout> grouped = nibbles->reshape({64, 4, 32});
  ASSERT_TRUE(grouped);
  Layout scales = grouped->slice(2);
  EXPECT_EQ(scales.shape(), (ArrayRef<int64_t>{64, 4}));
  EXPECT_EQ(scales.expand(2), grouped->collapse(2));
  forEachPoint(*nibbles, [&](const Point &point) {
    Index element = nibbles->at(point), wanted = {element[0], element[1] / 32};
    Point place = point;
    bool found = false;
    for (place[0] = 0; place[0] < scales.registers(); ++place[0])
      found |= scales.at(place) == wanted;
    ASSERT_TRUE(found);
  });
}

} // namespace
