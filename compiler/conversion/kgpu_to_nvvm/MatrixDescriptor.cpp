#include "compiler/conversion/kgpu_to_nvvm/MatrixDescriptor.h"

using namespace kiln;
using namespace kiln::nvvm;

// Rows of the swizzle follow each other, eight of them to a pattern. Where the contiguous side is longer than such a
// row, the memory is a sequence of panels of rows.
static constexpr int64_t kPatternRows = 8;

MatrixDescriptor::MatrixDescriptor(const kgpu::FactorMemory &memory, unsigned depthDim, int64_t elementBytes,
                                   int64_t panels)
    : memory(memory), depthDim(depthDim), elementBytes(elementBytes), panels(panels) {}

static uint32_t encode(int64_t bytes) {
  return uint32_t(bytes & MatrixDescriptor::kAddressMask) >> MatrixDescriptor::kAddressShift;
}

uint32_t MatrixDescriptor::high() const {
  uint32_t mode = memory.swizzle == 128 ? 1 : memory.swizzle == 64 ? 2 : 3;
  return mode << 30 | encode(kPatternRows * memory.swizzle);
}

uint32_t MatrixDescriptor::low() const {
  // Along K the hardware finds the next chunks in the same row; along M or N they are in the next panel.
  if (memory.depthFastest)
    return 1u << 16;
  return encode(panels * memory.sides[depthDim] * memory.swizzle) << 16;
}

int64_t MatrixDescriptor::bytesAt(int64_t across, int64_t depth) const {
  int64_t rows = memory.sides[memory.depthFastest ? 1 - depthDim : depthDim];
  int64_t row = memory.depthFastest ? across : depth;
  int64_t inner = (memory.depthFastest ? depth : across) * elementBytes;
  return inner / memory.swizzle * rows * memory.swizzle + row * memory.swizzle + inner % memory.swizzle;
}

llvm::SmallVector<int64_t, 2> nvvm::instructionColumns(int64_t columns, bool integers) {
  llvm::SmallVector<int64_t, 2> pieces;
  while (columns > 0) {
    int64_t piece = std::min<int64_t>(columns, 256);
    if (integers && piece > 24)
      piece = piece / 16 * 16;
    pieces.push_back(piece);
    columns -= piece;
  }
  return pieces;
}
