// Target <-> the module attribute `kiln.target`.
#include "compiler/target/Target.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace kiln;

DictionaryAttr Target::toAttr(MLIRContext *context) const {
  Builder b(context);
  SmallVector<Attribute> names;
  for (unsigned i = 0; i < kNumFeatures; ++i)
    if (has(Feature(i)))
      names.push_back(b.getStringAttr(featureName(Feature(i))));
  SmallVector<NamedAttribute> entries = {
      b.getNamedAttr("capabilities", b.getArrayAttr(names)),
      b.getNamedAttr("cpu", b.getStringAttr(cpu)),
      b.getNamedAttr("features", b.getStringAttr(features)),
      b.getNamedAttr("kind", b.getStringAttr(kindName(kind))),
      b.getNamedAttr("name", b.getStringAttr(name)),
      b.getNamedAttr("triple", b.getStringAttr(triple)),
      b.getNamedAttr("vector_bytes", b.getI64IntegerAttr(vectorBytes)),
  };
  if (isGpu()) {
    SmallVector<NamedAttribute> limits;
    for (auto [limit, field] : gpuLimitFields())
      limits.push_back(b.getNamedAttr(limit, b.getI64IntegerAttr(gpu.*field)));
    entries.push_back(b.getNamedAttr("limits", b.getDictionaryAttr(limits)));
  } else {
    entries.push_back(b.getNamedAttr("register_tile", b.getDenseI64ArrayAttr({registerTileRows, registerTileCols})));
    entries.push_back(b.getNamedAttr("vector_registers", b.getI64IntegerAttr(vectorRegisters)));
  }
  return b.getDictionaryAttr(entries);
}

std::optional<Target> Target::fromAttr(DictionaryAttr attr, std::string *error) {
  auto fail = [&](const Twine &message) -> std::optional<Target> {
    if (error)
      *error = message.str();
    return std::nullopt;
  };
  Target target;
  for (auto [key, field] : {std::pair<const char *, std::string *>{"name", &target.name},
                            {"triple", &target.triple},
                            {"cpu", &target.cpu},
                            {"features", &target.features}}) {
    auto value = attr.getAs<StringAttr>(key);
    if (!value)
      return fail(Twine("expected kiln.target to hold the string '") + key + "'");
    *field = value.str();
  }
  auto kind = attr.getAs<StringAttr>("kind");
  if (!kind || (kind.getValue() != "cpu" && kind.getValue() != "cuda"))
    return fail("expected kiln.target's 'kind' to be \"cpu\" or \"cuda\"");
  target.kind = kind.getValue() == "cpu" ? TargetKind::Cpu : TargetKind::Cuda;
  auto bytes = attr.getAs<IntegerAttr>("vector_bytes");
  if (target.isGpu()) {
    auto limits = attr.getAs<DictionaryAttr>("limits");
    if (!bytes || !limits)
      return fail("expected kiln.target to hold 'vector_bytes' and 'limits'");
    for (auto [limit, field] : gpuLimitFields()) {
      auto value = limits.getAs<IntegerAttr>(limit);
      if (!value || value.getInt() < 1)
        return fail("expected kiln.target's 'limits' to hold the positive number '" + limit + "'");
      target.gpu.*field = value.getInt();
    }
    target.vectorBytes = bytes.getInt();
    if (!llvm::isPowerOf2_64(target.vectorBytes) || target.vectorBytes < 16)
      return fail("expected kiln.target's 'vector_bytes' to be a power of two of at least 16");
  } else {
    auto tile = attr.getAs<DenseI64ArrayAttr>("register_tile");
    auto registers = attr.getAs<IntegerAttr>("vector_registers");
    if (!tile || tile.size() != 2 || !bytes || !registers)
      return fail("expected kiln.target to hold 'register_tile' (two numbers), 'vector_bytes' and 'vector_registers'");
    target.registerTileRows = tile[0];
    target.registerTileCols = tile[1];
    target.vectorBytes = bytes.getInt();
    target.vectorRegisters = registers.getInt();
    if (!llvm::isPowerOf2_64(target.vectorBytes) || target.vectorBytes < 16 || tile[0] < 1 || tile[1] < 1)
      return fail("expected kiln.target's 'vector_bytes' to be a power of two of at least 16 and a positive tile");
  }
  auto names = attr.getAs<ArrayAttr>("capabilities");
  if (!names)
    return fail("expected kiln.target to hold the list 'capabilities'");
  for (Attribute entry : names) {
    auto name = dyn_cast<StringAttr>(entry);
    unsigned i = 0;
    while (name && i < kNumFeatures && featureName(Feature(i)) != name.getValue())
      ++i;
    if (!name || i == kNumFeatures)
      return fail("unknown capability in kiln.target");
    target.capabilities |= uint64_t(1) << i;
  }
  return target;
}

Target Target::fromModule(ModuleOp module) {
  if (auto attr = module->getAttrOfType<DictionaryAttr>(kTargetAttrName))
    if (std::optional<Target> target = fromAttr(attr))
      return *target;
  return *lookupTarget("cpu-avx512");
}

void Target::attachTo(ModuleOp module) const { module->setAttr(kTargetAttrName, toAttr(module.getContext())); }
