// Assembly forms and memory effects of the tile ops.
#include "dialects/tile/TileOps.h"
#include "dialects/tile/CombineSyntax.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kiln::tile;

#define GET_OP_CLASSES
#include "dialects/tile/TileOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Memory effects: global memory is one resource; print, assert, assume and the ops about other launches are ordered
// with it.
//===----------------------------------------------------------------------===//

using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

static void reads(Effects &effects) { effects.emplace_back(MemoryEffects::Read::get()); }
static void writes(Effects &effects) { effects.emplace_back(MemoryEffects::Write::get()); }
static void readsAndWrites(Effects &effects) {
  reads(effects);
  writes(effects);
}

void LoadOp::getEffects(Effects &effects) {
  reads(effects);
  if (getIsVolatile())
    writes(effects);
}
void StoreOp::getEffects(Effects &effects) { writes(effects); }
void DescLoadOp::getEffects(Effects &effects) { reads(effects); }
void DescStoreOp::getEffects(Effects &effects) { writes(effects); }
void BlockLoadOp::getEffects(Effects &effects) { reads(effects); }
void BlockStoreOp::getEffects(Effects &effects) { writes(effects); }
void AtomicRMWOp::getEffects(Effects &effects) { readsAndWrites(effects); }
void AtomicCASOp::getEffects(Effects &effects) { readsAndWrites(effects); }
void PrintOp::getEffects(Effects &effects) { writes(effects); }
void AssertOp::getEffects(Effects &effects) { writes(effects); }
void AssumeOp::getEffects(Effects &effects) { writes(effects); }
void BarrierOp::getEffects(Effects &effects) { readsAndWrites(effects); }
void LaunchDependentsOp::getEffects(Effects &effects) { readsAndWrites(effects); }
void WaitForGridOp::getEffects(Effects &effects) { readsAndWrites(effects); }
void InlineAsmOp::getEffects(Effects &effects) {
  if (!getIsPure())
    readsAndWrites(effects);
}
void ExternCallOp::getEffects(Effects &effects) {
  if (!getIsPure())
    readsAndWrites(effects);
}

//===----------------------------------------------------------------------===//
// reduce and scan: `tile.reduce(%a, %b) axis 1 { ^bb0(...): ... } : (types) -> (types)`
//===----------------------------------------------------------------------===//

ParseResult ReduceOp::parse(OpAsmParser &parser, OperationState &result) { return parseCombine(parser, result); }
void ReduceOp::print(OpAsmPrinter &p) { printCombine(p, *this); }
ParseResult ScanOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseCombine(parser, result, "reverse");
}
void ScanOp::print(OpAsmPrinter &p) { printCombine(p, *this, "reverse"); }

//===----------------------------------------------------------------------===//
// inline_asm: `tile.inline_asm "add $0, $1;" "=r,r" (%a) portable { ... } : (types) -> (types)`
//===----------------------------------------------------------------------===//

ParseResult InlineAsmOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  StringAttr assembly, constraints;
  Type none = NoneType::get(parser.getContext());
  if (parser.parseAttribute(assembly, none, "assembly", result.attributes) ||
      parser.parseAttribute(constraints, none, "constraints", result.attributes))
    return failure();
  SMLoc loc = parser.getCurrentLocation();
  FunctionType type;
  Region *portable = result.addRegion();
  if (parser.parseOperandList(operands, OpAsmParser::Delimiter::Paren))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("portable")) && parser.parseRegion(*portable, {}))
    return failure();
  if (parser.parseOptionalAttrDict(result.attributes) || parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), loc, result.operands))
    return failure();
  result.addTypes(type.getResults());
  return success();
}

void InlineAsmOp::print(OpAsmPrinter &p) {
  p << " " << getAssemblyAttr() << " " << getConstraintsAttr() << " (" << getOperands() << ")";
  if (!getPortable().empty()) {
    p << " portable ";
    p.printRegion(getPortable());
  }
  SmallVector<StringRef> elided = {"assembly", "constraints"};
  if (getPacked() == 1)
    elided.push_back("packed");
  p.printOptionalAttrDict((*this)->getAttrs(), elided);
  p << " : ";
  p.printFunctionalType(getOperation());
}
