#include "compiler/analysis/Exchanged.h"
#include "dialects/kgpu/KgpuOps.h"

using namespace mlir;
using namespace kiln;

Value kiln::exchangedTile(Operation *op) {
  auto load = dyn_cast_or_null<kgpu::LocalLoadOp>(op);
  if (!load)
    return {};
  Value memory = load.getMem(), root = memory;
  while (root.getDefiningOp() && kgpu::isView(root.getDefiningOp()))
    root = root.getDefiningOp()->getOperand(0);
  if (!root.getDefiningOp<kgpu::AllocOp>())
    return {};
  kgpu::LocalStoreOp only;
  for (Value view : kgpu::viewsOf(root))
    for (Operation *user : view.getUsers()) {
      if (isa<kgpu::LocalLoadOp, kgpu::AwaitOp>(user) || kgpu::isView(user))
        continue;
      auto store = dyn_cast<kgpu::LocalStoreOp>(user);
      if (!store || only)
        return {};
      only = store;
    }
  // The same view, so that an element is read where it was written; and written before, in the same iteration.
  if (!only || only.getMem() != memory)
    return {};
  Operation *at = only->getBlock()->findAncestorOpInBlock(*op);
  if (!at || !only->isBeforeInBlock(at))
    return {};
  auto stored = dyn_cast<RankedTensorType>(only.getValue().getType());
  auto loaded = dyn_cast<RankedTensorType>(load.getType());
  bool same =
      stored && loaded && stored.getShape() == loaded.getShape() && stored.getElementType() == loaded.getElementType();
  return same ? only.getValue() : Value();
}
