// The layout value: its form, evaluation, ownership and runs.
#include "dialects/layout/Layout.h"
#include "dialects/layout/Bits.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace kiln::layout {

StringRef coordName(Coord coord) {
  static constexpr StringLiteral names[kNumCoords] = {"reg", "lane", "warp", "group", "cta", "offset"};
  return names[unsigned(coord)];
}

std::optional<Side> splitSide(int64_t side) {
  if (side < 1)
    return std::nullopt;
  Side split;
  split.power = side & -side;
  split.odd = side / split.power;
  if (split.odd > 31)
    return std::nullopt;
  return split;
}

bool Digit::replicates() const {
  return llvm::all_of(basis, [](int64_t step) { return step == 0; });
}

//===-- Form -----------------------------------------------------------------------------------------------------===//

std::optional<Layout> Layout::create(ArrayRef<int64_t> shape, std::array<Digits, kNumCoords> digits,
                                     std::string *error) {
  auto refuse = [&](const Twine &text) -> std::optional<Layout> {
    if (error)
      *error = text.str();
    return std::nullopt;
  };
  SmallVector<Side, 3> split;
  for (int64_t side : shape) {
    std::optional<Side> parts = splitSide(side);
    if (!parts)
      return refuse("expected sides 2^k * m with m odd and at most 31, got " + Twine(side));
    split.push_back(*parts);
  }
  TileBits bits(shape);
  if (bits.total > 48)
    return refuse("expected a tile of less than 2^48 elements");
  Span covered;
  SmallVector<bool, 3> oddCovered(shape.size(), false);
  for (unsigned c = 0; c < kNumCoords; ++c) {
    int64_t size = 1;
    for (unsigned position = 0; position < digits[c].size(); ++position) {
      const Digit &digit = digits[c][position];
      auto where = [&] { return (coordName(Coord(c)) + " digit " + Twine(position)).str(); };
      if (digit.basis.size() != shape.size())
        return refuse("expected one step per dimension in " + where() + ", got " + Twine(digit.basis.size()));
      if (digit.radix != 2 && (digit.radix % 2 == 0 || digit.radix < 3 || digit.radix > 31))
        return refuse("expected radix 2 or an odd radix from 3 to 31 in " + where() + ", got " + Twine(digit.radix));
      size *= digit.radix;
      if (size > int64_t(1) << 31)
        return refuse("expected at most 2^31 values of " + coordName(Coord(c)));
      for (unsigned d = 0; d < shape.size(); ++d) {
        int64_t step = digit.basis[d];
        if (step == 0)
          continue;
        if (digit.radix == 2) {
          if (step < 0 || step >= split[d].power)
            return refuse("expected steps below " + Twine(split[d].power) + " along dimension " + Twine(d) + " in " +
                          where() + " (because bits move inside the power of two of a side), got " + Twine(step));
          continue;
        }
        if (step != split[d].power || digit.radix != split[d].odd)
          return refuse("expected a step of " + Twine(split[d].power) + " along a side with the odd part " +
                        Twine(digit.radix) + " in " + where() + ", got " + Twine(step) + " along a side of " +
                        Twine(shape[d]));
        if (oddCovered[d])
          return refuse("expected one digit for the odd part of dimension " + Twine(d) + ", got a second in " +
                        where());
        oddCovered[d] = true;
      }
      if (digit.radix == 2)
        covered.insert(bits.pack(digit.basis));
      else if (llvm::count_if(digit.basis, [](int64_t step) { return step != 0; }) > 1)
        return refuse("expected an odd digit to move along one dimension in " + where());
    }
  }
  for (unsigned d = 0; d < shape.size(); ++d)
    if (split[d].odd > 1 && !oddCovered[d])
      return refuse("expected a digit of radix " + Twine(split[d].odd) + " for dimension " + Twine(d) +
                    " (because every element needs a position)");
  if (covered.dimension() != bits.total)
    return refuse("expected every element to have a position, got positions for 1 of " +
                  Twine(uint64_t(1) << (bits.total - covered.dimension())));
  Layout layout;
  layout.sides.assign(shape.begin(), shape.end());
  layout.table = std::move(digits);
  return layout;
}

hash_code hash_value(const Layout &layout) {
  hash_code hash = hash_combine_range(layout.sides.begin(), layout.sides.end());
  for (const Digits &digits : layout.table) {
    hash = hash_combine(hash, digits.size());
    for (const Digit &digit : digits)
      hash = hash_combine(hash, digit.radix, hash_combine_range(digit.basis.begin(), digit.basis.end()));
  }
  return hash;
}

//===-- Evaluation -----------------------------------------------------------------------------------------------===//

int64_t Layout::size(Coord coord) const {
  int64_t size = 1;
  for (const Digit &digit : digits(coord))
    size *= digit.radix;
  return size;
}

Index Layout::combine(const Index &a, const Index &b) const {
  Index sum;
  for (unsigned d = 0; d < rank(); ++d) {
    int64_t low = (sides[d] & -sides[d]) - 1;
    sum.push_back(((a[d] ^ b[d]) & low) + (a[d] & ~low) + (b[d] & ~low));
  }
  return sum;
}

Index Layout::at(Coord coord, int64_t value) const {
  Index element(rank(), 0);
  for (const Digit &digit : digits(coord)) {
    int64_t step = value % digit.radix;
    value /= digit.radix;
    for (unsigned d = 0; d < rank(); ++d) {
      if (digit.radix == 2)
        element[d] ^= step * digit.basis[d];
      else
        element[d] += step * digit.basis[d];
    }
  }
  return element;
}

Index Layout::at(const Point &point) const {
  Index element(rank(), 0);
  for (unsigned c = 0; c < kNumCoords; ++c)
    if (point[c])
      element = combine(element, at(Coord(c), point[c]));
  return element;
}

//===-- Replication ----------------------------------------------------------------------------------------------===//

/// Digits of `coord` that repeat elements which earlier digits reach: earlier digits of `coord`, and with
/// `acrossCoords` those of earlier coordinates.
static uint64_t repeatedDigits(const Layout &layout, Coord coord, bool acrossCoords) {
  TileBits bits(layout.shape());
  Span reached;
  if (acrossCoords)
    for (unsigned c = 0; c < unsigned(coord); ++c)
      for (const Digit &digit : layout.digits(Coord(c)))
        if (digit.radix == 2)
          reached.insert(bits.pack(digit.basis));
  uint64_t mask = 0;
  for (const auto &[position, digit] : llvm::enumerate(layout.digits(coord))) {
    bool repeats = digit.radix == 2 ? !reached.insert(bits.pack(digit.basis)) : digit.replicates();
    mask |= uint64_t(repeats) << position;
  }
  return mask;
}

uint64_t Layout::ownerMask(Coord coord) const { return repeatedDigits(*this, coord, /*acrossCoords=*/true); }

Layout Layout::withoutReplicatedRegisters() const {
  uint64_t repeated = repeatedDigits(*this, Coord::Reg, /*acrossCoords=*/false);
  Layout result = *this;
  Digits &registers = result.table[unsigned(Coord::Reg)];
  registers.clear();
  for (const auto &[position, digit] : llvm::enumerate(digits(Coord::Reg)))
    if (!(repeated >> position & 1))
      registers.push_back(digit);
  return result;
}

//===-- Runs -----------------------------------------------------------------------------------------------------===//

int64_t Layout::contiguity(unsigned dim) const {
  ArrayRef<Digit> registers = digits(Coord::Reg);
  unsigned run = 0;
  while (run < registers.size() && registers[run].radix == 2) {
    Index step(rank(), 0);
    step[dim] = int64_t(1) << run;
    if (registers[run].basis != step)
      break;
    ++run;
  }
  // Any other digit that moves inside the run would break it.
  for (unsigned c = 0; c < kNumCoords; ++c)
    for (const auto &[position, digit] : llvm::enumerate(digits(Coord(c)))) {
      bool inRun = Coord(c) == Coord::Reg && position < run;
      if (digit.radix == 2 && !inRun && digit.basis[dim])
        run = std::min<unsigned>(run, llvm::countr_zero(uint64_t(digit.basis[dim])));
    }
  return int64_t(1) << run;
}

} // namespace kiln::layout
