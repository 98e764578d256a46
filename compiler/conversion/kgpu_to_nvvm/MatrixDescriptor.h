// The matrix descriptor of the PTX ISA, which tells wgmma where an operand lies in shared memory.
#pragma once
#include "dialects/kgpu/KgpuOps.h"

namespace kiln::nvvm {

/// The descriptors of one operand. Bits 0-13: the start of a piece; 16-29: the leading byte offset; 32-45: the stride
/// byte offset; 49-51: zero, since the memory starts at a multiple of 1024; 62-63: the swizzle. Addresses and offsets
/// are in units of 16 bytes.
class MatrixDescriptor {
public:
  /// `depthDim`: the dimension of the memory that is K. `panels`: where M or N is contiguous, every `panels`-th panel
  /// is read.
  MatrixDescriptor(const kgpu::FactorMemory &memory, unsigned depthDim, int64_t elementBytes, int64_t panels = 1);

  /// The upper word, and the lower one without the start address.
  uint32_t high() const;
  uint32_t low() const;
  /// True if M or N is contiguous, not K.
  bool transposed() const { return !memory.depthFastest; }
  /// Bytes from the start of the memory to the piece of one instruction that begins at this element: `across` (along M
  /// or N) is a multiple of 8, or of the swizzle's row where that dimension is contiguous; `depth` is a multiple of the
  /// instruction's K.
  int64_t bytesAt(int64_t across, int64_t depth) const;

  /// How the start address is encoded in its field.
  static constexpr uint32_t kAddressMask = 0x3ffff, kAddressShift = 4;

private:
  kgpu::FactorMemory memory;
  unsigned depthDim;
  int64_t elementBytes, panels;
};

/// The N of successive instructions: multiples of 8 up to 256; for integers, multiples of 16 above 24.
llvm::SmallVector<int64_t, 2> instructionColumns(int64_t columns, bool integers);

} // namespace kiln::nvvm
