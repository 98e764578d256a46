// Assembly forms and folds of the kgpu ops, and what they say about themselves.
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Layout.h"
#include "dialects/tile/CombineSyntax.h"
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

ParseResult PartialReduceOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseCombine(parser, result, "ordered");
}
void PartialReduceOp::print(OpAsmPrinter &p) { printCombine(p, *this, "ordered"); }
ParseResult PartialScanOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseCombine(parser, result, "reverse");
}
void PartialScanOp::print(OpAsmPrinter &p) { printCombine(p, *this, "reverse"); }
ParseResult AddPrefixOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseCombine(parser, result, "reverse");
}
void AddPrefixOp::print(OpAsmPrinter &p) { printCombine(p, *this, "reverse"); }
