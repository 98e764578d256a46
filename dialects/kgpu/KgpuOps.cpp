// Assembly forms and folds of the kgpu ops, and what they say about themselves.
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Layout.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

#define GET_OP_CLASSES
#include "dialects/kgpu/KgpuOps.cpp.inc"

OpFoldResult ConvertOp::fold(FoldAdaptor) {
  return getSource().getType() == getResult().getType() ? OpFoldResult(getSource()) : OpFoldResult();
}

AllocOp kgpu::mailboxOf(Value memory) {
  if (auto slot = memory.getDefiningOp<SlotOp>())
    memory = slot.getMem();
  auto alloc = memory.getDefiningOp<AllocOp>();
  return alloc && alloc.getMailbox() ? alloc : AllocOp();
}

int64_t AllocOp::getTileBytes() { return llvm::alignTo(getMem().getType().getBytes(), kSharedAlign); }

bool LocalStoreOp::crossesCtas() {
  using layout::Coord;
  const layout::Layout &memory = layoutOf(getMem().getType());
  if (fromOneOwner())
    return memory.size(Coord::Cta) > 1;
  // A tile that every cta holds whole, or a memory split as the tile is: each cta keeps what its own threads hold.
  const layout::Layout &tile = layoutOf(getValue().getType());
  auto replicates = [](const layout::Digit &digit) { return digit.replicates(); };
  return !llvm::all_of(tile.digits(Coord::Cta), replicates) && tile.digits(Coord::Cta) != memory.digits(Coord::Cta);
}

//===----------------------------------------------------------------------===//
// Combining ops: `kgpu.partial_reduce(%a, %b) axis 1 ordered { ^bb0(...): ... } : (types) -> (types)`
//===----------------------------------------------------------------------===//

/// `flag` is the unit attribute that may follow the axis.
static ParseResult parseCombine(OpAsmParser &parser, OperationState &result, StringRef flag) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  IntegerAttr axis;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOperandList(operands, OpAsmParser::Delimiter::Paren) || parser.parseKeyword("axis") ||
      parser.parseAttribute(axis, parser.getBuilder().getI32Type(), "axis", result.attributes))
    return failure();
  if (succeeded(parser.parseOptionalKeyword(flag)))
    result.addAttribute(flag, parser.getBuilder().getUnitAttr());
  FunctionType type;
  if (parser.parseRegion(*result.addRegion(), {}) || parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonType(type) || parser.resolveOperands(operands, type.getInputs(), loc, result.operands))
    return failure();
  result.addTypes(type.getResults());
  return success();
}

static void printCombine(OpAsmPrinter &p, Operation *op, IntegerAttr axis, StringRef flag, Region &region) {
  p << "(" << op->getOperands() << ") axis " << axis.getInt();
  if (op->hasAttr(flag))
    p << " " << flag;
  p << " ";
  p.printRegion(region);
  p.printOptionalAttrDict(op->getAttrs(), {"axis", flag});
  p << " : ";
  p.printFunctionalType(op);
}

ParseResult PartialReduceOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseCombine(parser, result, "ordered");
}
void PartialReduceOp::print(OpAsmPrinter &p) { printCombine(p, *this, getAxisAttr(), "ordered", getCombine()); }
ParseResult PartialScanOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseCombine(parser, result, "reverse");
}
void PartialScanOp::print(OpAsmPrinter &p) { printCombine(p, *this, getAxisAttr(), "reverse", getCombine()); }
ParseResult AddPrefixOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseCombine(parser, result, "reverse");
}
void AddPrefixOp::print(OpAsmPrinter &p) { printCombine(p, *this, getAxisAttr(), "reverse", getCombine()); }
