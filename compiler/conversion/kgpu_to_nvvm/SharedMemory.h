// Where the elements of a register layout lie in shared memory, and the vectors in which they are accessed.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/kgpu/KgpuDialect.h"

namespace kiln::nvvm {

/// Maps elements of a tile to offsets of a memory layout, by solving for the memory's digits.
class OffsetMap {
public:
  explicit OffsetMap(const layout::Layout &memory);

  /// The offset of an element, in elements.
  int64_t offsetOf(const layout::Index &element) const;
  /// The digits of offsetOf() that are XORs of bits of the element (bit i: digit i of the memory).
  uint64_t bitsOf(const layout::Index &element) const;
  /// A digit of the offset, fastest first: its place value and radix.
  struct Place {
    int64_t value;
    int64_t radix;
    int dim = -1; ///< of an odd digit
  };
  llvm::ArrayRef<Place> places() const { return digits; }
  /// The part of the offset that comes from odd digits.
  int64_t oddOf(const layout::Index &element) const;
  /// The offset that these digits make.
  int64_t valueOf(uint64_t bits) const;

private:
  const layout::Layout &memory;
  llvm::SmallVector<Place, 16> digits;
  llvm::SmallVector<std::pair<uint64_t, uint64_t>, 16> rows; ///< bits of an element, the digits solved for
  llvm::SmallVector<unsigned, 3> firstBit;
  uint64_t pack(const layout::Index &element) const;
};

/// How the registers of a tile are moved to or from memory.
struct MemoryPlan {
  struct Vector {
    int64_t constant = 0;                    ///< offset in elements, added to the thread's part
    uint64_t flip = 0;                       ///< digits that are first XORed into the thread's part
    llvm::SmallVector<int64_t, 8> registers; ///< in the order of memory
  };
  int64_t vector = 1;
  llvm::SmallVector<Vector, 8> accesses;
};
/// Leaves out registers that repeat an element of the same thread. No access is wider than `align` bytes.
MemoryPlan planMemory(const layout::Layout &tile, const OffsetMap &map, int64_t elementBytes, int64_t align);

/// The access that starts with register `reg`.
MemoryPlan::Vector accessOf(const layout::Layout &tile, const OffsetMap &map, int64_t reg);

/// Reads `count` contiguous elements as registers, at an address that is a multiple of their total size.
Registers loadShared(Lowering &lowering, mlir::Type element, int64_t count, mlir::Value pointer);

/// The address (!llvm.ptr<3>) of an access of a plan, given the memory's.
class MemoryAddress {
public:
  MemoryAddress(Lowering &lowering, const layout::Layout &tile, const OffsetMap &map, mlir::Value base,
                int64_t elementBytes);
  mlir::Value of(const MemoryPlan::Vector &access);

private:
  /// The thread's part of the offset in bytes, with some digits flipped; null if it is zero.
  mlir::Value threadBytes(uint64_t flip);

  Lowering &lowering;
  const layout::Layout &tile;
  const OffsetMap &map;
  mlir::Value base;
  int64_t elementBytes;
  llvm::DenseMap<uint64_t, mlir::Value> pointers; ///< by flipped digits
};

} // namespace kiln::nvvm
