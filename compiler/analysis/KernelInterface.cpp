#include "compiler/analysis/KernelInterface.h"
#include "dialects/tile/TileOps.h"

using namespace mlir;
using namespace kiln;

std::string kiln::spellType(Type type) {
  if (auto ptr = dyn_cast<tile::PtrType>(type))
    return "*" + spellType(ptr.getPointee());
  if (auto integer = dyn_cast<IntegerType>(type))
    return "i" + std::to_string(integer.getWidth());
  if (isa<Float8E4M3FNType>(type))
    return "fp8e4nv";
  if (isa<Float8E5M2Type>(type))
    return "fp8e5";
  if (type.isBF16())
    return "bf16";
  return "fp" + std::to_string(type.getIntOrFloatBitWidth());
}

void kiln::collectFrames(Location loc, StringRef function, Builder &b, SmallVectorImpl<Attribute> &frames) {
  if (auto call = dyn_cast<CallSiteLoc>(loc)) {
    collectFrames(call.getCallee(), function, b, frames);
    collectFrames(call.getCaller(), function, b, frames);
  } else if (auto name = dyn_cast<NameLoc>(loc)) {
    collectFrames(name.getChildLoc(), name.getName(), b, frames);
  } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
    if (!fused.getLocations().empty())
      collectFrames(fused.getLocations().front(), function, b, frames);
  } else if (auto file = dyn_cast<FileLineColRange>(loc)) {
    frames.push_back(b.getArrayAttr({file.getFilename(), b.getI64IntegerAttr(file.getStartLine()),
                                     b.getI64IntegerAttr(file.getStartColumn()), b.getStringAttr(function)}));
  }
}

DictionaryAttr kiln::describeArgument(func::FuncOp kernel, unsigned index, int64_t offset, int64_t bytes,
                                      bool written) {
  Builder b(kernel.getContext());
  Type type = kernel.getArgument(index).getType();
  auto name = kernel.getArgAttrOfType<StringAttr>(index, "tile.name");
  auto typeName = kernel.getArgAttrOfType<StringAttr>(index, "tile.type");
  SmallVector<NamedAttribute> entries{
      b.getNamedAttr("name", name ? name : b.getStringAttr("arg" + std::to_string(index))),
      b.getNamedAttr("type", typeName ? typeName : b.getStringAttr(spellType(type))),
      b.getNamedAttr("kind", b.getStringAttr(isa<tile::PtrType>(type) ? "pointer" : "scalar")),
      b.getNamedAttr("offset", b.getI64IntegerAttr(offset)),
      b.getNamedAttr("size", b.getI64IntegerAttr(bytes)),
      b.getNamedAttr("align", b.getI64IntegerAttr(bytes))};
  if (written)
    entries.push_back(b.getNamedAttr("written", b.getBoolAttr(true)));
  if (kernel.getArgAttr(index, "tile.disjoint"))
    entries.push_back(b.getNamedAttr("disjoint", b.getBoolAttr(true)));
  return b.getDictionaryAttr(entries);
}
