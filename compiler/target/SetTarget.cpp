// kiln-set-target: sets the module attribute that every later pass reads.
#include "compiler/target/Passes.h"
#include "compiler/target/Target.h"

namespace kiln {
#define GEN_PASS_DEF_SETTARGETPASS
#include "compiler/target/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {
struct SetTarget : kiln::impl::SetTargetPassBase<SetTarget> {
  using SetTargetPassBase::SetTargetPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (target.empty()) {
      Attribute present = module->getAttr(kTargetAttrName);
      if (!present)
        return hostTarget().attachTo(module);
      std::string error = "expected kiln.target to be a dictionary";
      auto dictionary = dyn_cast<DictionaryAttr>(present);
      if (!dictionary || !Target::fromAttr(dictionary, &error)) {
        module.emitError(error);
        signalPassFailure();
      }
      return;
    }
    if (std::optional<Target> row = lookupTarget(target))
      return row->attachTo(module);
    module.emitError(unknownTargetMessage(target));
    signalPassFailure();
  }
};
} // namespace
