// Assembly formats, folds and other methods of the kgpu ops.
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Constructors.h"
#include "dialects/layout/Layout.h"
#include "dialects/tile/CombineSyntax.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

#define GET_OP_CLASSES
#include "dialects/kgpu/KgpuOps.cpp.inc"

OpFoldResult ConvertOp::fold(FoldAdaptor) {
  return getSource().getType() == getResult().getType() ? OpFoldResult(getSource()) : OpFoldResult();
}

static Type transposed(MemType type, ArrayRef<int32_t> order) {
  SmallVector<int64_t> shape;
  for (int32_t dim : order)
    shape.push_back(type.getShape()[dim]);
  auto layout = layout::MapAttr::get(type.getContext(), layoutOf(type).transpose(order));
  return MemType::get(shape, type.getElementType(), layout);
}

void TransOp::build(OpBuilder &builder, OperationState &state, Value mem, ArrayRef<int32_t> order) {
  build(builder, state, transposed(cast<MemType>(mem.getType()), order), mem, order);
}

LogicalResult TransOp::verify() {
  SmallVector<int32_t> sorted(getOrder());
  llvm::sort(sorted);
  if (sorted != llvm::to_vector(llvm::seq<int32_t>(getMem().getType().getRank()))) // trans_c1
    return emitOpError() << "expected an order that names each dimension once (because it is a permutation), got ["
                         << getOrder() << "]";
  if (Type expected = transposed(getMem().getType(), getOrder()); expected != getResult().getType()) // trans_c2
    return emitOpError() << "expected a result of type " << expected << " (because only the indexing changes), got "
                         << getResult().getType();
  return success();
}

AllocOp kgpu::mbarrierOf(Value memory) {
  if (auto slot = memory.getDefiningOp<SlotOp>())
    memory = slot.getMem();
  auto alloc = memory.getDefiningOp<AllocOp>();
  return alloc && alloc.getMbarrier() ? alloc : AllocOp();
}

bool kgpu::isDealt(const layout::Layout &tile, const layout::Layout &memory) {
  using layout::Coord;
  std::optional<layout::ClusterPiece> held = layout::pieceOf(memory);
  if (!held || !held->split || tile.isReplicated(Coord::Lane) || tile.isReplicated(Coord::Warp) ||
      tile.isReplicated(Coord::Group) || tile.isReplicated(Coord::Cta))
    return false;
  int64_t side = held->piece.shape()[*held->split];
  for (Coord coord : {Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta})
    for (const layout::Digit &digit : tile.digits(coord))
      if (digit.basis[*held->split] >= side)
        return false;
  return true;
}

int64_t AllocOp::getTileBytes() { return llvm::alignTo(getMem().getType().getBytes(), kSharedAlign); }

bool LocalStoreOp::crossesCtas() {
  using layout::Coord;
  const layout::Layout &memory = layoutOf(getMem().getType());
  if (fromOneOwner())
    return memory.size(Coord::Cta) > 1;
  // If every cta holds the whole tile, or the memory is split as the tile is, each cta keeps what its own threads hold.
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
