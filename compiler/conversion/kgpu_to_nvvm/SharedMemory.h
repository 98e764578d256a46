// Where an element of a register layout lies in shared memory, and in which vectors it gets there.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/kgpu/KgpuDialect.h"

namespace kiln::nvvm {

/// From elements of a tile to offsets of a memory layout: the memory's digits, solved for.
class OffsetMap {
public:
  explicit OffsetMap(const layout::Layout &memory);

  /// The offset of an element, in elements.
  int64_t offsetOf(const layout::Index &element) const;
  /// The bits of offsetOf() that are XORs of bits of the element, as digits of the memory (bit i: digit i), and the
  /// value of the odd digit of each dimension.
  uint64_t bitsOf(const layout::Index &element) const;
  /// Digits of the offset, fastest first: place value and radix.
  struct Place {
    int64_t value;
    int64_t radix;
    int dim = -1; ///< of an odd digit
  };
  llvm::ArrayRef<Place> places() const { return digits; }
  /// The part of the offset that the odd digits make.
  int64_t oddOf(const layout::Index &element) const;
  /// The offset of these digits.
  int64_t valueOf(uint64_t bits) const;

private:
  const layout::Layout &memory;
  llvm::SmallVector<Place, 16> digits;
  llvm::SmallVector<std::pair<uint64_t, uint64_t>, 16> rows; ///< element bits, solved digits
  llvm::SmallVector<unsigned, 3> firstBit;
  uint64_t pack(const layout::Index &element) const;
};

/// How the registers of a tile go to or from memory.
struct MemoryPlan {
  struct Vector {
    int64_t constant = 0;                    ///< offset in elements beside the thread's part
    uint64_t flip = 0;                       ///< digits to be XORed into the thread's part first
    llvm::SmallVector<int64_t, 8> registers; ///< in the order of memory
  };
  int64_t vector = 1;
  llvm::SmallVector<Vector, 8> accesses;
};
/// Registers that repeat an element of the same thread are left out. No access is wider than `align` bytes.
MemoryPlan planMemory(const layout::Layout &tile, const OffsetMap &map, int64_t elementBytes, int64_t align);

/// The access that starts with one register.
MemoryPlan::Vector accessOf(const layout::Layout &tile, const OffsetMap &map, int64_t reg);

/// Reads `count` neighbouring elements as registers, at an address that is a multiple of their bytes.
Registers loadShared(Lowering &lowering, mlir::Type element, int64_t count, mlir::Value pointer);

/// Address (!llvm.ptr<3>) of an access of a plan, given the memory's.
class MemoryAddress {
public:
  MemoryAddress(Lowering &lowering, const layout::Layout &tile, const OffsetMap &map, mlir::Value base,
                int64_t elementBytes);
  mlir::Value of(const MemoryPlan::Vector &access);

private:
  /// The thread's part of the offset in bytes, with some digits flipped; null when there is none.
  mlir::Value threadBytes(uint64_t flip);

  Lowering &lowering;
  const layout::Layout &tile;
  const OffsetMap &map;
  mlir::Value base;
  int64_t elementBytes;
  llvm::DenseMap<uint64_t, mlir::Value> pointers; ///< by flip
};

} // namespace kiln::nvvm
