// Encodes calls, and decodes keys.
#include "runtime/launch/Specialize.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <climits>
#include <cmath>
#include <cstring>

using namespace kiln;
using namespace kiln::launch;
using artifact::ArgumentSpec;
using Kind = Specialization::Kind;

// Flags in a key: of scalars, pointers and descriptors; of descriptors; of descriptors; of scalars.
static constexpr char divisibleFlag = DivisorRule::divisible, nanFlag = 2, rowsFlag = 4, by8Flag = DivisorRule::by8Flag,
                      by4Flag = DivisorRule::by4Flag;

//===-- Encoding -------------------------------------------------------------------------------------------------===//

void CallEncoder::clear() {
  key.clear();
  block.clear();
  dropped.clear();
  used = 0;
  bounded = true;
}

void CallEncoder::startAt(size_t bytes) {
  clear();
  used = bytes;
}

void *CallEncoder::reserve(unsigned bytes) {
  size_t offset = (used + bytes - 1) / bytes * bytes; // sizes are powers of two and equal to the alignment
  used = offset + bytes;
  block.resize((used + 7) / 8, 0);
  return reinterpret_cast<char *>(block.data()) + offset;
}

const void *CallEncoder::getBlock() {
  block.resize((used + 7) / 8 + 1, 0);
  return block.data();
}

void CallEncoder::addKeyBytes(const void *data, size_t size) {
  key.append(static_cast<const char *>(data), static_cast<const char *>(data) + size);
}

void CallEncoder::addKeyInteger(int64_t value) { addKeyBytes(&value, sizeof value); }

void CallEncoder::addScalarKey(ElementType element, char divisibility) {
  const char bytes[] = {char(Kind::Scalar), char(element), divisibility};
  addKeyBytes(bytes, 3);
}

void CallEncoder::addNone() { key.push_back(char(Kind::None)); }

static bool isDivisible(const ParameterRule &rule, uint64_t value) {
  return rule.specialize && rule.specializeAlignment && value % 16 == 0;
}

void CallEncoder::addIntegerKey(const ParameterRule &rule, ElementType element, uint64_t value) {
  char plain = DivisorRule(rule, /*describes=*/false).tell(value);
  char said = describes ? DivisorRule(rule, /*describes=*/true).tell(value) : plain;
  addScalarKey(element, said);
  if (said != plain)
    dropped.push_back({key.size() - 1, plain});
}

void CallEncoder::dropDescribed() {
  for (auto [place, divisibility] : dropped)
    key[place] = divisibility;
  dropped.clear();
}

/// True if the integer type holds the value.
static bool fits(ElementType type, int64_t value) {
  if (type == ElementType::I1)
    return value == 0 || value == 1;
  unsigned bits = 8 * artifact::getBytes(type);
  if (artifact::isSignedInteger(type))
    return bits == 64 || (value >= -(int64_t(1) << (bits - 1)) && value < (int64_t(1) << (bits - 1)));
  return value >= 0 && (bits == 64 || uint64_t(value) < (uint64_t(1) << bits));
}

static bool isCount(int64_t value) { return value >= 0 && value <= artifact::kMostCount; }

static Status doesNotFit(const ParameterRule &rule, std::string value) {
  return invalidArgument(llvm::formatv("expected a value of {0} (because the parameter is annotated so), got {1}",
                                       artifact::getLanguageName(*rule.annotation), value));
}

Status CallEncoder::addBool(const ParameterRule &rule, bool value) {
  if (rule.annotation)
    return addInteger(rule, value);
  addScalarKey(ElementType::I1);
  *static_cast<char *>(reserve(1)) = value;
  return {};
}

void CallEncoder::addPlainInteger(const ParameterRule &rule, int64_t value) {
  if (value == 1 && rule.specialize)
    return addConstantInteger(1);
  bool narrow = value == int32_t(value);
  bounded &= isCount(value);
  addIntegerKey(rule, narrow ? ElementType::I32 : ElementType::I64, uint64_t(value));
  if (narrow)
    std::memcpy(reserve(4), &value, 4);
  else
    std::memcpy(reserve(8), &value, 8);
}

Status CallEncoder::addInteger(const ParameterRule &rule, int64_t value) {
  if (!rule.annotation) {
    addPlainInteger(rule, value);
    return {};
  }
  ElementType type = *rule.annotation;
  if (artifact::isFloat(type))
    return addFloat(rule, double(value));
  if (!fits(type, value))
    return doesNotFit(rule, std::to_string(value));
  unsigned bytes = artifact::getBytes(type);
  bounded &= isCount(value);
  if (type == ElementType::I1)
    addScalarKey(type);
  else
    addIntegerKey(rule, type, uint64_t(value));
  std::memcpy(reserve(bytes), &value, bytes);
  return {};
}

Status CallEncoder::addUnsigned(const ParameterRule &rule, uint64_t value) {
  if (rule.annotation && artifact::isFloat(*rule.annotation))
    return addFloat(rule, double(value));
  if (rule.annotation && *rule.annotation != ElementType::U64)
    return doesNotFit(rule, std::to_string(value));
  bounded &= value <= uint64_t(artifact::kMostCount);
  addIntegerKey(rule, ElementType::U64, value);
  std::memcpy(reserve(8), &value, 8);
  return {};
}

Status CallEncoder::addFloat(const ParameterRule &rule, double value) {
  ElementType type = rule.annotation.value_or(ElementType::FP32);
  if (!artifact::isFloat(type))
    return doesNotFit(rule, llvm::formatv("the float {0}", llvm::format("%g", value)));
  addScalarKey(type);
  artifact::encodeFloat(type, value, reserve(artifact::getBytes(type)));
  return {};
}

void CallEncoder::addPointer(const ParameterRule &rule, ElementType element, const void *address) {
  bool divisible = isDivisible(rule, reinterpret_cast<uintptr_t>(address));
  const char bytes[] = {char(Kind::Pointer), char(element), divisible ? divisibleFlag : char(0)};
  addKeyBytes(bytes, 3);
  std::memcpy(reserve(8), &address, 8);
}

void CallEncoder::addDescriptor(const ParameterRule &rule, ElementType element, const void *base,
                                llvm::ArrayRef<int64_t> blockShape, bool nanPadding, llvm::ArrayRef<int64_t> shape,
                                llvm::ArrayRef<int64_t> strides) {
  bool divisible = isDivisible(rule, reinterpret_cast<uintptr_t>(base));
  bool wholeRows = !shape.empty() && isDivisible(rule, uint64_t(shape.back()) * artifact::getBytes(element));
  const char bytes[] = {char(Kind::Descriptor), char(element),
                        char((divisible ? divisibleFlag : 0) | (nanPadding ? nanFlag : 0) | (wholeRows ? rowsFlag : 0)),
                        char(blockShape.size())};
  addKeyBytes(bytes, 4);
  for (int64_t side : blockShape)
    addKeyInteger(side);
  std::memcpy(reserve(8), &base, 8);
  for (llvm::ArrayRef<int64_t> list : {shape, strides})
    for (int64_t number : list) {
      bounded &= isCount(number);
      std::memcpy(reserve(8), &number, 8);
    }
}

void CallEncoder::beginTuple(size_t items, llvm::StringRef fields, int64_t classId) {
  key.push_back(char(Kind::Tuple));
  addKeyInteger(classId);
  addKeyInteger(items);
  addKeyInteger(fields.size());
  addKeyBytes(fields.data(), fields.size());
}

void CallEncoder::addConstantBool(bool value) {
  const char bytes[] = {char(Kind::Bool), char(value)};
  addKeyBytes(bytes, 2);
}

void CallEncoder::addConstantInteger(int64_t value) {
  key.push_back(char(Kind::Integer));
  addKeyInteger(value);
}

static void addText(llvm::SmallVectorImpl<char> &key, Kind kind, llvm::StringRef text) {
  uint64_t size = text.size();
  key.push_back(char(kind));
  key.append(reinterpret_cast<char *>(&size), reinterpret_cast<char *>(&size + 1));
  key.append(text.begin(), text.end());
}

void CallEncoder::addConstantBigInteger(llvm::StringRef number) { addText(key, Kind::BigInteger, number); }
void CallEncoder::addConstantString(llvm::StringRef value) { addText(key, Kind::String, value); }

void CallEncoder::addConstantFloat(double value) {
  key.push_back(char(Kind::Float));
  addKeyBytes(&value, sizeof value); // by bits: 0.0 and -0.0 are different constants, and a nan equals itself
}

void CallEncoder::addConstantObject(int64_t id) {
  key.push_back(char(Kind::Object));
  addKeyInteger(id);
}

Status kiln::launch::checkDescriptor(ElementType element, const void *base, llvm::ArrayRef<int64_t> block,
                                     llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides) {
  if (shape.size() != block.size() || strides.size() != block.size() || block.empty() || block.size() > 5)
    return invalidArgument(llvm::formatv("expected shape, strides and block shape of one rank from 1 to 5, got ranks "
                                         "{0}, {1} and {2}",
                                         shape.size(), strides.size(), block.size()));
  if (strides.back() != 1)
    return invalidArgument(llvm::formatv("expected a descriptor whose last stride is 1, got {0}", strides.back()));
  int64_t bytes = artifact::getBytes(element);
  if (block.back() * bytes < 16)
    return invalidArgument(llvm::formatv("expected a descriptor of blocks with rows of 16 bytes or more, got {0} bytes",
                                         block.back() * bytes));
  if (reinterpret_cast<uintptr_t>(base) % 16)
    return invalidArgument(llvm::formatv("expected a descriptor whose base is aligned to 16 bytes, got address {0:x}",
                                         reinterpret_cast<uintptr_t>(base)));
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] < 0 || shape[i] > int64_t(1) << 32)
      return invalidArgument(llvm::formatv("expected extents of 0 to 2^32, got {0} in dimension {1}", shape[i], i));
  for (size_t i = 0; i + 1 < strides.size(); ++i) {
    if (strides[i] < 0 || strides[i] >= (int64_t(1) << 40) / bytes)
      return invalidArgument(llvm::formatv(
          "expected strides of 0 to 2^40 bytes, got {0} elements of {1} bytes in dimension {2}", strides[i], bytes, i));
    if (strides[i] * bytes % 16)
      return invalidArgument(
          llvm::formatv("expected strides that are multiples of 16 bytes, got {0} bytes in dimension "
                        "{1}",
                        strides[i] * bytes, i));
  }
  return {};
}

//===-- Decoding -------------------------------------------------------------------------------------------------===//

namespace {
class KeyReader {
public:
  explicit KeyReader(llvm::StringRef key) : rest(key) {}
  bool atEnd() const { return rest.empty(); }

  Specialization next() {
    Specialization result;
    result.kind = Kind(read<char>());
    switch (result.kind) {
    case Kind::None:
      break;
    case Kind::Bool:
      result.integer = read<char>();
      break;
    case Kind::Integer:
    case Kind::Object:
      result.integer = read<int64_t>();
      break;
    case Kind::Float:
      result.number = read<double>();
      break;
    case Kind::String:
    case Kind::BigInteger:
      readText(result.text);
      break;
    case Kind::Scalar:
    case Kind::Pointer:
    case Kind::Descriptor: {
      result.element = ElementType(read<char>());
      char flags = read<char>();
      result.divisible = flags & divisibleFlag;
      result.nanPadding = flags & nanFlag;
      result.wholeRows = flags & rowsFlag;
      result.divisor = flags & by8Flag ? 8 : flags & by4Flag ? 4 : 1;
      if (result.kind == Kind::Descriptor)
        for (char rank = read<char>(); rank > 0; --rank)
          result.block.push_back(read<int64_t>());
      break;
    }
    case Kind::Tuple: {
      result.integer = read<int64_t>();
      int64_t items = read<int64_t>();
      readText(result.text);
      for (; items > 0; --items)
        result.items.push_back(next());
      break;
    }
    }
    return result;
  }

private:
  template <typename T> T read() {
    T value;
    std::memcpy(&value, rest.data(), sizeof value);
    rest = rest.drop_front(sizeof value);
    return value;
  }
  void readText(std::string &text) {
    uint64_t size = read<uint64_t>();
    text = rest.take_front(size).str();
    rest = rest.drop_front(size);
  }
  llvm::StringRef rest;
};
} // namespace

std::vector<Specialization> kiln::launch::decodeKey(llvm::StringRef key) {
  std::vector<Specialization> result;
  for (KeyReader reader(key); !reader.atEnd();)
    result.push_back(reader.next());
  return result;
}

static void encode(CallEncoder &encoder, const Specialization &item) {
  // Values with exactly the facts that the specialisation states, encoded by the same rules as a call's.
  ParameterRule rule;
  rule.annotation = item.element;
  rule.isStride = item.divisor > 1;
  int64_t number = item.divisible ? 16 : item.divisor;
  const void *address = reinterpret_cast<const void *>(number);
  switch (item.kind) {
  case Kind::None:
    return encoder.addNone();
  case Kind::Bool:
    return encoder.addConstantBool(item.integer);
  case Kind::Integer:
    return encoder.addConstantInteger(item.integer);
  case Kind::BigInteger:
    return encoder.addConstantBigInteger(item.text);
  case Kind::Float:
    return encoder.addConstantFloat(item.number);
  case Kind::String:
    return encoder.addConstantString(item.text);
  case Kind::Object:
    return encoder.addConstantObject(item.integer);
  case Kind::Scalar:
    (void)encoder.addInteger(rule, item.element == ElementType::I1 ? 0 : number);
    return;
  case Kind::Pointer:
    return encoder.addPointer(rule, item.element, address);
  case Kind::Descriptor: {
    llvm::SmallVector<int64_t> strides(item.block.size(), 0), shape(item.block.size(), item.wholeRows ? 0 : 1);
    return encoder.addDescriptor(rule, item.element, address, item.block, item.nanPadding, shape, strides);
  }
  case Kind::Tuple:
    encoder.beginTuple(item.items.size(), item.text, item.integer);
    for (const Specialization &inner : item.items)
      encode(encoder, inner);
  }
}

std::string kiln::launch::encodeKey(llvm::ArrayRef<Specialization> specializations) {
  CallEncoder encoder;
  for (const Specialization &item : specializations)
    encode(encoder, item);
  return encoder.getKey().str();
}

//===-- As arguments ---------------------------------------------------------------------------------------------===//

std::string Specialization::getType() const {
  std::string name(artifact::getName(element));
  switch (kind) {
  case Kind::Scalar:
    return name;
  case Kind::Pointer:
    return "*" + name;
  case Kind::Descriptor: {
    std::string sides;
    for (int64_t side : block)
      sides += (sides.empty() ? "" : ",") + std::to_string(side);
    return "tensordesc<" + name + "[" + sides + "]>";
  }
  default:
    return "";
  }
}

static void flattenInto(std::vector<ArgumentSpec> &arguments, const std::string &name, const Specialization &item) {
  auto add = [&](std::string name, std::string type) {
    arguments.push_back(*artifact::makeArgument(std::move(name), std::move(type)));
  };
  switch (item.kind) {
  case Kind::Scalar:
  case Kind::Pointer:
    return add(name, item.getType());
  case Kind::Descriptor:
    add(name, "*" + std::string(artifact::getName(item.element)));
    for (const char *part : {".shape.", ".stride."})
      for (size_t i = 0; i < item.block.size(); ++i)
        add(name + part + std::to_string(i), "i64");
    return;
  case Kind::Tuple:
    for (size_t i = 0; i < item.items.size(); ++i)
      flattenInto(arguments, name + "." + std::to_string(i), item.items[i]);
    return;
  default:
    return;
  }
}

std::vector<ArgumentSpec> kiln::launch::flatten(llvm::ArrayRef<std::string> names,
                                                llvm::ArrayRef<Specialization> specializations, uint32_t &blockBytes) {
  std::vector<ArgumentSpec> arguments;
  for (size_t i = 0; i < specializations.size(); ++i)
    flattenInto(arguments, names[i], specializations[i]);
  blockBytes = artifact::layoutArguments(arguments);
  return arguments;
}

bool kiln::launch::isPackedFor(const artifact::Metadata &metadata, llvm::ArrayRef<ArgumentSpec> packed,
                               uint32_t blockBytes) {
  if (metadata.arguments.size() != packed.size() || metadata.argumentsBytes > blockBytes + 8)
    return false;
  for (size_t i = 0; i < packed.size(); ++i)
    if (metadata.arguments[i].offset != packed[i].offset || metadata.arguments[i].size != packed[i].size ||
        metadata.arguments[i].kind != packed[i].kind)
      return false;
  return true;
}

//===-- From text ------------------------------------------------------------------------------------------------===//

static Status unreadable(llvm::StringRef text) {
  return invalidArgument(llvm::formatv("expected a type such as '*fp32:16', 'i32' or 'tensordesc<fp16[64,32]>', a "
                                       "constant such as 1024, 0.5, True, None or 'text', or a tuple of these, got "
                                       "'{0}'",
                                       text));
}

/// Splits at commas outside any bracket or quote.
static llvm::SmallVector<llvm::StringRef> splitItems(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> items;
  int depth = 0;
  char quote = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quote)
      quote = c == quote ? 0 : quote;
    else if (c == '\'' || c == '"')
      quote = c;
    else if (strchr("([<", c))
      ++depth;
    else if (strchr(")]>", c))
      --depth;
    else if (c == ',' && depth == 0) {
      items.push_back(text.slice(begin, i).trim());
      begin = i + 1;
    }
  }
  if (!text.drop_front(begin).trim().empty())
    items.push_back(text.drop_front(begin).trim());
  return items;
}

/// Strips the name from an item such as "rows=i32:16" and returns it; empty if there is none.
static llvm::StringRef takeField(llvm::StringRef &item) {
  size_t letters = 0;
  while (letters < item.size() && (isalnum(static_cast<unsigned char>(item[letters])) || item[letters] == '_'))
    ++letters;
  llvm::StringRef name = item.take_front(letters), rest = item.drop_front(letters).ltrim();
  if (name.empty() || isdigit(static_cast<unsigned char>(name[0])) || !rest.consume_front("="))
    return {};
  item = rest.trim();
  return name;
}

static bool parseConstant(llvm::StringRef text, Specialization &result) {
  if (text == "None") {
    result.kind = Kind::None;
    return true;
  }
  if (text == "True" || text == "False") {
    result.kind = Kind::Bool;
    result.integer = text == "True";
    return true;
  }
  if (!text.getAsInteger(0, result.integer)) {
    result.kind = Kind::Integer;
    return true;
  }
  if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front()) {
    result.kind = Kind::String;
    result.text = text.drop_front().drop_back().str();
    return true;
  }
  if (!text.empty() && (isdigit(text[0]) || strchr("+-.", text[0]) || text == "inf" || text == "nan") &&
      !text.getAsDouble(result.number)) {
    result.kind = Kind::Float;
    return true;
  }
  return false;
}

ErrorOr<Specialization> kiln::launch::parseSpecialization(llvm::StringRef text) {
  Specialization result;
  llvm::StringRef whole = text = text.trim();
  if (parseConstant(text, result))
    return result;
  if (text.consume_front("(")) {
    if (!text.consume_back(")"))
      return unreadable(whole);
    result.kind = Kind::Tuple;
    unsigned named = 0;
    for (llvm::StringRef item : splitItems(text)) {
      llvm::StringRef field = takeField(item);
      named += !field.empty();
      result.text += (result.items.empty() ? "" : ",") + field.str();
      ErrorOr<Specialization> inner = parseSpecialization(item);
      if (!inner.ok())
        return inner;
      result.items.push_back(std::move(*inner));
    }
    // Either all items have names, or none.
    if (named && named != result.items.size())
      return unreadable(whole);
    if (!named)
      result.text.clear();
    return result;
  }
  result.wholeRows = text.consume_back(":rows");
  if (text.consume_back(":16")) {
    result.divisible = true;
  } else if (text.consume_back(":8")) {
    result.divisor = 8;
  } else if (text.consume_back(":4")) {
    result.divisor = 4;
  } else if (text.consume_back(":1")) {
    result.kind = Kind::Integer;
    result.integer = 1;
    std::optional<ElementType> type = artifact::parseElementType(text);
    if (!type || !artifact::isInteger(*type))
      return unreadable(whole);
    return result;
  }
  result.kind = Kind::Scalar;
  if (text.consume_front("*")) {
    result.kind = Kind::Pointer;
  } else if (text.consume_front("tensordesc<")) {
    result.kind = Kind::Descriptor;
    auto [element, sides] = text.split('[');
    if (!sides.consume_back("]>"))
      return unreadable(whole);
    for (llvm::StringRef side : splitItems(sides)) {
      int64_t number;
      if (side.getAsInteger(10, number) || number < 1)
        return unreadable(whole);
      result.block.push_back(number);
    }
    if (result.block.empty() || result.block.size() > 5)
      return unreadable(whole);
    text = element;
  }
  std::optional<ElementType> type = artifact::parseElementType(text);
  bool isInteger = result.kind == Kind::Scalar && type && artifact::isInteger(*type);
  if (!type || (result.divisible && result.kind == Kind::Scalar && !isInteger) || (result.divisor > 1 && !isInteger) ||
      (result.wholeRows && result.kind != Kind::Descriptor))
    return unreadable(whole);
  result.element = *type;
  return result;
}

ErrorOr<std::vector<Specialization>> kiln::launch::parseSignature(llvm::StringRef text) {
  std::vector<Specialization> result;
  for (llvm::StringRef item : splitItems(text)) {
    ErrorOr<Specialization> parsed = parseSpecialization(item);
    if (!parsed.ok())
      return parsed.getStatus();
    result.push_back(std::move(*parsed));
  }
  return result;
}
