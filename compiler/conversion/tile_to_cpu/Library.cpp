// Library functions by name: those of libdevice that are ops of the math dialect, and those that the loader defines.
#include "compiler/conversion/tile_to_cpu/ScalarOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "runtime/artifact/HostLibrary.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

namespace {
struct MathFunction {
  StringLiteral name;
  bool isFloat;
  unsigned operands;
  Value (*make)(CodeBuilder &, ValueRange);
};
} // namespace

template <typename Op> static Value unary(CodeBuilder &b, ValueRange operands) { return Op::create(b, operands[0]); }
template <typename Op> static Value binary(CodeBuilder &b, ValueRange operands) {
  return Op::create(b, operands[0], operands[1]);
}

static constexpr MathFunction kMathFunctions[] = {
    {"exp", true, 1, unary<math::ExpOp>},
    {"exp2", true, 1, unary<math::Exp2Op>},
    {"expm1", true, 1, unary<math::ExpM1Op>},
    {"log", true, 1, unary<math::LogOp>},
    {"log2", true, 1, unary<math::Log2Op>},
    {"log10", true, 1, unary<math::Log10Op>},
    {"log1p", true, 1, unary<math::Log1pOp>},
    {"sin", true, 1, unary<math::SinOp>},
    {"cos", true, 1, unary<math::CosOp>},
    {"tan", true, 1, unary<math::TanOp>},
    {"asin", true, 1, unary<math::AsinOp>},
    {"acos", true, 1, unary<math::AcosOp>},
    {"atan", true, 1, unary<math::AtanOp>},
    {"sinh", true, 1, unary<math::SinhOp>},
    {"cosh", true, 1, unary<math::CoshOp>},
    {"tanh", true, 1, unary<math::TanhOp>},
    {"erf", true, 1, unary<math::ErfOp>},
    {"erfc", true, 1, unary<math::ErfcOp>},
    {"sqrt", true, 1, unary<math::SqrtOp>},
    {"rsqrt", true, 1, unary<math::RsqrtOp>},
    {"cbrt", true, 1, unary<math::CbrtOp>},
    {"floor", true, 1, unary<math::FloorOp>},
    {"ceil", true, 1, unary<math::CeilOp>},
    {"trunc", true, 1, unary<math::TruncOp>},
    {"round", true, 1, unary<math::RoundOp>},
    {"rint", true, 1, unary<math::RoundEvenOp>},
    {"nearbyint", true, 1, unary<math::RoundEvenOp>},
    {"fabs", true, 1, unary<math::AbsFOp>},
    {"abs", true, 1, unary<math::AbsFOp>},
    {"pow", true, 2, binary<math::PowFOp>},
    {"atan2", true, 2, binary<math::Atan2Op>},
    {"copysign", true, 2, binary<math::CopySignOp>},
    {"fmod", true, 2, binary<arith::RemFOp>},
    {"fmax", true, 2, binary<arith::MaxNumFOp>},
    {"fmin", true, 2, binary<arith::MinNumFOp>},
    {"div_rn", true, 2, binary<arith::DivFOp>},
    {"div", true, 2, binary<arith::DivFOp>},
    {"fma", true, 3, [](CodeBuilder &b, ValueRange v) -> Value { return math::FmaOp::create(b, v[0], v[1], v[2]); }},
    {"abs", false, 1, unary<math::AbsIOp>},
    {"clz", false, 1, unary<math::CountLeadingZerosOp>},
    {"popc", false, 1, unary<math::CtPopOp>},
};

/// The math op for a function on elements of the operands' type; null if there is none.
static const MathFunction *mathFunction(tile::ExternCallOp op) {
  StringRef name = op.getSymbol();
  // libdevice names functions __nv_NAME (double) and __nv_NAMEf (float); here both mean the elements' own type.
  name.consume_front("__nv_");
  name.consume_front("fast_");
  bool isFloat = isa<FloatType>(elementOf(op.getOperands().front()));
  if (isFloat && name.ends_with("f") && name != "erf")
    name = name.drop_back();
  for (const MathFunction &function : kMathFunctions)
    if (name == function.name && isFloat == function.isFloat && op.getNumOperands() == function.operands)
      return &function;
  return nullptr;
}

static bool hasSignature(StringRef signature, Type result, TypeRange operands) {
  auto is = [](char letter, Type type) {
    type = getElementTypeOrSelf(type);
    switch (letter) {
    case 'f':
      return type.isF32();
    case 'd':
      return type.isF64();
    case 'i':
      return type.isInteger(32);
    default:
      return type.isInteger(64);
    }
  };
  if (signature.size() != operands.size() + 1 || !is(signature.front(), result))
    return false;
  return llvm::all_of(llvm::zip(signature.drop_front(), operands),
                      [&](auto pair) { return is(std::get<0>(pair), std::get<1>(pair)); });
}

bool cpu::isKnownFunction(tile::ExternCallOp op) {
  if (mathFunction(op))
    return true;
  SmallVector<Type> operands = llvm::map_to_vector(op.getOperands(), [](Value value) { return elementOf(value); });
  return llvm::any_of(artifact::hostFunctions, [&](const artifact::HostFunction &function) {
    return op.getSymbol() == function.symbol && hasSignature(function.signature, elementOf(op.getResult()), operands);
  });
}

/// Calls a function that the loader defines, once per lane.
static Value callHost(CodeBuilder &b, tile::ExternCallOp op, ArrayRef<Value> operands) {
  StringRef symbol = op.getSymbol();
  Type result = elementOf(op.getResult());
  SmallVector<Type> types =
      llvm::map_to_vector(operands, [](Value operand) { return getElementTypeOrSelf(operand.getType()); });
  auto module = op->getParentOfType<ModuleOp>();
  auto callee = module.lookupSymbol<LLVM::LLVMFuncOp>(symbol);
  if (!callee) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    callee = LLVM::LLVMFuncOp::create(b, symbol, LLVM::LLVMFunctionType::get(result, types));
    constexpr auto none = LLVM::ModRefInfo::NoModRef;
    callee.setMemoryEffectsAttr(b.getAttr<LLVM::MemoryEffectsAttr>(none, none, none, none, none, none));
    callee.setNoUnwind(true);
    callee.setWillReturn(true);
  }
  auto call = [&](ArrayRef<Value> scalars) { return LLVM::CallOp::create(b, callee, scalars).getResult(); };
  auto vector = dyn_cast<VectorType>(operands.front().getType());
  if (!vector)
    return call(operands);
  Value all = b.zeroOf(vector.clone(result));
  for (int64_t lane = 0; lane < vector.getNumElements(); ++lane) {
    SmallVector<Value> scalars = llvm::map_to_vector(
        operands, [&](Value operand) -> Value { return vector::ExtractOp::create(b, operand, lane); });
    all = vector::InsertOp::create(b, call(scalars), all, lane);
  }
  return all;
}

Value cpu::emitExternCall(CodeBuilder &b, tile::ExternCallOp op, ArrayRef<Value> operands) {
  if (const MathFunction *function = mathFunction(op))
    return function->make(b, operands);
  return callHost(b, op, operands);
}
