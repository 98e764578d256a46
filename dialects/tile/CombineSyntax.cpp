#include "dialects/tile/CombineSyntax.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

ParseResult kiln::parseCombine(OpAsmParser &parser, OperationState &result, StringRef flag) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  IntegerAttr axis;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOperandList(operands, OpAsmParser::Delimiter::Paren) || parser.parseKeyword("axis") ||
      parser.parseAttribute(axis, parser.getBuilder().getI32Type(), "axis", result.attributes))
    return failure();
  if (!flag.empty() && succeeded(parser.parseOptionalKeyword(flag)))
    result.addAttribute(flag, parser.getBuilder().getUnitAttr());
  FunctionType type;
  if (parser.parseRegion(*result.addRegion(), {}) || parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonType(type) || parser.resolveOperands(operands, type.getInputs(), loc, result.operands))
    return failure();
  result.addTypes(type.getResults());
  return success();
}

void kiln::printCombine(OpAsmPrinter &p, Operation *op, StringRef flag) {
  p << "(" << op->getOperands() << ") axis " << op->getAttrOfType<IntegerAttr>("axis").getInt() << " ";
  if (!flag.empty() && op->hasAttr(flag))
    p << flag << " ";
  p.printRegion(op->getRegion(0));
  p.printOptionalAttrDict(op->getAttrs(), {"axis", flag});
  p << " : ";
  p.printFunctionalType(op);
}
