// Metadata to and from JSON, and the layout of the argument block.
#include "runtime/artifact/Artifact.h"
#include "runtime/launch/Abi.h"
#include "llvm/Support/FormatVariadic.h"
#include <cstring>

using namespace kiln;
using namespace kiln::artifact;
namespace json = llvm::json;

//===-- Arguments ------------------------------------------------------------------------------------------------===//

ErrorOr<ArgumentSpec> kiln::artifact::makeArgument(std::string name, std::string type) {
  llvm::StringRef text = type;
  ArgumentSpec spec;
  spec.kind = text.consume_front("*") ? ArgumentKind::Pointer : ArgumentKind::Scalar;
  std::optional<ElementType> element = parseElementType(text);
  if (!element)
    return corrupt(llvm::formatv("expected an element type for argument '{0}', got '{1}'", name, type).str());
  spec.element = *element;
  spec.size = spec.align = spec.kind == ArgumentKind::Pointer ? 8 : getBytes(*element);
  spec.name = std::move(name);
  spec.type = std::move(type);
  return spec;
}

uint32_t kiln::artifact::layoutArguments(std::vector<ArgumentSpec> &arguments) {
  uint32_t offset = 0;
  for (ArgumentSpec &argument : arguments) {
    offset = (offset + argument.align - 1) / argument.align * argument.align;
    argument.offset = offset;
    offset += argument.size;
  }
  return (offset + 7) / 8 * 8;
}

HiddenParameters kiln::artifact::layoutHidden(const Metadata &metadata) {
  HiddenParameters hidden;
  for (const ArgumentSpec &argument : metadata.arguments)
    hidden.end = std::max(hidden.end, argument.offset + argument.size);
  if (!metadata.sites.empty()) {
    hidden.log = (hidden.end + 7) / 8 * 8;
    hidden.end = hidden.log + 8;
  }
  if (metadata.cuda && metadata.cuda->persistent) {
    hidden.grid = (hidden.end + 3) / 4 * 4;
    hidden.end = hidden.grid + 12;
  }
  return hidden;
}

//===-- Names of enumerators in JSON -----------------------------------------------------------------------------===//

static constexpr llvm::StringLiteral siteNames[] = {"print", "assert", "load", "store", "atomic"};
static llvm::StringRef getKindName(ArgumentKind kind) { return kind == ArgumentKind::Pointer ? "pointer" : "scalar"; }

//===-- To JSON --------------------------------------------------------------------------------------------------===//

static json::Value toJSON(const ArgumentSpec &argument) {
  json::Object object{{"name", argument.name},     {"type", argument.type}, {"kind", getKindName(argument.kind)},
                      {"offset", argument.offset}, {"size", argument.size}, {"align", argument.align}};
  if (argument.written)
    object["written"] = true;
  if (argument.disjoint)
    object["disjoint"] = true;
  return object;
}

static json::Value toJSON(const Site &site) {
  json::Array location, operands;
  for (const SourceFrame &frame : site.location)
    location.push_back(json::Array{frame.file, frame.line, frame.column, frame.function});
  for (const Site::Operand &operand : site.operands)
    operands.push_back(json::Object{{"type", (operand.pointer ? "*" : "") + std::string(getName(operand.type))},
                                    {"shape", json::Array(operand.shape)}});
  return json::Object{{"kind", siteNames[unsigned(site.kind)]},
                      {"message", site.message},
                      {"location", std::move(location)},
                      {"operands", std::move(operands)},
                      {"hex", site.hex}};
}

static json::Value toJSON(const TensorMapSpec &map) {
  auto list = [](const std::vector<TensorMapSpec::Number> &numbers) {
    json::Array array;
    for (const TensorMapSpec::Number &number : numbers) {
      if (number.argument < 0) {
        array.push_back(number.constant);
        continue;
      }
      json::Object argument{{"argument", number.argument}};
      if (number.isUnsigned)
        argument["unsigned"] = true;
      array.push_back(std::move(argument));
    }
    return array;
  };
  return json::Object{{"offset", map.offset},
                      {"element", std::string(getName(map.element))},
                      {"base", map.base},
                      {"shape", list(map.shape)},
                      {"strides", list(map.strides)},
                      {"box", json::Array(map.box)},
                      {"swizzle", map.swizzle},
                      {"padding", map.nanPadding ? "nan" : "zero"}};
}

int64_t artifact::readInteger(const ArgumentSpec &argument, const char *parameters, bool isUnsigned) {
  const char *at = parameters + argument.offset;
  auto as = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return int64_t(value);
  };
  switch (argument.size) {
  case 1:
    return isUnsigned ? as(uint8_t()) : as(int8_t());
  case 2:
    return isUnsigned ? as(uint16_t()) : as(int16_t());
  case 4:
    return isUnsigned ? as(uint32_t()) : as(int32_t());
  default:
    return as(int64_t());
  }
}

static json::Value toJSON(const CudaLaunch &cuda) {
  json::Object object{{"num_warps", cuda.numWarps},
                      {"threads", cuda.threads},
                      {"cluster", cuda.cluster},
                      {"shared_bytes", cuda.sharedBytes},
                      {"max_registers", cuda.maxRegisters},
                      {"pdl", cuda.pdl},
                      {"ptx_version", cuda.ptxVersion},
                      {"form", cuda.form}};
  if (cuda.persistent)
    object["persistent"] = true;
  if (cuda.roles)
    object["roles"] = true;
  if (cuda.attends)
    object["attends"] = true;
  if (cuda.bounded)
    object["bounded"] = true;
  if (!cuda.positive.empty()) {
    json::Array numbers;
    for (const LaunchNumber &number : cuda.positive)
      numbers.push_back(number.getText());
    object["positive"] = std::move(numbers);
  }
  if (!cuda.tensorMaps.empty()) {
    json::Array maps;
    for (const TensorMapSpec &map : cuda.tensorMaps)
      maps.push_back(toJSON(map));
    object["tensor_maps"] = std::move(maps);
  }
  if (const std::optional<CudaLaunch::Usage> &usage = cuda.usage)
    object["usage"] = json::Object{{"registers", usage->registers},
                                   {"spill_stores", usage->spillStores},
                                   {"spill_loads", usage->spillLoads},
                                   {"stack", usage->stack},
                                   {"shared", usage->shared}};
  return object;
}

json::Value Metadata::toJSON() const {
  json::Array argumentList, siteList;
  for (const ArgumentSpec &argument : arguments)
    argumentList.push_back(::toJSON(argument));
  for (const Site &site : sites)
    siteList.push_back(::toJSON(site));
  json::Object object = extra;
  object["abi"] = abi;
  object["name"] = name;
  object["symbol"] = symbol;
  object["target"] = json::Object(target);
  object["check"] = check;
  object["arguments"] = std::move(argumentList);
  object["arguments_bytes"] = argumentsBytes;
  object["frame_bytes"] = frameBytes;
  object["workspace_bytes"] = workspaceBytes;
  object["sites"] = std::move(siteList);
  if (waits)
    object["waits"] = true;
  if (cuda)
    object["cuda"] = ::toJSON(*cuda);
  return object;
}

std::string Metadata::print() const {
  // llvm::json prints the keys of an object in sorted order.
  return llvm::formatv("{0:2}\n", toJSON()).str();
}

//===-- From JSON ------------------------------------------------------------------------------------------------===//
// json::ObjectMapper gives "expected integer at metadata.arguments[0].size" by itself.

static bool parseTypeName(const json::Object &object, bool &pointer, ElementType &element, json::Path path) {
  std::optional<llvm::StringRef> text = object.getString("type");
  if (!text) {
    path.field("type").report("expected a string");
    return false;
  }
  pointer = text->consume_front("*");
  std::optional<ElementType> parsed = parseElementType(*text);
  if (!parsed) {
    path.field("type").report("expected an element type");
    return false;
  }
  element = *parsed;
  return true;
}

/// `value` with text of its own. A value made from a StringRef only refers to its text, and so do copies of it; the
/// text of an attribute, for example, would go away with the context that holds it.
static json::Value owned(const json::Value &value) {
  if (std::optional<llvm::StringRef> text = value.getAsString())
    return text->str();
  if (const json::Array *array = value.getAsArray()) {
    json::Array copy;
    for (const json::Value &item : *array)
      copy.push_back(owned(item));
    return copy;
  }
  if (const json::Object *object = value.getAsObject()) {
    json::Object copy;
    for (const auto &[name, item] : *object)
      copy.try_emplace(name.str(), owned(item));
    return copy;
  }
  return value;
}

namespace kiln::artifact {

static bool fromJSON(const json::Value &value, ArgumentSpec &argument, json::Path path) {
  std::string kind;
  int64_t offset, size, align;
  bool pointer;
  json::ObjectMapper mapper(value, path);
  if (!mapper || !mapper.map("name", argument.name) || !mapper.map("type", argument.type) ||
      !mapper.map("kind", kind) || !mapper.map("offset", offset) || !mapper.map("size", size) ||
      !mapper.map("align", align) || !mapper.mapOptional("written", argument.written) ||
      !mapper.mapOptional("disjoint", argument.disjoint) ||
      !parseTypeName(*value.getAsObject(), pointer, argument.element, path))
    return false;
  argument.kind = pointer ? ArgumentKind::Pointer : ArgumentKind::Scalar;
  argument.offset = offset;
  argument.size = size;
  argument.align = align;
  int64_t expected = pointer ? 8 : getBytes(argument.element);
  if (kind != getKindName(argument.kind) || size != expected || align != expected || offset < 0 || offset % align) {
    path.report("expected kind, size, alignment and offset to fit the type");
    return false;
  }
  return true;
}

static bool fromJSON(const json::Value &value, SourceFrame &frame, json::Path path) {
  const json::Array *array = value.getAsArray();
  if (!array || array->size() != 4) {
    path.report("expected [file, line, column, function]");
    return false;
  }
  return json::fromJSON((*array)[0], frame.file, path.index(0)) &&
         json::fromJSON((*array)[1], frame.line, path.index(1)) &&
         json::fromJSON((*array)[2], frame.column, path.index(2)) &&
         json::fromJSON((*array)[3], frame.function, path.index(3));
}

static bool fromJSON(const json::Value &value, Site::Operand &operand, json::Path path) {
  json::ObjectMapper mapper(value, path);
  return mapper && mapper.map("shape", operand.shape) &&
         parseTypeName(*value.getAsObject(), operand.pointer, operand.type, path);
}

static bool fromJSON(const json::Value &value, Site &site, json::Path path) {
  std::string kind;
  json::ObjectMapper mapper(value, path);
  if (!mapper || !mapper.map("kind", kind) || !mapper.map("message", site.message) ||
      !mapper.map("location", site.location) || !mapper.mapOptional("operands", site.operands) ||
      !mapper.mapOptional("hex", site.hex))
    return false;
  for (unsigned i = 0; i < std::size(siteNames); ++i)
    if (siteNames[i] == kind) {
      site.kind = SiteKind(i);
      return true;
    }
  path.field("kind").report("expected print, assert, load, store or atomic");
  return false;
}

static bool fromJSON(const json::Value &value, CudaLaunch::Usage &usage, json::Path path) {
  json::ObjectMapper mapper(value, path);
  return mapper && mapper.map("registers", usage.registers) && mapper.map("spill_stores", usage.spillStores) &&
         mapper.map("spill_loads", usage.spillLoads) && mapper.map("stack", usage.stack) &&
         mapper.map("shared", usage.shared);
}

static bool fromJSON(const json::Value &value, TensorMapSpec::Number &number, json::Path path) {
  if (std::optional<int64_t> constant = value.getAsInteger()) {
    number.constant = *constant;
    return true;
  }
  json::ObjectMapper mapper(value, path);
  if (!mapper || !mapper.map("argument", number.argument) || !mapper.mapOptional("unsigned", number.isUnsigned))
    return false;
  if (number.argument < 0) {
    path.field("argument").report("expected the index of an argument");
    return false;
  }
  return true;
}

static bool fromJSON(const json::Value &value, TensorMapSpec &map, json::Path path) {
  std::string element, padding;
  json::ObjectMapper mapper(value, path);
  if (!mapper || !mapper.map("offset", map.offset) || !mapper.map("element", element) ||
      !mapper.map("base", map.base) || !mapper.map("shape", map.shape) || !mapper.map("strides", map.strides) ||
      !mapper.map("box", map.box) || !mapper.map("swizzle", map.swizzle) || !mapper.map("padding", padding))
    return false;
  std::optional<ElementType> type = parseElementType(element);
  if (!type) {
    path.field("element").report("expected an element type");
    return false;
  }
  map.element = *type;
  if (map.offset % kTensorMapAlign) {
    path.field("offset").report("expected a multiple of 64");
    return false;
  }
  if (map.rank() < 1 || map.rank() > 5 || map.shape.size() != map.rank() || map.strides.size() != map.rank()) {
    path.report("expected shape, strides and box of one rank from 1 to 5");
    return false;
  }
  for (int64_t side : map.box)
    if (side < 1 || side > 256) {
      path.field("box").report("expected sides of 1 to 256");
      return false;
    }
  int64_t rowBytes = map.box.back() * getBytes(*type);
  if (rowBytes % 16) {
    path.field("box").report("expected rows of a multiple of 16 bytes");
    return false;
  }
  const TensorMapSpec::Number &last = map.strides.back();
  if (last.argument >= 0 || last.constant != 1) {
    path.field("strides").report("expected 1 as the last");
    return false;
  }
  bool swizzles = map.swizzle == 32 || map.swizzle == 64 || map.swizzle == 128;
  if (map.swizzle && (!swizzles || rowBytes > map.swizzle)) {
    path.field("swizzle").report("expected 0, 32, 64 or 128, no less than a row of the box");
    return false;
  }
  map.nanPadding = padding == "nan";
  if ((!map.nanPadding && padding != "zero") || (map.nanPadding && (!isFloat(*type) || getBytes(*type) == 1))) {
    path.field("padding").report("expected zero, or nan for floats of 16 bits and more");
    return false;
  }
  return true;
}

/// The most bytes of parameters that a kernel may have.
static constexpr uint32_t kMostParameterBytes = 32764;

/// Checks that every number comes from an existing argument, and that the maps follow the other parameters in order.
static bool checkTensorMaps(const Metadata &metadata, json::Path path) {
  uint32_t end = layoutHidden(metadata).end;
  for (size_t i = 0; i < metadata.cuda->tensorMaps.size(); ++i) {
    const TensorMapSpec &map = metadata.cuda->tensorMaps[i];
    json::Path here = path.index(i);
    if (map.offset < end || map.offset > kMostParameterBytes - kTensorMapBytes) {
      here.field("offset").report("expected an offset after the parameters before it, and at most 32764 bytes of all");
      return false;
    }
    end = map.offset + kTensorMapBytes;
    if (map.base >= metadata.arguments.size() || metadata.arguments[map.base].kind != ArgumentKind::Pointer) {
      here.field("base").report("expected the index of a pointer argument");
      return false;
    }
    for (auto [name, list] : {std::pair("shape", &map.shape), std::pair("strides", &map.strides)})
      for (const TensorMapSpec::Number &number : *list) {
        if (number.argument < 0)
          continue;
        if (size_t(number.argument) >= metadata.arguments.size() ||
            metadata.arguments[number.argument].kind != ArgumentKind::Scalar ||
            !isInteger(metadata.arguments[number.argument].element)) {
          here.field(name).report("expected indices of integer arguments");
          return false;
        }
      }
  }
  return true;
}

static bool readPositive(const json::Value &value, Metadata &metadata, json::Path path) {
  const json::Array *texts = value.getAsObject()->getObject("cuda")->getArray("positive");
  for (size_t i = 0; texts && i < texts->size(); ++i) {
    std::optional<llvm::StringRef> text = (*texts)[i].getAsString();
    ErrorOr<LaunchNumber> number = LaunchNumber::parse(text.value_or(""), metadata.arguments);
    if (!number.ok()) {
      path.index(i).report("expected a number of the launch, of its integer arguments and its grid");
      return false;
    }
    metadata.cuda->positive.push_back(std::move(*number));
  }
  return true;
}

static bool fromJSON(const json::Value &value, CudaLaunch &cuda, json::Path path) {
  json::ObjectMapper mapper(value, path);
  if (!mapper || !mapper.map("num_warps", cuda.numWarps) || !mapper.map("threads", cuda.threads) ||
      !mapper.map("cluster", cuda.cluster) || !mapper.map("shared_bytes", cuda.sharedBytes) ||
      !mapper.map("max_registers", cuda.maxRegisters) || !mapper.map("pdl", cuda.pdl) ||
      !mapper.map("ptx_version", cuda.ptxVersion) || !mapper.map("form", cuda.form) ||
      !mapper.mapOptional("persistent", cuda.persistent) || !mapper.mapOptional("roles", cuda.roles) ||
      !mapper.mapOptional("attends", cuda.attends) || !mapper.mapOptional("bounded", cuda.bounded) ||
      !mapper.mapOptional("tensor_maps", cuda.tensorMaps) || !mapper.mapOptional("usage", cuda.usage))
    return false;
  if (cuda.numWarps < 1 || cuda.threads < cuda.numWarps || cuda.threads > 1024 || cuda.cluster < 1 ||
      cuda.cluster > 16 || cuda.sharedBytes < 0 || cuda.maxRegisters < 0) {
    path.report("expected 1 to 1024 threads, 1 to 16 blocks per cluster and sizes that are not negative");
    return false;
  }
  if (!cuda.form.empty() && cuda.form != "cubin" && cuda.form != "ptx") {
    path.field("form").report("expected cubin or ptx");
    return false;
  }
  return true;
}

static bool fromJSON(const json::Value &value, Metadata &metadata, json::Path path) {
  int64_t argumentsBytes, frameBytes, workspaceBytes = 0;
  json::ObjectMapper mapper(value, path);
  if (!mapper || !mapper.map("abi", metadata.abi) || !mapper.map("name", metadata.name) ||
      !mapper.map("symbol", metadata.symbol) || !mapper.mapOptional("check", metadata.check) ||
      !mapper.map("arguments", metadata.arguments) || !mapper.map("arguments_bytes", argumentsBytes) ||
      !mapper.map("frame_bytes", frameBytes) || !mapper.mapOptional("workspace_bytes", workspaceBytes) ||
      !mapper.mapOptional("sites", metadata.sites) || !mapper.mapOptional("waits", metadata.waits) ||
      !mapper.mapOptional("cuda", metadata.cuda))
    return false;
  if (argumentsBytes < 0 || argumentsBytes > (1 << 20) || frameBytes < 0 || workspaceBytes < 0) {
    path.report("expected sizes that are not negative and at most 1 MiB of arguments");
    return false;
  }
  for (const ArgumentSpec &argument : metadata.arguments)
    if (argument.offset + argument.size > uint64_t(argumentsBytes)) {
      path.field("arguments_bytes").report("expected the block to hold every argument");
      return false;
    }
  if (metadata.cuda && (!checkTensorMaps(metadata, path.field("cuda").field("tensor_maps")) ||
                        !readPositive(value, metadata, path.field("cuda").field("positive"))))
    return false;
  metadata.argumentsBytes = argumentsBytes;
  metadata.frameBytes = frameBytes;
  metadata.workspaceBytes = workspaceBytes;
  json::Value kept = owned(value);
  metadata.extra = std::move(*kept.getAsObject());
  if (const json::Object *target = metadata.extra.getObject("target"))
    metadata.target = *target;
  for (llvm::StringRef known : {"abi", "name", "symbol", "target", "check", "arguments", "arguments_bytes",
                                "frame_bytes", "workspace_bytes", "sites", "waits", "cuda"})
    metadata.extra.erase(known);
  return true;
}

} // namespace kiln::artifact

const LaunchNumber *Metadata::findNotPositive(const void *block, const std::array<int64_t, 3> &programs) const {
  for (const LaunchNumber &number : cuda->positive)
    if (number.evaluate(arguments, block, programs).value_or(0) <= 0)
      return &number;
  return nullptr;
}

ErrorOr<Metadata> Metadata::fromJSON(const json::Value &value) {
  Metadata metadata;
  json::Path::Root root("metadata");
  if (!kiln::artifact::fromJSON(value, metadata, root))
    return corrupt(llvm::toString(root.getError()));
  if (metadata.abi != KILN_ABI_VERSION)
    return corrupt(llvm::formatv("expected launch interface {0} (because this runtime speaks it), got {1}",
                                 KILN_ABI_VERSION, metadata.abi)
                       .str());
  return metadata;
}

ErrorOr<Metadata> Metadata::parse(llvm::StringRef text) {
  llvm::Expected<json::Value> value = json::parse(text);
  if (!value)
    return corrupt("metadata is no JSON: " + llvm::toString(value.takeError()));
  return fromJSON(*value);
}
