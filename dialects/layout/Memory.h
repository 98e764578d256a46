// Shared memory: where registers of a tile lie in it, how many bank passes that takes, and which memory layout is best.
#pragma once
#include "dialects/layout/Layout.h"

namespace kiln::layout {

/// The offset (in elements) of an element a thread holds: the sum over fields of stride * (XOR of the field's terms and
/// its entry of the register). One field unless an odd digit stands between bits of the offset.
struct MemoryAddress {
  struct Term {
    Coord coord;    ///< of the thread
    unsigned digit; ///< of that coordinate
    int64_t radix;
    int64_t step; ///< the digit's value times this is XORed in
  };
  struct Field {
    int64_t stride = 1;
    int64_t size = 1; ///< its values are below this
    llvm::SmallVector<Term, 12> terms;
    llvm::SmallVector<int64_t, 16> registers; ///< one entry per register
  };
  llvm::SmallVector<Field, 1> offset;
  /// The element is in the memory of the own cta; otherwise `cta` says in whose.
  bool local = true;
  Field cta;

  int64_t offsetAt(const Layout &registers, const Point &point) const;
  int64_t ctaAt(const Layout &registers, const Point &point) const;
};
/// Both layouts are of one shape; nullopt if memory has no place for an element. An element that several ctas keep is
/// read in the own one where that has it.
std::optional<MemoryAddress> memoryAddress(const Layout &registers, const Layout &memory);

/// Elements of the widest access: an aligned run of that many offsets is held by registers of one thread, the same
/// registers in every thread. At most 16 bytes.
int64_t memoryVector(const Layout &registers, const Layout &memory, int64_t elementBytes);

/// What one warp's access of all its registers costs.
struct BankUse {
  int64_t vector = 1;       ///< elements of each access
  int64_t instructions = 0; ///< of a warp
  int64_t wavefronts = 0;   ///< passes over the banks; lanes that want different words of a bank take turns
  int64_t minimum = 0;      ///< wavefronts without conflicts
  int64_t conflicts() const { return wavefronts - minimum; }
};
BankUse bankUse(const Layout &registers, const Layout &memory, int64_t elementBytes);

/// Which side may go by matrices of eight rows (Matrix.h).
struct MatrixUse {
  bool store = false, load = false;
};
/// A layout of shared memory (of each cta, for what `load` reads there) in which registers of layout `store` are
/// written and registers of layout `load` are read with the fewest passes over the banks: unswizzled where that is
/// enough.
Layout chooseMemory(const Layout &store, const Layout &load, int64_t elementBytes, MatrixUse matrices = {});

} // namespace kiln::layout
