// kiln-line-info: source lines for debuggers and profilers. Source ranges and inlining chains are reduced to the one
// position that a line table holds: the place in the kernel itself, which is the text that the user steps through.
#include "compiler/codegen/Passes.h"
#include "compiler/target/Target.h"
#include "mlir/Dialect/LLVMIR/LLVMAttrs.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/Support/Path.h"

namespace kiln {
#define GEN_PASS_DEF_LINEINFOPASS
#include "compiler/codegen/Passes.h.inc"
} // namespace kiln

using namespace mlir;

/// The outermost source position of `loc`, or null.
static FileLineColRange outermost(Location loc) {
  if (auto range = dyn_cast<FileLineColRange>(loc))
    return range;
  if (auto name = dyn_cast<NameLoc>(loc))
    return outermost(name.getChildLoc());
  if (auto call = dyn_cast<CallSiteLoc>(loc)) {
    FileLineColRange caller = outermost(call.getCaller());
    return caller ? caller : outermost(call.getCallee());
  }
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (FileLineColRange range = outermost(part))
        return range;
  return nullptr;
}

namespace {
struct LineInfo : kiln::impl::LineInfoPassBase<LineInfo> {
  using LineInfoPassBase::LineInfoPassBase;

  void runOnOperation() override {
    emission = kiln::Target::fromModule(getOperation()).isGpu() ? LLVM::DIEmissionKind::DebugDirectivesOnly
                                                                : LLVM::DIEmissionKind::LineTablesOnly;
    for (LLVM::LLVMFuncOp function : getOperation().getOps<LLVM::LLVMFuncOp>())
      if (!function.isExternal())
        annotate(function);
  }

private:
  LLVM::DIEmissionKind emission = LLVM::DIEmissionKind::LineTablesOnly;

  void annotate(LLVM::LLVMFuncOp function) {
    MLIRContext *context = &getContext();
    Builder b(context);
    FileLineColRange start = outermost(function.getLoc());
    if (!start)
      function.walk([&](Operation *op) {
        start = outermost(op->getLoc());
        return start ? WalkResult::interrupt() : WalkResult::advance();
      });
    if (!start)
      return; // Hand-written IR without positions.
    StringRef path = start.getFilename().getValue();
    auto file = LLVM::DIFileAttr::get(context, llvm::sys::path::filename(path), llvm::sys::path::parent_path(path));
    auto unit = LLVM::DICompileUnitAttr::get(DistinctAttr::create(b.getUnitAttr()), llvm::dwarf::DW_LANG_Python, file,
                                             b.getStringAttr("kiln"), /*isOptimized=*/true, emission);
    auto type = LLVM::DISubroutineTypeAttr::get(context, llvm::dwarf::DW_CC_normal, {});
    auto name = b.getStringAttr(function.getName());
    auto scope = LLVM::DISubprogramAttr::get(context, DistinctAttr::create(b.getUnitAttr()), unit, file, name, name,
                                             file, start.getStartLine(), start.getStartLine(),
                                             LLVM::DISubprogramFlags::Definition | LLVM::DISubprogramFlags::Optimized,
                                             type, /*retainedNodes=*/{}, /*annotations=*/{});
    auto place = [&](FileLineColRange range) -> Location {
      return FileLineColLoc::get(range.getFilename(), range.getStartLine(), range.getStartColumn());
    };
    function->setLoc(FusedLoc::get(context, {place(start)}, scope));
    // Operations without a position of their own (loop counters, the instance loop) get the line of their function.
    function.walk([&](Operation *op) {
      if (op == function)
        return;
      FileLineColRange range = outermost(op->getLoc());
      op->setLoc(place(range && range.getFilename() == start.getFilename() ? range : start));
    });
  }
};
} // namespace
