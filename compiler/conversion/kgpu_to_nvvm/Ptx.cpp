// Instructions by name: LLVM intrinsics and inline PTX.
#include "compiler/conversion/kgpu_to_nvvm/CodeBuilder.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

Value CodeBuilder::intrinsic(StringRef name, Type result, ValueRange operands) {
  StringAttr attr = getStringAttr(name);
  if (!result) {
    LLVM::CallIntrinsicOp::create(*this, attr, operands);
    return {};
  }
  return LLVM::CallIntrinsicOp::create(*this, result, attr, operands).getResult(0);
}

Registers CodeBuilder::ptx(StringRef text, StringRef constraints, ArrayRef<Type> results, ValueRange operands,
                           bool pure) {
  MLIRContext *context = getContext();
  Type type;
  if (results.size() == 1)
    type = results.front();
  else if (results.size() > 1)
    type = LLVM::LLVMStructType::getLiteral(context, results);
  std::string all = constraints.str();
  if (!pure)
    all += all.empty() ? "~{memory}" : ",~{memory}";
  auto op = LLVM::InlineAsmOp::create(*this, type ? TypeRange(type) : TypeRange(), operands, getStringAttr(text),
                                      getStringAttr(all), pure ? UnitAttr() : getUnitAttr(), UnitAttr(),
                                      LLVM::TailCallKindAttr::get(context, LLVM::tailcallkind::TailCallKind::None),
                                      LLVM::AsmDialectAttr(), ArrayAttr());
  if (results.size() <= 1)
    return type ? Registers{op.getRes()} : Registers();
  Registers values;
  for (unsigned i = 0; i < results.size(); ++i)
    values.push_back(LLVM::ExtractValueOp::create(*this, op.getRes(), ArrayRef<int64_t>{int64_t(i)}));
  return values;
}

/// pmevent counts for a profiler and does nothing else, but ptxas moves neither reads nor arithmetic across it. No
/// document promises that; test/ptxas/test_order.py checks it for the pinned ptxas. (Fences wait; barriers of a warp do
/// not keep ptxas from moving.)
void CodeBuilder::hold() { ptx("pmevent 0;", "", {}, {}); }
