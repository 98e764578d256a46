// Shared memory: where registers of a tile lie in it, how many bank passes that takes, and which memory layout is best.
#pragma once
#include "dialects/layout/Layout.h"

namespace kiln::layout {

/// The offset (in elements) of an element that a thread holds: the sum over fields of stride * (XOR of the field's
/// terms and the register's entry in it). There is one field unless an odd digit stands between bits of the offset.
struct MemoryAddress {
  struct Term {
    Coord coord;    ///< of the thread
    unsigned digit; ///< of that coordinate
    int64_t radix;
    int64_t step; ///< times the digit's value is XORed in
  };
  struct Field {
    int64_t stride = 1;
    int64_t size = 1; ///< an exclusive bound of its values
    llvm::SmallVector<Term, 12> terms;
    llvm::SmallVector<int64_t, 16> registers; ///< one entry per register
  };
  llvm::SmallVector<Field, 1> offset;
  /// The element is in the cta's own memory; otherwise `cta` says whose memory it is in.
  bool local = true;
  Field cta;

  int64_t offsetAt(const Layout &registers, const Point &point) const;
  int64_t ctaAt(const Layout &registers, const Point &point) const;
};
/// Both layouts have the same shape; std::nullopt if the memory has no place for an element. An element that several
/// ctas keep is read from the cta's own memory where that holds it.
std::optional<MemoryAddress> memoryAddress(const Layout &registers, const Layout &memory);

/// Elements of the widest access, at most 16 bytes: the registers of a thread hold aligned runs of that many offsets,
/// and they are the same registers in every thread.
int64_t memoryVector(const Layout &registers, const Layout &memory, int64_t elementBytes);

/// What one warp's access of all its registers costs.
struct BankUse {
  int64_t vector = 1;       ///< elements of each access
  int64_t instructions = 0; ///< per warp
  int64_t wavefronts = 0;   ///< passes over the banks; lanes that access different words of a bank take turns
  int64_t minimum = 0;      ///< wavefronts there would be without conflicts
  int64_t conflicts() const { return wavefronts - minimum; }
};
BankUse bankUse(const Layout &registers, const Layout &memory, int64_t elementBytes);

/// Which side may use instructions on matrices of eight rows (Matrix.h).
struct MatrixUse {
  bool store = false, load = false;
};
/// The layout of shared memory in which registers of layout `store` are written and registers of layout `load` are read
/// with the fewest passes over the banks; unswizzled where that costs no more. Each cta keeps what its own threads
/// load.
Layout chooseMemory(const Layout &store, const Layout &load, int64_t elementBytes, MatrixUse matrices = {});

} // namespace kiln::layout
