// The rules of specialisation, keys, packing, and signatures as text.
#include "runtime/launch/Specialize.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::launch;
using Kind = Specialization::Kind;

static ParameterRule makeRule(std::optional<ElementType> annotation = std::nullopt) {
  ParameterRule rule;
  rule.name = "n";
  rule.annotation = annotation;
  return rule;
}

static Specialization specialize(int64_t value, const ParameterRule &rule = makeRule()) {
  CallEncoder encoder;
  EXPECT_TRUE(encoder.addInteger(rule, value).ok());
  return decodeKey(encoder.getKey()).at(0);
}

TEST(Specialize, integersByValue) {
  EXPECT_EQ(specialize(5).getType(), "i32");
  EXPECT_FALSE(specialize(5).divisible);
  EXPECT_TRUE(specialize(32).divisible);
  EXPECT_TRUE(specialize(0).divisible);
  EXPECT_TRUE(specialize(-16).divisible);
  EXPECT_EQ(specialize(INT32_MAX).getType(), "i32");
  EXPECT_EQ(specialize(int64_t(INT32_MAX) + 1).getType(), "i64");
  EXPECT_EQ(specialize(int64_t(INT32_MIN) - 1).getType(), "i64");
  CallEncoder encoder;
  ASSERT_TRUE(encoder.addUnsigned(makeRule(), uint64_t(1) << 63).ok());
  EXPECT_EQ(decodeKey(encoder.getKey()).at(0).getType(), "u64");
}

TEST(Specialize, oneIsAConstant) {
  EXPECT_EQ(specialize(1).kind, Kind::Integer);
  ParameterRule rule = makeRule();
  rule.specialize = false;
  EXPECT_EQ(specialize(1, rule).getType(), "i32");
  EXPECT_FALSE(specialize(32, rule).divisible);
  rule = makeRule();
  rule.specializeAlignment = false;
  EXPECT_EQ(specialize(1, rule).kind, Kind::Integer);
  EXPECT_FALSE(specialize(32, rule).divisible);
}

TEST(Specialize, descriptorStridesAreSpecialisedFurther) {
  ParameterRule rule = makeRule();
  EXPECT_EQ(specialize(24).divisor, 1);
  rule.isStride = true;
  EXPECT_TRUE(specialize(48, rule).divisible);
  EXPECT_EQ(specialize(24, rule).divisor, 8);
  EXPECT_FALSE(specialize(24, rule).divisible);
  EXPECT_EQ(specialize(-8, rule).divisor, 8);
  EXPECT_EQ(specialize(20, rule).divisor, 4);
  EXPECT_EQ(specialize(18, rule).divisor, 1);
  EXPECT_EQ(specialize(1, rule).kind, Kind::Integer);
  rule.specializeAlignment = false;
  EXPECT_EQ(specialize(24, rule).divisor, 1);
  // Without the rule, keys are unchanged, byte for byte.
  CallEncoder encoder;
  ASSERT_TRUE(encoder.addInteger(makeRule(), 24).ok());
  EXPECT_EQ(encoder.getKey(), llvm::StringRef("\x07\x03\x00", 3));
}

TEST(Specialize, anyIntegerMayBeAStrideIfPointersAreDescribed) {
  auto specialized = [](int64_t value, bool drop) {
    CallEncoder encoder;
    encoder.setDescribes(true);
    EXPECT_TRUE(encoder.addInteger(makeRule(), value).ok());
    if (drop)
      encoder.dropDescribed();
    return decodeKey(encoder.getKey()).at(0);
  };
  EXPECT_TRUE(specialized(32, false).divisible);
  EXPECT_EQ(specialized(24, false).divisor, 8);
  EXPECT_EQ(specialized(12, false).divisor, 4);
  EXPECT_FALSE(specialized(0, false).divisible);
  EXPECT_EQ(specialized(0, false).divisor, 1);
  // After reverting, keys are as elsewhere.
  EXPECT_TRUE(specialized(32, true).divisible);
  EXPECT_EQ(specialized(24, true).divisor, 1);
  EXPECT_TRUE(specialized(0, true).divisible);
}

TEST(Specialize, rowsOfDescriptorsAreWholeOrNot) {
  auto whole = [](ElementType element, int64_t columns, const ParameterRule &rule = makeRule()) {
    CallEncoder encoder;
    encoder.addDescriptor(rule, element, reinterpret_cast<void *>(64), {8, 32}, false, {5, columns}, {64, 1});
    return decodeKey(encoder.getKey()).at(0).wholeRows;
  };
  EXPECT_TRUE(whole(ElementType::FP16, 8));
  EXPECT_FALSE(whole(ElementType::FP16, 12));
  EXPECT_TRUE(whole(ElementType::FP32, 12));
  EXPECT_FALSE(whole(ElementType::I8, 8));
  ParameterRule rule = makeRule();
  rule.specializeAlignment = false;
  EXPECT_FALSE(whole(ElementType::FP16, 8, rule));
}

TEST(Specialize, annotationsFixTheType) {
  EXPECT_EQ(specialize(1, makeRule(ElementType::I64)).getType(), "i64");
  EXPECT_TRUE(specialize(32, makeRule(ElementType::I64)).divisible);
  EXPECT_EQ(specialize(7, makeRule(ElementType::FP16)).getType(), "fp16");
  CallEncoder encoder;
  EXPECT_FALSE(encoder.addInteger(makeRule(ElementType::U8), 256).ok());
  EXPECT_FALSE(encoder.addInteger(makeRule(ElementType::U32), -1).ok());
  EXPECT_FALSE(encoder.addInteger(makeRule(ElementType::I1), 2).ok());
  EXPECT_FALSE(encoder.addFloat(makeRule(ElementType::I32), 1.5).ok());
  EXPECT_EQ(encoder.addInteger(makeRule(ElementType::U8), 256).getMessage(),
            "expected a value of uint8 (because the parameter is annotated so), got 256");
}

TEST(Specialize, packsAsMetadataLaysOut) {
  CallEncoder encoder;
  float data[16];
  encoder.addPointer(makeRule(), ElementType::FP32, data);
  ASSERT_TRUE(encoder.addBool(makeRule(), true).ok());
  ASSERT_TRUE(encoder.addInteger(makeRule(), 1).ok());
  ASSERT_TRUE(encoder.addInteger(makeRule(), -7).ok());
  ASSERT_TRUE(encoder.addFloat(makeRule(), 0.5).ok());
  int64_t block[] = {32, 64}, shape[] = {100, 200}, strides[] = {256, 1};
  encoder.addDescriptor(makeRule(), ElementType::BF16, data, block, true, shape, strides);
  encoder.beginTuple(2);
  ASSERT_TRUE(encoder.addInteger(makeRule(), int64_t(1) << 40).ok());
  encoder.addNone();

  std::vector<Specialization> items = decodeKey(encoder.getKey());
  uint32_t bytes;
  auto arguments = flatten({"x", "flag", "one", "n", "scale", "d", "pair"}, items, bytes);
  std::string text;
  for (auto &argument : arguments)
    text += argument.name + ":" + argument.type + "@" + std::to_string(argument.offset) + " ";
  EXPECT_EQ(text, "x:*fp32@0 flag:i1@8 n:i32@12 scale:fp32@16 d:*bf16@24 d.shape.0:i64@32 d.shape.1:i64@40 "
                  "d.stride.0:i64@48 d.stride.1:i64@56 pair.0:i64@64 ");
  EXPECT_EQ(encoder.getBlockBytes(), bytes);
  const char *packed = static_cast<const char *>(encoder.getBlock());
  auto read = [&](auto value, unsigned offset) {
    std::memcpy(&value, packed + offset, sizeof value);
    return value;
  };
  EXPECT_EQ(read(static_cast<float *>(nullptr), 0), data);
  EXPECT_EQ(read(int8_t(), 8), 1);
  EXPECT_EQ(read(int32_t(), 12), -7);
  EXPECT_EQ(read(float(), 16), 0.5f);
  EXPECT_EQ(read(int64_t(), 40), 200);
  EXPECT_EQ(read(int64_t(), 48), 256);
  EXPECT_EQ(read(int64_t(), 64), int64_t(1) << 40);
}

TEST(Specialize, constantsDifferByTypeAndBits) {
  std::vector<std::string> keys;
  auto add = [&](auto fill) {
    CallEncoder encoder;
    fill(encoder);
    for (const std::string &other : keys)
      EXPECT_NE(other, encoder.getKey().str());
    keys.push_back(encoder.getKey().str());
  };
  add([](CallEncoder &e) { e.addConstantInteger(1); });
  add([](CallEncoder &e) { e.addConstantBool(true); });
  add([](CallEncoder &e) { e.addConstantFloat(1.0); });
  add([](CallEncoder &e) { e.addConstantFloat(0.0); });
  add([](CallEncoder &e) { e.addConstantFloat(-0.0); });
  add([](CallEncoder &e) { e.addConstantString("1"); });
  add([](CallEncoder &e) { e.addConstantBigInteger("1"); });
  add([](CallEncoder &e) { e.addNone(); });
  add([](CallEncoder &e) { e.addConstantObject(1); });
  add([](CallEncoder &e) { e.beginTuple(0); });
  for (const char *fields : {"", "a", "b"})
    add([&](CallEncoder &e) {
      e.beginTuple(1, fields);
      e.addNone();
    });
  for (int64_t classId : {1, 2})
    add([&](CallEncoder &e) {
      e.beginTuple(1, "", classId);
      e.addNone();
    });
}

TEST(Specialize, keysSurviveDecodingAndEncoding) {
  for (const char *text : {"*fp32:16",
                           "*bf16",
                           "i32",
                           "i64:16",
                           "u8",
                           "fp16",
                           "i1",
                           "1024",
                           "-3",
                           "2.5",
                           "True",
                           "None",
                           "'text, x'",
                           "tensordesc<fp16[64,32]>:16",
                           "tensordesc<fp16[64,32]>:16:rows",
                           "tensordesc<i8[32]>:rows",
                           "i32:8",
                           "i64:4",
                           "(*fp32:16, (i32, 4), None)",
                           "i32:1",
                           "()"}) {
    ErrorOr<Specialization> parsed = parseSpecialization(text);
    ASSERT_TRUE(parsed.ok()) << text;
    std::string key = encodeKey({*parsed});
    std::vector<Specialization> again = decodeKey(key);
    ASSERT_EQ(again.size(), 1u) << text;
    EXPECT_EQ(encodeKey(again), key) << text;
    EXPECT_EQ(again[0].getType(), parsed->getType());
    EXPECT_EQ(again[0].divisible, parsed->divisible);
    EXPECT_EQ(again[0].divisor, parsed->divisor);
    EXPECT_EQ(again[0].wholeRows, parsed->wholeRows);
  }
}

TEST(Specialize, aSignatureGivesTheKeyOfTheLaunch) {
  CallEncoder encoder;
  encoder.addPointer(makeRule(), ElementType::FP32, reinterpret_cast<void *>(4096));
  ASSERT_TRUE(encoder.addInteger(makeRule(), 1000).ok());
  ASSERT_TRUE(encoder.addInteger(makeRule(), 1).ok());
  encoder.addConstantInteger(128);
  std::vector<Specialization> items;
  for (const char *text : {"*fp32:16", "i32", "i32:1", "128"})
    items.push_back(*parseSpecialization(text));
  EXPECT_EQ(encodeKey(items), encoder.getKey().str());
}

TEST(Specialize, itemsOfNamedTuplesHaveNames) {
  ErrorOr<Specialization> parsed = parseSpecialization("(data=*fp16:16, rows = i32, step=None, block=(a=1, b='x=y'))");
  ASSERT_TRUE(parsed.ok()) << parsed.getStatus().getMessage();
  EXPECT_EQ(parsed->text, "data,rows,step,block");
  ASSERT_EQ(parsed->items.size(), 4u);
  EXPECT_EQ(parsed->items[0].getType(), "*fp16");
  EXPECT_TRUE(parsed->items[0].divisible);
  EXPECT_EQ(parsed->items[2].kind, Kind::None);
  EXPECT_EQ(parsed->items[3].text, "a,b");
  EXPECT_EQ(parsed->items[3].items[1].text, "x=y");
  EXPECT_EQ(parseSpecialization("(*fp16, i32)")->text, "");
  for (const char *text : {"(a=i32, i32)", "(i32, b=i32)", "(1=i32)", "(a=)"})
    EXPECT_FALSE(parseSpecialization(text).ok()) << text;
}

TEST(Specialize, signaturesAreItemsInOrder) {
  ErrorOr<std::vector<Specialization>> parsed = parseSignature("*fp32:16, (i32, 'a, b'), 2.5");
  ASSERT_TRUE(parsed.ok());
  ASSERT_EQ(parsed->size(), 3u);
  EXPECT_EQ(parsed->at(1).items.size(), 2u);
  EXPECT_EQ(parsed->at(2).number, 2.5);
  EXPECT_TRUE(parseSignature("")->empty());
  EXPECT_FALSE(parseSignature("i32, what").ok());
}

TEST(Specialize, countsAreBoundedOrNot) {
  auto isBounded = [](int64_t value) {
    CallEncoder encoder;
    EXPECT_TRUE(encoder.addInteger(makeRule(), 7).ok() && encoder.isBounded());
    EXPECT_TRUE(encoder.addInteger(makeRule(), value).ok());
    bool bounded = encoder.isBounded();
    EXPECT_TRUE(encoder.addInteger(makeRule(), 7).ok());
    EXPECT_EQ(encoder.isBounded(), bounded);
    encoder.clear();
    EXPECT_TRUE(encoder.isBounded());
    return bounded;
  };
  EXPECT_TRUE(isBounded(0) && isBounded(1) && isBounded(artifact::kMostCount));
  EXPECT_FALSE(isBounded(-1) || isBounded(artifact::kMostCount + 1) || isBounded(INT64_MAX) || isBounded(INT64_MIN));
  CallEncoder encoder;
  ASSERT_TRUE(encoder.addUnsigned(makeRule(), uint64_t(1) << 63).ok());
  EXPECT_FALSE(encoder.isBounded());
  // A descriptor's extents and strides are also arguments of the code; constants and floats are not counted.
  for (int64_t stride : {int64_t(64), artifact::kMostCount + 16}) {
    encoder.clear();
    encoder.addDescriptor(makeRule(), ElementType::FP16, nullptr, {64, 64}, /*nanPadding=*/false, {8, 64}, {stride, 1});
    EXPECT_EQ(encoder.isBounded(), stride == 64);
  }
  encoder.clear();
  encoder.addConstantInteger(-5);
  ASSERT_TRUE(encoder.addFloat(makeRule(), -2.5).ok());
  EXPECT_TRUE(encoder.isBounded());
}

TEST(Specialize, unreadableTextIsRefused) {
  for (const char *text :
       {"", "f32", "*", "fp32:16", "*fp32:8", "fp32:1", "tensordesc<fp32[]>", "tensordesc<fp32[0]>", "tensordesc<fp32>",
        "tensordesc<fp32[8]>:8", "fp32:4", "i32:rows", "*i8:rows", "i32:2", "(i32", "'open", "1.2.3", "i32 i32"})
    EXPECT_FALSE(parseSpecialization(text).ok()) << text;
}
