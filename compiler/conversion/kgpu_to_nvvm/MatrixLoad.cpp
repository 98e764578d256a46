#include "compiler/conversion/kgpu_to_nvvm/MatrixLoad.h"
#include "compiler/conversion/kgpu_to_nvvm/Words.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Layout;

// The bytes of a matrix row.
static constexpr int64_t kRowBytes = 16;

std::optional<MatrixPlan> nvvm::planMatrices(const Layout &tile, kgpu::MemType memory, int64_t vector, int64_t align) {
  Type element = memory.getElementType();
  int64_t bytes = memoryBytes(element);
  bool isNumber = isa<FloatType>(element) || (isa<IntegerType>(element) && !element.isInteger(1));
  if (!isNumber || align < kRowBytes || vector * bytes >= kRowBytes)
    return std::nullopt;
  for (bool transposed : {false, true})
    if (auto matrix = layout::matrixRows(tile, bytes, transposed))
      if (layout::keepsRows(*matrix, kgpu::layoutOf(memory), bytes))
        return MatrixPlan{*matrix, transposed};
  return std::nullopt;
}

/// "x4.trans.b16": the number of matrices, and whether they are transposed.
static std::string formOf(const MatrixPlan &plan) {
  return "x" + std::to_string(plan.matrix.matrices) + (plan.transposed ? ".trans.b16" : ".b16");
}

/// Calls `visit` with each instruction's number and this lane's address for it.
static void eachInstruction(Lowering &lowering, const MatrixPlan &plan, kgpu::MemType memory, Value base,
                            llvm::function_ref<void(int64_t, Value)> visit) {
  int64_t bytes = memoryBytes(memory.getElementType()), row = kRowBytes / bytes;
  OffsetMap map(kgpu::layoutOf(memory));
  const Layout &rows = plan.matrix.rows;
  MemoryAddress address(lowering, rows, map, base, bytes);
  for (int64_t i = 0; i < plan.matrix.instructions(); ++i) {
    MemoryPlan::Vector access = accessOf(rows, map, i * row);
    visit(i, address.of(access));
  }
}

Registers nvvm::loadMatrices(Lowering &lowering, const MatrixPlan &plan, kgpu::MemType memory, Value base,
                             int64_t registers) {
  CodeBuilder &b = lowering.b;
  unsigned count = plan.matrix.matrices;
  SmallVector<Type> words(count, b.getI32Type());
  Type result = count == 1 ? words.front() : LLVM::LLVMStructType::getLiteral(b.getContext(), words);
  std::string name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8." + formOf(plan);
  Registers values(registers);
  eachInstruction(lowering, plan, memory, base, [&](int64_t i, Value pointer) {
    Value loaded = b.intrinsic(name, result, {pointer});
    for (unsigned m = 0; m < count; ++m) {
      Value word = loaded;
      if (count > 1)
        word = LLVM::ExtractValueOp::create(b, loaded, ArrayRef<int64_t>{int64_t(m)});
      for (auto [reg, value] :
           llvm::zip_equal(plan.matrix.words[i * count + m], unpackWords(lowering, {word}, memory.getElementType())))
        values[reg] = value;
    }
  });
  return values;
}

void nvvm::storeMatrices(Lowering &lowering, const MatrixPlan &plan, kgpu::MemType memory, Value base,
                         ArrayRef<Value> values) {
  unsigned count = plan.matrix.matrices;
  std::string name = "llvm.nvvm.stmatrix.sync.aligned.m8n8." + formOf(plan);
  eachInstruction(lowering, plan, memory, base, [&](int64_t i, Value pointer) {
    SmallVector<Value> operands = {pointer};
    for (unsigned m = 0; m < count; ++m) {
      SmallVector<Value> held;
      for (int64_t reg : plan.matrix.words[i * count + m])
        held.push_back(values[reg]);
      operands.push_back(packWords(lowering, held).front());
    }
    lowering.b.intrinsic(name, Type(), operands);
  });
}
