// Facts about the whole kernel that accesses to global memory depend on; see GlobalMemory.h.
#include "compiler/conversion/kgpu_to_nvvm/GlobalMemory.h"
#include "compiler/analysis/Disjoint.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

GlobalMemory::GlobalMemory(func::FuncOp kernel, CodeBuilder &b, Place &place)
    : kernel(kernel), b(b), place(place), overlaps(kgpu::moduleHas(kernel, kgpu::kPdlAttrName)), policies(place) {
  kernel.walk([&](Operation *op) {
    std::optional<GlobalEffect> effect = globalEffect(op);
    Value argument = effect && effect->pointer ? pointerArgument(effect->pointer) : Value();
    if (effect && effect->writes)
      written.insert(argument);
    if (effect && kgpu::flightOf(op))
      copied.insert(argument);
  });
}

bool GlobalMemory::isAlone(BlockArgument argument) {
  if (!kernel.getArgAttr(argument.getArgNumber(), "tile.disjoint") || overlaps || written.contains(Value()))
    return false;
  return !copied.contains(argument) || !written.contains(argument);
}

bool GlobalMemory::isReadOnly(Value pointer) {
  if (overlaps || written.contains(Value()))
    return false;
  Value argument = pointerArgument(pointer);
  return argument && !written.contains(argument) &&
         kernel.getArgAttr(cast<BlockArgument>(argument).getArgNumber(), "tile.disjoint");
}

bool GlobalMemory::mayFollowStore(Operation *op) {
  if (!afterStores)
    afterStores = readsBehindWrites(kernel);
  return afterStores->contains(op);
}

/// The cache policy of an eviction hint, created once.
Value GlobalMemory::evictPolicy(tile::Eviction evict) {
  Value &policy = policies->of[unsigned(evict)];
  if (!policy)
    policy = place.atEntry([&] {
      StringRef text = evict == tile::Eviction::First ? "createpolicy.fractional.L2::evict_first.b64 $0, 1.0;"
                                                      : "createpolicy.fractional.L2::evict_last.b64 $0, 1.0;";
      return b.ptx(text, "=l", b.getI64Type(), {}, /*pure=*/true).front();
    });
  return policy;
}
