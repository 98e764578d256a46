// The choice among variants, against a statement in terms of values: a variant fits a call if what it states about each
// argument is true of the argument's value.
#include "runtime/launch/Dispatch.h"
#include <gtest/gtest.h>
#include <random>

using namespace kiln;
using namespace kiln::launch;
using Kind = Specialization::Kind;

static Dispatcher::Variant read(const char *signature) {
  ErrorOr<std::vector<Specialization>> parsed = parseSignature(signature);
  EXPECT_TRUE(parsed.ok()) << parsed.getStatus().getMessage();
  return *parsed;
}

static Dispatcher make(std::vector<const char *> signatures) {
  std::vector<Dispatcher::Variant> variants;
  for (const char *signature : signatures)
    variants.push_back(read(signature));
  return Dispatcher(std::move(variants));
}

/// The key of a call with an array of fp32 at `address` and integers.
static std::string keyOf(uintptr_t address, std::vector<int64_t> numbers, ElementType element = ElementType::FP32) {
  CallEncoder encoder;
  ParameterRule rule;
  encoder.addPointer(rule, element, reinterpret_cast<const void *>(address));
  for (int64_t number : numbers)
    EXPECT_TRUE(encoder.addInteger(rule, number).ok());
  return encoder.getKey().str();
}

TEST(Dispatch, theMostSpecificThatFitsWins) {
  Dispatcher dispatcher = make({"*fp32, i32", "*fp32:16, i32", "*fp32:16, i32:16", "*fp32, 1", "*fp16, i32"});
  EXPECT_EQ(dispatcher.find(keyOf(0x1004, {5})), 0u);
  EXPECT_EQ(dispatcher.find(keyOf(0x1000, {5})), 1u);
  EXPECT_EQ(dispatcher.find(keyOf(0x1000, {32})), 2u);
  EXPECT_EQ(dispatcher.find(keyOf(0x1004, {32})), 0u);
  EXPECT_EQ(dispatcher.find(keyOf(0x1000, {1})), 3u);
  EXPECT_EQ(dispatcher.find(keyOf(0x1000, {32}, ElementType::FP16)), 4u);
  EXPECT_EQ(dispatcher.find(keyOf(0x1000, {32}, ElementType::BF16)), std::nullopt);
  // Asked again, the cached answers are the same.
  EXPECT_EQ(dispatcher.find(keyOf(0x1004, {5})), 0u);
  EXPECT_EQ(dispatcher.find(keyOf(0x1000, {32})), 2u);
}

TEST(Dispatch, ofEqualsTheFirst) {
  EXPECT_EQ(make({"*fp32, i32", "*fp32, i32"}).find(keyOf(0x1000, {5})), 0u);
  EXPECT_EQ(make({"*fp32:16, i32", "*fp32, i32:16"}).find(keyOf(0x1000, {16})), 0u);
  EXPECT_EQ(make({"*fp32, i32:16", "*fp32:16, i32"}).find(keyOf(0x1000, {16})), 0u);
}

TEST(Dispatch, widerCodeTakesNarrowerIntegers) {
  Dispatcher dispatcher = make({"*fp32, i64", "*fp32, i32"});
  EXPECT_EQ(dispatcher.find(keyOf(0x1000, {5})), 1u);
  EXPECT_EQ(dispatcher.find(keyOf(0x1000, {int64_t(1) << 40})), 0u);
  EXPECT_EQ(make({"*fp32, i64"}).find(keyOf(0x1000, {5})), 0u);
  EXPECT_EQ(make({"*fp32, i32"}).find(keyOf(0x1000, {int64_t(1) << 40})), std::nullopt);
  EXPECT_EQ(make({"*fp32, fp32"}).find(keyOf(0x1000, {5})), std::nullopt);
  EXPECT_EQ(make({"*fp32, i1"}).find(keyOf(0x1000, {1})), std::nullopt);
}

TEST(Dispatch, theErrorSaysWhyNoneFits) {
  Dispatcher dispatcher = make({"*fp32:16, i32:16", "*fp16, i32"});
  EXPECT_EQ(dispatcher.explain(keyOf(0x1000, {5}), {"x", "n"}),
            "\n  variant 0: argument 'n': expected a multiple of 16, got i32"
            "\n  variant 1: argument 'x': expected *fp16, got *fp32:16");
  EXPECT_EQ(findMisfit(read("i32:8")[0], read("i32:4")[0]), "expected a multiple of 8, got i32:4");
  EXPECT_EQ(findMisfit(read("i32:4")[0], read("i32:8")[0]), "");
  EXPECT_EQ(findMisfit(read("7")[0], read("8")[0]), "expected 7, got 8");
  EXPECT_EQ(findMisfit(read("'a'")[0], read("'b'")[0]), "expected 'a', got 'b'");
  EXPECT_EQ(findMisfit(read("1")[0], read("True")[0]), "expected 1, got True");
  EXPECT_EQ(findMisfit(read("None")[0], read("*fp32")[0]), "expected None, got *fp32");
  EXPECT_EQ(findMisfit(read("tensordesc<fp16[64,32]>:16:rows")[0], read("tensordesc<fp16[64,32]>:16")[0]),
            "expected rows of a multiple of 16 bytes, got tensordesc<fp16[64,32]>:16");
  EXPECT_EQ(findMisfit(read("tensordesc<fp16[64,32]>")[0], read("tensordesc<fp16[8,8]>:16")[0]), "");
  EXPECT_EQ(findMisfit(read("(*fp32, i32:16)")[0], read("(*fp32, i32)")[0]),
            "item 1: expected a multiple of 16, got i32");
}

namespace {
/// What a signature states about an integer, as text and as a predicate on its value.
struct Fact {
  const char *text;
  bool (*holds)(int64_t);
};
constexpr Fact kFacts[] = {
    {"i64", [](int64_t) { return true; }},
    {"i32", [](int64_t n) { return n >= INT32_MIN && n <= INT32_MAX; }},
    {"i64:16", [](int64_t n) { return n % 16 == 0; }},
    {"i32:16", [](int64_t n) { return n >= INT32_MIN && n <= INT32_MAX && n % 16 == 0; }},
    {"1", [](int64_t n) { return n == 1; }},
};
constexpr int64_t kValues[] = {0, 1, 2, 16, 17, -16, -1, int64_t(1) << 31, (int64_t(1) << 31) + 1, INT32_MIN, 1 << 30};
} // namespace

TEST(Dispatch, randomVariantsFitByTheirValues) {
  std::mt19937 random(7);
  auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  constexpr size_t arity = 3;
  size_t fitted = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::array<size_t, arity>> facts(1 + below(5));
    std::vector<Dispatcher::Variant> variants;
    for (auto &variant : facts) {
      std::string text = "*fp32";
      for (size_t &fact : variant) {
        fact = below(std::size(kFacts));
        text += std::string(", ") + kFacts[fact].text;
      }
      variants.push_back(read(text.c_str()));
    }
    Dispatcher dispatcher(std::move(variants));
    for (int call = 0; call < 8; ++call) {
      std::vector<int64_t> numbers;
      for (size_t i = 0; i < arity; ++i)
        numbers.push_back(kValues[below(std::size(kValues))]);
      auto fits = [&](size_t variant) {
        for (size_t i = 0; i < arity; ++i)
          if (!kFacts[facts[variant][i]].holds(numbers[i]))
            return false;
        return true;
      };
      std::optional<unsigned> chosen = dispatcher.find(keyOf(0x1004, numbers));
      bool any = false;
      for (size_t other = 0; other < facts.size(); ++other)
        any |= fits(other);
      ASSERT_EQ(chosen.has_value(), any);
      if (!chosen)
        continue;
      ++fitted;
      ASSERT_TRUE(fits(*chosen));
      // No other variant that fits is strictly more specific: one that implies the chosen one for every value, while
      // the reverse does not hold for some value.
      for (size_t other = 0; other < facts.size(); ++other) {
        bool implies = fits(other), less = false;
        for (size_t i = 0; i < arity; ++i)
          for (int64_t value : kValues) {
            bool a = kFacts[facts[other][i]].holds(value), b = kFacts[facts[*chosen][i]].holds(value);
            implies &= !a || b;
            less |= b && !a;
          }
        ASSERT_FALSE(implies && less) << "variant " << other << " is more special than " << *chosen;
      }
    }
  }
  EXPECT_GT(fitted, 1000u);
}
