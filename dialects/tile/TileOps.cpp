// Assembly formats and memory effects of the tile ops.
#include "dialects/tile/TileOps.h"
#include "dialects/tile/CombineSyntax.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kiln::tile;

#define GET_OP_CLASSES
#include "dialects/tile/TileOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Memory effects. MLIR's passes treat a write to any resource as a write; our analyses look at the resource.
//===----------------------------------------------------------------------===//

using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

/// An effect on global memory through this operand; without one, anywhere.
template <typename Effect> static void global(Effects &effects, OpOperand *pointer = nullptr) {
  if (pointer)
    effects.emplace_back(Effect::get(), pointer, GlobalMemory::get());
  else
    effects.emplace_back(Effect::get(), GlobalMemory::get());
}
static void reads(Effects &effects, OpOperand *pointer = nullptr) { global<MemoryEffects::Read>(effects, pointer); }
static void writes(Effects &effects, OpOperand *pointer = nullptr) { global<MemoryEffects::Write>(effects, pointer); }
static void readsAndWrites(Effects &effects, OpOperand *pointer = nullptr) {
  reads(effects, pointer);
  writes(effects, pointer);
}
static void says(Effects &effects) { effects.emplace_back(MemoryEffects::Write::get(), Report::get()); }
static void keepsItsPlace(Effects &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), Order::get());
  effects.emplace_back(MemoryEffects::Write::get(), Order::get());
}

void LoadOp::getEffects(Effects &effects) {
  reads(effects, &getPtrMutable());
  if (getIsVolatile())
    keepsItsPlace(effects);
}
void StoreOp::getEffects(Effects &effects) { writes(effects, &getPtrMutable()); }
void PrefetchOp::getEffects(Effects &effects) { keepsItsPlace(effects); }
void DescLoadOp::getEffects(Effects &effects) { reads(effects, &getDescMutable()); }
void DescStoreOp::getEffects(Effects &effects) { writes(effects, &getDescMutable()); }
void DescReduceOp::getEffects(Effects &effects) { readsAndWrites(effects, &getDescMutable()); }
void BlockLoadOp::getEffects(Effects &effects) { reads(effects, &getPtrMutable()); }
void BlockStoreOp::getEffects(Effects &effects) { writes(effects, &getPtrMutable()); }
void AtomicRMWOp::getEffects(Effects &effects) { readsAndWrites(effects, &getPtrMutable()); }
void AtomicCASOp::getEffects(Effects &effects) { readsAndWrites(effects, &getPtrMutable()); }
void PrintOp::getEffects(Effects &effects) { says(effects); }
void AssertOp::getEffects(Effects &effects) { says(effects); }
void AssumeOp::getEffects(Effects &effects) { keepsItsPlace(effects); }
void BarrierOp::getEffects(Effects &effects) { keepsItsPlace(effects); }
void LaunchDependentsOp::getEffects(Effects &effects) { keepsItsPlace(effects); }
void WaitForGridOp::getEffects(Effects &effects) { keepsItsPlace(effects); }
void MapOp::getEffects(Effects &effects) {
  WalkResult found = getBody().walk([](MemoryEffectOpInterface nested) {
    SmallVector<MemoryEffects::EffectInstance> its;
    nested.getEffects(its);
    return its.empty() ? WalkResult::advance() : WalkResult::interrupt();
  });
  if (found.wasInterrupted())
    readsAndWrites(effects);
}
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
