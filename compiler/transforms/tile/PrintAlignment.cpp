// kiln-print-alignment: prints the analyses' results as attributes, for lit and for the property test that checks each
// claim.
#include "compiler/analysis/Alignment.h"
#include "compiler/transforms/tile/Passes.h"
#include "dialects/tile/TileOps.h"

namespace kiln {
#define GEN_PASS_DEF_PRINTALIGNMENTPASS
#include "compiler/transforms/tile/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

static bool isInteresting(Type type) { return isIntegerLike(type) || isa<tile::PtrType>(getElementTypeOrSelf(type)); }

static std::string describe(const AlignmentAnalysis &analysis, Value value) {
  std::string text;
  llvm::raw_string_ostream os(text);
  const AxisInfo &info = analysis.get(value);
  auto list = [&](StringRef name, auto field) {
    os << name << " [";
    llvm::interleaveComma(info.dims, os, field);
    os << "] ";
  };
  list("group", [&](const AxisDim &dim) { os << dim.group; });
  list("step", [&](const AxisDim &dim) { os << dim.step; });
  list("divisible", [&](const AxisDim &dim) { os << dim.divisibility; });
  if (isIntegerLike(value.getType())) {
    const ConstantIntRanges &range = analysis.ranges().get(value);
    os << "range [" << range.smin() << ", " << range.smax() << "] unsigned [";
    range.umin().print(os, /*isSigned=*/false);
    os << ", ";
    range.umax().print(os, /*isSigned=*/false);
    os << "]";
  } else {
    text.pop_back();
  }
  return text;
}

namespace {
struct PrintAlignment : kiln::impl::PrintAlignmentPassBase<PrintAlignment> {
  void runOnOperation() override {
    AlignmentAnalysis analysis(getOperation());
    Builder builder(&getContext());
    auto annotate = [&](Operation *op, StringRef name, ValueRange values) {
      SmallVector<StringRef> lines;
      SmallVector<std::string> storage;
      for (Value value : values)
        storage.push_back(isInteresting(value.getType()) ? describe(analysis, value) : "");
      if (llvm::all_of(storage, [](const std::string &line) { return line.empty(); }))
        return;
      lines.assign(storage.begin(), storage.end());
      op->setAttr(name, builder.getStrArrayAttr(lines));
    };
    getOperation().walk([&](Operation *op) {
      annotate(op, "kiln.alignment", op->getResults());
      SmallVector<Value> arguments;
      if (op != getOperation())
        for (Region &region : op->getRegions())
          if (!region.empty())
            llvm::append_range(arguments, region.getArguments());
      annotate(op, "kiln.alignment_args", arguments);
    });
    markAllAnalysesPreserved();
  }
};
} // namespace
