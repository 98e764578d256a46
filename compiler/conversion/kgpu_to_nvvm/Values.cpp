// How one thread holds values: their types in registers and in memory, and which registers repeat an element.
#include "compiler/conversion/kgpu_to_nvvm/Values.h"
#include "compiler/conversion/kgpu_to_nvvm/CodeBuilder.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Coord;
using layout::Layout;

const Layout *nvvm::layoutOf(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (!tile || !isa_and_nonnull<layout::MapAttr>(tile.getEncoding()))
    return nullptr;
  return &kgpu::layoutOf(type);
}

Type nvvm::memoryType(Type element) {
  if (isa<tile::PtrType, LLVM::LLVMPointerType>(element))
    return LLVM::LLVMPointerType::get(element.getContext(), kGlobal);
  return tile::memoryType(element);
}

Type nvvm::registerType(Type element) {
  if (isa<tile::PtrType>(element))
    return LLVM::LLVMPointerType::get(element.getContext(), kGlobal);
  return element;
}

unsigned nvvm::registerCount(Type type) {
  if (const layout::Layout *layout = layoutOf(type))
    return layout->registers();
  if (auto desc = dyn_cast<tile::DescType>(type))
    return 1 + 2 * desc.getBlock().getRank();
  return isa<kgpu::CursorType>(type) ? 2 : 1;
}

SmallVector<Type> nvvm::registerTypes(Type type) {
  if (auto desc = dyn_cast<tile::DescType>(type)) {
    SmallVector<Type> types(registerCount(type), IntegerType::get(type.getContext(), 64));
    types.front() = LLVM::LLVMPointerType::get(type.getContext(), kGlobal);
    return types;
  }
  if (isa<kgpu::CursorType>(type)) // slot and parity
    return SmallVector<Type>(2, IntegerType::get(type.getContext(), 32));
  if (isa<kgpu::TensorMapType>(type))
    return {IntegerType::get(type.getContext(), 64)};
  return SmallVector<Type>(registerCount(type), registerType(elementOf(type)));
}

//===----------------------------------------------------------------------===//
// Registers that repeat an element
//===----------------------------------------------------------------------===//

/// The first register of this thread with the same element: `reg` with all replicating digits set to zero.
int64_t nvvm::ownerRegister(const Layout &layout, int64_t reg) {
  uint64_t owned = layout.ownerMask(Coord::Reg);
  if (!owned)
    return reg;
  int64_t stride = 1, first = reg;
  for (auto [i, digit] : llvm::enumerate(layout.digits(Coord::Reg))) {
    if (owned >> i & 1)
      first -= reg / stride % digit.radix * stride;
    stride *= digit.radix;
  }
  return first;
}

SmallVector<int64_t> nvvm::ownerRegisters(const Layout &layout) {
  SmallVector<int64_t> owners;
  for (int64_t reg = 0; reg < layout.registers(); ++reg)
    if (isOwnerRegister(layout, reg))
      owners.push_back(reg);
  return owners;
}

void nvvm::repeatOwners(const Layout &layout, Registers &registers) {
  for (int64_t reg = 0; reg < layout.registers(); ++reg)
    registers[reg] = registers[ownerRegister(layout, reg)];
}

Registers nvvm::fromOwners(const Layout &layout, ArrayRef<Value> values) {
  Registers registers(layout.registers());
  for (auto [reg, value] : llvm::zip_equal(ownerRegisters(layout), values))
    registers[reg] = value;
  repeatOwners(layout, registers);
  return registers;
}
