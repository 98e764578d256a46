// The kernel's dynamic shared memory; see SharedWindow.h.
#include "compiler/conversion/kgpu_to_nvvm/SharedWindow.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

/// The period of the swizzles if anything in the kernel is swizzled by address; otherwise the size of the widest
/// access.
static int64_t alignmentOf(func::FuncOp kernel) {
  int64_t align = kgpu::kSharedAlign;
  kernel.walk([&](Operation *op) {
    if (auto alloc = dyn_cast<kgpu::AllocOp>(op))
      align = std::max(align, kgpu::addressAlignment(alloc));
    if (isa<kgpu::ChannelOp>(op))
      align = kgpu::kSwizzleAlign;
  });
  return align;
}

Value SharedWindow::base() {
  if (held->base)
    return held->base;
  auto module = kernel->getParentOfType<ModuleOp>();
  static constexpr StringLiteral name = "shared_memory"; // kernels are kiln_...
  auto symbol = module.lookupSymbol<LLVM::GlobalOp>(name);
  int64_t align = alignmentOf(kernel);
  if (!symbol) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    symbol = LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getI8Type(), 0), /*isConstant=*/false,
                                    LLVM::Linkage::External, name, Attribute(), align, kShared);
  }
  symbol.setAlignment(std::max(align, int64_t(symbol.getAlignment().value_or(1))));
  auto type = LLVM::LLVMPointerType::get(b.getContext(), kShared);
  return held->base = place.atEntry([&] { return LLVM::AddressOfOp::create(b, type, name).getResult(); });
}

Value SharedWindow::address(int64_t offset) {
  if (!held->address) {
    Value base = this->base();
    held->address = place.atEntry([&] { return b.addressOf(base); });
  }
  return offset == 0 ? held->address : arith::AddIOp::create(b, held->address, b.i32(offset)).getResult();
}
