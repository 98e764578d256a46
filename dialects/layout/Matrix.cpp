#include "dialects/layout/Matrix.h"
#include "dialects/layout/Constructors.h"
#include "dialects/layout/Memory.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace kiln::layout {

static constexpr int64_t kRowBytes = 16, kWordBytes = 4;
// A lane number has five digits: two for the word in its row, three for the row. Two digits pick one of four matrices.
static constexpr unsigned kLaneDigits = 5, kMatrixDigits = 2;

namespace {
/// A digit of the register number, and its stride there.
struct Step {
  Digit digit;
  int64_t stride;
};
} // namespace

std::optional<MatrixRows> matrixRows(const Layout &registers, int64_t elementBytes, bool transposed) {
  bool fits = transposed ? elementBytes == 2 : elementBytes == 1 || elementBytes == 2 || elementBytes == 4;
  ArrayRef<Digit> lanes = registers.digits(Coord::Lane);
  if (!fits || registers.isReplicated(Coord::Reg) || registers.isReplicated(Coord::Lane) ||
      lanes.size() != kLaneDigits || registers.size(Coord::Lane) != int64_t(1) << kLaneDigits)
    return std::nullopt;

  // Register digits: those of a word, those that pick a matrix of one instruction, and those that pick the instruction.
  SmallVector<Step, 8> word, matrix, rest;
  unsigned wordDigits = Log2_64(kWordBytes / elementBytes);
  int64_t stride = 1;
  for (const Digit &digit : registers.digits(Coord::Reg)) {
    bool isBit = digit.radix == 2;
    auto &taken = isBit && word.size() < wordDigits ? word : isBit && matrix.size() < kMatrixDigits ? matrix : rest;
    taken.push_back({digit, stride});
    stride *= digit.radix;
  }
  if (word.size() < wordDigits)
    return std::nullopt;

  std::array<Digits, kNumCoords> digits = digitsOf(registers);
  Digits &inRow = digits[unsigned(Coord::Reg)], &rows = digits[unsigned(Coord::Lane)];
  inRow.clear();
  rows.clear();
  // Two lane digits and the word's own digits lie along one side of the matrix, three lane digits along the other.
  Digits along;
  for (const Step &step : word)
    along.push_back(step.digit);
  along.append({lanes[0], lanes[1]});
  (transposed ? rows : inRow).append(along.begin(), along.end());
  (transposed ? inRow : rows).append({lanes[2], lanes[3], lanes[4]});
  for (const Step &step : matrix)
    rows.push_back(step.digit);
  while (rows.size() < kLaneDigits)
    rows.push_back({2, Index(registers.rank(), 0)});
  int64_t instructions = 1;
  for (const Step &step : rest) {
    inRow.push_back(step.digit);
    instructions *= step.digit.radix;
  }
  std::optional<Layout> layout = Layout::create(registers.shape(), digits);
  if (!layout)
    return std::nullopt;

  MatrixRows result{*layout, 1u << matrix.size(), {}};
  auto registerOf = [](ArrayRef<Step> steps, int64_t value) {
    int64_t reg = 0;
    for (const Step &step : steps) {
      reg += value % step.digit.radix * step.stride;
      value /= step.digit.radix;
    }
    return reg;
  };
  for (int64_t i = 0; i < instructions; ++i)
    for (unsigned m = 0; m < result.matrices; ++m) {
      SmallVector<int64_t, 4> &held = result.words.emplace_back();
      for (int64_t part = 0; part < kWordBytes / elementBytes; ++part)
        held.push_back(registerOf(rest, i) + registerOf(matrix, m) + registerOf(word, part));
    }
  return result;
}

bool keepsRows(const MatrixRows &matrix, const Layout &memory, int64_t elementBytes) {
  std::optional<MemoryAddress> address = memoryAddress(matrix.rows, memory);
  if (!address || !address->local || memoryVector(matrix.rows, memory, elementBytes) * elementBytes != kRowBytes)
    return false;
  ArrayRef<int64_t> entries = address->offset.front().registers;
  for (int64_t i = 0; i < kRowBytes / elementBytes; ++i)
    if (entries[i] != i)
      return false;
  return true;
}

} // namespace kiln::layout
