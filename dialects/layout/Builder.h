// A layout made digit by digit, where no constructor has a name for it.
#pragma once
#include "dialects/layout/Constructors.h"

namespace kiln::layout {

class LayoutBuilder {
public:
  /// No digits yet.
  explicit LayoutBuilder(llvm::ArrayRef<int64_t> shape) : shape(shape) {}
  /// Those of `layout`, to be changed: for a tile of the same shape, or of another of the same rank.
  explicit LayoutBuilder(const Layout &layout) : LayoutBuilder(layout, layout.shape()) {}
  LayoutBuilder(const Layout &layout, llvm::ArrayRef<int64_t> shape) : shape(shape), digits(digitsOf(layout)) {}

  Digits &operator[](Coord coord) { return digits[unsigned(coord)]; }
  /// The next digit of `coord` walks `dim` in steps of `step`.
  void push(Coord coord, int64_t radix, unsigned dim, int64_t step) {
    Digit digit{radix, Index(shape.size(), 0)};
    digit.basis[dim] = step;
    (*this)[coord].push_back(digit);
  }
  /// The next digits of `coord`, `values` together, all stand at the same element.
  void replicate(Coord coord, int64_t values) {
    for (; values % 2 == 0; values /= 2)
      push(coord, 2, 0, 0);
    if (values > 1)
      push(coord, values, 0, 0);
  }
  void setSide(unsigned dim, int64_t side) { shape[dim] = side; }

  /// std::nullopt where the digits make no layout of the shape.
  std::optional<Layout> finish() const { return Layout::create(shape, digits); }

private:
  llvm::SmallVector<int64_t, 3> shape;
  std::array<Digits, kNumCoords> digits;
};

} // namespace kiln::layout
