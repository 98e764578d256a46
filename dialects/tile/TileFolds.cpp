// Folds and canonicalisations of the tile ops.
#include "dialects/tile/TileOps.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace kiln::tile;

OpFoldResult AddPtrOp::fold(FoldAdaptor adaptor) { return nullptr; }
OpFoldResult PtrCastOp::fold(FoldAdaptor adaptor) { return nullptr; }
OpFoldResult MakeRangeOp::fold(FoldAdaptor adaptor) { return nullptr; }
OpFoldResult SplatOp::fold(FoldAdaptor adaptor) { return nullptr; }
OpFoldResult UnsplatOp::fold(FoldAdaptor adaptor) { return nullptr; }
OpFoldResult ExpandDimsOp::fold(FoldAdaptor adaptor) { return nullptr; }
OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) { return nullptr; }
OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) { return nullptr; }
OpFoldResult TransOp::fold(FoldAdaptor adaptor) { return nullptr; }
LogicalResult SplitOp::fold(FoldAdaptor adaptor, SmallVectorImpl<OpFoldResult> &results) { return failure(); }
void AddPtrOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {}
void LoadOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {}
void StoreOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {}
void ExpandDimsOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {}
void BroadcastOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {}
void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {}
void AssertOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {}
OpFoldResult PtrToIntOp::fold(FoldAdaptor adaptor) { return nullptr; }
OpFoldResult IntToPtrOp::fold(FoldAdaptor adaptor) { return nullptr; }
OpFoldResult HintOp::fold(FoldAdaptor adaptor) { return nullptr; }
OpFoldResult JoinOp::fold(FoldAdaptor adaptor) { return nullptr; }
LogicalResult ScanOp::fold(FoldAdaptor adaptor, SmallVectorImpl<OpFoldResult> &results) { return failure(); }
void AtomicRMWOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {}
void TransOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {}
void ReduceOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {}
void AssumeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {}
