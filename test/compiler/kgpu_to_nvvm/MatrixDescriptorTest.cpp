// Matrix descriptors against the canonical layouts of the PTX ISA (9.7.15.5.1.2), written out from its table: the bytes
// that an instruction reads for each element, and the bytes where the memory layout puts it.
#include "compiler/conversion/kgpu_to_nvvm/MatrixDescriptor.h"
#include "compiler/conversion/kgpu_to_nvvm/SharedMemory.h"
#include "dialects/layout/Constructors.h"
#include "mlir/IR/BuiltinTypes.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

namespace {

/// The decoded fields of a descriptor.
struct Fields {
  int64_t start, leading, stride, base, mode;
  explicit Fields(uint64_t bits)
      : start(int64_t(bits & 0x3fff) << 4), leading(int64_t(bits >> 16 & 0x3fff) << 4),
        stride(int64_t(bits >> 32 & 0x3fff) << 4), base(int64_t(bits >> 49 & 7)), mode(int64_t(bits >> 62)) {}
};

/// Where the hardware reads element (mn, k) of a piece. In units of 16 bytes, T elements each, K-major:
/// ((8, m), (T, 2k)) : ((w T, SBO), (1, T)), MN-major: ((T, w, m), (8, k)) : ((1, T, LBO), (w T, SBO)), with w = 8, 4,
/// 2 units of a swizzled row; then address bits 4.. are flipped by bits 7.. of the address.
int64_t readAt(const Fields &fields, bool alongK, int64_t mn, int64_t k, int64_t elementBytes) {
  int64_t units = fields.mode == 1   ? 8
                  : fields.mode == 2 ? 4
                                     : 2,
          flipped = fields.mode == 1   ? 7
                    : fields.mode == 2 ? 3
                                       : 1;
  int64_t perUnit = 16 / elementBytes, row = units * 16, address;
  if (alongK)
    address = mn % 8 * row + mn / 8 * fields.stride + k * elementBytes;
  else
    address = mn % perUnit * elementBytes + mn / perUnit % units * 16 + mn / (perUnit * units) * fields.leading +
              k % 8 * row + k / 8 * fields.stride;
  address += fields.start;
  return address ^ ((address >> 7 & flipped) << 4);
}

void check(MLIRContext &context, int64_t mn, int64_t k, unsigned depthDim, bool alongK, int64_t elementBytes,
           int64_t swizzle, bool integers) {
  std::array<int64_t, 2> shape;
  shape[depthDim] = k;
  shape[1 - depthDim] = mn;
  int32_t fast = alongK ? int32_t(depthDim) : int32_t(1 - depthDim);
  auto layout = layout::swizzled(shape, {fast, 1 - fast}, elementBytes, swizzle);
  if (!layout)
    return;
  Type element = elementBytes == 4   ? Type(Float32Type::get(&context))
                 : elementBytes == 2 ? Type(Float16Type::get(&context))
                                     : Type(IntegerType::get(&context, 8));
  auto type = kgpu::MemType::get(&context, shape, element, layout::MapAttr::get(&context, *layout));
  auto memory = kgpu::factorMemory(type, depthDim);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->depthFastest, alongK);
  EXPECT_EQ(memory->swizzle, swizzle);
  MatrixDescriptor descriptor(*memory, depthDim, elementBytes);
  OffsetMap offsets(*layout);
  // Some address in shared memory, aligned as allocations are.
  constexpr int64_t kBase = 5 * 1024;
  int64_t step = 32 / elementBytes;
  SmallVector<int64_t, 2> pieces =
      depthDim == 0 ? instructionColumns(mn, integers) : SmallVector<int64_t, 2>(mn / 64, 64);
  int64_t first = 0;
  for (int64_t piece : pieces) {
    for (int64_t depth = 0; depth < k; depth += step) {
      uint32_t low = uint32_t(kBase >> 4) | descriptor.low();
      low += uint32_t(descriptor.bytesAt(first, depth) >> 4);
      Fields fields(uint64_t(descriptor.high()) << 32 | low);
      ASSERT_EQ(fields.base, 0);
      for (int64_t i = 0; i < piece; ++i)
        for (int64_t j = 0; j < step; ++j) {
          layout::Index at(2, 0);
          at[depthDim] = depth + j;
          at[1 - depthDim] = first + i;
          ASSERT_EQ(readAt(fields, alongK, i, j, elementBytes), kBase + offsets.offsetOf(at) * elementBytes)
              << "[" << shape[0] << ", " << shape[1] << "] dim " << depthDim << " along K " << alongK << " swizzle "
              << swizzle << " at " << at[0] << ", " << at[1];
        }
    }
    first += piece;
  }
  EXPECT_EQ(first, mn);
}

TEST(MatrixDescriptor, ReadsTheElementsOfTheLayout) {
  MLIRContext context;
  context.loadDialect<kgpu::KgpuDialect, layout::LayoutDialect>();
  for (int64_t swizzle : {128, 64, 32})
    for (int64_t elementBytes : {1, 2, 4})
      for (int64_t steps : {1, 2, 3, 4, 8})
        for (bool alongK : {true, false}) {
          if (!alongK && elementBytes != 2)
            continue;
          int64_t k = steps * 32 / elementBytes;
          for (int64_t n : {8, 16, 24, 40, 64, 96, 112, 128, 160, 176, 192, 248, 256, 512})
            check(context, n, k, 0, alongK, elementBytes, swizzle, elementBytes == 1);
          for (int64_t m : {64, 128, 192, 256})
            check(context, m, k, 1, alongK, elementBytes, swizzle, false);
        }
}

TEST(MatrixDescriptor, FieldsOfKnownTiles) {
  // As in CUTLASS and the PTX ISA's examples: 128-byte rows of K, eight rows take 1024 bytes.
  MatrixDescriptor alongK({128, true, {128, 64}}, 1, 2);
  EXPECT_EQ(alongK.high(), 0x40000040u);
  EXPECT_EQ(alongK.low(), 0x00010000u);
  EXPECT_FALSE(alongK.transposed());
  // Figure 169 of the PTX ISA has rows of 32 bytes; here there are 16 of them, so panels are 512 bytes apart.
  MatrixDescriptor alongN({32, false, {16, 32}}, 0, 2);
  EXPECT_EQ(alongN.high(), 0xc0000010u);
  EXPECT_EQ(alongN.low(), 0x00200000u);
  EXPECT_TRUE(alongN.transposed());
}

TEST(MatrixDescriptor, ColumnsOfInstructions) {
  using Pieces = SmallVector<int64_t, 2>;
  EXPECT_EQ(instructionColumns(176, false), (Pieces{176}));
  EXPECT_EQ(instructionColumns(512, false), (Pieces{256, 256}));
  EXPECT_EQ(instructionColumns(24, true), (Pieces{24}));
  EXPECT_EQ(instructionColumns(40, true), (Pieces{32, 8}));
  EXPECT_EQ(instructionColumns(248, true), (Pieces{240, 8}));
}

} // namespace
