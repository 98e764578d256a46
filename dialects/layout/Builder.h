// Builds a layout digit by digit, for layouts that no constructor makes.
#pragma once
#include "dialects/layout/Constructors.h"

namespace kiln::layout {

class LayoutBuilder {
public:
  /// Starts without digits.
  explicit LayoutBuilder(llvm::ArrayRef<int64_t> shape) : shape(shape) {}
  /// Starts with the digits of `layout`, for a tile of the same shape or of another shape of the same rank.
  explicit LayoutBuilder(const Layout &layout) : LayoutBuilder(layout, layout.shape()) {}
  LayoutBuilder(const Layout &layout, llvm::ArrayRef<int64_t> shape) : shape(shape), digits(digitsOf(layout)) {}

  Digits &operator[](Coord coord) { return digits[unsigned(coord)]; }
  /// Appends a digit to `coord` that walks `dim` in steps of `step`.
  void push(Coord coord, int64_t radix, unsigned dim, int64_t step) {
    Digit digit{radix, Index(shape.size(), 0)};
    digit.basis[dim] = step;
    (*this)[coord].push_back(digit);
  }
  /// Appends digits with `values` values in all to `coord`, which stay at the same element.
  void replicate(Coord coord, int64_t values) {
    for (; values % 2 == 0; values /= 2)
      push(coord, 2, 0, 0);
    if (values > 1)
      push(coord, values, 0, 0);
  }
  void setSide(unsigned dim, int64_t side) { shape[dim] = side; }

  /// std::nullopt where the digits are no layout of the shape.
  std::optional<Layout> finish() const { return Layout::create(shape, digits); }

private:
  llvm::SmallVector<int64_t, 3> shape;
  std::array<Digits, kNumCoords> digits;
};

} // namespace kiln::layout
