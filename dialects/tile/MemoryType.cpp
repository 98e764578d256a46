// How an element is stored in memory.
#include "dialects/tile/MemoryType.h"
#include "dialects/tile/TileDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;

Type tile::memoryType(Type element) {
  bool isByte = element.isInteger(1) || (isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8);
  if (isByte)
    return IntegerType::get(element.getContext(), 8);
  return isa<PtrType>(element) ? Type(IntegerType::get(element.getContext(), 64)) : element;
}

int64_t tile::memoryBytes(Type element) {
  Type type = memoryType(element);
  return type.isIntOrFloat() ? llvm::divideCeil(type.getIntOrFloatBitWidth(), 8) : 8;
}
