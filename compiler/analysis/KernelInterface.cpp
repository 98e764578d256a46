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

/// Frames of a location, innermost first, as [file, line, column, function]. `function` is that of the outermost frame.
static void collectFrames(Location loc, StringRef function, Builder &b, SmallVectorImpl<Attribute> &frames) {
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

DictionaryAttr kiln::describeSite(Operation *op, StringRef function) {
  Builder b(op->getContext());
  StringRef kind = "load", message;
  SmallVector<Value> operands;
  bool hex = false;
  ArrayRef<int32_t> isSigned;
  if (auto print = dyn_cast<tile::PrintOp>(op)) {
    kind = "print";
    message = print.getPrefix();
    hex = print.getHex();
    isSigned = print.getIsSigned();
    operands.assign(op->operand_begin(), op->operand_end());
  } else if (auto assertion = dyn_cast<tile::AssertOp>(op)) {
    kind = "assert";
    message = assertion.getMessage();
    operands.push_back(assertion.getCondition());
  } else if (auto store = dyn_cast<tile::StoreOp>(op)) {
    kind = "store";
    operands.push_back(store.getValue());
  } else if (auto store = dyn_cast<tile::DescStoreOp>(op)) {
    kind = "store";
    operands.push_back(store.getValue());
  } else {
    if (isa<tile::AtomicRMWOp, tile::AtomicCASOp>(op))
      kind = "atomic";
    operands.push_back(op->getResult(0));
  }
  SmallVector<Attribute> frames, shown;
  collectFrames(op->getLoc(), function, b, frames);
  for (auto [index, operand] : llvm::enumerate(operands)) {
    std::string type = spellType(getElementTypeOrSelf(operand));
    if (type.front() == 'i' && type != "i1" && index < isSigned.size() && !isSigned[index])
      type.front() = 'u';
    SmallVector<Attribute> shape;
    if (auto tile = dyn_cast<RankedTensorType>(operand.getType()))
      for (int64_t side : tile.getShape())
        shape.push_back(b.getI64IntegerAttr(side));
    shown.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("type", b.getStringAttr(type)), b.getNamedAttr("shape", b.getArrayAttr(shape))}));
  }
  return b.getDictionaryAttr(
      {b.getNamedAttr("kind", b.getStringAttr(kind)), b.getNamedAttr("message", b.getStringAttr(message)),
       b.getNamedAttr("location", b.getArrayAttr(frames)), b.getNamedAttr("operands", b.getArrayAttr(shown)),
       b.getNamedAttr("hex", b.getBoolAttr(hex))});
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
