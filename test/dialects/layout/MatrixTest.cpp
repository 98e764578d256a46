// Matrices of eight rows: what ldmatrix and stmatrix do, written out from the PTX ISA, against the plan for a layout.
#include "dialects/layout/Matrix.h"
#include "dialects/layout/Constructors.h"
#include "dialects/layout/Memory.h"
#include "gtest/gtest.h"
#include <map>

using namespace kiln::layout;
using namespace llvm;

namespace {

/// Loads a tile whose elements are the numbers of their memory locations, lane by lane as the instruction does: lane 8
/// m + r gives the address of row r of matrix m; thread t gets, of each matrix, the four bytes at row t / 4, bytes 4 (t
/// % 4) and following; transposed, the halves at rows 2 (t % 4) and 2 (t % 4) + 1, column t / 4.
void checkLoads(const Layout &registers, const Layout &memory, int64_t bytes, bool transposed) {
  std::optional<MatrixRows> matrix = matrixRows(registers, bytes, transposed);
  ASSERT_TRUE(matrix) << registers.print();
  ASSERT_TRUE(keepsRows(*matrix, memory, bytes)) << registers.print() << " in " << memory.print();
  std::optional<MemoryAddress> rows = memoryAddress(matrix->rows, memory);
  std::map<int64_t, int64_t> seen;
  int64_t perRow = 16 / bytes, perWord = 4 / bytes;
  for (int64_t warp = 0; warp < registers.size(Coord::Warp); ++warp)
    for (int64_t i = 0; i < matrix->instructions(); ++i) {
      seen.clear();
      for (unsigned m = 0; m < matrix->matrices; ++m)
        for (int64_t lane = 0; lane < 32; ++lane)
          for (int64_t part = 0; part < perWord; ++part) {
            int64_t row = transposed ? 2 * (lane % 4) + part : lane / 4;
            int64_t column = transposed ? lane / 4 : perWord * (lane % 4) + part;
            Point address = {};
            address[unsigned(Coord::Lane)] = 8 * m + row;
            address[unsigned(Coord::Warp)] = warp;
            address[unsigned(Coord::Reg)] = i * perRow;
            int64_t place = rows->offsetAt(matrix->rows, address) + column;
            EXPECT_EQ((place - column) % perRow, 0);
            Point held = {};
            held[unsigned(Coord::Lane)] = lane;
            held[unsigned(Coord::Warp)] = warp;
            int64_t reg = matrix->words[i * matrix->matrices + m][part];
            held[unsigned(Coord::Reg)] = reg;
            ++seen[reg];
            ASSERT_EQ(memory.at(Coord::Offset, place), registers.at(held))
                << registers.print() << " in " << memory.print() << " lane " << lane << " matrix " << m;
          }
    }
  // Every register comes from exactly one word.
  int64_t total = 0;
  for (const auto &word : matrix->words)
    total += int64_t(word.size());
  EXPECT_EQ(total, registers.registers());
}

TEST(Matrix, OperandsAlongK) {
  for (int64_t bytes : {1, 2, 4})
    for (int64_t swizzle : {32, 64, 128}) {
      int64_t depth = 128 / bytes;
      checkLoads(*mmaOperand({64, depth}, 0, unsigned(8 * bytes), 2, 2), *swizzled({64, depth}, {1, 0}, bytes, swizzle),
                 bytes, false);
      checkLoads(*mmaOperand({depth, 96}, 1, unsigned(8 * bytes), 2, 2), *swizzled({depth, 96}, {0, 1}, bytes, swizzle),
                 bytes, false);
      checkLoads(*wgmmaOperandA({128, depth}, unsigned(8 * bytes), 2), *swizzled({128, depth}, {1, 0}, bytes, swizzle),
                 bytes, false);
    }
}

TEST(Matrix, OperandsAcrossK) {
  for (int64_t swizzle : {32, 64, 128}) {
    checkLoads(*mmaOperand({64, 32}, 0, 16, 2, 2), *swizzled({64, 32}, {0, 1}, 2, std::min<int64_t>(swizzle, 128)), 2,
               true);
    checkLoads(*mmaOperand({32, 64}, 1, 16, 2, 2), *swizzled({32, 64}, {1, 0}, 2, swizzle), 2, true);
  }
}

TEST(Matrix, Accumulators) {
  checkLoads(*wgmmaAccumulator({64, 176}, 1), *swizzled({64, 176}, {1, 0}, 2, 32), 2, false);
  checkLoads(*wgmmaAccumulator({192, 128}, 3), *swizzled({192, 128}, {1, 0}, 2, 128), 2, false);
  checkLoads(*mmaAccumulator({64, 64}, 2, 2), *swizzled({64, 64}, {0, 1}, 2, 128), 2, true);
}

TEST(Matrix, OneMatrixAtATime) {
  // Eight columns and 16 rows are two matrices.
  std::optional<MatrixRows> two = matrixRows(*mmaAccumulator({16, 8}, 1, 1), 2, false);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->matrices, 2u);
  EXPECT_EQ(two->instructions(), 1);
  checkLoads(*mmaAccumulator({16, 8}, 1, 1), rowMajor({16, 8}, {1, 0}), 2, false);
}

TEST(Matrix, NoneForOtherLayouts) {
  Threads threads{4, 1, 1};
  // Unsupported: lanes that repeat elements, 8-byte elements, transposed bytes.
  EXPECT_FALSE(matrixRows(replicated({16, 16}, threads), 2, false));
  EXPECT_FALSE(matrixRows(*mmaAccumulator({64, 64}, 2, 2), 8, false));
  EXPECT_FALSE(matrixRows(*mmaOperand({64, 64}, 0, 8, 2, 2), 1, true));
  // Memory in which the elements of a row are not adjacent.
  std::optional<MatrixRows> matrix = matrixRows(*mmaAccumulator({64, 64}, 2, 2), 2, false);
  ASSERT_TRUE(matrix);
  EXPECT_FALSE(keepsRows(*matrix, rowMajor({64, 64}, {0, 1}), 2));
  EXPECT_TRUE(keepsRows(*matrix, rowMajor({64, 64}, {1, 0}), 2));
}

TEST(Matrix, ChosenMemorySuitsBothSides) {
  // Rows of a load on one side, fragments on the other: no bank conflicts, and 16-byte accesses on both sides.
  for (bool transposed : {false, true})
    for (unsigned side : {0u, 1u}) {
      std::array<int64_t, 2> shape = side == 0 ? std::array<int64_t, 2>{32, 64} : std::array<int64_t, 2>{64, 32};
      Layout store = blocked(shape, transposed == (side == 0) ? ArrayRef<int32_t>{0, 1} : ArrayRef<int32_t>{1, 0}, 8,
                             Threads{4, 1, 1});
      Layout load = *mmaOperand(shape, side, 16, 2, 2);
      Layout memory = chooseMemory(store, load, 2, {/*store=*/false, /*load=*/true});
      BankUse written = bankUse(store, memory, 2);
      EXPECT_EQ(written.vector, 8);
      EXPECT_EQ(written.conflicts(), 0);
      bool found = false;
      for (bool turned : {false, true}) {
        std::optional<MatrixRows> matrix = matrixRows(load, 2, turned);
        if (!matrix || !keepsRows(*matrix, memory, 2))
          continue;
        found = true;
        EXPECT_EQ(bankUse(matrix->rows, memory, 2).conflicts(), 0) << memory.print();
      }
      EXPECT_TRUE(found) << store.print() << " to " << load.print() << " by " << memory.print();
    }
}

} // namespace
