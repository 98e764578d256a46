// How warpgroup_mma is told where a factor lies in shared memory: the matrix descriptor of the PTX ISA.
#pragma once
#include "dialects/kgpu/KgpuOps.h"

namespace kiln::nvvm {

/// Descriptors of one factor. Bits 0-13: where a piece starts; 16-29: the leading byte offset; 32-45: the stride byte
/// offset; 49-51: zero, since the memory starts at a multiple of 1024; 62-63: the swizzle. Addresses and offsets count
/// units of 16 bytes.
class MatrixDescriptor {
public:
  /// `depthDim`: which of the two dimensions of the memory is K.
  /// `panels`: along M or N, where those are contiguous, every so manieth panel is read.
  MatrixDescriptor(const kgpu::FactorMemory &memory, unsigned depthDim, int64_t elementBytes, int64_t panels = 1);

  /// The upper word, and the lower one but for the start.
  uint32_t high() const;
  uint32_t low() const;
  /// M or N is contiguous, not K.
  bool transposed() const { return !memory.depthFastest; }
  /// From the start of the memory to the piece of one instruction that begins with this element: `across` (along M or
  /// N) in whole eights, and where those are contiguous in whole rows of the swizzle; `depth` in whole instructions.
  int64_t bytesAt(int64_t across, int64_t depth) const;

  /// The start address as the field has it.
  static constexpr uint32_t kAddressMask = 0x3ffff, kAddressShift = 4;

private:
  kgpu::FactorMemory memory;
  unsigned depthDim;
  int64_t elementBytes, panels;
};

/// Along N one instruction after the other: multiples of 8 up to 256, of integers multiples of 16 beyond 24.
llvm::SmallVector<int64_t, 2> instructionColumns(int64_t columns, bool integers);

} // namespace kiln::nvvm
