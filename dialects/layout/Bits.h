// The linear part of layouts as vectors over F2: the bits of all tile coordinates in one word, and spans of such words.
// Private to dialects/layout.
#pragma once
#include "dialects/layout/Layout.h"
#include "llvm/Support/MathExtras.h"

namespace kiln::layout {

/// Numbers the bits of the power-of-two parts of a tile's coordinates: dimension 0 first, low bits first.
struct TileBits {
  llvm::SmallVector<unsigned, 3> first, count;
  unsigned total = 0;

  explicit TileBits(llvm::ArrayRef<int64_t> shape) {
    for (int64_t side : shape) {
      first.push_back(total);
      count.push_back(llvm::countr_zero(uint64_t(side)));
      total += count.back();
    }
  }
  /// The bits of an element's coordinates; odd parts are left out.
  uint64_t pack(const Index &index) const {
    uint64_t bits = 0;
    for (unsigned d = 0; d < index.size(); ++d)
      bits |= (uint64_t(index[d]) & llvm::maskTrailingOnes<uint64_t>(count[d])) << first[d];
    return bits;
  }
  Index unpack(uint64_t bits) const {
    Index index;
    for (unsigned d = 0; d < first.size(); ++d)
      index.push_back(int64_t((bits >> first[d]) & llvm::maskTrailingOnes<uint64_t>(count[d])));
    return index;
  }
};

/// A subspace of F2^64. Each member can be expressed as a sum of the vectors that were inserted.
class Span {
public:
  /// Adds a vector; returns false, changing nothing, when it is a member already.
  bool insert(uint64_t vector) {
    uint64_t combination = uint64_t(1) << inserted;
    reduce(vector, combination);
    if (!vector)
      return false;
    ++inserted;
    for (auto &row : rows)
      if (row.first & (vector & -vector)) {
        row.first ^= vector;
        row.second ^= combination;
      }
    rows.push_back({vector, combination});
    return true;
  }
  bool contains(uint64_t vector) const {
    uint64_t combination = 0;
    reduce(vector, combination);
    return !vector;
  }
  /// Which of the vectors that were added (bit i: the i-th insert that returned true) sum to `vector`.
  std::optional<uint64_t> express(uint64_t vector) const {
    uint64_t combination = 0;
    reduce(vector, combination);
    if (vector)
      return std::nullopt;
    return combination;
  }
  unsigned dimension() const { return rows.size(); }

private:
  void reduce(uint64_t &vector, uint64_t &combination) const {
    for (const auto &row : rows)
      if (vector & (row.first & -row.first)) {
        vector ^= row.first;
        combination ^= row.second;
      }
  }
  llvm::SmallVector<std::pair<uint64_t, uint64_t>, 16> rows; ///< the lowest bit of each is set in no other row
  unsigned inserted = 0;
};

} // namespace kiln::layout
