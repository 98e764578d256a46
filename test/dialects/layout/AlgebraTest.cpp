// Laws of the algebra on random layouts; results outside the class are reported, not asserted.
#include "dialects/layout/Algebra.h"
#include "Random.h"
#include "gtest/gtest.h"
#include <set>

using namespace kiln::layout;
using namespace llvm;

namespace {

/// A random map between random digits, often not surjective.
Map randomMap(Rng &rng, const Map::Radices &domain, const Map::Radices &codomain) {
  SmallVector<uint64_t, 24> images;
  uint64_t bits = 0, odd = 0;
  for (unsigned j = 0; j < codomain.size(); ++j)
    bits |= uint64_t(codomain[j] == 2) << j;
  for (int64_t radix : domain) {
    uint64_t image = 0;
    if (radix == 2)
      image = rng() & bits;
    else
      for (unsigned j = 0; j < codomain.size(); ++j)
        if (codomain[j] == radix && !(odd >> j & 1) && !image)
          image = uint64_t(1) << j;
    if (radix != 2)
      odd |= image;
    images.push_back(image);
  }
  return *Map::create(domain, codomain, images);
}

Map::Radices randomDigits(Rng &rng, unsigned most) {
  Map::Radices digits;
  for (int64_t i = pick(rng, 1, most); i--;)
    digits.push_back(pick(rng, 0, 3) ? 2 : 3);
  return digits;
}

SmallVector<int64_t, 24> randomValues(Rng &rng, const Map::Radices &digits) {
  SmallVector<int64_t, 24> values;
  for (int64_t radix : digits)
    values.push_back(pick(rng, 0, radix - 1));
  return values;
}

TEST(Algebra, ComposeIsAssociativeAndApplies) {
  Rng rng(21);
  for (int i = 0; i < 3000; ++i) {
    Map::Radices a = randomDigits(rng, 8), b = randomDigits(rng, 8), c = randomDigits(rng, 8), d = randomDigits(rng, 8);
    Map f = randomMap(rng, a, b), g = randomMap(rng, b, c), h = randomMap(rng, c, d);
    std::optional<Map> gf = compose(g, f), hg = compose(h, g);
    ASSERT_TRUE(gf && hg);
    EXPECT_EQ(*compose(h, *gf), *compose(*hg, f));
    EXPECT_EQ(*compose(g, Map::identity(b)), g);
    EXPECT_EQ(*compose(Map::identity(c), g), g);
    auto values = randomValues(rng, a);
    EXPECT_EQ((*gf)(values), g(f(values)));
  }
}

TEST(Algebra, RightInverse) {
  Rng rng(22);
  int inverted = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    Map f = randomMap(rng, randomDigits(rng, 10), randomDigits(rng, 5));
    std::optional<Map> inverse = rightInverse(f);
    if (inverse) {
      ++inverted;
      EXPECT_EQ(*compose(f, *inverse), Map::identity(f.codomain));
      continue;
    }
    ++refused;
    // An empty result is correct only if some value is not reached: count the values that are.
    std::set<std::vector<int64_t>> reached;
    SmallVector<int64_t, 24> values(f.domain.size(), 0);
    int64_t total = 1;
    for (int64_t radix : f.codomain)
      total *= radix;
    for (bool more = true; more;) {
      auto result = f(values);
      reached.insert(std::vector<int64_t>(result.begin(), result.end()));
      more = false;
      for (unsigned d = 0; d < values.size() && !more; ++d) {
        more = ++values[d] < f.domain[d];
        if (!more)
          values[d] = 0;
      }
    }
    EXPECT_LT(int64_t(reached.size()), total);
  }
  EXPECT_GT(inverted, 300);
  EXPECT_GT(refused, 300);
}

TEST(Algebra, LayoutsInvertToTheirOwners) {
  Rng rng(23);
  for (int i = 0; i < 1000; ++i) {
    RandomForm form;
    form.repeats = 4;
    form.ctaBits = pick(rng, 0, 1);
    Layout layout = randomLayout(rng, randomShape(rng), form);
    Map map = mapOf(layout);
    std::optional<Map> inverse = rightInverse(map);
    ASSERT_TRUE(inverse) << layout.print();
    EXPECT_EQ(*compose(map, *inverse), Map::identity(map.codomain));
    uint64_t owners = 0;
    unsigned position = 0;
    for (unsigned c = 0; c < kNumCoords; ++c) {
      owners |= layout.ownerMask(Coord(c)) << position;
      position += layout.digits(Coord(c)).size();
    }
    for (uint64_t image : inverse->images)
      EXPECT_EQ(image & owners, 0u) << layout.print();
  }
}

TEST(Algebra, LayoutsCompose) {
  Rng rng(24);
  int done = 0;
  for (int i = 0; i < 1500; ++i) {
    auto shape = randomShape(rng);
    if (!splitSide(elements(shape)))
      continue;
    Layout memory = randomMemory(rng, shape), memory2 = randomMemory(rng, {elements(shape)});
    RandomForm form;
    Layout registers = randomLayout(rng, {elements(shape)}, form);
    std::optional<Layout> composed = compose(memory, registers);
    if (!composed)
      continue; // the odd part of the rows is at a different digit than that of the offsets
    ++done;
    forEachPoint(registers, [&](const Point &point) {
      ASSERT_EQ(composed->at(point), memory.at(Coord::Offset, registers.at(point)[0]));
    });
    std::optional<Layout> inner = compose(memory2, registers), outer = compose(memory, memory2);
    if (inner && outer && compose(memory, *inner))
      EXPECT_EQ(*compose(memory, *inner), *compose(*outer, registers));
  }
  EXPECT_GT(done, 300);
  EXPECT_FALSE(compose(rowMajor({8, 8}, {1, 0}), blocked({32}, {0}, 1, {})));
  EXPECT_FALSE(compose(rowMajor({8, 192}, {1, 0}), blocked({1536}, {0}, 1, {})));
}

TEST(Algebra, ProductAndDivision) {
  Rng rng(25);
  int done = 0;
  for (int i = 0; i < 2000; ++i) {
    auto shape = randomShape(rng, 6);
    SmallVector<int64_t, 3> outerShape;
    for (size_t d = 0; d < shape.size(); ++d)
      outerShape.push_back(int64_t(1) << pick(rng, 0, 2));
    RandomForm form;
    form.warpBits = 0;
    Layout inner = randomLayout(rng, shape, form);
    // The repetition adds no lanes.
    std::array<Digits, kNumCoords> digits;
    for (unsigned d = 0; d < shape.size(); ++d)
      for (int64_t step = 1; step < outerShape[d]; step *= 2) {
        Index basis(shape.size(), 0);
        basis[d] = step;
        digits[pick(rng, 0, 1) ? unsigned(Coord::Reg) : unsigned(Coord::Warp)].push_back({2, basis});
      }
    Layout outer = *Layout::create(outerShape, digits);
    std::optional<Layout> whole = product(inner, outer);
    bool oddInside = false;
    for (size_t d = 0; d < shape.size(); ++d)
      oddInside |= splitSide(shape[d])->odd > 1 && outerShape[d] > 1;
    ASSERT_EQ(whole.has_value(), !oddInside);
    if (!whole)
      continue;
    ++done;
    std::optional<Layout> quotient = divide(*whole, inner);
    ASSERT_TRUE(quotient);
    EXPECT_EQ(*quotient, outer);
    forEachPoint(*whole, [&](const Point &point) {
      Point in = {}, out = {};
      for (unsigned c = 0; c < kNumCoords; ++c) {
        in[c] = point[c] % inner.size(Coord(c));
        out[c] = point[c] / inner.size(Coord(c));
      }
      Index expected = inner.at(in), step = outer.at(out);
      for (unsigned d = 0; d < shape.size(); ++d)
        expected[d] += shape[d] * step[d];
      ASSERT_EQ(whole->at(point), expected);
    });
  }
  EXPECT_GT(done, 500);
  Layout wgmma = *wgmmaAccumulator({64, 176}, 1), atom = *wgmmaAccumulator({64, 8}, 1);
  ASSERT_TRUE(divide(wgmma, atom));
  EXPECT_EQ(divide(wgmma, atom)->print(), "digits [1, 22] reg (0, 1) 11*(0, 2)");
  EXPECT_FALSE(divide(atom, wgmma));
  EXPECT_FALSE(divide(blocked({64, 64}, {1, 0}, 4, {}), atom));
}

TEST(Algebra, FormIsChecked) {
  EXPECT_FALSE(Map::create({2}, {3}, {uint64_t(1)}));
  EXPECT_FALSE(Map::create({3}, {2}, {uint64_t(1)}));
  EXPECT_FALSE(Map::create({3}, {3, 3}, {uint64_t(3)}));
  EXPECT_FALSE(Map::create({3, 3}, {3}, {uint64_t(1), uint64_t(1)}));
  EXPECT_FALSE(Map::create({4}, {2}, {uint64_t(0)}));
  EXPECT_FALSE(Map::create({2}, {2}, {uint64_t(2)}));
  EXPECT_FALSE(Map::create({2}, {2}, {}));
  EXPECT_TRUE(Map::create({3, 3}, {3}, {uint64_t(1), uint64_t(0)}));
  EXPECT_FALSE(compose(Map::identity({2, 3}), Map::identity({3, 2})));
  Map::Radices many(65, 2);
  EXPECT_FALSE(Map::create(many, {}, SmallVector<uint64_t>(65, 0)));
}

} // namespace
