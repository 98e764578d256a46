// Argument layout, metadata as JSON, element encoding, keys.
#include "runtime/artifact/Artifact.h"
#include "runtime/artifact/Key.h"
#include "runtime/launch/Abi.h"
#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace kiln;
using namespace kiln::artifact;

static std::vector<ArgumentSpec> makeArguments(std::initializer_list<const char *> types) {
  std::vector<ArgumentSpec> arguments;
  for (const char *type : types)
    arguments.push_back(*makeArgument("a" + std::to_string(arguments.size()), type));
  return arguments;
}

TEST(Arguments, naturalAlignmentInOrder) {
  auto arguments = makeArguments({"i1", "*fp32", "bf16", "i8", "i32", "fp64", "u16"});
  EXPECT_EQ(layoutArguments(arguments), 40u);
  std::vector<uint32_t> offsets;
  for (auto &argument : arguments)
    offsets.push_back(argument.offset);
  EXPECT_EQ(offsets, (std::vector<uint32_t>{0, 8, 16, 18, 20, 24, 32}));
}

TEST(Arguments, anEmptyBlockHasNoBytes) {
  std::vector<ArgumentSpec> none;
  EXPECT_EQ(layoutArguments(none), 0u);
}

TEST(Arguments, unknownTypesAreRefused) {
  EXPECT_FALSE(makeArgument("x", "f32").ok());
  EXPECT_NE(makeArgument("x", "*float").getStatus().getMessage().find("'*float'"), std::string::npos);
}

static Metadata makeMetadata() {
  Metadata metadata;
  metadata.abi = KILN_ABI_VERSION;
  metadata.name = "add";
  metadata.symbol = "kiln_add";
  metadata.target = llvm::json::Object{{"name", "cpu-avx2"}, {"kind", "cpu"}};
  metadata.check = "bounds";
  metadata.arguments = makeArguments({"*fp32", "i32"});
  metadata.arguments[0].written = metadata.arguments[0].disjoint = true;
  metadata.argumentsBytes = layoutArguments(metadata.arguments);
  metadata.frameBytes = 4096;
  Site site;
  site.kind = SiteKind::Assert;
  site.message = "x is \"positive\"";
  site.location = {{"file.py", 3, 8, "kernel"}, {"other.py", 30, 4, ""}};
  site.operands = {{ElementType::BF16, false, {4, 8}}, {ElementType::FP32, true, {}}};
  site.hex = true;
  metadata.sites.push_back(site);
  metadata.extra["options"] = llvm::json::Object{{"num_warps", 4}};
  return metadata;
}

TEST(Metadata, jsonRoundTrip) {
  Metadata metadata = makeMetadata();
  std::string text = metadata.print();
  ErrorOr<Metadata> read = Metadata::parse(text);
  ASSERT_TRUE(read.ok()) << read.getStatus().getMessage();
  EXPECT_EQ(read->print(), text);
  EXPECT_EQ(read->arguments[1].type, "i32");
  EXPECT_EQ(read->arguments[1].offset, 8u);
  EXPECT_EQ(read->sites[0].location[0].line, 3);
  EXPECT_EQ(read->sites[0].operands[0].shape, (std::vector<int64_t>{4, 8}));
  EXPECT_TRUE(read->sites[0].operands[1].pointer);
  EXPECT_EQ(*read->extra.getObject("options")->getInteger("num_warps"), 4);
}

TEST(Metadata, damageIsRefusedWithAPath) {
  std::string good = makeMetadata().print();
  auto expectRefused = [&](llvm::StringRef from, llvm::StringRef to, llvm::StringRef message) {
    std::string text = good;
    size_t at = text.find(from.str());
    ASSERT_NE(at, std::string::npos) << from.str();
    text.replace(at, from.size(), to.str());
    ErrorOr<Metadata> read = Metadata::parse(text);
    ASSERT_FALSE(read.ok()) << to.str();
    EXPECT_EQ(read.getStatus().getCode(), StatusCode::Corrupt);
    EXPECT_NE(read.getStatus().getMessage().find(message.str()), std::string::npos) << read.getStatus().getMessage();
  };
  expectRefused("\"abi\": 2", "\"abi\": 99", "launch interface 2");
  expectRefused("\"offset\": 8", "\"offset\": 6", "arguments[1]");
  expectRefused("\"offset\": 8", "\"offset\": 64", "hold every argument");
  expectRefused("\"*fp32\"", "\"*f32\"", "element type");
  expectRefused("\"kind\": \"assert\"", "\"kind\": \"guess\"", "sites[0].kind");
  expectRefused("\"frame_bytes\": 4096", "\"frame_bytes\": \"many\"", "frame_bytes");
  EXPECT_FALSE(Metadata::parse(good.substr(0, good.size() / 2)).ok());
}

static CudaLaunch makeCuda() {
  CudaLaunch cuda;
  cuda.numWarps = 8;
  cuda.threads = 256;
  cuda.cluster = 4;
  cuda.sharedBytes = 1024;
  cuda.maxRegisters = 64;
  cuda.pdl = true;
  cuda.ptxVersion = 90;
  cuda.form = "cubin";
  return cuda;
}

static Metadata makeMapped() {
  Metadata metadata = makeMetadata();
  metadata.arguments = makeArguments({"*bf16", "i32", "i64"});
  metadata.argumentsBytes = layoutArguments(metadata.arguments);
  metadata.cuda = makeCuda();
  metadata.cuda->persistent = true;
  metadata.cuda->roles = true;
  metadata.cuda->bounded = true;
  TensorMapSpec map;
  map.offset = 64;
  map.element = ElementType::BF16;
  map.base = 0;
  map.shape = {{-1, false, 7}, {1, true, 0}};
  map.strides = {{2, false, 0}, {-1, false, 1}};
  map.box = {128, 64};
  map.swizzle = 128;
  map.nanPadding = true;
  metadata.cuda->tensorMaps = {map};
  return metadata;
}

TEST(Metadata, tensorMapsRoundTrip) {
  Metadata metadata = makeMapped();
  auto parsed = Metadata::parse(metadata.print());
  ASSERT_TRUE(parsed.ok()) << parsed.getStatus().getMessage();
  EXPECT_EQ(parsed->print(), metadata.print());
  EXPECT_TRUE(parsed->cuda->persistent);
  EXPECT_TRUE(parsed->cuda->roles);
  EXPECT_TRUE(parsed->cuda->bounded);
  const TensorMapSpec &map = parsed->cuda->tensorMaps.at(0);
  EXPECT_EQ(map.shape[0].constant, 7);
  EXPECT_LT(map.shape[0].argument, 0);
  EXPECT_EQ(map.shape[1].argument, 1);
  EXPECT_TRUE(map.shape[1].isUnsigned);
  EXPECT_EQ(map.strides[0].argument, 2);
  EXPECT_FALSE(map.strides[0].isUnsigned);
  EXPECT_EQ(map.box, (std::vector<int64_t>{128, 64}));
  // The log comes after 24 bytes of arguments, the counted grid after the log.
  HiddenParameters hidden = layoutHidden(*parsed);
  EXPECT_EQ(hidden.log, 24u);
  EXPECT_EQ(hidden.grid, 32u);
  EXPECT_EQ(hidden.end, 44u);
}

TEST(Metadata, ownsItsText) {
  llvm::json::Value value = makeMapped().toJSON();
  llvm::json::Object &object = *value.getAsObject();
  // Like the text of MLIR attributes, which lives only as long as their context.
  std::string option = "schedule", schedule = "cooperative", size = "target size";
  object["options"] = llvm::json::Object{
      {llvm::StringRef(option), llvm::StringRef(schedule)},
      {"list", llvm::json::Array{llvm::StringRef(schedule), llvm::json::Object{{"inner", llvm::StringRef(schedule)}}}}};
  (*object.getObject("target"))[llvm::StringRef(size)] = llvm::StringRef(size);
  auto parsed = Metadata::fromJSON(value);
  ASSERT_TRUE(parsed.ok()) << parsed.getStatus().getMessage();
  Metadata copy = *parsed;
  std::string before = copy.print();
  EXPECT_NE(before.find("cooperative"), std::string::npos);
  for (std::string *text : {&option, &schedule, &size})
    text->assign(text->size(), '\xa0');
  EXPECT_EQ(copy.print(), before);
}

TEST(Metadata, positiveRequirementsRoundTrip) {
  Metadata metadata = makeMapped(); // a pointer, an i32 and an i64
  llvm::json::Value value = metadata.toJSON();
  llvm::json::Object &cuda = *value.getAsObject()->getObject("cuda");
  cuda["positive"] = llvm::json::Array{"$1 last0 -", "$2"};
  auto parsed = Metadata::fromJSON(value);
  ASSERT_TRUE(parsed.ok()) << parsed.getStatus().getMessage();
  EXPECT_EQ(parsed->toJSON(), value);
  ASSERT_EQ(parsed->cuda->positive.size(), 2u);
  struct {
    void *pointer = nullptr;
    int32_t rows = 5;
    int64_t columns = 1;
  } block;
  EXPECT_EQ(parsed->findNotPositive(&block, {5, 1, 1}), nullptr);
  EXPECT_EQ(parsed->findNotPositive(&block, {6, 1, 1}), &parsed->cuda->positive[0]);
  block.columns = 0;
  EXPECT_EQ(parsed->findNotPositive(&block, {5, 1, 1}), &parsed->cuda->positive[1]);
  for (const char *wrong : {"$0", "$3", "last3", "programs", "1 2", "+", "1 +", "", "1  2 +", "x", "$", "1.5"}) {
    cuda["positive"] = llvm::json::Array{wrong};
    EXPECT_FALSE(Metadata::fromJSON(value).ok()) << wrong;
  }
  cuda["positive"] = llvm::json::Array{7};
  EXPECT_FALSE(Metadata::fromJSON(value).ok());
}

static std::optional<int64_t> compute(const char *text, std::array<int64_t, 3> programs = {1, 1, 1}) {
  ErrorOr<LaunchNumber> number = LaunchNumber::parse(text, {});
  EXPECT_TRUE(number.ok()) << text;
  return number->evaluate({}, nullptr, programs);
}

TEST(LaunchNumber, computesAsKernelsDo) {
  EXPECT_EQ(compute("7 -2 /"), -3);
  EXPECT_EQ(compute("-7 2 %"), -1);
  EXPECT_EQ(compute("1 2 3 - *"), -1);
  EXPECT_EQ(compute("4 9 min 5 max"), 5);
  EXPECT_EQ(compute("last0 last1 + programs2 *", {10, 20, 3}), 84);
}

TEST(LaunchNumber, overflowGivesNoNumber) {
  EXPECT_EQ(compute("1 0 /"), std::nullopt);
  EXPECT_EQ(compute("1 0 %"), std::nullopt);
  EXPECT_EQ(compute("9223372036854775807 1 +"), std::nullopt);
  EXPECT_EQ(compute("-9223372036854775808 1 -"), std::nullopt);
  EXPECT_EQ(compute("4294967296 4294967296 *"), std::nullopt);
  EXPECT_EQ(compute("-9223372036854775808 -1 /"), std::nullopt);
}

TEST(LaunchNumber, pendingOperandsAreLimited) {
  std::string text = "1";
  for (int i = 1; i < 32; ++i)
    text += " 1";
  std::string sum = text;
  for (int i = 1; i < 32; ++i)
    sum += " +";
  EXPECT_EQ(compute(sum.c_str()), 32);
  EXPECT_FALSE(LaunchNumber::parse(text + " 1", {}).ok());
}

TEST(Metadata, hiddenParametersFollowTheArgumentsWithoutPadding) {
  Metadata metadata = makeMetadata(); // 12 bytes of arguments, a block of 16
  metadata.cuda = makeCuda();
  EXPECT_EQ(layoutHidden(metadata).log, 16u);
  EXPECT_EQ(layoutHidden(metadata).end, 24u);
  metadata.cuda->persistent = true;
  EXPECT_EQ(layoutHidden(metadata).grid, 24u);
  metadata.sites.clear();
  EXPECT_EQ(layoutHidden(metadata).grid, 12u);
  EXPECT_EQ(layoutHidden(metadata).end, 24u);
}

TEST(Metadata, damagedTensorMapsAreRefused) {
  auto expectRefused = [](const char *message, llvm::function_ref<void(TensorMapSpec &)> damage) {
    Metadata metadata = makeMapped();
    damage(metadata.cuda->tensorMaps[0]);
    auto read = Metadata::parse(metadata.print());
    ASSERT_FALSE(read.ok()) << message;
    EXPECT_NE(read.getStatus().getMessage().find(message), std::string::npos) << read.getStatus().getMessage();
  };
  expectRefused("multiple of 64 at metadata.cuda.tensor_maps[0].offset", [](TensorMapSpec &map) { map.offset = 72; });
  expectRefused("tensor_maps[0].offset", [](TensorMapSpec &map) { map.offset = 0; });
  expectRefused("tensor_maps[0].offset", [](TensorMapSpec &map) { map.offset = uint32_t(-64); });
  expectRefused("tensor_maps[0].base", [](TensorMapSpec &map) { map.base = 1; });
  expectRefused("tensor_maps[0].base", [](TensorMapSpec &map) { map.base = 3; });
  expectRefused("tensor_maps[0].shape", [](TensorMapSpec &map) { map.shape[1].argument = 0; });
  expectRefused("tensor_maps[0].strides", [](TensorMapSpec &map) { map.strides[0].argument = 9; });
  expectRefused("tensor_maps[0].strides", [](TensorMapSpec &map) { map.strides[1].constant = 2; });
  expectRefused("one rank from 1 to 5", [](TensorMapSpec &map) { map.shape.pop_back(); });
  expectRefused("tensor_maps[0].box", [](TensorMapSpec &map) { map.box[0] = 257; });
  expectRefused("tensor_maps[0].box", [](TensorMapSpec &map) { map.box[1] = 60; });
  expectRefused("tensor_maps[0].swizzle", [](TensorMapSpec &map) { map.swizzle = 64; });
  expectRefused("tensor_maps[0].swizzle", [](TensorMapSpec &map) { map.swizzle = 256; });
  expectRefused("tensor_maps[0].padding", [](TensorMapSpec &map) { map.element = ElementType::I16; });
  Metadata twice = makeMapped();
  twice.cuda->tensorMaps.push_back(twice.cuda->tensorMaps[0]);
  EXPECT_NE(Metadata::parse(twice.print()).getStatus().getMessage().find("tensor_maps[1].offset"), std::string::npos);
}

TEST(Metadata, whatACudaLaunchNeedsRoundTrips) {
  Metadata metadata = makeMetadata();
  EXPECT_EQ(metadata.print().find("\"cuda\""), std::string::npos) << "of other targets nothing is said";
  metadata.cuda = makeCuda();
  auto unassembled = Metadata::parse(metadata.print());
  ASSERT_TRUE(unassembled.ok()) << unassembled.getStatus().getMessage();
  EXPECT_FALSE((*unassembled).cuda->usage);
  metadata.cuda->usage = CudaLaunch::Usage{40, 8, 12, 16, 4};
  auto parsed = Metadata::parse(metadata.print());
  ASSERT_TRUE(parsed.ok()) << parsed.getStatus().getMessage();
  EXPECT_EQ((*parsed).print(), metadata.print());
  EXPECT_EQ((*parsed).cuda->cluster, 4);
  EXPECT_TRUE((*parsed).cuda->pdl);
  EXPECT_EQ((*parsed).cuda->usage->spillLoads, 12);
  EXPECT_EQ((*parsed).extra.get("cuda"), nullptr);
}

TEST(Metadata, aCudaLaunchThatNoGpuHasIsRefused) {
  auto refuses = [](void (*change)(CudaLaunch &), const char *path) {
    Metadata metadata = makeMetadata();
    metadata.cuda = makeCuda();
    change(*metadata.cuda);
    auto parsed = Metadata::parse(metadata.print());
    EXPECT_FALSE(parsed.ok());
    if (!parsed.ok())
      EXPECT_NE(parsed.getStatus().getMessage().find(path), std::string::npos) << parsed.getStatus().getMessage();
  };
  refuses([](CudaLaunch &cuda) { cuda.threads = 2048; }, "cuda");
  refuses([](CudaLaunch &cuda) { cuda.cluster = 32; }, "cuda");
  refuses([](CudaLaunch &cuda) { cuda.sharedBytes = -1; }, "cuda");
  refuses([](CudaLaunch &cuda) { cuda.form = "elf"; }, "cuda.form");
}

TEST(ElementType, namesRoundTrip) {
  for (unsigned i = 0; i < numElementTypes; ++i)
    EXPECT_EQ(parseElementType(getName(ElementType(i))), ElementType(i));
  EXPECT_EQ(parseElementType("u1"), ElementType::I1);
  EXPECT_EQ(parseElementType("tf32"), std::nullopt);
}

TEST(ElementType, narrowFloatsRoundToNearestEven) {
  auto through = [](ElementType type, double value) {
    char bytes[8];
    encodeFloat(type, value, bytes);
    return decodeFloat(type, bytes);
  };
  EXPECT_EQ(through(ElementType::BF16, 1.0 + 1.0 / 256), 1.0);      // ties round to even
  EXPECT_EQ(through(ElementType::BF16, 1.0 + 3.0 / 256), 1.015625); // and this tie rounds upward
  EXPECT_EQ(through(ElementType::FP16, 65504), 65504);
  EXPECT_EQ(through(ElementType::FP16, 1e6), INFINITY);
  EXPECT_EQ(through(ElementType::FP8E5, 57344), 57344);
  EXPECT_EQ(through(ElementType::FP8E4NV, 448), 448);
  EXPECT_TRUE(std::isnan(through(ElementType::BF16, NAN)));
  EXPECT_EQ(through(ElementType::FP32, 0.1), double(0.1f));
}

TEST(ElementType, floatsOf8BitsSaturate) {
  auto through = [](ElementType type, double value) {
    char bytes[8];
    encodeFloat(type, value, bytes);
    return decodeFloat(type, bytes);
  };
  for (auto [type, largest] : {std::pair(ElementType::FP8E4NV, 448.0), std::pair(ElementType::FP8E5, 57344.0)}) {
    for (double beyond : {largest * 1.001, largest * 1.2, 1e300, double(INFINITY)}) {
      EXPECT_EQ(through(type, beyond), largest);
      EXPECT_EQ(through(type, -beyond), -largest);
    }
    EXPECT_TRUE(std::isnan(through(type, NAN)));
  }
}

TEST(ElementType, integersExtendBySign) {
  const uint8_t bytes[] = {0xff, 0xff};
  EXPECT_EQ(int64_t(decodeInteger(ElementType::I16, bytes)), -1);
  EXPECT_EQ(decodeInteger(ElementType::U16, bytes), 65535u);
}

static std::string keyOf(std::initializer_list<std::pair<const char *, std::string>> fields,
                         const char *kind = "artifact") {
  std::vector<KeyField> list;
  for (auto &[name, value] : fields)
    list.push_back(makeField(name, value));
  return makeKey(kind, list);
}

TEST(Key, everyFieldCountsAndFieldsAreSeparated) {
  std::set<std::string> keys{
      keyOf({}),
      keyOf({{"a", "b"}}),
      keyOf({{"a", "b"}}, "index"),
      keyOf({{"ab", ""}}),
      keyOf({{"", "ab"}}),
      keyOf({{"a", "b"}, {"c", ""}}),
      keyOf({{"c", ""}, {"a", "b"}}),
      keyOf({{"a", ""}, {"b", ""}}),
  };
  EXPECT_EQ(keys.size(), 8u);
  EXPECT_EQ(keyOf({{"a", "b"}}), keyOf({{"a", "b"}}));
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Key, longValuesAreHashedAndDifferFromTheirDigestsText) {
  std::string text(kLongestFieldValue + 1, 'x');
  KeyField field = makeField("ir", text);
  EXPECT_EQ(field.value, digest(text));
  EXPECT_EQ(field.bytes, text.size());
  EXPECT_NE(keyOf({{"ir", text}}), keyOf({{"ir", digest(text)}}));
  EXPECT_EQ(makeField("ir", std::string(kLongestFieldValue, 'x')).bytes, 0u);
}
