// Folds of the tile ops: results that are an existing value or a constant, and chains shortened in place. Rewrites that
// need a new op are in TileCanonicalizations.cpp.
#include "dialects/tile/TileVerifiers.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln::tile;

//===----------------------------------------------------------------------===//
// Pointers and hints
//===----------------------------------------------------------------------===//

OpFoldResult AddPtrOp::fold(FoldAdaptor adaptor) {
  if (matchPattern(adaptor.getOffset(), m_Zero()))
    return getPtr();
  return nullptr;
}

OpFoldResult PtrToIntOp::fold(FoldAdaptor adaptor) {
  if (auto source = getPtr().getDefiningOp<IntToPtrOp>())
    return source.getAddress();
  return nullptr;
}

OpFoldResult IntToPtrOp::fold(FoldAdaptor adaptor) {
  auto source = getAddress().getDefiningOp<PtrToIntOp>();
  if (source && source.getPtr().getType() == getType())
    return source.getPtr();
  return nullptr;
}

OpFoldResult PtrCastOp::fold(FoldAdaptor adaptor) {
  if (getPtr().getType() == getType())
    return getPtr();
  // This also folds a round trip: the shortened cast has equal types and folds away in turn.
  if (auto source = getPtr().getDefiningOp<PtrCastOp>()) {
    getPtrMutable().assign(source.getPtr());
    return getResult();
  }
  return nullptr;
}

OpFoldResult HintOp::fold(FoldAdaptor adaptor) {
  // Analyses see for themselves what divides a constant and which of its elements are equal.
  if (adaptor.getValue())
    return adaptor.getValue();
  auto saysNothing = [](std::optional<ArrayRef<int64_t>> list) {
    return !list || llvm::all_of(*list, [](int64_t entry) { return entry == 1; });
  };
  if (saysNothing(getDivisibility()) && saysNothing(getContiguity()) && saysNothing(getConstancy()))
    return getValue();
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Making tiles
//===----------------------------------------------------------------------===//

OpFoldResult MakeRangeOp::fold(FoldAdaptor adaptor) {
  if (getType().getNumElements() != 1)
    return nullptr;
  return DenseElementsAttr::get(cast<ShapedType>(getType()), Attribute(getStartAttr()));
}

OpFoldResult SplatOp::fold(FoldAdaptor adaptor) {
  if (isa_and_present<IntegerAttr, FloatAttr>(adaptor.getValue()))
    return DenseElementsAttr::get(cast<ShapedType>(getType()), adaptor.getValue());
  auto source = getValue().getDefiningOp<UnsplatOp>();
  if (source && source.getValue().getType() == getType())
    return source.getValue();
  return nullptr;
}

OpFoldResult UnsplatOp::fold(FoldAdaptor adaptor) {
  if (auto constant = dyn_cast_if_present<DenseElementsAttr>(adaptor.getValue()))
    return *constant.getValues<Attribute>().begin();
  Operation *source = getValue().getDefiningOp();
  if (auto splat = dyn_cast_if_present<SplatOp>(source))
    return splat.getValue();
  // A single element is the same in any shape.
  if (isa_and_present<ReshapeOp, ExpandDimsOp, TransOp>(source)) {
    getValueMutable().assign(source->getOperand(0));
    return getResult();
  }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Changing shapes
//===----------------------------------------------------------------------===//

/// The constant in another shape with the same number of elements.
static Attribute reshaped(Attribute value, Type type) {
  auto constant = dyn_cast_if_present<DenseElementsAttr>(value);
  return constant ? constant.reshape(cast<ShapedType>(type)) : DenseElementsAttr();
}

/// A splat constant in any other shape.
static Attribute resized(Attribute value, Type type) {
  auto constant = dyn_cast_if_present<SplatElementsAttr>(value);
  return constant ? constant.resizeSplat(cast<ShapedType>(type)) : DenseElementsAttr();
}

OpFoldResult ExpandDimsOp::fold(FoldAdaptor adaptor) { return reshaped(adaptor.getValue(), getType()); }

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getValue().getType() == getType())
    return getValue();
  if (auto source = getValue().getDefiningOp<BroadcastOp>()) {
    getValueMutable().assign(source.getValue());
    return getResult();
  }
  return resized(adaptor.getValue(), getType());
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getValue().getType() == getType())
    return getValue();
  Operation *source = getValue().getDefiningOp();
  if (isa_and_present<ReshapeOp, ExpandDimsOp>(source)) {
    getValueMutable().assign(source->getOperand(0));
    return getResult();
  }
  return reshaped(adaptor.getValue(), getType());
}

OpFoldResult TransOp::fold(FoldAdaptor adaptor) {
  ArrayRef<int32_t> order = getOrder();
  if (llvm::all_of(llvm::enumerate(order), [](auto entry) { return int32_t(entry.index()) == entry.value(); }))
    return getValue();
  if (auto source = getValue().getDefiningOp<TransOp>()) {
    // Dimension d is order[d] of the tile in between, which is source.order[order[d]] of the first tile.
    setOrder(llvm::map_to_vector(order, [&](int32_t dimension) { return source.getOrder()[dimension]; }));
    getValueMutable().assign(source.getValue());
    return getResult();
  }
  return resized(adaptor.getValue(), getType());
}

OpFoldResult JoinOp::fold(FoldAdaptor adaptor) {
  auto source = getLhs().getDefiningOp<SplitOp>();
  if (source && getLhs() == source.getLhs() && getRhs() == source.getRhs())
    return source.getValue();
  if (adaptor.getLhs() == adaptor.getRhs())
    return resized(adaptor.getLhs(), getType());
  return nullptr;
}

LogicalResult SplitOp::fold(FoldAdaptor adaptor, SmallVectorImpl<OpFoldResult> &results) {
  if (auto source = getValue().getDefiningOp<JoinOp>()) {
    results.assign({source.getLhs(), source.getRhs()});
    return success();
  }
  if (Attribute half = resized(adaptor.getValue(), getLhs().getType())) {
    results.assign({half, half});
    return success();
  }
  return failure();
}

LogicalResult ScanOp::fold(FoldAdaptor adaptor, SmallVectorImpl<OpFoldResult> &results) {
  if (shapeOf(getOperands().front().getType())[getAxis()] != 1)
    return failure();
  llvm::append_range(results, getOperands());
  return success();
}
